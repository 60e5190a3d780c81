"""Files in the format of Chrome traces: their events one by one, so that a file of any size takes little memory.

Owns the file format (Google, "Trace Event Format"), as text or compressed with gzip: an object with the list
`traceEvents`, or the list alone. Files up to `WHOLE` are read by the standard library, larger ones by ijson.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from distir.files.reading import Named, opened
from distir.ir.errors import DistirError
from distir.traces import strangers

SUFFIXES = (".json", ".json.gz")

WHOLE = 32 << 20
"""Bytes of text up to which a file is read at once."""

MOST = 16 << 30
"""Bytes of text that are read of a file."""

_NO_NUMBER = re.compile(r"(?<=[:,\[\s])-?(?:nan|inf)(?=\s*[,}\]])", re.I)

Record = dict[str, Any]
"""One trace event."""


class TraceError(DistirError, ValueError):
    """A file that is no trace, or no whole one; the text says what was found, `help` what to do."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


def is_trace(path: str) -> bool:
    """Whether a file is named as a trace."""
    return path.endswith(SUFFIXES)


def read_events(path: Named, head: dict[str, Any]) -> Iterator[Record]:
    """The events of a trace; what the file states before them is added to `head`.

    Raises OSError, and TraceError.
    """
    with _text(path) as text:
        beginning = _read(text, WHOLE + 1)
        if len(beginning) <= WHOLE:
            yield from _at_once(beginning, head)
            return
    yield from _one_by_one(path, head)


@contextmanager
def _text(path: Named) -> Generator[BinaryIO]:
    """What a file holds, unpacked. Raises OSError."""
    with opened(path) as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield cast("BinaryIO", unpacked)


def _read(text: BinaryIO, most: int) -> bytes:
    """So many bytes, or all there are. Raises TraceError."""
    pieces, size = io.BytesIO(), 0
    try:
        while size < most and (piece := text.read(min(1 << 20, most - size))):
            size += pieces.write(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _cut(f"the compressed file ends early or is damaged ({error})") from None
    return pieces.getvalue()


def _at_once(text: bytes, head: dict[str, Any]) -> Iterator[Record]:
    if not text.strip():
        raise TraceError("it is empty", "export it again, after the profiler has stopped")
    if (known := strangers.text(text)) is not None:
        raise TraceError(f"it is {known}", strangers.EXPORT)
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise TraceError("byte 0 is not UTF-8", "convert it to UTF-8")
    try:
        document = _document(text.decode("utf-8-sig", "replace"))  # names may have any bytes
    except RecursionError:
        raise TraceError("its values are nested too deeply") from None
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) - 1 or "Unterminated" in error.msg:
            raise _cut(f"it ends in line {error.lineno}, within a value") from None
        raise TraceError(f"it is not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    found: object = document
    if isinstance(document, dict):
        own = cast("dict[str, Any]", document)
        found = own.pop("traceEvents", None)
        head.update(own)
    if not isinstance(found, list):
        raise _none(cast("dict[str, Any]", document) if isinstance(document, dict) else ())
    yield from (_event(event) for event in cast("list[object]", found))


def _document(text: str) -> object:
    """What JSON says, as Kineto writes it: numbers may be `inf` and `nan`, names may have control characters."""
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        repaired = _NO_NUMBER.sub("null", text)
        if repaired == text:
            raise
        try:
            return json.loads(repaired, strict=False)
        except json.JSONDecodeError:
            raise error from None


def _one_by_one(path: Named, head: dict[str, Any]) -> Iterator[Record]:
    try:
        import ijson  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        message = f"a trace of more than {WHOLE >> 20} MiB is read with `ijson`, which is not installed"
        raise TraceError(message, "install `distir[traces]`") from None
    read: Any = ijson
    try:
        with _text(path) as text:
            prefix = _head(read, _Bounded(text), head)
        with _text(path) as text:
            for event in read.items(_Bounded(text), prefix, use_float=True):
                yield _event(event)
    except read.IncompleteJSONError as error:
        raise _cut(f"it ends within a value, or is not JSON ({_one_line(error)})") from None
    except read.JSONError as error:
        raise TraceError(f"it is not JSON: {_one_line(error)}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _cut(f"the compressed file ends early or is damaged ({error})") from None


def _head(read: Any, text: _Bounded, head: dict[str, Any]) -> str:
    """Add what the file states before its events to `head`; returns where these are, for ijson. Raises TraceError."""
    builder: Any = None
    name = ""
    for prefix, event, value in read.parse(text, use_float=True):
        if event == "start_array" and prefix in ("", "traceEvents"):
            return f"{prefix}.item".lstrip(".")
        if prefix == "" and event == "map_key":
            if builder is not None:
                head[name] = builder.value
            name, builder = value, read.ObjectBuilder()
        elif builder is not None and prefix != "":
            builder.event(event, value)
    raise _none()


class _Bounded:
    """A file of which no more than `MOST` bytes are read. Raises TraceError."""

    def __init__(self, text: BinaryIO) -> None:
        self._text, self._size = text, 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        piece = self._text.read(size)
        self._size += len(piece)
        if self._size > MOST:
            raise TraceError(f"it has more than {MOST >> 30} GiB", "profile fewer steps")
        return piece


def _event(found: object) -> Record:
    if not isinstance(found, dict):
        raise TraceError("an event is not a JSON object: the file is no list of events", strangers.EXPORT)
    return cast("Record", found)


def _cut(message: str) -> TraceError:
    return TraceError(message, "the file is not whole: export it again, and copy all of it")


def _none(keys: Collection[str] = ()) -> TraceError:
    if (known := strangers.document(keys)) is not None:
        return TraceError(f"it is {known}, and no trace with `traceEvents`", strangers.EXPORT)
    return TraceError("expected a trace with `traceEvents`, found other JSON", "`export_chrome_trace` writes one")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
