"""The device memory of a process beside its program's tensors. Independent of programs.

A process that trains on a GPU holds the driver's context with the code of kernels, the workspaces of libraries, the
buffers of each communicator that it is a member of, and what the caching allocator has reserved and does not use: it
rounds sizes up to blocks, and freed blocks are not always of the size that is asked for next.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """The figures of a profile. Bytes, but for `fragmentation`, which is a share of the tensors' peak.

    `communicator`: for each group of devices that communicate; `left_out`: what processes can take of the device beyond
    the `memory` that the profile states, so that it takes in the first of these bytes; what is left is for tensors.
    """

    context: int = 0
    workspace: int = 0
    communicator: int = 0
    fragmentation: float = 0.0
    left_out: int = 0
    limited: bool = False
    """Whether a program is to leave alone what the profile's memory leaves out."""

    def overhead(self, tensors: int, communicators: int) -> Overhead:
        """The memory held beside `tensors` bytes at their peak, with a number of communicators."""
        fragments = round(self.fragmentation * tensors)
        return Overhead(
            self.context, self.workspace, communicators * self.communicator, fragments, self.left_out, self.limited
        )


@dataclass(frozen=True, slots=True)
class Overhead:
    """Bytes that a process holds beside tensors, by what they are for; `left_out` as in `Process`."""

    context: int = 0
    workspace: int = 0
    communicators: int = 0
    fragmentation: int = 0
    left_out: int = 0
    limited: bool = False

    @property
    def total(self) -> int:
        """All of them."""
        return self.context + self.workspace + self.communicators + self.fragmentation

    @property
    def charged(self) -> int:
        """Those that take from the memory which the profile states."""
        return max(0, self.total - self.left_out)

    @property
    def spare(self) -> int:
        """The memory available to tensors beyond that which the profile states."""
        return 0 if self.limited else max(0, self.left_out - self.total)

    @property
    def beyond(self) -> int:
        """The memory of the device beyond that which the profile states, as far as a process may take it."""
        return min(self.left_out, self.total) if self.limited else self.left_out


NO_PROCESS = Process()
NO_OVERHEAD = Overhead()
