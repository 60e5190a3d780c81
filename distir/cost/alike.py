"""Whether a machine treats groups of devices alike: of the same kinds, and linked alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distir.cost.hardware import Hardware


def alike(machine: Hardware, groups: Iterable[Sequence[int]]) -> bool:
    """Whether an op takes as long on each group of positions."""
    period = machine.period
    starts = ((group, min(group) // period * period) for group in groups)
    distinct = {tuple([device - start for device in group]) for group, start in starts}
    return len({machine.shape(group) for group in distinct}) == 1
