"""Normalisation in torch."""

from __future__ import annotations

from distir.lower.forms import Operand, Unpacked, Write, items, number, torch_form


@torch_form("LayerNormalization", fresh=True)
def _(
    write: Write,
    x: Operand,
    scale: Operand,
    b: Operand | None = None,
    *,
    axis: int,
    epsilon: float,
    stash_type: int,
) -> str | Unpacked:
    given = f"{x}, {items(x.shape[axis % x.rank :])}, {scale}, {b}, {number(epsilon)}"
    if len(write.results) == 1:
        return f"F.layer_norm({given})"
    return Unpacked(f"{write.kernel('layer_norm_and_statistics')}({given})[: {len(write.results)}]")


@torch_form("RMSNormalization", fresh=True)
def _(write: Write, x: Operand, scale: Operand, *, axis: int, epsilon: float, stash_type: int) -> str:
    return f"F.rms_norm({x}, {items(x.shape[axis % x.rank :])}, {scale}, {number(epsilon)})"
