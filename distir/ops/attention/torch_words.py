"""Words of attention's torch form: what is said of masks of runs, and of random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distir.ops.attention.values import first_score
from distir.ops.dropout import kept_scale, least_kept, rounded

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Write


def runs_torch(query_runs: Expr | None, key_runs: Expr | None) -> str:
    """Runs, as further arguments of kernels; nothing where there are none."""
    found = [None if runs is None else tuple(runs.ints("where runs begin")) for runs in (query_runs, key_runs)]
    return "" if found == [None, None] else f", {found[0]}, {found[1]}"


def random_torch(
    write: Write, whole: Expr, heads: int | None, key: Expr | None, rows: Expr | None, start: Expr | None, ratio: float
) -> str | None:
    """Dropout in kernels: the least random word to retain, scale, key, rows, and the first score of this part."""
    if not ratio:
        return None
    if key is None:
        reason = "attention with dropout needs a key of random numbers"
        raise write.refuse(reason, "the step `seeded` gives it one")
    share, begin = rounded(ratio), (0, 0, 0)
    if start is not None:
        begin = first_score(start.ints("where a part begins"), whole.shape, heads or 1)
    return f"({least_kept(share)}, {write.number(kept_scale(share))}, {key}, {rows}, {begin})"
