"""Semantic tokens: kinds of words, devices of values or, on a mesh, axes, the critical path, unused values.

A text is encoded piece by piece, a statement or a comment each. The text between names of values is split into
words once per distinct text, since generated programs repeat theirs. Columns are counted by the caller's `units`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from distir.ide.instances import View
from distir.ir import DTYPES, UNKNOWN, Function, PendingAlong, Statement, TensorType, Type, results, types
from distir.ir.facts import FACTS, PHASES
from distir.ir.places import MESH, OWNED, PENDING, ZIGZAG
from distir.ir.roles import ROLES
from distir.ops import Value, type_of
from distir.syntax import FunctionSyntax
from distir.syntax.tokens import KERNEL, NAME, REPEAT_WORD, STREAM_WORD, THEN_WORD, TIMES_WORD

TYPES = ("variable", "parameter", "function", "method", "type", "property", "number", "string", "keyword", "comment",
         "typeParameter")  # fmt: skip
"""Kinds of tokens; ops are methods, named dimensions are type parameters."""

DEVICES = 16
"""Devices are coloured modulo this many modifiers."""

AXES = 8
"""So are axes of a mesh."""

MODIFIERS = ("declaration", "unused", "critical", "multiDevice", *(f"device{i}" for i in range(DEVICES)), "pending",
             *(f"axis{i}" for i in range(AXES)))  # fmt: skip
"""`unused`: a value that nothing uses. `critical`: a statement on the critical path of the call shown. `pending`: a sum
or maximum over an axis of the mesh that no collective has ended. `axis0`, …: the name of an axis, by its number in the
mesh, or a value that is pending along it, or else split, along this one innermost; whole values have none.
"""

DECLARATION, UNUSED, CRITICAL, MULTI_DEVICE = 1, 2, 4, 8
_PENDING, _FIRST_AXIS = 1 << (4 + DEVICES), 5 + DEVICES
_VARIABLE, _PARAMETER, _FUNCTION, _METHOD, _TYPE, _PROPERTY, _NUMBER, _STRING, _KEYWORD, _COMMENT, _DIM = range(11)

LONGEST_LINE = 20_000
"""How many characters of a line (a large constant) are coloured. Shorter lines are coloured whole, however many."""

Units = Callable[[str], int]
"""How many units of the client's columns a piece of a line takes."""


Step = tuple[int, int]
"""How far to the next word: lines, and columns, which count from the line's start where there are lines."""


@dataclass(frozen=True, slots=True)
class EncodedPiece:
    """The tokens of a statement, a head or a comment that is at `offset`, as the protocol counts them.

    `first`: length, type and modifiers of the first token; `ahead`: how many lines and columns after the offset it
    stands. `rest`: the others, five numbers each, relative to the one before. `lines`, `column`: how many lines below
    the offset the last one starts, and in which column (counted from the offset, if on its line). `count`: how many.
    """

    offset: int
    ahead: tuple[int, int]
    first: str
    rest: str
    lines: int
    column: int
    count: int


def pieces(view: View, start: int, end: int, units: Units) -> Iterator[EncodedPiece]:
    """The pieces of what stands from `start` to `end`, in the order of the text."""
    syntax = view.document.program.syntax
    text = syntax.source.text
    outside = [comment for comment in syntax.comments if comment[0] <= end and comment[1] >= start]
    position = 0
    for written in syntax.functions[bisect_left(syntax.functions, start, key=lambda f: f.span.end) :]:
        if written.span.start > end:
            break
        while position < len(outside) and outside[position][0] < written.span.start:
            yield _comment(text, *outside[position], units)
            position += 1
        yield from _function(view, text, written, start, end, units)
    for comment in outside[position:]:
        yield _comment(text, *comment, units)


def _function(
    view: View, text: str, written: FunctionSyntax, start: int, end: int, units: Units
) -> Iterator[EncodedPiece]:
    meaning = _Meaning(view, written.function)
    comments, body, starts, ends = written.comments, written.function.body, written.starts, written.ends
    number = bisect_left(comments, start, key=lambda comment: comment[1])
    critical = view.critical(written.function)
    if written.head.end >= start and written.head.start <= end:
        whole = text[written.head.start : written.head.end]
        yield _encoded(written.head.start, whole, None, meaning, DECLARATION, units)
    while number < len(comments) and comments[number][0] < written.head.end:
        number += 1
    for index in range(bisect_left(ends, start), len(starts)):
        offset, stop = starts[index], ends[index]
        if offset > end:
            break
        while number < len(comments) and comments[number][0] < offset:
            yield _comment(text, *comments[number], units)
            number += 1
        while number < len(comments) and comments[number][0] < stop:  # inside: among the statement's own words
            number += 1
        shared = CRITICAL if index in critical else 0
        piece = _encoded(offset, text[offset:stop], body[index], meaning, shared, units)
        if piece.count:
            yield piece
    while number < len(comments) and comments[number][0] <= end:
        yield _comment(text, *comments[number], units)
        number += 1


Meant = tuple[str, str, str, str]
"""Type and modifiers of a value as text: used; defined; and the same on the critical path."""


class _Meaning(dict[str, Meant]):
    """The types and modifiers of a function's values, by name, computed on demand."""

    def __init__(self, view: View, function: Function) -> None:
        super().__init__()
        is_known = view.document.program.module.functions.get(function.name) is function  # not a second one of its name
        self.value = view.values(function.name) if is_known else _unknown
        self.parameters = {param.name for param in function.params}
        self.unused = view.facts.unused.get(function.name, frozenset[str]()) if is_known else frozenset[str]()
        self.axes = tuple(axis for axis, _ in view.facts.meshes.axes)
        self.known = _known.setdefault(self.axes, {})
        self.by_type: dict[Type, tuple[int, Meant]] = {}

    def __missing__(self, name: str) -> Meant:
        found = type_of(self.value(name))
        known = self.by_type.get(found)
        if known is None:
            modifiers = _of_places(found, self.axes) if self.axes else _of_type(found)
            known = self.by_type[found] = modifiers, _meant(_VARIABLE, modifiers)
        meant = known[1]
        if name in self.unused or name in self.parameters:
            modifiers = known[0] | (UNUSED if name in self.unused else 0)
            meant = _meant(_PARAMETER if name in self.parameters else _VARIABLE, modifiers)
        self[name] = meant
        return meant


def _unknown(_: str) -> Value:
    return UNKNOWN


def _meant(what: int, modifiers: int) -> Meant:
    used, defined, critical = modifiers, modifiers | DECLARATION, modifiers | CRITICAL
    return f"{what},{used}", f"{what},{defined}", f"{what},{critical}", f"{what},{defined | CRITICAL}"


def _of_type(found: Type) -> int:
    devices = types.devices(found)
    if not devices:
        return 0
    return 1 << (4 + min(devices) % DEVICES) if len(devices) == 1 else MULTI_DEVICE


def _of_places(found: Type, axes: Sequence[str]) -> int:
    """Of a value on a mesh: whether it is pending, and the axis that this is along, or that splits it innermost."""
    places = [place for leaf in types.leaves(found) if isinstance(leaf, TensorType) for place in leaf.places]
    pending = [place for place in places if isinstance(place, PendingAlong)]
    numbers = [axes.index(place.axis) for place in pending or places if place.axis in axes]
    return (_PENDING if pending else 0) | (_axis(max(numbers)) if numbers else 0)


def _axis(number: int) -> int:
    return 1 << (_FIRST_AXIS + number % AXES)


_NAME = re.compile(rf"%({NAME})")
_WORD = re.compile(rf'(@{NAME})|("(?:[^"\\\n]|\\.)*"?)|([A-Za-z_][A-Za-z0-9_]*)|([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?)')
_OPAQUE = re.compile(r'"[^"\n]*%|//|/\*')
"""Tokens in which `%` does not begin a name."""

_KEYWORDS = frozenset(["func", "return", "dense", "external", "inf", "nan", "true", "false"])
_TYPE_NAMES = frozenset(["Tensor", "Tuple", "host", *DTYPES])
_STREAM = re.compile(rf"(?:\)|{TIMES_WORD})\s*({STREAM_WORD}\s+)?$")
"""Tokens before the word `on`, or before a stream's name."""
_DEVICE = re.compile(r"D[0-9]+")
_MARKS = frozenset((KERNEL, MESH, *PHASES, *FACTS))
_DIMENSION_END = re.compile(r"[\w?)]$")
"""Text before an axis of a mesh; before a function there is something else."""
_BEHIND_DEVICE, _OVER_AXES = re.compile(r",\s*$"), re.compile(r"\s+\w|\s*\(")
"""Text before and behind the word that says what is pending over axes."""
_IN_CUTS = re.compile(r"@\s*\([^()]*(?:\([^()]*\)[^()]*)*$")
"""Text before an axis that is one of several."""
_BEHIND_HEAD = re.compile(r"[)\]]\s*,?\s*(?:\w+(?:\s*=\s*\w+)?\s*,\s*)*$")
"""Text before a word that says what a function is. Braces are those of facts where there is no head."""
_IN_BRACES = re.compile(r"\{[^{}]*$")


@dataclass(frozen=True, slots=True)
class _Between:
    """The words of a text between two names, without names, comments and other alphabets.

    Steps are lines, and columns from where the step begins, or in the last line if there are any: `ahead` to the first
    word, `inside` from that to the last word, `behind` from that to the end (without words: from the start).
    `first` is the first word's length, type and modifiers, `rest` the other words, encoded.
    """

    ahead: Step
    first: str
    rest: str
    inside: Step
    behind: Step
    count: int


_known: dict[tuple[str, ...], dict[tuple[str, bool, int], _Between]] = {}
"""By the axes of the mesh: texts between names, in heads or not, with modifiers of their ops, that were cut."""
MOST_TEXTS = 20_000
"""How many different texts between names are cached, of one mesh."""


def _encoded(
    offset: int, text: str, statement: Statement | None, meaning: _Meaning, shared: int, units: Units
) -> EncodedPiece:
    """The words of a statement (or of a head). `shared`: modifiers of all its values, ops and functions."""
    if len(text) > LONGEST_LINE:
        text = "\n".join([line[:LONGEST_LINE] for line in text.split("\n")])
    if not text.isascii() or _OPAQUE.search(text):
        return _word_by_word(offset, text, statement, meaning, shared, units)
    declared = sum(map(bool, results(statement))) if statement is not None else len(text)  # of a head: all
    used, defined = (2, 3) if shared & CRITICAL else (0, 1)
    parts = _NAME.split(text)
    is_head = statement is None
    if "\n" in text:
        return _on_several_lines(offset, parts, declared, is_head, meaning, shared)
    texts: list[str] = []
    ahead = last = gap = count = 0  # columns to the first word, to the last one, and from that to the next; words
    for number, part in enumerate(parts):
        if number % 2:
            declared -= 1
            word = f"{len(part) + 1},{meaning[part][defined if declared >= 0 else used]}"
            if count:
                texts.append(f"0,{gap},{word}")
            else:
                texts.append(word)
                ahead = gap
            last += gap
            gap, count = len(part) + 1, count + 1
            continue
        found = meaning.known.get((part, is_head, shared)) or _cut(part, is_head, shared, meaning)
        if not found.count:
            gap += found.behind[1]
            continue
        gap += found.ahead[1]
        if count:
            texts.append(f"0,{gap},{found.first}")
        else:
            texts.append(found.first)
            ahead = gap
        if found.rest:
            texts.append(found.rest)
        last += gap + found.inside[1]
        gap, count = found.behind[1], count + found.count
    return EncodedPiece(offset, (0, ahead), "".join(texts[:1]), ",".join(texts[1:]), 0, last, count)


def _on_several_lines(
    offset: int, parts: Sequence[str], declared: int, is_head: bool, meaning: _Meaning, shared: int
) -> EncodedPiece:
    """The same where words are on several lines."""
    used, defined = (2, 3) if shared & CRITICAL else (0, 1)
    texts: list[str] = []
    ahead = last = step = (0, 0)
    count = 0
    for number, part in enumerate(parts):
        if number % 2:
            word = f"{len(part) + 1},{meaning[part][defined if number // 2 < declared else used]}"
            found = _Between((0, 0), word, "", (0, 0), (0, len(part) + 1), 1)
        else:
            found = meaning.known.get((part, is_head, shared)) or _cut(part, is_head, shared, meaning)
        if not found.count:
            step = _then(step, found.behind)
            continue
        step = _then(step, found.ahead)
        texts.append(f"{step[0]},{step[1]},{found.first}" if count else found.first)
        ahead = ahead if count else step
        if found.rest:
            texts.append(found.rest)
        last = _then(_then(last, step), found.inside)
        step, count = found.behind, count + found.count
    return EncodedPiece(offset, ahead, "".join(texts[:1]), ",".join(texts[1:]), *last, count)


def _then(first: Step, second: Step) -> Step:
    """One step after another."""
    return (first[0] + second[0], second[1]) if second[0] else (first[0], first[1] + second[1])


def _cut(text: str, is_head: bool, shared: int, meaning: _Meaning) -> _Between:
    """The words of a text between two names."""
    ahead = inside = (0, 0)
    behind, at, count = (0, 0), 0, 0
    first, rest = "", list[str]()
    for match in _WORD.finditer(text):
        what = _kind(match, text, is_head)
        if what is None:
            continue
        step = _then(behind, _step(text, at, match.start()))
        modifiers = shared if what in (_METHOD, _FUNCTION) else _of_word(match[0], what, meaning.axes)
        word = f"{match.end() - match.start()},{what},{modifiers}"
        if count:
            rest.append(f"{step[0]},{step[1]},{word}")
            inside = _then(inside, step)
        else:
            first, ahead = word, step
        behind, at, count = (0, 0), match.start(), count + 1
    behind = _step(text, at, len(text))
    found = _Between(ahead, first, ",".join(rest), inside, behind, count)
    if not count:
        found = _Between((0, 0), "", "", (0, 0), behind, 0)
    if len(meaning.known) >= MOST_TEXTS:
        meaning.known.clear()
    meaning.known[text, is_head, shared] = found
    return found


def _of_word(word: str, what: int, axes: Sequence[str]) -> int:
    """The hue of a word that names an axis: `@tp`, `"tp"`, or `tp` in a mesh or behind `sum`."""
    name = word.strip('@"') if axes and what in (_DIM, _STRING, _PROPERTY) else ""
    return _axis(axes.index(name)) if name in axes else 0


def _step(text: str, start: int, end: int) -> Step:
    lines = text.count("\n", start, end)
    return (lines, end - text.rfind("\n", start, end) - 1) if lines else (0, end - start)


def _kind(match: re.Match[str], text: str, is_head: bool) -> int | None:
    """The kind of a word that is not a value; None for what is not a token."""
    word, following = match[0], text[match.end() : match.end() + 1]
    match match.lastindex:
        case 1:
            if word[1:] == ZIGZAG and following == "(":
                return _KEYWORD
            return _DIM if _DIMENSION_END.search(text, 0, match.start()) else _FUNCTION
        case 2:
            return _STRING
        case 4:
            return _NUMBER
        case _:
            pass
    if word == "_":
        return None
    if word in _KEYWORDS or (not is_head and _counts(word, text[: match.start()])):
        return _KEYWORD
    if word == ZIGZAG and following == "(" and _IN_CUTS.search(text, 0, match.start()):
        return _KEYWORD
    if word in _TYPE_NAMES or _DEVICE.fullmatch(word):
        return _TYPE
    if following in ("(", "[") and not is_head:
        return _METHOD
    if word in _MARKS and (_BEHIND_HEAD if is_head else _IN_BRACES).search(text, 0, match.start()):
        return _KEYWORD if word in (KERNEL, MESH) else _PROPERTY
    if (
        word in (OWNED, *PENDING)
        and _OVER_AXES.match(text, match.end())
        and _BEHIND_DEVICE.search(text, 0, match.start())
    ):
        return _KEYWORD
    if not is_head and (aside := _STREAM.search(text, 0, match.start())):
        return _PROPERTY if aside[1] else _KEYWORD if word == STREAM_WORD else _DIM
    if word in ROLES and is_head:
        return _PROPERTY
    return _PROPERTY if text[match.end() :].lstrip(" ")[:1] == "=" else _DIM


def _counts(word: str, before: str) -> bool:
    """Whether a word is one of a counted statement: behind a number, between two values, or at the beginning."""
    last = before.rstrip()[-1:]
    counts = (word == TIMES_WORD and last.isdigit()) or (word == THEN_WORD and not last)
    return counts or (word == REPEAT_WORD and not last)


_SLOW = re.compile(rf"(%{NAME})|(//[^\n]*|/\*[\s\S]*?(?:\*/|$))|{_WORD.pattern}")


def _word_by_word(
    offset: int, text: str, statement: Statement | None, meaning: _Meaning, shared: int, units: Units
) -> EncodedPiece:
    """The same for a text with comments in it, or with other alphabets."""
    declared = sum(map(bool, results(statement))) if statement is not None else len(text)
    words: list[tuple[int, int, str]] = []  # where a word stands, how long it is, its type and modifiers
    for match in _SLOW.finditer(text):
        start, word = match.start(), match[0]
        if match.lastindex == 1:
            declared -= 1
            words.append((start, len(word), meaning[word[1:]][(2 if shared & CRITICAL else 0) + (declared >= 0)]))
            continue
        elif match.lastindex == 2:
            for line in word.split("\n"):
                words.append((start, len(line), f"{_COMMENT},0"))
                start += len(line) + 1
            continue
        else:
            plain = _WORD.match(text, start)
            found = _kind(plain, text, statement is None) if plain is not None else None
            if found is None:
                continue
            modifiers = shared if found in (_METHOD, _FUNCTION) else _of_word(word, found, meaning.axes)
            words.append((start, len(word), f"{found},{modifiers}"))
    texts: list[str] = []
    ahead = last = (0, 0)
    at = 0
    for start, length, meant in words:
        lines, columns = _step(text, at, start)
        piece = text[start - columns : start]
        step = (lines, columns if piece.isascii() else units(piece))
        word = f"{units(text[start : start + length])},{meant}"
        texts.append(f"{step[0]},{step[1]},{word}" if texts else word)
        ahead = ahead if len(texts) > 1 else step
        last, at = _then(last, step), start
    return EncodedPiece(offset, ahead, "".join(texts[:1]), ",".join(texts[1:]), *last, len(texts))


def _comment(text: str, start: int, end: int, units: Units) -> EncodedPiece:
    """A comment; one token per line."""
    lines = [line.rstrip("\r") for line in text[start:end].split("\n")]
    lengths = [len(line) if line.isascii() else units(line) for line in lines]
    rest = ",".join(f"1,0,{length},{_COMMENT},0" for length in lengths[1:])
    return EncodedPiece(start, (0, 0), f"{lengths[0]},{_COMMENT},0", rest, len(lines) - 1, 0, len(lines))
