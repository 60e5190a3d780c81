"""The effects of blocks of statements on memories: the change of bytes in use, and the peak meanwhile.

After (c, p), (d, q) gives (c + d, max(p, c + q)): that is associative, and (0, 0) is neutral. Knows no programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Use = dict[int, tuple[int, int]]
"""By memory: by how many bytes its use changes from start to end, and how far it rises in between; from 0 up."""

Sized = Iterable[tuple[int, int]]
"""Memories, each with bytes."""


class Usage:
    """The use of memories, block after block."""

    __slots__ = ("now", "peak")

    def __init__(self) -> None:
        self.now: dict[int, int] = {}
        self.peak: dict[int, int] = {}

    def op(self, taken: Sized, temporary: Sized, given: Sized) -> None:
        """An op: bytes allocated at its start, temporary bytes, and bytes freed at its end."""
        now, peak = self.now, self.peak
        for memory, size in taken:
            now[memory] = used = now.get(memory, 0) + size
            if used > peak.get(memory, 0):
                peak[memory] = used
        for memory, size in temporary:
            used = now.setdefault(memory, 0) + size
            if used > peak.get(memory, 0):
                peak[memory] = used
        for memory, size in given:
            now[memory] = now.get(memory, 0) - size

    def block(self, use: Mapping[int, tuple[int, int]]) -> None:
        """A block of which the use is known."""
        now, peak = self.now, self.peak
        for memory, (change, rise) in use.items():
            before = now.get(memory, 0)
            if before + rise > peak.get(memory, 0):
                peak[memory] = before + rise
            now[memory] = before + change

    @property
    def total(self) -> Use:
        """The use by all blocks so far."""
        peak = self.peak
        return {memory: (change, peak.get(memory, 0)) for memory, change in self.now.items()}


def compose(uses: Iterable[Use]) -> Use:
    """The use of memory by one block after the other."""
    now: dict[int, int] = {}
    peak: dict[int, int] = {}
    for use in uses:  # as `Usage.block` has it, without a call for each of them
        for memory, (change, rise) in use.items():
            before = now.get(memory, 0)
            if before + rise > peak.get(memory, 0):
                peak[memory] = before + rise
            now[memory] = before + change
    return {memory: (change, peak.get(memory, 0)) for memory, change in now.items()}


def power(use: Use, times: int) -> Use:
    """The effect on memory of a block repeated `times` times, 0 or more."""
    if times == 0:
        return {}
    return {m: (times * change, rise + max(0, (times - 1) * change)) for m, (change, rise) in use.items()}


def rename(use: Use, memories: Mapping[int, int]) -> Use:
    """The same in other memories, different ones for different ones."""
    return {memories[memory]: found for memory, found in use.items()}
