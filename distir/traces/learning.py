"""Fits figures of a machine to measured steps: corrections of the hardware profile that the simulation used.

With the fits of `distir calibrate`. From ops aligned one to one: seconds by op and element type. From communication,
less its waiting: seconds by pattern and payload. From the launches of a GPU: seconds to issue an op.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import get_args

from distir.cost import Hardware
from distir.cost.calibrate import Benchmark, Calibration, Fit, MeasuredFigures, Sample, as_extension, fit
from distir.cost.calibrate.fitting import MessageFit
from distir.ir import Function
from distir.ops.resources import Communication, Pattern, Work
from distir.traces.activity import steps_of
from distir.traces.alignment import Aligned, payload
from distir.traces.records import RankTrace

SOURCE = "trace"
UNSURE = 0.3
"""The least uncertainty stated of an op that was measured in one size."""

MOST_UNCERTAIN = 0.9
"""The greatest uncertainty stated."""

FEWEST_LAUNCHES = 20
"""The fewest launches whose intervals say how long issuing an op takes."""

SCALES = (4096, 64)
"""A profile extends to sizes so many times smaller than the smallest that was measured, and larger than the largest."""

APART = 2
"""The least ratio of two sizes from which a bandwidth is fitted; else the profile's is used."""

_NOTHING = Function("measured", (), ())


@dataclass(frozen=True, slots=True)
class Learned:
    """The figures of one kind of device, with how many measurements they are from.

    `kind`: the device's; `messages`: by level; `issue`: seconds, from so many launches.
    """

    kind: str
    ops: tuple[Fit, ...]
    messages: Mapping[str, tuple[MessageFit, ...]]
    issue: float | None
    issued: int
    counts: Mapping[str, int]
    """By op, or pattern: how many times it was measured."""
    sizes: Mapping[str, int]
    """By pattern: in how many sizes."""

    @property
    def empty(self) -> bool:
        """Whether nothing was learned."""
        return not (self.ops or self.messages or self.issue is not None)

    def as_toml(self, title: str, extends: str, source: str) -> str:
        """A profile that extends `extends` and has these figures. `source`: what was measured, and when."""
        notes = {
            pattern: f"{self.counts[pattern]} messages of {sizes} size{'s' * (sizes != 1)}"
            + ("; of others the latency is that of the profile that this extends" if sizes == 1 else "")
            for pattern, sizes in self.sizes.items()
        }
        args = title, extends, self.kind, self.ops, self.messages, notes, self.issue, self.issued, SOURCE, source
        return as_extension(MeasuredFigures(*args))


def learn(
    found: Sequence[Aligned], traces: Sequence[RankTrace], hardware: Hardware, positions: Mapping[int, int], world: int
) -> Learned:
    """Figures of the machine. `positions`: of the program's devices on it; `world`: ranks of the run."""
    kind = hardware.kind(positions[found[0].device]).name
    ours = [aligned for aligned in found if hardware.kind(positions[aligned.device]).name == kind]
    computed, sent = _computed(ours), _sent(found, positions, world, all_ranks=len(traces) == world)
    calibration = fit([*_samples(computed), *_messages(sent)]) if computed or sent else Calibration((), (), 0.0)
    levels: dict[str, tuple[MessageFit, ...]] = {}
    for message in calibration.messages:
        level = hardware.meeting(message.group)
        capped = replace(_with_others(message, hardware), uncertainty=min(MOST_UNCERTAIN, message.uncertainty))
        if level is not None and all(_size(m) != _size(message) for m in levels.get(level.name, ())):
            levels[level.name] = (*levels.get(level.name, ()), capped)
    issue, issued = _issue(traces)
    counts = {key[0]: 0 for key in computed} | {key[0]: 0 for key in sent}
    for (name, *_), rounds in (*computed.items(), *sent.items()):
        counts[name] += sum(len(own) for own in rounds.values())
    launch = hardware.kind(positions[found[0].device]).launch
    ops = tuple(_capped(_of_one_size(f, launch)) for f in calibration.ops)
    sizes = {pattern: len({size for name, size, _ in sent if name == pattern}) for pattern, _, _ in sent}
    return Learned(kind, ops, levels, issue, issued, counts, sizes)


def _capped(found: Fit) -> Fit:
    return replace(found, uncertainty=min(MOST_UNCERTAIN, found.uncertainty))


def _of_one_size(found: Fit, launch: float) -> Fit:
    """The same; of one size, what is more than the profile's launch time, or half of it all, grows with the size."""
    if len(set(found.sizes)) > 1:
        return found
    flops, nbytes = next(iter(found.sizes))
    seconds = found.seconds(flops, nbytes)
    launch = min(launch, seconds / 2)
    rate, bandwidth = (((1.0, amount / (seconds - launch)),) if amount else () for amount in (flops, nbytes))
    product = flops > nbytes
    own = max(UNSURE, found.uncertainty)
    return replace(
        found, launch=launch, rate=rate if product else (), bandwidth=() if product else bandwidth, uncertainty=own
    )


def _with_others(message: MessageFit, hardware: Hardware) -> MessageFit:
    """The same with the times of smaller and larger messages: startup and bandwidth.

    Both are those of the line through what was measured, where sizes are far enough apart. Else the startup is the
    profile's, or the time that was measured if that is less, and what is more than that goes with the profile's time.
    """

    def stated(size: float) -> float:
        work = Work(communication=Communication(message.pattern, round(size)))
        return hardware.cost(work, message.group).seconds

    (least, soonest), (most, latest) = message.times[0], message.times[-1]
    line = most >= APART * least and latest > soonest and message.r2 > 0
    startup = min(message.startup if line else stated(1), soonest)

    def more(size: float) -> float:
        """The seconds of a message beyond the startup, as far as its size decides."""
        return size / message.bandwidth if line else stated(size) - stated(1)

    def of(size: float, known: float, seconds: float) -> float:
        return startup + (seconds - startup) * (more(size) / more(known) if more(known) > 0 else size / known)

    below = [(size, of(size, least, soonest)) for size in sorted({max(1.0, least / n) for n in SCALES} - {least})]
    above = [(most * n, of(most * n, most, latest)) for n in sorted(SCALES)]
    return replace(message, times=(*below, *message.times, *above))


_Rounds = Mapping[int, Sequence[float]]
"""Seconds, by step."""


def _computed(found: Sequence[Aligned]) -> dict[tuple[str, Work], dict[int, list[float]]]:
    """By op and its work: what it took in each step."""
    rounds: dict[tuple[str, Work], dict[int, list[float]]] = {}
    for number, aligned in enumerate(found):
        for match in aligned.matches:
            op = match.statement
            if op.pattern is None and not match.fused and not op.op.startswith("@") and match.piece.seconds > 0:
                rounds.setdefault((op.op, op.work), {}).setdefault(number, []).append(match.piece.seconds)
    return rounds


def _samples(rounds: Mapping[tuple[str, Work], _Rounds]) -> list[Sample]:
    return [
        Sample(Benchmark(op, work, (0,), 1, _NOTHING), tuple(statistics.median(own) for own in by_step.values()))
        for (op, work), by_step in rounds.items()
    ]


_Message = tuple[str, int, tuple[int, ...]]
"""The pattern, the payload in bytes, and the positions of the group."""


def _sent(
    found: Sequence[Aligned], positions: Mapping[int, int], world: int, all_ranks: bool
) -> dict[_Message, dict[int, list[float]]]:
    """What communication took in each step, without waiting; nothing where only some ranks were traced."""
    rounds: dict[_Message, dict[int, list[float]]] = {}
    if not all_ranks:
        return rounds
    for number, aligned in enumerate(found):
        pairs = [(match.piece, match.statement.devices) for match in aligned.matches if match.piece.collective]
        for bundle in aligned.bundles:
            groups = {op.devices for op in bundle.statements}
            pairs += [(piece, next(iter(groups))) for piece in bundle.pieces if piece.collective and len(groups) == 1]
        for piece, devices in pairs:
            nbytes = payload(piece, world)
            if nbytes and piece.seconds > 0:
                key = piece.kind, nbytes, tuple(sorted(positions[device] for device in devices))
                rounds.setdefault(key, {}).setdefault(number, []).append(piece.seconds)
    return rounds


def _messages(rounds: Mapping[_Message, _Rounds]) -> list[Sample]:
    found: list[Sample] = []
    patterns = {str(pattern): pattern for pattern in get_args(Pattern)}
    for (name, nbytes, group), by_step in rounds.items():
        work = Work(communication=Communication(patterns[name], nbytes))
        seconds = tuple(statistics.median(own) for own in by_step.values())
        found.append(Sample(Benchmark(name, work, group, 1, _NOTHING), seconds))
    return found


def _issue(traces: Sequence[RankTrace]) -> tuple[float | None, int]:
    """The median time from one launch to the next within a step: a host that waits does so now and then only."""
    gaps: list[float] = []
    for trace in traces:
        for index in steps_of(trace):
            step = trace.steps[index]
            own = [start for start in trace.launches if step.start <= start < step.end]
            gaps += [after - before for before, after in pairwise(own)]
    return (statistics.median(gaps), len(gaps)) if len(gaps) >= FEWEST_LAUNCHES else (None, 0)


def _size(message: MessageFit) -> tuple[str, int]:
    """What a profile has one table for: groups of one size, wherever they are."""
    return message.pattern, message.devices
