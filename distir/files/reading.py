"""Every file that is read is opened here: regular files alone, and of bounded size.

A path may come from an untrusted folder: from a setting, a profile, a link. So a named pipe must not block
the reader, nor `/dev/zero` fill the memory. A file is opened without blocking, then checked by its descriptor: between
check and use it cannot be replaced. Memory-mapped files are not read, and not bounded.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from distir.diagnostics.quantities import show_bytes
from distir.ir.errors import DistirError

Named = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file is meant to hold. `most`: bytes that are read of one; `help`: what to do where it has more."""

    name: str
    most: int
    help: str


SUFFIX = ".dir"

PROGRAM = FileKind("a program", 256 << 20, "keep large constants in a safetensors file beside the program")
SETTINGS = FileKind("a settings file", 1 << 20, "take out what is not a setting")
PROFILE = FileKind("a hardware profile", 4 << 20, "take out what is not a figure of the machine")
ROWS = FileKind("the CSV of a search", 1 << 30, "begin a new file, without `--resume`")
SCHEDULE = FileKind("a pipeline schedule", 64 << 20, "use fewer microbatches")
MODEL = FileKind(
    "a protobuf file",
    (1 << 31) - 1,  # protobuf reads no larger message
    "save the model with external data (`onnx.save(..., save_as_external_data=True)`)",
)
MLIR = FileKind("a file of StableHLO", 256 << 20, "let large constants be arguments of the function")
REPORT = FileKind("what a rank reports", 1 << 30, "run it fewer times")
OURS = FileKind("a file of DistIR or of the system", 64 << 20, "install DistIR again")


class UnreadError(DistirError, OSError):
    """A file of a kind or size that is not read; `strerror` gives the reason, `help` what to do."""

    def __init__(self, number: int, why: str, path: str, help: str | None = None) -> None:
        super().__init__(number, why, path)
        self.help = help


def why_not(error: OSError) -> str:
    """The reason of an OSError as messages quote it: `no such file or directory`."""
    said = error.strerror or type(error).__name__
    return said[:1].lower() + said[1:]


def advice(error: OSError) -> str | None:
    """What to do about it, where that is known."""
    return error.help if isinstance(error, UnreadError) else None


@contextmanager
def opened(path: Named) -> Generator[BinaryIO]:
    """A regular file, open for reading in the block. Raises OSError, which is UnreadError for anything else."""
    name = os.fspath(path)
    try:
        descriptor = os.open(name, _WITHOUT_WAITING)
    except ValueError:
        raise UnreadError(errno.EINVAL, "a NUL character is in its name", name) from None
    try:
        _must_be_regular(os.fstat(descriptor).st_mode, name)
    except BaseException:
        os.close(descriptor)
        raise
    with open(descriptor, "rb") as file:
        yield file


def read_bytes(path: Named, kind: FileKind) -> bytes:
    """All that a regular file holds. Raises OSError, which is UnreadError for one that is none or holds too much."""
    with opened(path) as file:
        return bounded(file, kind, os.fspath(path), os.fstat(file.fileno()).st_size)


def read_text(path: Named, kind: FileKind, errors: str = "strict") -> str:
    """The same as text in UTF-8, line ends as they are. Raises OSError, and UnicodeDecodeError if `errors` says so."""
    return read_bytes(path, kind).decode("utf-8", errors)


def read_handed(path: str, kind: FileKind) -> bytes:
    """All that the caller of this process hands over as `/dev/fd/63`, waiting for it as for standard input.

    Raises OSError.
    """
    with open(path, "rb") as stream:
        return bounded(stream, kind, path)


def bounded(file: BinaryIO, kind: FileKind, name: str, expected: int = 0) -> bytes:
    """All that an open file or stream has left; `expected`: how much that is, if it is known. Raises OSError."""
    if expected > kind.most:
        raise _too_large(kind, name, expected)
    chunks: list[bytes] = []
    size = 0
    while chunk := file.read(max(expected - size, _CHUNK)):
        chunks.append(chunk)
        size += len(chunk)
        if size > kind.most:
            raise _too_large(kind, name, None)
    return b"".join(chunks)


def mapped(path: Named) -> memoryview:
    """The bytes of a regular file, read from it as they are used. Raises OSError."""
    with opened(path) as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def beside(module_file: str, name: str) -> str:
    """A text that DistIR comes with, beside one of its modules: `beside(__file__, "dir.lark")`."""
    return read_text(Path(module_file).with_name(name), OURS)


_CHUNK = 1 << 16
_WITHOUT_WAITING = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def _must_be_regular(mode: int, name: str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "expected a file, found a folder", name)
    if not stat.S_ISREG(mode):
        kind = next((kind for of, kind in _KINDS if of(mode)), "something else")
        raise UnreadError(errno.EINVAL, f"expected a file, found {kind}", name, "name a regular file")


def _too_large(kind: FileKind, name: str, size: int | None) -> UnreadError:
    found = f"more than {show_bytes(kind.most)}" if size is None else show_bytes(size)
    return UnreadError(errno.EFBIG, f"it has {found}, {kind.name} may have {show_bytes(kind.most)}", name, kind.help)
