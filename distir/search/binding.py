"""What binds a row, and what would change the winner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from distir.cost import Hardware
from distir.cost.topology import Times
from distir.diagnostics import ProgramError
from distir.ops import Reject
from distir.search.distributed import carried_out
from distir.search.plan import Plan
from distir.search.rows import Row
from distir.search.subject import Subject
from distir.search.work import Workers, carry_out
from distir.simulate.simulation import BindError
from distir.transform.steps import StepError

CONTENDERS = 4
"""How many plans of different degrees are simulated again on a changed machine."""

CLEARLY = 0.01
"""By how much another plan must be faster to count as a change."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Of all devices' time from the start of a step to its end: shares from 0 to 1, of which the sum is 1.

    `links`: communication that nothing hides. `host`: devices idle as a host has yet to issue what runs next; `bubble`:
    they idle for another reason. `memory`: the share of a device's memory that is taken.
    """

    compute: float
    links: float
    bubble: float
    host: float
    memory: float

    def __str__(self) -> str:
        """As `compute 71 %, links 20 %, bubble 9 %`, the largest first; what is less than 1 % is left out."""
        shares = {"compute": self.compute, "links": self.links, "bubble": self.bubble, "host": self.host}
        ordered = sorted(shares.items(), key=lambda item: -item[1])
        said = [f"{name} {share:.0%}" for name, share in ordered if share >= 0.01]
        return ", ".join([*said, *([f"memory {self.memory:.0%}"] if self.memory >= 0.9 else [])])


def binding(subject: Subject, row: Row) -> Binding | None:
    """What binds a row; None where it cannot be simulated, or has more ops than are followed one by one."""
    try:
        simulation = carried_out(subject, row.plan).simulation(row.batch_size)
        bubble, links, host = simulation.bubble, simulation.exposed_communication, simulation.host_bound or 0.0
    except (ProgramError, BindError, Reject, StepError):
        return None
    memory = max(use.peak_memory_bytes / max(use.room_bytes, 1) for use in simulation.memory_uses.values())
    return Binding(1 - bubble - links, links, bubble - host, host, memory)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another plan that would be the fastest, by `gain` as a share of the winner's time, if a figure were another."""

    what: str
    plan: Plan
    gain: float

    def __str__(self) -> str:
        """As `with twice the bandwidth of `network`: 4/2/1/8, 3 % faster`."""
        return f"{self.what}: {self.plan}, {self.gain:.0%} faster"


def changes(subject: Subject, rows: Sequence[Row], workers: Workers) -> Iterator[Alternative]:
    """What would make another row than the fastest that fits the fastest: more memory, or faster links of a level."""
    fitting = sorted((row for row in rows if row.fits and row.latency_s), key=lambda row: row.latency_s or 0.0)
    if not fitting:
        return
    best = fitting[0]
    assert best.latency_s is not None
    larger = [row for row in rows if not row.fits and row.latency_s and row.batch_size == best.batch_size]
    fastest = min(larger, key=lambda row: row.latency_s or 0.0, default=None)
    if fastest is not None and fastest.latency_s and fastest.latency_s < (1 - CLEARLY) * best.latency_s:
        needed = f"with {(fastest.peak_memory_bytes or 0) / 1e9:.0f}GB and more of memory"
        yield Alternative(needed, fastest.plan, 1 - fastest.latency_s / best.latency_s)
    contenders: dict[object, Plan] = {}
    for row in fitting:
        if row.batch_size == best.batch_size:
            plan = row.plan
            contenders.setdefault((plan.data, plan.tensor, plan.pipeline, plan.context), plan)
    units = [(plan, (best.batch_size,)) for plan in list(contenders.values())[:CONTENDERS]]
    if len(units) < 2:
        return
    for level, machine in _faster(subject.hardware):
        found = {row.plan: row.latency_s for row in carry_out(replace(subject, hardware=machine), units, workers)}
        times = {plan: seconds for plan, seconds in found.items() if seconds}
        first = min(times, key=times.__getitem__, default=best.plan)
        if best.plan in times and times[first] < (1 - CLEARLY) * times[best.plan]:
            what = f"with twice the bandwidth of `{level}`"
            yield Alternative(what, first, 1 - times[first] / times[best.plan])


def _faster(machine: Hardware) -> Iterator[tuple[str, Hardware]]:
    """For each level of links: the machine where they have twice the bandwidth."""
    for at, level in enumerate(machine.levels):
        links = {
            use: replace(link, bandwidth=2 * link.bandwidth, uplink=None if link.uplink is None else 2 * link.uplink)
            for use, link in level.links.items()
        }
        times = {pattern: _carrying_twice(own) for pattern, own in level.times.items()}
        faster = replace(level, links=links, times=times)
        levels = (*machine.levels[:at], faster, *machine.levels[at + 1 :])
        yield level.name, replace(machine, levels=levels, name=f"{machine.name} ({level.name} x2)")


def _carrying_twice(times: Times) -> Times:
    """The same times for twice as many bytes."""
    doubled = {n: tuple((2 * nbytes, s) for nbytes, s in points) for n, points in times.by_devices.items()}
    return replace(times, by_devices=doubled)
