"""The roofline: how long a device takes to compute. Knows one device; nothing of topology or files.

The time of an op is `launch + max(flops / rate, bytes / bandwidth)` (Williams, Waterman and Patterson, "Roofline",
CACM 2009). The maximum, not the sum: a GPU runs enough threads that loads of some overlap with arithmetic of others,
so the slower of the two streams decides; a sum would overstate ops near the ridge up to twice. The launch is added,
because neither stream runs before the op has started.

The rate is what was achieved, not the peak, and depends on the size of the op: small matrix products do not fill a
device. Between the measured sizes, the rate follows a power law (a line in the logarithms of both), beyond them it is
constant.

Where a profile has figures of products or of attention by shape, these count for such ops (`contractions`).

A profile that was measured has figures of single ops too, which count instead: `launch + flops / rate + bytes /
bandwidth`, as they were fitted. Here the sum, since one core does its loads and its arithmetic one after the other.

It may have them twice: as the op runs among others, and *warm*, as it runs again on operands that its caches hold. A
program uses its memory over and over, so of what it refers to, caches of C bytes hold a share of min(1, C / W), where W
is its working set: the hit ratio of references that are spread evenly over W, whatever is replaced (the independent
reference model; Coffman and Denning, "Operating Systems Theory", 1973, chapter 6). With that share, an op is warm. A
program that passes over W in one order, under LRU, would have less; one that comes back soon to what it has just
written, more.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from distir.cost.contractions import AttentionFigures, ContractionSeconds, ProductFigures
from distir.cost.host import FREE_HOST, Host
from distir.cost.host_memory import HostMemory
from distir.cost.price import Price
from distir.cost.process import NO_PROCESS, Process
from distir.ir import DType
from distir.ops.resources import Contraction, MatrixProduct, Work


@dataclass(frozen=True, slots=True)
class Rate:
    """Arithmetic of one element type. `points`: (FLOPs of the op, FLOP/s achieved), sizes ascending, at least one.

    Also traffic: bytes of the op, and bytes/s achieved.
    """

    peak: float
    points: tuple[tuple[float, float], ...]
    instead: str = ""
    """The element type used instead, if the device lacks this one."""

    def achieved(self, flops: float) -> float:
        """FLOP/s (bytes/s) that an op of this size achieves."""
        points = self.points
        if flops <= points[0][0]:
            return points[0][1]
        if flops >= points[-1][0]:
            return points[-1][1]
        above = bisect_right(points, (flops, math.inf))
        (size, rate), (next_size, next_rate) = points[above - 1], points[above]
        return rate * (next_rate / rate) ** (math.log(flops / size) / math.log(next_size / size))


@dataclass(frozen=True, slots=True)
class OpFigures:
    """The measured figures of one op: `launch` in seconds, and rates of its arithmetic and of its traffic.

    `uncertainty`: how far an op may be off, as a share of its time; `warm`: what it takes where caches hold its
    operands and its code.
    """

    launch: float
    arithmetic: Rate | None
    traffic: Rate | None
    uncertainty: float = 0.0
    warm: OpFigures | None = None

    def seconds(self, flops: float, nbytes: float) -> tuple[float, float]:
        """Seconds of arithmetic and of traffic, which add up."""
        arithmetic = flops / self.arithmetic.achieved(flops) if self.arithmetic is not None and flops else 0.0
        traffic = nbytes / self.traffic.achieved(nbytes) if self.traffic is not None and nbytes else 0.0
        return arithmetic, traffic

    def spent(self, flops: float, nbytes: float, warmth: float = 0.0) -> OpSeconds:
        """The seconds of the op if caches serve a share `warmth` of its references."""
        arithmetic, traffic = self.seconds(flops, nbytes)
        found = OpSeconds(self.launch, arithmetic, traffic, self.uncertainty)
        if self.warm is None or not warmth:
            return found
        return found.mixed(self.warm.spent(flops, nbytes), warmth)


@dataclass(frozen=True, slots=True)
class OpSeconds:
    """Seconds of an op, by what they go into; `uncertainty`: how far their sum may be off, as a share of it."""

    launch: float
    arithmetic: float
    traffic: float
    uncertainty: float

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.launch + self.arithmetic + self.traffic

    def mixed(self, other: OpSeconds, share: float) -> OpSeconds:
        """The mean of this and another, which is the case with the probability `share`.

        An op is off by as much as the two are; and by the standard deviation of what is one or the other.
        """
        rest = 1 - share
        launch = rest * self.launch + share * other.launch
        arithmetic = rest * self.arithmetic + share * other.arithmetic
        traffic = rest * self.traffic + share * other.traffic
        off = rest * self.uncertainty * self.seconds + share * other.uncertainty * other.seconds
        deviation = math.sqrt(share * rest) * abs(self.seconds - other.seconds)
        total = launch + arithmetic + traffic
        return OpSeconds(launch, arithmetic, traffic, math.hypot(off, deviation) / total if total else 0.0)


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A kind of device. `rates` has every element type; `other` serves work that names none.

    `memory` in bytes; `bandwidth` achieved and `peak_bandwidth` in bytes/s; `launch` in seconds per op;
    `price`: per hour. `ops`: figures of single ops, by op and element type, or by op and `other`; `uncertainty`:
    how far all other ops may be off, as a share of their time. `cache`: bytes of the caches that `warm` figures are
    of, 0 where there are none; `warmth`: the share of references that they serve (see `running`). `process`: what a
    process holds beside tensors. `products`, `experts` (grouped products) and `attention` (by the size of a head):
    figures by shape, by element type. `host`: how ops are issued to it; `interference`: the share of a collective's
    time by which it delays what is computed beside it, and `begin`: seconds by which it does so however long it takes,
    since it is begun there; `streams`: how many it runs beside that of compute, None for any
    number. `slowdown`: how many times as long as that it computes (see `Hardware.slowed`). `sustained_clock`: the clock
    at the limit of its power, over that of the devices that figures by shape were measured on, at theirs (see
    `sustained`); `sustained_products`: the rate of products then, over that of these figures, for other reasons.
    `host_memory`: where it may offload to; None if the profile does not say. `architecture`: as its maker calls it, in
    small letters; empty if the profile does not say.
    """

    name: str
    title: str
    memory: int
    bandwidth: float
    peak_bandwidth: float
    launch: float
    rates: Mapping[DType, Rate]
    other: Rate
    price: Price | None = None
    ops: Mapping[tuple[str, str], OpFigures] = field(default_factory=dict[tuple[str, str], OpFigures])
    uncertainty: float = 0.0
    cache: float = 0.0
    warmth: float = 0.0
    process: Process = NO_PROCESS
    products: Mapping[str, ProductFigures] = field(default_factory=dict[str, ProductFigures])
    experts: Mapping[str, ProductFigures] = field(default_factory=dict[str, ProductFigures])
    attention: Mapping[str, tuple[AttentionFigures, ...]] = field(
        default_factory=dict[str, "tuple[AttentionFigures, ...]"]
    )
    host: Host = FREE_HOST
    interference: float = 0.0
    begin: float = 0.0
    streams: int | None = None
    slowdown: float = 1.0
    sustained_clock: float = 1.0
    sustained_products: float = field(default=1.0, repr=False)  # `sustained` shows what it changes
    host_memory: HostMemory | None = None
    architecture: str = field(default="", repr=False)  # no figure depends on it

    def running(self, working_set: int) -> DeviceKind:
        """The same device while a program with this working set, in bytes, runs on it."""
        if not self.cache:
            return self
        return replace(self, warmth=min(1.0, self.cache / working_set) if working_set else 1.0)

    def figures_of(self, op: str, dtype: DType | None) -> OpFigures | None:
        """The figures of an op in this element type, or of any op of this name, if there are some."""
        own = None if dtype is None else self.ops.get((op, dtype.name))
        return own or self.ops.get((op, "other"))

    def by_shape(self, dtype: DType | None, contraction: Contraction, nbytes: float) -> ContractionSeconds | None:
        """The seconds of a contraction that moves `nbytes`; None if there are no figures for it.

        Experts' products may have their own. Figures of attention are of as many queries as a block has, at least.
        """
        if dtype is None:
            return None
        if isinstance(contraction, MatrixProduct):
            own = self.experts.get(dtype.name) if contraction.grouped else None
            figures = own or self.products.get(dtype.name)
            return None if figures is None else figures.spent(contraction, dtype.bytes, nbytes)
        by_size = self.attention.get(dtype.name)
        if not by_size:
            return None
        nearest = min(by_size, key=lambda figures: abs(math.log(figures.size / contraction.size)))
        if contraction.queries < nearest.rows:  # a step of decoding: its kernels divide the keys, and memory binds them
            return None
        return nearest.spent(contraction, nbytes)


def contracting(kind: DeviceKind, work: Work) -> ContractionSeconds | None:
    """The seconds of a kernel whose contractions all have figures by shape; None for other kernels.

    Its contractions are made one after the other, and so is the rest of its arithmetic, at the rates of the roofline.
    """
    share = work.bytes / max(1, len(work.contractions))
    found = [kind.by_shape(dtype, one, share) for dtype, _, one in work.contractions]
    known = [spent for spent in found if spent is not None]
    if not found or len(known) < len(found):
        return None
    launch = max(spent.launch for spent in known)
    seconds = sum(spent.seconds - spent.launch for spent in known)
    arithmetic, memory = sum(spent.arithmetic for spent in known), sum(spent.memory for spent in known)
    rest = dict(work.arithmetic)
    for dtype, flops, _ in work.contractions:
        rest[dtype] = rest.get(dtype, 0) - flops
    more, _ = roofline(kind, ((dtype, max(0, flops)) for dtype, flops in rest.items()), 0)
    return ContractionSeconds(launch + seconds + more, launch, arithmetic + more, memory)


def roofline(kind: DeviceKind, arithmetic: Iterable[tuple[DType | None, float]], nbytes: float) -> tuple[float, float]:
    """Seconds of arithmetic and seconds of memory traffic; the slower counts, after `kind.launch`.

    `arithmetic`: FLOPs by element type, each at its rate. Several types are several ops in one kernel, one after the
    other.
    """
    rates = ((kind.other if dtype is None else kind.rates[dtype], flops) for dtype, flops in arithmetic if flops)
    return sum((flops / rate.achieved(flops) for rate, flops in rates), 0.0), nbytes / kind.bandwidth
