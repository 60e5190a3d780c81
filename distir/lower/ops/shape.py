"""Other shapes for the same elements, in torch. Most are views there, as they are here."""

from __future__ import annotations

from typing import Any, cast

from distir.ir import DTYPES, Dense
from distir.lower.forms import Operand, Write, items, number, torch_form
from distir.ops.numeric import np


@torch_form("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _(write: Write, data: Operand, *_: Operand | None, **attrs: object) -> str:
    return f"{data.tensor}.reshape({items(write.results[0].shape or ())})"


@torch_form("Transpose")
def _(write: Write, data: Operand, *, perm: tuple[int, ...] | None = None) -> str:
    order = tuple(reversed(range(data.rank))) if perm is None else perm
    if order == (1, 0):
        return f"{data}.t()"
    return f"{data}.permute({items(order)})"


@torch_form("Expand")
def _(write: Write, input: Operand, shape: Operand) -> str:
    return f"{input.tensor}.expand({items(write.results[0].shape or ())})"


@torch_form("Tile", fresh=True)
def _(write: Write, input: Operand, repeats: Operand) -> str:
    counts = repeats.ints("how often the operand is repeated")
    return f"{input}.repeat({items(counts)})" if counts else f"{input.tensor}.clone()"


@torch_form("Pad")
def _(
    write: Write,
    data: Operand,
    pads: Operand,
    constant_value: Operand | None = None,
    axes: Operand | None = None,
    *,
    mode: str,
) -> str:
    widths = _widths(data, pads, axes)
    if mode == "constant":
        flat = [n for pair in reversed(widths) for n in pair]
        filling = "0"
        if constant_value is not None:
            filling = number(constant_value.scalar("what is padded with"))
        return f"F.pad({data}, {items(flat)}, value={filling})"
    text = str(data)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            places = _places(data.shape[axis], before, after, mode)
            index = write.constant(Dense(DTYPES["Int64"], (len(places),), tuple(places)))
            text = f"{text}.index_select({axis}, {index})"
    return text


def _widths(data: Operand, pads: Operand, axes: Operand | None) -> list[tuple[int, int]]:
    """How many elements are added before and after each dimension; negative: cut off."""
    amounts = pads.ints("how much is padded")
    half = len(amounts) // 2
    named = range(data.rank) if axes is None else [a % data.rank for a in axes.ints("which axes are padded")]
    given = dict(zip(named, zip(amounts[:half], amounts[half:], strict=True), strict=True))
    return [given.get(axis, (0, 0)) for axis in range(data.rank)]


def _places(size: int, before: int, after: int, mode: str) -> list[int]:
    """Where each element along a padded dimension comes from."""
    kept = np.arange(max(0, -before), size - max(0, -after))
    width = (max(0, before), max(0, after))
    return [int(place) for place in np.pad(kept, width, mode=cast(Any, mode))]
