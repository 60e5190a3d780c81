"""The parser: cuts a text into functions and statements, reads each alone, keeps what can be read, never fails.

A line is first looked up among the templates; see there why. All else, comments, statements over several lines, new
skeletons and errors, goes the long way through `statements`.
"""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from distir.diagnostics import Code, Diagnostic, Source, Span
from distir.diagnostics.codes import syntax as codes
from distir.files import limits
from distir.ir import NO_FACTS, Apply, Broken, Call, Facts, Function, Return, Statement
from distir.ir.collection import paused_collection
from distir.ir.rewrite import facts_of
from distir.ir.rolling import with_counted
from distir.syntax import grammar, heads, scan
from distir.syntax.core import Syntax
from distir.syntax.function import FunctionSyntax
from distir.syntax.problems import TokenProblem
from distir.syntax.reuse import EarlierText, Prefix, ReusedPiece, Tail
from distir.syntax.statements import TOO_DEEP_MESSAGE, Abbreviation, Spelling, Words, defined, statement, words
from distir.syntax.templates import FACTS, Line, Template, template
from distir.syntax.tokens import NAME

_VALUE = re.compile(rf"%({NAME})")
_FUNC = re.compile(r"func\b")
_NEXT_FUNC = re.compile(r"^[ \t\f]*func\b", re.MULTILINE)

_LONGEST_LINE: Final = 2_000
"""Longer lines have no template: they hold constants, and hardly repeat."""
_LINES_KEPT: Final = 20_000

Skeleton = tuple[str, ...]
_lines: dict[Spelling | None, dict[Skeleton, Line]] = {}
_facts: dict[str, tuple[str, Facts]] = {}
"""By last piece of a line that ends in facts: the piece without them, and the facts."""


def parse(text: str, path: str = "<text>", spelling: Spelling | None = None, previous: Syntax | None = None) -> Syntax:
    """Read a text. Never raises, whatever the text: what cannot be read is among the diagnostics.

    `spelling` makes statements canonical; without it they stay as written. `previous`, an earlier version of the text,
    makes no difference but in time: functions that did not change are the same objects as there.
    """
    with paused_collection():
        return _Parser(text, path, spelling, previous).syntax()


def forget() -> None:
    """Empty the caches, as at the start of a process. For benchmarks."""
    _lines.clear()
    _facts.clear()
    grammar.forget()


class _Parser:
    def __init__(self, text: str, path: str, spelling: Spelling | None, previous: Syntax | None) -> None:
        self.source = Source(path, text)
        self.text = scan.normalized(text)
        is_usable = previous is not None and previous.spelling is spelling
        self.earlier = EarlierText(previous, self.text) if previous is not None and is_usable else None
        self.spelling = spelling
        self.diagnostics: list[Diagnostic] = []
        if len(_lines) > 16:
            _lines.clear()
        self.lines = _lines.setdefault(spelling, {})
        self.left = limits.meant(len(text))
        """How many more names and calls ranges and counted calls may mean."""
        self.counted = dict(previous.counted) if previous is not None and is_usable else {}
        """By name: what counted calls call; of the version before, too."""

    def syntax(self) -> Syntax:
        functions: list[FunctionSyntax] = []
        comments: scan.Comments = []
        text = self.text
        at = self.skip(0, comments)
        while at < len(text):
            if _FUNC.match(text, at):
                functions.append(self.function(at))
                at = functions[-1].span.end
            elif text[at] == "}":
                self.report(codes.STRAY_BRACE, at, at + 1, "this `}` closes nothing", "remove it")
                at += 1
            else:
                at = self.outside(at)
            at = self.skip(at, comments)
        first: dict[str, FunctionSyntax] = {}
        duplicates: list[tuple[str, Span, Span]] = []
        for function in functions:
            name = function.function.name
            kept = first.setdefault(name, function)
            if kept is not function and name:
                duplicates.append((name, kept.name, function.name))
        counted = self.called(function.function for function in first.values())
        return Syntax(
            source=self.source,
            module=with_counted([function.function for function in first.values()], counted),
            counted=counted,
            functions=tuple(functions),
            diagnostics=tuple(self.diagnostics),
            duplicates=tuple(duplicates),
            comments=tuple(comments),
            spelling=self.spelling,
        )

    def report(self, code: Code, start: int, end: int, message: str, help: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(code, Span(start, end), message, help=help))

    def called(self, functions: Iterable[Function]) -> dict[str, Function]:
        """What the counted calls of functions call."""
        if not self.counted:
            return {}
        names = {s.function for function in functions for s in function.body if isinstance(s, Call)}
        return {name: function for name, function in self.counted.items() if name in names}

    def note(self, found: Abbreviation) -> None:
        """Note what a statement means."""
        self.left -= found.size
        if found.function is not None:
            self.counted[found.function.name] = found.function

    def skip(self, start: int, comments: scan.Comments) -> int:
        """Past white space and comments; one that is not closed is reported."""
        known = len(comments)
        at = scan.skip(self.text, start, comments)
        self.check_comments(comments[known:])
        return at

    def check_comments(self, comments: scan.Comments) -> None:
        if comments and scan.is_unclosed(self.text, comments[-1]):
            start = comments[-1][0]
            self.report(codes.UNCLOSED_COMMENT, start, start + 2, "this comment never ends", "add `*/`")

    def outside(self, start: int) -> int:
        """Report the text up to the next function."""
        following = _NEXT_FUNC.search(self.text, start)
        end = following.start() if following else len(self.text)
        shown = self.text.find("\n", start, end)
        stop = shown if shown >= 0 else end
        hint = "a function is written `func @name(%x) { … }`"
        if scan.begins_statement(self.text, start):
            hint = "statements belong in the body of a function: `func @main(%x) { … }`"
        width = len(self.text[start:stop].rstrip())
        self.report(codes.OUTSIDE_FUNCTION, start, start + width, "expected a function, found other text", hint)
        return end

    def function(self, start: int) -> FunctionSyntax:
        unchanged = self.earlier.function(start) if self.earlier else None
        if unchanged is not None:
            function, found = unchanged
            self.diagnostics += found
            return function
        return self.continued(start) or self.read_function(start)

    def continued(self, start: int) -> FunctionSyntax | None:
        """The function that begins at `start`, if its head and some statements are those of the version before."""
        prefix = self.earlier.prefix(start) if self.earlier is not None else None
        if prefix is None or self.earlier is None:
            return None
        old = prefix.function
        if not self.text.startswith("{", scan.skip(self.text, old.head.end, [])):
            return None
        found = self.earlier.diagnostics(start, old.head.end + 1, 0)
        self.diagnostics += (d for d in found if d.code is not codes.MISSING_BRACE)  # which the body's end decides
        body = _Body(self, prefix.end, [])
        tail = self.earlier.tail(start)
        body.reuse(prefix, tail, self.earlier.pieces(prefix, tail) if tail is not None else ())
        end = body.read(old.name)
        function = old.function
        return FunctionSyntax(
            replace(function, body=tuple(body.statements)),
            Span(start, end),
            old.head,
            old.name,
            body.starts,
            body.ends,
            tuple(body.comments),
        )

    def read_function(self, start: int) -> FunctionSyntax:
        comments: scan.Comments = []
        extent = scan.head(self.text, start, comments)
        self.check_comments(comments)
        piece = words(scan.blanked(self.text, start, extent.end, comments))
        head, problem = heads.head(piece, extent.too_deep is not None, self.left + len(piece.names))
        self.left -= max(0, len(head.params) - len(piece.names))
        name = piece.span(1, 1) if len(piece.tokens) > 1 and head.name else Span(4, 4)
        name = Span(start + name.start, start + name.end)
        is_open = self.text.startswith("{", extent.end)
        if problem is not None or extent.too_deep is not None:
            self.problem(problem, piece, start, extent)
        elif not is_open:
            end = start + len(piece.text)
            self.report(codes.UNEXPECTED, end, end, "expected `{` after the function's head", "add `{`")
        body = _Body(self, extent.end + is_open, comments)
        if self.earlier is not None and is_open:
            body.reuse(None, self.earlier.tail(start))
        end = body.read(name if is_open else None)
        return FunctionSyntax(
            Function(
                head.name,
                head.params,
                tuple(body.statements),
                head.result_types,
                head.kernel,
                head.facts,
                head.mesh,
                head.stages,
            ),
            Span(start, end),
            Span(start, start + len(piece.text)),
            name,
            body.starts,
            body.ends,
            tuple(comments),
        )

    def problem(self, found: TokenProblem | None, piece: Words, start: int, extent: scan.Extent) -> None:
        """Report why the piece that begins at `start` cannot be read."""
        if extent.too_deep is not None:
            self.report(codes.TOO_DEEP, extent.too_deep, extent.too_deep + 1, TOO_DEEP_MESSAGE)
        elif found is not None:
            span = piece.span(found.first, found.last)
            at = extent.unclosed
            if at is not None and (span.start == len(piece.text) or "\n" in self.text[at : start + span.start]):
                # the following lines are not part of this statement's error
                self.report(codes.UNCLOSED_BRACKET, at, at + 1, f"this `{self.text[at]}` is never closed")
                return
            self.report(found.code, start + span.start, start + span.end, found.message, found.help)


class _Body:
    """The statements of one function, with their spans."""

    def __init__(self, parser: _Parser, start: int, comments: scan.Comments) -> None:
        self.parser, self.text, self.lines = parser, parser.text, parser.lines
        self.at: int = start
        self.comments = comments
        self.statements: list[Statement] = []
        self.starts: array[int] = array("q")
        self.ends: array[int] = array("q")
        self.tail: Tail | None = None
        self.pieces: deque[ReusedPiece] = deque()

    def reuse(self, prefix: Prefix | None, tail: Tail | None, pieces: Iterable[ReusedPiece] = ()) -> None:
        """Begin with the text before the edits, and reuse what is after and between them."""
        if prefix is not None:
            self.statements += prefix.statements
            self.starts += prefix.starts
            self.ends += prefix.ends
            self.comments[:] = prefix.comments
            self.parser.diagnostics += prefix.diagnostics
            self.at = prefix.end
        self.tail = tail if tail is not None and tail.start >= self.at else None
        self.pieces.extend(pieces)

    def take(self, piece: ReusedPiece) -> None:
        """Go on with what stood between two edits."""
        self.statements += piece.statements
        self.starts += piece.starts
        self.ends += piece.ends
        self.comments += piece.comments
        self.parser.diagnostics += piece.diagnostics
        self.at = piece.end

    def known_from(self) -> int:
        """Where the next reusable text begins; -1 if there is none."""
        while self.pieces and self.pieces[0].start < self.at:
            self.pieces.popleft()  # the new text before it extends into it
        return self.pieces[0].start if self.pieces else self.tail.start if self.tail is not None else -1

    def take_tail(self, tail: Tail) -> int:
        """End with what stood after an edit; give the offset after the function."""
        self.statements += tail.statements
        self.starts += tail.starts
        self.ends += tail.ends
        self.comments += tail.comments
        self.parser.diagnostics += tail.diagnostics
        return tail.end

    def read(self, opened_by: Span | None) -> int:
        """Read up to the closing `}` and give the offset after it. `opened_by` is what a missing `}` is reported at."""
        text, size = self.text, len(self.text)
        while True:
            line, stop = self.known_lines()
            if self.tail is not None and self.at == self.tail.start:
                return self.take_tail(self.tail)
            if self.at == self.known_from():
                self.take(self.pieces.popleft())
                continue
            known = len(self.comments)
            at = self.parser.skip(self.at, self.comments)
            if text.startswith("}", at):
                return at + 1
            if at > stop:  # in a later line, which may be known
                after = self.comments[-1][1] if self.comments else 0
                self.at = max(after, stop + 1, text.rfind("\n", stop, at) + 1)
                continue
            if at >= size or _FUNC.match(text, at):
                if opened_by is not None and not (self.comments and scan.is_unclosed(text, self.comments[-1])):
                    found = "the end of the text" if at >= size else "`func`"
                    message = f"this function's body is not closed: expected `}}`, found {found}"
                    self.parser.report(codes.MISSING_BRACE, opened_by.start, opened_by.end, message, "add `}`")
                return at
            if text.startswith("...", at):
                message = "`...` marks statements that were left out"
                self.parser.report(codes.ELIDED, at, at + 3, message, "write them out")
                self.add(Broken(), at, at + 3)
                self.at = at + 3
                continue
            learned, names, end = self.statement(at, line)
            is_alone = end == stop and at < stop and len(self.comments) == known
            # where a string holds what looks like a name, the line cannot be cut at names
            if learned and line is not None and is_alone and len(line) == names + 1:
                if len(self.lines) >= _LINES_KEPT:
                    self.lines.clear()
                if (apart := _facts.get(line[-1])) is not None:
                    line = (*line[:-1], apart[0])
                self.lines[line] = Line(learned, at - self.at, stop - self.ends[-1])
            self.at = end + 1 if text.startswith("\n", end) else end

    def known_lines(self) -> tuple[Skeleton | None, int]:
        """Read lines as long as there are templates for them; give the skeleton of the line that has none, and its end.

        The skeleton is `None` where the line cannot have a template.
        """
        text, find, known, cut = self.text, self.text.find, self.lines.get, _VALUE.split
        add, starts, ends = self.statements.append, self.starts.append, self.ends.append
        at = self.at
        known_from = self.known_from()
        while True:
            stop = find("\n", at, at + _LONGEST_LINE)
            if stop < 0:
                stop = len(text)
                if stop - at > _LONGEST_LINE or stop == at:
                    self.at = at
                    return None, stop
            pieces = cut(text[at:stop])
            skeleton = tuple(pieces[::2])
            stated, line = NO_FACTS, None
            if skeleton[-1][-1:] != "}":
                line = known(skeleton)
            elif (apart := _facts.get(skeleton[-1])) is not None:
                line, stated = known((*skeleton[:-1], apart[0])), apart[1]
            else:
                line = known(skeleton)
            if line is None or at == known_from:
                self.at = at
                return skeleton, stop
            template, before, after = line
            add(template(pieces, stated))
            starts(at + before)
            ends(stop - after)
            at = stop + 1 if stop < len(text) else stop

    def add(self, made: Statement, start: int, end: int) -> None:
        self.statements.append(made)
        self.starts.append(start)
        self.ends.append(end)

    def statement(self, start: int, line: Skeleton | None) -> tuple[Template | None, int, int]:
        """Read one statement the long way; give its template, if it can be read, how many names it has, and its end.

        `line`: the skeleton of the line that it begins in, if it may have a template.
        """
        parser = self.parser
        comments: scan.Comments = []
        extent = scan.statement(self.text, start, comments)
        parser.check_comments(comments)
        self.comments += comments
        piece = words(scan.blanked(self.text, start, extent.end, comments))
        end = start + len(piece.text)
        made = None if extent.too_deep is not None else statement(piece, parser.spelling, parser.left)
        if made is None or isinstance(made, TokenProblem):
            parser.problem(made, piece, start, extent)
            names = defined(piece, parser.left)
            parser.left -= len(names)
            self.add(Broken(names), start, end)
            return None, 0, extent.end
        if not isinstance(made, (Apply, Call, Return)):
            parser.note(made)
            self.add(made.statement, start, end)
            return None, 0, extent.end
        names = piece.names
        pieces = [""] * (2 * len(names))
        pieces[1::2] = names
        facts = facts_of(made)
        apart = self._apart(line, facts) if line is not None and extent.end == end else False
        learned = template(made, apart)
        self.add(learned(pieces, facts), start, end)
        return learned, len(names), extent.end

    def _apart(self, line: Skeleton, facts: Facts) -> bool:
        """Whether a line ends in facts that can be cut off, so that lines with others share its template."""
        if not facts:
            return True
        cut = FACTS.fullmatch(line[-1]) if not facts.of else None
        if cut is not None:
            if len(_facts) >= _LINES_KEPT:
                _facts.clear()
            _facts[line[-1]] = cut[1], facts
        return cut is not None
