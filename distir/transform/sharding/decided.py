"""Writes an op as it was decided: with its operands in the states that it needs, and rewritten if one is split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from distir.ir import DISCARD, Apply, Arg, Attributes, Dense, Literal
from distir.ops import OPS, Value, strengthen, type_of
from distir.placement.along import Split, State, is_whole
from distir.placement.rule import Typing
from distir.transform.sharding.decide import Exchanged
from distir.transform.sharding.items import Collective
from distir.transform.sharding.rewrite import Rewriting, rewritten


def write_decided(
    body: Rewriting, statement: Apply, vs: Sequence[Value], ws: Sequence[Value], decision: Typing
) -> None:
    """Append the statement, after collectives that bring its operands into the states needed."""
    whole = typed_where_cut(statement, vs, decision.needed)
    args = [body.placed(arg, need) for arg, need in zip(whole, decision.needed, strict=True)]
    if decision.letter is None:
        body.write(statement, ws, decision.given, args)
    elif not isinstance(decision, Exchanged):
        rewritten(body, statement, args, vs, ws, decision)
    else:
        own = _own_names(body, statement.results, decision)
        exchanged = replace(statement, results=own, attrs=decision.unmarked(statement.attrs), claims=())
        rewritten(body, exchanged, args, vs, ws, decision)
        _bring_back(body, statement.results, own, ws, decision)


def _own_names(body: Rewriting, results: Sequence[str], decision: Exchanged) -> tuple[str, ...]:
    """Names for results that change their state at once."""
    pairs = zip(results, decision.given, decision.returned, strict=True)
    return tuple(r if r == DISCARD or given == back else body.fresh(f"{r}_heads") for r, given, back in pairs)


def _bring_back(
    body: Rewriting, results: Sequence[str], own: Sequence[str], ws: Sequence[Value], decision: Exchanged
) -> None:
    """Bring results back into the states of the op's operands."""
    for name, given, w, now, back in zip(results, own, ws, decision.given, decision.returned, strict=True):
        if given == name:
            continue
        assert isinstance(now, Split)
        assert isinstance(back, Split)
        along = Attributes({"split_axis": back.axis, "concat_axis": now.axis})
        body.items.append(Collective(name, "MPIAlltoall", given, along))
        body.define(name, w, back)


def typed_where_cut(statement: Apply, vs: Sequence[Value], needed: Sequence[State]) -> tuple[Arg, ...]:
    """The operands, with element types for literals that are split: those types follow from other operands."""
    pairs = zip(statement.args, needed, strict=True)
    if not any(isinstance(arg, Literal) and not is_whole(need) for arg, need in pairs):
        return statement.args
    strong = strengthen(OPS[statement.op], vs, statement.attrs)
    typed = zip(statement.args, vs, strong, strict=True)
    return tuple(
        Literal(found) if isinstance(arg, Literal) and isinstance(found, Dense) and type_of(v) != found.type else arg
        for arg, v, found in typed
    )
