"""What the rules of `dir.lark` for types and dimensions mean. See `reading`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from distir.diagnostics.codes import placements
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
    OwnedAlong,
    PendingAlong,
    Shape,
    SplitAlong,
    SymbolicDim,
    TensorType,
    TupleType,
    Type,
    dims,
)
from distir.ir.places import OWNED, PENDING, ZIGZAG, Repeated, Shared, places
from distir.syntax.fault import Fault, meant
from distir.syntax.numbers import INT64, integer, large_list
from distir.syntax.ranges import devices_of


def tensor(parts: list[Any]) -> TensorType:
    dtype, (shape, cuts), device, *qualities = parts
    said = [place for found in qualities if found != OFFLOADED for place in found]
    offloaded = OFFLOADED in qualities
    if device == HOST and (qualities or cuts):
        what, how = ("offloaded", ", offloaded") if offloaded else ("placed on a mesh", "")
        hint = f"state the device to which it belongs, as in `Tensor[Float32, (2, 3), 1{how}]`"
        raise Fault(codes.UNKNOWN_TYPE, f"a host value, which is on no device, cannot be {what}", hint)
    axes = [place.axis for place in (*cuts, *said)]
    for axis in axes:
        if axes.count(axis) > 1:
            hint = "along one axis it is split once, or pending, or on one device, or the same on each"
            raise Fault(placements.BAD_PLACEMENT, f"a value is placed along the axis `{axis}` twice", hint)
    return TensorType(dtype, shape, device, offloaded, places((*cuts, *said)))


@dataclass(frozen=True, slots=True)
class OverDevices:
    """The type of a range of parameters, equally many of which are on each of some devices, one behind the other."""

    type: TensorType
    devices: range

    def over(self, count: int) -> list[TensorType]:
        """The types of `count` parameters. Raises Fault where there are not equally many on each device."""
        if count % len(self.devices):
            message = f"{count} parameters are not spread evenly over {len(self.devices)} devices"
            hint = "equally many are on each device: 2 of `%w_{1..8}: Tensor[Float32, (4, 4), 1..4]`"
            raise Fault(codes.BAD_COUNTED_CALL, message, hint)
        each = count // len(self.devices)
        return [one for device in self.devices for one in [replace(self.type, device=device)] * each]


def spread(parts: list[Any]) -> OverDevices:
    dtype, shape, devices, *qualities = parts
    found = devices_of(devices)
    return OverDevices(tensor([dtype, shape, found.start, *qualities]), found)


def quality(parts: list[Any]) -> str | list[PendingAlong] | list[OwnedAlong]:
    """`offloaded`, the device of an axis that alone has the value, or what is pending over axes."""
    word, axes, number = parts
    if axes is None and number is None and word == OFFLOADED:
        return word
    if word == OWNED:
        if axes is None or len(axes) > 1 or number is None:
            hint = f"state one axis and the number of its device, from 1: `{OWNED} dp 2`"
            raise Fault(codes.UNKNOWN_TYPE, f"expected an axis and a number behind `{OWNED}`", hint, 0)
        return [OwnedAlong(axes[0], integer([number]))]
    if axes is None or word not in PENDING or number is not None:
        pending = " or ".join(f"`{how} AXIS`" for how in PENDING)
        hint = f"or what a mesh has of it: {pending}, which is pending, or `{OWNED} AXIS NUMBER`, on one device"
        raise Fault(codes.UNKNOWN_TYPE, f"expected `{OFFLOADED}` behind a tensor's device, found `{word}`", hint, 0)
    return [PendingAlong(axis, word) for axis in axes]


def split(parts: list[Any]) -> _SplitDim:
    dim, *cuts = parts
    if isinstance(cuts[0], SplitAlong):
        return _SplitDim(dim, tuple(cuts))
    axis, of = cuts
    if not _AXIS.fullmatch(axis[1:]):
        raise Fault(codes.UNEXPECTED, f"expected the name of an axis, found `{axis[1:]}`", child=1)
    return _SplitDim(dim, (cut([axis[1:], of]),))


def cut(parts: list[Any]) -> SplitAlong:
    """`tp`, `tp[32, 32]`, or either of them in zig-zag: `zigzag(cp)`."""
    word, of = parts
    if not isinstance(of, SplitAlong):
        return SplitAlong(0, word, of or ())
    found = replace(of, zigzag=True)
    if word != ZIGZAG or of.zigzag:
        shown = f"{word}({of})"
        hint = f"parts are in the order of the devices, as in `{of.axis}`, or in zig-zag: `{found}`"
        raise Fault(codes.UNEXPECTED, f"expected an axis, or `{ZIGZAG}` of one, found `{shown}`", hint)
    return found


def many_blocks(parts: list[Any]) -> tuple[int, ...]:
    sizes = large_list(parts)
    other = next((size for size in sizes if not isinstance(size, int)), None)
    if other is not None:
        raise Fault(codes.UNEXPECTED, f"expected the size of a block, found `{other}`", child=0)
    return tuple(map(int, sizes))


def block_of(parts: list[Any]) -> Shared | Repeated:
    word, size = parts
    kind = {"whole": Shared, "each": Repeated}.get(word)
    if kind is None:
        raise Fault(codes.UNEXPECTED, f"expected `whole` or `each` before the size of a block, found `{word}`", child=0)
    return kind(integer([size]))


@dataclass(frozen=True, slots=True)
class _SplitDim:
    """A dimension that is split along axes of the mesh, outermost first."""

    dim: Dim
    cuts: tuple[SplitAlong, ...]


_AXIS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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


def shape(parts: list[Any]) -> tuple[Shape, list[SplitAlong]]:
    """The dimensions, and where they are split."""
    split = [part if isinstance(part, _SplitDim) else _SplitDim(part, ()) for part in parts]
    for number, own in enumerate(split):
        if isinstance(own.dim, int) and own.dim < 0:
            hint = "write `?` for a dimension that is not known"
            raise Fault(codes.BAD_DIMENSION, f"a dimension cannot be negative, found `{own.dim}`", hint, number)
    cuts = [replace(cut, dim=number) for number, own in enumerate(split) for cut in own.cuts]
    return tuple(own.dim for own in split), cuts


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
    "spread": spread,
    "host_device": lambda _: HOST,
    "any_device": _nothing,
    "shape": shape,
    "unknown_shape": lambda _: (None, ()),
    "quality": quality,
    "over": tuple,
    "split": split,
    "cut": cut,
    "blocks": tuple,
    "many_blocks": many_blocks,
    "block_of": block_of,
    "sum": total,
    "sum_sign": lambda parts: parts[0],
    "times": times,
    "product_sign": lambda parts: parts[0],
    "size": size,
    "named_dim": named_dim,
    "unknown_dim": _nothing,
    "negative_dim": negative_dim,
}
