"""Hardware profiles: from TOML to `Hardware`. Owns the schema; `profiles/README.md` is the same with an example.

A profile has these tables; quantities are texts with units, `"80GB"`, and see `units`:

`title`                 what the machine is, in a line
`gpu`                   optional: of a node, what tables of training runs call its GPU: `"h100_80gb"`; not inherited
`extends`               another profile, by name or by a path from this file, whose tables this one adds to
`[sources]`             KEY = "where figures come from", as many as there are
`[[groups]]`            devices in the order of their positions: `kind` and `count`
`[kinds.NAME]`          `title`, and optionally `architecture`, as its maker calls it: `"hopper"`; figures `memory`,
                        `launch`, and optionally `cache` and `price`, which is per hour, and in one currency for all
                        kinds
                        `issue`: for how long the host issues an op, `"blocking"` if it waits for each, or a table of
                        times under `eager`, `compiled`, `graphs`; `interference`: the share of a collective's time
                        by which it delays what is computed beside it; `begin`: for how long it does so however
                        short it is; `streams`: how many streams that statements
                        name a device runs, beside `compute`; any number unless given
`… .memory_bandwidth`   `peak` and `achieved`
`… .process`            optional: what a process holds beside tensors: `context`, `workspace`, `communicator` (for each
                        group of devices), `fragmentation` (a share of the tensors' peak, such as `0.05`), and
                        `left_out`: what of the chip's memory the figure `memory` leaves out for these
`… .host_memory`        optional: where a device may offload to: `size`, its share of the memory of the node's host;
                        `bandwidth`, one way, while all devices of the node copy; and optionally `latency` of a copy
`… .sustained`          optional: `clock`: that of a device at the limit of its power, where this is not that of the
                        devices that figures by shape were measured on, over theirs: `0.9`; `products`: the rate of
                        products by shape in a training step, over that of their figures, as fitted to runs
`… .flops.DTYPE`        `peak` and `achieved`, or `like = "DTYPE"`, or, of a type that the device lacks, the one
                        that it computes in: `instead = "DTYPE"`; `Float32` and `other`, for all that are not
                        named, must be there. `achieved` is one rate, or a table from the op's size to the rate:
                        `"2GFLOP" = "119TFLOP/s"`
`[levels.NAME]`         `devices = 8`: joins devices in blocks of (up to) 8; or `blocks = ["0-7", "8-11"]`; or
                        `devices = "nodes"`: joins nodes like this machine, where there are several. Optionally
                        `reached`: the share of its links' bandwidths that is reached in training: `0.9`
`… .send`               point to point: `startup` (per op), `latency` (per step), `bandwidth` (per device, one way,
                        achieved), and optionally `uplink` (what all devices of one unit have together)
`… .collective`         the same for collectives
`… .low_latency`        optional: the same for the protocol that serves small messages in collectives
`… .switch`             optional: the same for reductions that the switch does itself
`… .forwarded`          optional: the same for all-to-alls of tokens by kernels that forward them, as DeepEP's do
`… .hybrid`             optional: the same of HybridEP's kernels, in the place of `forwarded` where a run has them

`… .cards`, `… .fabric`, `… .torus`, `… .fully_connected`   how a level is built: see `reader_network`

What was measured beside these (`ops`, `times`, `uncertainty`, `published`) is read by `reader_measured`, figures by
shape (`products`, `experts`, `attention`) by `reader_contractions`.

A figure is a text, or `{ value = "7us", source = KEY, basis = …, note = "…" }`. A table with several figures takes
`source`, `basis` and `note` for all of them. `source` is a key of `[sources]` or a list of keys, `basis` one of
`specified`, `measured`, `derived`, `estimated`. Latencies may be zero, everything else must be above. With `extends`,
what a file says of a figure or of a table of figures replaces what the other says of it, source included; an empty
table, such as `switch = {}`, `products = {}` or `published = {}`, drops the other's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

from distir.cost.compute import DeviceKind, Rate
from distir.cost.document import PLACEHOLDER, DocumentTable, File, ProfileDocument, unknown
from distir.cost.extents import LevelBlocks, Runs
from distir.cost.hardware import Figure, Hardware
from distir.cost.host import FRAMEWORKS, FREE_HOST, Host
from distir.cost.host_memory import HostMemory
from distir.cost.price import Price
from distir.cost.process import NO_PROCESS, Process
from distir.cost.reader_contractions import attention, products
from distir.cost.reader_correction import corrections
from distir.cost.reader_measured import op_figures, published, share_of, times, uncertainty
from distir.cost.reader_network import SHAPES, built
from distir.cost.topology import Level, Link, Use, clashes
from distir.cost.units import BANDWIDTH, DURATION, FLOP_RATE, FLOPS, MEMORY, PRICE, Quantity, UnitError, parse_price
from distir.diagnostics.spelling import nearest
from distir.files import limits
from distir.ir import DTYPES, DType

BASES = ("specified", "measured", "derived", "estimated")
BETWEEN_NODES = "nodes"
NETWORK_HELP = (
    "add the network between nodes: a table `[levels.NAME]` with "
    f'`devices = "{BETWEEN_NODES}"`, and tables `send`, `collective` and `cards`'
)
_NO_RATE = Rate(PLACEHOLDER, ((PLACEHOLDER, PLACEHOLDER),))


def read(name: str, files: Sequence[File], nodes: int = 1) -> Hardware:
    """The hardware that a file describes together with those it extends; `nodes` of them. Raises HardwareError.

    All faults are reported at once, also where it states no network that joins several nodes.
    """
    found = document(files)
    root = found.root
    root.get("extends")
    root.text("gpu")
    title = root.text("title", "a line that says what the machine is")
    sources = _sources(root)
    profile = _Profile(sources)
    kinds = {kind.name: kind for kind in _kinds(root, profile)}
    devices = _groups(root, kinds, nodes)
    levels, network = _levels(root, profile, len(devices) // nodes, nodes)
    errors = published(root, profile)
    root.close()
    found.check()
    title = title if nodes == 1 else f"{nodes} nodes, each: {title}"
    own = files[0].table.get("sources", {})
    cited = {key for figure in profile.figures for key in figure.source.split(", ")}
    sources = {key: text for key, text in sources.items() if key in cited or key in own}
    return Hardware(name, title, devices, levels, sources, tuple(profile.figures), network=network, published=errors)


def document(files: Sequence[File]) -> ProfileDocument:
    """The tables of a file together with those it extends."""
    deeper = frozenset({"flops", "ops", "times", "products", "experts", "attention"})
    return ProfileDocument(files, deeper=deeper, dropped=frozenset({"published"}))


class _Profile:
    """The state of reading: the sources that may be cited, and the figures."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.sources = sources
        self.figures: list[Figure] = []

    def figure(self, section: DocumentTable, name: str, quantity: Quantity, zero: bool = False) -> float:
        """A figure of a table. It is stated as a text, or as a table of its own with its source."""
        if not isinstance(section.get(name), Mapping):
            number = section.quantity(name, quantity, zero)
            self.record(section, name, section.get(name), section)
            return number
        own = section.section(name)
        assert own is not None
        number = own.quantity("value", quantity, zero)
        self.record(section, name, own.get("value"), own)
        own.close()
        return number

    def optional(self, section: DocumentTable, name: str, quantity: Quantity) -> float | None:
        """The same for a figure that need not be there."""
        return None if section.get(name) is None else self.figure(section, name, quantity)

    def record(self, section: DocumentTable, name: str, value: object, cited: DocumentTable) -> None:
        """Note a figure for `describe`; `cited` is the table that states its source."""
        source, basis, note = self._citation(cited)
        number, unit = _split(str(value))
        title = " ".join((*section.key[1:], name)).replace("_", " ")
        self.figures.append(Figure(title, number, unit, source, basis, note))

    def _citation(self, section: DocumentTable) -> tuple[str, str, str]:
        value = section.get("source")
        keys = cast("list[object]", value) if isinstance(value, list) else [] if value is None else [value]
        for key in keys:
            if not isinstance(key, str) or key not in self.sources:
                likely = nearest(str(key), self.sources)
                advice = f"did you mean `{likely}`?" if likely else "add it to the table `[sources]`"
                section.problem("source", f"`{key}` is not among the sources", advice)
        basis = section.text("basis")
        if basis and basis not in BASES:
            section.problem("basis", f"expected one of {', '.join(BASES)}, found `{basis}`")
        return ", ".join(map(str, keys)), basis, section.text("note")


def _sources(root: DocumentTable) -> dict[str, str]:
    section = root.section("sources")
    return {} if section is None else {key: section.text(key, "where figures come from") for key in section}


# Devices.


def _kinds(root: DocumentTable, profile: _Profile) -> list[DeviceKind]:
    section = root.section("kinds")
    if section is None:
        root.missing("kinds", "a table `[kinds.NAME]` for each kind of device")
        return []
    named = [(kind, _kind(name, kind, profile)) for name in section if (kind := section.section(name)) is not None]
    first = next((kind for _, kind in named if kind.price is not None), None)
    for stated, kind in named:
        if first is not None and first.price and kind.price and kind.price.currency != first.price.currency:
            message = f"is in {kind.price.currency}, the price of `{first.name}` in {first.price.currency}"
            stated.problem("price", message, "state all prices of a profile in one currency")
    return [kind for _, kind in named]


def _kind(name: str, section: DocumentTable, profile: _Profile) -> DeviceKind:
    title, architecture = section.text("title", "the device's name"), section.text("architecture")
    memory = profile.figure(section, "memory", MEMORY)
    bandwidth = section.section("memory_bandwidth")
    peak = achieved = PLACEHOLDER
    if bandwidth is not None:
        peak = profile.figure(bandwidth, "peak", BANDWIDTH)
        achieved = profile.figure(bandwidth, "achieved", BANDWIDTH)
        _not_above_peak(bandwidth, achieved, peak)
        bandwidth.close()
    elif "memory_bandwidth" not in section:
        section.missing("memory_bandwidth", 'a table such as `{ peak = "2039GB/s", achieved = "1700GB/s" }`')
    launch = profile.figure(section, "launch", DURATION, zero=True)
    rates, other = _rates(section, profile)
    price = _price(section, profile)
    cache = profile.optional(section, "cache", MEMORY) or 0.0
    process = _process(section, profile)
    host, interference = _host(section, profile), share_of(section, "interference", most=1)
    if interference:
        profile.record(section, "interference", section.get("interference"), section)
    begin = profile.optional(section, "begin", DURATION) or 0.0
    streams, (clock, trained) = _streams(section, profile), _sustained(section, profile)
    ops, share = op_figures(section, profile), uncertainty(section)
    dense, grouped = (products(section, name, profile, rates) for name in ("products", "experts"))
    fused = attention(section, profile, rates)
    host_memory = _host_memory(section, profile)
    section.close()
    nbytes = round(memory) if memory > 0 else 0
    return DeviceKind(
        name, title, nbytes, achieved, peak, launch, rates, other, price, ops, share, cache, process=process,
        products=dense, experts=grouped, attention=fused, host=host, interference=interference, begin=begin,
        streams=streams, sustained_clock=clock, sustained_products=trained, host_memory=host_memory,
        architecture=architecture,
    )  # fmt: skip


def _process(kind: DocumentTable, profile: _Profile) -> Process:
    section = kind.section("process")
    if section is None:
        return NO_PROCESS

    def size(name: str) -> int:
        nbytes = profile.optional(section, name, MEMORY) or 0.0
        return round(nbytes) if nbytes > 0 else 0  # no number where there is a fault

    found = Process(
        size("context"), size("workspace"), size("communicator"), share_of(section, "fragmentation"), size("left_out")
    )
    if found.fragmentation:
        profile.record(section, "fragmentation", section.get("fragmentation"), section)
    section.close()
    return found


def _host_memory(kind: DocumentTable, profile: _Profile) -> HostMemory | None:
    section = kind.section("host_memory")
    if section is None:
        return None
    size, bandwidth = profile.figure(section, "size", MEMORY), profile.figure(section, "bandwidth", BANDWIDTH)
    latency = profile.optional(section, "latency", DURATION) or 0.0
    section.close()
    return HostMemory(round(size) if size > 0 else 0, bandwidth, latency)


HIGHEST_CLOCK = 2.0
"""Of `sustained`. No limit of power halves a clock, so none that is lifted more than doubles it."""

MOST_REACHED = 10.0
"""Of `reached`, and of the rate of products in training: ten times as fast is another machine."""


def _sustained(kind: DocumentTable, profile: _Profile) -> tuple[float, float]:
    """The clock at the limit of power, and the rate of products in training, over those that were measured."""
    section = kind.section("sustained")
    if section is None:
        return 1.0, 1.0
    if "clock" not in section and "products" not in section:
        section.problem("clock", "expected a share above 0, such as `0.9`")
    clock = _positive_share(section, "clock", HIGHEST_CLOCK, profile)
    trained = _positive_share(section, "products", MOST_REACHED, profile)
    section.close()
    return clock, trained


def _positive_share(section: DocumentTable, name: str, most: float, profile: _Profile) -> float:
    """A share above 0; 1 where none is stated."""
    value = section.get(name)
    if value is None:
        return 1.0
    found = share_of(section, name, most)
    if value == 0:
        section.problem(name, "expected a share above 0, such as `0.9`")
    profile.record(section, name, value, section)
    return found or 1.0


def _streams(kind: DocumentTable, profile: _Profile) -> int | None:
    if kind.get("streams") is None:
        return None
    profile.record(kind, "streams", kind.get("streams"), kind)
    return kind.count("streams", least=0)


def _host(kind: DocumentTable, profile: _Profile) -> Host:
    """The host's issue time: one figure, or a table by framework."""
    value = kind.get("issue")
    if value is None:
        return FREE_HOST
    if not isinstance(value, Mapping) or "value" in value:
        return _issue(kind, "issue", profile)
    section = kind.section("issue")
    assert section is not None
    found: dict[str, Host] = {}
    for name in section:
        if name in FRAMEWORKS:
            found[name] = _issue(section, name, profile)
        elif name not in ("source", "basis", "note"):
            section.get(name)
            unknown(section, name, FRAMEWORKS)
    if not {*section} - {"source", "basis", "note"}:
        section.problem("", f"expected a time for one of {', '.join(FRAMEWORKS)}")
    section.close()
    return Host(frameworks=found)


def _issue(section: DocumentTable, name: str, profile: _Profile) -> Host:
    if section.get(name) == "blocking":
        profile.record(section, name, "blocking", section)
        return Host(blocking=True)
    return Host(profile.figure(section, name, DURATION, zero=True))


def _price(section: DocumentTable, profile: _Profile) -> Price | None:
    profile.optional(section, "price", PRICE)  # which notes what is wrong with it
    value = section.get("price")
    stated = cast("Mapping[str, object]", value).get("value") if isinstance(value, Mapping) else value
    try:
        return parse_price(stated) if isinstance(stated, str) else None
    except UnitError:
        return None


def _rates(kind: DocumentTable, profile: _Profile) -> tuple[dict[DType, Rate], Rate]:
    """The rate of every element type, and that of work without one. `like` is followed, in any order."""
    section = kind.section("flops")
    if section is None:
        if "flops" not in kind:
            kind.missing("flops", "tables `flops.Float32` and `flops.other`, and one for each type with its own rate")
        return {}, _NO_RATE
    stated: dict[str, Rate] = {}
    like: dict[str, str] = {}
    lacking: set[str] = set()
    for name in section:
        entry = section.section(name)
        if name not in DTYPES and name != "other":
            unknown(section, name, (*DTYPES, "other"))
        elif entry is not None and (word := next((w for w in ("like", "instead") if w in entry), None)):
            if target := entry.text(word, "the name of an element type"):
                like[name] = target
                profile.record(section, name, f"as {target}", entry)
                if word == "instead":
                    lacking.add(name)
            entry.close()
        elif entry is not None:
            stated[name] = _rate(entry, profile)
    for required in ("Float32", "other"):
        if required not in section:
            section.missing(required, "a table with `peak` and `achieved`, or with `like`")
    rates = {dtype: _follow(name, like, stated, section) for name, dtype in DTYPES.items()}
    unnamed = {dtype.name for dtype in DTYPES.values() if dtype.kind == "float" and dtype.bytes == 1} - {*stated, *like}
    for name in (lacking | unnamed) & DTYPES.keys():
        rates[DTYPES[name]] = replace(rates[DTYPES[name]], instead=like.get(name) or like.get("other", "other types"))
    return rates, _follow("other", like, stated, section)


def _follow(name: str, like: Mapping[str, str], stated: Mapping[str, Rate], section: DocumentTable) -> Rate:
    path = [name if name in stated or name in like else "other"]
    while path[-1] in like:
        target = like[path[-1]]
        if target in path:
            section.problem(path[-1], f"`like` goes in a circle: {' → '.join((*path, target))}")
            return _NO_RATE
        path.append(target)
    if path[-1] not in stated and len(path) > 1:
        likely = nearest(path[-1], stated)
        advice = f"did you mean `{likely}`?" if likely else f"stated here: {', '.join(stated) or 'none'}"
        section.problem(path[-2], f"no rate is stated for `{path[-1]}`", advice)
    return stated.get(path[-1], _NO_RATE)


def _rate(section: DocumentTable, profile: _Profile) -> Rate:
    peak = profile.figure(section, "peak", FLOP_RATE)
    value = section.get("achieved")
    if not isinstance(value, Mapping) or "value" in value:
        achieved = profile.figure(section, "achieved", FLOP_RATE)
        _not_above_peak(section, achieved, peak)
        section.close()
        return Rate(peak, ((1.0, achieved),))
    table = section.section("achieved")
    assert table is not None
    points: dict[float, float] = {}
    for size in table:
        achieved = table.quantity(size, FLOP_RATE)
        points[table.quantity_of(size, size, FLOPS)] = achieved
        profile.record(table, size, table.get(size), section)
        if achieved > peak:
            table.problem(size, f"`{table.get(size)}` is above the `peak` of `{section.get('peak')}`")
    section.close()
    ordered = sorted(points.items())
    if not ordered:
        section.problem("achieved", "expected at least one size, found an empty table")
    for (size, rate), (next_size, next_rate) in pairwise(ordered):
        if next_rate / next_size > rate / size * (1 + 1e-5):  # figures are rounded
            message = f"an op of {next_size:.3g} FLOP would take less time than one of {size:.3g} FLOP"
            section.problem("achieved", message, "correct the rates, or leave the smaller size out")
    return Rate(peak, tuple(ordered)) if ordered else _NO_RATE


def _not_above_peak(section: DocumentTable, achieved: float, peak: float) -> None:
    if achieved > peak:
        section.problem("achieved", f"`{section.get('achieved')}` is above the `peak` of `{section.get('peak')}`")


def _groups(root: DocumentTable, kinds: Mapping[str, DeviceKind], nodes: int) -> Runs[DeviceKind]:
    """The kind of each device."""
    if "groups" not in root:
        root.missing("groups", "a table `[[groups]]` with `kind` and `count`")
        root.get("groups")
        return Runs[DeviceKind](())
    runs: list[tuple[DeviceKind, int]] = []
    for group in root.sections("groups"):
        name = group.text("kind", "the name of a table `[kinds.NAME]`")
        count = group.count("count", most=limits.DEVICES)
        _no_streams(group)
        group.close()
        if name in kinds:
            runs.append((kinds[name], count))
        elif name:
            likely = nearest(name, kinds)
            known = f"did you mean `{likely}`?" if likely else f"known kinds: {', '.join(kinds) or 'none'}"
            group.problem("kind", f"there is no table `[kinds.{name}]`", known)
    devices = sum(count for _, count in runs)
    if devices > limits.DEVICES:
        root.problem("groups", f"expected at most {limits.DEVICES} devices, found {devices}")
        return Runs[DeviceKind](())
    return Runs(tuple(runs), nodes)


def _no_streams(group: DocumentTable) -> None:
    """Once, streams were further devices of a group."""
    if "streams" in group:
        message = "streams are no devices: in a program, statements name the stream that they run on"
        advice = "remove it, and write `on NAME` behind a statement, as in `%b = Send[device = 2](%a) on copy`; how "
        advice += "many streams a device may have is `streams` of its kind"
        group.problem("streams", message, advice)
        group.table = {name: value for name, value in group.table.items() if name != "streams"}


# Links.


def _levels(root: DocumentTable, profile: _Profile, devices: int, nodes: int) -> tuple[tuple[Level, ...], str | None]:
    """The levels of a machine of `nodes` nodes of so many devices; and the name of that which joins nodes."""
    section = root.section("levels")
    named = [] if section is None else [(name, section.section(name)) for name in section]
    between = [(name, level) for name, level in named if level is not None and level.get("devices") == BETWEEN_NODES]
    inside = [(name, level) for name, level in named if level is not None and level.get("devices") != BETWEEN_NODES]
    levels = [_level(name, level, profile, _blocks(level, devices, nodes)) for name, level in inside]
    outer = [
        _level(name, level, profile, LevelBlocks.equal(devices * nodes, devices * nodes)) for name, level in between
    ]
    for (name, level), other in zip(between[1:], outer, strict=False):
        level.problem("devices", f"`{other.name}` joins nodes already, and `{name}` would too")
    network = outer[0].name if outer else None
    made: list[Level] = []
    for (_, table), level in zip([*inside, *between], [*levels, *outer], strict=True):
        unit = devices if level in outer else _unit(level, levels)
        shaped = built(table, level, unit, level.blocks.period // max(unit, 1), profile)
        reached = _positive_share(table, "reached", MOST_REACHED, profile)
        shaped = [each.reaching(reached) for each in shaped] if reached != 1 else shaped
        made += shaped if level not in outer or nodes > 1 else []
    if root.document.problems or section is None:
        if section is None and devices > 1:
            root.missing("levels", f"a table `[levels.NAME]` with `devices = {devices}` that joins all devices")
        elif section is None and nodes > 1:
            root.problem("levels", f"no level joins nodes, and there are {nodes}", NETWORK_HELP)
        return (), network
    node = [[block for block in level.blocks if block.stop <= devices] for level in levels]
    for first, block, second, other in clashes(node):
        names = f"`{levels[first].name}` joins {_span(block)}, `{levels[second].name}` joins {_span(other)}"
        section.problem(levels[second].name, f"blocks must differ and lie one inside another: {names}")
    if devices > 1 and not any(len(block) == devices for blocks in node for block in blocks):
        section.problem("", f"no level joins all {devices} devices", f"add one with `devices = {devices}`")
    if nodes > 1 and not outer:
        section.problem("", f"no level joins nodes, and there are {nodes}", NETWORK_HELP)
    # A message uses one protocol at all levels: where a level has no figures of its own for it, the usual ones hold.
    for use in ("low_latency", "forwarded", "hybrid"):
        if any(use in level.links for level in made):
            usual = [(level, {use: level.links["collective"], **level.links}) for level in made]
            made = [replace(level, links=cast("Mapping[Use, Link]", links)) for level, links in usual]
    return tuple(made), network


def _unit(level: Level, others: Sequence[Level]) -> int:
    """The devices of the blocks that a level joins, those of the next level inside; 1 where they differ or are none."""
    size = level.blocks.period
    inside = [other.blocks for other in others if other.blocks.period < size]
    return max((blocks.period for blocks in inside if len(blocks.pattern) == 1), default=1)


def _level(name: str, section: DocumentTable, profile: _Profile, blocks: LevelBlocks) -> Level:
    links: dict[Use, Link] = {}
    uses: tuple[tuple[Use, bool], ...] = (
        ("send", True), ("collective", True), ("low_latency", False), ("switch", False),
        ("forwarded", False), ("hybrid", False),
    )  # fmt: skip
    for use, required in uses:
        table = section.section(use)
        if table is not None:
            links[use] = _link(table, profile)
        elif required and use not in section:
            section.missing(use, "a table with `startup`, `latency` and `bandwidth`")
    measured, corrected = times(section, profile), corrections(section, profile)
    for part in (*SHAPES, "reached"):
        section.get(part)
    section.close()
    return Level(name, blocks, links, measured, corrections=corrected)


def _link(section: DocumentTable, profile: _Profile) -> Link:
    startup = profile.figure(section, "startup", DURATION, zero=True)
    latency = profile.figure(section, "latency", DURATION, zero=True)
    bandwidth = profile.figure(section, "bandwidth", BANDWIDTH)
    uplink = profile.optional(section, "uplink", BANDWIDTH)
    share = uncertainty(section)
    section.close()
    return Link(startup, latency, bandwidth, uplink, share)


def _blocks(section: DocumentTable, devices: int, nodes: int) -> LevelBlocks:
    if "blocks" not in section:
        value = section.get("devices")
        if isinstance(value, str):
            section.problem("devices", f'expected a whole number, or `"{BETWEEN_NODES}"`, found `{value}`')
            return LevelBlocks.equal(1, devices)
        size = section.count("devices")
        size = min(size, devices)
        if "devices" in section and (size == 1 < devices or (size and devices % size)):
            message = f"expected a number from 2 that divides the {devices} devices, found `{size}`"
            section.problem("devices", message, 'state blocks of unequal size as in `blocks = ["0-7", "8-11"]`')
        return LevelBlocks.equal(size, devices * nodes)
    if section.get("devices") is not None:
        section.problem("devices", "`devices` and `blocks` exclude each other", "remove one of them")
    value = section.get("blocks")
    blocks: list[range] = []
    for item in cast("list[object]", value) if isinstance(value, list) else [value]:
        match = re.fullmatch(r"\s*(\d{1,9})\s*-\s*(\d{1,9})\s*", item) if isinstance(item, str) else None
        block = range(int(match[1]), int(match[2]) + 1) if match else range(0)
        if len(block) < 2 or (devices and block.stop > devices):
            section.problem("blocks", f'expected texts such as `"0-7"` within 0-{max(devices - 1, 1)}, found `{item}`')
        else:
            blocks.append(block)
    return LevelBlocks(tuple(sorted(blocks, key=lambda block: block.start)), max(devices, 1), devices * nodes)


def _span(block: range) -> str:
    return f"{block.start}-{block.stop - 1}"


def _split(text: str) -> tuple[str, str]:
    """Number and unit, for a table of figures."""
    match = re.match(r"\s*([\d.,_]+(?:[eE][+-]?\d+)?)\s*(\S*)\s*$", text)
    return (match[1], match[2]) if match else (text, "")
