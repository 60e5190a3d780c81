"""What else changes in an op when a letter of it is split.

Attributes and host operands that hold sizes, means over what is split, and look-ups in a table that is split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distir.ir import (
    DTYPES,
    Apply,
    Arg,
    Attributes,
    Dense,
    DimensionError,
    Literal,
    SymbolicDim,
    TensorType,
    Type,
)
from distir.ops import OPS, Value, bind, type_of
from distir.ops.layout import Layout
from distir.transform.sharding.decide import Decision
from distir.transform.sharding.items import Each, Ranked
from distir.transform.sharding.state import PARTIAL, WHOLE, Split, State, part_of

if TYPE_CHECKING:
    from distir.transform.sharding.body import Body


def rewritten(
    body: Body, statement: Apply, args: list[Arg], vs: Sequence[Value], ws: Sequence[Value], decision: Decision
) -> None:
    """Append the statement for what each device has of its operands, one letter being split."""
    layout, letter = decision.layout, decision.letter
    assert layout is not None
    assert letter is not None
    if layout.looked_up == letter:
        _look_up(body, statement, args, ws, decision)
        return
    for i in layout.divided_operands.get(letter, ()):
        args[i] = _divided(body, args[i])
    mean = letter in layout.averaged
    if mean and layout.scaled is not None:
        args[layout.scaled] = _scaled(body, args[layout.scaled])
    if layout.stated is not None:
        args[layout.stated] = _stated(body, args[layout.stated], vs[layout.stated], type_of(ws[0]), decision.given[0])
    attrs = _attributes(statement, layout, letter, body.size)
    results = list(statement.results)
    scaled = [j for j, given in enumerate(decision.given) if mean and layout.scaled is None and given is PARTIAL]
    for j in scaled:
        results[j] = body.fresh(f"{statement.results[j]}_own")
    claims = body.claims(statement, decision.given) if not scaled else ()
    body.items.append(Each(Apply(tuple(results), statement.op, tuple(args), attrs, claims)))
    for name, w, state in zip(results, ws, decision.given, strict=True):
        body.define(name, w, state)
    for j in scaled:
        body.items.append(Each(Apply((statement.results[j],), "Mul", (results[j], Literal(1 / body.size)))))
        body.define(statement.results[j], ws[j], PARTIAL)


def restated(body: Body, statement: Apply, vs: Sequence[Value], ws: Sequence[Value]) -> None:
    """A host value that is made of the type of a split one (`Shape`), as it is in the whole program."""
    (name,), (w,) = statement.results, ws
    if isinstance(w, Dense) and not w.symbolic:
        body.concrete = True
        body.items.append(Each(Apply((name,), "Constant", (), Attributes({"value": w}), statement.claims)))
        body.define(name, w, WHOLE)
        return
    here = [part_of(type_of(v), body.state(arg), body.size) for v, arg in zip(vs, statement.args, strict=True)]
    (part,) = body.domain.answer(statement, tuple(here))
    own = body.fresh(f"{name}_own")
    body.items.append(Each(Apply((own,), statement.op, statement.args, statement.attrs)))
    body.define(own, part, WHOLE)
    assert isinstance(w, Dense)
    assert isinstance(part, Dense)
    factors = tuple(1 if a == b else body.size for a, b in zip(w.values, part.values, strict=True))
    times = Literal(factors if w.shape else factors[0])
    body.items.append(Each(Apply((name,), "Mul", (own, times), claims=statement.claims)))
    body.define(name, w, WHOLE)


def _attributes(statement: Apply, layout: Layout, letter: str, size: int) -> Attributes:
    names = layout.divided.get(letter, ())
    if not names:
        return statement.attrs
    bound = bind(OPS[statement.op], statement.attrs)
    found = dict(statement.attrs)
    for name in names:
        value = bound.get(name)
        if isinstance(value, float):
            found[name] = value / size
        elif isinstance(value, int) and value:
            found[name] = value // size
    return Attributes(found)


def _scaled(body: Body, arg: Arg) -> Arg:
    """An operand divided by the number of devices."""
    if isinstance(arg, Literal) and isinstance(arg.value, (int, float)):
        return Literal(arg.value / body.size)
    hint = arg if isinstance(arg, str) else "mean"
    return body.new(f"{hint}_mean", "Mul", (arg, Literal(1 / body.size)), body.value(arg), body.state(arg))


def _divided(body: Body, arg: Arg) -> Arg:
    """Sizes divided by the number of devices."""
    if isinstance(arg, Literal) and isinstance(arg.value, tuple):
        return Literal(tuple(v // body.size for v in arg.value if isinstance(v, int)))
    return body.new("sizes", "Div", (arg, Literal(body.size)), body.value(arg), WHOLE)


def _stated(body: Body, arg: Arg, value: Value, whole: Type, given: State) -> Arg:
    """The host operand that states the result's shape, for the part of the result that is here."""
    here = part_of(whole, given, body.size)
    if here == whole:
        return arg
    assert isinstance(here, TensorType)
    assert isinstance(given, Split)
    written = value.value if isinstance(value, Literal) else value.values if isinstance(value, Dense) else ()
    sizes = written if isinstance(written, tuple) else ()
    if sizes and len(sizes) == len(here.shape or ()) and sizes[given.axis] in (0, -1):
        return arg
    shape = here.shape or ()
    if all(isinstance(dim, int) for dim in shape):
        body.concrete = True
        return Literal(tuple(dim for dim in shape if isinstance(dim, int)))
    if sum(isinstance(dim, SymbolicDim) for dim in shape) == 1 and None not in shape:
        return Literal(tuple(dim if isinstance(dim, int) else -1 for dim in shape))
    factors = tuple(body.size if axis == given.axis else 1 for axis in range(len(shape)))
    return body.new("shape", "Div", (arg, Literal(factors)), value, WHOLE)


def _look_up(body: Body, statement: Apply, args: Sequence[Arg], ws: Sequence[Value], decision: Decision) -> None:
    """A `Gather` from a table of which each device has some rows: those of the others count as zero."""
    table, positions = args[0], args[1]
    needed = decision.needed[0]
    assert isinstance(needed, Split)
    value, where = type_of(body.value(table)), type_of(body.value(positions))
    assert isinstance(value, TensorType)
    assert isinstance(where, TensorType)
    whole = (value.shape or ())[needed.axis]
    if not isinstance(whole, int):
        raise DimensionError("a table of unknown length")
    length = whole // body.size
    first = body.fresh("first")
    body.items.append(Ranked(first, tuple(rank * length for rank in range(body.size))))
    body.define(first, None, PARTIAL)
    if where.dtype is not None and where.dtype.name != "Int64":
        positions = body.new("position", "Cast", (positions,), where, WHOLE, to=DTYPES["Int64"])
    counted = body.new("position", "Mod", (positions, Literal(whole)), where, WHOLE)
    own = body.new("own", "Sub", (counted, first), where, PARTIAL)
    low = body.new("above", "GreaterOrEqual", (own, Literal(0)), where, PARTIAL)
    high = body.new("below", "Less", (own, Literal(length)), where, PARTIAL)
    here = body.new("here", "And", (low, high), where, PARTIAL)
    safe = body.new("row", "Where", (here, own, Literal(0)), where, PARTIAL)
    rows = body.new("rows", statement.op, (table, safe), ws[0], PARTIAL, **statement.attrs)
    behind = len(value.shape or ()) - needed.axis - 1
    mask = here
    if behind:
        axes = Literal(tuple(range(-behind, 0)))
        mask = body.new("mask", "Unsqueeze", (here, axes), where, PARTIAL)
    zero = Literal(0.0 if value.dtype is not None and value.dtype.kind == "float" else 0)
    body.items.append(Each(Apply(statement.results, "Where", (mask, rows, zero))))
    body.define(statement.results[0], ws[0], PARTIAL)
