"""How long communication takes: one function per algorithm, and nothing else to change to add one.

The model is alpha-beta (Hockney 1994): a step costs a latency and its bytes over a bandwidth. Write `S` for the full
payload in bytes (`Communication.nbytes`), `n` for the devices, `a` for the latency of a step, `B` for the bandwidth of
a device. Where devices span several levels, a ring pays each level's latency for its hops and runs at the slowest
level's bandwidth; a hierarchical algorithm does a phase at each level. Of all algorithms for a pattern the fastest
counts, as libraries choose too.

Sources: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH" (IJHPCA 2005);
Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (JPDC 2009) for the ring; Sanders, Speck and Träff,
"Two-tree algorithms for full bandwidth broadcast, reduction and scan" (Parallel Computing 2009); NVIDIA nccl-tests,
`doc/PERFORMANCE.md`, for the bandwidth terms, and NCCL, `src/graph/tuning.cc`, for the latency terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from distir.cost.topology import Ranks, Use
from distir.ops.resources import Pattern, Routed


class CollectiveSeconds(NamedTuple):
    """Seconds that go into steps, whatever their size, and seconds that go into bytes."""

    latency: float
    transfer: float


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to do `pattern`, over the links used as `over` says; `spent` takes at least two ranks, and `S` in bytes."""

    name: str
    pattern: Pattern
    over: tuple[Use, ...]
    spent: Callable[[Ranks, float], CollectiveSeconds]


ALGORITHMS: dict[Pattern, list[Algorithm]] = {}
"""The algorithms of each pattern."""


def algorithm(
    *patterns: Pattern, over: tuple[Use, ...] = ("collective", "low_latency")
) -> Callable[[Callable[[Ranks, float], CollectiveSeconds]], Callable[[Ranks, float], CollectiveSeconds]]:
    """Declare an algorithm for these patterns."""

    def declare(spent: Callable[[Ranks, float], CollectiveSeconds]) -> Callable[[Ranks, float], CollectiveSeconds]:
        for pattern in patterns:
            ALGORITHMS.setdefault(pattern, []).append(Algorithm(spent.__name__, pattern, over, spent))
        return spent

    return declare


ROOTED: frozenset[Pattern] = frozenset({"scatter", "gather"})
"""Patterns whose time depends on where the root is, since all bytes pass through its link."""


# Between two devices.


@algorithm("send", over=("send",))
def direct(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """One transfer: a + S/B."""
    return CollectiveSeconds(ranks.tiers[-1].latency, nbytes / ranks.tiers[-1].alone)


# From or to one device.


@algorithm("broadcast", "reduce")
def pipelined_chain(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """A chain through all devices, the payload in pieces: (n-1)a + S/B (Thakur 2005, section 3, for large messages)."""
    return CollectiveSeconds(_pass(ranks), nbytes / _slowest(ranks))


@algorithm("broadcast", "reduce")
def binomial_tree(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """Those that have the payload double in each step, at each level: ceil(log2 r)(a + S/B) (Thakur 2005)."""
    latency = sum(_log2(tier.ranks) * tier.latency for tier in ranks.tiers)
    # One device speaks for its whole node.
    return CollectiveSeconds(latency, sum(_log2(tier.ranks) * nbytes / tier.alone for tier in ranks.tiers))


@algorithm("scatter", "gather", over=("send",))
def linear(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """The root sends (receives) each part in turn: (n-1)(a + S/(nB)), each over its own link."""
    (peers,) = ranks.peers
    return _one_by_one(ranks, peers, nbytes, [tier.alone for tier in ranks.tiers])


# Among all devices.


@algorithm("allgather", "reducescatter")
def ring(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """n-1 steps around a ring: (n-1)(a + S/(nB)) (Thakur 2005)."""
    return CollectiveSeconds(_pass(ranks), (ranks.n - 1) / ranks.n * nbytes / _slowest(ranks))


@algorithm("allgather", "reducescatter")
def hierarchical(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """A ring at each level in turn; on outer levels each device carries its share of its node's payload."""
    latency = sum((tier.ranks - 1) * tier.latency for tier in ranks.tiers)
    transfer = sum((tier.ranks - 1) / tier.ranks * nbytes / tier.bandwidth for tier in ranks.tiers)
    return CollectiveSeconds(latency, transfer)


@algorithm("allreduce")
def ring_allreduce(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """Reduce-scatter, then all-gather: 2(n-1)(a + S/(nB)) (Patarasuk and Yuan 2009)."""
    latency, transfer = ring(ranks, nbytes)
    return CollectiveSeconds(2 * latency, 2 * transfer)


@algorithm("allreduce")
def hierarchical_allreduce(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """Reduce-scatter from inside out, then all-gather back in: in the node (S, g), between nodes (S/g, m)."""
    latency, transfer = hierarchical(ranks, nbytes)
    return CollectiveSeconds(2 * latency, 2 * transfer)


@algorithm("allreduce")
def tree_allreduce(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """Up and down two pipelined trees: chains in a node, trees between nodes, 2S/B (Sanders 2009; NCCL `tuning.cc`)."""
    depths = ((tier.ranks - 1 if tier.innermost else _log2(tier.ranks)) * tier.latency for tier in ranks.tiers)
    return CollectiveSeconds(2 * sum(depths), 2 * nbytes / _slowest(ranks))


@algorithm("allreduce", over=("switch",))
def in_switch(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """The switch adds (NVLink SHARP): each device sends S to be added and the 1/n of the sum that it shares out.

    Two steps, (1 + 1/n) S/B. Between nodes whose level states figures for it, rings or trees of what each device has of
    the sum, at the same time: NCCL's NVLS and NVLSTree.
    """
    inside, *outer = ranks.tiers
    transfer = (1 + 1 / inside.ranks) * nbytes / inside.bandwidth
    if not inside.innermost:
        return CollectiveSeconds(math.inf, math.inf)
    depth = sum(_log2(tier.ranks) * tier.latency for tier in outer)
    around = [2 * (tier.ranks - 1) / tier.ranks * nbytes / tier.bandwidth for tier in outer]
    return CollectiveSeconds(2 * (inside.latency + depth), max([transfer, *around]))


@algorithm("shift")
def neighbours(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """Each device sends to the next one at the same time, a step of a ring: a + S/B, where there is one link to it."""
    bandwidths = (tier.alone if tier.innermost else tier.bandwidth for tier in ranks.tiers)
    return CollectiveSeconds(max(tier.latency for tier in ranks.tiers), nbytes / min(bandwidths))


@algorithm("alltoall")
def pairwise(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """Each device exchanges a part with each other device in turn: (n-1)(a + S/(nB)) (Thakur 2005)."""
    bandwidths = [tier.share for tier in ranks.tiers]
    return max((_one_by_one(ranks, peers, nbytes, bandwidths) for peers in ranks.peers), key=sum)


@algorithm("alltoall")
def at_once(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
    """All exchanges are under way at once, as NCCL groups them: a step at each level, and the bytes of all of them.

    Messages to other nodes are collected on the device that shares the rail (PXN), so there is one for each node.
    """
    bandwidths = [tier.share for tier in ranks.tiers]
    transfer = max(_one_by_one(ranks, peers, nbytes, bandwidths).transfer for peers in ranks.peers)
    return CollectiveSeconds(sum(tier.latency for tier in ranks.tiers), transfer)


def forwarded(routed: Routed, stated: bool = False) -> Algorithm:
    """A token goes once to each node that has some of its experts, over the rail of its device, and is forwarded there.

    The transfers between nodes and those inside run at the same time, piece by piece, but what comes from other nodes
    passes through the multiprocessors that forward it; results are summed in a node before they are sent back
    (DeepSeek-V3, arXiv:2412.19437, section 3.2.2; DeepEP's normal kernels). A token for several experts of one device
    is sent there once, too. Nodes first exchange how many tokens they send: log2 m steps of latency. `stated`: links
    have figures of such kernels.
    """

    def spent(ranks: Ranks, nbytes: float) -> CollectiveSeconds:
        token, units, moved, times = nbytes / routed.top_k, ranks.n, list[float](), list[float]()
        for tier in ranks.tiers:
            moved.append(token * routed.reached(units) * (tier.ranks - 1) / tier.ranks)
            times.append(moved[-1] / tier.share)
            units //= tier.ranks
        inside = sum(moved) / ranks.tiers[0].share
        return CollectiveSeconds(sum(_log2(tier.ranks) * tier.latency for tier in ranks.tiers), max(inside, *times))

    return Algorithm("forwarded", "alltoall", ("forwarded",) if stated else ("collective", "low_latency"), spent)


def _pass(ranks: Ranks) -> float:
    """Seconds of latency once around the ring, without the closing step."""
    return sum(tier.hops * tier.latency for tier in ranks.tiers)


def _slowest(ranks: Ranks) -> float:
    """The bandwidth of a ring: that of the slowest tier, where the links of all members of a unit run side by side."""
    return min(tier.bandwidth for tier in ranks.tiers)


def _one_by_one(ranks: Ranks, peers: Sequence[int], nbytes: float, bandwidths: Sequence[float]) -> CollectiveSeconds:
    """A device's part of S to or from each peer, one after the other; `peers` and `bandwidths` by tier."""
    part = nbytes / ranks.n
    latency = sum(count * tier.latency for count, tier in zip(peers, ranks.tiers, strict=True))
    return CollectiveSeconds(
        latency, sum(count * part / bandwidth for count, bandwidth in zip(peers, bandwidths, strict=True))
    )


def _log2(n: int) -> int:
    return math.ceil(math.log2(n))
