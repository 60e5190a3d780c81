"""Finds where the backward pass of a training step begins, and the blocks of its forward pass.

Decides by uses of weights alone: the forward pass uses each weight first, the backward pass uses it again. If a weight
is cast, or otherwise prepared, before any input is used, uses of the result count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from distir.ir import UNKNOWN, Apply, Arg, Call, Function, Module, TensorType, Type, names, operands, results
from distir.ir.calls import callees_first

QUANTISING = frozenset({"QuantizeFloat8", "ScaleToFloat8"})
"""Ops whose results are retained for a whole step if their operands are weights."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """The structure of a training step, by statement numbers of the entry function."""

    blocks: tuple[range, ...]
    """The forward pass up to the last layer, in blocks of about one layer each."""
    turn: int
    """The first statement of the backward pass. The loss is between the last block and this one."""
    prepared: frozenset[str]
    """Values computed from weights alone before any input is used, or by quantisation: both passes use them as
    weights."""


def training_step(module: Module, entry: Function) -> TrainingStep | None:
    """The blocks of a training step; None if no weight is used twice."""
    weights = {p.name: p.type for p in entry.params if "param" in p.roles}
    prepared, source = _prepared(entry, weights)
    replaced = {n for s in entry.body if not prepared.keys().isdisjoint(results(s)) for n in names(operands(s))}
    weights = {name: found for name, found in (weights | prepared).items() if name not in replaced}
    uses: dict[str, list[int]] = {}
    for index, statement in enumerate(entry.body):
        if isinstance(statement, (Apply, Call)):
            for name in dict.fromkeys(source.get(n, n) for n in names(operands(statement)) if n in weights):
                uses.setdefault(name, []).append(index)
    if not uses:
        return None
    last = _last_forward(entry, [places[0] for places in uses.values()])
    again = [place for places in uses.values() for place in places if place > last]
    derived = _derived(module, entry, weights)
    again += [i for i, s in enumerate(entry.body) if i > last and not derived.isdisjoint(names(operands(s)))]
    starts = _starts(entry, weights, last)
    if not again or not starts:
        return None
    bounds = [0, *starts[1:], last + 1]
    return TrainingStep(tuple(range(a, b) for a, b in pairwise(bounds)), min(again), frozenset(prepared))


def _prepared(entry: Function, weights: Mapping[str, Type]) -> tuple[dict[str, Type], dict[str, str]]:
    """Values computed from weights alone at the start of a program, or by quantisation, with approximate types.

    And the weight of each: each pass may quantise it with its own scales.
    """
    found: dict[str, Type] = {}
    source: dict[str, str] = {}
    state = {p.name for p in entry.params if "state" in p.roles}
    is_start = True
    for statement in entry.body:
        used = [*names(operands(statement))]
        if not isinstance(statement, Apply) or not used:
            is_start = False
            continue
        if all(name in state for name in used):
            state.update(statement.results)  # the expected amax values
            continue
        of_weights = used[0] in weights or used[0] in found
        alone = of_weights and all(n in weights or n in found or n in state for n in used)
        is_start = is_start and alone
        if alone and (is_start or statement.op in QUANTISING):
            found |= dict.fromkeys(statement.results, weights.get(used[0], found.get(used[0], UNKNOWN)))
            source |= dict.fromkeys(statement.results, source.get(used[0], used[0]))
    return found, source


def _derived(module: Module, entry: Function, weights: Collection[str]) -> set[str]:
    """Values computed from weights alone, such as transposed ones, in callees too."""
    reached: dict[str, list[frozenset[str]]] = {}
    """By function: the parameters that each result depends on."""
    for function in callees_first(module):
        if function.name == entry.name:
            continue
        of = {p.name: frozenset((p.name,)) for p in function.params}
        for statement in function.body:
            if isinstance(statement, Apply):
                of |= dict.fromkeys(statement.results, _joined(of, statement.args))
            elif isinstance(statement, Call):
                of |= zip(statement.results, _of_call(of, reached, module, statement), strict=True)
        reached[function.name] = [_joined(of, (arg,)) for arg in function.returned]
    found = dict.fromkeys(weights, True)
    for statement in entry.body:
        if isinstance(statement, Apply):
            used = [found.get(name, False) for name in names(statement.args)]
            found |= dict.fromkeys(set(statement.results) - set(weights), bool(used) and all(used))
        elif isinstance(statement, Call):
            params = module.functions[statement.function].params
            given = {p.name: arg for p, arg in zip(params, statement.args, strict=True)}
            for name, depends in zip(statement.results, reached[statement.function], strict=True):
                args = names(tuple(given[param] for param in depends))
                used = [found.get(arg, False) for arg in args]
                found[name] = bool(used) and all(used)
    return {name for name, is_derived in found.items() if is_derived and name not in weights}


def _of_call(
    of: Mapping[str, frozenset[str]], reached: Mapping[str, list[frozenset[str]]], module: Module, call: Call
) -> Iterator[frozenset[str]]:
    given = {p.name: arg for p, arg in zip(module.functions[call.function].params, call.args, strict=True)}
    for depends in reached[call.function]:
        yield _joined(of, tuple(given[param] for param in depends))


def _joined(of: Mapping[str, frozenset[str]], args: tuple[Arg, ...]) -> frozenset[str]:
    return frozenset[str]().union(*(of.get(name, frozenset()) for name in names(args)))


def _last_forward(entry: Function, first: list[int]) -> int:
    """The last statement of the last layer. Layers may share weights, but then they are calls of one function."""
    layers = {s.function for i in first if isinstance(s := entry.body[i], Call)}
    calls = [i for i, s in enumerate(entry.body) if isinstance(s, Call) and s.function in layers]
    return max([*first, *calls])


def _starts(entry: Function, weights: Mapping[str, Type], last: int) -> list[int]:
    """The first statements of blocks: calls that use weights, else ops that use matrices, else any that use weights."""
    users = [i for i in range(last + 1) if weights.keys() & set(names(operands(entry.body[i])))]
    calls = [i for i in users if isinstance(entry.body[i], Call)]
    matrices = [i for i in users if any(_is_matrix(weights.get(n)) for n in names(operands(entry.body[i])))]
    return calls or matrices or users


def _is_matrix(type: Type | None) -> bool:
    return isinstance(type, TensorType) and len(type.shape or ()) > 1
