"""Rules for operations that compute element by element, and for constants and conversions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from distir.importers.stablehlo.tensors import LARGEST, constant, is_splat, tensor_type
from distir.importers.stablehlo.text import Braces, MlirOperation, MlirWord, refuse
from distir.importers.stablehlo.translating import DEVICE, SMALL, StableHlo, rule
from distir.ir import DTYPES, Dense, Shape
from distir.ops.numeric import np

SAME = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "minimum": "Min",
    "power": "Pow",
    "negate": "Neg",
    "abs": "Abs",
    "sign": "Sign",
    "exponential": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "floor": "Floor",
    "ceil": "Ceil",
    "round_nearest_even": "Round",
    "sine": "Sin",
    "cosine": "Cos",
    "tanh": "Tanh",
    "logistic": "Sigmoid",
    "erf": "Erf",
    "tan": "Tan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "is_inf": "IsInf",
}
"""Operations that are ops of ours by another name."""

NEUTRAL = {"Sub": 0, "Add": 0, "Mul": 1, "Div": 1}
"""The second operand that changes nothing."""

PRECISIONS = {"e8m7": "BFloat16", "e5m10": "Float16", "e8m23": "Float32", "e11m52": "Float64"}
"""Element types by the bits of exponent and mantissa."""

ORDERS = {"LT": "Less", "LE": "LessOrEqual", "GT": "Greater", "GE": "GreaterOrEqual", "EQ": "Equal", "NE": "Equal"}
"""Comparisons; those that are not equal are negated."""


def _renamed(op: str, into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    logical = into.dtype(operands[0]).name == "Bool" and op in ("Add", "Mul", "Min")
    if op in NEUTRAL and not logical:
        maker = into.makers.get(operands[1])
        known = into.array(str(maker.args[0]) if maker is not None and maker.op == "Expand" else operands[1])
        if known is not None and bool(np.all(known == NEUTRAL[op])):
            return operands[0]
    return into.apply({"Add": "Or"}.get(op, "And") if logical else op, *operands)


for _name, _op in SAME.items():
    rule(_name, f"broadcast_{_name}")(partial(_renamed, _op))


@rule("constant")
def _constant(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    given = operation.attributes.get("value") or next(iter(operation.words), None)
    stated = (getattr(given, "named", {}) or {}).get("type") or next(iter(operation.types[1]), "")
    if isinstance(given, (bool, int, float)):  # `arith.constant 1 : i64`
        given, stated = Braces({}, (given,), "dense"), f"tensor<{stated}>"
    of = tensor_type(stated, DEVICE, operation.place)
    elements = of.elements
    assert isinstance(elements, int)
    if isinstance(given, Braces) and given.name == "dense_resource":
        return into.resource(str(getattr(given.listed[0], "text", given.listed[0])), of, operation.place)
    if is_splat(given) and elements > SMALL:
        number = constant(given, type(of)(of.dtype, (), of.device), operation.place)
        into.values[name := into.builder.fresh(into.hint)] = number
        return into.apply("Expand", name, into.ints(into_sizes(of.shape)))
    if elements > LARGEST:
        refuse(f"a constant of {elements} elements", operation.place, "let it be an argument of the function")
    into.values[name := into.builder.fresh(into.hint)] = constant(given, of, operation.place)
    return name


def into_sizes(shape: Shape | None) -> list[int]:
    """A shape of known sizes."""
    assert shape is not None
    return [size for size in shape if isinstance(size, int)]


@rule("iota", "dynamic_iota")
def _iota(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    of = tensor_type(operation.types[1][0], DEVICE, operation.place)
    shape, axis = into_sizes(of.shape), int(operation.attribute("dim", "iota_dimension"))
    assert of.dtype is not None
    count = shape[axis]
    if count <= SMALL:
        row = into.known_value(np.arange(count))
    else:
        ends = [into.known_value(Dense(DTYPES["Int64"], (), (n,))) for n in (0, count, 1)]
        row = into.apply("Range", *ends)
    row = into.apply("Cast", row, to=of.dtype)
    return into.expanded(into.reshaped(row, [n if i == axis else 1 for i, n in enumerate(shape)]), shape)


@rule("convert")
def _convert(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    of = tensor_type(operation.types[1][0], DEVICE, operation.place)
    assert of.dtype is not None
    return into.apply("Cast", operands[0], to=of.dtype)


@rule("maximum")
def _maximum(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    if into.dtype(operands[0]).name == "Bool":
        return into.apply("Or", *operands)
    for least, other in (operands, operands[::-1]):  # what guards a maximum of no elements
        source = into.makers.get(least)
        known = into.array(str(source.args[0]) if source is not None and source.op == "Expand" else least)
        if known is not None and known.dtype.kind not in "iub" and bool(np.all(known == -np.inf)):
            return other
    return into.apply("Max", *operands)


RANDOM = frozenset(("UInt32", "UInt64"))
"""Integers of which random bits are made: keys are not followed, so that what is made of them is not known."""


@rule("and", "or", "xor", "not")
def _logical(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    name = operation.name.rpartition(".")[2]
    if into.dtype(operands[0]).name != "Bool":
        return into.apply(f"Bitwise{name.capitalize()}", *_of_bits(into, operation, operands))
    if name == "xor":
        return into.apply("Not", into.apply("Equal", *operands))
    return into.apply(name.capitalize(), *operands)


def _of_bits(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    """Operands whose bits are read. Raises ImportRefused where they may be random."""
    if (dtype := into.dtype(operands[0]).name) in RANDOM:
        refuse(f"`{operation.name}` of {dtype} has no op here", operation.place, "compute random bits outside")
    return operands


@rule("shift_left", "shift_right_arithmetic", "shift_right_logical")
def _shifted(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    """A product with a power of two, or the floor of a quotient by one."""
    x, by = _of_bits(into, operation, operands)
    dtype, count = into.dtype(x), into.uniform(by)
    signed = dtype.name.startswith("Int")
    if count is None or not 0 <= count < dtype.bytes * 8 - signed:
        refuse(f"`{operation.name}` by another than a known number of bits has no op here", operation.place)
    power = number_like(into, x, 1 << int(count))
    if operation.name.endswith("left"):
        return into.apply("Mul", x, power)
    if signed and operation.name.endswith("logical") and count:
        refuse(f"`{operation.name}` of {dtype.name} has no op here", operation.place, "shift unsigned integers")
    return into.apply("Div", into.apply("Sub", x, into.apply("Mod", x, power)), power)


@rule("compare")
def _compare(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    direction = operation.attribute("comparison_direction") or next(iter(operation.words), None)
    words = (direction.listed if isinstance(direction, Braces) else (direction,))[-1:]
    said = next((word.text for word in words if isinstance(word, MlirWord)), "")
    if said not in ORDERS:
        refuse("expected a comparison such as `LT`", operation.place)
    made = into.apply(ORDERS[said], *operands)
    return into.apply("Not", made) if said == "NE" else made


@rule("select")
def _select(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    return into.apply("Where", *operands)


@rule("clamp")
def _clamp(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    least, x, most = operands
    return into.apply("Min", into.apply("Max", x, least), most)


@rule("remainder")
def _remainder(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    return into.apply("Mod", *operands, fmod=True)


@rule("rsqrt")
def _rsqrt(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    return into.apply("Reciprocal", into.apply("Sqrt", operands[0]))


@rule("square")
def _square(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    return into.apply("Mul", operands[0], operands[0])


@rule("atan2")
def _atan2(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    """The angle of a point: `atan(y / x)`, half a turn further where `x` is negative. Zeros are taken as positive."""
    y, x = operands
    zero, half = number_like(into, x, 0), number_like(into, x, np.pi)
    upright = into.apply("Equal", x, zero)
    origin = into.apply("And", upright, into.apply("Equal", y, zero))
    quotient = into.apply("Div", y, into.apply("Where", upright, zero, x))  # by -0 it would have the other sign
    angle = into.apply("Where", origin, zero, into.apply("Atan", quotient))
    turned = into.apply("Where", into.apply("Less", y, zero), into.apply("Neg", half), half)
    return into.apply("Add", angle, into.apply("Where", into.apply("Less", x, zero), turned, zero))


@rule("cbrt")
def _cbrt(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    (x,) = operands
    root = into.apply("Pow", into.apply("Abs", x), number_like(into, x, 1 / 3))
    return into.apply("Mul", into.apply("Sign", x), root)


@rule("round_nearest_afz")
def _round_away(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    """To the nearest whole number; halves away from zero."""
    (x,) = operands
    size = into.apply("Abs", x)
    below = into.apply("Floor", size)
    up = into.apply("GreaterOrEqual", into.apply("Sub", size, below), number_like(into, x, 0.5))
    return into.apply("Mul", into.apply("Sign", x), into.apply("Add", below, into.apply("Cast", up, to=into.dtype(x))))


@rule("log_plus_one")
def _log_plus_one(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    return into.apply("Log", into.apply("Add", operands[0], number_like(into, operands[0], 1)))


@rule("exponential_minus_one")
def _exponential_minus_one(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    return into.apply("Sub", into.apply("Exp", operands[0]), number_like(into, operands[0], 1))


@rule("erfc")
def _erfc(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    """`1 - erf(x)`; of `-y * c`, as in a GELU, `1 + erf(y * c)`."""
    (x,) = operands
    one, product = number_like(into, x, 1), into.makers.get(x)
    if product is not None and product.op == "Mul":
        for negated, factor in (product.args, product.args[::-1]):
            made = into.makers.get(str(negated))
            if made is not None and made.op == "Neg":
                return into.apply("Add", one, into.apply("Erf", into.apply("Mul", str(made.args[0]), str(factor))))
    return into.apply("Sub", one, into.apply("Erf", x))


@rule("reduce_precision")
def _reduce_precision(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    """The same in fewer bits, where these are those of an element type."""
    (x,) = operands
    given = operation.attribute("format")
    bits = [operation.attribute("exponent_bits"), operation.attribute("mantissa_bits")]
    said = given.text if isinstance(given, MlirWord) else f"e{bits[0]}m{bits[1]}"
    if said not in PRECISIONS:
        refuse(f"a precision of `{said}` has no element type here", operation.place, "convert to one that has")
    name = PRECISIONS[said]
    return (
        x
        if name == into.dtype(x).name
        else into.apply("Cast", into.apply("Cast", x, to=DTYPES[name]), to=into.dtype(x))
    )


@rule("is_finite")
def _is_finite(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    return into.apply("Less", into.apply("Abs", operands[0]), number_like(into, operands[0], np.inf))


def number_like(into: StableHlo, like: str, value: float) -> str:
    """A number in the elements of a value."""
    dtype = into.dtype(like)
    return into.known_value(Dense(dtype, (), (float(value) if dtype.kind == "float" else int(value),)))
