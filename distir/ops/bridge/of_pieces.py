"""What bridged ops make of parts of values, for proofs, where that is more than their layouts say (`ops/pieces.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces


def _with_bias(op: str) -> Callable[..., Any]:
    """The rule of an op that adds a bias per channel: the bias is one addend, and may be a share of it."""

    def rule(p: Pieces, x: Piece, w: Piece, bias: Piece | None = None, **attrs: Any) -> Any:
        if bias is None:
            return NotImplemented
        (product,) = p.several(op, 1, x, w, **attrs)
        spatial = range(1, len(p.shape(x)) - 1)
        return [p.sum((1.0, product), (1.0, p.unsqueezed(bias, spatial)))]

    return rule


RULES = {name: _with_bias(name) for name in ("Conv", "ConvTranspose")}
"""By the names of ops."""
