"""The types of values: tensors, tuples, and "some type" (`D1`, or nothing written).

A scalar is a tensor of rank 0. A device is an integer from 0; `HOST` means that the value lives on no device and is
known before the program runs; `None` means that the device is left open. Likewise an element type or a shape that is
`None` is unknown. An offloaded tensor belongs to a device, and is in the memory of that device's host. On a mesh, a
device represents several, shapes are those of the whole value, and a type says where its parts are. `str` gives the
`.dir` spelling, which parses back to the same value.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from distir.ir import dims
from distir.ir.dims import Dim, Shape, SymbolicDim
from distir.ir.dtypes import DType
from distir.ir.places import Places, SplitAlong, cuts_of, show_dim, show_qualities

HOST: Final = -1
OFFLOADED: Final = "offloaded"
"""The word in the type of a tensor that is in the memory of its device's host."""
Device = int | None


@dataclass(frozen=True, slots=True)
class TensorType:
    """`Tensor[Float32, (128, 64), 1]`; with shape `()` the scalar `Float32[1]`.

    `offloaded`: whether it is in the memory of its device's host: `Tensor[Float32, (128, 64), 1, offloaded]`. `places`:
    where its parts are on the mesh: `Tensor[Float32, (128@dp, 64), 1, sum tp]`.
    """

    dtype: DType | None
    shape: Shape | None
    device: Device = None
    offloaded: bool = False
    places: Places = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.dtype, self.shape, self.device, self.offloaded, self.places)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        # the hash holds in this process only
        return TensorType, (self.dtype, self.shape, self.device, self.offloaded, self.places)

    def __str__(self) -> str:
        if self.shape == () and not self.said and (self.dtype is not None or self.device != HOST):
            dtype = "?" if self.dtype is None else self.dtype.name
            return dtype if self.device == HOST else f"{dtype}[{_device(self.device)}]"
        return self.on(_device(self.device) if self.said or self.device is not None else "")

    def on(self, devices: str) -> str:
        """The type as it is written, on devices that are written so; on none that is stated where that is empty."""
        dtype = "?" if self.dtype is None else self.dtype.name
        shape = "??" if self.shape is None else show_shape(self.shape, self.places)
        return f"Tensor[{', '.join((dtype, shape, *([devices] if devices else ()), *self.said))}]"

    @property
    def said(self) -> list[str]:
        """What the type says behind the device."""
        return [*([OFFLOADED] if self.offloaded else ()), *show_qualities(self.places)]

    @property
    def elements(self) -> Dim:
        """How many elements; `None` if unknown."""
        return None if self.shape is None else dims.product(self.shape)

    @property
    def nbytes(self) -> Dim:
        """Size in bytes; `None` if unknown."""
        return _nbytes(self)


@dataclass(frozen=True, slots=True)
class TupleType:
    """`Tuple[T, ...]`."""

    items: tuple[Type, ...]
    depth: int = field(init=False, repr=False, compare=False)
    """How deep tuples are nested in it: 1 if no item is a tuple."""
    width: int = field(init=False, repr=False, compare=False)
    """How many leaves it has."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        inner = [item.depth for item in self.items if isinstance(item, TupleType)]
        object.__setattr__(self, "depth", 1 + max(inner, default=0))
        widths = [item.width if isinstance(item, TupleType) else 1 for item in self.items]
        object.__setattr__(self, "width", sum(widths))
        object.__setattr__(self, "_hash", hash(self.items))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return TupleType, (self.items,)

    def __str__(self) -> str:
        return f"Tuple[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, slots=True)
class AnyType:
    """Some type, on a device that may be known: `D1`. Also the type of what could not be understood."""

    device: Device = None

    def __str__(self) -> str:
        return "?" if self.device is None else "host" if self.device == HOST else f"D{self.device}"


Type = TensorType | TupleType | AnyType
UNKNOWN: Final = AnyType()


def show_shape(shape: Shape, placed: Places = ()) -> str:
    """As it is written: `(4, B)`; with where its parts are, `(4@tp, B)`."""
    inner = ", ".join(show_dim(dim, cuts_of(placed, k)) for k, dim in enumerate(shape))
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


@lru_cache(maxsize=1 << 12)  # programs have few types, and ask for their sizes often
def _nbytes(type: TensorType) -> Dim:
    elements = type.elements
    if type.dtype is None or elements is None:
        return None
    return dims.divide_up(dims.multiply(elements, type.dtype.bytes), type.dtype.packed)


@lru_cache(maxsize=1 << 15)
def one(type: Type) -> Type:
    """The first of equal types that came along: to compare that with itself takes no time, however large it is."""
    return type


def leaves(type: Type) -> Iterator[TensorType | AnyType]:
    """The tensors of a type, left to right."""
    if isinstance(type, TupleType):
        for item in type.items:
            yield from leaves(item)
    else:
        yield type


def width(type: Type) -> int:
    """How many leaves a type has."""
    return type.width if isinstance(type, TupleType) else 1


def devices(type: Type) -> frozenset[int]:
    """The known devices that a value of this type lives on; empty for host values."""
    if isinstance(type, TupleType):
        return _devices(type)
    return frozenset((type.device,)) if type.device is not None and type.device != HOST else frozenset()


@lru_cache(maxsize=1 << 12)  # large tuples are passed from call to call
def _devices(type: TupleType) -> frozenset[int]:
    return frozenset(t.device for t in leaves(type) if t.device is not None and t.device != HOST)


def device_of(type: Type) -> Device:
    """The one device of all leaves, `HOST` where all are host values, or `None` if open or mixed."""
    return _device_of(type) if isinstance(type, TupleType) else type.device


@lru_cache(maxsize=1 << 12)
def _device_of(type: TupleType) -> Device:
    found = {leaf.device for leaf in leaves(type)}
    if len(found) > 1:
        found.discard(HOST)
    return found.pop() if len(found) == 1 else None


def on_device(type: Type, device: Device) -> Type:
    """The type on that device; on an unknown one for None. Host types stay on the host."""
    match type:
        case TensorType(dtype, shape, there, offloaded, placed):
            return TensorType(dtype, shape, HOST if there == HOST else device, offloaded, placed)
        case TupleType(items):
            return TupleType(tuple(on_device(item, device) for item in items))
        case AnyType(there):
            return AnyType(HOST if there == HOST else device)


def nbytes(type: Type) -> Dim:
    """Size in bytes of all that lives on a device; `None` if unknown."""
    return dims.total(
        None if isinstance(leaf, AnyType) else leaf.nbytes for leaf in leaves(type) if leaf.device != HOST
    )


def dim_names(type: Type) -> frozenset[str]:
    """The named dimensions that occur in a type."""
    return frozenset() if isinstance(type, AnyType) else _dim_names(type)


@lru_cache(maxsize=1 << 14)  # large tuples are passed from call to call
def _dim_names(type: TensorType | TupleType) -> frozenset[str]:
    if isinstance(type, TupleType):
        return frozenset[str]().union(*map(dim_names, type.items))
    return frozenset[str]().union(*(dim.names for dim in type.shape or () if isinstance(dim, SymbolicDim)))


def substitute(type: Type, bindings: Mapping[str, Dim]) -> Type:
    """The type with named dimensions replaced. Raises DimensionError where one cannot hold."""
    if not bindings:
        return type
    match type:
        case TensorType(_, shape, _) if shape and (names := dim_names(type)):
            found = tuple([(name, bindings[name]) for name in names if name in bindings])
            return _substituted(type, found) if found else type
        case TupleType(items) if dim_names(type):
            return one(TupleType(tuple([substitute(item, bindings) for item in items])))
        case _:
            return type


@lru_cache(maxsize=1 << 14)  # functions are called for the same sizes again and again
def _substituted(type: TensorType, bindings: tuple[tuple[str, Dim], ...]) -> Type:
    known = dict(bindings)
    shape = tuple([dims.substitute(dim, known) for dim in type.shape or ()])
    places = tuple([place.sized(known) if isinstance(place, SplitAlong) else place for place in type.places])
    return one(TensorType(type.dtype, shape, type.device, type.offloaded, places))


def meet(a: Type, b: Type) -> Type | None:
    """The type that states what both state; `None` where they contradict each other."""
    if a is b:
        return a
    if isinstance(a, TupleType) or isinstance(b, TupleType):
        return _meet_tuples(a, b)
    if isinstance(a, AnyType):
        return _meet_any(a, b)
    return _meet_any(b, a) if isinstance(b, AnyType) else _meet_tensors(a, b)


@lru_cache(maxsize=1 << 14)  # large tuples are passed from call to call
def _meet_tuples(a: Type, b: Type) -> Type | None:
    some, whole = (a, b) if isinstance(b, TupleType) else (b, a)
    assert isinstance(whole, TupleType)
    if isinstance(some, TensorType) or (isinstance(some, TupleType) and len(some.items) != len(whole.items)):
        return None
    stated = some.items if isinstance(some, TupleType) else (some,) * len(whole.items)
    met: list[Type] = []
    for x, y in zip(stated, whole.items, strict=True):
        item = meet(x, y)
        if item is None:
            return None
        met.append(item)
    return whole if all(map(operator.is_, met, whole.items)) else TupleType(tuple(met))


def _meet_tensors(a: TensorType, b: TensorType) -> TensorType | None:
    if a.dtype is not b.dtype and a.dtype is not None and b.dtype is not None:
        return None
    if a.device != b.device and a.device is not None and b.device is not None:
        return None
    if a.offloaded != b.offloaded and not (_is_anywhere(a) or _is_anywhere(b)):
        return None
    if a.places != b.places:
        return None
    shape = b.shape if a.shape is None else a.shape
    if a.shape is not None and b.shape is not None:
        if len(a.shape) != len(b.shape):
            return None
        if a.shape != b.shape:
            pairs = list(zip(a.shape, b.shape, strict=True))
            if any(m != n and m is not None and n is not None for m, n in pairs):
                return None
            shape = tuple([n if m is None else m for m, n in pairs])
    dtype, device = a.dtype or b.dtype, b.device if a.device is None else a.device
    offloaded = a.offloaded or b.offloaded
    if dtype is b.dtype and device == b.device and shape == b.shape and offloaded == b.offloaded:
        return b
    return TensorType(dtype, shape, device, offloaded, b.places)


def _is_anywhere(type: TensorType) -> bool:
    """Whether a type leaves open where a value is: also on the host of its device."""
    return type.device is None and not type.offloaded


def _meet_any(some: AnyType, type: TensorType | AnyType) -> Type | None:
    match type:
        case TensorType(dtype, shape, None, offloaded, placed):
            return type if some.device is None else TensorType(dtype, shape, some.device, offloaded, placed)
        case AnyType(None):
            return some
        case _:
            return type if some.device in (None, type.device) else None


def _device(device: Device) -> str:
    return "?" if device is None else "host" if device == HOST else str(device)
