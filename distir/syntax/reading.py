"""What the rules of `dir.lark` mean: from trees to types, constants and statements.

One function per rule, named as the rule is; it gets what the rule's parts mean, with tokens as their text. A function
that finds something wrong raises `Fault`, which `evaluate` places. Knows neither positions in a text nor the ops.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from distir.diagnostics import Code
from distir.diagnostics.codes import syntax as codes
from distir.ir import (
    DISCARD,
    DTYPES,
    HOST,
    NO_ATTRIBUTES,
    UNKNOWN,
    AnyType,
    Arg,
    Attributes,
    Constant,
    Dense,
    Dim,
    DimensionError,
    DType,
    External,
    Literal,
    Param,
    Shape,
    SymbolicDim,
    TensorType,
    TupleType,
    Type,
    dims,
)
from distir.ir.dtypes import INTEGER_RANGES
from distir.syntax.grammar import Node

INT64 = range(-(2**63), 2**63)
LARGEST_DENSE = 2**24
"""How many elements a `dense` constant may have; more belong in a file."""
_MOST_TERMS = 256


class Fault(Exception):  # noqa: N818 (a fault of the text)
    """Text that fits the grammar and still says nothing. `first` and `last` are the numbers of the tokens at fault."""

    def __init__(self, code: Code, message: str, help: str | None = None, child: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.help = code, message, help
        self.child = child
        self.first, self.last = -1, -1


class Keyword(NamedTuple):
    """`name = value`, in brackets or among the arguments."""

    name: str
    value: Constant


@dataclass(frozen=True, slots=True)
class Operation:
    """A statement's right-hand side as written; `attrs` is `None` for a call."""

    callee: str
    args: tuple[Arg, ...]
    attrs: Attributes | None
    annotations: tuple[Param, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """A statement as written, before its spelling is made canonical."""

    results: tuple[str, ...]
    claims: tuple[Type | None, ...]
    operation: Operation


@dataclass(frozen=True, slots=True)
class Head:
    name: str
    params: tuple[Param, ...]
    result_types: tuple[Type, ...] | None


def evaluate(node: Node, tokens: Sequence[str]) -> Any:
    """What a tree over these tokens means. Raises Fault."""
    children: list[Any] = []
    for child in node.children:
        if isinstance(child, Node):
            children.append(evaluate(child, tokens))
        else:
            children.append(None if child is None else tokens[child])
    try:
        return RULES[node.rule](children)
    except Fault as fault:
        _place(fault, node)
        raise


def _place(fault: Fault, node: Node) -> None:
    if fault.first >= 0:
        return
    part = node if fault.child is None else node.children[fault.child]
    if isinstance(part, int):
        fault.first = fault.last = part
    else:
        part = part or node
        fault.first, fault.last = part.first, part.last


# ---- heads and statements


def head(parts: list[Any]) -> Head:
    name, params, result_types = parts
    return Head(name[1:], params, result_types)


def param(parts: list[Any]) -> Param:
    name, stated, roles = parts
    return Param(name[1:], UNKNOWN if stated is None else stated, NO_ATTRIBUTES if roles is None else roles)


def roles(parts: list[Any]) -> Attributes:
    return _attributes(parts)


def role(parts: list[Any]) -> Keyword:
    name, value = parts
    return Keyword(name, True if value is None else _checked(value, 1))


def statement(parts: list[Any]) -> Written:
    names, operation = parts
    if names is None:
        return Written((), (), operation)
    claims = tuple(claim for _, claim in names)
    return Written(tuple(name for name, _ in names), claims if any(claims) else (), operation)


def result(parts: list[Any]) -> tuple[str, Type | None]:
    name, claim = parts
    return (DISCARD if name == "_" else name[1:]), claim


def apply(parts: list[Any]) -> Operation:
    name, attributes, arguments = parts
    keywords = [argument for argument in arguments if isinstance(argument, Keyword)]
    annotations = tuple(argument for argument in arguments if isinstance(argument, Param))
    args = tuple(_unannotated(argument) for argument in arguments if not isinstance(argument, Keyword))
    written = list(attributes or ()) + keywords
    return Operation(name, args, _attributes(written), annotations)


def call(parts: list[Any]) -> Operation:
    name, arguments = parts
    for argument in arguments:
        if isinstance(argument, Keyword):
            raise Fault(codes.UNEXPECTED, f"a call has no attributes, found `{argument.name} = …`", child=1)
    return Operation(name[1:], arguments, None)


def attribute(parts: list[Any]) -> Keyword:
    name, value = parts
    return Keyword(name, _checked(value, 1))


def value(parts: list[Any]) -> str:
    return parts[0][1:]


def annotated(parts: list[Any]) -> Param:
    name, stated = parts
    return Param(name[1:], UNKNOWN if stated is None else stated)


def constant(parts: list[Any]) -> Literal:
    return Literal(_checked(parts[0], 0))


def operand_list(parts: list[Any]) -> Arg:
    """A list of constants is a constant; a list in which a value stands is a list of operands."""
    if all(isinstance(part, Literal) for part in parts):
        return Literal(tuple(part.value for part in parts))
    return tuple(parts)


def _unannotated(argument: Any) -> Arg:
    if isinstance(argument, Param):
        return argument.name
    if isinstance(argument, tuple):
        return tuple(map(_unannotated, cast("tuple[Any, ...]", argument)))
    return argument


def _attributes(keywords: Sequence[Keyword]) -> Attributes:
    if not keywords:
        return NO_ATTRIBUTES
    items: dict[str, Constant] = {}
    for keyword in keywords:
        if keyword.name in items:
            raise Fault(codes.DUPLICATE_ATTRIBUTE, f"`{keyword.name}` is given twice", "keep one of them")
        items[keyword.name] = keyword.value
    return Attributes(items)


def _checked(value: Constant, child: int) -> Constant:
    """The constant itself; its integers must fit in 64 bits."""
    if isinstance(value, tuple):
        for item in value:
            _checked(item, child)
    elif type(value) is int and value not in INT64:
        raise Fault(codes.LARGE_NUMBER, f"`{value}` does not fit in 64 bits", child=child)
    return value


# ---- types


def tensor(parts: list[Any]) -> TensorType:
    dtype, shape, device = parts
    return TensorType(dtype, shape, device)


def tuple_type(parts: list[Any]) -> TupleType:
    return TupleType(tuple(parts))


def scalar(parts: list[Any]) -> TensorType:
    dtype, device = parts
    return TensorType(dtype, (), device)


def named_type(parts: list[Any]) -> Type:
    (name,) = parts
    if name[0] == "D" and name[1:].isdigit():
        return AnyType(device([name[1:]]))
    if name in DTYPES:
        return TensorType(DTYPES[name], (), HOST)
    known = ["Tensor", "Tuple", *DTYPES]
    hint = _nearest(name, known) or "a type is `Tensor[Float32, (2, 3), 1]`, `Float32[1]`, `Int64`, `Tuple[…]` or `D1`"
    raise Fault(codes.UNKNOWN_TYPE, f"expected a type, found `{name}`", hint)


def dtype(parts: list[Any]) -> DType | None:
    if not parts:
        return None
    (name,) = parts
    if name not in DTYPES:
        hint = _nearest(name, list(DTYPES)) or f"the element types are {', '.join(DTYPES)}"
        raise Fault(codes.UNKNOWN_TYPE, f"expected an element type, found `{name}`", hint)
    return DTYPES[name]


def device(parts: list[Any]) -> int:
    number = integer(parts)
    if number not in INT64:
        raise Fault(codes.LARGE_NUMBER, f"`{number}` does not fit in 64 bits")
    return number


def shape(parts: list[Any]) -> Shape:
    for number, dim in enumerate(parts):
        if isinstance(dim, int) and dim < 0:
            hint = "write `?` for a dimension that is not known"
            raise Fault(codes.BAD_DIMENSION, f"a dimension cannot be negative, found `{dim}`", hint, number)
    return tuple(parts)


def total(parts: list[Any]) -> Dim:
    result: Dim = parts[0]
    for sign, dim in zip(parts[1::2], parts[2::2], strict=True):
        result = _small(dims.add(result, dim) if sign == "+" else dims.subtract(result, dim))
    return result


def times(parts: list[Any]) -> Dim:
    result: Dim = parts[0]
    for sign, dim in zip(parts[1::2], parts[2::2], strict=True):
        result = _small(dims.multiply(result, dim) if sign == "*" else _quotient(result, dim))
    return result


def size(parts: list[Any]) -> Dim:
    return _small(integer(parts))


def named_dim(parts: list[Any]) -> Dim:
    return dims.named(parts[0])


def negative_dim(parts: list[Any]) -> Dim:
    return _small(dims.multiply(-1, parts[0]))


def _quotient(dividend: Dim, divisor: Dim) -> Dim:
    if dividend is None or divisor is None:
        return None
    try:
        quotient = dims.divide(dividend, divisor)
    except DimensionError as error:
        raise Fault(codes.BAD_DIMENSION, str(error), "a dimension is an integer: division must be exact") from error
    if quotient is None:
        message = f"`{dims.show(dividend)}` cannot be divided by `{dims.show(divisor)}`"
        raise Fault(codes.BAD_DIMENSION, message, "write `?` for a dimension that is not known")
    return quotient


def _small(dim: Dim) -> Dim:
    if isinstance(dim, int) and dim not in INT64:
        raise Fault(codes.LARGE_NUMBER, f"`{dim}` does not fit in 64 bits")
    if isinstance(dim, SymbolicDim):
        if len(dim.terms) > _MOST_TERMS or any(len(names) > _MOST_TERMS for names, _ in dim.terms):
            raise Fault(codes.BAD_DIMENSION, "the dimension has too many terms", "give it a name of its own")
        if not dim.names:
            raise Fault(codes.BAD_DIMENSION, f"expected an integer, found `{dim}`", "division must be exact")
        if any(c not in INT64 for _, c in dim.terms) or dim.denominator not in INT64:
            raise Fault(codes.LARGE_NUMBER, "the dimension's numbers do not fit in 64 bits")
    return dim


# ---- constants


def minus(parts: list[Any]) -> int | float:
    return -parts[0]


def integer(parts: list[Any]) -> int:
    (digits,) = parts
    if len(digits) > 20 or (number := int(digits)) >= 2**64:
        shown = digits if len(digits) <= 24 else f"{digits[:20]}…"
        raise Fault(codes.LARGE_NUMBER, f"`{shown}` does not fit in 64 bits")
    return number


def real(parts: list[Any]) -> float:
    number = float(parts[0])
    if math.isinf(number):
        raise Fault(codes.LARGE_NUMBER, f"`{parts[0]}` does not fit in 64 bits", "write `inf` for infinity")
    return number


def string(parts: list[Any]) -> str:
    try:
        return json.loads(parts[0], strict=False)
    except ValueError as error:
        hint = (
            'write `\\\\` for a backslash; the others are `\\"`, `\\n`, `\\t`, `\\r`, `\\b`, `\\f`, `\\/` and `\\u0041`'
        )
        raise Fault(codes.BAD_STRING, "the string has a `\\` that means nothing", hint) from error


def word(parts: list[Any]) -> DType:
    (name,) = parts
    if name not in DTYPES:
        hint = _nearest(name, ["true", "false", *DTYPES]) or f'a value is written `%{name}`, a string `"{name}"`'
        raise Fault(codes.UNKNOWN_WORD, f"expected a constant, found the word `{name}`", hint)
    return DTYPES[name]


def large_list(parts: list[Any]) -> tuple[Constant, ...]:
    text: str = parts[0]
    try:
        numbers = json.loads(text.replace("inf", "Infinity").replace("nan", "NaN"))
    except ValueError:
        numbers = [_number(item) for item in text[1:-1].removesuffix(",").split(",")]
    if "inf" not in text and any(map(math.isinf, numbers)):
        raise Fault(codes.LARGE_NUMBER, "a number in this list does not fit in 64 bits", "write `inf` for infinity")
    return tuple(numbers)


def _number(text: str) -> int | float:
    digits = text.strip()
    unsigned = digits.removeprefix("-").strip()
    sign = -1 if digits.startswith("-") else 1
    if unsigned.isdigit():
        return sign * integer([unsigned])
    try:
        return sign * float(unsigned)
    except ValueError as error:
        raise Fault(codes.UNEXPECTED, f"expected a number, found `{digits}`") from error


def dense(parts: list[Any]) -> Dense:
    name, sizes, nested = parts
    element = dtype([name])
    assert element is not None
    shape, flat = _flatten(nested)
    if sizes is not None:
        count = math.prod(sizes)
        if count > LARGEST_DENSE:
            raise Fault(codes.BAD_DENSE, f"a tensor of {count} elements is too large to be written here", child=1)
        if shape == () and sizes != ():
            flat = flat * count
        elif shape != sizes and (len(shape) != 1 or len(flat) != count):
            raise Fault(codes.BAD_DENSE, f"expected {count} values, found {len(flat)}: the shape is {sizes}", child=2)
        shape = sizes
    return Dense(element, shape, _elements(element, flat))


def external(parts: list[Any]) -> External:
    name, sizes, text = parts
    element = dtype([name])
    assert element is not None
    reference = string([text])
    wrong = _wrong_reference(reference)
    if wrong:
        hint = 'only files in the program\'s own folder may be named: `"model.safetensors#name"`'
        raise Fault(codes.BAD_REFERENCE, f"{wrong}, found `{reference}`", hint, 2)
    return External(element, sizes, reference)


def sizes(parts: list[Any]) -> tuple[int, ...]:
    return tuple(device([digits]) for digits in parts)


def _flatten(value: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The shape that the nesting tells, and the values in row-major order."""
    shape: list[int] = []
    level: tuple[Any, ...] = (value,)
    while level and isinstance(level[0], tuple):
        lengths = {len(cast("tuple[Any, ...]", item)) if isinstance(item, tuple) else -1 for item in level}
        if len(lengths) != 1:
            raise Fault(codes.BAD_DENSE, "the rows of the tensor differ in length", child=2)
        shape.append(lengths.pop())
        level = tuple(item for row in level for item in row)
    if any(isinstance(item, tuple) for item in level):
        raise Fault(codes.BAD_DENSE, "the rows of the tensor differ in length", child=2)
    return tuple(shape), level


def _elements(element: DType, values: tuple[Any, ...]) -> tuple[bool | int | float, ...]:
    kinds = set(map(type, values))
    allowed = {"bool": {bool}, "float": {int, float}}.get(element.kind, {int})
    if not kinds <= allowed:
        wrong = next(item for item in values if type(item) not in allowed)
        wanted = {"bool": "`true` or `false`", "float": "numbers"}.get(element.kind, "integers")
        shown = (
            wrong
            if isinstance(wrong, DType)
            else json.dumps(wrong)
            if isinstance(wrong, (str, bool, int, float))
            else "a tensor"
        )
        raise Fault(codes.BAD_DENSE, f"expected {wanted} in a tensor of {element}, found `{shown}`", child=2)
    if element.kind == "float":
        return tuple(map(float, values))
    if values and element in INTEGER_RANGES:
        allowed_range = INTEGER_RANGES[element]
        for wrong in (min(values), max(values)):
            if wrong not in allowed_range:
                low, high = allowed_range[0], allowed_range[-1]
                message = f"`{wrong}` does not fit in {element}, which holds {low} to {high}"
                raise Fault(codes.BAD_DENSE, message, child=2)
    return values


def _wrong_reference(reference: str) -> str | None:
    path = reference.split("#")[0]
    if not path:
        return "expected a file's name"
    if "\0" in reference or "\\" in reference:
        return "expected a path with `/`, without backslashes and NUL characters"
    if path.startswith("/") or ":" in path:
        return "expected a relative path"
    if ".." in path.split("/"):
        return "expected a path without `..`"
    return None


def _nearest(name: str, known: Sequence[str]) -> str | None:
    from distir.diagnostics.nearest import nearest

    similar = nearest(name, known)
    return f"did you mean `{similar}`?" if similar else None


def _nothing(_: list[Any]) -> None:
    return None


RULES: dict[str, Callable[[list[Any]], Any]] = {
    "head": head,
    "params": tuple,
    "param": param,
    "roles": roles,
    "role": role,
    "result_types": tuple,
    "return_": tuple,
    "statement": statement,
    "example": statement,
    "results": tuple,
    "result": result,
    "apply": apply,
    "example_apply": apply,
    "call": call,
    "attributes": tuple,
    "attribute": attribute,
    "arguments": tuple,
    "example_arguments": tuple,
    "value": value,
    "annotated": annotated,
    "constant": constant,
    "large_constant": lambda parts: Literal(large_list(parts)),
    "operand_list": operand_list,
    "tensor": tensor,
    "tuple_type": tuple_type,
    "scalar": scalar,
    "named_type": named_type,
    "host_type": lambda _: AnyType(HOST),
    "unknown_type": lambda _: UNKNOWN,
    "dtype": dtype,
    "device": device,
    "host_device": lambda _: HOST,
    "any_device": _nothing,
    "shape": shape,
    "unknown_shape": _nothing,
    "sum": total,
    "sum_sign": lambda parts: parts[0],
    "times": times,
    "product_sign": lambda parts: parts[0],
    "size": size,
    "named_dim": named_dim,
    "unknown_dim": _nothing,
    "negative_dim": negative_dim,
    "large_list": large_list,
    "list": tuple,
    "minus": minus,
    "integer": integer,
    "real": real,
    "infinity": lambda _: math.inf,
    "not_a_number": lambda _: math.nan,
    "string": string,
    "true": lambda _: True,
    "false": lambda _: False,
    "word": word,
    "dense": dense,
    "external": external,
    "sizes": sizes,
}
