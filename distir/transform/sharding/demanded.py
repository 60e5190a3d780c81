"""Values that devices could compute whole, of which each computes only the part that a user needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distir.ir import DISCARD, Apply, Arg, TensorType, TupleType
from distir.ir import names as names_of
from distir.ops import OPS, Value, type_of
from distir.ops.group import GROUPED
from distir.ops.layout import equal_blocks
from distir.placement.along import WHOLE, Nested, Split, is_host, is_nested
from distir.placement.rule import Typing
from distir.transform.sharding.decide import NoRule, NotExchanged, decide, made_in_parts
from distir.transform.sharding.factors import decide_along
from distir.transform.sharding.sums import PartialSums

EXCHANGES = ("MPIAlltoall", GROUPED["MPIAlltoall"].name)


def demanded(body: PartialSums, statement: Apply, ws: Sequence[Value]) -> Split | Nested | None:
    """The part of the result of an op on whole operands that a user needs; None if the op, or no user, allows that."""
    if "parted" not in OPS[statement.op].rules or len(ws) != 1 or is_host(ws[0]):
        return None
    return _needed(body, statement.results[0], ws[0])


def _needed(body: PartialSums, name: str, value: Value, behind: bool = False) -> Split | Nested | None:
    """The part of a whole value that a user needs, or one of what an all-to-all gives of it.

    `behind` an all-to-all operands may be unknown: they are taken to be whole.
    """
    for user in body.users(name):
        if not isinstance(user, Apply) or user.op in ("MakeTuple", "UnpackTuple", "Send"):
            continue
        known = {arg: arg != name and body.is_defined(arg) for arg in names_of(user.args)}
        if not behind and not all(is_known or arg == name for arg, is_known in known.items()):
            continue
        theirs = tuple(_value(body, arg, name, value, known) for arg in user.args)
        states = tuple(body.state(arg) if not isinstance(arg, str) or known.get(arg) else WHOLE for arg in user.args)
        if any(isinstance(type_of(v), TupleType) for v in theirs):
            continue
        made = [type_of(w) for w in body.domain.answer(user, theirs)]
        if user.op in EXCHANGES:
            there = None if behind else _needed(body, user.results[0], made[0], behind=True)
            size, cut = user.attrs.get("size", len(user.args)), user.attrs["split_axis"]
            if isinstance(there, Split) and there == Split(there.axis) and there.axis == cut and isinstance(size, int):
                shape = made[0].shape if isinstance(made[0], TensorType) else None
                return Split(there.axis, equal_blocks(shape[there.axis] if shape else None, size))
            continue
        try:
            if any(map(is_nested, states)):
                needed = decide_along(OPS[user.op], user.attrs, theirs, states, made, body.factors).needed
            else:
                needed = decide(OPS[user.op], user.attrs, theirs, states, made, body.size, body.order).needed
        except (NoRule, NotExchanged):
            continue
        wanted = needed[user.args.index(name)]
        if isinstance(wanted, (Split, Nested)):
            return wanted
    return None


def _value(body: PartialSums, arg: Arg, name: str, value: Value, known: Mapping[str, bool]) -> Value:
    if arg == name:
        return value
    return body.instance.state[arg] if isinstance(arg, str) and arg != DISCARD and not known[arg] else body.value(arg)


def demanded_in_parts(body: PartialSums, statement: Apply, vs: Sequence[Value], ws: Sequence[Value]) -> Typing | None:
    """The decision to compute the part that a user of the result needs; None if there is none."""
    wanted = demanded(body, statement, ws)
    if not isinstance(wanted, Split):
        return None
    return made_in_parts(OPS[statement.op], statement.attrs, vs, [type_of(ws[0])], wanted, body.size)
