"""The binding resource of rows, and what would change the winner: contenders are simulated on other machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distir.cost import Hardware
from distir.cost.topology import Level, Times
from distir.diagnostics import ProgramError
from distir.ops import Reject
from distir.search.distributed import carried_out, forget
from distir.search.evaluate import evaluate
from distir.search.rows import Binding, Row
from distir.search.subject import Subject
from distir.search.work import Workers, carry_out
from distir.simulate.simulation import BindError
from distir.transform.steps import StepError
from distir.transform.strategy import AXES, Strategy

CONTENDERS = 4
"""How many plans of different degrees are simulated again on each other machine."""

NEAR = 1.1
"""How much longer than the best a plan may take to be probably one of these."""

CARDS_GBPS = (100, 200, 400, 800, 1600)
"""Speeds of network cards that are sold, in Gbit/s."""

CLEARLY = 0.01
"""By how much another plan must be faster to count as a change."""


def binding(subject: Subject, plan: Strategy, batch_size: int | None) -> Binding | None:
    """The binding resource of a plan; None if it cannot be simulated, or has too many ops to follow one by one."""
    try:
        simulation = carried_out(subject, plan, batch_size).simulation(batch_size)
        bubble, links, host = simulation.bubble, simulation.exposed_communication, simulation.host_bound or 0.0
    except (ProgramError, BindError, Reject, StepError):
        return None
    memory = max(use.peak_memory_bytes / max(use.room_bytes, 1) for use in simulation.memory_uses.values())
    return Binding(1 - bubble - links, links, bubble - host, host, memory)


def evaluated(best: float, subject: Subject, plan: Strategy, sizes: Sequence[int | None]) -> Iterator[Row]:
    """The rows of a plan, with what else is asked of their programs, which costs little while these are there.

    Those that fit say what binds them, and contenders, which take little more than `best` seconds, what they would take
    on other machines.
    """
    for row in evaluate(subject, plan, sizes, extrapolates=False):
        if row.fits and row.latency_s is not None:
            found = replace(row, binding=binding(subject, plan, row.batch_size))
            contends = row.latency_s <= NEAR * best
            yield replace(found, elsewhere=elsewhere(subject, plan, row.batch_size)) if contends else found
        else:
            yield row
    forget()


def elsewhere(subject: Subject, plan: Strategy, batch_size: int | None) -> dict[str, float]:
    """The seconds of a plan on other machines, each by what sets it apart; its program is made once."""
    found: dict[str, float] = {}
    try:
        made = carried_out(subject, plan, batch_size)
        for what, machine in other_machines(subject.hardware):
            found[what] = made.elsewhere(machine, batch_size).latency_s
    except (ProgramError, BindError, Reject, StepError):
        pass
    return found


def bindings(subject: Subject, rows: Sequence[Row], workers: Workers) -> dict[Key, Binding | None]:
    """What binds rows, by `Row.key`."""
    others = [(row.plan, (row.batch_size,)) for row in rows if row.binding is None]
    found = {row.key: row.binding for row in rows if row.binding is not None}
    return found | dict(carry_out(subject, others, workers, _bindings))


Key = tuple[int | None, Strategy]


def _bindings(subject: Subject, plan: Strategy, sizes: Sequence[int | None]) -> Iterator[tuple[Key, Binding | None]]:
    """In a worker."""
    for size in sizes:
        yield (size, plan), binding(subject, plan, size)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another plan that would be the fastest if a figure of the machine were another.

    `best`: the winner now; `gain`: how much less time than it the other plan would take there, as a share.
    """

    what: str
    best: Strategy
    plan: Strategy
    gain: float

    def __str__(self) -> str:
        """As `with 400 Gb/s cards: T 4, D 8 (8/4/1/8, 3% faster)`."""
        return f"{self.what}: {difference(self.best, self.plan)} ({self.plan}, {self.gain:.0%} faster)"


def difference(one: Strategy, other: Strategy) -> str:
    """How the other plan differs from this one: degrees, as `T 4, D 8`; if they are equal, options, as `zero 3`."""
    degrees = {"T": "tensor", "D": "data", "P": "pipeline", "CP": "context", "EP": "experts"}
    found = [name for name, field in degrees.items() if getattr(one, field) != getattr(other, field)]
    if found:
        return ", ".join(f"{name} {getattr(other, degrees[name])}" for name in found)
    changed = (axis for axis in AXES if getattr(one, axis.name) != getattr(other, axis.name))
    return ", ".join(f"{axis.column} {_shown(getattr(other, axis.name))}" for axis in changed)


def _shown(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value) or "none"


def changes(subject: Subject, rows: Sequence[Row], workers: Workers) -> Iterator[Alternative]:
    """Changes of the machine that would make another row the fastest: more memory, other cards, links or devices."""
    fitting = sorted((row for row in rows if row.fits and row.latency_s), key=lambda row: row.latency_s or 0.0)
    if not fitting:
        return
    best = fitting[0]
    assert best.latency_s is not None
    larger = [row for row in rows if not row.fits and row.latency_s and row.batch_size == best.batch_size]
    fastest = min(larger, key=lambda row: row.latency_s or 0.0, default=None)
    if fastest is not None and fastest.latency_s and fastest.latency_s < (1 - CLEARLY) * best.latency_s:
        needed = f"with {(fastest.peak_memory_bytes or 0) / 1e9:.0f}GB and more of memory"
        yield Alternative(needed, best.plan, fastest.plan, 1 - fastest.latency_s / best.latency_s)
    contenders: dict[object, Strategy] = {}
    for row in fitting:
        if row.batch_size == best.batch_size:
            plan = row.plan
            contenders.setdefault((plan.data, plan.tensor, plan.pipeline, plan.context), plan)
    chosen = list(contenders.values())[:CONTENDERS]
    if len(chosen) < 2:
        return
    known = {row.plan: row.elsewhere for row in fitting if row.batch_size == best.batch_size and row.elsewhere}
    units = [(plan, (best.batch_size,)) for plan in chosen if plan not in known]
    known |= dict(carry_out(subject, units, workers, _elsewhere))
    found: dict[str, dict[Strategy, float]] = {what: {} for what, _ in other_machines(subject.hardware)}
    for plan in chosen:
        for what, seconds in known[plan].items():
            found[what][plan] = seconds
    for what, times in found.items():
        first = min(times, key=times.__getitem__, default=best.plan)
        if best.plan in times and times[first] < (1 - CLEARLY) * times[best.plan]:
            yield Alternative(what, best.plan, first, 1 - times[first] / times[best.plan])


def _elsewhere(
    subject: Subject, plan: Strategy, sizes: Sequence[int | None]
) -> Iterator[tuple[Strategy, Mapping[str, float]]]:
    """In a worker."""
    for size in sizes:
        yield plan, elsewhere(subject, plan, size)


def other_machines(machine: Hardware) -> Iterator[tuple[str, Hardware]]:
    """Variants of this machine, each with a description of the change: other cards, faster links, faster devices.

    Messages within and beyond the leaves of a network leave by the same cards: these levels change together.
    """
    carded: dict[float, list[int]] = {}
    for at, level in enumerate(machine.levels):
        if level.cards is None:
            yield f"with twice the bandwidth of `{level.name}`", _with_levels(machine, [at], 2)
        else:
            carded.setdefault(level.cards.bandwidth, []).append(at)
    for bandwidth, levels in carded.items():
        now = bandwidth * 8e-9
        slower = [gbps for gbps in CARDS_GBPS if gbps < 0.9 * now]
        faster = [gbps for gbps in CARDS_GBPS if gbps > 1.1 * now]
        for gbps in (*slower[-1:], *faster[:1]):
            instead = "" if len(carded) == 1 else f" instead of those of {now:.0f}"
            yield f"with {gbps} Gb/s cards{instead}", _with_levels(machine, levels, gbps / now)
    kinds = machine.kinds.map(lambda kind: replace(kind, slowdown=kind.slowdown / 2))
    yield "with devices twice as fast", replace(machine, kinds=kinds, name=f"{machine.name} (devices x2)")


def _with_levels(machine: Hardware, places: Sequence[int], factor: float) -> Hardware:
    """The machine with the bandwidth of the links and cards of these levels multiplied by `factor`."""
    levels = list(machine.levels)
    for at in places:
        levels[at] = _with_bandwidth(levels[at], factor)
    names = ", ".join(machine.levels[at].name for at in places)
    return replace(machine, levels=tuple(levels), name=f"{machine.name} ({names} x{factor:g})")


def _with_bandwidth(level: Level, factor: float) -> Level:
    links = {
        use: replace(
            link,
            bandwidth=factor * link.bandwidth,
            uplink=None if link.uplink is None else factor * link.uplink,
        )
        for use, link in level.links.items()
    }
    times = {pattern: _carrying(own, factor) for pattern, own in level.times.items()}
    cards = None if level.cards is None else replace(level.cards, bandwidth=factor * level.cards.bandwidth)
    return replace(level, links=links, times=times, cards=cards)


def _carrying(times: Times, factor: float) -> Times:
    """The same times for `factor` times as many bytes."""
    scaled = {n: tuple((factor * nbytes, s) for nbytes, s in points) for n, points in times.by_devices.items()}
    return replace(times, by_devices=scaled)
