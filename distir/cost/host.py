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
    with the device behind each transfer. `communication`: what it takes to issue a collective or a transfer, where that
    is another time. `frameworks`: the same under those for which the profile states it.
    """

    issue: float = 0.0
    blocking: bool = False
    waits_for_sends: bool = False
    communication: float | None = None
    frameworks: Mapping[str, Host] = field(default_factory=dict[str, "Host"])

    def issuing(self, work: Work) -> float:
        """Seconds in which this work is issued."""
        return self.issue if self.communication is None or work.communication is None else self.communication

    def waits(self, work: Work) -> bool:
        """Whether the host waits until this work is done."""
        sends = work.communication is not None and work.communication.pattern == "send"
        return self.blocking or (self.waits_for_sends and sends)


FREE_HOST = Host()
