"""Where things begin and end: comments, statements, heads. No grammar yet, and nothing here ever fails.

A statement ends with its line, brackets apart. A bracket that is never closed must not swallow the rest of the file, so
a line that begins like a statement ends the one before it, whatever is open.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from distir.files import limits
from distir.ir.places import MESH

Comments = list[tuple[int, int]]
"""The spans of comments: their starts and ends."""

_SPACE = re.compile(r"[ \t\f\n]+")
_COMMENT = re.compile(r"//[^\n]*|/\*[\s\S]*?\*/|/\*[\s\S]*")
_LANDMARK = re.compile(rf'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|"[^\n]*|{_COMMENT.pattern}|[\[\](){{}}\n]')
_RANGE = r"\{[0-9]+\.\.[0-9]+(?:\.\.[0-9]+)?\}"
_VALUE = rf"%(?:[A-Za-z0-9_.\-]|{_RANGE})+"
_LIST = rf"\[(?:[ \t,]|_(?=[ \t,\]])|{_VALUE}(?=[ \t,\]]))*\]"
_BEGINS = re.compile(
    rf"[ \t\f]*(?:(?:func|return)\b|repeat[ \t]+-?[0-9]+[ \t]+times\b|\}}|(?:{_VALUE}|_|{_LIST})"
    rf"[ \t]*(=|[:,](?:{_RANGE}|[^={{}}\"\n]){{0,4000}}=))"
)
_LONE_WORD = re.compile(r",\s*[A-Za-z][A-Za-z0-9_]*\s*=$")
_BLOCK = re.compile(r"repeat[ \t\f]+-?[0-9]+[ \t\f]+times\b")
_FUNC = re.compile(r"[ \t\f]*func\b")
_CLOSES = re.compile(r"\s*\}")
_LINE_END = re.compile(r"[ \t\f]*(?://[^\n]*)?\n")
_MESH = re.compile(rf"{MESH}[ \t\f]*[0-9]*[ \t\f]*\(")
_NOT_NEWLINE = re.compile(r"[^\n]")

_OPENING, _CLOSING = frozenset("[({"), frozenset("])}")


def normalized(text: str) -> str:
    r"""The text with `\n` as the only line end and without a byte order mark; offsets stay as they are."""
    if "\r" in text:
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    return " " + text[1:] if text.startswith("\ufeff") else text


def skip(text: str, start: int, comments: Comments) -> int:
    """The next offset from `start` that is neither white space nor in a comment; comments passed are noted."""
    while True:
        space = _SPACE.match(text, start)
        start = space.end() if space else start
        comment = _COMMENT.match(text, start) if text.startswith("/", start) else None
        if comment is None:
            return start
        comments.append(comment.span())
        start = comment.end()


def is_unclosed(text: str, comment: tuple[int, int]) -> bool:
    """Whether a comment begins with `/*` and never ends."""
    start, end = comment
    return text.startswith("/*", start) and not (end - start >= 4 and text.endswith("*/", start, end))


def begins_statement(text: str, start: int) -> bool:
    """Whether the text at `start`, after spaces, can only be the beginning of a statement."""
    match = _BEGINS.match(text, start)
    if match is None:
        return False
    # `%a, dim = 0` continues a statement's operands; `%a, %b = …` begins one
    return match[1] is None or _LONE_WORD.search(match[0]) is None


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a statement or head reaches, and what is wrong with its brackets: offsets of those at fault."""

    end: int
    unclosed: int | None = None
    too_deep: int | None = None


def statement(text: str, start: int, comments: Comments) -> Extent:
    """The extent of the statement that begins at `start`; comments in it and directly after it are noted."""
    return _extent(text, start, comments, is_head=False)


def head(text: str, start: int, comments: Comments) -> Extent:
    """The extent of the head that begins at `start`, up to its body's `{`."""
    return _extent(text, start, comments, is_head=True)


def _extent(text: str, start: int, comments: Comments, *, is_head: bool) -> Extent:
    open_at: list[int] = []
    braces = 0
    goes_on = start
    is_block = not is_head and _BLOCK.match(text, start) is not None
    too_deep: int | None = None
    unclosed: int | None = None
    end = len(text)
    for match in _LANDMARK.finditer(text, start):
        mark, at = match[0], match.start()
        if mark == "\n":
            if is_head and not open_at and at >= goes_on:
                goes_on = _goes_on(text, at)
            is_over = begins_statement(text, at + 1) and not (braces and _CLOSES.match(text, at))
            if is_over and is_block and braces and not _FUNC.match(text, at + 1):  # it begins one in the block
                unclosed = open_at[-1] if unclosed is None and len(open_at) > 1 else unclosed
                del open_at[1:]
                braces, is_over = 1, False
            if is_over or not (open_at or at < goes_on):
                end = at
                break
        elif mark in _OPENING:
            if is_head and mark == "{" and (not open_at or _opens_body(text, match.end())):
                end = at
                break
            braces += mark == "{"
            open_at.append(at)
            if len(open_at) > limits.NESTED and too_deep is None:
                too_deep = at
        elif mark in _CLOSING:
            if mark == "}" and not braces:
                end = at
                break
            braces -= mark == "}"
            if open_at:
                open_at.pop()
            if not open_at and mark == ")" and not is_head and not is_block and begins_statement(text, match.end()):
                end = match.end()
                break
        elif mark[0] == "/":
            comments.append(match.span())
    unclosed = open_at[-1] if unclosed is None and open_at else unclosed
    return Extent(end, unclosed, too_deep)


def _opens_body(text: str, start: int) -> bool:
    """Whether what follows a `{` shows that it is the body's, although a bracket is open before it."""
    newline = _LINE_END.match(text, start)
    return newline is not None and begins_statement(text, newline.end())


def _goes_on(text: str, newline: int) -> int:
    """The position where a head that could end here continues in a later line; else `newline`."""
    after = skip(text, newline, [])
    goes_on = text.startswith(("(", "->", "{"), after) or text[newline - 80 : newline].rstrip().endswith("->")
    return after if goes_on or _MESH.match(text, after) else newline


def blanked(text: str, start: int, end: int, comments: Comments) -> str:
    """A piece of the text with spaces for the comments in it, without the white space at its end."""
    pieces: list[str] = []
    for first, last in comments:
        pieces += (text[start:first], _NOT_NEWLINE.sub(" ", text[first:last]))
        start = last
    return "".join((*pieces, text[start:end])).rstrip(" \t\f\n")
