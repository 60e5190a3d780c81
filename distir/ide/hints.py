"""Inlay hints: types that are not written, known values, when each op runs, what devices wait.

Only the requested range is computed: a range costs its own statements and their neighbours, whatever the size of the
file. Types are behind their names, times in one column of each function. How long they may be, and where they stand,
is `hint_layout`'s; the full form is in the tooltip.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from distir.config import Hints
from distir.cost import show_seconds
from distir.diagnostics import Span
from distir.ide.compact import ELIDED, compact, counted, in_full, says_something, shortened
from distir.ide.edits import Edit
from distir.ide.hint_layout import Hint, HintKind, TimeColumn, fitted, placed, shown_type, time_column
from distir.ide.hover import stale_note
from distir.ide.hover_ops import run, signature_here
from distir.ide.hover_values import about_value, shown_for
from distir.ide.instances import View
from distir.ide.markdown import block, code, items, paragraphs
from distir.ide.placements import Shown, as_given, as_shown, placed_before
from distir.ide.repeated import repeated
from distir.ide.staleness import MARK
from distir.ide.start_scales import StartScales
from distir.ir import DISCARD, UNKNOWN, Apply, Call, Dense, Function, Part, Site, TensorType, Type, types
from distir.ops import Value, type_of
from distir.simulate.show import show_value
from distir.syntax import FunctionSyntax
from distir.syntax.tokens import NAME

WIDEST_VALUE = 26

WIDEST_TIME = len("+21.8us")
"""How long an op takes has this room, so that starts are in one column."""

MOST_LISTED = 40
"""A tooltip lists at most this many results."""

NO_LIMIT = 1 << 30

MOST_TIMES = 1_000
"""Of statements that are done more often, the time is shown all together."""

MOST_ALIGNED = 200
"""So many statements of a function decide in which column its times stand, at equal distances in its text."""

PARAMETER = -1
"""In the place of a statement's number: a parameter of the function."""


def hints(view: View, span: Span, wanted: Hints, placements: Shown = "changes") -> list[Hint]:
    """The hints of the lines that a piece of the text touches, in the order of the text.

    `placements`: of which values on a mesh types say where their parts are.
    """
    syntax = view.document.program.syntax
    text = syntax.source.text
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.end)
    end = len(text) if end < 0 else end
    found: list[Hint] = []
    for written in _functions(view, start, end):
        if written.function is not view.document.program.module.functions.get(written.function.name):
            continue  # a second function of that name: it has no analysis
        if wanted.types and written.head.start <= end and start <= written.head.end:
            head = Span(max(start, written.head.start), min(end, written.head.end))
            found += _parameters(view, written, head, wanted, placements)
        found += _statements(view, written, start, end, wanted, placements)
    return found


def tooltip(view: View, function_name: str, kind: HintKind, index: int, part: int, count: int = 1) -> str | None:
    """The full form of a hint, as markdown; None if what it was about is gone."""
    function = view.document.program.module.functions.get(function_name)
    if function is None or index >= len(function.body):
        return None
    note = stale_note(view, function_name)
    if index == PARAMETER:
        said = about_value(view, function, function.params[part].name, 0) if part < len(function.params) else None
        return said and paragraphs([said, note])
    statement = function.body[index]
    if not isinstance(statement, (Apply, Call)) or part >= len(statement.results):
        return None
    if kind in ("type", "value", "placement"):
        names = [name for name in statement.results[part : part + count] if name != DISCARD]
        said = (
            about_value(view, function, names[0], index + 1) if len(names) == 1 else _all_types(view, function, names)
        )
        return said and paragraphs([said, note])
    callee = view.document.program.module.functions.get(statement.function) if isinstance(statement, Call) else None
    if isinstance(statement, Apply) or (callee is not None and callee.kernel):
        return paragraphs([block(signature_here(view, function, statement)), items(run(view, function, index)), note])
    moment = view.moment(function, index)
    said = f"{code('@' + statement.function)}: {moment}" if moment is not None else ""
    return paragraphs([block(signature_here(view, function, statement)), said, shown_for(view, function), note])


def inserted(view: View, function_name: str, index: int, part: int, count: int = 1) -> tuple[Edit, ...]:
    """The text that accepting a type hint inserts after names: full types; empty if they must not be written."""
    function = view.document.program.module.functions.get(function_name)
    written = view.document.program.syntax.by_name.get(function_name)
    if function is None or written is None or not 0 <= index < len(function.body):
        return ()
    statement = function.body[index]
    own = view.document.program.analysis.domain.own.get(function_name)
    if not isinstance(statement, (Apply, Call)) or own is None:
        return ()
    edits: list[Edit] = []
    offset = written.starts[index]
    for number, name in enumerate(statement.results):
        if name == DISCARD:
            continue
        offset = _after_name(view, name, offset, written.ends[index])
        found = type_of(own.state[name])
        has_claim = bool(statement.claims) and statement.claims[number] is not None
        if part <= number < part + count and not has_claim and _says_all(found):
            edits.append(Edit(Span(offset, offset), f": {found}"))
    return tuple(edits)


def _all_types(view: View, function: Function, names: Sequence[str]) -> str:
    """The types of several results."""
    lines = [f"%{name}: {in_full(type_of(view.value(function.name, name)))}" for name in names[:MOST_LISTED]]
    more = len(names) - MOST_LISTED
    return paragraphs([block("\n".join(lines)), f"and {more} more" if more > 0 else ""])


def _functions(view: View, start: int, end: int) -> Iterator[FunctionSyntax]:
    """The functions whose text meets the piece from `start` to `end`."""
    functions = view.document.program.syntax.functions
    low, high = 0, len(functions)
    while low < high:
        middle = (low + high) // 2
        if functions[middle].span.end < start:
            low = middle + 1
        else:
            high = middle
    while low < len(functions) and functions[low].span.start <= end:
        yield functions[low]
        low += 1


# ---- parameters


_UNTYPED = re.compile(rf"%({NAME})(?=\s*(?:\{{[^}}\n]*\}}\s*)?[,)])")


def _parameters(view: View, written: FunctionSyntax, head: Span, wanted: Hints, placements: Shown) -> list[Hint]:
    """Types of the parameters that state none, in a piece of a function's head: all of a line share its room."""
    function = written.function
    text = view.document.program.source.text
    if not any(param.type == UNKNOWN for param in function.params):
        return []
    numbers = {param.name: number for number, param in enumerate(function.params)}
    lines: dict[int, list[Hint]] = {}
    for match in _UNTYPED.finditer(text, head.start, head.end):
        number = numbers.get(match[1])
        if number is None or any(a <= match.start() < b for a, b in written.comments if a < head.end):
            continue
        found = type_of(view.value(function.name, match[1]))
        if says_something(found):
            is_old = view.is_known_then(function.name, match[1])
            found = as_given(view, found, placements)
            forms = [shown_type(form, False, is_old) for form in (compact(found), shortened(found), ELIDED)]
            hint = Hint(match.end(1), forms[0], "type", function.name, PARAMETER, number, 1, tuple(forms[1:]))
            lines.setdefault(text.rfind("\n", 0, match.start()), []).append(hint)
    return list(chain.from_iterable(fitted(line, wanted.length or NO_LIMIT) for line in lines.values()))


# ---- statements


def _statements(
    view: View, written: FunctionSyntax, start: int, end: int, wanted: Hints, placements: Shown
) -> Iterator[Hint]:
    text = view.document.program.source.text
    times = StartScales(view)
    column = _column(view, written, wanted, placements, times)
    index = _first_statement(written, start)
    most = wanted.length or NO_LIMIT
    previous_end, room = -1, most
    while index < len(written.starts) and written.starts[index] <= end:
        first, last = written.starts[index], written.ends[index]
        if is_next_line := previous_end < 0 or text.find("\n", previous_end, first) >= 0:
            room = most
        found = fitted(list(_of_statement(view, written, index, wanted, placements, times)), room)
        room -= sum(len(hint.label) for hint in found)
        own = column if is_next_line and not _shares_line(text, written, index) else TimeColumn(0)
        laid = placed(found, text, partial(_after_first, view, written, index), own)
        each = _each_time(view, written, index, column) if wanted.times else []
        yield from sorted([*laid, *each], key=lambda hint: hint.offset)
        previous_end = last
        index += 1


def _shares_line(text: str, written: FunctionSyntax, index: int) -> bool:
    """Whether another statement begins in the line where this one ends."""
    return index + 1 < len(written.starts) and text.find("\n", written.ends[index], written.starts[index + 1]) < 0


@dataclass(slots=True)
class _Columns:
    """Where times stand, by function, first event of the call shown, number of statements, and what hints show."""

    known: dict[tuple[str, int, int, Hints, Shown], TimeColumn] = field(
        default_factory=dict[tuple[str, int, int, Hints, Shown], TimeColumn]
    )


def _column(view: View, written: FunctionSyntax, wanted: Hints, placements: Shown, times: StartScales) -> TimeColumn:
    """Where the times of a function stand. It is found once for a simulation: while a user types, times stay there."""
    occurrence = view.shown(written.function.name)
    if occurrence is None or view.simulated is None or not (wanted.times or wanted.waits):
        return TimeColumn(0)
    known = view.simulated.remembered(_Columns).known
    key = (written.function.name, occurrence.first_event, len(written.starts), wanted, placements)
    if key not in known:
        statements = (
            (
                fitted(list(_of_statement(view, written, index, wanted, placements, times)), wanted.length or NO_LIMIT),
                partial(_after_first, view, written, index),
            )
            for index in range(0, len(written.starts), max(1, -(-len(written.starts) // MOST_ALIGNED)))
        )
        known[key] = time_column(statements, view.document.program.source.text, wanted.columns)
    return known[key]


def _first_statement(written: FunctionSyntax, offset: int) -> int:
    """The first statement that ends at an offset or after it."""
    low, high = 0, len(written.ends)
    while low < high:
        middle = (low + high) // 2
        if written.ends[middle] < offset:
            low = middle + 1
        else:
            high = middle
    return low


def _of_statement(
    view: View, written: FunctionSyntax, index: int, wanted: Hints, placements: Shown, times: StartScales
) -> Iterator[Hint]:
    function = written.function
    statement = function.body[index]
    if not isinstance(statement, (Apply, Call)):
        return
    end = written.ends[index]
    shown = _known_values(view, function, statement) if wanted.values else {}
    if wanted.types:
        for results in _equal_types(view, written, index, statement, shown.keys(), placements):
            yield results.hint(function.name, index)
    if shown:
        mark = MARK if any(view.is_known_then(function.name, statement.results[part]) for part in shown) else " "
        label = f"={mark}{', '.join(shown.values())}"
        yield Hint(end, label, "value", function.name, index, next(iter(shown)), 1, (f"={mark}{ELIDED}",), 1)
    if wanted.sequential:
        yield from _sequential(view, function, index, statement, end)
    sign = MARK if view.is_stale else ""
    if wanted.times and (moment := view.moment(function, index)) is not None:
        seconds = f"{sign or '+'}{show_seconds(moment.seconds)}"
        label = f"{seconds:<{WIDEST_TIME}} @{times.start(function.name, moment, sign)}"
        yield Hint(end, label, "time", function.name, index, 0, 1, (f"{seconds}{ELIDED}",))
    idle = [idle for idle in view.idle(function, index) if not idle.stream] if wanted.waits else []
    if (waited := max((each.seconds for each in idle), default=0.0)) > 0.0:
        word = "host-bound" if any(each.host for each in idle) else "wait"
        label = f"{word}{sign or ' '}{show_seconds(waited)}"
        yield Hint(end, label, "wait", function.name, index, 0, 1, (f"{word}{ELIDED}",))


def _each_time(view: View, written: FunctionSyntax, index: int, column: TimeColumn) -> list[Hint]:
    """The times of several statements that are written as one: of each, all times together."""
    inner = repeated(view.document.program.syntax, written, index)
    text = view.document.program.source.text
    found: list[Hint] = []
    for one in inner if len(inner) > 1 and inner[0].times <= MOST_TIMES else ():
        moments = [moment for i in one.indices if (moment := view.moment(one.function, i)) is not None]
        if moments:
            seconds = f"{MARK if view.is_stale else '+'}{show_seconds(sum(moment.seconds for moment in moments))}"
            label, end = f"{seconds:<{WIDEST_TIME}} in {one.times}", one.span.end
            hint = Hint(end, label, "time", one.function.name, one.index, 0, 1, (f"{seconds}{ELIDED}",))
            results = text.find(" = ", one.span.start, end)
            found += placed([hint], text, lambda after=results if results > 0 else end: after, column)
    return found


def _sequential(view: View, function: Function, index: int, statement: Apply | Call, end: int) -> Iterator[Hint]:
    """What results are of the sequential program's, each once."""
    said = [view.placement(function.name, name) for name in statement.results if name != DISCARD]
    found = list(dict.fromkeys(each.replace("`", "") for each in said if each))
    if found:
        label = f"≡ {'; '.join(found)}"
        count = len(statement.results)
        shorter = (f"≡ {found[0]}{ELIDED}", f"≡ {ELIDED}")
        yield Hint(end, label, "placement", function.name, index, 0, count, shorter, 1)


@dataclass(slots=True)
class _Run:
    """Results that follow each other and have one type."""

    found: Type
    whole: str
    """The word for what has become whole on each device of a mesh; else empty."""
    claim: Type | None
    is_known_then: bool
    part: int
    offset: int
    count: int = field(default=1)

    def is_continued(self, next_one: _Run) -> bool:
        """Whether a result is the next one of these."""
        same = (self.found, self.whole, self.claim, self.is_known_then) == (
            next_one.found,
            next_one.whole,
            next_one.claim,
            next_one.is_known_then,
        )
        return same and self.part + self.count == next_one.part

    def hint(self, function: str, index: int) -> Hint:
        """One hint for all of them, after the last one."""
        short = shortened(self.found) if self.count == 1 else f"{self.count}×{shortened(self.found)}"
        full = counted(self.found, self.count)
        texts = [f"{form}{self.whole}" for form in (full, short)]
        forms = [shown_type(text, self.claim is not None, self.is_known_then) for text in texts]
        return Hint(self.offset, forms[0], "type", function, index, self.part, self.count, tuple(forms[1:]))


def _equal_types(
    view: View,
    written: FunctionSyntax,
    index: int,
    statement: Apply | Call,
    others: Container[int],
    placements: Shown,
) -> Iterator[_Run]:
    """The types of a statement's results that are not written, equal neighbours together; `others`: parts without."""
    function, end = written.function, written.ends[index]
    offset = written.starts[index]
    run: _Run | None = None
    before = placed_before(view, function, statement)
    for part, name in enumerate(statement.results):
        if name == DISCARD:
            continue
        offset = _after_name(view, name, offset, end)
        if offset == written.starts[index]:
            return  # results in a counted statement, which are written together
        claim = statement.claims[part] if statement.claims else None
        found = type_of(view.value(function.name, name))
        if part in others or found == claim or not says_something(found):
            continue
        at = offset if claim is None else _after_claim(view, function, index, part, offset)
        is_old = view.is_known_then(function.name, name)
        next_one = _Run(*as_shown(view, before, found, placements), claim, is_old, part, at)
        if run is not None and run.is_continued(next_one):
            run.count, run.offset = run.count + 1, at
            continue
        if run is not None:
            yield run
        run = next_one
    if run is not None:
        yield run


def _known_values(view: View, function: Function, statement: Apply | Call) -> dict[int, str]:
    """By number, the results whose values are known and short, and these; those of a `Constant` are written already."""
    if isinstance(statement, Apply) and statement.op == "Constant":
        return {}
    found = {p: _shown(view.value(function.name, n)) for p, n in enumerate(statement.results) if n != DISCARD}
    return {part: shown for part, shown in found.items() if shown is not None}


def _shown(value: Value) -> str | None:
    """A known value in few characters; None for others."""
    shown = show_value(value) if isinstance(value, Dense) else None
    return shown if shown is not None and len(shown) <= WIDEST_VALUE else None


def _says_all(found: Type) -> bool:
    """Whether a type may be written into the text as it is."""
    return all(
        isinstance(leaf, TensorType) and leaf.dtype is not None and leaf.shape is not None and None not in leaf.shape
        for leaf in types.leaves(found)
    )


# ---- places


def _after_first(view: View, written: FunctionSyntax, index: int) -> int:
    """The offset after a statement's first result and its annotation."""
    statement, start = written.function.body[index], written.starts[index]
    if not isinstance(statement, (Apply, Call)) or not statement.results:
        return start
    name = statement.results[0]
    offset = start + 1 if name == DISCARD else _after_name(view, name, start, written.ends[index])
    if statement.claims and statement.claims[0] is not None:
        return _after_claim(view, written.function, index, 0, offset)
    return offset


def _after_name(view: View, name: str, start: int, end: int) -> int:
    """The offset after a result's name, which is at `start` or after it."""
    text = view.document.program.source.text
    word = f"%{name}"
    at = text.find(word, start, end)
    while at >= 0 and at + len(word) < end and (text[at + len(word)].isalnum() or text[at + len(word)] in "_.-"):
        at = text.find(word, at + 1, end)
    return at + len(word) if at >= 0 else start


def _after_claim(view: View, function: Function, index: int, part: int, offset: int) -> int:
    span = view.document.program.syntax.source_map(Site(function.name, index, Part("claim", part)))
    return span.end if span is not None else offset
