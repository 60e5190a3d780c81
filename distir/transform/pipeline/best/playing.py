"""Orders by simple rules: each device does next what is best by the rule, as soon as it can."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from random import Random
from typing import Literal

from distir.transform.pipeline.best.problem import OrderProblem
from distir.transform.pipeline.passes import Order, Pass, Task, needs

FORWARD, BACKWARD, WEIGHT = Pass

STEPS, PASSES = 400, 100_000
"""How many rules are tried one after the other at most, and how many passes they order together."""


Reserved = Literal["", "own", "before"]


@dataclass(frozen=True, slots=True)
class Greedy:
    """How a device chooses. Of passes of one kind that can run, that of the latest of its stages goes first."""

    ahead: tuple[int, ...]
    """By device: how many microbatches it may hold, as long as it has room."""
    patience: tuple[float, ...]
    """By device: the part of what a weight gradient takes that it would have to wait, for it to make one instead."""
    back_first: tuple[bool, ...]
    """By device: whether backward passes go before forward passes where both can run."""
    delay: tuple[int, ...]
    """By device: how much earlier than a backward pass a forward pass must be able to start to go before it."""
    reserved: Reserved = ""
    """For which microbatches a forward pass leaves room in the stages of its device that are yet to come.

    For `own`, a microbatch begins on a device only where there is room for it in all stages of the device. For those
    `before` it, the oldest one can always continue, and so, after it, the next one (the banker's algorithm, Dijkstra,
    EWD108). In both, devices never wait for each other in a circle.
    """

    @classmethod
    def alike(cls, devices: int, ahead: int, slope: int, patience: float, *, back_first: bool) -> Greedy:
        """The same for all devices, but that one before another may hold `slope` more microbatches than it."""
        limits = tuple(ahead + slope * (devices - 1 - device) for device in range(devices))
        return cls(limits, (patience,) * devices, (back_first,) * devices, (0,) * devices)

    def neighbour(self, draw: Random, most: int, longest: int) -> Greedy:
        """Another rule, which differs on one to three devices. `most`: microbatches on one; `longest`: a pass."""
        ahead, patience, back_first, delay = [*self.ahead], [*self.patience], [*self.back_first], [*self.delay]
        for _ in range(draw.choice((1, 1, 2, 3))):
            device, part = draw.randrange(len(ahead)), draw.random()
            if part < 0.35:
                ahead[device] = max(1, min(most, ahead[device] + draw.choice((-1, 1))))
            elif part < 0.65:
                patience[device] = draw.choice((0.0, 0.1, 0.25, 0.5, 0.75, 1.0))
            elif part < 0.75:
                back_first[device] = not back_first[device]
            else:
                delay[device] = draw.choice((-1, 1)) * draw.choice((0, longest // 16, longest // 6, longest // 2))
        return Greedy(tuple(ahead), tuple(patience), tuple(back_first), tuple(delay), self.reserved)


def rules(problem: OrderProblem) -> Iterator[Greedy]:
    """The rules that are tried: those of 200 that were the best ones for drawn pipelines, the most frequent first."""
    room = min(problem.room, problem.count * max(map(len, problem.own)))
    less = [max(1, room - slope * (problem.devices - 1)) for slope in range(3)]
    rule = partial(Greedy.alike, problem.devices)
    chosen = [
        rule(room, 0, 0.0, back_first=False),
        rule(less[1], 1, 0.0, back_first=True),
        rule(2, 1, 0.0, back_first=False),
        rule(room, 2, 0.5, back_first=False),
        rule(less[1], 1, 0.5, back_first=False),
        rule(3, 2, 0.0, back_first=False),
        rule(room, 2, 0.0, back_first=True),
        rule(less[2], 2, 0.0, back_first=False),
    ]
    yield from chosen
    if problem.stages > problem.devices:
        yield from (replace(rule, reserved=kind) for rule in chosen[:4] for kind in ("own", "before"))


def improved(problem: OrderProblem, best: tuple[int, Order], close: float) -> tuple[int, Order]:
    """The shortest order, with its span, of rules that become better step by step; no longer than `best`.

    Steps are drawn with a fixed seed. There are fewer for more passes, and none once an order is no longer than
    `close`.
    """
    draw, passes = Random(0), 3 * problem.stages * problem.count
    steps, longest = min(STEPS, PASSES // passes), max(map(problem.length, problem.tasks()))
    if not steps:
        return best
    found = [(problem.span(order), rule) for rule in rules(problem) if (order := _fitting(problem, rule)) is not None]
    if not found:
        return best
    here, rule = min(found, key=itemgetter(0))
    for _ in range(steps):
        if best[0] <= close:
            break
        other = rule.neighbour(draw, problem.room, longest)
        order = _fitting(problem, other)
        if order is not None and (span := problem.span(order)) <= here:
            here, rule = span, other
            best = min(best, (span, order), key=itemgetter(0))
    return best


def _fitting(problem: OrderProblem, rule: Greedy) -> Order | None:
    order = played(problem, rule)
    return order if order is not None and problem.fits(order) else None


def played(problem: OrderProblem, rule: Greedy) -> Order | None:
    """The order that a rule gives; None where devices wait for each other."""
    return _Choosing(problem, rule).order()


@dataclass(slots=True)
class _Choosing:
    problem: OrderProblem
    rule: Greedy
    orders: list[list[Task]] = field(init=False)
    clocks: list[int] = field(init=False)
    held: list[int] = field(init=False)
    begun: dict[tuple[int, Pass], int] = field(init=False)
    ends: dict[Task, int] = field(init=False)

    def __post_init__(self) -> None:
        devices = self.problem.devices
        self.orders, self.clocks, self.held = [[] for _ in range(devices)], [0] * devices, [0] * devices
        self.begun = {(stage, kind): 0 for stage in range(self.problem.stages) for kind in Pass}
        self.ends = {}

    def order(self) -> Order | None:
        homes = self.problem.homes
        choices = [self._choice(device) for device in range(self.problem.devices)]
        for _ in range(3 * self.problem.stages * self.problem.count):
            ready = [(found[0], device) for device, found in enumerate(choices) if found is not None]
            if not ready:
                return None
            device = min(ready)[1]
            found = choices[device]
            assert found is not None
            start, task = found
            self._run(device, task, start)
            beside = (task.stage - 1, task.stage, task.stage + 1)
            for touched in {homes[stage] for stage in beside if 0 <= stage < len(homes)}:
                choices[touched] = self._choice(touched)
        return tuple(map(tuple, self.orders))

    def _run(self, device: int, task: Task, start: int) -> None:
        self.orders[device].append(task)
        self.begun[task.stage, task.kind] += 1
        self.clocks[device] = self.ends[task] = start + self.problem.length(task)
        self.held[device] += (task.kind is FORWARD) - (task.kind is WEIGHT)

    def _choice(self, device: int) -> tuple[int, Task] | None:
        """What a device does next, and when; of what has been begun on others only what is known already."""
        passes = [found for stage in self.problem.own[device] for found in self._next(device, stage)]
        now = self.clocks[device]
        weights = [found for found in passes if found[1].kind is WEIGHT]
        others = [found for found in passes if found[1].kind is not WEIGHT]
        best = min(others, key=partial(self._turn, device), default=None)
        if weights:
            weight = min(weights, key=lambda found: (found[0], found[1].microbatch))
            wait = math.inf if best is None else best[0] - now
            if wait > 0 and wait >= self.rule.patience[device] * self.problem.length(weight[1]):
                return weight
        return best

    def _turn(self, device: int, found: tuple[int, Task]) -> tuple[int, bool, int]:
        start, task = found
        forward = task.kind is FORWARD
        return start + forward * self.rule.delay[device], forward == self.rule.back_first[device], -task.stage

    def _next(self, device: int, stage: int) -> Iterator[tuple[int, Task]]:
        """The next pass of each kind of a stage, with the time at which it can start, where that is known."""
        limit = min(self.problem.room, self.rule.ahead[device])
        for kind in Pass:
            k = self.begun[stage, kind]
            if k == self.problem.count or (kind is FORWARD and not self._room(device, stage, limit)):
                continue
            task = Task(stage, k, kind)
            ends = [(need, self.ends.get(need)) for need in needs(task, self.problem.stages)]
            if all(end is not None for _, end in ends):
                ready = [self.problem.ready(task, need, end) for need, end in ends if end is not None]
                yield max([self.clocks[device], *ready]), task

    def _room(self, device: int, stage: int, limit: int) -> bool:
        """Whether a device may go forward with another microbatch in a stage."""
        own = self.problem.own[device]
        match self.rule.reserved:
            case "own":
                begun = self.begun[own[0], FORWARD] - min(self.begun[s, WEIGHT] for s in own)
                return stage != own[0] or (begun + 1) * len(own) <= max(limit, len(own))
            case "before":
                return self._all_can_continue(own, stage, max(limit, len(own)))
            case _:
                return self.held[device] < limit

    def _all_can_continue(self, own: tuple[int, ...], stage: int, limit: int) -> bool:
        """Whether each microbatch on a device has room to continue, once those before it are done, and this pass."""
        begun = [self.begun[s, FORWARD] + (s == stage) for s in own]
        done = [self.begun[s, WEIGHT] for s in own]
        held = 0  # by a microbatch and those after it
        for k in range(max(begun) - 1, min(done) - 1, -1):
            held += sum(k < ahead for ahead in begun) - sum(k < behind for behind in done)
            if held + sum(k >= ahead for ahead in begun) > limit:
                return False
        return True
