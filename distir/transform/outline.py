"""Outlining: repeated sequences of statements become calls of one function.

Recovers the layers of an unrolled program, as importers write it. Sequences are equal if they have the same ops and
attributes, wired in the same way; names do not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distir.ir import (
    DISCARD,
    UNKNOWN,
    Apply,
    Arg,
    Call,
    Function,
    Literal,
    Module,
    Param,
    Return,
    Statement,
    names,
    operands,
    results,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.dataflow import uses
from distir.ir.rewrite import facts_of, shared, stated_with
from distir.transform.steps import step

PERIODS = 32
"""How many periods are tried: the most frequent distances between equal statements."""


@step(after=("inline", "fold", "dce", "reschedule"))
def outline(module: Module, smallest: int = 4) -> Module:
    """Outline consecutive repetitions of `smallest` or more statements as calls of a function."""
    taken = FunctionBuilder("")
    for name in module.functions:
        taken.fresh(name)
    functions: list[Function] = []
    for function in module:
        while not function.kernel and (found := _outlined(function, max(1, smallest), taken)) is not None:
            function, block = found
            functions.append(block)
        functions.append(function)
    return Module(functions)


def extracted(function: Function, start: int, count: int, taken: FunctionBuilder) -> tuple[Function, Function]:
    """The function with `count` statements from `start` on replaced by a call, and the callee.

    The callee's parameters have no types yet; `taken` holds the names of all functions.
    """
    body = [s for s in function.body if not isinstance(s, Return)]
    return _replaced(function, body, _Run(count, (start,)), uses(function), taken)


@dataclass(frozen=True, slots=True)
class _Run:
    """Windows of `period` statements that repeat: where each one starts."""

    period: int
    starts: tuple[int, ...]

    @property
    def saved(self) -> int:
        return (len(self.starts) - 1) * (self.period - 1)


def _outlined(function: Function, smallest: int, taken: FunctionBuilder) -> tuple[Function, Function] | None:
    """The function with one repetition outlined, and the new callee; None if nothing repeats."""
    body = [s for s in function.body if not isinstance(s, Return)]
    if len(body) < 2 * smallest or not all(isinstance(s, (Apply, Call)) for s in body):
        return None
    used = uses(function)
    best = max(_runs(body, smallest, used), key=lambda run: (run.saved, -run.period), default=None)
    if best is None or best.saved < 1:
        return None
    return _replaced(function, body, best, used, taken)


def _runs(body: Sequence[Statement], smallest: int, used: Mapping[str, Sequence[int]]) -> Iterator[_Run]:
    """Repetitions, found by the distance between equal statements."""
    keys = _keys(body)
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for index, key in enumerate(keys):
        if key in last:
            distances[index - last[key]] += 1
        last[key] = index
    for period, _ in distances.most_common(PERIODS):
        if period < smallest:
            continue
        start = 0
        while start + period < len(keys):
            end = start
            while end + period < len(keys) and keys[end] == keys[end + period]:
                end += 1
            if end - start >= period:
                yield from _best_phase(body, period, start, end + period, used)
            start = max(end, start + 1)


def _best_phase(
    body: Sequence[Statement], period: int, start: int, end: int, used: Mapping[str, Sequence[int]]
) -> Iterator[_Run]:
    """The windows with equal wiring, cut where the fewest values cross; none if outlining would not pay off."""
    found: list[tuple[int, int, _Run]] = []
    for phase in range(min(period, end - start - 2 * period + 1)):
        starts = range(start + phase, end - period + 1, period)
        wirings = {at: _wiring(body, at, period) for at in starts}
        common, _ = Counter(wirings.values()).most_common(1)[0]
        alike = tuple(at for at in starts if wirings[at] == common)
        found.append((-len(alike), _crossing(body, alike[0], period, used), _Run(period, alike)))
    _, crossing, run = min(found, key=lambda f: f[:2])
    if crossing <= period:
        yield run


def _keys(body: Sequence[Statement]) -> list[int]:
    """A number for each statement: equal for statements that differ in values' names alone."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(_key(statement), len(numbers)) for statement in body]


def _key(statement: Statement) -> tuple[object, ...]:
    args = tuple(map(_shape, operands(statement)))
    assert isinstance(statement, (Apply, Call))
    what = (statement.op, statement.attrs) if isinstance(statement, Apply) else (f"@{statement.function}",)
    return (*what, args, len(statement.results), statement.stream, statement.facts.phase, statement.facts.stage)


def _shape(arg: Arg) -> object:
    if isinstance(arg, tuple):
        return tuple(map(_shape, arg))
    return arg if isinstance(arg, Literal) or arg == DISCARD else "%"


def _wiring(body: Sequence[Statement], start: int, period: int) -> tuple[object, ...]:
    """By operand: which result of the window it is; all operands from outside count as equal."""
    inside = {n: (i, k) for i in range(period) for k, n in enumerate(results(body[start + i])) if n != DISCARD}
    return tuple(inside.get(name) for i in range(period) for name in names(operands(body[start + i])))


def _outputs(
    body: Sequence[Statement], start: int, period: int, used: Mapping[str, Sequence[int]]
) -> set[tuple[int, int]]:
    """The results of a window that are used outside it."""
    return {
        (i, k)
        for i in range(period)
        for k, name in enumerate(results(body[start + i]))
        if any(not start <= at < start + period for at in used.get(name, ()))
    }


def _inputs(body: Sequence[Statement], start: int, period: int) -> list[str]:
    """The operands of a window that come from outside, with repetitions."""
    inside = {n for i in range(period) for n in results(body[start + i])}
    mentioned = (name for i in range(period) for name in names(operands(body[start + i])))
    return [name for name in mentioned if name not in inside and name != DISCARD]


def _crossing(body: Sequence[Statement], start: int, period: int, used: Mapping[str, Sequence[int]]) -> int:
    return len(set(_inputs(body, start, period))) + len(_outputs(body, start, period, used))


def _replaced(
    function: Function, body: Sequence[Statement], run: _Run, used: Mapping[str, Sequence[int]], taken: FunctionBuilder
) -> tuple[Function, Function]:
    windows = [_inputs(body, start, run.period) for start in run.starts]
    # Operands that are the same value in every window are one parameter.
    mentions = list(zip(*windows, strict=True))
    columns = list(dict.fromkeys(mentions))
    outputs = sorted(set[tuple[int, int]]().union(*(_outputs(body, at, run.period, used) for at in run.starts)))
    name = taken.fresh("block")
    firsts = [{column[row]: column[0] for column in columns} for row in range(len(run.starts))]
    facts = [
        [replace(own, of=first.get(own.of, own.of)) for own in map(facts_of, body[at : at + run.period])]
        for at, first in zip(run.starts, firsts, strict=True)
    ]
    stated, called = shared(facts)
    window = [stated_with(s, facts) for s, facts in zip(body[run.starts[0] :], stated, strict=False)]
    block = _block(name, window, columns, outputs, mentions)
    whole: list[Statement] = []
    rows = {start: row for row, start in enumerate(run.starts)}
    index = 0
    while index < len(body):
        if index in rows:
            row = rows[index]
            args = tuple(column[row] for column in columns)
            given = tuple(_given(body[index + i], k, used) for i, k in outputs)
            whole.append(Call(given, name, args, facts=called[row]))
            index += run.period
        else:
            whole.append(body[index])
            index += 1
    ending = (Return(function.returned),)
    return replace(function, body=(*whole, *ending)), block


def _given(statement: Statement, result: int, used: Mapping[str, Sequence[int]]) -> str:
    name = results(statement)[result]
    return name if name in used else DISCARD


def _block(
    name: str,
    window: Sequence[Statement],
    columns: Sequence[tuple[str, ...]],
    outputs: Sequence[tuple[int, int]],
    mentions: Sequence[tuple[str, ...]],
) -> Function:
    """The function, with the names of the first window."""
    builder = FunctionBuilder(name)
    defined = {n for statement in window for n in results(statement) if n != DISCARD}
    for taken in defined:
        builder.fresh(taken)
    params = [Param(builder.fresh(column[0]), UNKNOWN) for column in columns]
    param_of = {column: param.name for column, param in zip(columns, params, strict=True)}
    parameters = {column[0]: name for column, name in param_of.items()}
    # Operands that are one value in the first window may be different values in another.
    order = iter([param_of[mention] for mention in mentions])

    def inside(arg: Arg) -> Arg:
        if isinstance(arg, tuple):
            return tuple(map(inside, arg))
        return next(order) if isinstance(arg, str) and arg not in defined and arg != DISCARD else arg

    body: list[Statement] = []
    for i, statement in enumerate(window):
        named = tuple(
            n or (builder.fresh("unused") if (i, k) in outputs else n) for k, n in enumerate(results(statement))
        )
        args = tuple(map(inside, operands(statement)))
        if isinstance(statement, (Apply, Call)):  # claims hold for one window; what is inferred holds for all
            facts = replace(statement.facts, of=parameters.get(statement.facts.of, statement.facts.of))
            body.append(replace(statement, results=named, args=args, claims=(), facts=facts))
    returned = tuple(results(body[i])[k] for i, k in outputs)
    return Function(name, tuple(params), (*body, Return(returned)))
