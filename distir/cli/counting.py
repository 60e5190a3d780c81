"""The progress of commands that do a known number of things, one after another."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

from distir.cli import output

EVERY_S = 10.0
"""Seconds between lines where no terminal shows a bar."""


class Counting:
    """A bar at a terminal; with `lines`, elsewhere a line on standard error every 10 seconds."""

    def __init__(self, doing: str, total: int, done: int = 0, *, lines: bool = True) -> None:
        self.doing, self.total, self.done, self.lines = doing, total, done, lines
        self.bar: Any = None

    def __enter__(self) -> Counting:
        self.said = monotonic()
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            console = Console(stderr=True, no_color=not output.in_colour(sys.stderr))
            self.bar = Progress(*columns, console=console, transient=True)
            self.task = self.bar.add_task(self.doing, total=self.total, completed=self.done)
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def advance(self, doing: str | None = None) -> None:
        """One more is done; `doing`: the words of the bar from now on."""
        self.done, self.doing = self.done + 1, doing or self.doing
        if self.bar is not None:
            self.bar.update(self.task, advance=1, description=self.doing)
        elif self.lines and self.done < self.total and monotonic() - self.said >= EVERY_S:
            self.said = monotonic()
            output.tell(f"{self.doing}: {self.done} of {self.total}")
