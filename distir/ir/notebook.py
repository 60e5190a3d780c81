"""What notebooks show of values (`_repr_html_`): tables and texts as HTML. Imports nothing that takes time to load.

Texts of programs come from `distir.syntax`, which puts its printers here. Everything is bounded, however large a value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from html import escape
from itertools import islice
from typing import Any

PRINTERS: dict[str, Callable[[Any], str]] = {}
"""By the name of a class: from a value to its text."""

MOST_LINES = 400
MOST_ROWS = 50
"""So many lines of a text, and rows of a table, are shown."""


def is_notebook() -> bool:
    """Whether this process runs the cells of a notebook."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and getattr(shell, "kernel", None) is not None


def program(value: object) -> str | None:
    """A module or a function as HTML: its text; None where nothing prints it."""
    printer = PRINTERS.get(type(value).__name__)
    return None if printer is None else text(printer(value), repr(value))


def text(whole: str, summary: str) -> str:
    """A text behind its summary, open where it is short."""
    lines = whole.splitlines()
    shown = "\n".join(islice(lines, MOST_LINES))
    if len(lines) > MOST_LINES:
        shown += f"\n… {len(lines) - MOST_LINES:,} more lines"
    state = " open" if len(lines) <= MOST_ROWS else ""
    return f"<details{state}><summary>{escape(summary)}</summary><pre>{escape(shown)}</pre></details>"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table: the first column names things, the others are numbers."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    left, right = ' style="text-align:left"', ' style="text-align:right"'
    body = "".join(
        "<tr>" + "".join(f"<td{right if i else left}>{escape(str(x))}</td>" for i, x in enumerate(row)) + "</tr>"
        for row in rows[:MOST_ROWS]
    )
    more = f"<p>… {len(rows) - MOST_ROWS:,} more</p>" if len(rows) > MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def lines(*said: str) -> str:
    """Lines of text."""
    return f"<p>{'<br>'.join(map(escape, said))}</p>"
