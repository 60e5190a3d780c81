"""Element types, spelled as in `.dir` and named as in ONNX. Knows no numpy: `ops/numeric.py` maps them there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["bool", "int", "uint", "float"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type. There is one object per type, so that types compare and hash by identity."""

    name: str
    kind: Kind
    bytes: int
    """How many one element takes by itself."""
    compact: str
    """The short spelling of hints: `f32`."""
    packed: int = 1
    """How many elements share a byte in memory and in files; numpy keeps each in a byte of its own."""

    @property
    def bits(self) -> int:
        """The bits of one element."""
        return 8 * self.bytes // self.packed

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return _named, (self.name,)  # one object per type in every process


BOOL = DType("Bool", "bool", 1, "b8")
INT8, INT16 = DType("Int8", "int", 1, "i8"), DType("Int16", "int", 2, "i16")
INT32, INT64 = DType("Int32", "int", 4, "i32"), DType("Int64", "int", 8, "i64")
UINT8, UINT16 = DType("UInt8", "uint", 1, "u8"), DType("UInt16", "uint", 2, "u16")
UINT32, UINT64 = DType("UInt32", "uint", 4, "u32"), DType("UInt64", "uint", 8, "u64")
FLOAT16, BFLOAT16 = DType("Float16", "float", 2, "f16"), DType("BFloat16", "float", 2, "bf16")
FLOAT32, FLOAT64 = DType("Float32", "float", 4, "f32"), DType("Float64", "float", 8, "f64")
FLOAT8E4M3FN = DType("Float8E4M3FN", "float", 1, "f8e4m3fn")
FLOAT8E4M3FNUZ = DType("Float8E4M3FNUZ", "float", 1, "f8e4m3fnuz")
FLOAT8E5M2 = DType("Float8E5M2", "float", 1, "f8e5m2")
FLOAT8E5M2FNUZ = DType("Float8E5M2FNUZ", "float", 1, "f8e5m2fnuz")
FLOAT8E8M0 = DType("Float8E8M0", "float", 1, "f8e8m0")
INT4, UINT4 = DType("Int4", "int", 1, "i4", 2), DType("UInt4", "uint", 1, "u4", 2)
INT2, UINT2 = DType("Int2", "int", 1, "i2", 4), DType("UInt2", "uint", 1, "u2", 4)
FLOAT4E2M1 = DType("Float4E2M1", "float", 1, "f4e2m1", 2)

DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        (BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64)
        + (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)
        + (FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, FLOAT8E8M0)
        + (INT4, UINT4, INT2, UINT2, FLOAT4E2M1)
    )
}


def _named(name: str) -> DType:
    return DTYPES[name]


INTEGER_RANGES: dict[DType, range] = {
    dtype: range(-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1)) if dtype.kind == "int" else range(2**dtype.bits)
    for dtype in DTYPES.values()
    if dtype.kind in ("int", "uint")
}
"""The integers that each integer type can hold."""
