"""The progress bar of a search in a notebook. On terminals the command line shows its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from importlib import import_module
from typing import Any, TypeVar

from distir.ir.notebook import is_notebook

Row = TypeVar("Row")

EVERY_S = 0.2
"""A page is told no more often."""


def watched(rows: Iterable[Row], count: Callable[[], int], doing: str) -> Generator[Row]:
    """The rows as they come, with a bar where a notebook can show one; `count`: how many there are at most."""
    if not is_notebook():
        yield from rows
        return
    display: Any = import_module("IPython.display")
    most, done, told = count(), 0, time.monotonic()

    def bar() -> Any:
        ended = f"{doing}: {done} of {most}"
        return display.HTML(f'<progress value="{done}" max="{most}"></progress> {ended}')

    handle = display.display(bar(), display_id=True)
    for row in rows:
        done += 1
        if time.monotonic() - told > EVERY_S:
            handle.update(bar())
            told = time.monotonic()
        yield row
    most = done
    handle.update(bar())
