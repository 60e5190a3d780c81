"""How the host of a device issues ops to it: a process that launches one after the other. Knows no programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from distir.ops.resources import Work

FRAMEWORKS = ("eager", "compiled", "graphs")
"""How ops are issued: one by one from Python, compiled together, or recorded once and replayed (CUDA graphs)."""


@dataclass(frozen=True, slots=True)
class Host:
    """The host's time to issue an op, in seconds. The host does not wait for the op, unless it is `blocking`.

    `waits_for_sends`: it waits until what it sends or receives has arrived, as Megatron-LM does, which synchronizes
    with the device behind each transfer. `waits_for_counts`: it waits until it is known how many rows each expert has,
    by which it sizes what follows. `communication`: what it takes to issue a collective or a transfer, where that is
    another time. `each_expert`: what it takes to issue a product of experts for each of them, which then is an op of
    its own; 0: they are one op. `frameworks`: the same under those for which the profile states it.
    """

    issue: float = 0.0
    blocking: bool = False
    waits_for_sends: bool = False
    communication: float | None = None
    waits_for_counts: bool = False
    each_expert: float = 0.0
    frameworks: Mapping[str, Host] = field(default_factory=dict[str, "Host"])

    def issuing(self, work: Work) -> float:
        """Seconds in which this work is issued."""
        if work.moves and self.communication is not None:
            return self.communication
        return max(self.issue, self.each_expert * work.products_of_experts)

    def waits(self, work: Work) -> bool:
        """Whether the host waits until this work is done."""
        sends = work.communication is not None and work.communication.pattern == "send"
        return self.blocking or (self.waits_for_sends and sends) or (self.waits_for_counts and work.counts)


FREE_HOST = Host()
