"""The text of a program that was made of another one, with the comments of the other's text.

A comment goes with what it stands with: a function, a parameter, or a statement, which is known by the values that it
defines. Functions of the text keep their order, and those that stay as they were their canonical text. A statement
whose results are now called `%h_1` and `%h_2` in place of `%h`, or that is in another function, counts as left; where
there are several, the first one has the comments. Comments on anything that is gone are dropped, and reported.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from distir.ir import DISCARD, Apply, Function, Module, Statement, results
from distir.ir.dataflow import definitions
from distir.syntax import scan
from distir.syntax.core import Syntax
from distir.syntax.formatting import comment_text, format_function, items_of, param_ends
from distir.syntax.function import FunctionSyntax
from distir.syntax.printing import INDENT, head_parts, print_head, print_statement, unwritten

_SPACE = re.compile(r"\s*")
_NUMBERED = re.compile(r"(.+)[_.]\d+")

FRONT, OPENING, END, CLOSING = "front", "{", "end", "}"
"""What a comment belongs to, besides parameters (`%name`) and statements (by number)."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A text, and the comments that have no place in it: the function that they stood with, and their words."""

    text: str
    left_out: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Noted:
    """A comment: its function, the item that it is attached to, and whether it is above that or `behind` it."""

    function: str
    at: str | int
    comment: str
    behind: bool = False


@dataclass
class _Notes:
    """The comments of one function that is to be written, by what they stand with."""

    above: defaultdict[str | int, list[str]] = field(default_factory=lambda: defaultdict[str | int, list[str]](list))
    behind: defaultdict[str | int, list[str]] = field(default_factory=lambda: defaultdict[str | int, list[str]](list))


def carried(module: Module, syntax: Syntax) -> Carried:
    """The text of `module`, which was made of the program in `syntax`, with the comments there."""
    same = {f.name for f in module if f.name in syntax.by_name and syntax.by_name[f.name].function == f}
    places = _Places(module, syntax.module)
    notes: defaultdict[str, _Notes] = defaultdict(_Notes)
    left_out: list[tuple[str, str]] = []
    top: list[str] = []
    first = {f.function.name for f in syntax.functions[:1]} or {""}
    inside = (n for w in syntax.by_name.values() if w.function.name not in same for n in _inside(syntax, w))
    for noted in (*_around(syntax), *inside):
        place = places.find(noted.function, noted.at)
        if place is not None:
            here = notes[place[0]]
            (here.behind if noted.behind else here.above)[place[1]].append(noted.comment)
        elif noted.at == FRONT and noted.function in first:
            top.append(noted.comment)  # of the file, perhaps
        else:
            left_out.append((noted.function, noted.comment.rstrip()))
    counted = unwritten(module)
    texts = [
        _printed(f, notes[f.name], format_function(syntax, syntax.by_name[f.name]) if f.name in same else None, counted)
        for f in _in_order(module, syntax)
        if f.name not in counted
    ]
    text = "".join(f"{comment}\n" for comment in top) + "\n".join(texts)
    last = syntax.functions[-1].function.name if syntax.functions else ""
    return Carried(text + "".join(f"\n{c}\n" for c in notes[last].above[CLOSING]), tuple(left_out))


def _in_order(module: Module, syntax: Syntax) -> Iterable[Function]:
    """The functions, those that the text has in the order that they have there, unless that makes another the entry."""
    place = {written.function.name: number for number, written in enumerate(syntax.functions)}
    kept = iter(sorted((f for f in module if f.name in place), key=lambda f: place[f.name]))
    ordered = Module([next(kept) if f.name in place else f for f in module])
    return ordered if ordered.entry() == module.entry() else module


def _around(syntax: Syntax) -> Iterator[_Noted]:
    """The comments outside of functions: in front of the next one, or behind the one on whose last line they are.

    Below the last one they are above its `CLOSING`: at the end of the text.
    """
    text = scan.normalized(syntax.source.text)
    starts = [f.span.start for f in syntax.functions]
    for start, end in syntax.comments:
        comment = comment_text(syntax, start, end)
        number = bisect_right(starts, start)
        before = syntax.functions[number - 1] if number else None
        if not syntax.functions:
            yield _Noted("", FRONT, comment)
        elif before is not None and "\n" not in text[before.span.end : start]:
            yield _Noted(before.function.name, CLOSING, comment, behind=True)
        elif number == len(starts):
            yield _Noted(syntax.functions[-1].function.name, CLOSING, comment)
        else:
            gap = _SPACE.match(text, end)
            apart = gap is not None and gap[0].count("\n") > 1  # blank lines stay
            yield _Noted(syntax.functions[number].function.name, FRONT, comment + "\n" * apart)


def _inside(syntax: Syntax, written: FunctionSyntax) -> Iterator[_Noted]:
    """The comments from a function's `func` to its `}`."""
    text, name = scan.normalized(syntax.source.text), written.function.name
    params = written.function.params
    ends = param_ends(syntax, written) if any(start < written.head.end for start, _ in written.comments) else []
    for start, end in written.comments:
        if start < written.head.end:
            number = sum(first < start for first, _ in ends) - 1
            behind = number >= 0 and "\n" not in text[ends[number][1] : start]
            number += not behind
            at = f"%{params[number].name}" if number < len(params) else FRONT
            yield _Noted(name, at, comment_text(syntax, start, end), behind)
    last: str | int = OPENING
    last_end = written.head.end
    waiting: list[str] = []
    for place, start, end, number in items_of(written):
        if number is not None:
            yield from (_Noted(name, number, comment) for comment in waiting)
            last, last_end, waiting = number, end, []
        elif place == start and not waiting and "\n" not in text[last_end:start]:
            yield _Noted(name, last, comment_text(syntax, start, end), behind=True)
            last_end = end
        else:
            waiting.append(comment_text(syntax, start, end))
    yield from (_Noted(name, END, comment) for comment in waiting)


class _Places:
    """The items of the result that comments are attached to."""

    def __init__(self, module: Module, source: Module) -> None:
        self._module, self._source = module, source

    @cached_property
    def _there(self) -> Mapping[str, Mapping[str, int]]:
        return {f.name: definitions(f) for f in self._module}

    @cached_property
    def _before(self) -> Mapping[str, Mapping[str, int]]:
        return {f.name: definitions(f) for f in self._source}

    @cached_property
    def _owners(self) -> Counter[str]:
        return Counter(name for names in self._before.values() for name in names)

    @cached_property
    def _new(self) -> Mapping[str, list[tuple[str, int, str]]]:
        """By a name without its numbers: the statements that define such values, which were not there before."""
        found: defaultdict[str, list[tuple[str, int, str]]] = defaultdict(list)
        for function in self._module:
            for name, index in self._there[function.name].items():
                if name not in self._before.get(function.name, ()):
                    for shorter in without_numbers(name):
                        found[shorter].append((function.name, index, name))
        return found

    def find(self, function: str, at: str | int) -> tuple[str, str | int] | None:
        """The function in the result, and what of it; None for what is not there any more."""
        there = self._module.functions.get(function)
        if isinstance(at, str):
            if there is None:
                return None
            names = [f"%{p.name}" for p in there.params]
            wanted = [at] if not at.startswith("%") or at in names else [n for n in names if at in without_numbers(n)]
            return (function, wanted[0]) if wanted else None
        body = self._source.functions[function].body
        if not results(body[at]):
            return (function, len(there.body) - 1) if there is not None and there.body else None
        for name in results(body[at]):
            if name in self._there.get(function, ()):
                return function, self._there[function][name]
        found = (self._copy(function, name, body[at]) for name in results(body[at]) if name != DISCARD)
        return next((place for place in found if place is not None), None)

    def _copy(self, function: str, name: str, statement: Statement) -> tuple[str, int] | None:
        """The first statement that does the same for a value named so, but for numbers; in this function if it can be.

        Of several values that it may be a copy of, by its name, the others must do something else.
        """
        known = self._before[function]
        for wanted in (function, None) if self._owners[name] == 1 else (function,):
            for where, index, full in self._new.get(name, ()):
                if (wanted is None or where == wanted) and _alike(statement, self._module.functions[where].body[index]):
                    rivals = {known[n] for n in without_numbers(full) if n in known} - {known[name]}
                    if not any(_alike(statement, self._source.functions[function].body[rival]) for rival in rivals):
                        return where, index
        return None


def without_numbers(name: str) -> Iterator[str]:
    """`h_1.2`, `h_1`, `h`."""
    yield name
    while (match := _NUMBERED.fullmatch(name)) is not None:
        name = match[1]
        yield name


def _alike(one: Statement, other: Statement) -> bool:
    """Whether two statements do the same, on whatever values: functions are called by other names, perhaps."""
    if isinstance(one, Apply) and isinstance(other, Apply):
        return one.op == other.op
    return type(one) is type(other)


def _printed(function: Function, notes: _Notes, whole: str | None, counted: Mapping[str, Function]) -> str:
    """The text of a function with its comments; `whole`: as it is, but for what is around it.

    `counted`: functions that are written where they are called.
    """
    lines = list(notes.above[FRONT])
    if whole is None:
        lines += _head(function, notes)
        lines[-1] = _behind(lines[-1] + " {", notes, OPENING)
        for index, statement in enumerate(function.body):
            lines += [INDENT + comment for comment in notes.above[index]]
            lines.append(_behind(INDENT + print_statement(statement, counted), notes, index))
        lines += [INDENT + comment for comment in notes.above[END]]
        lines.append("}")
    else:
        lines.append(whole)
    return _behind("\n".join(lines), notes, CLOSING) + "\n"


def _head(function: Function, notes: _Notes) -> list[str]:
    """The head without its `{`; comments among the parameters ask for a line per parameter."""
    names = [f"%{param.name}" for param in function.params]
    if not any(notes.above[name] or notes.behind[name] for name in names):
        return [print_head(function)]
    start, params, end = head_parts(function)
    lines = [start]
    for number, (name, param) in enumerate(zip(names, params, strict=True), 1):
        lines += [INDENT + comment for comment in notes.above.pop(name, ())]  # of two parameters of a name, the first
        lines.append(_behind(INDENT + param + ("," if number < len(params) else ""), notes, name))
    return [*lines, end]


def _behind(line: str, notes: _Notes, at: str | int) -> str:
    """A line with the comments behind it; those that would follow one that ends with its line go above it."""
    comments = notes.behind.pop(at, [])
    ending = [c for c in comments if c.startswith("//")]
    inner = [c for c in comments if not c.startswith("//")]
    above = "".join(f"{line[: len(line) - len(line.lstrip())]}{c}\n" for c in ending[:-1])
    return above + " ".join([line, *inner, *ending[-1:]])
