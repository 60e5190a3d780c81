"""The memory of a device's host, and the link to it. Independent of programs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostMemory:
    """What a device has of its host's memory.

    `size`: its share of the node's, in bytes. `bandwidth`: of a copy in either direction while all devices of the node
    copy, in bytes/s; `latency`: seconds of a copy of nothing.
    """

    size: int
    bandwidth: float
    latency: float = 0.0

    def seconds(self, nbytes: float) -> float:
        """Seconds in which so many bytes are copied, either way."""
        return self.latency + nbytes / self.bandwidth
