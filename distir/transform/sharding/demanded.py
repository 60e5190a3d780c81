"""Values that devices could compute whole, of which each computes only the part that a user needs."""

from __future__ import annotations

from collections.abc import Sequence

from distir.ir import Apply, TupleType
from distir.ir import names as names_of
from distir.ops import OPS, Value, type_of
from distir.transform.sharding.decide import Decision, NoRule, NotExchanged, decide, made_in_parts
from distir.transform.sharding.factors import decide_along
from distir.transform.sharding.state import WHOLE, Nested, Split, is_host, is_nested
from distir.transform.sharding.sums import PartialSums


def demanded(body: PartialSums, statement: Apply, ws: Sequence[Value]) -> Split | Nested | None:
    """The part of the result of an op on whole operands that a user needs; None if the op, or no user, allows that."""
    op, name = OPS[statement.op], statement.results[0]
    if "parted" not in op.rules or len(ws) != 1 or is_host(ws[0]):
        return None
    for user in body.users(name):
        if not isinstance(user, Apply) or user.op in ("MakeTuple", "UnpackTuple", "Send"):
            continue
        if not all(arg == name or body.is_defined(arg) for arg in names_of(user.args)):
            continue
        theirs = tuple(ws[0] if arg == name else body.value(arg) for arg in user.args)
        states = tuple(WHOLE if arg == name else body.state(arg) for arg in user.args)
        made = [type_of(w) for w in body.domain.answer(user, theirs)]
        if any(isinstance(type_of(v), TupleType) for v in theirs):
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


def demanded_in_parts(body: PartialSums, statement: Apply, vs: Sequence[Value], ws: Sequence[Value]) -> Decision | None:
    """The decision to compute the part that a user of the result needs; None if there is none."""
    wanted = demanded(body, statement, ws)
    if not isinstance(wanted, Split):
        return None
    return made_in_parts(OPS[statement.op], statement.attrs, vs, [type_of(ws[0])], wanted, body.size)
