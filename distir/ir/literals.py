"""Constants: what attributes hold, and host values. Knows no numpy.

Attribute values are Python's `int`, `float`, `str`, `bool`, tuples of those, an element type, or one of the two
tensors below. `1`, `1.0` and `true` are three different constants, although Python's `==` says otherwise: containers
of constants therefore compare by `identity(value)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Union

from distir.ir.dims import SymbolicDim
from distir.ir.dtypes import DType
from distir.ir.types import HOST, TensorType

Scalar = bool | int | float


@dataclass(frozen=True, slots=True)
class Dense:
    """A tensor that is known: `dense<Int64, [2, 3]>`. `values` in row-major order, `len(values) == product(shape)`.

    A host value that holds sizes may hold symbolic ones too: the shape of a tensor whose dimensions are named. Such a
    constant is a result of inference; no program text spells it.
    """

    dtype: DType
    shape: tuple[int, ...]
    values: tuple[Scalar | SymbolicDim, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.values) != math.prod(self.shape):
            raise ValueError(f"{len(self.values)} values do not fill the shape {self.shape}")
        if self.dtype.kind == "float":  # one object for nan, so that a constant equals itself
            object.__setattr__(self, "values", tuple(math.nan if v != v else v for v in self.values))
        object.__setattr__(self, "_hash", hash((self.dtype, self.shape, self.values)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Dense, (self.dtype, self.shape, self.values)

    @property
    def type(self) -> TensorType:
        """The type of this constant as a host value."""
        return TensorType(self.dtype, self.shape, HOST)

    @property
    def device(self) -> int:
        """A constant is a host value."""
        return HOST

    @property
    def symbolic(self) -> bool:
        """Whether some values are symbolic dimensions."""
        return SymbolicDim in set(map(type, self.values))  # of a million values, too


@dataclass(frozen=True, slots=True)
class External:
    """A tensor kept beside the program: `external<Float32, (768, 768), "model.safetensors#wte">`."""

    dtype: DType
    shape: tuple[int, ...]
    reference: str

    @property
    def type(self) -> TensorType:
        """The type of this constant as a host value."""
        return TensorType(self.dtype, self.shape, HOST)


Constant = Union[bool, int, float, str, DType, Dense, External, "tuple[Constant, ...]"]


def identity(value: Constant) -> tuple[object, ...]:
    """What two constants must share to be the same constant."""
    if isinstance(value, tuple):
        return (tuple, *(identity(item) for item in value))
    if isinstance(value, float):  # -0.0 is not 0.0, and one nan is as good as another
        return (float, "nan" if value != value else value.hex())
    return (type(value), value)


class Attributes(Mapping[str, Constant]):
    """Immutable, hashable attributes in a fixed order that does not count for equality."""

    __slots__ = ("_hash", "_items", "_key")

    def __init__(self, items: Mapping[str, Constant] | None = None) -> None:
        self._items: dict[str, Constant] = dict(items or {})
        self._key = frozenset((name, identity(value)) for name, value in self._items.items())
        self._hash = hash(self._key)

    def __getitem__(self, name: str) -> Constant:
        return self._items[name]

    def ints(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers, as axes or sizes; None where it is absent or something else."""
        value = self._items.get(name)
        if not isinstance(value, tuple):
            return None
        found = tuple([item for item in value if isinstance(item, int)])
        return found if len(found) == len(value) else None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Attributes) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Attributes, (self._items,)

    def __repr__(self) -> str:
        return f"Attributes({self._items!r})"


NO_ATTRIBUTES = Attributes()
