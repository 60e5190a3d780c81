"""Fits the figures of kernels that forward tokens between nodes and inside (DeepEP's normal ones) to a table of them.

    python examples/profiles/deepep.py TABLE.csv --like dgx-h100 --where system=h100_sxm mode=normal dispatch_sms=20

Columns: `nodes` (of as many devices as the profile's), `tokens` of a device, `hidden`, `topk`, `experts`, and the
microseconds `dispatch_us` and `combine_us`, or as aiconfigurator writes them, in a column `other`, those that the
messages took and those of notifying before. Tokens go to experts in at most `--groups` nodes, as DeepEP's benchmarks
choose them (4). Dispatched are 8-bit numbers with a scale for each 128, combined are 16-bit ones.

Prints the tables `forwarded` for a profile, and the errors, median and 90th percentile, on a fifth of the rows, by a
hash, that the fit has not seen; rows of more than `--most` nodes are not fitted, their errors are printed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, cast

import numpy as np
from collectives import HELD_OUT, STEPS
from fitting.tables import add_conditions, loaded, read_rows

from distir.cost import Hardware, Link
from distir.ops.resources import Communication, Routed, Work

BYTES = {"dispatch": 1 + 4 / 128, "combine": 2}
"""Of an element: what is sent there, and back."""

LARGE = 1024
"""So many tokens are bound by bandwidth."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A row: tokens sent to their experts, or their results back."""

    what: str
    nodes: int
    tokens: int
    work: Work
    seconds: float
    held_out: bool


def exchanges(rows: Sequence[Mapping[str, str]], groups: int) -> list[Exchange]:
    """The rows read, two exchanges each, but for those of one expert for a token, which is not forwarded.

    Raises SystemExit where a column is missing or no number.
    """
    found: list[Exchange] = []
    for number, row in enumerate(rows, 1):
        try:
            nodes, tokens, hidden, topk = (int(row[name]) for name in ("nodes", "tokens", "hidden", "topk"))
            routed, hashed = (
                Routed(topk, nodes, min(nodes, groups)),
                f"{nodes} {tokens} {hidden} {topk} {row['experts']}",
            )
            for what, size in BYTES.items() if topk > 1 else ():
                nbytes = round(tokens * topk * hidden * size)
                work = Work(communication=Communication("alltoall", nbytes, routed=routed))
                digest = hashlib.sha256(f"{what} {hashed}".encode()).digest()
                held_out = digest[0] % HELD_OUT == 0
                found.append(Exchange(what, nodes, tokens, work, _seconds(row, what), held_out))
        except (KeyError, TypeError, ValueError, SyntaxError) as error:
            raise SystemExit(f"row {number} is no exchange of tokens: {error}") from None
    return found


def _seconds(row: Mapping[str, str], what: str) -> float:
    other = cast("dict[str, float]", ast.literal_eval(row.get("other") or "{}"))
    parts = [row.get(f"{what}_us") or 0, other.get(f"{what}_transmit_us", 0), other.get(f"{what}_notify_us", 0)]
    seconds = sum(map(float, parts)) * 1e-6
    if not 0 < seconds < math.inf:
        raise ValueError(f"no time of `{what}`")
    return seconds


@dataclass(frozen=True, slots=True)
class Figures:
    """What is fitted: seconds to begin, of a step between nodes, and bytes/s of a device between nodes and inside."""

    startup: float
    latency: float
    between: float
    inside: float

    def of(self, machine: Hardware) -> Hardware:
        """A machine whose kernels forward tokens at these figures."""
        inner, *outer = machine.levels
        links = [Link(self.startup, 0.0, self.inside), *(Link(self.startup, self.latency, self.between) for _ in outer)]
        levels = (
            replace(level, links={**level.links, "forwarded": link})
            for level, link in zip((inner, *outer), links, strict=True)
        )
        return replace(machine, levels=tuple(levels))


START = Figures(40e-6, 30e-6, 45e9, 250e9)
Machines = Callable[[int], Hardware]


def estimates(rows: Sequence[Exchange], machine: Machines, figures: Figures | None) -> list[float]:
    """Seconds of each row; without figures, those of the profile."""
    known = {nodes: machine(nodes) for nodes in {row.nodes for row in rows}}
    known = {nodes: found if figures is None else figures.of(found) for nodes, found in known.items()}
    return [known[row.nodes].cost(row.work, tuple(range(known[row.nodes].devices))).seconds for row in rows]


def fit(rows: Sequence[Exchange], machine: Machines) -> Figures:
    """Each figure in turn a little up and down, by ever smaller factors, while the distance in logarithms falls."""

    def loss(figures: Figures) -> float:
        found = zip(rows, estimates(rows, machine, figures), strict=True)
        return fmean(abs(math.log(estimate / row.seconds)) for row, estimate in found)

    best, least = START, loss(START)
    for step in STEPS:
        better = True
        while better:
            better = False
            for name in ("startup", "latency", "between", "inside"):
                for factor in (step, 1 / step):
                    tried = replace(best, **cast("dict[str, Any]", {name: getattr(best, name) * factor}))
                    found = loss(tried)
                    if found < least - 1e-6:
                        best, least, better = tried, found, True
    return best


def errors(rows: Sequence[Exchange], machine: Machines, figures: Figures | None) -> tuple[float, float]:
    """The median and the ninth decile of the relative errors."""
    found = zip(rows, estimates(rows, machine, figures), strict=True)
    off = [abs(estimate / row.seconds - 1) for row, estimate in found]
    return float(np.median(off)), float(np.quantile(off, 0.9))


def main(words: Sequence[str] | None = None) -> None:
    """Read, fit, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--like", required=True, metavar="PROFILE")
    parser.add_argument("--groups", type=int, default=4, help="a token's experts are in at most so many nodes")
    parser.add_argument("--most", type=int, default=4096, help="fit rows of no more nodes")
    parser.add_argument("--source", default="table", help="the key in `[sources]` that the figures cite")
    add_conditions(parser, "--where", "only these rows")
    given = parser.parse_args(words)
    rows = exchanges(read_rows(given.table, dict(given.where)), given.groups)
    machines = {nodes: loaded(given.like, nodes) for nodes in {row.nodes for row in rows}}
    fitted = [row for row in rows if not row.held_out and row.nodes <= given.most]
    unseen = [row for row in rows if row.held_out]
    if not fitted or not unseen:
        raise SystemExit(f"{len(rows)} rows of the table are too few")
    found = fit(fitted, machines.__getitem__)
    own = [row for row in unseen if row.nodes <= given.most]
    median, decile = errors(own, machines.__getitem__, found)
    note = f"of rows that the fit has not seen, half are off by less than {median:.1%}, nine of ten by {decile:.1%}"
    cited = f'source = "{given.source}"\nbasis = "derived"\nnote = "{note}"\n'
    for level, latency, bandwidth in zip(
        machines[max(machines)].levels, (0.0, found.latency), (found.inside, found.between), strict=False
    ):
        print(f'[levels.{level.name}.forwarded]\nstartup = "{found.startup * 1e6:.3g}us"')
        print(f'latency = "{latency * 1e6:.3g}us"\nbandwidth = "{bandwidth / 1e9:.3g}GB/s"\n{cited}')
    for nodes in sorted(machines):
        for what in BYTES:
            for name, least, most in (("few", 0, LARGE), ("many", LARGE, math.inf)):
                some = [row for row in unseen if (row.nodes, row.what) == (nodes, what) and least <= row.tokens < most]
                if some:
                    median, decile = errors(some, machines.__getitem__, found)
                    known, tenth = errors(some, machines.__getitem__, None)
                    print(f"# {nodes} nodes, {what:8} of {name:4} tokens: {median:6.1%} {decile:6.1%}", end="")
                    print(f" of {len(some)}; before: {known:6.1%} {tenth:6.1%}")


if __name__ == "__main__":
    main()
