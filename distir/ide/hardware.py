"""Machines to look at a text for: the profiles there are, and one with changed figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distir.cost import Hardware, describe, load, parse, profiles


@dataclass(frozen=True, slots=True)
class Profile:
    """A machine that can be chosen."""

    name: str
    title: str
    devices: int


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure of a machine, as its profile states it."""

    figure: str
    value: str
    unit: str
    source: str


def known() -> tuple[Profile, ...]:
    """The profiles that come with DistIR."""
    return tuple(Profile(h.name, h.title, len(h.kinds)) for h in map(load, profiles()))


def figures(hardware: Hardware) -> tuple[FigureRow, ...]:
    """The figures of a machine with their sources."""
    return tuple(FigureRow(row.figure, row.value, row.unit, row.source) for row in describe(hardware))


def changed(base: str, changes: Mapping[str, str], name: str) -> Hardware:
    """The machine `base`, a name or the path of a profile, with some figures changed.

    `changes`: by the keys of the profile's format, joined by dots, the new quantity with its unit:
    `{"levels.nvlink.send.bandwidth": "300GB/s"}`. Raises HardwareError where the result is no profile.
    """
    lines = [f"extends = {_quoted(base)}", f"title = {_quoted(name)}"]
    for key, value in changes.items():
        lines.append(f"{'.'.join(map(_quoted, key.split('.')))} = {_quoted(value)}")
    return parse("\n".join(lines) + "\n", name)


def _quoted(text: str) -> str:
    """A basic string of TOML."""
    special = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(special.get(c, c if c.isprintable() else f"\\u{ord(c):04x}") for c in text) + '"'
