"""Devices in a training step: at work for minutes, at the limit of their power.

Profiles have what a kernel takes that runs by itself, for as long as it was measured. A device that is busy throughout
is as hot as it gets, and its clock is lower; and lower yet where its limit is below that of the devices that were
measured (`sustained_clock`), or higher where it is above theirs; but no device is faster for being hot.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import geometric_mean
from typing import Final

from distir.cost.compute import DeviceKind
from distir.cost.contractions import AttentionFigures, ProductFigures
from distir.ir import DTYPES
from distir.ops.resources import MatrixProduct

LARGE: Final = (4096, 8192, 16384)
"""Rows and columns of products that tables by size have, which were repeated for seconds."""

HOT: Final = 1e-9
"""Seconds within which a device heats up that is hot already."""


def sustained(
    kind: DeviceKind,
    products: float = 1.0,
    attention: tuple[float, float] = (1.0, 1.0),
    dropout: tuple[float, float] | None = None,
) -> DeviceKind:
    """A kind of device that has been at the limit of its power for long. Without figures by shape, it is as it was.

    `products`, `attention`: their rates over those of the profile, for other reasons, of attention forward and
    backward. `dropout`: by what dropout multiplies its arithmetic, forward and backward, where that is not as the
    profile has it.
    """
    share = products * kind.sustained_products
    own = {name: _sustained(kind, name, share * _clock(kind, one)) for name, one in kind.products.items()}
    heads = {
        name: tuple(_at(figures, _clock(kind, figures), attention, dropout) for figures in sizes)
        for name, sizes in kind.attention.items()
    }
    return replace(kind, products=own, attention=heads)


def _clock(kind: DeviceKind, figures: ProductFigures | AttentionFigures) -> float:
    """The clock at the limit of power, over that of the longest kernels that were measured; at most the cool one."""
    return min(kind.sustained_clock, 1 + figures.throttle)


def _sustained(kind: DeviceKind, dtype: str, rate: float) -> ProductFigures:
    """Products on a device that has been at the limit of its power for long; `rate`: over that of the profile.

    Its clock is that of the longest product that was measured alone, and the rate by shape is at most that by size.
    """
    hot = replace(kind.products[dtype], heats_in=HOT)
    element, by_size = DTYPES[dtype], kind.rates[DTYPES[dtype]]
    if by_size.instead:
        return _slowed(hot, rate)
    shares = (_seconds(hot, n, element.bytes) * by_size.achieved(2 * n**3) / (2 * n**3) for n in LARGE)
    return _slowed(hot, rate * min(1.0, geometric_mean(shares)))


def _seconds(figures: ProductFigures, n: int, size: int) -> float:
    return figures.spent(MatrixProduct(n, n, n), size, 3 * n**2 * size).seconds


def _slowed(figures: ProductFigures, share: float) -> ProductFigures:
    tiles = (replace(tile, rate=tile.rate * share, overhead=tile.overhead / share) for tile in figures.tiles)
    return replace(figures, tiles=tuple(tiles))


def _at(
    figures: AttentionFigures, clock: float, rates: tuple[float, float], dropout: tuple[float, float] | None
) -> AttentionFigures:
    forward, backward = rates
    share = clock * forward
    return replace(
        figures,
        rate=figures.rate * share,
        overhead=figures.overhead / share,
        backward=figures.backward * backward / forward,
        heats_in=HOT,
        dropout=dropout or figures.dropout,
    )
