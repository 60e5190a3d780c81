"""The timeline as one web page: all in one file, nothing fetched, for any browser.

Owns what the page shows of a simulation (`answers.py`, the same that an editor shows) and how it is put together;
`timeline.js` and `timeline.css`, which show it, are built from `vscode-extension/timeline`. Programs may come from
anywhere: what they contain reaches the page as JSON in which no character can end it, or hide, or turn text around.
"""

from __future__ import annotations

import base64
import bisect
import dataclasses
import hashlib
import html
import json
import os
import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics import Source, Span
from distir.diagnostics.visible import visible, visible_in_place
from distir.files.reading import beside
from distir.ir import Site
from distir.simulate.page.answers import TimelineView, memory_of, timeline_of
from distir.simulate.page.blocks import Origin
from distir.syntax import print_statement

if TYPE_CHECKING:
    from distir.simulate.simulation import Simulation

# As escapes of JSON these mean the same, and no HTML parser sees a tag, a comment or an entity in them.
_UNSAFE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Shown:
    """A simulation with the program's text, and where in it statements stand. `name`: if it has no text."""

    simulation: Simulation
    source: Source | None = None
    locate: Callable[[Site], Span | None] | None = None
    name: str = "program"


def timeline_page(
    simulation: Simulation,
    source: Source | None = None,
    locate: Callable[[Site], Span | None] | None = None,
    other: Shown | None = None,
) -> str:
    """A page that shows when each op runs, what devices wait for, and the memory in use.

    With the program's `source`, and `locate` from places in the program to those in its text, statements are shown as
    written there, with their lines; else as the printer writes them. `other` is shown beneath, lane by lane. Programs
    of more than 500,000 events are held as blocks (`blocks.py`): some thousand items for a million ops.
    """
    shown = Shown(simulation, source, locate)
    name, other_name = _names(shown, other)
    message = {"type": "show", **_side(shown, name), "other": _side(other, other_name) if other is not None else None}
    title = f"{name} @{simulation.function.name} on {simulation.hardware.name}"
    script, style = _part("timeline.js"), _part("timeline.css")
    parts = {
        "TITLE": html.escape(visible(title)),
        "SCRIPT": script,
        "SCRIPT HASH": _digest(script),
        "STYLE": style,
        "STYLE HASH": _digest(style),
        "DATA": json.dumps(message, separators=(",", ":"), allow_nan=False).translate(_UNSAFE),
    }
    return _filled(_part("page.html"), parts)


def _part(name: str) -> str:
    return beside(__file__, name)


def _digest(text: str) -> str:
    """By which a content security policy knows a script (W3C, Content Security Policy Level 3, section 2.3.1)."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with `@NAME@` replaced, in one pass: what is put in is not replaced again."""
    pieces = template.split("@")  # the template has no other `@`
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def _names(shown: Shown, other: Shown | None) -> tuple[str, str]:
    """What two programs are called: their files without folders, but for those that tell them apart."""
    paths = [each.source.path if each.source is not None else each.name for each in (shown, other) if each is not None]
    parts = [path.split(os.sep) for path in paths]
    needed = next((n for n in range(1, max(map(len, parts))) if parts[0][-n:] != parts[-1][-n:]), 1)
    names = [visible("/".join(each[-needed:])) for each in parts]
    return names[0], names[-1]


def _side(shown: Shown, name: str) -> dict[str, Any]:
    """One program, as `vscode-extension/timeline/README.md` says."""
    source, locate = shown.source, shown.locate
    find = locate if source is not None and locate is not None else _nowhere
    timeline = timeline_of(shown.simulation, find, columns=True, blocks=True)
    place = _places(source.text) if source is not None else _nothing
    return {
        "document": {"uri": name, "name": name},
        "timeline": [_json(timeline, place)],
        "memory": _json(memory_of(shown.simulation, find), place),
        "source": visible_in_place(source.text) if source is not None and locate is not None else None,
        "statements": _statements(shown.simulation, timeline),
    }


def _statements(simulation: Simulation, timeline: TimelineView) -> dict[str, dict[str, str]]:
    """By function and number, the text of the statements that bars come from and that are in no text."""
    found: dict[str, dict[str, str]] = {}
    for origin in _origins(timeline):
        if origin.span is None:
            statement = simulation.module.functions[origin.function].body[origin.statement]
            found.setdefault(origin.function, {})[str(origin.statement)] = print_statement(statement)
    return found


def _origins(timeline: TimelineView) -> Iterable[Origin]:
    if timeline.blocks is not None:
        return timeline.blocks.statements
    return timeline.table.origins if timeline.table is not None else ()


def _nowhere(site: Site) -> Span | None:
    return None


def _nothing(span: Span) -> None:
    return None


def _json(value: Any, place: Callable[[Span], Any]) -> Any:
    """Data as JSON, named as `docs/lsp-requests.md` says: records as objects, places in the text as ranges."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Span):
        return place(value)
    if isinstance(value, array):
        return cast("array[float]", value).tolist()
    if isinstance(value, (list, tuple)):
        return [_json(item, place) for item in cast("list[Any]", value)]
    return {key: _json(getattr(value, name), place) for name, key in _keys(cast(type, value.__class__))}


@cache
def _keys(record: type) -> list[tuple[str, str]]:
    names = [field.name for field in dataclasses.fields(record)]
    return [(n, "range" if n == "span" else f"{n[:-5]}_range" if n.endswith("_span") else n) for n in names]


def _places(text: str) -> Callable[[Span], Any]:
    """Spans as zero-based ranges, columns in UTF-16 units as scripts count them."""
    starts = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def position(offset: int) -> dict[str, int]:
        line = bisect.bisect_right(starts, offset) - 1
        before = text[starts[line] : offset]
        wide = 0 if before.isascii() else sum(ord(c) > 0xFFFF for c in before)
        return {"line": line, "character": len(before) + wide}

    @cache
    def place(span: Span) -> dict[str, dict[str, int]]:
        return {"start": position(span.start), "end": position(span.end)}

    return place
