"""Replacements for standard streams that the caller has closed (`>&-`), which Python sets to None: they report it."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any


def stand_in() -> None:
    """Replace the standard streams that are missing. What is written to standard error goes nowhere then."""
    if not _is_there(sys.stdin):
        sys.stdin = io.TextIOWrapper(_Closed("standard input"))  # pyright: ignore[reportArgumentType] - a raw stream will do
    if not _is_there(sys.stdout):
        sys.stdout = io.TextIOWrapper(_Closed("standard output"), "utf-8", write_through=True)  # pyright: ignore[reportArgumentType]
    if not _is_there(sys.stderr):
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - to the end


class _Closed(io.RawIOBase):
    """A closed stream. Raises OSError on use."""

    def __init__(self, name: str) -> None:
        self.name = name

    def readable(self) -> bool:
        return self.name == "standard input"

    def writable(self) -> bool:
        return not self.readable()

    def read(self, size: int = -1) -> bytes:
        raise self._error()

    def write(self, data: Any) -> int:
        raise self._error()

    def fileno(self) -> int:
        raise self._error()

    def isatty(self) -> bool:
        return False

    def _error(self) -> OSError:
        return OSError(errno.EBADF, f"{self.name} is closed")


def _is_there(stream: object) -> bool:
    return stream is not None
