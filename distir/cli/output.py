"""Standard output and standard error, tables, progress. Independent of programs.

What is written may come from anywhere: control characters, and those that change the direction of text, are shown by
their numbers (`visible`). Only a formatted program is written as it is, to a file or a pipe.

Colour is for terminals, unless `NO_COLOR` is set. rich is loaded only when something is laid out or takes long.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from distir.cli.endings import Closed

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

PLAIN_WIDTH = 10_000
"""How wide a layout may be, in cells, where it is not written to a terminal: a row is a line, for `grep`."""

PATIENCE_S = 1.0
"""Seconds after which a terminal shows progress."""


def write(text: str) -> None:
    """Write a document to standard output. Raises Closed if the reader has closed it."""
    _put(_shown(text, keep="\t"))


def write_program(text: str) -> None:
    """Write a program to standard output, in UTF-8 whatever its encoding and line ends. Raises Closed."""
    _put_bytes(_shown(text, keep="\t").encode())


def write_exactly(data: bytes) -> None:
    """Write a text in UTF-8 to standard output as it is, but for what a terminal shows. Raises Closed."""
    _put_bytes(_shown(data.decode(), keep="\t").encode() if sys.stdout.isatty() else data)


def report(text: str, colour: str | None = None) -> None:
    """Write lines of a report to standard output; `colour`: a code of a terminal for them. Raises Closed."""
    shown = _shown(text)
    _put(f"\x1b[{colour}m{shown}\x1b[0m\n" if colour else f"{shown}\n")


def _shown(text: str, keep: str = "") -> str:
    """Lines as a terminal may show them, with `keep` as it is."""
    from distir.diagnostics.visible import visible_lines

    return visible_lines(text, keep)


def _put(text: str) -> None:
    _put_bytes(text.encode(sys.stdout.encoding, sys.stdout.errors or "strict"))


def _put_bytes(data: bytes) -> None:
    rest = memoryview(data)
    try:
        sys.stdout.flush()
        while rest:  # where Python does not buffer, a pipe may take less than all
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise Closed from None


def write_json(document: object) -> None:
    """Write one JSON document to standard output. Raises Closed."""
    from distir.diagnostics.json_form import dump

    write(dump(document))


def tell(message: str) -> None:
    """Write a line to standard error."""
    print(_shown(message), file=sys.stderr)


def tell_terminal(message: str) -> None:
    """Write a line to standard error if a person is there to read it."""
    if sys.stderr.isatty():
        tell(message)


def complain(severity: str, message: str, help: str | None = None) -> None:
    """An error or a warning that belongs to no place in a text."""
    if in_colour(sys.stderr):
        code = {"error": "31", "warning": "33"}[severity]
        sys.stderr.write(f"\x1b[1;{code}m{severity}\x1b[0m: ")
    else:
        sys.stderr.write(f"{severity}: ")
    tell(message + (f"\n  help: {help}" if help else ""))


@contextmanager
def visible_logs() -> Generator[None]:
    """What libraries log in the block may quote a file: it is shown without control characters."""
    import logging

    before = logging.getLogRecordFactory()

    class VisibleRecord(logging.LogRecord):
        def getMessage(self) -> str:  # noqa: N802 - its name in `logging`
            return _shown(super().getMessage())

    logging.setLogRecordFactory(VisibleRecord)
    try:
        yield
    finally:
        logging.setLogRecordFactory(before)


def in_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal with colours enabled."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def lay_out(*parts: RenderableType) -> None:
    """Write rich's tables and texts to standard output, no wider than the terminal. Raises Closed."""
    from io import StringIO

    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

    class ShownPart:
        """A part as a terminal may show it."""

        def __init__(self, part: RenderableType) -> None:
            self.part = part

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
            for text, style, control in console.render(self.part, options):
                yield Segment(_shown(text), style, control)

    page = StringIO()
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    colour = in_colour(sys.stdout)
    console = Console(
        file=page, force_terminal=colour, no_color=not colour, width=width, highlight=False, markup=False, emoji=False
    )
    for part in parts:
        console.print(ShownPart(part))
    _put("\n".join(line.rstrip() for line in page.getvalue().split("\n")))


def table(*columns: str, right: str = "", **options: Any) -> Table:
    """A table without lines. `right`: the columns of numbers, by their place, as in `"124"`."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", **options)
    for number, name in enumerate(columns):
        made.add_column(name, justify="right" if str(number) in right else "left", overflow="fold")
    return made


@contextmanager
def progress(doing: str) -> Generator[None]:
    """Show progress on a terminal if it takes longer than a second. `doing`: `checking a.dir`."""
    if not sys.stderr.isatty():
        yield
        return
    shown: list[Any] = []
    ended = threading.Event()

    def show() -> None:
        if ended.wait(PATIENCE_S):
            return
        from rich.console import Console
        from rich.text import Text

        status = Console(stderr=True, no_color=not in_colour(sys.stderr)).status(Text(_shown(doing)))
        status.start()
        shown.append(status)

    watcher = threading.Thread(target=show, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        for status in shown:
            status.stop()
