"""Matrix products and attention by shape: tiles, waves over the multiprocessors, split sums. Knows one device.

A kernel cuts the result of a product into tiles, one per block of threads. A device with P multiprocessors computes P
tiles at once; the next P are the next *wave*. Of a tile of R × C elements whose sum has k terms, in steps of 64:

    step     = hypot4(2 · 64 · R · C / (rate / P),  64 · (R + C) · size / load,  step)
    compute  = waves · (overhead + k/64 · step) · heating
    cache    = (tiles · (R + C) · k · size + result) / cache
    seconds  = launch + min over tiles and splits of ((computeᵖ + cacheᵖ + memoryᵖ)^(1/p) + split)

`rate` is that of the device where all of it computes in such tiles, and `hypot4` a maximum without corner. A share
`tail` of a tile's waves needs not be whole, for multiprocessors that hold several blocks do not wait for each other.
With few tiles, a kernel splits the sum into s parts: there are s times as many tiles and 1/s of the steps, and the
parts are added up in `split` seconds and s · m · n numbers of traffic. `splits_from` says which sums a library splits
where that is less than all that gain by it. Long products run at a lower clock: `heating` is
1 + `throttle` · xᵍ / (1 + xᵍ), where x is their length over `heats_in`, and g, `steepness`, how suddenly the clock
falls. Products of few rows or columns are made by other kernels, whose figures are those of `thin`. `memory` is the
traffic of the op over the bandwidth: operands that are in no cache, as for all ops.

Of attention, a block has `rows` queries of one head and goes through the keys in steps of `columns`. Of a causal
triangle it computes whole steps:

    together = blocks/P · (steps of a mean block · step + overhead)
    alone    = keys/columns · step + overhead
    seconds  = launch + (togetherᵖ + aloneᵖ)^(1/p) · heating + memory

times a correction by heads, queries, and how many heads share keys. The backward pass takes the form alone, with 2.5
times the operations and a share `backward` of the rate.

The figures are fitted to tables of measured products (`examples/profiles`), such that a larger product takes no less
time, but for some per cent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from distir.cost.correction import Correction
from distir.ops.resources import MatrixProduct, Scores

STEP = 64
"""Terms of a tile's sums that are loaded at once."""

THIN_TO = 16
"""Rows or columns up to which products are thin, where a profile does not say."""

SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Into how many parts kernels split sums."""


class ContractionSeconds(NamedTuple):
    """Seconds of a contraction, by what they go into. Arithmetic includes the cache's traffic.

    They overlap, so that `seconds` is at most their sum.
    """

    seconds: float
    launch: float
    arithmetic: float
    memory: float


@dataclass(frozen=True, slots=True)
class Tile:
    """Tiles of `rows` × `columns` elements, and of `columns` × `rows`. `rate` in FLOP/s, `overhead` in seconds."""

    rows: int
    columns: int
    rate: float
    overhead: float = 0.0
    tail: float = 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """`launch`, the least time `step` of a step, and `split` in seconds; `load`: bytes/s into one multiprocessor."""

    launch: float
    step: float
    split: float
    load: float


@dataclass(frozen=True, slots=True)
class SplitsFrom:
    """Sums are split in products of at least so many multiplications, m · n · k, or of so many `terms`."""

    multiplications: int
    terms: int

    def may(self, product: MatrixProduct) -> bool:
        """Whether kernels split the sums of a product, if they gain by it."""
        return product.m * product.n * product.k >= self.multiplications or product.k >= self.terms


@dataclass(frozen=True)
class ProductFigures:
    """Figures for products of one element type. `memory`, `cache`, `sums` (split parts) in bytes/s; see the module.

    `thin` holds for products of at most `thin_to` rows or columns. Three tables correct the form: `filling` by how many
    numbers the result has and how many terms a sum, since these say how a kernel fills the device; `streaming` by how
    many numbers the larger operand has and the shorter side of the result, since these say how often what is loaded is
    used; `correction` by the shorter side of the result, the longer one, and the terms. Several products in one kernel
    count as one whose longer side is that of all.
    """

    processors: int
    memory: float
    cache: float
    sums: float
    overlap: float
    throttle: float
    heats_in: float
    usual: Pace
    thin: Pace
    tiles: tuple[Tile, ...]
    thin_to: int = THIN_TO
    correction: Correction | None = None
    filling: Correction | None = None
    streaming: Correction | None = None
    splits_from: SplitsFrom | None = None
    """None: all that gain by it."""
    steepness: float = 1.0
    _known: dict[Any, ContractionSeconds] = field(
        default_factory=dict[Any, ContractionSeconds], init=False, repr=False, compare=False
    )

    @property
    def rate(self) -> float:
        """FLOP/s in the best tiles, of a device that is cool."""
        return max(tile.rate for tile in self.tiles)

    def at_least(self, flops: float) -> float:
        """A lower bound, in seconds, for products of this many FLOPs."""
        alone = flops / self.rate
        least = math.prod(table.least for table in self._corrections() if table is not None)
        return max(alone, (min(self.usual.launch, self.thin.launch) + alone) * least)

    def spent(self, product: MatrixProduct, size: int, nbytes: float) -> ContractionSeconds:
        """The seconds of a product whose elements have `size` bytes and that moves `nbytes`."""
        key = product, size, nbytes
        if key not in self._known:
            self._known[key] = self._found(product, size, nbytes / self.memory)
        return self._known[key]

    def _found(self, product: MatrixProduct, size: int, memory: float) -> ContractionSeconds:
        pace = self.thin if min(product.m, product.n) <= self.thin_to else self.usual
        best = math.inf
        arithmetic = 0.0
        for compute, cache, split in self._choices(product, size, pace):
            if max(compute, cache, memory) + split < best:
                total = _power_sum(self.overlap, compute, cache, memory) + split
                if total < best:
                    best, arithmetic = total, max(compute, cache) + split
        found = ContractionSeconds(pace.launch + best, pace.launch, arithmetic, memory)
        return self._corrected(found, product) if any(self._corrections()) else found

    def _corrections(self) -> tuple[Correction | None, ...]:
        return self.correction, self.filling, self.streaming

    def _corrected(self, form: ContractionSeconds, product: MatrixProduct) -> ContractionSeconds:
        """The form's time corrected by the tables; never below arithmetic and memory at their best."""
        alone = 2 * product.m * product.n * product.k * product.batch / self.rate
        short, long = min(product.m, product.n), max(product.m, product.n) * product.batch
        sizes = (short, long, product.k), (short * long, product.k), (long * product.k, short)
        pairs = zip(self._corrections(), sizes, strict=True)
        factor = math.prod(table.factor(*own) for table, own in pairs if table is not None)
        return _multiplied(form, max(factor, max(alone, form.memory) / form.seconds))

    def _choices(self, product: MatrixProduct, size: int, pace: Pace) -> Iterator[tuple[float, float, float]]:
        """Seconds of computing, of the cache's traffic and of splitting, for each tile and each number of parts."""
        m, n, k, batch = product.m, product.n, product.k, product.batch
        splits = SPLITS if self.splits_from is None or self.splits_from.may(product) else (1,)
        heating = 1 + self.throttle * _heat(2 * m * n * k * batch / self.rate / self.heats_in, self.steepness)
        written = m * n * batch * max(size, 2)
        for tile in self.tiles:
            alone = 2 * STEP * tile.rows * tile.columns / (tile.rate / self.processors)
            loaded = STEP * (tile.rows + tile.columns) * size
            step = (alone**4 + (loaded / pace.load) ** 4 + pace.step**4) ** 0.25
            for rows, columns in {(tile.rows, tile.columns), (tile.columns, tile.rows)}:
                whole = -(-m // rows) * -(-n // columns) * batch
                for parts in splits:
                    tiles = whole * parts
                    if parts > 1 and (parts * STEP > k or tiles > 2 * self.processors):
                        break
                    steps = math.ceil(k / (parts * STEP))
                    filled = tiles / self.processors
                    waves = 1.0 if filled <= 1 else (1 - tile.tail) * math.ceil(filled) + tile.tail * filled
                    compute = waves * (tile.overhead + steps * step) * heating
                    cache = (tiles * loaded * steps + written) / self.cache
                    yield compute, cache, pace.split + parts * m * n * batch * 4 / self.sums if parts > 1 else 0.0


@dataclass(frozen=True)
class AttentionFigures:
    """Figures for fused attention of one element type, with heads of `size` elements. `rate` in FLOP/s.

    `backward`: the share of the rate that the backward pass reaches; `causal`: the share of that under a mask.
    `dropout`: by what dropout multiplies arithmetic, forward and backward; None: by its operations at the rate of
    products. The axes of `correction`, which is of the forward pass: heads of all sequences, queries, and heads that
    share keys.
    """

    size: int
    processors: int
    launch: float
    memory: float
    rate: float
    rows: int
    columns: int
    overhead: float
    overlap: float
    throttle: float
    heats_in: float
    backward: float = 1.0
    correction: Correction | None = None
    dropout: tuple[float, float] | None = None
    causal: float = 1.0
    _known: dict[Any, ContractionSeconds] = field(
        default_factory=dict[Any, ContractionSeconds], init=False, repr=False, compare=False
    )

    def spent(self, scores: Scores, nbytes: float) -> ContractionSeconds:
        """The seconds of attention that moves `nbytes`, in proportion for heads of another size than `size`."""
        key = scores, nbytes
        if key not in self._known:
            self._known[key] = self._found(scores, nbytes / self.memory)
        return self._known[key]

    def _found(self, scores: Scores, memory: float) -> ContractionSeconds:
        rate = self.rate
        if scores.backward:
            rate *= self.backward * (self.causal if scores.share < 1 else 1.0)
        passes = scores.passes + scores.random
        if scores.random and self.dropout is not None:
            passes = scores.passes * self.dropout[scores.backward]
        step = passes * 4 * self.rows * self.columns * scores.size / (rate / self.processors)
        columns = math.ceil(scores.keys / self.columns)
        blocks = math.ceil(scores.queries / self.rows) * scores.heads
        # Of a triangle, a row of blocks computes half of one step's width more than lies before the diagonal.
        more = 0.5 * max(1.0, self.rows / self.columns)
        mean = columns if scores.share == 1 else min(columns, columns * scores.share + more)
        together = blocks / self.processors * (mean * step + self.overhead)
        alone = columns * step + self.overhead
        long = passes * 4 * scores.heads * scores.queries * scores.keys * scores.share * scores.size
        compute = _power_sum(self.overlap, together, alone) * (1 + self.throttle * _heat(long / rate / self.heats_in))
        found = ContractionSeconds(self.launch + compute + memory, self.launch, compute, memory)
        if self.correction is None or scores.backward:
            return found
        factor = self.correction.factor(scores.heads, scores.queries, scores.group)
        return _multiplied(found, max(factor, long / self.rate / found.seconds))


def _heat(long: float, steepness: float = 1.0) -> float:
    """How far a device has heated up that was at work so long, of all that it does."""
    return 1 / (1 + long**-steepness) if long > 0 else 0.0


def _multiplied(form: ContractionSeconds, factor: float) -> ContractionSeconds:
    return ContractionSeconds(*(part * factor for part in form))


def _power_sum(power: float, *terms: float) -> float:
    """The root of the sum of powers, scaled so that none overflows."""
    most = max(terms)
    return most * sum((term / most) ** power for term in terms) ** (1 / power) if most else 0.0
