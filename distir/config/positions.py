"""Where the keys and values of a TOML text stand, which `tomllib` does not tell.

A TOML text is a sequence of statements, each complete at the end of a line and valid by itself. So `tomllib` itself
says where a statement ends and which keys it sets: the lines from the end of the last one are read together until they
parse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from distir.diagnostics import Span

Key = tuple[str, ...]
"""The names that lead to a setting: `("budget", "max_latency")`."""

_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_ASSIGNED = re.compile(rf"[ \t]*({_NAME}(?:[ \t]*\.[ \t]*{_NAME})*)[ \t]*=[ \t]*")
_VALUE = re.compile(r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^#\n]*""")
_HEADER = re.compile(rf"[ \t]*(\[\[?[ \t]*({_NAME}(?:[ \t]*\.[ \t]*{_NAME})*)[ \t]*\]\]?)")

_LONGEST_STATEMENT = 500
"""In lines. Reading a statement takes the square of its lines; the keys after a longer one are not found."""


@dataclass(frozen=True, slots=True)
class Statement:
    """`key = value` or `[key]`: where its key and its value stand; of a value over several lines, the first line."""

    key: Span
    value: Span


def positions(text: str) -> dict[Key, Statement]:
    """The statement that first sets each key, of a text that `tomllib` has read."""
    found: dict[Key, Statement] = {}
    header: Key = ()
    for start, keys, is_header in _statements(text):
        statement = _statement(text, start)
        if is_header:
            header = max(keys, key=len)
        for key in keys:
            found.setdefault(key if is_header else header + key, statement)
    return found


def _statements(text: str) -> Iterator[tuple[int, list[Key], bool]]:
    """The offset at which each statement begins, the keys it sets, and whether it is a `[table]` line."""
    import tomllib

    start, end, lines = 0, 0, 0
    while end < len(text) and lines < _LONGEST_STATEMENT:
        end = text.find("\n", end) + 1 or len(text)
        lines += 1
        try:
            content = tomllib.loads(text[start:end])
        except ValueError:
            continue  # it goes on in the next line
        if content:
            yield start, list(_keys(content)), text[start:end].lstrip().startswith("[")
        start, lines = end, 0


def _keys(content: object, before: Key = ()) -> Iterator[Key]:
    if isinstance(content, list) and content:  # `[[table]]`
        yield from _keys(cast("list[object]", content)[0], before)
    if isinstance(content, dict):
        for name, value in cast("dict[str, object]", content).items():
            yield (*before, name)
            yield from _keys(value, (*before, name))


def _statement(text: str, start: int) -> Statement:
    if header := _HEADER.match(text, start):
        return Statement(Span(*header.span(2)), Span(*header.span(1)))
    assigned = _ASSIGNED.match(text, start)
    if not assigned:
        return Statement(Span(start, start), Span(start, start))
    value = _VALUE.match(text, assigned.end())
    shown = value[0].rstrip() if value else ""
    return Statement(Span(*assigned.span(1)), Span(assigned.end(), assigned.end() + len(shown)))
