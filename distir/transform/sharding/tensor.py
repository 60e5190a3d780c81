"""Tensor parallelism: which dimensions of the parameters are split.

Those that no input of the program has and that nothing needs whole: the width inside a perceptron, the heads of
attention, the vocabulary. A matrix that makes such a dimension is split by columns, the one that sums over it by rows,
and so is all between them (Shoeybi et al., *Megatron-LM*, 2019), but that is found from the dimensions, not sought.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from distir.analysis import Analysis
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.spelling import nearest
from distir.ir import Function, Param, Part, Site, TensorType, TupleType, Type
from distir.ir.roles import is_held
from distir.ops.layout import Blocks
from distir.transform.sharding.classes import Place, Settled, Traits
from distir.transform.sharding.flow import Flow
from distir.transform.sharding.shares import Reasons
from distir.transform.sharding.sizes import check_divides, divisors
from distir.transform.sharding.state import WHOLE, Split, State


@dataclass(slots=True)
class Candidate:
    """A class of dimensions that could be split. `places`: those of parameters, with their blocks."""

    number: int
    traits: Traits
    places: list[tuple[Place, Blocks]] = field(default_factory=list[tuple[Place, Blocks]])
    covered: int = 0
    """How many numbers the parameters hold that would be split."""


def parameter_states(
    analysis: Analysis, entry: Function, size: int, by_hand: Sequence[str], flow: Flow | None = None
) -> list[State]:
    """A state for each parameter of the entry function. Raises ProgramError where nothing can be split so.

    `flow`: one over the same analysis, which may know the functions that are called.
    """
    stated = _stated(entry, by_hand)
    settled = (flow or Flow(analysis.domain)).function(entry, [p.type for p in entry.params])
    chosen = _stated_classes(entry, stated, settled, size) if stated else _chosen(entry, settled, size)
    split = {place: blocks for candidate in chosen for place, blocks in candidate.places}
    return [_state(p.name, p.type, split) for p in entry.params]


def reasons(
    analysis: Analysis, entry: Function, states: Sequence[State], size: int, by_hand: Sequence[str], flow: Flow
) -> Reasons:
    """Why `parameter_states` has split no more than it has."""
    settled = flow.function(entry, [p.type for p in entry.params])
    split = {p.name: state.axis for p, state in zip(entry.params, states, strict=True) if isinstance(state, Split)}
    chosen = frozenset(settled.places[name, (), axis][0] for name, axis in split.items())
    return Reasons(settled, _inputs(entry, settled), chosen, size, bool(by_hand))


def _inputs(entry: Function, settled: Settled) -> dict[int, str]:
    """By class of dimensions: an input of the program that has it."""
    inputs = {p.name for p in entry.params if not is_held(p)}
    return {of: name for (name, _, _), (of, _) in settled.places.items() if name in inputs}


def _chosen(entry: Function, settled: Settled, size: int) -> list[Candidate]:
    """The classes to split, none of which is at odds with another.

    Those come first that split most numbers of parameters for each time that they are summed over.
    """
    reached = _inputs(entry, settled)
    open_classes = [c for c in _candidates(entry, settled) if not c.traits.whole and c.number not in reached]
    chosen: list[Candidate] = []
    numbers: set[int] = set()
    indivisible: list[Candidate] = []
    for candidate in sorted(open_classes, key=lambda c: (-c.covered / max(c.traits.sums, 1), c.traits.sums)):
        if any(frozenset((candidate.number, other)) in settled.conflicts for other in numbers):
            continue
        if all(n % size == 0 for n in candidate.traits.sizes):
            chosen.append(candidate)
            numbers.add(candidate.number)
        elif candidate.traits.sums and not candidate.traits.parted:  # a vocabulary, or classes, may stay whole
            indivisible.append(candidate)
    if indivisible:
        raise ProgramError([_indivisible(entry, indivisible[0], indivisible + chosen, size)])
    if not chosen:
        message = f"no dimension of a parameter of `@{entry.name}` can be split over {size} devices"
        hint = "state a split by hand, as in `shard=w1:1,w2:0`"
        if not any("param" in p.roles for p in entry.params):
            hint = "mark the parameters, as in `%w: Tensor[Float32, (768, 768), 1] {param}`"
        raise ProgramError([Diagnostic(codes.NOTHING_TO_SPLIT, Site(entry.name), message, (), hint)])
    return chosen


def _candidates(entry: Function, settled: Settled) -> Iterable[Candidate]:
    """Every class that a parameter has, in the order of the parameters."""
    found: dict[int, Candidate] = {}
    weights = {p.name for p in entry.params if "param" in p.roles}
    by_name: dict[str, list[Place]] = {}
    for place in settled.places:
        by_name.setdefault(place[0], []).append(place)
    for param in entry.params:
        for place in by_name.get(param.name, []) if param.name in weights else []:
            of, _ = settled.places[place]
            candidate = found.setdefault(of, Candidate(of, settled.traits[of]))
            candidate.covered += _elements(param.type, place[1])
    for param in entry.params:  # the optimizer's state goes with the weights
        for place in by_name.get(param.name, []):
            of, blocks = settled.places[place]
            if of in found:
                found[of].places.append((place, blocks))
    return found.values()


def _elements(type: Type, path: tuple[int, ...]) -> int:
    """How many numbers a leaf holds; 1 if that is not known."""
    leaf = type
    for k in path:
        assert isinstance(leaf, TupleType)
        leaf = leaf.items[k]
    elements = leaf.elements if isinstance(leaf, TensorType) else None
    return elements if isinstance(elements, int) else 1


def _indivisible(entry: Function, candidate: Candidate, others: Iterable[Candidate], size: int) -> Diagnostic:
    (name, _, axis), _ = candidate.places[0]
    index = next(i for i, p in enumerate(entry.params) if p.name == name)
    sizes = sorted(n for n in candidate.traits.sizes if n % size)
    message = f"`%{name}` dimension {axis} is to be split, and {_listed(sizes)} does not split over {size} devices"
    common = math.gcd(*(n for c in others for n in c.traits.sizes))
    site = Site(entry.name, None, Part("param_type", index))
    return Diagnostic(codes.INDIVISIBLE_SPLIT, site, message, (), f"{divisors(common)} would do")


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes[:-1])) + (" or " if sizes[1:] else "") + str(sizes[-1])


def _stated(entry: Function, by_hand: Sequence[str]) -> dict[str, int]:
    """Splits stated by hand: from a parameter's name to a dimension. Raises ProgramError for what is none."""
    found: dict[str, int] = {}
    for word in by_hand:
        name, _, axis = word.removeprefix("%").rpartition(":")
        if not name or not axis.lstrip("-").isdecimal():
            raise _bad(entry, f"expected a parameter and a dimension, as in `w1:1`, found `{word}`")
        if name not in {p.name for p in entry.params}:
            near = nearest(name, [p.name for p in entry.params])
            hint = f"did you mean `%{near}`?" if near else None
            raise _bad(entry, f"`@{entry.name}` has no parameter `%{name}`", hint)
        found[name] = int(axis)
    return {name: _axis(entry, name, axis) for name, axis in found.items()}


def _axis(entry: Function, name: str, axis: int) -> int:
    param = next(p for p in entry.params if p.name == name)
    shape = param.type.shape if isinstance(param.type, TensorType) else None
    if shape is None or not -len(shape) <= axis < len(shape):
        raise _bad(entry, f"`%{name}: {param.type}` has no dimension {axis}")
    return axis % len(shape)


def _bad(entry: Function, message: str, hint: str | None = None) -> ProgramError:
    return ProgramError([Diagnostic(codes.BAD_SPLIT, Site(entry.name), message, (), hint)])


def _stated_classes(entry: Function, stated: Mapping[str, int], settled: Settled, size: int) -> list[Candidate]:
    """Only what is stated is split, of the optimizer's state what belongs to it; blocks are found all the same."""
    found: list[Candidate] = []
    state = {p.name for p in entry.params if "state" in p.roles}
    for index, param in enumerate(entry.params):
        if param.name not in stated:
            continue
        place = (param.name, (), stated[param.name])
        of, blocks = settled.places[place]
        site = Site(entry.name, None, Part("param_type", index))
        for dim in (_size(param, place[2]), *blocks):
            check_divides(dim, size, f"`%{param.name}` dimension {place[2]}", site)
        places = [(place, blocks)]
        places += [(p, b) for p, (o, b) in settled.places.items() if o == of and p[0] in state]
        found.append(Candidate(of, settled.traits[of], places))
    return found


def _size(param: Param, axis: int) -> int | None:
    shape = param.type.shape if isinstance(param.type, TensorType) else None
    dim = shape[axis] if shape is not None else None
    return dim if isinstance(dim, int) else None


def _state(name: str, type: Type, split: Mapping[Place, Blocks], path: tuple[int, ...] = ()) -> State:
    if isinstance(type, TupleType):
        return tuple(_state(name, item, split, (*path, k)) for k, item in enumerate(type.items))
    for axis in range(len(type.shape or ()) if isinstance(type, TensorType) else 0):
        if (name, path, axis) in split:
            return Split(axis, split[name, path, axis])
    return WHOLE
