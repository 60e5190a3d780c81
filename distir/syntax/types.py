"""What the rules of `dir.lark` for types and dimensions mean. See `reading`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distir.diagnostics.codes import syntax as codes
from distir.files import limits
from distir.ir import (
    DTYPES,
    HOST,
    OFFLOADED,
    UNKNOWN,
    AnyType,
    Dim,
    DimensionError,
    DType,
    Shape,
    SymbolicDim,
    TensorType,
    TupleType,
    Type,
    dims,
)
from distir.syntax.fault import Fault, meant
from distir.syntax.numbers import INT64, integer


def tensor(parts: list[Any]) -> TensorType:
    dtype, shape, device, word = parts
    if word not in (None, OFFLOADED):
        raise Fault(codes.UNKNOWN_TYPE, f"expected `{OFFLOADED}` behind a tensor's device, found `{word}`")
    if word and device == HOST:
        hint = "state the device to which it belongs, as in `Tensor[Float32, (2, 3), 1, offloaded]`"
        raise Fault(codes.UNKNOWN_TYPE, "a host value, which is on no device, cannot be offloaded", hint)
    return TensorType(dtype, shape, device, word is not None)


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
    hint = (
        meant(_spelled_out(name), known)
        or "a type is `Tensor[Float32, (2, 3), 1]`, `Float32[1]`, `Int64`, `Tuple[…]` or `D1`"
    )
    raise Fault(codes.UNKNOWN_TYPE, f"expected a type, found `{name}`", hint)


def dtype(parts: list[Any]) -> DType | None:
    if not parts:
        return None
    (name,) = parts
    if name not in DTYPES:
        hint = meant(_spelled_out(name), list(DTYPES)) or f"the element types are {', '.join(DTYPES)}"
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
        result = _small(_product(result, dim) if sign == "*" else _quotient(result, dim))
    return result


def size(parts: list[Any]) -> Dim:
    return _small(integer(parts))


def named_dim(parts: list[Any]) -> Dim:
    return dims.named(parts[0])


def negative_dim(parts: list[Any]) -> Dim:
    return _small(dims.multiply(-1, parts[0]))


def _product(left: Dim, right: Dim) -> Dim:
    found = dims.multiply(left, right)
    if found is None and None not in (left, right):
        raise _too_long()
    return found


def _too_long() -> Fault:
    return Fault(codes.BAD_DIMENSION, "the dimension has too many terms", "give it a name of its own")


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
        if len(dim.terms) > limits.TERMS or any(len(names) > limits.TERMS for names, _ in dim.terms):
            raise _too_long()
        if not dim.names:
            raise Fault(codes.BAD_DIMENSION, f"expected an integer, found `{dim}`", "division must be exact")
        if any(c not in INT64 for _, c in dim.terms) or dim.denominator not in INT64:
            raise Fault(codes.LARGE_NUMBER, "the dimension's numbers do not fit in 64 bits")
    return dim


def _spelled_out(name: str) -> str:
    """`f32` is `Float32`."""
    return next((dtype.name.lower() for dtype in DTYPES.values() if dtype.compact == name), name)


def _nothing(_: list[Any]) -> None:
    return None


RULES: dict[str, Callable[[list[Any]], Any]] = {
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
}
