"""Reports how a pipeline is cut: each stage's share of the time, the FLOPs and the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from distir.analysis import analysed
from distir.ir import Apply, Call, Module, names
from distir.ir.roles import is_trained
from distir.transform.counting import percent, statement_flops, weight_bytes
from distir.transform.pipeline.reading import Phase, Reading, Work
from distir.transform.pipeline.stages import Cost, Stages

UNEVEN = 1.25
"""The ratio of the slowest stage's time to an even share above which it is reported."""

SHOWN = 12
"""The most stages that are listed one by one."""


@dataclass(frozen=True, slots=True)
class StageShare:
    """A stage's share of the program on one device.

    `time` is None if costs are unknown, `flops` if they cannot be counted. `heaviest` is the slowest layer or
    statement, its part of the backward pass included, with its share of the time.
    """

    device: int
    time: float | None
    flops: float | None
    weights: float
    heaviest: tuple[str, float] | None
    layers: int
    """How many layers it has, or other units of which stages are made."""


@dataclass(frozen=True, slots=True)
class StageShares:
    """The shares of all stages, in the order in which a microbatch goes through them."""

    stages: tuple[StageShare, ...]
    by_cost: bool
    """Whether stages were cut to minimise the slowest one's time."""

    @property
    def lines(self) -> list[str]:
        """The lines of the report."""
        counted = [
            (words, [getattr(stage, kind) for stage in self.stages])
            for kind, words in (("time", "time"), ("flops", "FLOPs"), ("weights", "weights"))
        ]
        said = [f"{_listed(shares)} of the {words}" for words, shares in counted if None not in shares]
        several = len(self.stages) > 1
        stages = f"{len(self.stages)} stages have" if several else "the only stage has"
        even = f", where {percent(1 / len(self.stages))} is an even part" if several else ""
        return [f"{stages} {_joined(said)}{even}", *self._uneven()]

    @property
    def slowest(self) -> int | None:
        """The number of the bottleneck, from 0; None if no cost is known."""
        times = [stage.time for stage in self.stages if stage.time is not None]
        return times.index(max(times)) if times and len(times) == len(self.stages) else None

    def _uneven(self) -> list[str]:
        even = 1 / len(self.stages)
        stage = None if self.slowest is None else self.stages[self.slowest]
        if stage is None or stage.time is None or self.slowest is None or stage.time < UNEVEN * even:
            return []
        line = f"stage {self.slowest + 1} is the bottleneck, with {percent(stage.time)} of the time"
        if stage.heaviest is not None and stage.heaviest[1] > even:
            what, share = stage.heaviest
            return [f"{line}: {what} alone takes {percent(share)}; use fewer stages, or split it with `tp`"]
        if self.by_cost:
            return [f"{line}: no cut between layers is more even"]
        return [f"{line}; `balance=cost` balances stages by time"]


def stage_shares(
    reading: Reading, stages: Stages, devices: Sequence[int], cost: Cost | None, by_cost: bool
) -> StageShares:
    """Each stage's share. `devices`: those of the stages, counted from 0."""
    flops = _flops_by_result(reading.module, reading.entry.name)
    numbers: list[list[int]] = [[] for _ in range(stages.count)]
    for (stage, _), own in stages.passes.items():
        numbers[stage] += own
    statements = reading.statements

    def counted(i: int) -> float:
        return max((flops.get(name, 0) for name in statements[i][0].results), default=0)

    times = None if cost is None else _parts(numbers, cost)
    counts = _parts(numbers, counted)
    weights = _weights(reading, [[statements[i][0] for i in of] for of in numbers])
    heaviest = [None if cost is None else _heaviest(reading, stages, of, cost) for of in numbers]
    return StageShares(
        tuple(
            StageShare(
                reading.device + devices[stage],
                None if times is None else times[stage],
                None if counts is None else counts[stage],
                weights[stage],
                heaviest[stage],
                stages.layers[stage],
            )
            for stage in range(stages.count)
        ),
        by_cost,
    )


def _flops_by_result(module: Module, entry: str) -> Mapping[str, int]:
    """By value of the entry function: the FLOPs of the statement that defines it."""
    body = module.functions[entry].body
    found: dict[str, int] = {}
    for statement, count in zip(body, statement_flops(analysed(module), entry), strict=True):
        if isinstance(statement, (Apply, Call)):
            found.update(dict.fromkeys(statement.results, count))
    return found


def _parts(numbers: Iterable[Sequence[int]], amount: Callable[[int], float]) -> list[float] | None:
    """Each stage's share of a total over statements; None if the total is 0."""
    own = [sum(map(amount, of)) for of in numbers]
    return [part / sum(own) for part in own] if sum(own) else None


def _heaviest(reading: Reading, stages: Stages, numbers: Sequence[int], cost: Cost) -> tuple[str, float] | None:
    """The slowest layer or statement of a stage, its part of the backward pass included, and its share of all time."""
    seconds: dict[int, float] = {}
    for i in numbers:
        of = stages.anchors.get(i, i)
        seconds[of] = seconds.get(of, 0.0) + cost(i)
    whole = sum(cost(i) for of in stages.passes.values() for i in of)
    most = max(seconds, key=lambda i: seconds[i], default=None)
    if most is None or not whole:
        return None
    statement = reading.statements[most][0]
    called = f"@{statement.function}" if isinstance(statement, Call) else statement.op
    result = next((f" for `%{name}`" for name in statement.results if name), "")
    return f"`{called}`{result}", seconds[most] / whole


def _weights(reading: Reading, statements: Sequence[Sequence[Work]]) -> list[float]:
    """By stage: the share of all weights' bytes that it uses. A weight of several stages counts for each."""
    marked = any(is_trained(p) for p in reading.entry.params)
    held = {
        p.name: weight_bytes(p.type)
        for p in reading.entry.params
        if p.name not in reading.batch and not reading.is_host(p.name) and (is_trained(p) or not marked)
    }
    sources: dict[str, set[str]] = {name: {name} for name in held}
    for statement, phase in reading.statements:
        if phase is Phase.BEFORE:
            used = set[str]().union(*(sources.get(n, set()) for n in names(statement.args)))
            sources.update(dict.fromkeys(statement.results, used))
    total = sum(held.values())
    own = [set[str]().union(*(sources.get(n, set()) for s in of for n in names(s.args))) for of in statements]
    return [sum(held[n] for n in of) / total if total else 0.0 for of in own]


def _listed(shares: Sequence[float]) -> str:
    """Formats shares: each one, or of many the least and the greatest."""
    if len(shares) > SHOWN:
        return f"{percent(min(shares)).removesuffix(' %')} to {percent(max(shares))}"
    each = [percent(share).removesuffix(" %") for share in shares]
    return f"{_joined(each)} %"


def _joined(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
