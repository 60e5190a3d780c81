"""Files: which ones are meant, what is in them, and how they are replaced. Knows nothing of what they mean."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager

from distir.cli import output
from distir.cli.endings import Refused
from distir.files import reading
from distir.files.reading import PROGRAM, SUFFIX, FileKind, why_not

STDIN = "-"
"""The path that denotes standard input."""


def shown(path: str) -> str:
    """The path as messages name it."""
    return "<stdin>" if path == STDIN else path


def expand(paths: Iterable[str]) -> list[str]:
    """The files that paths name: folders expand to the `.dir` files in them and below, except in hidden folders.

    Each file once, those of a folder sorted. Raises Refused for a folder without any.
    """
    found: dict[str, None] = {}
    for path in paths:
        if path == STDIN or not os.path.isdir(path):
            found[path] = None
            continue
        inside = sorted(_programs(path))
        if not inside:
            raise Refused(f"there is no `{SUFFIX}` file in `{path}`", "name a file, or a folder that holds some")
        found.update(dict.fromkeys(inside))
    return list(found)


def read_bytes(path: str, kind: FileKind = PROGRAM) -> bytes:
    """The bytes of a file, of standard input, or of a shell's `<(…)`. Raises Refused."""
    try:
        if path == STDIN:
            return reading.bounded(sys.stdin.buffer, kind, shown(path))
        return reading.read_handed(path, kind) if _is_handed(path) else reading.read_bytes(path, kind)
    except IsADirectoryError:
        raise Refused(f"expected a file, found the folder `{path}`") from None
    except OSError as error:
        raise Refused(f"cannot read `{shown(path)}`: {why_not(error)}", reading.advice(error)) from None


def replace_file(path: str, data: bytes) -> None:
    """Put `data` in the place of what a file holds, at once or not at all. Raises Refused."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(data)


def put(text: str, out: str | None) -> None:
    """Write a text to a file, or, where none is named, to standard output."""
    if out is None:
        output.write(text)
    else:
        replace_file(out, text.encode())
        output.tell_terminal(f"wrote {out}")


@contextmanager
def replacing(path: str) -> Generator[str]:
    """A temporary file beside `path`, to be written in the block; afterwards it takes the place of `path`.

    Whatever happens in between, `path` holds either the old or the new. Permissions are kept and links are followed;
    special files, such as `/dev/null`, are written to. Raises Refused where the system refuses.
    """
    target = os.path.realpath(path)
    temporary = ""
    try:
        mode = _mode(target)
        folder, name = os.path.split(target)
        handle, temporary = tempfile.mkstemp(
            prefix=f".{name[:100]}.", suffix=".tmp", dir=tempfile.gettempdir() if mode is None else folder
        )
        os.close(handle)
        yield temporary
        if mode is None:
            with reading.opened(temporary) as written, open(target, "wb") as special:
                shutil.copyfileobj(written, special)
        else:
            os.chmod(temporary, mode)
            _to_disk(temporary)
            os.replace(temporary, target)
    except OSError as error:
        raise Refused(f"cannot write `{path}`: {why_not(error)}") from None
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def refuse_unwritable(*paths: str) -> None:
    """Before what takes long: raises Refused for a file that could not be written after it."""
    for path in paths:
        target = os.path.realpath(path)
        try:
            _mode(target)
            os.stat(os.path.join(os.path.dirname(target), ""))  # the folder
        except OSError as error:
            raise Refused(f"cannot write `{path}`: {why_not(error)}") from None


def write_with(path: str, writer: Callable[[str], object]) -> None:
    """Let `writer` write a file of a given name, at once or not at all. Raises Refused."""
    with replacing(path) as temporary:
        writer(temporary)


def _programs(folder: str) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(root, name) for name in names if name.endswith(SUFFIX) and not name.startswith("."))


def _is_handed(path: str) -> bool:
    """Whether a path names what the caller of the command has open already, such as a pipe."""
    return path == "/dev/stdin" or path.startswith("/dev/fd/")


def _mode(target: str) -> int | None:
    """The permissions that a file has, or that a new one gets; None for a device. Raises OSError where none may be."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "Is a directory")
    if not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied")
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def _to_disk(path: str) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
