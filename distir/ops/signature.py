"""Signatures: an op's type in `.dir` type syntax with variables, and their syntax trees.

    Tensor[t, (..., m, k), d], Tensor[t, (..., k, n), d] -> Tensor[t, (..., m, n), d]

| written            | means                                                                                       |
|--------------------|---------------------------------------------------------------------------------------------|
| `t`, `t:float`     | an element type, the same wherever it occurs; restricted to `float`, `int` (both signs),     |
|                    | `number` (either) or `bool`                                                                 |
| `m`                | a dimension, the same wherever it occurs; `3`; `_` any                                      |
| `s`, `(*s, n)`     | any dimensions, the same sequence wherever it occurs                                        |
| `...`              | leading dimensions that broadcast as in NumPy; in a result, what they broadcast to          |
| `(*a, n@axis, *b)` | `n` is the dimension that the attribute `axis` names                                        |
| `d`                | a device, the same wherever it occurs; `host`; or the attribute of that name                |
| `[t, s, d, m]`     | in memory `m`, the device's or its host's, the same wherever it occurs; `offloaded`: the     |
|                    | host's; the device's if not stated                                                          |
| `*Tensor[...]`     | any number of operands or results (operands: at least one)                                  |
| `n_i`, `d_i`       | one for each of those operands; `d_i` are distinct devices. `sum(n_i)`; `devices_i`: the    |
|                    | entries of the attribute `devices`                                                          |
| `N`                | the number of operands of a starred pattern, or of entries of `devices_i`                   |
| `n / N`, `n + 1`   | arithmetic, in results; division is exact                                                   |
| `Optional[...]`    | an optional operand                                                                         |
| `T`, `T[d]`        | anything, tuples too (`T[d]`: all of it on device `d`)                                      |
"""

from __future__ import annotations

from dataclasses import dataclass

from distir.ir import DTYPES, DType

DTYPE_CLASSES: dict[str, frozenset[DType]] = {
    "float": frozenset(d for d in DTYPES.values() if d.kind == "float"),
    "int": frozenset(d for d in DTYPES.values() if d.kind in ("int", "uint")),
    "number": frozenset(d for d in DTYPES.values() if d.kind != "bool"),
    "bool": frozenset(d for d in DTYPES.values() if d.kind == "bool"),
    "any": frozenset(DTYPES.values()),
}


@dataclass(frozen=True, slots=True)
class DimVar:
    """`n`, `n@axis`, `n_i` (then `indexed`)."""

    name: str
    axis: str | None = None

    @property
    def indexed(self) -> bool:
        """Whether each operand of a variadic group has its own size, as with `n_i`."""
        return self.name.endswith("_i")


@dataclass(frozen=True, slots=True)
class Segment:
    """`*s`: a sequence of dimensions."""

    name: str


@dataclass(frozen=True, slots=True)
class Broadcast:
    """`...`."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right`, with `+ - * /`."""

    operator: str
    left: DimTerm
    right: DimTerm


@dataclass(frozen=True, slots=True)
class Sum:
    """`sum(n_i)`."""

    of: DimVar


@dataclass(frozen=True, slots=True)
class AnyDim:
    """`_`."""


DimTerm = int | DimVar | Arithmetic | Sum | AnyDim
ShapeTerm = tuple[DimTerm | Segment | Broadcast, ...] | None
"""`None`: the shape is not stated."""


@dataclass(frozen=True, slots=True)
class DTypeVar:
    """`t:float`."""

    name: str
    allowed: str = "any"


@dataclass(frozen=True, slots=True)
class TensorPattern:
    """`Tensor[dtype, shape, device, memory]`; without the last, in the device's own memory."""

    dtype: DType | DTypeVar | None
    shape: ShapeTerm
    device: str
    memory: str | None = None


@dataclass(frozen=True, slots=True)
class AnyPattern:
    """`T`, `T[d]`."""

    name: str
    device: str | None = None


@dataclass(frozen=True, slots=True)
class OperandPattern:
    """The pattern of an operand or a result."""

    pattern: TensorPattern | AnyPattern
    variadic: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """`operands -> results`. `text`: its source."""

    text: str
    operands: tuple[OperandPattern, ...]
    results: tuple[OperandPattern, ...]

    def __str__(self) -> str:
        return self.text
