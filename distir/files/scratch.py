"""Temporary folders that are removed when their process ends, in whatever way.

After an error, an interrupt or SIGTERM the process removes its own. Those of a process that was killed are removed by
the next one: a process holds a lock on a file in its folder, which the system releases when the process ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from distir.files.locking import InUseError, open_alone

LOCK = ".lock"

SETTLED_S = 60.0
"""A folder younger than this may be about to be locked, and is left alone."""


@contextmanager
def scratch_folder(purpose: str) -> Generator[Path]:
    """A new folder for the block, `distir-PURPOSE-…` where the system keeps such. Raises OSError."""
    _remove_left_behind()
    with (
        ended_on_termination(),
        tempfile.TemporaryDirectory(prefix=f"distir-{purpose}-", ignore_cleanup_errors=True) as name,
        open_alone(os.path.join(name, LOCK)),
    ):
        yield Path(name)


@contextmanager
def ended_on_termination() -> Generator[None]:
    """Turn SIGTERM into an exception within the block, so that processes are ended and folders removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _remove_left_behind() -> None:
    """Remove folders of ours whose process is gone."""
    for lock in Path(tempfile.gettempdir()).glob(f"distir-*/{LOCK}"):
        with suppress(OSError):  # of another user, or removed by another process
            if time.time() - lock.stat().st_mtime > SETTLED_S:
                _remove_unless_used(lock)


def _remove_unless_used(lock: Path) -> None:
    with suppress(InUseError), open_alone(str(lock)):
        shutil.rmtree(lock.parent)
