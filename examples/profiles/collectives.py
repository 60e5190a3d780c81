"""Fits the figures of a level's links to a table of measured collectives and sends.

    python examples/profiles/collectives.py TABLE.csv --like dgx-h100 [--level nvlink] [--correct] [--where …]

Columns: `pattern` (as profiles name them, or as NCCL does), `devices`, `bytes` (the full payload), `seconds`, and where
several nodes were used `per_node`. `--column bytes=message_size*2` takes another column, times or through a number.

Prints the tables for a profile, and the errors, median and 90th percentile, on a fifth of the rows, by a hash, that the
fit has not seen. `--like` is a profile, from whose figures the fit starts. See docs/how-to/hardware.md.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from statistics import fmean, median
from typing import Any

import numpy as np
from fitting.tables import HELD_OUT, add_conditions, loaded, read_rows

from distir.cost import ALGORITHMS, Hardware, Level, Link
from distir.cost.correction import Correction
from distir.ops.resources import Communication, Pattern, Work

NCCL = {
    "all_reduce": "allreduce", "all_gather": "allgather", "reduce_scatter": "reducescatter",
    "all_to_all": "alltoall", "send_recv": "send",
}  # fmt: skip
SIZES = ((0, "below 64 KiB"), (2**16, "to 8 MiB"), (2**23, "from 8 MiB"))


@dataclass(frozen=True, slots=True)
class Measured:
    """One row. `positions`: the first devices of each node, as on the profile's machine."""

    work: Work
    positions: tuple[int, ...]
    seconds: float
    held_out: bool

    @property
    def pattern(self) -> Pattern:
        """What was measured."""
        assert self.work.communication is not None
        return self.work.communication.pattern

    @property
    def nbytes(self) -> int:
        """The payload."""
        assert self.work.communication is not None
        return max(1, self.work.communication.nbytes)

    @property
    def size(self) -> str:
        """The range of sizes."""
        assert self.work.communication is not None
        return [name for least, name in SIZES if self.work.communication.nbytes >= least][-1]


def measured(
    rows: Sequence[Mapping[str, str]], columns: Mapping[str, str], machine: Hardware, node: int
) -> list[Measured]:
    """The rows read. Raises SystemExit where a column is missing or no number."""
    found: list[Measured] = []
    for number, row in enumerate(rows, 1):
        pattern = _text(row, columns.get("pattern", "pattern"), number)
        devices = int(_number(row, columns.get("devices", "devices"), number))
        per_node = devices
        if "per_node" in columns or row.get("per_node"):
            per_node = int(_number(row, columns.get("per_node", "per_node"), number))
        nbytes = int(_number(row, columns.get("bytes", "bytes"), number))
        seconds = _number(row, columns.get("seconds", "seconds"), number)
        pattern = NCCL.get(pattern, pattern)
        if pattern not in ALGORITHMS:
            raise SystemExit(f"row {number}: `{pattern}` is no pattern; there are {', '.join([*ALGORITHMS, *NCCL])}")
        digest = hashlib.sha256(f"{pattern} {devices} {per_node} {nbytes}".encode()).digest()
        places = tuple(k // per_node * node + k % per_node for k in range(devices))
        if max(places, default=0) >= machine.devices:
            raise SystemExit(f"row {number}: `{machine.name}` has no device {max(places)}")
        work = Work(communication=Communication(pattern, nbytes))  # type: ignore[arg-type]
        found.append(Measured(work, places, seconds, digest[0] % HELD_OUT == 0))
    return found


def _text(row: Mapping[str, str], name: str, number: int) -> str:
    if not row.get(name):
        raise SystemExit(f"row {number} has nothing in the column `{name}`")
    return row[name]


def _number(row: Mapping[str, str], said: str, number: int) -> float:
    match = re.fullmatch(r"(\w+)(?:([*/])([\d.e+-]+))?", said)
    if match is None:
        raise SystemExit(f"`--column` expected a column, `column*number` or `column/number`, found `{said}`")
    try:
        value = float(_text(row, match[1], number))
    except ValueError:
        raise SystemExit(f"row {number}: `{match[1]}` is `{row[match[1]]}`, expected a number above zero") from None
    if not 0 < value < math.inf:
        raise SystemExit(f"row {number}: `{match[1]}` is `{row[match[1]]}`, expected a number above zero")
    factor = float(match[3] or 1)
    return value / factor if match[2] == "/" else value * factor


# The fit: each figure in turn a little up and down, and one up with another down, by ever smaller factors.

Figures = dict[tuple[str, str], float]
STEPS = (2.0, 1.4, 1.15, 1.05, 1.015)
NAMES = ("startup", "latency", "bandwidth")


def fit(rows: Sequence[Measured], machine: Hardware, level: str) -> tuple[Hardware, Figures]:
    """The machine with the figures of a level fitted to the rows; and those that rows say something of."""
    own = next(found for found in machine.levels if found.name == level)
    figures: Figures = {(use, name): getattr(link, name) for use, link in own.links.items() for name in NAMES}

    def with_figures(figures: Figures) -> Hardware:
        return replace(machine, levels=tuple(_with(x, figures) if x.name == level else x for x in machine.levels))

    sends = [row for row in rows if row.pattern == "send"]
    others = [row for row in rows if row.pattern != "send"]
    fitted: list[tuple[str, str]] = []
    for part, uses in ((sends, ("send",)), (others, ("collective", "low_latency", "switch"))):
        if part:
            keys = [key for key in figures if key[0] in uses]
            fitted += keys
            figures = _descend(figures, keys, lambda tried, part=part: loss(part, with_figures(tried)))
    return with_figures(figures), {key: figures[key] for key in figures if key in fitted}


def _with(level: Level, figures: Figures) -> Level:
    links: dict[str, Link] = {}
    for use, link in level.links.items():
        links[use] = replace(link, **{name: figures[use, name] for name in NAMES})
    return replace(level, links=links)


def _descend(figures: Figures, keys: Sequence[tuple[str, str]], value: Callable[[Figures], float]) -> Figures:
    best = value(figures)
    for step in STEPS:
        better = True
        while better:
            better = False
            for move in [*((key,) for key in keys), *permutations(keys, 2)]:
                for factor in (step, 1 / step) if len(move) == 1 else (step,):
                    tried = {**figures, move[0]: figures[move[0]] * factor}
                    tried |= {key: figures[key] / factor for key in move[1:]}
                    found = value(tried)
                    if found < best - 1e-6:
                        figures, best, better = tried, found, True
    return figures


def loss(rows: Sequence[Measured], machine: Hardware) -> float:
    """The mean distance in the logarithm, so that all sizes count alike."""
    return fmean(abs(math.log(machine.cost(row.work, row.positions).seconds / row.seconds)) for row in rows)


# Corrections: what is left, by pattern, devices and bytes.

SMOOTHING = 0.05
"""The weight of the difference between neighbours."""


def corrected(rows: Sequence[Measured], machine: Hardware, level: str) -> tuple[Hardware, dict[Pattern, Correction]]:
    """The machine with corrections of a level by the rows, all of one node; and these, in whole percent.

    Sizes are at least a factor of 2 apart.
    """
    found: dict[Pattern, Correction] = {}
    for pattern in dict.fromkeys(row.pattern for row in rows):
        own = [row for row in rows if row.pattern == pattern]
        devices = tuple(sorted({len(row.positions) for row in own}))
        logs = [math.log(row.nbytes) for row in own]
        steps = max(1, math.floor((max(logs) - min(logs)) / math.log(2) + 0.01))
        nodes = np.linspace(min(logs), max(logs), steps + 1)
        shares = tuple(_along(nodes, [row for row in own if len(row.positions) == n], machine) for n in devices)
        found[pattern] = Correction((devices, tuple(round(math.exp(node)) for node in nodes)), shares)

    def with_them(own: Level) -> Level:
        return replace(own, corrections={**own.corrections, **found}) if own.name == level else own

    return replace(machine, levels=tuple(map(with_them, machine.levels))), found


def _along(nodes: Any, rows: Sequence[Measured], machine: Hardware) -> tuple[float, ...]:
    """By how much rows of one pattern and one number of devices take longer, at these logarithms of sizes."""
    place = np.array([math.log(row.nbytes) for row in rows])
    wanted = np.array([row.seconds / machine.cost(row.work, row.positions).seconds - 1 for row in rows])
    hats = np.stack([np.interp(place, nodes, unit) for unit in np.eye(len(nodes))], 1)
    apart = np.diff(np.eye(len(nodes)), axis=0)
    stiff = SMOOTHING * apart.T @ apart
    trust = np.ones(len(rows))
    for _ in range(10):  # distances above 3 % count linearly, so that outliers do not
        numbers = np.linalg.solve(hats.T @ (trust[:, None] * hats) + stiff, hats.T @ (trust * wanted))
        trust = 1 / np.sqrt(1 + ((hats @ numbers - wanted) / 0.03) ** 2)
    sizes = np.exp(nodes)
    devices = rows[0].positions
    links = np.array([machine.cost(_of_size(rows[0], round(size)), devices).seconds for size in sizes.tolist()])
    return tuple(round(100 * number) / 100 for number in rising(links, numbers).tolist())


def rising(links: Any, shares: Any) -> Any:
    """The shares nearest to these with which a larger message takes no less time than a smaller one."""
    times = links * (1 + shares)
    least, most = np.minimum.accumulate(times[::-1])[::-1], np.maximum.accumulate(times)
    return np.sqrt(least * most) / links - 1


def _of_size(row: Measured, nbytes: int) -> Work:
    return Work(communication=Communication(row.pattern, nbytes))


def without_corrections(machine: Hardware, level: str) -> Hardware:
    """The machine with nothing but its links at a level."""
    levels = (replace(own, corrections={}, times={}) if own.name == level else own for own in machine.levels)
    return replace(machine, levels=tuple(levels))


def quantiles(rows: Sequence[Measured], machine: Hardware) -> tuple[float, float]:
    """Median and 90th percentile of the relative error."""
    found = sorted(abs(machine.cost(row.work, row.positions).seconds / row.seconds - 1) for row in rows)
    return median(found), found[math.ceil(0.9 * len(found)) - 1]


def errors(rows: Sequence[Measured], machine: Hardware) -> str:
    """Both, for a column."""
    middle, decile = quantiles(rows, machine)
    return f"{middle:6.1%} {decile:6.1%} of {len(rows)}"


def errors_said(rows: Sequence[Measured], machine: Hardware) -> str:
    """Both, for a note."""
    middle, decile = quantiles(rows, machine)
    return f"{middle:.1%}, nine of ten by {decile:.1%}"


def correction_tables(level: str, found: Mapping[Pattern, Correction], cited: str) -> str:
    """The corrections as a profile states them."""
    lines: list[str] = []
    for pattern, correction in found.items():
        devices, sizes = correction.axes
        lists = ", ".join(f"[{', '.join(str(round(100 * share)) for share in row)}]" for row in correction.shares)
        lines += [f"[levels.{level}.correction.{pattern}]", f"devices = {list(devices)}", f"bytes = {list(sizes)}"]
        lines += [f"percent = [{lists}]", cited, ""]
    return "\n".join(lines)


def tables(level: str, figures: Figures, cited: str) -> str:
    """The figures as a profile states them."""
    lines: list[str] = []
    for use in dict.fromkeys(use for use, _ in figures):
        startup, latency, bandwidth = (figures[use, name] for name in NAMES)
        lines += [f"[levels.{level}.{use}]", f'startup = "{startup * 1e6:.3g}us"', f'latency = "{latency * 1e6:.3g}us"']
        lines += [f'bandwidth = "{bandwidth / 1e9:.3g}GB/s"', cited, ""]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    """Read, fit, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--like", required=True, metavar="PROFILE")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--level")
    parser.add_argument("--correct", action="store_true", help="also by how much rows differ from what links say")
    parser.add_argument("--source", default="table", help="the key in `[sources]` that the figures cite")
    add_conditions(parser, "--where", "only these rows")
    parser.add_argument("--column", nargs="*", default=[], metavar="NAME=COLUMN")
    given = parser.parse_args(words)
    machine = loaded(given.like, None if given.nodes == 1 else given.nodes)
    level = given.level or machine.levels[-1].name
    if level not in [found.name for found in machine.levels]:
        raise SystemExit(
            f"`{machine.name}` has no level `{level}`: {', '.join(found.name for found in machine.levels)}"
        )
    columns = dict(word.split("=", 1) for word in given.column)
    rows = measured(read_rows(given.table, dict(given.where)), columns, machine, len(machine.kinds) // given.nodes)
    fitted, held_out = ([row for row in rows if row.held_out == held] for held in (False, True))
    if not fitted or not held_out:
        raise SystemExit(f"{len(rows)} rows of the table are too few")
    found, figures = fit(fitted, without_corrections(machine, level), level)
    cited = f'source = "{given.source}"\nbasis = "derived"'
    if any(own.corrections for own in machine.levels if own.name == level) and not given.correct:
        print(f"[levels.{level}]\ncorrection = {{}}\n")
    print(tables(level, figures, f'{cited}\nnote = "with the other links, as near to all rows as they get"'))
    if given.correct:
        before, (found, corrections) = found, corrected(fitted, found, level)
        note = f"of rows that the fit has not seen, half are off by less than {errors_said(held_out, found)}"
        print(correction_tables(level, corrections, f'{cited}\nnote = "{note}"'))
        print(f"# {'without corrections':28} {errors(held_out, before)}")
    for pattern in dict.fromkeys(row.pattern for row in rows):
        for _, size in SIZES:
            own = [row for row in held_out if (row.pattern, row.size) == (pattern, size)]
            if own:
                print(f"# {pattern:14} {size:13} {errors(own, found)}; before: {errors(own, machine)}")
    print(f"# {'all':28} {errors(held_out, found)}; before: {errors(held_out, machine)}")


if __name__ == "__main__":
    main()
