"""The part of a profile that says how a level is built: from TOML to cards, leaves and tori.

`[levels.NAME.cards]`    the network cards of each node: `count = 4`, which its devices share evenly, in order; or
                         `devices = 2`, so many devices for each card; or `devices = ["0-1", "2, 4-7"]`, those of each.
                         And `bandwidth`: of a card, one way
`[levels.NAME.fabric]`   `kind`, `"rails"` (the first cards of all nodes on one switch, the second ones on another) or
                         `"fat tree"`; `leaf`: nodes below one switch; `oversubscription`: how much less bandwidth
                         goes beyond it, 1 unless given; `hop`: latency of each further switch
`fully_connected`        `true`: each device has a link of its own to each other one of its block
`[levels.NAME.torus]`    `sizes = [4, 4, 4]`, the last axis fastest; `wrap`: `true`, `false` or one for each axis

With cards, a link's `bandwidth` is what a device gets that has its card alone. Where a link states an `uplink`, that
holds instead of the cards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

from distir.cost.document import DocumentTable
from distir.cost.extents import LevelBlocks
from distir.cost.network import Cards, Torus
from distir.cost.reader_measured import FigureNotes
from distir.cost.topology import Level
from distir.cost.units import BANDWIDTH, DURATION
from distir.files import limits

SHAPES = ("cards", "fabric", "torus", "fully_connected")
MOST_SAID = 4
FABRICS = ("rails", "fat tree")


def built(section: DocumentTable, level: Level, unit: int, units: int, profile: FigureNotes) -> list[Level]:
    """The level as its tables shape it: two, where some nodes are further apart than others.

    `unit`: the devices of a node, and `units`: how many nodes.
    """
    torus = _torus(section, level, unit)
    if torus is not None:
        level = replace(level, torus=torus)
    level = replace(level, fully_connected=_fully_connected(section, level, unit))
    fabric = section.section("fabric")
    rails, leaf, oversubscription, hop = (False, units, 1.0, 0.0) if fabric is None else _fabric(fabric, units, profile)
    cards = _cards(section, level, unit, rails, profile)
    if fabric is not None and cards is None and "cards" not in section:
        section.missing("cards", "a table with `count` and `bandwidth`, for the `fabric` that joins them")
    level = replace(level, cards=cards)
    if leaf >= units:
        return [level]
    if level.blocks.period < level.blocks.stop and units % leaf:
        section.problem("fabric", f"`{level.name}` joins {units} nodes, which leaves of {leaf} do not divide")
    beyond = {
        use: replace(link, latency=link.latency + 2 * hop, bandwidth=link.bandwidth / oversubscription)
        for use, link in level.links.items()
    }
    near = replace(level, blocks=LevelBlocks.equal(leaf * unit, level.blocks.stop, least=unit + 1))
    return [near, replace(level, name=f"{level.name} beyond leaves", links=beyond, times={})]


# Cards.


def _cards(section: DocumentTable, level: Level, unit: int, rails: bool, profile: FigureNotes) -> Cards | None:
    table = section.section("cards")
    if table is None:
        return None
    bandwidth = profile.figure(table, "bandwidth", BANDWIDTH)
    of = _listed(table, unit) if "devices" in table else _even(table, unit)
    if "devices" in table and "count" in table:
        table.problem("count", "`count` and `devices` exclude each other", "remove one of them")
    table.get("count")
    table.close()
    alone = [(link.bandwidth, use) for use, link in level.links.items() if link.uplink is None]
    if alone and max(alone)[0] > bandwidth:
        fastest = max(alone)[1]
        table.problem("bandwidth", f"a card has less than one device achieves: see `{level.name}.{fastest}.bandwidth`")
    return Cards(tuple(of), bandwidth, rails) if of else None


def _even(table: DocumentTable, unit: int) -> list[int]:
    count = table.count("count")
    if count > unit:
        advice = f"give each device one card with the bandwidth of all of its cards: `count = {unit}`"
        idle = "1 is" if count - unit == 1 else f"{count - unit} are"
        devices = f"{unit} device{'s' * (unit != 1)}"
        table.problem("count", f"{count} cards for {devices}: {idle} used by no device", advice)
    elif unit % count:
        advice = f"say which devices each has: `devices = [{_parts(unit, count)}]`"
        table.problem("count", f"{unit} devices cannot share {count} cards evenly", advice)
    else:
        return [device * count // unit for device in range(unit)]
    return []


def _parts(unit: int, count: int) -> str:
    """Parts of devices for some cards, as even as can be, as TOML; of many cards the first few."""
    firsts = [-(-unit * card // count) for card in range(count + 1)]
    runs = [f'"{first}"' if after == first + 1 else f'"{first}-{after - 1}"' for first, after in pairwise(firsts)]
    return ", ".join(runs[:MOST_SAID] + ["…"] * (count > MOST_SAID))


def _listed(table: DocumentTable, unit: int) -> list[int]:
    value = table.get("devices")
    if isinstance(value, int):
        shared = table.count("devices", most=limits.DEVICES)
        return [device // shared for device in range(unit)]
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    of: dict[int, int] = {}
    for card, item in enumerate(items):
        parts = item.split(",") if isinstance(item, str) else [""]
        matches = [re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part) for part in parts]
        ranges = [(int(match[1]), int(match[2] or match[1])) for match in matches if match is not None]
        if len(ranges) < len(matches):
            table.problem("devices", f'expected a list of texts such as `"0-1"`, `"2"` or `"0, 2"`, found `{item}`')
            return []
        if any(first > last for first, last in ranges):
            table.problem("devices", f"no device uses card {card}: `{item}` names none")
            return []
        for device in (device for first, last in ranges for device in range(first, min(last, unit) + 1)):
            if device >= unit:
                numbers = f"a node has the devices 0 to {unit - 1}"
                why = f"{numbers}, so no device uses it" if min(ranges)[0] >= unit else numbers
                table.problem("devices", f"card {card} has `{item}`, but {why}")
                return []
            if device in of:
                advice = "state them as one card with the bandwidth of both"
                table.problem("devices", f"device {device} is on card {of[device]} and on card {card}", advice)
                return []
            of[device] = card
    lacking = [device for device in range(unit) if device not in of]
    if lacking:
        table.problem("devices", f"device {lacking[0]} is on no card", "name each device of a node once")
        return []
    return [of[device] for device in range(unit)]


# Fabrics.


def _fabric(table: DocumentTable, units: int, profile: FigureNotes) -> tuple[bool, int, float, float]:
    """Whether it has rails; nodes below a leaf; by how much bandwidth is less beyond it; the latency of a switch."""
    kind = table.text("kind", " or ".join(f'`"{kind}"`' for kind in FABRICS))
    if kind and kind not in FABRICS:
        table.problem("kind", f"expected {' or '.join(f'`{kind}`' for kind in FABRICS)}, found `{kind}`")
    leaf = table.count("leaf", default=units)
    hop = profile.figure(table, "hop", DURATION, zero=True) if "hop" in table else 0.0
    value = table.get("oversubscription")
    ratio = 1.0
    if value is not None:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and 1 <= cast("float", value) < math.inf:
            ratio = float(cast("float", value))
        else:
            found = f"`{value}`" if number else "no number"
            advice = "1 where as much goes beyond a leaf as below it, 2 where half of it does"
            table.problem("oversubscription", f"expected a number from 1, found {found}", advice)
    if "leaf" not in table and ratio > 1:
        why = "says nothing where all nodes are below one switch"
        table.problem("oversubscription", why, "state how many nodes are below a switch: `leaf = 32`")
    for name in ("kind", "leaf", "oversubscription"):
        if name in table:
            profile.record(table, name, table.get(name), table)
    table.close()
    return kind == "rails", leaf, ratio, hop


# Tori.


def _fully_connected(section: DocumentTable, level: Level, unit: int) -> bool:
    value = section.get("fully_connected")
    if value is None or value is False:
        return False
    other = next((shape for shape in SHAPES[:-1] if shape in section), None)
    if value is not True:
        section.problem("fully_connected", "expected `true` or `false`")
    elif other is not None:
        section.problem("fully_connected", f"a level has links from each device to each other one, or `{other}`")
    elif unit > 1:
        message = f"expected a level that joins devices, and `{level.name}` joins blocks of {unit}"
        section.problem("fully_connected", message)
    return True


def _torus(section: DocumentTable, level: Level, unit: int) -> Torus | None:
    table = section.section("torus")
    if table is None:
        return None
    sizes = _sizes(table.get("sizes"))
    if sizes is None:
        table.problem("sizes", "expected at least one whole number from 1, as in `sizes = [4, 4, 4]`")
    wrap = table.get("wrap")
    ends = [wrap] * len(sizes or ()) if isinstance(wrap, bool) else wrap
    if not isinstance(ends, list) or not all(isinstance(end, bool) for end in cast("list[object]", ends)):
        table.problem("wrap", "expected `true` or `false`, or one for each axis, as in `wrap = [true, true, false]`")
        ends = []
    elif sizes and len(cast("list[bool]", ends)) != len(sizes):
        table.problem("wrap", f"expected {len(sizes)} of `true` and `false`, one for each axis")
    size = level.blocks.period
    if unit > 1:
        section.problem("torus", f"expected a level that joins devices, and `{level.name}` joins blocks of {unit}")
    elif sizes and math.prod(sizes) != size:
        found = " × ".join(map(str, sizes))
        table.problem("sizes", f"{found} are {math.prod(sizes)} devices, and `{level.name}` joins {size}")
    table.close()
    if "cards" in section:
        section.problem("torus", "a level has cards or a torus", "remove one of the tables")
    if any(link.uplink is not None for link in level.links.values()):
        section.problem("torus", "a torus has no `uplink`", "remove it")
    return Torus(tuple(sizes), tuple(cast("list[bool]", ends))) if sizes and ends else None


def _sizes(value: object) -> Sequence[int] | None:
    if not isinstance(value, list) or not value:
        return None
    items = cast("list[object]", value)
    sizes = [item for item in items if isinstance(item, int) and not isinstance(item, bool) and item >= 1]
    return sizes if len(sizes) == len(items) else None
