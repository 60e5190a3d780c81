"""Sends of values that every device holds whole: each device sends one part, and the parts are gathered on arrival."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from distir.ir import DISCARD, HOST, Apply, Attributes, TensorType, TupleType, Type
from distir.ops import Value, item_of, type_of
from distir.placement.along import PARTIAL, WHOLE, Split, State
from distir.transform.sharding.items import Collective, Each
from distir.transform.sharding.reshard import Resharding


def parts_to_send(value: Value, state: State, size: int, *, scattered: bool) -> State | None:
    """The state in which a value is sent in parts to `size` devices; None where every device sends what it has.

    `scattered`: a partial sum is scattered as it is sent; not where sums are spread along the tokens anyway.
    """
    found = type_of(value)
    if isinstance(found, TupleType):
        states = state if isinstance(state, tuple) else (state,) * len(found.items)
        pairs = zip(found.items, states, strict=True)
        parts = [_part_to_send(item, of, size, scattered=scattered) for item, of in pairs]
        return None if parts == list(states) else tuple(parts)
    part = _part_to_send(found, state, size, scattered=scattered)
    return None if part == state else part


def _part_to_send(found: Type, state: State, size: int, *, scattered: bool) -> State:
    whole = state is WHOLE or (state is PARTIAL and scattered)
    if not whole or not isinstance(found, TensorType) or found.device == HOST:
        return state
    divides = [isinstance(dim, int) and dim and dim % size == 0 for dim in found.shape or ()]
    # The first dimension last: it is mostly that of the batch, which data parallelism splits.
    axis = next((axis for axis in (*range(1, len(divides)), 0) if divides and divides[axis]), None)
    return state if axis is None else Split(axis)


def send_in_parts(body: Resharding, statement: Apply, before: State, parts: State, w: Value) -> None:
    """Append a send of a part by each device, and a gather after it."""
    (result,) = statement.results
    if result == DISCARD:
        result = body.fresh("unused")
    part = body.fresh(f"{result}_sent")
    arg = body.placed(statement.args[0], parts)
    body.write(replace(statement, results=(part,), args=(arg,)), [w], (parts,))
    if isinstance(parts, Split):
        _gather_into(body, result, part, w, parts)
        return
    assert isinstance(type_of(w), TupleType)
    assert isinstance(parts, tuple)
    names = tuple(body.fresh(f"{part}_{k}") for k in range(len(parts)))
    body.items.append(Each(Apply(names, "UnpackTuple", (part,))))
    gathered: list[str] = []
    states: list[State] = []
    cut = [not (isinstance(before, tuple) and before[k] == state) for k, state in enumerate(parts)]
    cut = [is_cut and isinstance(state, Split) for is_cut, state in zip(cut, parts, strict=True)]
    for k, (name, state) in enumerate(zip(names, parts, strict=True)):
        body.define(name, item_of(w, k), state)
        gathered.append(body.fresh(f"{result}_{k}") if cut[k] else name)
        states.append(WHOLE if cut[k] else state)
        if cut[k]:
            assert isinstance(state, Split)
            _gather_into(body, gathered[-1], name, item_of(w, k), state)
    body.write(Apply((result,), "MakeTuple", tuple(gathered)), [w], (tuple(states),))


def _gather_into(body: Resharding, result: str, part: str, w: Value, state: Split) -> None:
    body.items.append(Collective(result, "MPIAllgather", part, _along(state.axis)))
    body.define(result, w, WHOLE)


@cache
def _along(axis: int) -> Attributes:
    return Attributes({"axis": axis})
