"""A calibration as a profile. Owns how figures are spelled; knows nothing of how they came about."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distir.cost.calibrate.fitting import Calibration, CardsFit, Fit, MessageFit, Points, nonnegative
from distir.ops.resources import Pattern

KIND, LEVEL, OUTER = "rank", "node", "network"
SOURCE = "calibration"
"""The key of the source that all figures cite."""


@dataclass(frozen=True, slots=True)
class MeasuredMachine:
    """The measured machine. `about`: the script's report of it; `date`: as in 2024-05-31; `local`: ranks of a node."""

    backend: str
    devices: int
    local: int
    date: str
    about: Mapping[str, Any]
    rounds: int

    @property
    def title(self) -> str:
        """The machine in a line, without its name."""
        about = self.about
        processor = about.get("device") or f"{about['cores']} cores of {about['processor']}"
        threads = f", {about['threads']} thread{'s' * (about['threads'] != 1)} each" if "device" not in about else ""
        ranks = f"{self.devices} rank{'s' * (self.devices != 1)}"
        return f"{ranks} with {self.backend} on {processor}{threads}"


def as_toml(calibration: Calibration, machine: MeasuredMachine) -> str:
    """The profile, with its date, machine and uncertainties."""
    about = machine.about
    lines = [
        f"# Written by `distir calibrate` on {machine.date}. Times may be off by the `uncertainty` stated beside them.",
        f"title = {_text(machine.title)}",
        "",
        "[sources]",
        f"calibration = {_text(_source(calibration, machine))}",
        "",
        "[[groups]]",
        f'kind = "{KIND}"',
        f"count = {machine.devices}",
        "",
        f"[kinds.{KIND}]",
        f"title = {_text(about.get('device') or about['processor'])}",
        f"memory = {_cited(_bytes(_memory(machine)), 'specified', 'an equal part of all memory')}",
        f"launch = {_cited(_seconds(_launch(calibration)), 'measured', 'the median of all ops')}",
        *_cache(calibration, machine),
        *_host(calibration),
        f"uncertainty = {_other_uncertainty(calibration)}",
        "",
        f"[kinds.{KIND}.memory_bandwidth]",
    ]
    bandwidth = _bandwidths(calibration)
    lines += [f'peak = "{_quantity(max(bandwidth), "B/s")}"', f'achieved = "{_quantity(bandwidth[-1], "B/s")}"']
    lines += [*_source_lines(), 'note = "Add; the largest as achieved, the best as peak"', ""]
    for dtype, points in calibration.flops.items():
        lines += [f"[kinds.{KIND}.flops.{dtype}]", f'peak = "{_quantity(max(r for _, r in points), "FLOP/s")}"']
        lines += [*_source_lines(), 'note = "matrix products; the best as peak"']
        lines += [f"[kinds.{KIND}.flops.{dtype}.achieved]", *_table(points, "FLOP", "FLOP/s"), ""]
    lines += [f"[kinds.{KIND}.flops]", *_not_measured(calibration), 'other = { like = "Float32" }', ""]
    for fit in calibration.ops:
        lines += _op(fit)
    if machine.devices > 1:
        lines += _levels(calibration, machine)
    return "\n".join(lines).rstrip("\n") + "\n"


@dataclass(frozen=True, slots=True)
class MeasuredFigures:
    """Measurements of a machine with an existing profile, by the names used there.

    `kind`: of the devices; `messages`: by level; `notes`: by pattern; `source`: where figures
    are from, under the key `key`.
    """

    title: str
    extends: str
    kind: str
    ops: tuple[Fit, ...]
    messages: Mapping[str, Sequence[MessageFit]]
    notes: Mapping[str, str]
    issue: float | None
    issued: int
    key: str
    source: str


def as_extension(found: MeasuredFigures) -> str:
    """A profile that extends another one and states these figures instead of its own."""
    lines = [f"title = {_text(found.title)}", f"extends = {_text(found.extends)}", ""]
    lines += ["[sources]", f"{found.key} = {_text(found.source)}", ""]
    if found.issue is not None:
        note = f"the median between {found.issued} launches"
        lines += [f"[kinds.{found.kind}]", f"issue = {_cited(_seconds(found.issue), 'measured', note, found.key)}", ""]
    for fit in found.ops:
        lines += _figures(f"kinds.{found.kind}.ops.{fit.op}.{fit.dtype}", fit, found.key)
    for level, fits in found.messages.items():
        patterns: dict[Pattern, None] = dict.fromkeys(m.pattern for m in fits)
        for pattern in patterns:
            own = [m for m in fits if m.pattern == pattern]
            lines += _times(level, pattern, own, found.notes[pattern], found.key)
    return "\n".join(lines).rstrip("\n") + "\n"


def _not_measured(calibration: Calibration) -> Iterable[str]:
    """The rates of Float32, which a profile needs, where only other types were measured: those of the first."""
    if calibration.flops and "Float32" not in calibration.flops:
        first = next(iter(calibration.flops))
        note = f"not measured: as {first}"
        yield f'Float32 = {{ like = "{first}", source = "calibration", basis = "estimated", note = "{note}" }}'


def _source(calibration: Calibration, machine: MeasuredMachine) -> str:
    about = machine.about
    quality = "; too noisy to be relied on" if calibration.too_noisy else ""
    return (
        f"measured on {machine.date} with torch {about['torch']}, {machine.backend}, {machine.rounds} rounds, "
        f"which differ by {100 * calibration.noise:.1f} % in the median{quality}"
    )


def _memory(machine: MeasuredMachine) -> float:
    about = machine.about
    return about.get("device_memory_bytes") or about.get("memory_bytes", 1 << 30) / machine.local


def _cache(calibration: Calibration, machine: MeasuredMachine) -> Iterable[str]:
    """The size of the caches that warm figures are of, where both are known."""
    nbytes = machine.about.get("cache_bytes")
    if nbytes and any(fit.warm for fit in calibration.ops):
        yield f"cache = {_cited(_bytes(nbytes), 'specified', 'of the second level')}"


def _host(calibration: Calibration) -> Iterable[str]:
    """The issue time of an op, and the slow-down of computation by collectives beside it, if measured."""
    if calibration.issue is not None:
        yield f"issue = {_cited(_seconds(calibration.issue), 'measured', 'the median of all ops, each the fastest')}"
    if calibration.interference is not None:
        yield f"interference = {_round(calibration.interference)}  # products beside an all-reduce, measured"
    if calibration.begin:
        note = "products beside an all-reduce of any length"
        yield f"begin = {_cited(_seconds(calibration.begin), 'measured', note)}"


def _launch(calibration: Calibration) -> float:
    return statistics.median(fit.launch for fit in calibration.ops)


def _other_uncertainty(calibration: Calibration) -> float:
    """Of ops that were not measured: how far ops that were are from the general figures, half of them."""
    launch, bandwidth = _launch(calibration), _bandwidths(calibration)[-1]
    errors = [
        abs((launch + size / bandwidth) / fit.seconds(0, size) - 1)
        for fit in calibration.ops
        if not fit.rate
        for size in (1e5, 1e6)
    ]
    return _round(min(0.9, statistics.median(errors))) if errors else 0.5


def _bandwidths(calibration: Calibration) -> list[float]:
    """Bytes/s of `Add` by size."""
    add = next((fit for fit in calibration.ops if fit.op == "Add"), None)
    return [rate for _, rate in add.bandwidth] if add is not None and add.bandwidth else [1e9]


def _op(fit: Fit) -> Iterable[str]:
    table = f"kinds.{KIND}.ops.{fit.op}.{fit.dtype}"
    yield from _figures(table, fit)
    if fit.warm is not None:
        yield from _figures(f"{table}.warm", fit.warm)


def _figures(table: str, fit: Fit, source: str = SOURCE) -> Iterable[str]:
    yield f"[{table}]"
    yield f'launch = "{_seconds(fit.launch)}"'
    for name, points, size, unit in (("rate", fit.rate, "FLOP", "FLOP/s"), ("bandwidth", fit.bandwidth, "B", "B/s")):
        if len(points) == 1:
            yield f'{name} = "{_quantity(points[0][1], unit)}"'
        elif points:
            yield f"{name} = {_inline(points, size, unit)}"
    yield f"uncertainty = {_round(fit.uncertainty)}"
    yield from _source_lines(source)
    yield f'note = "R² {fit.r2:.4f}, half of {fit.points} points within {100 * fit.error:.1f} %"'
    yield ""


# Links.


def _levels(calibration: Calibration, machine: MeasuredMachine) -> Iterable[str]:
    """A level for the ranks of one node, and one for all nodes, whose groups have a rank of each."""
    inner = [m for m in calibration.messages if max(m.group) <= machine.local]
    outer = [m for m in calibration.messages if max(m.group) > machine.local]
    if inner:
        yield from _level(LEVEL, machine.local, inner)
    if outer:
        yield from _level(OUTER, machine.devices, outer, calibration.cards)


def _level(name: str, devices: int, fits: Sequence[MessageFit], cards: CardsFit | None = None) -> Iterable[str]:
    yield f"[levels.{name}]"
    yield f"devices = {devices}"
    yield ""
    sends = [m for m in fits if m.pattern == "send"] or list(fits)
    yield from _link(name, "send", sends[0].startup, 0.0, sends[0].bandwidth, sends[0].uncertainty, "a line")
    summed = [m for m in fits if m.pattern == "allreduce"]
    startup, latency = nonnegative(
        [[1.0 for _ in summed], [2.0 * (m.devices - 1) for m in summed]], [m.startup for m in summed]
    )
    # A ring passes 2(n-1)/n of the payload.
    bandwidth = statistics.fmean(m.bandwidth * 2 * (m.devices - 1) / m.devices for m in summed)
    share = max(m.error + m.noise for m in summed)
    if cards is not None:
        share = math.hypot(share, cards.apart)
    yield from _link(name, "collective", startup, latency, bandwidth, share, "a line through all-reduce")
    if cards is not None:
        yield f"[levels.{name}.cards]"
        yield f"devices = [{', '.join(_text(_listed(cards.of, card)) for card in range(max(cards.of) + 1))}]"
        yield f'bandwidth = "{_quantity(max(bandwidth, sends[0].bandwidth), "B/s")}"'
        yield from _source_lines()
        yield f'note = "groups of two ranks at once take what this says within {100 * cards.apart:.0f} %"'
        yield ""
    by_pattern: dict[Pattern, list[MessageFit]] = {}
    for m in fits:
        by_pattern.setdefault(m.pattern, []).append(m)
    for pattern, own in by_pattern.items():
        yield from _times(name, pattern, own, f"a line through them has R² {min(m.r2 for m in own):.4f}")


def _times(level: str, pattern: Pattern, own: Sequence[MessageFit], note: str, source: str = SOURCE) -> Iterable[str]:
    """Seconds of a pattern by payload, for each number of devices."""
    yield f"[levels.{level}.times.{pattern}]"
    yield f"uncertainty = {_round(max(m.uncertainty for m in own))}"
    yield from _source_lines(source)
    yield f'note = "{note}"'
    for m in own:
        yield f'"{m.devices}" = {_inline(m.times, "B", "s")}'
    yield ""


def _listed(cards: Sequence[int], card: int) -> str:
    """The ranks on a card."""
    ranks = [rank for rank, of in enumerate(cards) if of == card]
    if len(ranks) == ranks[-1] - ranks[0] + 1 > 1:
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks))


def _link(
    level: str, use: str, startup: float, latency: float, bandwidth: float, share: float, note: str
) -> Iterable[str]:
    yield f"[levels.{level}.{use}]"
    yield f'startup = "{_seconds(startup)}"'
    yield f'latency = "{_seconds(latency)}"'
    yield f'bandwidth = "{_quantity(bandwidth, "B/s")}"'
    yield f"uncertainty = {_round(share)}"
    yield from _source_lines()
    yield f'note = "{note}"'
    yield ""


# Spelling.


def _source_lines(source: str = SOURCE) -> tuple[str, str]:
    return f'source = "{source}"', 'basis = "measured"'


def _cited(value: str, basis: str, note: str, source: str = SOURCE) -> str:
    return f'{{ value = "{value}", source = "{source}", basis = "{basis}", note = "{note}" }}'


def _table(points: Points, size: str, unit: str) -> list[str]:
    return [f'"{_quantity(at, size)}" = "{_quantity(rate, unit)}"' for at, rate in points]


def _inline(points: Points, size: str, unit: str) -> str:
    shown = [(_quantity(at, size), _seconds(v) if unit == "s" else _quantity(v, unit)) for at, v in points]
    return "{ " + ", ".join(f'"{at}" = "{value}"' for at, value in shown) + " }"


def _quantity(value: float, unit: str) -> str:
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.6g}{prefix}{unit}"
    return f"{value:.6g}{unit}"


def _bytes(value: float) -> str:
    return _quantity(value, "B")


def _seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.5g}{unit}"
    return f"{value * 1e9:.5g}ns"


def _round(share: float) -> float:
    return float(f"{share:.2g}")


def _text(text: str) -> str:
    """A basic string of TOML."""
    special = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(special.get(c, c if c.isprintable() else " ") for c in text) + '"'
