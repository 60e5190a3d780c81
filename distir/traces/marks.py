"""Which spans of a trace are steps: those that the profiler marks, or else those of an annotation that repeats.

Steps at the ends of a profile may be cut. One that has less than half of what the others have is left out.
"""

from __future__ import annotations

import re
import statistics
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from distir.traces.collectives import communicates
from distir.traces.records import RecordedOp, RecordedStep, covered

STEP = re.compile(r"ProfilerStep#(\d+)")
PROFILER = "ProfilerStep"

MOST_OUTSIDE = 0.2
"""The largest share of the ops' time outside an annotation that is taken for the steps' mark."""

CUT = 0.5
"""A first or last step with less than this share of what the others have is cut."""

_INNER = re.compile(r"Optimizer\.|autograd::|FSDP::|DistributedDataParallel|enumerate\(|Torch-Compiled|## |nn\.Module")
_NAME = re.compile(r".+?(?=\d|(?<=\w)[\[(#=]|$)")
"""The beginning of a name, without what counts steps or says what they are of: `step` of `step[DECODE bs=8]`."""


def repeated(threads: Mapping[str, Sequence[RecordedOp]]) -> tuple[str, list[RecordedStep]]:
    """An annotation that most ops of its thread are in, again and again, and its spans; none: "" and no span."""
    found: tuple[str, list[RecordedStep], float] = ("", [], MOST_OUTSIDE)
    for outermost in threads.values():
        for name, spans in _spans(outermost).items():
            outside = _outside(outermost, spans)
            if len(spans) > 1 and outside < found[2] and all(a[1] <= b[0] for a, b in pairwise(spans)):
                steps = [RecordedStep(number, start, end) for number, (start, end) in enumerate(spans, 1)]
                found = name, steps, outside
    return found[0], found[1]


def _spans(ops: Sequence[RecordedOp]) -> dict[str, list[tuple[float, float]]]:
    """By the beginning of an annotation's name: when it is entered and left; of nested ones the outermost."""
    found: dict[str, list[tuple[float, float]]] = {}
    pending = list(reversed(ops))
    while pending:
        op = pending.pop()
        match = _NAME.match(op.name)
        if op.region and match and not (_INNER.match(op.name) or communicates(op.name)):
            found.setdefault(match[0].strip(" _"), []).append((op.start, op.end))
        if op.region:
            pending += reversed(op.inside)
    return {name: sorted(spans) for name, spans in found.items()}


def _outside(ops: Sequence[RecordedOp], spans: Sequence[tuple[float, float]]) -> float:
    """The share of the time of ops that is in none of the spans."""
    computing: list[tuple[float, float]] = []
    pending = list(ops)
    while pending:
        op = pending.pop()
        if op.region:
            pending += op.inside
        else:
            computing.append((op.start, op.end))
    total = covered(computing)
    return 1 - (total + covered(spans) - covered([*computing, *spans])) / total if total else 1.0


def whole_steps(
    steps: Iterable[RecordedStep], running: Mapping[str, Sequence[float]]
) -> tuple[list[RecordedStep], tuple[str, ...]]:
    """The steps in which something ran, without cut ones, and what is left out.

    `running`: by kind of event, when each began, in order.
    """
    found = sorted(steps, key=lambda step: step.start)
    counts = {kind: {step: _within(step, starts) for step in found} for kind, starts in running.items() if starts}
    empty = [step for step in found if any(not own[step] for own in counts.values())]
    said = [f"step {step.number}, in which nothing ran" for step in empty if step is not found[-1]]
    found = [step for step in found if step not in empty] or found
    for end in (-1, 0):
        if len(found) > 1 and (why := _cut(found[end], found, counts)):
            said.append(why)
            found.pop(end)
    return found, tuple(said)


def _within(step: RecordedStep, starts: Sequence[float]) -> int:
    return bisect_left(starts, step.end) - bisect_left(starts, step.start)


def _cut(
    step: RecordedStep, steps: Sequence[RecordedStep], counts: Mapping[str, Mapping[RecordedStep, int]]
) -> str | None:
    """Why a step is not whole, if it is not."""
    for kind, own in counts.items():
        usual = statistics.median(own[other] for other in steps if other is not step)
        if own[step] < CUT * usual:
            return f"step {step.number}, which has {own[step]} {kind} where others have {usual:g}"
    return None
