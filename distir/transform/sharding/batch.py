"""Finds the batch: every dimension, in every function, that equals the batch of the entry function's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from distir.analysis import Analysis, Instance
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Arg, Call, Function, Site, SymbolicDim, TensorType
from distir.ir.deep import Deep, finish
from distir.ops import Value
from distir.transform.sharding.classes import Place, is_one
from distir.transform.sharding.flow import Flow

Places = dict[Place, None]
"""Dimensions of a function's values, in the order in which the values are made."""


def batch_places(analysis: Analysis, entry: Function, batch: Mapping[str, int]) -> BatchPlaces:
    """The batch dimensions by function. `batch` maps the entry function's inputs to their batch axes."""
    vs = tuple(p.type for p in entry.params)
    found = BatchPlaces(analysis, Flow(analysis.domain, likeliest=True, unknown=_is_named(entry, batch)))
    found.follow(entry, vs, [(name, (), axis) for name, axis in batch.items()])
    return found


def _is_named(entry: Function, batch: Mapping[str, int]) -> bool:
    """Whether no input has a batch of known size: then no dimension of known size is the batch."""
    inputs = ((p.type, batch[p.name]) for p in entry.params if p.name in batch)
    shapes = ((found.shape, axis) for found, axis in inputs if isinstance(found, TensorType))
    return all(shape is not None and isinstance(shape[axis], SymbolicDim) for shape, axis in shapes)


def tokens(analysis: Analysis, entry: Function) -> Mapping[str, Places]:
    """The batch dimensions by function, from the inputs' roles. Raises ProgramError if no input declares a batch."""
    batch = {p.name: axis for p in entry.params if isinstance(axis := p.roles.get("batch"), int)}
    if not batch:
        raise ProgramError([no_batch(entry)])
    return batch_places(analysis, entry, batch).places


def no_batch(entry: Function) -> Diagnostic:
    """The error for a program in which no input declares a batch."""
    message = f"no parameter of `@{entry.name}` is marked `{{batch = …}}`"
    hint = "mark the inputs, as in `%x: Tensor[Float32, (64, 768), 1] {batch = 0}`"
    return Diagnostic(codes.NO_BATCH, Site(entry.name), message, (), hint)


@dataclass
class BatchPlaces:
    """The batch dimensions by function, in any call of it."""

    analysis: Analysis
    flow: Flow
    places: dict[str, Places] = field(default_factory=dict[str, Places])
    instances: dict[str, list[Instance]] = field(default_factory=dict[str, list[Instance]])
    _seen: set[tuple[str, tuple[Value, ...], frozenset[Place]]] = field(
        default_factory=set[tuple[str, tuple[Value, ...], frozenset[Place]]]
    )

    def follow(self, function: Function, vs: tuple[Value, ...], seeds: Iterable[Place]) -> None:
        """Find every dimension that equals the seeds, in the function and in its callees."""
        finish(self._follow(function, vs, seeds))

    def _follow(self, function: Function, vs: tuple[Value, ...], seeds: Iterable[Place]) -> Deep[None]:
        alike = self.analysis.domain.replicas.key(function.name, vs)
        key = (*((function.name, vs) if alike is None else alike[0]), frozenset(seeds))
        if key in self._seen:  # possibly on other devices
            return
        self._seen.add(key)
        settled = self.flow.function(function, vs)
        classes = {of for seed in key[2] for of, _ in settled.places.get(seed, ())}
        here = {place: None for place, pieces in settled.places.items() if is_one(pieces) and pieces[0][0] in classes}
        self.places.setdefault(function.name, {}).update(here)
        instance = self.analysis.domain.instance(function.name, vs)
        self.instances.setdefault(function.name, []).append(instance)
        by_name: dict[str, list[Place]] = {}
        for place in here:
            by_name.setdefault(place[0], []).append(place)
        for statement in function.body:
            if isinstance(statement, Call):
                callee = self.analysis.module.functions[statement.function]
                outside: tuple[Arg, ...] = (*statement.args, *statement.results)
                ends = zip(outside, (*(p.name for p in callee.params), *callee.returned), strict=True)
                inner = [
                    (there, path, axis)
                    for name, there in ends
                    if isinstance(name, str) and isinstance(there, str)
                    for _, path, axis in by_name.get(name, ())
                ]
                if inner:
                    yield self._follow(callee, instance.state(statement.args), inner)
