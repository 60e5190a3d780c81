"""When things run: moves past independent neighbours that the simulator finds faster, and recomputing what is kept.

Moves are first judged by the devices' clocks alone, from where the call that is shown begins; what seems faster is then
simulated, the whole program with the changed text. Only what that confirms is offered: as a repair, which editors list
in front of refactorings. What one statement alone cannot do is tried with others: a statement moves together with those
that it needs, or with those that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from distir.cost import show_bytes
from distir.diagnostics import Span
from distir.ide.actions.core import QUICK_FIX, Action, statement_at
from distir.ide.document import Document
from distir.ide.edits import Edit, applied, rewritten
from distir.ide.instances import facts
from distir.ir import DISCARD, Apply, Call, Statement, results
from distir.ops import OPS
from distir.simulate.algebra.clocks import of_device
from distir.simulate.simulation import Simulation
from distir.simulate.timeline import Timeline
from distir.syntax import FunctionSyntax
from distir.transform.rescheduling.tasks import Clocks, Progress, Tasks, tasks_in

LEAST_GAIN = 1.01
"""How many times faster a program must be for a move to be offered."""

STEPS = 200_000
"""How many statements are run through, in all, to judge moves."""

NEIGHBOURS = 12
"""How many statements on each side are tried as neighbours to move past."""

CONFIRMED = 2
"""How many of the most promising moves are simulated."""

WAITING = 24
"""How many statements of a whole function are considered for moves: those for which devices wait longest."""

CONFIRMED_IN_ALL = 4
"""How many moves within a whole function are simulated."""

LARGEST_GROUP = 8
"""How many statements move together at most."""


@dataclass(frozen=True, slots=True)
class Move:
    """Statements, in their order, and where they go: before the statement `target`."""

    sources: tuple[int, ...]
    target: int

    @property
    def up(self) -> bool:
        """Whether they move to the front."""
        return self.target <= self.sources[0]

    def order(self, size: int) -> Iterator[int]:
        """All statements, by their numbers now, in the order after the move."""
        moved = frozenset(self.sources)
        for number in range(size):
            if number == self.target:
                yield from self.sources
            if number not in moved:
                yield number
        if self.target >= size:
            yield from self.sources


@dataclass(frozen=True, slots=True)
class _Start:
    """A function's statements as tasks, and the devices' clocks as the call that is shown begins."""

    tasks: Tasks
    clocks: Clocks
    is_entry: bool


class _Known(dict[str, _Start]):
    """By function: the analysis of the call that is shown."""


def faster_moves(document: Document, span: Span) -> Iterator[Action]:
    """Moves of the statement at a place, or of others past it, that make the program faster."""
    chosen = statement_at(document, span)
    simulation = document.simulation
    if chosen is None or simulation is None:
        return
    written, index = chosen
    start = _start(document, written)
    if start is None or index >= len(start.tasks):
        return
    moves = [*_candidates(start.tasks, index), *_groups(start.tasks, index)]
    offered = False
    for move, edits, after in _confirmed(document, written, _judged(start, moves), CONFIRMED):
        gain = simulation.latency_s / after.latency_s
        more = [f", {show_bytes(-n)} more on device {d}" for d, n in saved(simulation, after).items() if n < 0]
        title = f"{_title(written, index, move)}: {gain:.2f}x faster{''.join(more)}"
        yield Action(title, QUICK_FIX, edits, preferred=not offered)
        offered = True


@dataclass(frozen=True, slots=True)
class FasterMove:
    """A move that the simulator has confirmed. `index`: the statement that it is about."""

    title: str
    index: int
    edits: tuple[Edit, ...]
    after: Simulation


def faster_moves_in(document: Document, written: FunctionSyntax, pause: Callable[[], None]) -> Iterator[FasterMove]:
    """Moves within a function that make the program faster, of the statements that devices wait for longest.

    `pause` is called now and then, and may raise to give up.
    """
    start = _start(document, written)
    index, occurrence = facts(document).index, facts(document).shown(written.function.name)
    if start is None or index is None or occurrence is None:
        return
    waits: dict[int, float] = {}
    for number in range(len(start.tasks)):
        waits[number] = max((idle.seconds for idle in index.idle(occurrence, number)), default=0.0)
        pause()
    judged: list[tuple[tuple[int, int], Move]] = []
    for number in sorted(filter(waits.__getitem__, waits), key=waits.__getitem__, reverse=True)[:WAITING]:
        judged += _judged(start, [*_candidates(start.tasks, number), *_groups(start.tasks, number)])
        pause()
    for move, edits, after in _confirmed(document, written, judged, CONFIRMED_IN_ALL, pause):
        leading = move.sources[-1] if move.up else move.sources[0]
        yield FasterMove(_title(written, leading, move), leading, edits, after)


def _confirmed(
    document: Document,
    written: FunctionSyntax,
    judged: Iterable[tuple[tuple[int, int], Move]],
    most: int,
    pause: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Move, tuple[Edit, ...], Simulation]]:
    """The moves, of those that are faster by the clocks, that the simulator confirms, with its results."""
    simulation = document.simulation
    confirmed: set[tuple[int, int]] = set()
    for clocks, move in sorted(judged, key=lambda entry: (entry[0], *_unlikely(written, entry[1]))):
        if simulation is None or clocks in confirmed or len(confirmed) == most:
            continue  # another move does the same
        pause()
        confirmed.add(clocks)
        body = tuple(written.function.body[number] for number in move.order(len(written.function.body)))
        edits = rewritten(document.program.syntax, written, body)
        after = simulated_after(document, edits)
        if after is None or after.latency_s * LEAST_GAIN > simulation.latency_s or _overflows(simulation, after):
            continue
        yield move, edits, after


def simulated_after(document: Document, edits: Sequence[Edit]) -> Simulation | None:
    """The simulation of the text after edits; None where there are none, or it cannot be simulated then."""
    return document.edited(applied(document.text, edits), document.version).simulation if edits else None


def saved(before: Simulation, after: Simulation) -> dict[int, int]:
    """By device: the bytes by which the peak is lower, where it changes; one device for each memory."""
    found: dict[int, int] = {}
    seen: set[int] = set()
    for device, use in before.devices.items():
        memory = before.memory_of(device)
        if memory in seen or device not in after.devices:
            continue
        seen.add(memory)
        change = use.peak_memory_bytes - after.devices[device].peak_memory_bytes
        if change:
            found[device] = change
    return found


def _start(document: Document, written: FunctionSyntax) -> _Start | None:
    """The start of the shown call of a function; None if none is simulated."""
    found, name = facts(document), written.function.name
    known = found.remembered(_Known)
    if name not in known:
        occurrence = found.shown(name)
        if occurrence is None or occurrence.body is None or found.index is None:
            return None
        tasks = tasks_in(written.function, Timeline(occurrence.body))
        clocks = found.index.start(occurrence)
        before: Clocks = {device: clocks.get(of_device(device) or 0, 0.0) for device in tasks.devices}
        known[name] = _Start(tasks, before, occurrence.caller is None)
    return known[name]


def _candidates(tasks: Tasks, index: int) -> Iterator[Move]:
    """Moves of the statement, and of others past it, past neighbours on its devices: the nearest first."""
    first = max(tasks.before[index], default=-1) + 1
    last = min(tasks.after[index], default=len(tasks)) - 1
    yield from (Move((index,), other) for other in _near(tasks, index, range(index - 1, first - 1, -1)))
    yield from (Move((index,), other + 1) for other in _near(tasks, index, range(index + 1, last + 1)))
    for other in _near(tasks, index, range(index + 1, len(tasks))):
        if max(tasks.before[other], default=-1) < index:
            yield Move((other,), index)
    for other in _near(tasks, index, range(index - 1, -1, -1)):
        if min(tasks.after[other], default=len(tasks)) > index:
            yield Move((other,), index + 1)


def _groups(tasks: Tasks, index: int) -> Iterator[Move]:
    """The same for statements that cannot move alone: with what they need from there on, or what needs them."""
    for other in _near(tasks, index, range(index - 1, -1, -1)):
        yield from _together(tasks, index, other)
        yield from _together(tasks, other, index)
    for other in _near(tasks, index, range(index + 1, len(tasks))):
        yield from _together(tasks, index, other)
        yield from _together(tasks, other, index)


def _together(tasks: Tasks, moving: int, past: int) -> Iterator[Move]:
    """A statement moved past another one, with those in between on which it depends; None if it depends on that one."""
    up = past < moving
    bound = {moving}
    for number in range(moving - 1, past - 1, -1) if up else range(moving + 1, past + 1):
        ties = tasks.after[number] if up else tasks.before[number]
        if not bound.isdisjoint(ties):
            bound.add(number)
            if len(bound) > LARGEST_GROUP:
                return
    if past not in bound and len(bound) > 1:
        yield Move(tuple(sorted(bound)), past if up else past + 1)


def _near(tasks: Tasks, index: int, others: range) -> Iterator[int]:
    """Statements that share a device with one: moving past others changes no time."""
    devices = set(tasks.tasks[index].devices)
    found = 0
    for other in others:
        if not devices.isdisjoint(tasks.tasks[other].devices):
            yield other
            found += 1
            if found == NEIGHBOURS:
                return


def _judged(start: _Start, moves: list[Move]) -> Iterator[tuple[tuple[int, int], Move]]:
    """The moves that the devices' clocks say are faster, with these clocks then: the last one, and all in sum.

    In picoseconds: what differs by less is rounding.
    """
    if not moves:
        return
    tasks, progress = start.tasks, Progress(start.tasks, dict(start.clocks))
    first = min(min(move.sources[0], move.target) for move in moves)
    for number in range(first):
        progress.run(number)
    before = _reached(progress, range(first, len(tasks)))
    left = STEPS
    for move in dict.fromkeys(moves):
        left -= len(tasks) - first
        if left < 0:
            return
        after = _reached(progress, (number for number in move.order(len(tasks)) if number >= first))
        # a call that ends as late as before may let go of some devices sooner
        if after[0] * LEAST_GAIN < before[0] or (after < before and not start.is_entry):
            yield after, move


def _reached(progress: Progress, order: Iterable[int]) -> tuple[int, int]:
    after = progress.copy()
    for number in order:
        after.run(number)
    ends = [round(seconds * 1e12) for seconds in after.clocks.values()]
    return max(ends, default=0), sum(ends)


def _unlikely(written: FunctionSyntax, move: Move) -> tuple[int, int, bool]:
    """Of moves that gain the same, people make the smallest, and move what computes rather than what sends."""
    statement = written.function.body[move.sources[0]]
    sends = isinstance(statement, Apply) and statement.op in OPS and OPS[statement.op].communication is not None
    distance = move.sources[-1] - move.target if move.up else move.target - 1 - move.sources[0]
    return len(move.sources), distance, sends


def _title(written: FunctionSyntax, index: int, move: Move) -> str:
    body = written.function.body
    side, past = ("above", body[move.target]) if move.up else ("below", body[move.target - 1])
    leading, bound = (move.sources[-1], "what it needs") if move.up else (move.sources[0], "what needs it")
    beside = _called(past) if index in move.sources else f"this {_what(body[index])}"
    together = f" with {bound} ({len(move.sources) - 1} more)" if len(move.sources) > 1 else ""
    return f"move {_called(body[leading])}{together} {side} {beside}"


def _called(statement: Statement) -> str:
    name = next((n for n in results(statement) if n != DISCARD), None)
    return _what(statement) if name is None else f"`%{name}`"


def _what(statement: Statement) -> str:
    match statement:
        case Apply(_, op):
            return f"`{op}`"
        case Call(_, function):
            return f"call of `@{function}`"
        case _:
            return "`return`"


def _overflows(before: Simulation, after: Simulation) -> bool:
    """Whether a device has too little memory now that had enough before."""
    return any(
        use.peak_memory_bytes > max(use.capacity_bytes, before.devices[device].peak_memory_bytes)
        for device, use in after.devices.items()
        if device in before.devices
    )
