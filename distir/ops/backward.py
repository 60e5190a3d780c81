"""The interface of gradient rules (VJPs of single ops). `transform` differentiates functions and calls with them.

A rule returns the gradient of each operand, in terms of the gradients of the results, as ops that it writes:

    @Relu.grad
    def _(g):
        return [g("ReluGrad", g.dy, g.y[0])]

In these ops, known shapes are literals and unknown ones are `Shape(x)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, cast

from distir.ir import (
    DISCARD,
    HOST,
    NO_ATTRIBUTES,
    UNKNOWN,
    Apply,
    Arg,
    Attributes,
    Constant,
    Dense,
    Dim,
    DType,
    Literal,
    Shape,
    TensorType,
    TupleType,
    Type,
    names,
    types,
)
from distir.ir.registry import DefinitionError
from distir.ops.attributes import bind
from distir.ops.core import OPS, Op
from distir.ops.host import known_ints
from distir.ops.infer import Value, infer_partial, infer_types, infer_values, strengthen, type_of
from distir.ops.unify import Reject

Gradients = Sequence[Arg | None]
"""One per operand; None where there is none."""


class NotDifferentiable(Exception):  # noqa: N818 - a property of the op, not an error in DistIR
    """An op has no gradient here. `help`: what to do."""

    def __init__(self, message: str, help: str | None = None) -> None:
        self.help = help
        super().__init__(message)


class Tape:
    """The statements that rules write, with temporary names, and the type or value of every name."""

    def __init__(self, values: dict[str, Value]) -> None:
        self.values = values
        self.written: list[Apply] = []
        self._count = 0

    def value(self, arg: Arg | None) -> Value:
        """The type or value of an argument in the backward pass."""
        if isinstance(arg, str):
            return self.values.get(arg, UNKNOWN) if arg != DISCARD else None
        if isinstance(arg, tuple):
            return tuple(self.value(item) for item in arg)
        return arg

    def write(self, op: str, args: Sequence[Arg], attrs: Attributes, count: int) -> tuple[str, ...]:
        """Append an op. Returns the names of its results."""
        results = tuple(f"~{self._count + i}" for i in range(count))
        self._count += count
        self.written.append(Apply(results, op, tuple(args), attrs))
        vs = [self.value(arg) for arg in args]
        self.values.update(zip(results, _inferred(OPS[op], vs, attrs, count), strict=True))
        return results

    def learn(self, statement: Apply) -> None:
        """Infer the types or values of a statement's results that are not known yet."""
        vs = [self.value(arg) for arg in statement.args]
        found = _inferred(OPS[statement.op], vs, statement.attrs, len(statement.results))
        for name, value in zip(statement.results, found, strict=True):
            self.values.setdefault(name, value)

    def take(self, wanted: Iterable[Arg | None]) -> list[Apply]:
        """The statements since the last call that `wanted` depends on; the others are dropped."""
        needed = set(names(arg for arg in wanted if arg is not None))
        kept: list[Apply] = []
        for statement in reversed(self.written):
            if needed.isdisjoint(statement.results):
                continue
            results = tuple(name if name in needed else DISCARD for name in statement.results)
            needed.update(names(statement.args))
            kept.append(replace(statement, results=results))
        self.written = []
        return kept[::-1]


class Rewrite:
    """One op as others: its operands `x`, None where omitted, and functions that write ops.

    `g("Op", *operands, **attributes)` writes an op and returns its result, `g.several("Op", count, …)` returns all
    results.
    """

    def __init__(self, statement: Apply, tape: Tape) -> None:
        self.statement = statement
        self.op = OPS[statement.op]
        self.attrs = bind(self.op, statement.attrs)
        missing = 0 if self.op.variadic is not None else len(self.op.operands) - len(statement.args)
        self.x: tuple[Any, ...] = (*(None if a == DISCARD else a for a in statement.args), *[None] * missing)
        self.y = statement.results
        self._tape = tape

    def definite(self, index: int) -> Any:
        """An operand with a fixed element type; a literal takes the one that this op gives it."""
        arg = self.x[index]
        if not isinstance(arg, Literal):
            return arg
        given = [_without_names(self._tape.value(a)) for a in self.statement.args]
        strong = strengthen(self.op, given, self.statement.attrs)[index]
        return arg if strong is None or type_of(arg) == type_of(strong) else Literal(cast(Constant, strong))

    def refuse(self, reason: str, help: str | None = None) -> NotDifferentiable:
        """The exception to raise where this use of the op has no gradient."""
        return NotDifferentiable(reason, help)

    # Types and values.

    def type(self, arg: Arg) -> Type:
        """The type of an argument."""
        return type_of(self._tape.value(arg))

    def shape(self, arg: Arg) -> Shape | None:
        """The shape of an argument, if it is a tensor of known rank."""
        described = self.type(arg)
        return described.shape if isinstance(described, TensorType) else None

    def known_shape(self, arg: Arg) -> Shape:
        """The shape, whose dimensions may be unknown. Raises NotDifferentiable for an unknown rank."""
        shape = self.shape(arg)
        if shape is None:
            shown = f"`%{arg}`" if isinstance(arg, str) and not arg.startswith("~") else "its operand"
            message = f"the gradient of `{self.op.name}` needs the number of dimensions of {shown}, which is unknown"
            raise NotDifferentiable(message, "annotate the parameters with their types")
        return shape

    def rank(self, arg: Arg) -> int:
        """The rank of an argument. Raises NotDifferentiable if it is unknown."""
        return len(self.known_shape(arg))

    def dtype(self, arg: Arg) -> DType:
        """The element type of an argument. Raises NotDifferentiable if it is unknown."""
        described = self.type(arg)
        dtype = described.dtype if isinstance(described, TensorType) else None
        if dtype is None:
            message = f"the gradient of `{self.op.name}` needs the element type of its operand, which is unknown"
            raise NotDifferentiable(message, "annotate the parameters with their types")
        return dtype

    def device(self, arg: Arg) -> int:
        """The device of an argument. Raises NotDifferentiable if it is unknown, and for host values."""
        device = types.device_of(self.type(arg))
        if device is None or device == HOST:
            message = f"the gradient of `{self.op.name}` needs the device of its operand, which is unknown"
            raise NotDifferentiable(message, "annotate the parameters with their devices")
        return device

    def ints(self, arg: Arg | None) -> tuple[int, ...] | None:
        """The integers in a host operand; None if unknown."""
        value = self._tape.value(arg)
        if isinstance(value, Literal) and isinstance(value.value, (int, tuple)):
            from distir.ops.numeric import dense  # literals in their natural element type

            value = dense(value.value)
        return known_ints(cast(Any, value))

    def numbers(self, arg: Arg | None) -> tuple[float, ...] | None:
        """The numbers in a host operand; None if unknown."""
        value = self._tape.value(arg)
        if isinstance(value, Literal) and isinstance(value.value, (int, float, tuple)):
            from distir.ops.numeric import dense

            value = dense(value.value)
        return cast("tuple[float, ...]", value.values) if isinstance(value, Dense) and not value.symbolic else None

    # Writing ops.

    def __call__(self, op: str, *operands: Any, **attrs: Constant) -> str:
        """Write an op. Returns the name of its result."""
        return self.several(op, 1, *operands, **attrs)[0]

    def several(self, op: str, count: int, *operands: Any, **attrs: Constant) -> tuple[str, ...]:
        """Write an op. Returns the names of its `count` results. Omitted trailing operands are dropped."""
        given = [_arg(operand) for operand in operands]
        while given and given[-1] == DISCARD:
            given.pop()
        return self._tape.write(op, given, Attributes(attrs) if attrs else NO_ATTRIBUTES, count)

    def same(self, *operands: Any, **attrs: Constant) -> str:
        """Write this op, with its attributes, on other operands."""
        return self(self.op.name, *operands, **{**self.statement.attrs, **attrs})

    def shape_of(self, arg: Arg) -> Arg:
        """The shape as an operand: a literal where it is known."""
        shape = self.shape(arg)
        if shape is not None and all(isinstance(dim, int) for dim in shape):
            return Literal(cast("tuple[int, ...]", shape))
        return self("Shape", arg)

    def size_along(self, arg: Arg, axis: int) -> Arg:
        """One dimension as a scalar operand."""
        dim = self.known_shape(arg)[axis]
        if isinstance(dim, int):
            return Literal(dim)
        return self("Squeeze", self("Shape", arg, start=axis, end=axis + 1), (0,))

    def resized_shape(self, value: Arg, axis: int, dim: int) -> Arg:
        """The shape of a value with another size along an axis, as an operand."""
        shape = self.known_shape(value)
        sizes = (*shape[:axis], dim, *shape[axis + 1 :])
        if all(isinstance(size, int) for size in sizes):
            return Literal(cast("tuple[int, ...]", sizes))
        parts: list[Arg] = [Literal((dim,))]
        if axis > 0:
            parts.insert(0, self("Shape", value, start=0, end=axis))
        if axis + 1 < len(shape):
            parts.append(self("Shape", value, start=axis + 1))
        return self("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    def reshape_like(self, value: Arg, like: Arg) -> Arg:
        """The elements of `value` in the shape of `like`."""
        shape = self.shape(like)
        if shape is not None and self.shape(value) == shape and None not in shape:
            return value
        if shape is None or 0 in shape:
            return self("Reshape", value, self.shape_of(like), allowzero=True)
        opened = [i for i, dim in enumerate(shape) if not isinstance(dim, int)]
        if len(opened) > 1:
            return self("Reshape", value, self.shape_of(like))
        # If all sizes are known, the first is -1: mostly it is the batch, which a transform may split.
        at = opened[0] if opened else 0
        return self("Reshape", value, tuple(-1 if i == at else cast(int, dim) for i, dim in enumerate(shape)))

    def sum_to(self, value: Arg, like: Arg) -> Arg:
        """`value` summed to the shape of `like`: the gradient of a broadcast."""
        have, want = self.shape(value), self.shape(like)
        if isinstance(self.type(like), TupleType):
            return value
        summed = None if have is None or want is None else _summed(have, want)
        if summed is None or have is None or want is None:
            return self("ReduceTo", value, self.shape_of(like))
        extra = len(have) - len(want)
        if summed and extra and summed[-1] >= extra:
            return self("ReduceTo", value, self.shape_of(like))
        return self("ReduceSum", value, tuple(summed), keepdims=not extra) if summed else value

    def zeros(self, like: Arg) -> Arg:
        """Zeros of the shape, element type and device of `like`."""
        described = self.type(like)
        if isinstance(described, TupleType):
            items = self.several("UnpackTuple", len(described.items), like)
            return self("MakeTuple", *(self.zeros(item) for item in items))
        dtype = described.dtype if isinstance(described, TensorType) else None
        kind = "float" if dtype is None else dtype.kind
        return self("Where", False, like, {"float": 0.0, "bool": False}.get(kind, 0))

    def total(self, values: Sequence[Arg]) -> Arg | None:
        """The sum of values; None for no values."""
        return None if not values else values[0] if len(values) == 1 else self("Sum", *values)

    def transposed(self, value: Arg) -> str:
        """The last two dimensions swapped."""
        rank = self.rank(value)
        return self("Transpose", value, perm=(*range(rank - 2), rank - 1, rank - 2))


class Backward(Rewrite):
    """One op in the backward pass: its operands `x`, results `y`, and the gradients `dys` of the results.

    Gradients of results on which the loss does not depend are None.
    """

    def __init__(self, statement: Apply, dys: Gradients, active: Set[str], tape: Tape) -> None:
        super().__init__(statement, tape)
        self.dys = dys
        self._active = active  # as it is: a copy for each of many statements is quadratic in their number

    @property
    def dy(self) -> Any:
        """The gradient of the first result; zeros where it has none."""
        return self.dy_or_zeros(0)

    def dy_or_zeros(self, index: int) -> Any:
        """The gradient of a result, or zeros of its shape where the loss does not depend on it."""
        found = self.dys[index]
        return self.zeros(self.y[index]) if found is None else found

    def wants(self, index: int) -> bool:
        """Whether the gradient of an operand is needed."""
        arg = self.x[index] if index < len(self.x) else None
        return arg is not None and not self._active.isdisjoint(names((arg,)))

    def through(self, given: Mapping[str, Arg | None], xs: Sequence[Arg | None]) -> list[Arg | None]:
        """The gradients of `xs`, through the ops on this tape: an op differentiated as a composite.

        `given`: by value that they compute, its gradient; None where the loss does not depend on it.
        """
        statements, active = list(self._tape.written), set(names(x for x in xs if x is not None)) & self._active
        for statement in statements:
            if not active.isdisjoint(names(statement.args)):
                active.update(statement.results)
        found: dict[str, list[Arg]] = {y: [dy] for y, dy in given.items() if dy is not None}
        for statement in reversed(statements):
            dys = [self.total(found.get(name, [])) for name in statement.results]
            if active.isdisjoint(names(statement.args)) or not any(d is not None for d in dys):
                continue
            for arg, gradient in zip(
                statement.args, operand_gradients(statement, dys, active, self._tape), strict=False
            ):
                if isinstance(arg, str) and gradient is not None and arg in active:
                    found.setdefault(arg, []).append(gradient)
        # A value that is two of the operands has one gradient in total.
        return [self.total(found.pop(x, [])) if isinstance(x, str) else None for x in xs]


def operand_gradients(statement: Apply, dys: Gradients, active: Set[str], tape: Tape) -> Gradients:
    """The gradients of an op's operands, from its `grad` rule. Raises NotDifferentiable."""
    rule = OPS[statement.op].rule("grad")
    if rule is None:
        reason = OPS[statement.op].non_differentiable
        message = f"`{statement.op}` has no gradient" + (f": {reason}" if reason else "")
        hint = f"remove it from the path to the loss, or define a gradient with `@{statement.op}.grad`"
        raise NotDifferentiable(message, hint)
    saved = OPS[statement.op].saved
    if len(statement.results) < saved:  # who keeps what the rule reads asks for it in the forward pass
        again = tape.write(statement.op, statement.args, statement.attrs, saved)
        results = (*statement.results, *again[len(statement.results) :])
        statement = replace(statement, results=results, claims=())
        dys = [*dys, *[None] * (saved - len(dys))]
    backward = Backward(statement, dys, active, tape)
    found, operands = rule(backward), len(OPS[statement.op].operands)
    missing = any(backward.wants(i) for i in range(len(found), len(statement.args)))
    if missing or len(found) > max(len(statement.args), operands):
        count = f"{len(statement.args)} operand{'s' * (len(statement.args) != 1)}"
        raise DefinitionError(f"the gradient of the op `{statement.op}` gives {len(found)} gradients, for {count}")
    return found


def _arg(operand: Any) -> Arg:
    if operand is None:
        return DISCARD
    return operand if isinstance(operand, (str, Literal)) else Literal(operand)


def _summed(have: Shape, want: Shape) -> list[int] | None:
    """The dimensions to sum over to undo a broadcast; None if unknown."""
    extra = len(have) - len(want)
    summed = list(range(extra))
    for i, (wide, narrow) in enumerate(zip(have[extra:], want, strict=True), extra):
        if narrow == 1:
            summed += [i] if wide != 1 else []
        elif narrow is None or (wide is not None and wide != narrow):
            return None
    return summed


def _inferred(op: Op, vs: list[Value], attrs: Attributes, count: int) -> Sequence[Value]:
    """The types or values of an op's results; where named dimensions conflict, they are treated as unknown."""
    for attempt in (vs, [_without_names(v) for v in vs], [_unshaped(v) for v in vs]):
        try:
            for rule in (infer_values, infer_partial, infer_types):
                found = rule(op, attempt, attrs, count)
                if found is not None:
                    return found
        except Reject:
            continue
    return (UNKNOWN,) * count


def _without_names(value: Value) -> Value:
    """The type with its named dimensions unknown."""
    if not isinstance(value, TensorType) or value.shape is None:
        return value
    shape: tuple[Dim, ...] = tuple(dim if isinstance(dim, int) else None for dim in value.shape)
    return TensorType(value.dtype, shape, value.device, value.offloaded)


def _unshaped(value: Value) -> Value:
    return TensorType(value.dtype, None, value.device) if isinstance(value, TensorType) else value
