"""When things run: moves past independent neighbours that the simulator finds faster, and recomputing what is kept.

Moves are first judged by the devices' clocks alone, which is quick; what seems faster is then simulated as the editor
would simulate the changed text. Only what that confirms is offered, in the entry function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from distir.cost import show_bytes, show_seconds
from distir.diagnostics import Span
from distir.ide.actions.core import REWRITE, Action, namer, renamed_in, statement_at
from distir.ide.document import Document
from distir.ide.edits import Edit, applied, before_statement, rewritten
from distir.ir import DISCARD, Apply, Call, Return, Statement, names, operands, results
from distir.ops import OPS
from distir.simulate.simulation import Simulation
from distir.syntax import FunctionSyntax
from distir.transform.operands import with_operands
from distir.transform.rescheduling.tasks import Tasks, tasks_of

LEAST_GAIN = 1.01
"""How many times faster a program must be for a move to be offered."""

STEPS = 200_000
"""How many statements are run through, in all, to judge moves."""

NEIGHBOURS = 12
"""How many statements on each side are tried as neighbours to move past."""

CONFIRMED = 2
"""How many of the most promising moves are simulated."""

RECOMPUTED = 3
"""How many operands are tried for recomputing."""

Move = tuple[int, int]
"""A statement and where it goes: before the statement of that number."""

_known: WeakKeyDictionary[Simulation, Tasks] = WeakKeyDictionary()


def faster_moves(document: Document, span: Span) -> Iterator[Action]:
    """Moves of the statement at a place, or of its neighbours past it, that make the program faster."""
    chosen = _in_entry(document, span)
    simulation = document.simulation
    if chosen is None or simulation is None:
        return
    written, index = chosen
    tasks = _known.get(simulation)
    if tasks is None:
        tasks = _known[simulation] = tasks_of(simulation)
    if index >= len(tasks):
        return
    judged = list(_judged(tasks, list(_candidates(tasks, index)), simulation.latency_s))
    told: set[int] = set()
    for latency, move in sorted(judged, key=lambda entry: (_rounded(entry[0]), *_unlikely(written, *entry[1]))):
        if _rounded(latency) in told or len(told) == CONFIRMED:
            continue  # another move does the same
        told.add(_rounded(latency))
        edits = rewritten(document.program.syntax, written, _moved(written.function.body, move))
        after = _simulated(document, edits)
        if after is None or after.latency_s * LEAST_GAIN > simulation.latency_s or _overflows(simulation, after):
            continue
        gain = simulation.latency_s / after.latency_s
        more = [f", {show_bytes(-n)} more on device {d}" for d, n in _saved(simulation, after).items() if n < 0]
        yield Action(f"{_title(written, index, move)}: {gain:.2f}x faster{''.join(more)}", REWRITE, edits)


def recomputations(document: Document, span: Span) -> Iterator[Action]:
    """Compute operands of the statement at a place again instead of keeping them, where that saves memory."""
    chosen = _in_entry(document, span)
    simulation = document.simulation
    if chosen is None or simulation is None:
        return
    written, index = chosen
    body = written.function.body
    made = {name: i for i, statement in enumerate(body[:index]) for name in results(statement) if name}
    tried = 0
    for name in dict.fromkeys(names(operands(body[index]))):
        at = made.get(name)
        if at is None or tried >= RECOMPUTED or not _is_kept(body, name, at, index):
            continue
        tried += 1
        edits = tuple(_again(document, written, name, at, index))
        after = _simulated(document, edits)
        saved = {} if after is None else _saved(simulation, after)
        if after is None or not saved or min(saved.values()) < 0:
            continue
        memory = ", ".join(f"{show_bytes(n)} less on device {device}" for device, n in saved.items())
        change = after.latency_s - simulation.latency_s
        time = "no longer" if change <= 0 else f"{show_seconds(change)} longer"
        yield Action(f"recompute `%{name}` here instead of keeping it: {memory}, {time}", REWRITE, edits)


def _in_entry(document: Document, span: Span) -> tuple[FunctionSyntax, int] | None:
    chosen = statement_at(document, span)
    if chosen is None or document.entry is None or chosen[0].function is not document.entry:
        return None
    return chosen


def _simulated(document: Document, edits: Sequence[Edit]) -> Simulation | None:
    """The simulation of the text after edits."""
    return document.edited(applied(document.text, edits), document.version).simulation if edits else None


# ---- moves


def _candidates(tasks: Tasks, index: int) -> Iterator[Move]:
    """Moves of the statement, and of others past it, past neighbours on its devices: the nearest first."""
    first = max(tasks.before[index], default=-1) + 1
    last = min(tasks.after[index], default=len(tasks)) - 1
    yield from ((index, other) for other in _near(tasks, index, range(index - 1, first - 1, -1)))
    yield from ((index, other + 1) for other in _near(tasks, index, range(index + 1, last + 1)))
    for other in _near(tasks, index, range(index + 1, len(tasks))):
        if max(tasks.before[other], default=-1) < index:
            yield other, index
    for other in _near(tasks, index, range(index - 1, -1, -1)):
        if min(tasks.after[other], default=len(tasks)) > index:
            yield other, index + 1


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


def _judged(tasks: Tasks, moves: list[Move], latency: float) -> Iterator[tuple[float, Move]]:
    """The moves that the devices' clocks say are faster, with the latency then."""
    if not moves:
        return
    start = min(min(move) for move in moves)
    clocks = tasks.clocks()
    for number in range(start):
        tasks.tasks[number].run(clocks)
    left = STEPS
    for source, target in dict.fromkeys(moves):
        left -= len(tasks) - start
        if left < 0:
            return
        after = dict(clocks)
        for number in _order(len(tasks), start, source, target):
            tasks.tasks[number].run(after)
        reached = max(after.values(), default=0.0)
        if reached * LEAST_GAIN < latency:
            yield reached, (source, target)


def _order(size: int, start: int, source: int, target: int) -> Iterator[int]:
    for number in range(start, size):
        if number == target:
            yield source
        if number != source:
            yield number
    if target >= size:
        yield source


def _rounded(seconds: float) -> int:
    return round(seconds * 1e12)


def _unlikely(written: FunctionSyntax, source: int, target: int) -> tuple[int, bool]:
    """Of moves that gain the same, people make the shortest, and move what computes rather than what sends."""
    statement = written.function.body[source]
    sends = isinstance(statement, Apply) and statement.op in OPS and OPS[statement.op].communication is not None
    return (source - target if target <= source else target - 1 - source), sends


def _moved(body: tuple[Statement, ...], move: Move) -> tuple[Statement, ...]:
    source, target = move
    rest = [*body[:source], *body[source + 1 :]]
    rest.insert(target if target <= source else target - 1, body[source])
    return tuple(rest)


def _title(written: FunctionSyntax, index: int, move: Move) -> str:
    source, target = move
    body = written.function.body
    if source == index:
        past = body[target] if target < source else body[target - 1]
        return f"move {_called(body[source])} {'above' if target < source else 'below'} {_called(past)}"
    side = "above" if source > index else "below"
    return f"move {_called(body[source])} {side} this {_what(body[index])}"


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


# ---- recomputing


def _is_kept(body: tuple[Statement, ...], name: str, at: int, index: int) -> bool:
    """Whether a value waits from an earlier use for this one, and an op or call that no device waits for makes it."""
    statement = body[at]
    if isinstance(statement, Apply) and (statement.op not in OPS or OPS[statement.op].communication is not None):
        return False
    if isinstance(statement, Apply) and OPS[statement.op].view:
        return False
    return any(name in names(operands(body[i])) for i in range(at + 1, index))


def _again(document: Document, written: FunctionSyntax, name: str, at: int, index: int) -> list[Edit]:
    """The edits that compute a value once more above a statement, for it and those behind it."""
    body = written.function.body
    fresh = namer(written.function).fresh(f"{name}_again")
    statement = body[at]
    assert isinstance(statement, (Apply, Call))
    kept = tuple(fresh if n == name else DISCARD for n in statement.results)
    made = with_operands(replace(statement, results=kept), {})
    edits = list(before_statement(document.program.syntax, written, index, [made]))
    for later in range(index, len(body)):
        if name in names(operands(body[later])) and not isinstance(body[later], Return):
            edits += renamed_in(document, written, later, name, fresh)
    return edits


def _saved(before: Simulation, after: Simulation) -> dict[int, int]:
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
