"""GSPMD's annotations (`mhlo.sharding`), as jax wrote them before Shardy, and torch-xla does: devices by tile.

A sharding lists the devices of each tile, most often as a transposed count. The mesh follows from all of a file: its
axes are the finest that each of them is made of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from distir.files import limits
from distir.importers.stablehlo.text import FunctionText, MlirOperation, ModuleText, Region, TextPlace, refuse
from distir.ops.numeric import Array, np

SHARDING = "mhlo.sharding"

_TILED = re.compile(
    r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))"
    r"( last_tile_dim_replicate)?(?: last_tile_dims=\{([\w, ]+)\})?\}"
)
_WHOLE = frozenset(("{replicated}", "{manual}", "{maximal device=0}"))


@dataclass(frozen=True, slots=True)
class Tiling:
    """The device of each tile. Those along the last `rest` dimensions of the tiles hold the same part."""

    devices: Array
    rest: int
    cuts: frozenset[int]
    """How many neighbours are in one place along the axes that it is made of."""


def tiling(text: str, place: TextPlace) -> Tiling | None:
    """What an annotation says; None for one that splits nothing. Raises ImportRefused for one that cannot be read."""
    if text in _WHOLE:
        return None
    match = _TILED.fullmatch(text)
    if match is None:
        refuse(f"the sharding `{text[:60]}` is not read", place, "export with Shardy")
    tile, counted, order = (_numbers(match[number]) for number in (1, 2, 3))
    if math.prod(tile) > limits.MESH:
        refuse(f"a mesh of more than {limits.MESH:,} devices", place, "export the function for fewer devices")
    rest = 1 if match[5] else len(match[6].split(",")) if match[6] else 0
    listed = np.array(_numbers(match[4])) if match[4] else np.arange(math.prod(counted))
    counted = counted or [listed.size]
    if listed.size != math.prod(tile) or math.prod(counted) != listed.size:
        refuse(f"the sharding `{text[:60]}` names {listed.size} devices for {math.prod(tile)} tiles", place)
    devices = listed.reshape(counted).transpose(order or range(len(counted))).reshape(tile)
    return Tiling(devices, rest, frozenset((*_behind(counted), *(() if order else _behind(tile)))))


def axes_of(module: ModuleText) -> dict[str, int]:
    """The axes of the mesh that all annotations of a file are over; none where nothing is split."""
    every = [found for text, place in _annotations(module) if (found := tiling(text, place)) is not None]
    if not every:
        return {}
    count = max(found.devices.size for found in every)
    cuts = {count, 1, *(cut for found in every for cut in found.cuts if found.devices.size == count)}
    sizes = [larger // smaller for larger, smaller in pairwise(sorted(cuts, reverse=True))]
    return {f"axis{number}": size for number, size in enumerate(sizes) if size > 1}


def dims_of(text: str, axes: dict[str, int], rank: int, place: TextPlace) -> list[tuple[str, ...]]:
    """By dimension of a value: the axes that it is split over."""
    found = tiling(text, place)
    if found is None:
        return [()] * rank
    sizes = list(axes.values())
    if found.devices.size != math.prod(sizes) or found.devices.ndim - found.rest != rank:
        refuse(f"the sharding `{text[:60]}` is of another mesh, or of a value of other dimensions", place)
    where = np.argwhere(np.ones_like(found.devices, bool))
    tiles = np.empty_like(where)
    tiles[found.devices.reshape(-1)] = where  # by device: its tile
    along = np.stack(np.unravel_index(np.arange(found.devices.size), sizes), 1)
    dims: list[tuple[str, ...]] = []
    for dim in range(rank):
        own = [n for n in range(len(sizes)) if _moves(tiles[:, dim], along, n)]
        numbers = np.ravel_multi_index([along[:, n] for n in own], [sizes[n] for n in own]) if own else 0
        if not np.array_equal(np.broadcast_to(numbers, tiles[:, dim].shape), tiles[:, dim]):
            refuse(f"the sharding `{text[:60]}` has devices in another order than the axes of the mesh", place)
        dims.append(tuple(list(axes)[n] for n in own))
    return dims


def _moves(tile: Array, along: Array, axis: int) -> bool:
    """Whether the tile of a device depends on where it is along an axis."""
    first = along.copy()
    first[:, axis] = 0
    sizes = along.max(0) + 1
    return not np.array_equal(tile[np.ravel_multi_index(list(first.T), list(sizes))], tile)


def _numbers(text: str | None) -> list[int]:
    return [int(number) for number in text.split(",")] if text else []


def _behind(sizes: Iterable[int]) -> list[int]:
    """Products of the last sizes."""
    found, product = list[int](), 1
    for size in reversed(list(sizes)):
        product *= size
        found.append(product)
    return found


def _annotations(module: ModuleText) -> Iterator[tuple[str, TextPlace]]:
    for function in module.functions.values():
        yield from _of_function(function)


def _of_function(function: FunctionText) -> Iterator[tuple[str, TextPlace]]:
    every: list[tuple[Any, TextPlace]] = [(p.attributes.get(SHARDING), p.place) for p in function.params]
    every += [(p.attributes.get(SHARDING), p.place) for p in function.results]
    every += [(operation.attributes.get(SHARDING), operation.place) for operation in _operations(function.body)]
    yield from ((text, place) for text, place in every if isinstance(text, str) and text.startswith("{devices"))


def _operations(region: Region) -> Iterator[MlirOperation]:
    pending = [region]
    while pending:
        for operation in pending.pop().operations:
            yield operation
            pending += operation.regions
