"""A file that one process writes at a time. The lock is the system's: it ends with the process, however that ends."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from distir.ir.errors import DistirError


class InUseError(DistirError, OSError):
    """Another process has the file locked; `process` is its id, if the system reports it."""

    def __init__(self, path: str, process: int | None) -> None:
        by = "another process" if process is None else f"process {process}"
        super().__init__(errno.EWOULDBLOCK, f"{by} is writing it", path)
        self.process = process


def open_alone(path: str) -> BinaryIO:
    """A file open for reading and writing, made if there is none, which no other process gets until it is closed.

    Anything but a regular file (`/dev/null`) is not locked. Raises OSError, which is InUseError for a file that
    another process has got here.
    """
    while True:
        more = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = open(os.open(path, os.O_RDWR | os.O_CREAT | more, 0o666), "rb+", buffering=0)  # noqa: SIM115
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                os.set_blocking(file.fileno(), True)
                return file
            _lock(file, path)
            if _is_still(file, path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # another process has put a new file there in the meantime


def _lock(file: BinaryIO, path: str) -> None:
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUseError(path, _holder(os.fstat(file.fileno()))) from None
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENOLCK, errno.EINVAL, errno.ENOSYS):
            raise  # a file system without locks is written without


def _is_still(file: BinaryIO, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(status: os.stat_result) -> int | None:
    """The process that has locked a file, as Linux lists them: `1: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF`."""
    from distir.files.reading import OURS, read_text

    try:
        locks = [line.split() for line in read_text("/proc/locks", OURS).splitlines()]
    except OSError:
        return None
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    numbers = (int(lock[4]) for lock in locks if len(lock) > 5 and lock[1] == "FLOCK" and lock[5] == place)
    return next((number for number in numbers if number > 0), None)
