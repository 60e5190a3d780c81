"""The blocks of a training step's forward pass, and where its backward pass begins.

Phases and layers are stated, or follow. In a program without phases, uses of weights decide: the forward pass uses each
weight first, the backward pass uses it again. Without layers, blocks are calls that use weights, else ops that use
matrices.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from distir.analysis.kinds import moves
from distir.analysis.provenance import Provenance
from distir.ir import Apply, Call, Function, Module, Statement, TensorType, names, operands, results

QUANTISING = frozenset({"QuantizeFloat8", "ScaleToFloat8"})
"""Ops whose results are retained for a whole step if their operands are weights."""

BACKWARD = ("backward", "weight")
"""The phases of a backward pass."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """The structure of a training step, by statement numbers of the entry function."""

    blocks: tuple[range, ...]
    """The forward pass up to the last layer, in blocks of about one layer each."""
    turn: int
    """The first statement of the backward pass that uses a weight, else that calls a function.

    The loss is between the last block and this one.
    """
    prepared: frozenset[str]
    """Values that are weights in another form: both passes use them as weights."""


def training_step(module: Module, entry: Function) -> TrainingStep | None:
    """The blocks of a training step; None if its backward pass is not found, or uses no weight."""
    facts = Provenance(module, entry).of_entry()
    forward = [i for i, found in enumerate(facts) if found.phase == "forward"]
    is_stated = any(found.phase in BACKWARD for found in facts)
    weights = _weights(entry, forward if is_stated else None)
    used = [_used(statement, weights) for statement in entry.body]
    last = max((i for i in forward if used[i]), default=-1) if is_stated else _last_layer(entry, used)
    behind = [i for i in _again(entry, weights, used) if i > last and facts[i].phase != "optimizer"]
    behind += [i for i, found in enumerate(facts) if found.phase in BACKWARD and isinstance(entry.body[i], Call)]
    if not behind:
        return None
    used = used[: last + 1]
    layers = dict[int, int]()
    for index, found in enumerate(facts[: last + 1]):
        if found.layer and found.phase in ("forward", ""):
            layers.setdefault(found.layer, index)
    starts = [*layers.values()] or _starts(entry, used, weights)
    if not starts:
        return None
    bounds = [0, *starts[1:], _last_layer(entry, used) + 1]
    prepared = weights.keys() - {param.name for param in entry.params}
    return TrainingStep(tuple(range(a, b) for a, b in pairwise(bounds)), behind[0], frozenset(prepared))


def _weights(entry: Function, forward: Sequence[int] | None) -> dict[str, bool]:
    """The weights, and values that are weights in another form: whether they are matrices.

    `forward`: statements; None: those before anything is computed with others.
    """
    weights = (p for p in entry.params if "param" in p.roles)
    found = {p.name: isinstance(p.type, TensorType) and len(p.type.shape or ()) > 1 for p in weights}
    for index in range(len(entry.body)) if forward is None else forward:
        statement = entry.body[index]
        if isinstance(statement, Apply) and _is_prepared(statement, found):
            found |= dict.fromkeys(statement.results, found[next(iter(names(statement.args)))])
        elif forward is None:
            break
    return found


def _is_prepared(statement: Apply, weights: Container[str]) -> bool:
    """Whether a statement gives weights in another form."""
    used = [*names(statement.args)]
    if statement.op in QUANTISING:  # with a scale
        return used[0] in weights
    return moves(statement) and bool(used) and all(name in weights for name in used)


def _used(statement: Statement, weights: Container[str]) -> list[str]:
    """The weights that a statement computes with."""
    if isinstance(statement, Apply) and _is_prepared(statement, weights):
        return []
    return [name for name in names(operands(statement)) if name in weights]


def _again(entry: Function, weights: Container[str], used: Sequence[Sequence[str]]) -> list[int]:
    """The statements that use weights, or what is computed of these alone, such as a transposed one."""
    alone = set[str]()
    found: list[int] = []
    for index, statement in enumerate(entry.body):
        given = [*names(operands(statement))]
        if used[index] or not alone.isdisjoint(given):
            found.append(index)
        if isinstance(statement, Apply) and given and all(name in weights or name in alone for name in given):
            alone.update(results(statement))
    return found


def _last_layer(entry: Function, used: Sequence[Sequence[str]]) -> int:
    """The last statement of the last layer: the last first use of a weight.

    Layers may share weights, but then they are calls of one function.
    """
    first = dict[str, int]()
    for index, weights in enumerate(used):
        first |= {name: index for name in weights if name not in first}
    layers = {s.function for i in first.values() if isinstance(s := entry.body[i], Call)}
    calls = (i for i in range(len(used)) if isinstance(s := entry.body[i], Call) and s.function in layers)
    return max([*first.values(), *calls], default=-1)


def _starts(entry: Function, used: Sequence[Sequence[str]], weights: Mapping[str, bool]) -> list[int]:
    """The first statements of blocks: calls that use weights, else ops that use matrices, else any that use weights."""
    users = [i for i, found in enumerate(used) if found]
    calls = [i for i in users if isinstance(entry.body[i], Call)]
    return calls or [i for i in users if any(map(weights.get, used[i]))] or users
