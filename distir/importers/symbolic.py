"""Ops of ours in what PyTorch exports or traces, as the exporter's symbolic ops."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

NAME = "distir"
"""The domain of these ops, and what parts of models that write them are registered as."""


def op(
    name: str, operands: tuple[Any, ...], attrs: dict[str, Any], shape: Sequence[Any], like: Any | None = None
) -> Any:
    """An op of one result of this shape, with the elements of `like`, by default the first operand."""
    (made,) = ops(name, operands, attrs, [((operands[0] if like is None else like).dtype, shape)])
    return made


def ops(
    name: str, operands: tuple[Any, ...], attrs: dict[str, Any], results: Sequence[tuple[Any, Sequence[Any]]]
) -> list[Any]:
    """An op, by the element types and the shapes of its results."""
    made = importlib.import_module("torch.onnx.ops").symbolic_multi_out(
        f"{NAME}::{name}",
        operands,
        attrs,
        dtypes=tuple(dtype for dtype, _ in results),
        shapes=tuple(tuple(shape) for _, shape in results),
        version=1,
    )
    return [result.to(operands[0].device) for result in made]  # of operands on the meta device they are on the CPU
