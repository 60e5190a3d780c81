"""Rewrites an op for shards, when a letter of it is split.

Attributes and host operands that hold sizes, means over split dimensions, and ops replaced by others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from distir.analysis import Checker
from distir.ir import (
    DISCARD,
    UNKNOWN,
    Apply,
    Arg,
    Attributes,
    Dense,
    Literal,
    Shape,
    SymbolicDim,
    TensorType,
    Type,
    dims,
)
from distir.ir.builder import FunctionBuilder
from distir.ops import OPS, Reject, Value, bind, type_of
from distir.ops.host import known_ints
from distir.placement.along import PARTIAL, WHOLE, Split
from distir.placement.part_types import part_of
from distir.placement.rule import Typing, stated_runs
from distir.transform.sharding.items import Each, Ranked
from distir.transform.sharding.mesh import IN_ORDER, Order
from distir.transform.sharding.parts import in_parts
from distir.transform.sharding.reshard import Resharding


class Rewriting(Resharding):
    """Items in progress, with ops applied to parts of their operands."""

    def __init__(
        self,
        size: int,
        names: FunctionBuilder,
        domain: Checker,
        order: Order = IN_ORDER,
        factors: tuple[int, ...] = (),
    ) -> None:
        super().__init__(size, names, order, factors)
        self.domain = domain
        self.concrete = False
        """Whether named sizes of the function became numbers."""


def rewritten(
    body: Rewriting, statement: Apply, args: list[Arg], vs: Sequence[Value], ws: Sequence[Value], decision: Typing
) -> None:
    """Append the statement for each device's parts of its operands, with one letter split."""
    layout, letter = decision.layout, decision.letter
    assert layout is not None
    assert letter is not None
    if letter in layout.parted:
        in_parts(body, statement, args, ws, decision)
        return
    own = statement
    if letter == layout.apart and layout.operand_blocks:
        own = _cut_apart(body, statement, args, ws, decision)
    if decision.lessened is not None:
        state = decision.needed[decision.lessened]
        assert isinstance(state, Split)
        args[decision.lessened] = body.lessened(args[decision.lessened], state)
    mean = letter in layout.averaged
    if mean and layout.scaled is not None:
        args[layout.scaled] = share_of(body, args[layout.scaled])
    if layout.stated is not None:
        args[layout.stated] = _stated(body, statement, vs, layout.stated, type_of(ws[0]), decision)
    if letter in layout.located:
        _located(body, args, vs, decision)
    for place in layout.divided_operands.get(letter, ()) if letter != layout.apart else ():
        args[place] = _divided(body, args[place])
    attrs = _attributes(own, vs, decision, body.size)
    results = list(statement.results)
    scaled = [j for j, given in enumerate(decision.given) if mean and layout.scaled is None and given is PARTIAL]
    for j in scaled:
        results[j] = body.fresh(f"{statement.results[j]}_own")
    claims = body.claims(statement, decision.given) if not scaled else ()
    body.items.append(
        Each(Apply(tuple(results), statement.op, tuple(args), attrs, claims, statement.stream, statement.facts))
    )
    for name, w, state in zip(results, ws, decision.given, strict=True):
        body.define(name, w, state)
    for j in scaled:
        mean = Apply((statement.results[j],), "Mul", (results[j], Literal(1 / body.size)), stream=statement.stream)
        body.items.append(Each(mean))
        body.define(statement.results[j], ws[j], PARTIAL)


def restated(body: Rewriting, statement: Apply, vs: Sequence[Value], ws: Sequence[Value]) -> None:
    """A host value computed from the type of a split value (`Shape`), as in the whole program."""
    (name,), (w,) = statement.results, ws
    if isinstance(w, Dense) and not w.symbolic:
        body.concrete = True
        body.items.append(Each(Apply((name,), "Constant", (), Attributes({"value": w}), statement.claims)))
        body.define(name, w, WHOLE)
        return
    here = [part_of(type_of(v), body.state(arg), body.size) for v, arg in zip(vs, statement.args, strict=True)]
    (part,) = body.domain.answer(statement, tuple(here))
    found = _of_part(w, part, body.size) if isinstance(w, Dense) and isinstance(part, Dense) else None
    if found is None:  # sizes known from the whole value only
        args = tuple(body.placed(arg, WHOLE) for arg in statement.args)
        body.items.append(Each(Apply((name,), statement.op, args, statement.attrs, statement.claims)))
        body.define(name, w, WHOLE)
        return
    own = body.fresh(f"{name}_own")
    body.items.append(Each(Apply((own,), statement.op, statement.args, statement.attrs)))
    body.define(own, part, WHOLE)
    op, amounts = found
    body.items.append(Each(Apply((name,), op, (own, amounts), claims=statement.claims)))
    body.define(name, w, WHOLE)


def _of_part(whole: Dense, part: Dense, most: int) -> tuple[str, Literal] | None:
    """The op, and its second operand, that gives sizes of the whole of those of one of at most so many equal parts.

    None where no number does, whatever their names are bound to.
    """
    values = zip(whole.values, part.values, strict=True)
    pairs = [(a, b) for a, b in values if isinstance(a, (int, SymbolicDim)) and isinstance(b, (int, SymbolicDim))]
    if len(pairs) < len(whole.values):
        return None
    numbers = (1, most, *range(2, most))
    times = [next((n for n in numbers if dims.multiply(b, n) == a), 0) for a, b in pairs]
    differences = [a - b for a, b in pairs if isinstance(a, int) and isinstance(b, int)]  # each device has some blocks
    if not all(times) and len(differences) < len(pairs):
        return None
    op, amounts = ("Mul", times) if all(times) else ("Add", differences)
    return op, Literal(tuple(amounts) if whole.shape else amounts[0])


def _cut_apart(body: Rewriting, statement: Apply, args: list[Arg], ws: Sequence[Value], decision: Typing) -> Apply:
    """A dimension cut into others, split or whole: changes the stated sizes in `args`."""
    here = [part_of(type_of(w), given, body.size) for w, given in zip(ws, decision.given, strict=True)]
    own = next(state for state in decision.needed if isinstance(state, Split))
    if not own.is_mixed:
        args[1:] = [_divided(body, arg) for arg in args[1:]]
        return statement
    sizes = [t.shape[own.axis] for t in here if isinstance(t, TensorType) and t.shape is not None]
    args[1:] = [Literal(tuple(size for size in sizes if isinstance(size, int)))]
    attrs = {name: value for name, value in statement.attrs.items() if name != "num_outputs"}
    return replace(statement, attrs=Attributes(attrs))


def _attributes(statement: Apply, vs: Sequence[Value], decision: Typing, size: int) -> Attributes:
    assert decision.layout is not None
    assert decision.letter is not None
    names = decision.layout.divided.get(decision.letter, ())
    if not names:
        return statement.attrs
    bound = bind(OPS[statement.op], statement.attrs)
    found = dict(statement.attrs)
    for name in names:
        value = bound.get(name)
        if isinstance(value, float):
            found[name] = value / size
        elif isinstance(value, int) and value:
            found[name] = _part_of_number(value, vs, decision, size)
    return Attributes(found)


def _part_of_number(value: int, vs: Sequence[Value], decision: Typing, size: int) -> int:
    """A number in an attribute for one device's part; for a dimension with shared blocks, the part's size."""
    for v, state in zip(vs, decision.needed, strict=True):
        if isinstance(state, Split) and state.is_mixed:
            part = part_of(type_of(v), state, size)
            assert isinstance(part, TensorType)
            dim = (part.shape or ())[state.axis]
            assert isinstance(dim, int)
            return dim
    return value // size


def _located(body: Rewriting, args: list[Arg], vs: Sequence[Value], decision: Typing) -> None:
    """Set in `args` the start of each device's part in the whole tensor, or of each run if it has several.

    An existing operand has one start, or one for each run of a device here or in an earlier split.
    """
    layout, state, whole = decision.layout, decision.needed[0], type_of(vs[0])
    assert layout is not None
    assert layout.start is not None
    assert isinstance(state, Split)
    assert isinstance(whole, TensorType)
    part = part_of(whole, state, body.size)
    assert isinstance(part, TensorType)
    size = (part.shape or ())[state.axis]
    assert isinstance(size, int), "or it is not decided so"
    rank, axis = len(whole.shape or ()), state.axis
    args += [DISCARD] * (layout.start + 1 - len(args))
    before = args[layout.start]
    of_rank = partial(body.order.of, size=body.size)
    runs = [tuple(part * size // len(parts) for part in parts) for parts in map(of_rank, range(body.size))]
    given = vs[layout.start] if before != DISCARD and layout.start < len(vs) else None
    stated = known_ints(given) if isinstance(given, Dense) else None
    if stated and (several := stated_runs(layout, vs, state)):  # they are distributed over the devices
        runs, before = _dealt(several, size, body.size), DISCARD
        base = [0 if k == axis else n for k, n in enumerate(stated[:rank])]
    else:
        base = [0] * rank
        count = max(1, len(stated or ()) // max(rank, 1))
        if before != DISCARD and len(runs[0]) > count:
            before = body.new("starts", "Concat", (before,) * len(runs[0]), UNKNOWN, WHOLE, axis=0)
        runs = [own * (count // len(own)) if count > len(own) else own for own in runs]
    own = body.fresh("start")
    values = (tuple(n if k == axis else base[k] for n in each for k in range(rank)) for each in runs)
    body.items.append(Ranked(own, tuple(values)))
    args[layout.start] = own if before == DISCARD else body.new("start", "Add", (before, own), UNKNOWN, WHOLE)


def share_of(body: Rewriting, arg: Arg) -> Arg:
    """An operand divided by the number of devices."""
    if isinstance(arg, Literal) and isinstance(arg.value, (int, float)):
        return Literal(arg.value / body.size)
    hint = arg if isinstance(arg, str) else "mean"
    return body.new(f"{hint}_mean", "Mul", (arg, Literal(1 / body.size)), body.value(arg), body.state(arg))


def _divided(body: Rewriting, arg: Arg) -> Arg:
    """Sizes divided by the number of devices."""
    if isinstance(arg, Literal) and isinstance(arg.value, tuple):
        return Literal(tuple(v // body.size for v in arg.value if isinstance(v, int)))
    if isinstance(arg, Literal) and isinstance(arg.value, int):
        return Literal(arg.value // body.size)
    return body.new("sizes", "Div", (arg, Literal(body.size)), body.value(arg), WHOLE)


def _stated(body: Rewriting, statement: Apply, vs: Sequence[Value], place: int, whole: Type, decision: Typing) -> Arg:
    """The host operand that states the result's shape, for one device's part."""
    arg, value, given, layout = statement.args[place], vs[place], decision.given[0], decision.layout
    here = part_of(whole, given, body.size)
    if here == whole:
        return arg
    assert isinstance(here, TensorType)
    assert isinstance(given, Split)
    assert layout is not None
    shape = here.shape or ()
    sizes = _sizes(arg if isinstance(arg, Literal) else value)  # those that another axis has divided already
    count = len(shape) if sizes is None else len(sizes)  # of `Expand`, leading dimensions may be left out
    axis = given.axis - (len(shape) - count)
    if axis < 0 or (sizes is not None and sizes[axis] in layout.relative):
        return arg
    if all(isinstance(dim, int) for dim in shape):
        body.concrete = True
        return Literal(tuple(dim for dim in shape if isinstance(dim, int)))
    if layout.relative and None not in shape:
        stated = Literal(tuple(dim if isinstance(dim, int) else layout.relative[0] for dim in shape))
        if _gives(body, statement, vs, place, stated, decision, shape):
            return stated
    if given.is_mixed and isinstance(whole, TensorType) and isinstance(part := shape[given.axis], int):
        rest = [dim - part for dim in (whole.shape or ())[given.axis : given.axis + 1] if isinstance(dim, int)]
        less = tuple(rest[0] if k == axis else 0 for k in range(count))
        return body.new("shape", "Sub", (arg, Literal(less)), value, WHOLE)
    factors = tuple(body.size if k == axis else 1 for k in range(count))
    return body.new("shape", "Div", (arg, Literal(factors)), value, WHOLE)


def _sizes(value: Value) -> Sequence[object] | None:
    """The sizes in a host value, as far as known."""
    if isinstance(value, Dense):
        return value.values
    return value.value if isinstance(value, Literal) and isinstance(value.value, tuple) else None


def _gives(
    body: Rewriting,
    statement: Apply,
    vs: Sequence[Value],
    place: int,
    stated: Literal,
    decision: Typing,
    shape: Shape,
) -> bool:
    """Whether the op yields this shape, as far as known, for these parts of its operands."""
    parts = [
        part_of(v, s, body.size) if isinstance(v, TensorType) else v for v, s in zip(vs, decision.needed, strict=True)
    ]
    parts[place] = stated
    args = tuple(stated if i == place else arg for i, arg in enumerate(statement.args))
    try:
        (found,) = body.domain.answer(Apply(statement.results, statement.op, args, statement.attrs), tuple(parts))
    except Reject:
        return False
    given = type_of(found)
    own = given.shape if isinstance(given, TensorType) else None
    return own is not None and len(own) == len(shape) and all(a in (None, b) for a, b in zip(own, shape, strict=True))


def _dealt(runs: tuple[int, ...], part: int, size: int) -> list[tuple[int, ...]]:
    """By device: the starts of its runs, of consecutive runs distributed over the devices in order."""
    if len(runs) >= size:
        each = len(runs) // size
        return [runs[n * each : (n + 1) * each] for n in range(size)]
    share = size // len(runs)
    return [(runs[n // share] + n % share * part,) for n in range(size)]
