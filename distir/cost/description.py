"""A machine in rows, for people to read. Rendering is the caller's."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from distir.cost.hardware import Hardware


class ProfileFigure(NamedTuple):
    """A figure: its meaning, its value and unit as the profile states them, and its source."""

    figure: str
    value: str
    unit: str
    source: str


def describe(hardware: Hardware) -> list[ProfileFigure]:
    """The components of a machine, then every figure of its profile. Keys of sources are in `hardware.sources`."""
    rows = [ProfileFigure("devices", str(hardware.devices), "", "")]
    rows += [ProfileFigure(f"{name} devices", str(count), "", "") for name, count in _kinds(hardware).items()]
    for level in hardware.levels:
        sizes = sorted(set(map(len, level.blocks.pattern)))
        rows.append(ProfileFigure(f"{level.name} blocks", " or ".join(map(str, sizes)), "devices", ""))
    for figure in hardware.figures:
        source = ": ".join(part for part in (figure.basis, figure.source) if part)
        source = f"{source} ({figure.note})" if figure.note else source
        rows.append(ProfileFigure(figure.name, figure.value, figure.unit, source))
    return rows


def _kinds(hardware: Hardware) -> Counter[str]:
    found = Counter[str]()
    for kind, count in hardware.kinds.runs:
        found[kind.name] += count * hardware.kinds.times
    return found
