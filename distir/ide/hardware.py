"""Machines to simulate a text for: the profiles there are, and one with changed figures."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from distir.cost import Hardware, HardwareError, Problem, describe, load, parse, profiles
from distir.cost.catalogue import tables_of
from distir.cost.units import BANDWIDTH, UnitError
from distir.cost.units import parse as parse_quantity
from distir.diagnostics import nearest


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

    `changes`: by the names of figures as `figures` lists them, the new quantity with its unit:
    `{"nvlink send bandwidth": "300GB/s"}`. A link that gets more than a network card has raises the card as well.
    Raises HardwareError for a figure that there is not, or a wrong quantity.
    """
    base, at, framework = base.partition("@")
    hardware = load(base)
    stated = {key: f"{f.value}{f.unit}" for f in hardware.figures if (key := _key(hardware, f.name)) is not None}
    tables: set[tuple[str, ...]] = set()
    for figure, quantity in changes.items():
        key = _key(hardware, figure)
        if key is None or key not in stated:
            raise HardwareError([_unknown(hardware, figure)])
        stated[key] = quantity
        tables.add(_table(key))
    cards = _cards(base, stated, tables)
    # A profile that extends another replaces tables of figures as a whole, so what did not change is stated again.
    lines = [f"extends = {_quoted(base)}", f"title = {_quoted(name)}"]
    lines += [
        f"{'.'.join(map(_quoted, key))} = {_quoted(quantity)}"
        for key, quantity in stated.items()
        if _table(key) in tables and _table(key) not in cards
    ]
    lines += [f"{'.'.join(map(_quoted, key))} = {table}" for key, table in cards.items()]
    found = parse("\n".join(lines) + "\n", name)
    return (found.under(framework) or found) if at else found


_USES = ("send", "collective", "low_latency", "switch", "forwarded", "hybrid")


def _cards(
    base: str, stated: Mapping[tuple[str, ...], str], tables: Collection[tuple[str, ...]]
) -> dict[tuple[str, ...], str]:
    """The tables of cards that change, in TOML: with another bandwidth, or of links that would exceed theirs."""
    found: dict[tuple[str, ...], str] = {}
    for name, level in tables_of(base).get("levels", {}).items():
        key = "levels", name, "cards"
        if "cards" not in level or not any(table[:2] == key[:2] for table in tables):
            continue
        links = [stated.get(("levels", name, use, "bandwidth")) for use in _USES if "uplink" not in level.get(use, {})]
        own = stated[*key, "bandwidth"]
        enough = own if key in tables else max((own, *(link for link in links if link is not None)), key=_rate)
        who = {word: value for word, value in level["cards"].items() if word in ("count", "devices")}
        words = [f"{word} = {json.dumps(value)}" for word, value in who.items()]
        found[key] = f"{{ {', '.join([*words, f'bandwidth = {_quoted(enough)}'])} }}"
    return found


def _rate(text: str) -> float:
    """Bytes per second; none where the text says none, which the reader of the profile reports."""
    try:
        return parse_quantity(text, BANDWIDTH)
    except UnitError:
        return 0.0


def _key(hardware: Hardware, figure: str) -> tuple[str, ...] | None:
    """The keys of a profile's file that state a figure; None for one that is no quantity of its own."""
    networks = [] if hardware.network is None else [hardware.network]  # of one node, too
    for name in dict.fromkeys([*(level.name for level in hardware.levels), *networks]):
        if figure == f"{name} cards bandwidth".replace("_", " "):
            return "levels", name, "cards", "bandwidth"
        for use in _USES:
            head = f"{name} {use} ".replace("_", " ")
            if figure.startswith(head):
                return "levels", name, use, figure.removeprefix(head)
    for kind in hardware.kinds.distinct:
        head = f"{kind.name} ".replace("_", " ")
        words = figure.removeprefix(head).split()
        if not figure.startswith(head) or not words:
            continue
        if words[0] in ("ops", "products", "experts", "attention", "sustained"):  # fitted together, or a share
            return None
        if words[0] == "flops":
            return ("kinds", kind.name, *words) if "as" not in words else None
        if words[0] == "issue":
            return "kinds", kind.name, *words
        if words[0] == "process":
            return "kinds", kind.name, "process", "_".join(words[1:])
        if words[0] == "host":
            return "kinds", kind.name, "host_memory", *words[2:]
        return ("kinds", kind.name, "memory_bandwidth", *words[2:]) if len(words) > 1 else ("kinds", kind.name, *words)
    return None


def _table(key: tuple[str, ...]) -> tuple[str, ...]:
    """The table of figures that a figure belongs to: all that is stated together."""
    return key[:4] if key[2] == "flops" else key[:3]


def _unknown(hardware: Hardware, figure: str) -> Problem:
    known = [f.name for f in hardware.figures if _key(hardware, f.name) is not None]
    likely = nearest(figure, known)
    hint = f"did you mean `{likely}`?" if likely else f"`{hardware.name}` has: {', '.join(known)}"
    return Problem(f"`{hardware.name}` has no figure `{figure}` that could be changed", help=hint)


def _quoted(text: str) -> str:
    """A basic string of TOML."""
    special = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(special.get(c, c if c.isprintable() else f"\\u{ord(c):04x}") for c in text) + '"'
