"""Pipeline schedules: which device runs which passes, in which order. Pure: knows no programs, no costs.

With v stages on each of P devices there are v·P stages. An order places them: mostly stage s on device s mod P, so that
a microbatch passes all devices v times; in a V, forth and back. A schedule is one function under `@schedule`; its
orders are validated.

Sources: Huang et al., "GPipe", NeurIPS 2019; Narayanan et al., "PipeDream", SOSP 2019, and "Efficient Large-Scale
Language Model Training on GPU Clusters Using Megatron-LM", SC 2021 (1F1B, interleaved); Qi et al., "Zero Bubble
Pipeline Parallelism", ICLR 2024 (ZB-H1, ZB-V), and "Pipeline Parallelism with Controllable Memory", NeurIPS 2024;
Lamy-Poirier, "Breadth-First Pipeline Parallelism", MLSys 2023; Sun et al., "Seq1F1B: Efficient Sequence-Level Pipeline
Parallelism", arXiv:2406.03488; DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024 (DualPipe), and the V that its authors
and Qi et al. made of it in 2025.
"""

from __future__ import annotations

import inspect
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from distir.ir.registry import Registry
from distir.transform.pipeline.best import BestOrder, NoSolverError, OrderProblem, best_order, placements
from distir.transform.pipeline.passes import Lengths, Order, Pass, Task, needs, stage_devices, with_weights
from distir.transform.pipeline.validation import ScheduleError, validate

Rule = Callable[[int, int, int], Order]
"""From P devices, K microbatches and v stages per device to the order."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule by name."""

    name: str
    rule: Rule
    splits: bool = False
    """Whether it splits the backward pass, and runs `Pass.WEIGHT` separately."""
    virtual: bool = False
    """Whether the number of stages per device is an option."""
    stages: int = 1
    """The default number of stages per device."""
    torch: str | None = None
    """Its name, or that of the most similar schedule, in `torch.distributed.pipelining`."""
    fitted: bool = False
    """Whether `fit` finds an order for the lengths of passes; `rule` is then that for equal lengths."""
    given: Order | None = None
    """The order, if it was given explicitly; it is for its numbers of devices, stages and microbatches alone."""

    cuts: bool = False
    """Whether sequences are cut into chunks: an order has one stage for each chunk of a device's stage."""

    @property
    def microbatches(self) -> int | None:
        """The number of microbatches that it requires; None for any number."""
        return None if self.given is None else len({task.microbatch for tasks in self.given for task in tasks})

    @property
    def trains(self) -> bool:
        """Whether it has backward passes."""
        return self.given is None or any(task.kind is not Pass.FORWARD for tasks in self.given for task in tasks)

    def stages_per_device(self, virtual: int = 1) -> int:
        """The number of stages per device, if `virtual` are requested. Raises ScheduleError."""
        if self.given is None and (self.virtual or self.cuts or virtual in (1, self.stages)):
            return virtual if self.virtual or self.cuts else self.stages
        if self.given is not None and virtual in (1, self.stages):
            return self.stages
        has = "one stage" if self.stages == 1 else f"{self.stages} stages"
        raise ScheduleError(f"`{self.name}` has {has} per device, found `virtual={virtual}`")

    def __call__(self, devices: int, microbatches: int, virtual: int = 1) -> Order:
        """The order. Raises ScheduleError for numbers that it does not support, and for an order that cannot run."""
        if devices < 1 or microbatches < 1 or virtual < 1:
            counts = f"{devices}, {microbatches} and {virtual}"
            raise ScheduleError(f"expected 1 or more devices, microbatches and stages per device, found {counts}")
        if self.microbatches not in (None, microbatches):
            stated = "1 microbatch" if self.microbatches == 1 else f"{self.microbatches} microbatches"
            raise ScheduleError(f"`{self.name}` is for {stated}, found {microbatches}")
        return _order(self, devices, microbatches, self.stages_per_device(virtual))


@lru_cache(maxsize=64)
def _order(schedule: Schedule, devices: int, microbatches: int, per_device: int) -> Order:
    order = tuple(map(tuple, schedule.rule(devices, microbatches, per_device)))
    stages = devices * per_device
    if schedule.given is not None:
        stages = len({task.stage for tasks in order for task in tasks})
    chunks = per_device if schedule.cuts else 1
    validate(schedule.name, order, devices, stages, microbatches, schedule.splits, schedule.trains, chunks)
    return order


def as_given(name: str, order: Order) -> Schedule:
    """An explicitly given order as a schedule; `name`: its name in messages."""
    most = max((len({task.stage for task in tasks}) for tasks in order), default=1)
    splits = any(task.kind is Pass.WEIGHT for tasks in order for task in tasks)
    return Schedule(name, _Given(order), splits, stages=most, given=order)


@dataclass(frozen=True, slots=True)
class _Given:
    """The rule of an explicitly given order."""

    order: Order

    def __call__(self, devices: int, microbatches: int, virtual: int) -> Order:
        return self.order


SCHEDULES: Final[Registry[Schedule]] = Registry()
"""Every schedule by its name: ours and those of plugins."""


def schedule(
    name: str,
    *,
    splits: bool = False,
    virtual: bool = False,
    stages: int = 1,
    torch: str | None = None,
    fitted: bool = False,
    cuts: bool = False,
) -> Callable[[Rule], Rule]:
    """Register a rule as the schedule of that name; the other parameters are those of `Schedule`.

    Raises TypeError for a function that does not take three numbers.
    """

    def register(rule: Rule) -> Rule:
        try:
            inspect.signature(rule).bind(1, 1, 1)
        except TypeError as error:
            expected = "devices, microbatches, stages per device"
            raise TypeError(f"the schedule `{name}` must take {expected}: {error}") from None
        made = Schedule(name, rule, splits, virtual, stages, torch, fitted, cuts=cuts)
        SCHEDULES.register(name, made, rule.__module__)
        return rule

    return register


@schedule("gpipe", torch="GPipe")
def gpipe(devices: int, microbatches: int, virtual: int) -> Order:
    """All forward passes, then all backward passes; K microbatches are in flight on every device."""
    return tuple(
        tuple(Task(device, k, kind) for kind in (Pass.FORWARD, Pass.BACKWARD) for k in range(microbatches))
        for device in range(devices)
    )


@schedule("1f1b", torch="1F1B")
def one_forward_one_backward(devices: int, microbatches: int, virtual: int) -> Order:
    """One forward pass and one backward pass alternate, once the first backward pass can run.

    Device d, counted from 0, has at most P - d microbatches in flight.
    """
    orders: list[tuple[Task, ...]] = []
    for device in range(devices):
        forwards = (Task(device, k, Pass.FORWARD) for k in range(microbatches))
        backwards = (Task(device, k, Pass.BACKWARD) for k in range(microbatches))
        orders.append(tuple(_alternate(forwards, backwards, devices - 1 - device)))
    return tuple(orders)


@schedule("seq1f1b", cuts=True)
def sequences_one_forward_one_backward(devices: int, microbatches: int, chunks: int) -> Order:
    """1F1B of chunks of sequences: forward in their order, backward from the last one to the first.

    `chunks` says into how many a sequence is cut; attention is causal. With n of them device d, counted from 0, has at
    most P - d + n - 1 chunks in flight, instead of P - d microbatches, and the bubble is that of passes n times as
    short.
    """
    orders: list[tuple[Task, ...]] = []
    for device in range(devices):
        first, every = device * chunks, range(chunks)
        forwards = (Task(first + n, k, Pass.FORWARD) for k in range(microbatches) for n in every)
        backwards = (Task(first + n, k, Pass.BACKWARD) for k in range(microbatches) for n in reversed(every))
        orders.append(tuple(_alternate(forwards, backwards, devices - 1 - device + chunks - 1)))
    return tuple(orders)


@schedule("interleaved", virtual=True, stages=2, torch="Interleaved1F1B")
def interleaved(devices: int, microbatches: int, virtual: int) -> Order:
    """1F1B with v stages per device: the bubble is v times smaller, with v times as many messages.

    Groups of microbatches run through one stage of a device, then through its next stage. A group is P of them, or
    somewhat more where K is no multiple of P; where K is less, all of them, and then devices wait in every round.
    """
    if virtual == 1:
        return one_forward_one_backward(devices, microbatches, 1)
    groups = _groups(devices, microbatches)
    orders: list[tuple[Task, ...]] = []
    for device in range(devices):
        backwards = (
            Task((virtual - 1 - task.stage // devices) * devices + device, task.microbatch, Pass.BACKWARD)
            for task in _forwards(device, devices, groups, virtual)
        )
        # One backward pass can begin on the last device once it has done v - 1 stages for a group, and one microbatch
        # of the last. A device before it is a forward pass ahead and a backward pass behind: hence twice the distance.
        ahead = max(map(len, groups)) * (virtual - 1) + 2 * (devices - 1 - device)
        orders.append(tuple(_alternate(_forwards(device, devices, groups, virtual), backwards, ahead)))
    return tuple(orders)


@schedule("looped-bfs", virtual=True, stages=2, torch="LoopedBFS")
def looped_breadth_first(devices: int, microbatches: int, virtual: int) -> Order:
    """All microbatches through one stage of a device, then all through its next; backward passes likewise.

    The bubble is that of `interleaved`, and all K microbatches are in flight in every stage, as in GPipe. Weights of a
    stage are used by all microbatches in a row, so that ZeRO-3 gathers each of them once for the forward passes and
    once for the backward passes.
    """
    orders: list[tuple[Task, ...]] = []
    for device in range(devices):
        stages = range(device, devices * virtual, devices)
        forwards = [Task(stage, k, Pass.FORWARD) for stage in stages for k in range(microbatches)]
        backwards = [Task(stage, k, Pass.BACKWARD) for stage in reversed(stages) for k in range(microbatches)]
        orders.append((*forwards, *backwards))
    return tuple(orders)


@schedule("zb-h1", splits=True, torch="InterleavedZeroBubble")
def zero_bubble_h1(devices: int, microbatches: int, virtual: int) -> Order:
    """1F1B with the backward pass split: weight gradients, which no other device needs, fill the bubble.

    No device has more microbatches in flight than the first one in 1F1B. If the three passes take equally long and K is
    at least P, the bubble is a third of that of 1F1B.
    """
    plans = one_forward_one_backward(devices, microbatches, 1)
    orders: list[list[Task]] = [[] for _ in plans]
    taken, weights, held = [0] * devices, [0] * devices, [0] * devices
    done: dict[Task, int] = {}
    time = 0
    # The plan's passes in its order, all of one length, so time goes in steps. A weight gradient is made where the plan
    # cannot continue: its next pass is not ready, or there is no room for another microbatch.
    while any(len(order) < 3 * microbatches for order in orders):
        for device, plan in enumerate(plans):
            task = plan[taken[device]] if taken[device] < len(plan) else None
            full = held[device] == devices and task is not None and task.kind is Pass.FORWARD
            weight = Task(device, weights[device], Pass.WEIGHT)
            if task is not None and not full and all(done.get(need, time + 1) <= time for need in needs(task, devices)):
                taken[device] += 1
                held[device] += task.kind is Pass.FORWARD
            elif Task(device, weights[device], Pass.BACKWARD) in done:
                task = weight
                weights[device] += 1
                held[device] -= 1
            else:
                continue
            orders[device].append(task)
            done[task] = time + 1
        time += 1
    return tuple(map(tuple, orders))


@schedule("zb-v", splits=True, stages=2, torch="ZBVZeroBubble")
def zero_bubble_v(devices: int, microbatches: int, virtual: int) -> Order:
    """Two stages per device in a V, d and 2P - 1 - d, with the backward pass split: almost no bubble.

    The last stage is on the first device, which starts its backward pass right after the forward pass. All devices have
    equally many activations in flight: 2P microbatches of stages half as large, as much as the first device in 1F1B.
    """
    return tuple(
        tuple(task for task in _down_and_up(device, devices, microbatches) if task.microbatch < microbatches)
        for device in range(devices)
    )


@schedule("dualpipev", splits=True, stages=2, torch="DualPipeV")
def dual_pipe_v(devices: int, microbatches: int, virtual: int) -> Order:
    """Two stages per device in a V, where forward passes of one direction alternate with backward passes of the other.

    One pass of each kind stand side by side in the steady state, so that the communication of one, such as the
    all-to-all of experts, can run beside the computation of the other. Backward passes are split only at both ends. K
    must be 2P or more.
    """
    if microbatches < 2 * devices:
        raise ScheduleError(
            f"`dualpipev` expected {2 * devices} or more as `microbatches` for {devices} devices, found {microbatches}"
        )
    return tuple(tuple(_both_ways(device, devices, microbatches)) for device in range(devices))


def _both_ways(device: int, devices: int, microbatches: int) -> Iterator[Task]:
    """The passes of a device of `dualpipev`, in its eight phases: `down` is its stage in the first half of the V."""
    down, up, after = device, 2 * devices - 1 - device, devices - 1 - device
    begun: Counter[tuple[int, Pass]] = Counter()
    left: deque[Task] = deque()
    """Deferred weight gradients."""

    def forward(stage: int) -> Iterator[Task]:
        yield Task(stage, begun[stage, Pass.FORWARD], Pass.FORWARD)
        begun[stage, Pass.FORWARD] += 1

    def backward(stage: int, *, whole: bool) -> Iterator[Task]:
        k = begun[stage, Pass.BACKWARD]
        begun[stage, Pass.BACKWARD] += 1
        yield Task(stage, k, Pass.BACKWARD)
        if whole:
            yield Task(stage, k, Pass.WEIGHT)
        else:
            left.append(Task(stage, k, Pass.WEIGHT))

    for _ in range(2 * after):
        yield from forward(down)
    for _ in range(device + 1):
        yield from (*forward(down), *forward(up))
    for _ in range(after):
        yield from backward(up, whole=False)
        yield left.popleft()
        yield from forward(up)
    for _ in range(microbatches - 2 * devices + device + 1):
        yield from (*forward(down), *backward(up, whole=True))
        yield from (*forward(up), *backward(down, whole=True))
    for _ in range(after):
        yield from (*backward(up, whole=True), *forward(up), *backward(down, whole=True))
    for number in range(2 * (device + 1)):  # from half of them on, weight gradients are deferred to the end
        yield from backward(down if number % 2 else up, whole=number <= device)
    for _ in range(after):
        yield left.popleft()
        yield from backward(down, whole=False)
    yield from left


def _down_and_up(device: int, devices: int, microbatches: int) -> Iterator[Task]:
    """The passes of a device of a V: `down` is its stage in the first half, `up` that in the second.

    For at least as many microbatches as fill the pipeline.
    """
    down, up = device, 2 * devices - 1 - device
    count = max(2 * devices - 1, microbatches)
    begun: Counter[tuple[int, Pass]] = Counter()

    def tasks(stage: int, *kinds: Pass) -> Iterator[Task]:
        """Append the next passes of these kinds."""
        for kind in kinds:
            yield Task(stage, begun[stage, kind], kind)
            begun[stage, kind] += 1

    for _ in range(2 * (devices - device) - 1):
        yield from tasks(down, Pass.FORWARD)
    for _ in range(device):
        yield from tasks(up, Pass.FORWARD)
        yield from tasks(down, Pass.FORWARD)
    for _ in range(devices - device):
        yield from tasks(up, *Pass)
    while begun[up, Pass.FORWARD] < count:
        if begun[down, Pass.FORWARD] < count:
            yield from tasks(down, Pass.FORWARD)
        yield from tasks(down, Pass.BACKWARD, Pass.WEIGHT)
        yield from tasks(up, *Pass)
    for _ in range(device):
        yield from tasks(down, Pass.BACKWARD)
        yield from tasks(up, Pass.BACKWARD)
    for _ in range(devices - device):
        yield from tasks(down, Pass.BACKWARD, Pass.WEIGHT)
    for stage in (up, down):
        while begun[stage, Pass.WEIGHT] < begun[stage, Pass.BACKWARD]:
            yield from tasks(stage, Pass.WEIGHT)


@schedule("best", splits=True, virtual=True, fitted=True)
def best(devices: int, microbatches: int, virtual: int) -> Order:
    """The shortest order that is found for what the passes take, and for the microbatches that a device may hold.

    `in_flight` says how many: P unless it is given, as the first device holds in 1F1B. Tried are all other schedules,
    rules by which each device chooses what it does next, and then constraint programming (`pip install
    'distir[schedules]'`). A note says how much shorter another order could be at most. The stages of a device are
    placed round and round, or there and back again.
    """
    homes = next(placements(devices, virtual))
    return fit(homes, dict.fromkeys(((s, kind) for s in range(len(homes)) for kind in Pass), 1.0), microbatches).order


def fit(
    homes: tuple[int, ...],
    lengths: Lengths,
    microbatches: int,
    in_flight: int = 0,
    seconds: float = 0,
    sends: Lengths | None = None,
) -> BestOrder:
    """The shortest order that is found with stages on these devices, no longer than that of any other schedule.

    `lengths`, and `sends`, how long passes are sent what they take from other devices, are whole numbers. `seconds`:
    for how long the solver seeks, of a clock that counts work. Raises ScheduleError where devices may hold too few
    microbatches, or OR-tools is not installed.
    """
    devices = max(homes) + 1
    per_device = len(homes) // devices
    room = per_device * min(in_flight or devices, microbatches)
    problem = OrderProblem(homes, lengths, microbatches, room, sends or {})
    try:
        return best_order(problem, _named(homes, microbatches), seconds)
    except NoSolverError:
        message = "`best` needs OR-tools, which is not installed: run `pip install 'distir[schedules]'`"
        raise ScheduleError(message) from None
    except ValueError:
        message = f"`best` found no order in which devices hold {in_flight or devices} microbatches at most"
        raise ScheduleError(f"{message}; allow more with `in_flight`") from None


def _named(homes: tuple[int, ...], microbatches: int) -> Iterator[Order]:
    """The orders of all other schedules that have the stages on these devices, with backward passes split."""
    devices = max(homes) + 1
    for other in SCHEDULES.values():
        with suppress(ScheduleError):
            order = () if other.fitted else other(devices, microbatches, len(homes) // devices)
            if order and stage_devices(order) == homes:
                yield order if other.splits else with_weights(order)


def _alternate(forwards: Iterator[Task], backwards: Iterator[Task], ahead: int) -> Iterator[Task]:
    """`ahead` forward passes first, then one forward and one backward in turn, then the backward passes left."""
    for number, forward in enumerate(forwards):
        yield forward
        if number >= ahead:
            yield next(backwards)
    yield from backwards


def _groups(devices: int, microbatches: int) -> list[range]:
    """The microbatches in groups of P or more, of about the same size; one group where there are fewer than P."""
    number = max(1, microbatches // devices)
    bounds = [microbatches * i // number for i in range(number + 1)]
    return [range(first, end) for first, end in pairwise(bounds)]


def _forwards(device: int, devices: int, groups: Iterable[range], virtual: int) -> Iterator[Task]:
    """The forward passes of a device: a group of microbatches through each of its stages, then the next group."""
    for group in groups:
        for chunk in range(virtual):
            for k in group:
                yield Task(chunk * devices + device, k, Pass.FORWARD)
