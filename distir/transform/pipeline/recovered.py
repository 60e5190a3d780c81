"""Recovers the order of passes from a pipeline program, by what it states.

A pass is a call of a function whose head states a stage and a phase, or whose every call does, as of one that several
stages share; the calls that lead to it say which microbatch it is of. `pp`, `dtp` and `accumulate` state these; a
pipeline written by hand may.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from distir.analysis import Analysis, Instance, check_entry
from distir.analysis.provenance import Context, Provenance
from distir.analysis.size import MOST_WRITTEN, refuse_beyond
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Call, Function, Module, Part, Site, types
from distir.ir.calls import callees_first, inlined_sizes
from distir.ir.deep import Deep, finish
from distir.ops import type_of
from distir.transform.pipeline.passes import Order, Pass, Task

PASSES = {kind.value: kind for kind in Pass}


@dataclass(frozen=True, slots=True)
class RecoveredOrder:
    """The order of passes in a program. `devices`: by rank, the devices that run its passes: replicas and shards."""

    order: Order
    devices: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _PassCall:
    """A call of a pass, and where it runs."""

    task: Task
    devices: frozenset[int]


def recovered_order(module: Module, function: str | None = None) -> RecoveredOrder:
    """The order of passes of a pipeline's entry function (or `function`), by rank: ranks count as stages first run.

    A pass without computation, which the program lacks, is inserted where it could run. Raises ProgramError for a
    program that does not check, that is no pipeline of passes, or whose replicas differ; LookupError if there is no
    such function.
    """
    entry, analysis = check_entry(module, function)
    passes = _passes(module)
    inside = _with_passes(module, passes)
    if entry.name not in inside:
        raise _refused(entry, "it calls no function that states a stage")
    sizes = inlined_sizes(module, inside, lambda _: False)
    refuse_beyond(sizes[entry.name], MOST_WRITTEN, entry.name, "a schedule lists", of="passes of stages")
    walk = _Walk(analysis, entry, passes, inside, Provenance(module, entry))
    finish(walk.body(analysis.instance(entry, [p.type for p in entry.params]), walk.provenance.entry))
    return _by_rank(entry, _completed(walk.calls))


def _passes(module: Module) -> set[str]:
    """The functions that are passes of stages."""
    stated = defaultdict[str, list[bool]](list)
    for call in (s for function in module for s in function.body if isinstance(s, Call)):
        stated[call.function].append(bool(call.facts.stage))
    return {f.name for f in module if f.facts.stage or (stated[f.name] and all(stated[f.name]))}


def _with_passes(module: Module, passes: Container[str]) -> set[str]:
    """The functions in which passes are called."""
    found: set[str] = set()
    for function in callees_first(module):
        called = [s.function for s in function.body if isinstance(s, Call)]
        if function.name not in passes and any(name in passes or name in found for name in called):
            found.add(function.name)
    return found


@dataclass
class _Walk:
    """The calls of passes in the order of the program."""

    analysis: Analysis
    entry: Function
    passes: Container[str]
    inside: set[str]
    provenance: Provenance
    calls: list[_PassCall] = field(default_factory=list[_PassCall])
    seen: set[_PassCall] = field(default_factory=set[_PassCall])

    def body(self, instance: Instance, context: Context) -> Deep[None]:
        """Walk a function's body."""
        for index, statement in enumerate(instance.function.body):
            if not isinstance(statement, Call):
                continue
            if statement.function in self.inside:
                callee = self.analysis.domain.instance(statement.function, instance.state(statement.args))
                yield self.body(callee, self.provenance.called(context, index))
            elif statement.function in self.passes:
                self._note(instance, index, statement, context)

    def _note(self, instance: Instance, index: int, call: Call, context: Context) -> None:
        """Record the call of a pass."""
        facts = self.provenance.called(context, index).facts
        values = [*instance.state(call.args), *(instance.state[name] for name in call.results)]
        devices = frozenset[int]().union(*(types.devices(type_of(v)) for v in values if v is not None))
        task = Task(facts.stage - 1, max(facts.microbatch, 1) - 1, PASSES.get(facts.phase, Pass.FORWARD))
        found = _PassCall(task, devices)
        if found in self.seen:
            site = Site(instance.function.name, index)
            which = f"the {task.kind.value} pass of stage {facts.stage} over microbatch {task.microbatch + 1}"
            raise _refused(
                self.entry, f"`@{call.function}` is {which} a second time, as chunks of a sequence are", site
            )
        self.seen.add(found)
        self.calls.append(found)


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
    hint = "`pp` and `dtp` state stages; a pipeline written by hand does so: `func @f(%x) forward, stage = 1`"
    message = f"`@{entry.name}` has no schedule that can be read: {why}"
    return ProgramError(
        [Diagnostic(codes.NO_SCHEDULE, site or Site(entry.name, None, Part("name")), message, help=hint)]
    )


__all__ = ["RecoveredOrder", "recovered_order"]
