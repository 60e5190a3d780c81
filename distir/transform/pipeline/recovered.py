"""Recovers the order of passes from a pipeline program.

Passes are calls of the functions that `pp`, `dtp` or `accumulate` makes of stages (`stage_1_forward`). Data flow
determines the microbatch of a pass, from the `Split` of the batch through calls and `round`s. A pass that accumulates
also depends on earlier microbatches, which its stage has completed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from distir.analysis import Analysis, Instance, check_entry
from distir.analysis.size import MOST_WRITTEN, refuse_beyond
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Apply, Call, Function, Module, Part, Site, names, types
from distir.ir.calls import callees_first, inlined_sizes
from distir.ir.deep import Deep, finish
from distir.ops import type_of
from distir.transform.pipeline.passes import Order, Pass, Task

_STAGE = re.compile(r"stage_(\d+)_(accumulate_)?(forward|backward|weight)(_\d*)*")


@dataclass(frozen=True, slots=True)
class RecoveredOrder:
    """The order of passes in a program. `devices`: by rank, the devices that run its passes: replicas and shards."""

    order: Order
    devices: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _PassCall:
    """A call of a pass, where it stands and where it runs."""

    task: Task
    devices: frozenset[int]
    weights: int = field(compare=False, default=0)
    """The weights that it takes."""


def recovered_order(module: Module, function: str | None = None) -> RecoveredOrder:
    """The order of passes of a pipeline's entry function (or `function`), by rank: ranks count as stages first run.

    A pass without computation, which the program lacks, is inserted where it could run. Raises ProgramError for a
    program that does not check, that is no pipeline of passes, or whose replicas differ; LookupError if there is no
    such function.
    """
    entry, analysis = check_entry(module, function)
    inside = _with_passes(module)
    if entry.name not in inside:
        raise _refused(entry, "it calls no pass of a stage")
    sizes = inlined_sizes(module, inside, lambda _: False)
    refuse_beyond(sizes[entry.name], MOST_WRITTEN, entry.name, "a schedule lists", of="passes of stages")
    count = max([len(s.results) for s in entry.body if isinstance(s, Apply) and _cuts(s, entry)], default=1)
    walk = _Walk(analysis, entry, inside, count)
    given = [1 << count + i if p.roles.get("param") else 0 for i, p in enumerate(entry.params)]
    finish(walk.body(analysis.instance(entry, [p.type for p in entry.params]), given))
    _refuse_chunks(entry, walk.calls)
    return _by_rank(entry, _completed(walk.calls))


def _with_passes(module: Module) -> set[str]:
    """The functions in which passes are called."""
    found: set[str] = set()
    for function in callees_first(module):
        called = (s.function for s in function.body if isinstance(s, Call))
        if not _STAGE.fullmatch(function.name) and any(_STAGE.fullmatch(name) or name in found for name in called):
            found.add(function.name)
    return found


_Home = tuple[int, Pass, frozenset[int]]


@dataclass
class _Walk:
    """The calls of passes in the order of the program.

    The dependencies of a value are a set of bits: `count` microbatches, then weights.
    """

    analysis: Analysis
    entry: Function
    inside: set[str]
    count: int
    calls: list[_PassCall] = field(default_factory=list[_PassCall])
    done: dict[_Home, int] = field(default_factory=dict[_Home, int])
    """By stage, pass and devices: the microbatches completed."""
    flows: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def body(self, instance: Instance, given: Sequence[int]) -> Deep[list[int]]:
        """Walk a function's body, given the dependencies of its parameters. Returns those of its results."""
        function = instance.function
        known = dict(zip((p.name for p in function.params), given, strict=True))
        for index, statement in enumerate(function.body):
            if not isinstance(statement, (Apply, Call)):
                continue
            args = [_joined(known, names((arg,))) for arg in statement.args]
            made: Sequence[int]
            if isinstance(statement, Apply):
                cut = function is self.entry and _cuts(statement, function)
                used = _union(args)
                made = [1 << i if cut else used for i in range(len(statement.results))]
            elif statement.function in self.inside:
                callee = self.analysis.domain.instance(statement.function, instance.state(statement.args))
                made = yield self.body(callee, args)
            else:
                self._note(instance, index, statement, args)
                made = [_chosen(args, flow) for flow in self._flow(statement.function)]
            known.update(zip(statement.results, made, strict=True))
        return [_joined(known, names((arg,))) for arg in function.returned]

    def _note(self, instance: Instance, index: int, call: Call, args: Sequence[int]) -> None:
        """Record a call, if it is a pass; `args` are its dependencies."""
        match = _STAGE.fullmatch(call.function)
        if match is None:
            return
        stage, kind = int(match[1]) - 1, Pass(match[3])
        values = [*instance.state(call.args), *(instance.state[name] for name in call.results)]
        devices = frozenset[int]().union(*(types.devices(type_of(v)) for v in values if v is not None))
        used = _union(args) & (1 << self.count) - 1
        weights = _union(bits >> self.count for bits in args if not bits & (1 << self.count) - 1)
        before = self.done.get((stage, kind, devices), 0)
        new = used & ~before or (0 if before else 1)  # without a cut there is one microbatch
        if new.bit_count() != 1:
            site = Site(instance.function.name, index)
            which = "none that it has not done" if not new else "several"
            raise _refused(self.entry, f"`@{call.function}` is of one microbatch, and here it depends on {which}", site)
        self.done[stage, kind, devices] = before | new
        self.calls.append(_PassCall(Task(stage, new.bit_length() - 1, kind), devices, weights))

    def _flow(self, name: str) -> list[int]:
        """By result of a function: the parameters that it depends on, as a set of bits."""
        if name not in self.flows:
            for function in callees_first(self.analysis.module):
                if function.name not in self.flows:
                    self.flows[function.name] = _flow(function, self.flows)
        return self.flows[name]


def _flow(function: Function, flows: Mapping[str, Sequence[int]]) -> list[int]:
    known = {p.name: 1 << i for i, p in enumerate(function.params)}
    for statement in function.body:
        if isinstance(statement, (Apply, Call)):
            args = [_joined(known, names((arg,))) for arg in statement.args]
            if isinstance(statement, Call):
                made = [_chosen(args, flow) for flow in flows[statement.function]]
            else:
                made = [_union(args)] * len(statement.results)
            known.update(zip(statement.results, made, strict=True))
    return [_joined(known, names((arg,))) for arg in function.returned]


def _chosen(args: Sequence[int], flow: int) -> int:
    return _union(bits for i, bits in enumerate(args) if flow >> i & 1)


def _joined(known: Mapping[str, int], used: Iterable[str]) -> int:
    return _union(known.get(name, 0) for name in used)


def _union(sets: Iterable[int]) -> int:
    found = 0
    for one in sets:
        found |= one
    return found


def _cuts(statement: Apply, entry: Function) -> bool:
    """Whether an op cuts the batch into microbatches."""
    cut = statement.args[0] if statement.op == "Split" and statement.args else None
    axis = statement.attrs.get("axis", 0)
    return any(p.name == cut and p.roles.get("batch", None) == axis for p in entry.params)


def _completed(calls: Sequence[_PassCall]) -> list[_PassCall]:
    """The order completed by passes without computation, for which the program has no call.

    Halves of a backward pass are then consecutive; a whole one follows that of the next stage.
    """
    kinds = {call.task.kind for call in calls}
    if kinds == {Pass.FORWARD}:
        return list(calls)
    splits = Pass.WEIGHT in kinds
    present = {(call.task.stage, call.task.kind) for call in calls}
    homes = {(call.task.stage, call.devices) for call in calls}
    found: dict[_PassCall, None] = {}

    def add(task: Task, devices: frozenset[int]) -> None:
        found[_PassCall(task, devices)] = None
        stage, k = task.stage, task.microbatch
        if task.kind is Pass.BACKWARD:
            if splits and (stage, Pass.WEIGHT) not in present:
                found[_PassCall(Task(stage, k, Pass.WEIGHT), devices)] = None
            before = stage - 1
            if (before, Pass.BACKWARD) not in present and (before, Pass.WEIGHT) not in present:
                for there, others in sorted(homes, key=lambda home: min(home[1], default=0)):
                    if there == before:
                        add(Task(before, k, Pass.BACKWARD), others)

    for call in calls:
        task = call.task
        if task.kind is Pass.WEIGHT and (task.stage, Pass.BACKWARD) not in present:
            add(Task(task.stage, task.microbatch, Pass.BACKWARD), call.devices)
        add(task, call.devices)
    return list(found)


def _refuse_chunks(entry: Function, calls: Sequence[_PassCall]) -> None:
    """Raises ProgramError where passes over several chunks of sequences are numbered as stages, which torch has not."""
    known: dict[tuple[int, frozenset[int]], int] = {}
    for call in calls:
        if call.task.kind is Pass.FORWARD and call.weights:
            other = known.setdefault((call.weights, call.devices), call.task.stage)
            if other != call.task.stage:
                raise _refused(
                    entry, f"stages {other + 1} and {call.task.stage + 1} are chunks of sequences of one stage"
                )


def _by_rank(entry: Function, calls: Sequence[_PassCall]) -> RecoveredOrder:
    """The passes by rank: devices with equal passes are one rank."""
    rows: dict[int, list[Task]] = {}
    for call in calls:
        for device in call.devices:
            rows.setdefault(device, []).append(call.task)
    ranks: dict[frozenset[int], list[int]] = {}
    for device, tasks in sorted(rows.items()):
        ranks.setdefault(frozenset(task.stage for task in tasks), []).append(device)
    for devices in ranks.values():
        first, *others = devices
        other = next((d for d in others if rows[d] != rows[first]), None)
        if other is not None:
            raise _refused(entry, f"devices {first} and {other} run the same stages in another order")
    order = sorted(ranks.values(), key=lambda devices: min(task.stage for task in rows[devices[0]]))
    stages = [stage for found in ranks for stage in found]
    if len(stages) != len(set(stages)):
        raise _refused(entry, "some devices of a stage run other stages as well, and some do not")
    return RecoveredOrder(tuple(tuple(rows[devices[0]]) for devices in order), tuple(map(tuple, order)))


def _refused(entry: Function, why: str, site: Site | None = None) -> ProgramError:
    hint = "export the pipeline as `pp` or `dtp` made it, before steps that write its passes out"
    message = f"`@{entry.name}` has no schedule that can be read: {why}"
    return ProgramError(
        [Diagnostic(codes.NO_SCHEDULE, site or Site(entry.name, None, Part("name")), message, help=hint)]
    )


__all__ = ["RecoveredOrder", "recovered_order"]
