"""A long timeline as blocks: what a call runs is written once, however often it runs alike.

Two calls run alike if they run the same body, but for the devices' numbers, from clocks that differ by one and the same
time: the steady state of a pipeline, the layers of a model. A block holds ops and calls of further blocks with times
from its own beginning; a call says on which devices and microbatches. So a million ops are some thousand items, which a
view repeats as it reads them (`vscode-extension/timeline/src/expand.ts`).

Hosts run ahead of their devices, further with every op that is issued in less time than it takes. So what they do for a
block is counted from when they begin it, and calls that differ in nothing but how far hosts are ahead share a block.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

from distir.analysis.provenance import Context, Provenance
from distir.diagnostics import Span
from distir.ir import Apply, Call, Facts, Function, Site
from distir.ir.deep import Deep, finish
from distir.simulate.algebra.clocks import renamed_clock
from distir.simulate.body import Body
from distir.simulate.descent import EventPlace, Run
from distir.simulate.effects import Effect, to_seconds

if TYPE_CHECKING:
    from distir.simulate.simulation import Simulation


@dataclass(frozen=True, slots=True)
class Origin:
    """A statement that ops or calls come from. `label`: its first result, or its name."""

    op: str
    label: str
    function: str
    statement: int
    span: Span | None


@dataclass(frozen=True, slots=True)
class BarKind:
    """The common properties of bars of one kind."""

    duration_s: float
    devices: tuple[int, ...]
    bound: str
    communication: str | None
    root: int | None
    stream: str


@dataclass(frozen=True, slots=True)
class BarFacts:
    """What bars are for; None where it is not known."""

    phase: str | None
    microbatch: int | None


@dataclass(frozen=True, slots=True)
class OpKind(BarKind):
    """The common properties of ops of one kind in blocks, in the block's numbering of devices and microbatches."""

    phase: str | None
    microbatch: int | None


@dataclass(frozen=True, slots=True)
class BlockNames:
    """A call's renaming of its block: devices, in pairs of the block's and the caller's number.

    `microbatch`: the caller's number of the one that the block calls 1, from which it counts on; None: it has none.
    """

    devices: tuple[tuple[int, int], ...]
    microbatch: int | None


@dataclass(frozen=True, slots=True)
class IssuedOps:
    """The ops of a block that take hosts time, as columns: an op's item, a device of it, and from when until when.

    `start_s`, `end_s`: seconds from when hosts begin the block.
    """

    item: array[int]
    device: array[int]
    start_s: array[float]
    end_s: array[float]


@dataclass(frozen=True, slots=True)
class TimedBlock:
    """The block of a call, as columns in program order. `start_s`, `event`: from its first op.

    `statement` counts in the statements. `kind`: of an op, counted in the kinds; of a call of block b, -1 - b. `name`:
    of a call, counted in the renamings; -1 where nothing is renamed, and of ops. `host_s`: of a call, when hosts begin
    its block, from when they begin this one; 0 of ops; empty where no op takes a host time. `issued`: what hosts do for
    its ops. The entry function's times are from 0.
    """

    function: str
    events: int
    statement: array[int]
    kind: array[int]
    name: array[int]
    event: array[int]
    start_s: array[float]
    host_s: array[float]
    issued: IssuedOps


@dataclass(frozen=True, slots=True)
class _Known:
    """A block by its number, and when its first op starts and hosts begin it, in ticks; None: it has no hosts."""

    number: int
    start: int
    host: int | None

    def later(self, ticks: int) -> _Known:
        return _Known(self.number, self.start + ticks, None if self.host is None else self.host + ticks)


@dataclass(frozen=True, slots=True)
class BlockTable:
    """All of a timeline. The last block is the entry function."""

    statements: tuple[Origin, ...]
    kinds: tuple[OpKind, ...]
    renamings: tuple[BlockNames, ...]
    blocks: tuple[TimedBlock, ...]


def blocks_of(simulation: Simulation, locate: Callable[[Site], Span | None]) -> BlockTable:
    """The whole timeline of a simulation."""
    return _Blocks(simulation, locate).table()


class _Blocks:
    def __init__(self, simulation: Simulation, locate: Callable[[Site], Span | None]) -> None:
        self._timeline = simulation.timeline()
        self._locate = locate
        self._provenance = Provenance(simulation.module, simulation.function)
        self._statements: dict[tuple[str, int], int] = {}
        self._listed: list[Origin] = []
        self._kinds: dict[OpKind, int] = {}
        self._renamings: dict[BlockNames, int] = {}
        self._blocks: list[TimedBlock] = []
        self._known: dict[Any, _Known] = {}
        """By body, clocks and work, with times from the earliest of the clocks."""
        self._numbers: dict[Any, int] = {}
        """By all that a block holds."""
        self._roots: dict[int, tuple[Body, Mapping[int, int]]] = {}

    def table(self) -> BlockTable:
        root = self._timeline.descent.root
        finish(self._block(root, self._provenance.entry, is_entry=True))
        return BlockTable(tuple(self._listed), tuple(self._kinds), tuple(self._renamings), tuple(self._blocks))

    def _block(self, run: Run, context: Context, is_entry: bool = False) -> Deep[_Known]:
        """The block of a run."""
        body = run.body
        function = body.instance.function
        names = self._root(body)[1]
        statements, kinds, renamings, events = (array("q") for _ in range(4))
        starts: list[int] = []
        begun: list[int | None] = []
        issued: list[tuple[int, int, int, int]] = []
        for index, step in enumerate(body.steps):
            if not run.groups[index] or step is None:
                continue
            if isinstance(step, Effect):
                place = EventPlace(run, index)
                for device, since, until in () if self._timeline.is_simple else place.issued:
                    issued.append((len(starts), names.get(device, device), since, until))
                kind, name, start, host = self._kind(step, function, index, context, names), -1, place.start, None
            else:
                block, name = yield self._call(run, index, context, step, names)
                kind, start, host = -1 - block.number, block.start, block.host
            statements.append(self._statement(function, index))
            kinds.append(kind)
            renamings.append(name)
            events.append(body.first_events[index])
            starts.append(start)
            begun.append(host)
        hosts = [*(since for *_, since, _ in issued), *(host for host in begun if host is not None)]
        first = 0 if is_entry else min(starts, default=0)
        first_host = 0 if is_entry else min(hosts, default=0)
        content = TimedBlock(
            function.name,
            body.events,
            statements,
            kinds,
            renamings,
            events,
            _seconds_from(first, starts),
            _seconds_from(first_host, [first_host if host is None else host for host in begun] if hosts else ()),
            IssuedOps(
                array("q", [item for item, *_ in issued]),
                array("q", [device for _, device, *_ in issued]),
                _seconds_from(first_host, [since for *_, since, _ in issued]),
                _seconds_from(first_host, [until for *_, until in issued]),
            ),
        )
        return _Known(self._number(content), first, first_host if hosts else None)

    def _call(
        self, run: Run, index: int, context: Context, step: Body, names: Mapping[int, int]
    ) -> Deep[tuple[_Known, int]]:
        """The block of a call, and the number of its renaming."""
        clocks = run.entering(index)
        entered = min(clocks.values())
        root, theirs = self._root(step)
        called = self._provenance.called(context, index)
        first, called = called.facts, _numbered_anew(called)
        relative = frozenset((renamed_clock(clock, theirs), at - entered) for clock, at in clocks.items())
        key = id(root), relative, called.function.name, called.facts
        known = self._known.get(key)
        if known is None:
            block = yield self._block(run.enter(index), called)
            known = self._known[key] = block.later(-entered)
        return known.later(entered), self._renaming(theirs, names, first, step)

    def _number(self, block: TimedBlock) -> int:
        """The number of a block that holds this, the same for equal ones; the entry function's is the last."""
        issued = block.issued
        columns = block.statement, block.kind, block.name, block.event, block.start_s, block.host_s
        hosts = issued.item, issued.device, issued.start_s, issued.end_s
        content = block.function, block.events, *(column.tobytes() for column in (*columns, *hosts))
        number = self._numbers.setdefault(content, len(self._blocks))
        if number == len(self._blocks):
            self._blocks.append(block)
        return number

    def _root(self, body: Body) -> tuple[Body, Mapping[int, int]]:
        """The original body, on other devices, of which this one is renamed, and the mapping of devices."""
        found = self._roots.get(id(body))
        if found is None:
            root, names = body, dict[int, int]()
            while self._timeline.is_simple and root.origin is not None:
                root, there = root.origin
                back = {now: before for before, now in there.devices.items()}
                names = {device: back.get(now, now) for device, now in names.items()} if names else back
            found = self._roots[id(body)] = root, names
        return found

    def _renaming(self, theirs: Mapping[int, int], ours: Mapping[int, int], facts: Facts, step: Body) -> int:
        pairs = ((theirs.get(device, device), ours.get(device, device)) for device in step.devices)
        changed = tuple(sorted(pair for pair in pairs if pair[0] != pair[1]))
        found = BlockNames(changed, facts.microbatch or None)
        if not changed and facts.microbatch < 2:
            return -1
        return self._renamings.setdefault(found, len(self._renamings))

    def _statement(self, function: Function, index: int) -> int:
        number = self._statements.get((function.name, index))
        if number is None:
            number = self._statements[function.name, index] = len(self._listed)
            statement = function.body[index]
            assert isinstance(statement, (Apply, Call))
            op = f"@{statement.function}" if isinstance(statement, Call) else statement.op
            label = next((f"%{name}" for name in statement.results if name), op)
            span = self._locate(Site(function.name, index))
            self._listed.append(Origin(op, label, function.name, index, span))
        return number

    def _kind(self, effect: Effect, function: Function, index: int, context: Context, names: Mapping[int, int]) -> int:
        communication = effect.work.communication
        root = communication.root if communication is not None else None
        statement = function.body[index]
        assert isinstance(statement, (Apply, Call))
        kind = OpKind(
            effect.cost.seconds,
            tuple([names.get(device, device) for device in effect.devices]),
            effect.cost.bound,
            communication.pattern if communication is not None else None,
            None if root is None else names.get(root, root),
            statement.stream,
            *astuple(bar_facts(self._provenance.facts(context, index))),
        )
        return self._kinds.setdefault(kind, len(self._kinds))


def _seconds_from(first: int, ticks: Sequence[int]) -> array[float]:
    return array("d", [to_seconds(at - first) for at in ticks])


def bar_facts(facts: Facts) -> BarFacts:
    """The facts of a bar."""
    return BarFacts(facts.phase or None, facts.microbatch or None)


def _numbered_anew(context: Context) -> Context:
    """The same call for the first microbatch: rounds of a pipeline are alike so. Without the facts that bars lack."""
    return replace(context, facts=Facts(context.facts.phase, microbatch=min(context.facts.microbatch, 1)))
