"""From the bytes of a file to text, or to a diagnostic at the first byte that is not UTF-8."""

from __future__ import annotations

from distir.diagnostics import Diagnostic, Source, Span
from distir.diagnostics.codes import syntax as codes


def decode(data: bytes, path: str = "<text>") -> tuple[str | None, tuple[Diagnostic, ...]]:
    """The text of a file in UTF-8; else `None` and one diagnostic.

    The diagnostic's message says line and column. Its span counts in `data.decode("utf-8", errors="replace")`.
    """
    if b"\0" in data:
        return None, (_not_text(data, data.index(b"\0"), path),)
    try:
        return data.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        return None, (_not_text(data, error.start, path),)


def _not_text(data: bytes, offset: int, path: str) -> Diagnostic:
    before = data[:offset].decode("utf-8", errors="replace")
    line, column = Source(path, before).position(len(before))
    byte = data[offset]
    if byte:
        message = f"line {line}, column {column}: byte 0x{byte:02X} is not UTF-8"
        hint = "save the file as UTF-8"
    else:
        message = f"line {line}, column {column}: found a NUL byte, this is not a text"
        hint = "programs are text files; tensors and models are read by other commands"
    return Diagnostic(codes.NOT_TEXT, Span(len(before), len(before) + 1), message, help=hint)
