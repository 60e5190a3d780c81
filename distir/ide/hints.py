"""Inlay hints: types that are not written, known values, when each op runs, what devices wait.

Only what is asked for is looked at: a range costs its own statements, whatever the size of the file. An editor cuts the
hints of a line at `MOST_CHARACTERS`, so no line gets more; the full form is in the tooltip.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from distir.config import Hints
from distir.cost import show_seconds
from distir.diagnostics import Span
from distir.ide.compact import compact, says_something, shortened
from distir.ide.hover_ops import run, signature_here
from distir.ide.hover_values import about_value, shown_for
from distir.ide.instances import View
from distir.ide.markdown import block, code, items, paragraphs
from distir.ir import DISCARD, UNKNOWN, Apply, Call, Dense, Function, Part, Site, TensorType, Type, types
from distir.ops import Value, type_of
from distir.simulate.show import Moment, show_value
from distir.syntax import FunctionSyntax
from distir.syntax.tokens import NAME

MOST_CHARACTERS = 43
"""VS Code shows no more characters of hints in one line (`editor.inlayHints.maximumLength`)."""

WIDEST_VALUE = 26

Kind = Literal["type", "value", "time", "wait"]

PARAMETER = -1
"""In the place of a statement's number: a parameter of the function."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A text shown at an offset. `index` and `part`: the statement, and which of its results (or which parameter)."""

    offset: int
    label: str
    kind: Kind
    function: str
    index: int
    part: int = 0
    short: str = ""
    """What to show where there is no room for the label."""


def hints(view: View, span: Span, kinds: Hints) -> list[Hint]:
    """The hints of the lines that a piece of the text touches, in the order of the text."""
    syntax = view.document.program.syntax
    text = syntax.source.text
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.end)
    end = len(text) if end < 0 else end
    found: list[Hint] = []
    for written in _functions(view, start, end):
        if written.function is not view.document.program.module.functions.get(written.function.name):
            continue  # a second function of that name: it has no analysis
        if kinds.types and written.head.start <= end and start <= written.head.end:
            found += _parameters(view, written, max(start, written.head.start), min(end, written.head.end))
        found += _statements(view, written, start, end, kinds)
    return found


def tooltip(view: View, function_name: str, kind: Kind, index: int, part: int) -> str | None:
    """The full form of a hint, as markdown; None if what it was about is gone."""
    function = view.document.program.module.functions.get(function_name)
    if function is None or index >= len(function.body):
        return None
    if index == PARAMETER:
        return about_value(view, function, function.params[part].name, 0) if part < len(function.params) else None
    statement = function.body[index]
    if not isinstance(statement, (Apply, Call)) or part >= len(statement.results):
        return None
    if kind in ("type", "value"):
        return about_value(view, function, statement.results[part], index + 1)
    if isinstance(statement, Apply):
        return paragraphs([block(signature_here(view, function, statement)), items(run(view, function, index))])
    moment = view.moment(function, index)
    said = f"{code('@' + statement.function)}: {moment}" if moment is not None else ""
    return paragraphs([block(signature_here(view, function, statement)), said, shown_for(view, function)])


def inserted(view: View, function_name: str, index: int, part: int) -> str | None:
    """What accepting a type hint writes behind the name: the type in full; None where it must not be written."""
    function = view.document.program.module.functions.get(function_name)
    if function is None or not 0 <= index < len(function.body):
        return None
    statement = function.body[index]
    if not isinstance(statement, (Apply, Call)) or part >= len(statement.results):
        return None
    own = view.document.program.analysis.domain.own.get(function_name)
    found = type_of(own.state[statement.results[part]]) if own is not None else UNKNOWN
    has_claim = bool(statement.claims) and statement.claims[part] is not None
    return f": {found}" if not has_claim and _says_all(found) else None


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


_UNTYPED = re.compile(rf"%({NAME})(?=\s*(?:\{{[^}}\n]*\}}\s*)?[,)])")


def _parameters(view: View, written: FunctionSyntax, start: int, end: int) -> Iterator[Hint]:
    """Types of the parameters that state none, in a piece of a function's head."""
    function = written.function
    text = view.document.program.source.text
    if not any(param.type == UNKNOWN for param in function.params):
        return
    numbers = {param.name: number for number, param in enumerate(function.params)}
    left = {0: MOST_CHARACTERS}
    for match in _UNTYPED.finditer(text, start, end):
        number = numbers.get(match[1])
        if number is None or any(a <= match.start() < b for a, b in written.comments if a < end):
            continue
        value = view.value(function.name, match[1])
        found = type_of(value)
        if not says_something(found):
            continue
        line = text.rfind("\n", 0, match.start())
        room = left.setdefault(line, MOST_CHARACTERS)
        label = next((f": {t}" for t in (compact(found), shortened(found)) if len(t) + 2 <= room), None)
        if label is not None:
            left[line] = room - len(label)
            yield Hint(match.end(1), label, "type", function.name, PARAMETER, number)


def _statements(view: View, written: FunctionSyntax, start: int, end: int, kinds: Hints) -> Iterator[Hint]:
    text = view.document.program.source.text
    index = _first_statement(written, start)
    previous_end, room = -1, MOST_CHARACTERS
    while index < len(written.starts) and written.starts[index] <= end:
        first, last = written.starts[index], written.ends[index]
        if previous_end >= 0 and text.find("\n", previous_end, first) >= 0:
            room = MOST_CHARACTERS
        made = _fitted(list(_of_statement(view, written, index, kinds)), room)
        room -= sum(len(hint.label) for hint in made)
        yield from made
        previous_end = last
        index += 1


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


def _of_statement(view: View, written: FunctionSyntax, index: int, kinds: Hints) -> Iterator[Hint]:
    function = written.function
    statement = function.body[index]
    if not isinstance(statement, (Apply, Call)):
        return
    end = written.ends[index]
    is_constant = isinstance(statement, Apply) and statement.op == "Constant"
    offset = written.starts[index]
    values: list[tuple[int, str]] = []
    for part, name in enumerate(statement.results):
        if name == DISCARD:
            continue
        offset = _after_name(view, name, offset, end)
        value = view.value(function.name, name)
        shown = _shown(value) if kinds.values and not is_constant else None
        claim = statement.claims[part] if statement.claims else None
        if shown is not None:
            values.append((part, shown))
        elif kinds.types:
            found = type_of(value)
            if found != claim and says_something(found):
                at = offset if claim is None else _after_claim(view, function, index, part, offset)
                colon = ": " if claim is None else " "
                label, short = f"{colon}{compact(found)}", f"{colon}{shortened(found)}"
                yield Hint(at, label, "type", function.name, index, part, short)
    if values:
        label = ", ".join(shown for _, shown in values)
        yield Hint(end, f"= {label}", "value", function.name, index, values[0][0])
    if kinds.times and (moment := view.moment(function, index)) is not None:
        yield Hint(end, when(moment), "time", function.name, index)
    if kinds.waits and (seconds := _waited(view, function, index)) > 0.0:
        yield Hint(end, f"wait {show_seconds(seconds)}", "wait", function.name, index)


def when(moment: Moment) -> str:
    """`+12.4us @318us`: how long, and from when."""
    return f"+{show_seconds(moment.seconds)} @{show_seconds(moment.start)}"


def _waited(view: View, function: Function, index: int) -> float:
    """The longest time that a device idles before an op."""
    return max((idle.seconds for idle in view.idle(function, index)), default=0.0)


def _fitted(found: list[Hint], room: int) -> list[Hint]:
    """The hints that have room on their line: types without dimensions first, then without waits, values, types."""

    def total() -> int:
        return sum(len(hint.label) for hint in found)

    for position in sorted(range(len(found)), key=lambda i: -len(found[i].label)):
        if total() <= room:
            return found
        if found[position].short:
            found[position] = replace(found[position], label=found[position].short, short="")
    for kind in ("wait", "value", "type", "time"):
        for position in range(len(found) - 1, -1, -1):
            if total() <= room:
                return found
            if found[position].kind == kind:
                del found[position]
    return found


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


def _after_name(view: View, name: str, start: int, end: int) -> int:
    """The offset after a result's name, which stands at `start` or after it."""
    text = view.document.program.source.text
    word = f"%{name}"
    at = text.find(word, start, end)
    while at >= 0 and at + len(word) < end and (text[at + len(word)].isalnum() or text[at + len(word)] in "_.-"):
        at = text.find(word, at + 1, end)
    return at + len(word) if at >= 0 else start


def _after_claim(view: View, function: Function, index: int, part: int, offset: int) -> int:
    span = view.document.program.syntax.source_map(Site(function.name, index, Part("claim", part)))
    return span.end if span is not None else offset
