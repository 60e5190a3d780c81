"""The machine of a run: nodes of a profile, adapted to the run's framework and network.

Profiles state times of isolated kernels. In training a device runs for minutes at its power limit, and the host issues
the next op while the last one runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from distir import cost
from distir.cost import DeviceKind, Hardware, Level, Link
from distir.cost.hardware import EXACT_MEMORY, MemoryErrors
from distir.cost.host import FREE_HOST, Host
from distir.cost.sustained import sustained
from distir.ir.dtypes import FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ
from distir.ir.errors import DistirError
from distir.transform.sharding.steps import LARGEST_NODE
from distir.validate.causes import parameter


class _Gpus(Mapping[str, str]):
    """What profiles say: read when it is first asked for, as plugins add profiles."""

    def __getitem__(self, gpu: str) -> str:
        return cost.gpus()[gpu]

    def __iter__(self) -> Iterator[str]:
        return iter(cost.gpus())

    def __len__(self) -> int:
        return len(cost.gpus())


GPUS: Final[Mapping[str, str]] = _Gpus()
"""By the word in the column `gpu`: the profile of a node of it."""


@lru_cache(maxsize=256)
def architecture_of(gpu: str) -> str:
    """The architecture of a GPU as runs name it, or of a profile's devices; empty where no profile says it."""
    try:
        return cost.load(GPUS.get(gpu, gpu)).kinds[0].architecture
    except cost.HardwareError:
        return ""


class _Architectures(Container[str]):
    """The GPUs of some architectures, and profiles of them, by name or path."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __contains__(self, gpu: object) -> bool:
        return isinstance(gpu, str) and architecture_of(gpu) in self._names


BEFORE_HOPPER: Final[Container[str]] = _Architectures("volta", "ampere")

BLACKWELL: Final[Container[str]] = _Architectures("blackwell")

OF_AMD: Final[Container[str]] = _Architectures("cdna3", "cdna4")

SLOWER_HOSTS: Final[dict[str, float]] = parameter(
    "slower hosts",
    {"gb200": 2.75, "gb300": 2.75, "gh200": 2.75},
    "NVIDIA/TransformerEngine, issue 2053 (August 2025): torch's linear layer in bf16, forward, takes the host of "
    "GB200 37.1 us, that of a DGX H100 13.5 us; GB300 and GH200 have the same host",
)
"""How long Grace takes to issue an op, over what the x86 hosts of other GPUs take."""

NODE_OF_A_GRAPH: Final = parameter(
    "ops of a graph", 1e-6, "pytorch/pytorch, issue 150488: cudaGraphLaunch; the figure `graphs` of the profiles"
)
"""Seconds between ops of a graph that a device replays."""


class MachineError(DistirError, ValueError):
    """A machine that no profile describes; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """How a device is used. `issue`: seconds in which the host issues an op, 0 where it takes no time.

    `communication`: the same of a collective or a transfer, None where it is as long. `waits_for_counts`,
    `each_expert`: as a `Host` does. `attention`: the rates of attention's kernels over those of the profile's, forward
    and backward; `compute`, `links`: the same of products, and of the bandwidth of links. `dropout`: by what dropout
    multiplies the arithmetic of attention's kernel, forward and backward, where that is not the profile's.
    """

    issue: float = 0.0
    communication: float | None = None
    waits_for_counts: bool = False
    each_expert: float = 0.0
    attention: tuple[float, float] = (1.0, 1.0)
    waits_for_sends: bool = False
    compute: float = 1.0
    links: float = 1.0
    dropout: tuple[float, float] | None = None
    hybrid: bool = False
    """Whether HybridEP's kernels send tokens to experts, in the place of DeepEP's."""


@lru_cache(maxsize=64)
def machine(gpu: str, gpus: int, gbps: float | None, conditions: Conditions, per_node: int | None = None) -> Hardware:
    """A machine of `gpus` GPUs, each of which sends `gbps` Gbit/s to other nodes, or as the profile says.

    `gpu`: one of `GPUS`, or a profile, by its name or path, which says what a node is. `per_node`: the GPUs of each
    node, where they may be fewer than those of the profile. Raises MachineError, and HardwareError for another name.
    """
    profile = GPUS.get(gpu, gpu)
    node = cost.load(profile)
    each = _used_of_each(gpus, len(node.kinds)) if gpu in GPUS else len(node.kinds)
    is_rack = len(node.kinds) > LARGEST_NODE  # what runs state as a node is a tray of it
    if per_node is not None and gpu in GPUS and not is_rack and gpus > min(per_node, len(node.kinds)):
        if per_node > len(node.kinds):
            raise MachineError(f"nodes of {per_node} GPUs: those of the profile `{node.name}` have {len(node.kinds)}")
        each = per_node
    nodes = math.ceil(gpus / each)
    if nodes > 1 and node.network is None:
        raise MachineError(f"the profile `{node.name}` states no network between nodes")
    found = cost.load(profile, nodes) if each == len(node.kinds) else _of_smaller_nodes(node, each, nodes)
    if gbps is not None and nodes > 1:
        found = _with_network(found, gbps * each * 1e9 / 8)
    if gpu in OF_AMD:  # other kernels than those whose rates are known are written for NVIDIA's GPUs
        conditions = replace(conditions, attention=(1.0, 1.0), dropout=None)
        found = replace(found, kinds=found.kinds.map(_with_own_floats))
    if conditions.hybrid:
        found = with_hybrid_kernels(found)
    if conditions.links != 1:
        found = replace(found, levels=tuple(level.reaching(conditions.links) for level in found.levels))
    return replace(found, kinds=found.kinds.map(lambda kind: _under(kind, conditions)))


def memory_errors_of(gpu: str, hardware: str) -> MemoryErrors:
    """How far simulated memory is off on the machine of a run; exact where no profile is known, or it does not say."""
    try:
        return cost.load(hardware or GPUS.get(gpu, gpu)).memory_errors
    except cost.HardwareError:
        return EXACT_MEMORY


def whole_nodes(profile: str, gpus: int) -> Hardware:
    """The fewest whole nodes that have so many GPUs: a machine that has a name. Raises HardwareError."""
    return cost.load(profile, math.ceil(gpus / len(cost.load(profile).kinds)))


def _used_of_each(gpus: int, node: int) -> int:
    """How many GPUs of each node run: equally many where that leaves few idle, as 64 of the 72 in a rack."""
    if gpus <= node:
        return node
    return next((each for each in range(node, node // 2, -1) if gpus % each == 0), node)


def _of_smaller_nodes(node: Hardware, each: int, nodes: int) -> Hardware:
    """Nodes of fewer devices, all of one kind."""
    (kind,) = node.kinds.distinct
    text = f'title = "{nodes} nodes, {each} devices of each"\nextends = "{node.name}"\n'
    return cost.parse(f'{text}[[groups]]\nkind = "{kind.name}"\ncount = {each}\n', f"{node.name}-{each}", nodes)


OWN_FORMS: Final = {FLOAT8E4M3FN: FLOAT8E4M3FNUZ, FLOAT8E5M2: FLOAT8E5M2FNUZ}
"""The 8-bit floats of programs, and those that CDNA 3 has in their place."""


def _with_own_floats(kind: DeviceKind) -> DeviceKind:
    """A kind of device on which frameworks take the 8-bit floats that it has, as PyTorch does on CDNA 3."""
    rates = kind.rates
    own = {of: rates[form] for of, form in OWN_FORMS.items() if rates[of].instead and not rates[form].instead}
    return replace(kind, rates={**rates, **own})


def without_links(hardware: Hardware) -> Hardware:
    """The machine where communication takes no time."""
    return _with_links(hardware, lambda link: Link(0.0, 0.0, math.inf))


def without_host(hardware: Hardware) -> Hardware:
    """The machine where neither issuing nor launching an op takes time."""

    def free(kind: DeviceKind) -> DeviceKind:
        products = {n: replace(f, usual=replace(f.usual, launch=0.0)) for n, f in kind.products.items()}
        attention = {n: tuple(replace(f, launch=0.0) for f in sizes) for n, sizes in kind.attention.items()}
        return replace(kind, launch=0.0, host=FREE_HOST, products=products, attention=attention)

    return replace(hardware, kinds=hardware.kinds.map(free))


def without_traffic(hardware: Hardware) -> Hardware:
    """The machine whose memory takes no time, but in products and attention."""
    return replace(hardware, kinds=hardware.kinds.map(lambda kind: replace(kind, bandwidth=math.inf)))


def at_peak(hardware: Hardware) -> Hardware:
    """The machine whose products run at the peak of its arithmetic, whatever their shapes."""

    def fastest(kind: DeviceKind) -> DeviceKind:
        rates = {dtype: replace(rate, points=((1.0, rate.peak),)) for dtype, rate in kind.rates.items()}
        return replace(kind, products={}, experts={}, rates=rates)

    return replace(hardware, kinds=hardware.kinds.map(fastest))


def _with_links(hardware: Hardware, change: Callable[[Link], Link]) -> Hardware:
    levels = (
        replace(level, links={use: change(link) for use, link in level.links.items()}, times={})
        for level in hardware.levels
    )
    return replace(hardware, levels=tuple(levels))


def with_hybrid_kernels(hardware: Hardware) -> Hardware:
    """The machine where HybridEP's kernels forward tokens, at the levels of which their figures are known."""
    levels = (
        replace(level, links={**level.links, "forwarded": level.links["hybrid"]}) if "hybrid" in level.links else level
        for level in hardware.levels
    )
    return replace(hardware, levels=tuple(levels))


def _with_network(hardware: Hardware, node: float) -> Hardware:
    """The machine with this bandwidth per node, in bytes/s; links scale with its cards."""
    levels: list[Level] = []
    for level in hardware.levels:
        cards = level.cards
        if cards is not None:
            card = node / len(set(cards.of))
            share = card / cards.bandwidth
            links = {use: replace(link, bandwidth=link.bandwidth * share) for use, link in level.links.items()}
            level = replace(level, links=links, cards=replace(cards, bandwidth=card))
        levels.append(level)
    return replace(hardware, levels=tuple(levels))


def _under(kind: DeviceKind, conditions: Conditions) -> DeviceKind:
    """A kind of device in a training step.

    A launch of the roofline includes what the host takes. Where the host is simulated, it is that of products, which
    were measured one behind the other.
    """
    kind = sustained(kind, conditions.compute, conditions.attention, conditions.dropout)
    if not conditions.issue:
        return kind
    how = conditions.waits_for_counts, conditions.each_expert
    host = Host(conditions.issue, kind.host.blocking, conditions.waits_for_sends, conditions.communication, *how)
    launch = min([kind.launch, *(figures.usual.launch for figures in kind.products.values())])
    return replace(kind, launch=launch, host=host)
