"""Sums, means and maxima of rows of a table (`EmbeddingBag`), while a module is exported: as lookups and reductions.

PyTorch's own op says which row is in which bag by offsets alone, and its exporter loops over the bags.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from distir.importers.core import ImportRefused


@contextmanager
def bags_as_products() -> Generator[None]:
    """`torch.nn.functional.embedding_bag` by other ops of PyTorch; afterwards as it was."""
    functional: Any = importlib.import_module("torch.nn.functional")
    own = functional.embedding_bag
    functional.embedding_bag = _embedding_bag
    try:
        yield
    finally:
        functional.embedding_bag = own


def _embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """A bag for each row of `input`, or from each of the `offsets` on; what is `padding_idx` is in no bag."""
    torch: Any = importlib.import_module("torch")
    if max_norm is not None:
        raise ImportRefused("`embedding_bag` with `max_norm` changes its table", "scale the table before the program")
    if scale_grad_by_freq:
        raise ImportRefused("`embedding_bag` with `scale_grad_by_freq` has no op", "set it to False")
    rows = torch.nn.functional.embedding(input, weight)
    inside = torch.ones_like(input, dtype=torch.bool)
    if padding_idx is not None:
        inside = input != padding_idx % weight.shape[0]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if input.dim() == 1:  # (bags, places): which places are in which bag
        starts = offsets[:-1] if include_last_offset else offsets
        places = torch.arange(input.shape[0], device=input.device)
        ends = torch.cat([starts[1:], offsets[-1:] if include_last_offset else places[-1:] + 1])
        inside = inside & (places >= starts[:, None]) & (places < ends[:, None])
    count = inside.sum(-1, keepdim=True)
    if mode == "max":
        rows = torch.where(inside.unsqueeze(-1), rows, float("-inf")).amax(-2)
        return torch.where(count > 0, rows, 0)
    shares = inside.to(rows.dtype)
    if mode == "mean":
        shares = shares / count.clamp(min=1)
    return shares @ rows if input.dim() == 1 else (rows * shares.unsqueeze(-1)).sum(-2)
