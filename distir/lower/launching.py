"""A lowered folder started here: one process per rank, watched until all have ended. Knows no torch itself.

The processes find each other through a file, so no port can be in use. When one fails, its error is told and the
others are ended; whatever happens here, no process is left behind: each has a group of its own that is killed, and
ends by itself when this process is gone (its standard input closes).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distir.files.reading import REPORT, read_bytes, read_text
from distir.files.scratch import scratch_folder

POLL_S = 0.02
"""How often the processes are looked at."""

GRACE_S = 1.0
"""How long the other ranks may take to tell what happened to them, once one has failed."""

TOLD = 4000
"""Characters of a process's standard error that are shown where it has told nothing else."""


KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
"""For glibc: freed memory stays with the process, as with allocators for GPUs. Else each step would have the system
clear the pages of its large tensors anew."""


class LaunchError(RuntimeError):
    """The ranks did not all come to their end. `help` says more."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True, slots=True)
class Launch:
    """What to run and how. `timeout_s`: for the whole run; `words`: more arguments of run.py."""

    folder: Path
    devices: Sequence[int]
    backend: str = "gloo"
    timeout_s: float = 300.0
    words: Sequence[str] = ()
    environment: Mapping[str, str] | None = None
    script: str = "run.py"


def launch(wanted: Launch) -> dict[str, Any]:
    """Run a folder's ranks to the end and give what run.py reports. Raises LaunchError, KeyboardInterrupt."""
    with scratch_folder("launch") as room:
        report = room / "report.json"
        processes: list[subprocess.Popen[bytes]] = []
        logs = [room / f"{rank}.log" for rank in range(len(wanted.devices))]
        try:
            for rank, log in enumerate(logs):
                processes.append(_start(wanted, rank, room, report, log))
            _watch(wanted, processes, room, logs)
        finally:
            _end(processes)
        if not report.exists():
            return {}
        found: dict[str, Any] = json.loads(read_bytes(report, REPORT))
        return found


def _start(wanted: Launch, rank: int, room: Path, report: Path, log: Path) -> subprocess.Popen[bytes]:
    world = len(wanted.devices)
    environment = {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONFAULTHANDLER": "1",
        **(wanted.environment or {}),
    }
    if wanted.backend == "gloo" and sys.platform == "linux":
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the ranks are all here, whatever this machine is called
        for name, value in KEPT_MEMORY.items():
            environment.setdefault(name, value)
    words = [sys.executable, str(wanted.folder / wanted.script), "--backend", wanted.backend, "--supervised"]
    words += ["--timeout", str(wanted.timeout_s), "--store", str(room / "store"), "--errors", str(room)]
    words += ["--report", str(report), *wanted.words]
    with log.open("wb") as output:
        return subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )


def _watch(wanted: Launch, processes: Sequence[subprocess.Popen[bytes]], room: Path, logs: Sequence[Path]) -> None:
    """Wait until all have ended well. Raises LaunchError as soon as one has not, or the time is up."""
    deadline = time.monotonic() + wanted.timeout_s
    while True:
        codes = [process.poll() for process in processes]
        if any(code not in (None, 0) for code in codes):
            raise _failed(wanted, processes, room, logs)
        if all(code == 0 for code in codes):
            return
        if time.monotonic() > deadline:
            late = [str(d) for d, code in zip(wanted.devices, codes, strict=True) if code is None]
            message = f"rank{'s' if len(late) > 1 else ''} {', '.join(late)} did not end within {wanted.timeout_s:g} s"
            raise LaunchError(message, "give more time with `--timeout`")
        time.sleep(POLL_S)


def _failed(
    wanted: Launch, processes: Sequence[subprocess.Popen[bytes]], room: Path, logs: Sequence[Path]
) -> LaunchError:
    """What went wrong first: a rank that was killed, or the one whose error came first."""
    until = time.monotonic() + GRACE_S
    while time.monotonic() < until and any(process.poll() is None for process in processes):
        time.sleep(POLL_S)
    codes = [process.poll() for process in processes]
    told = {rank: _told(room / f"{rank}.json") for rank in range(len(codes))}
    killed = [rank for rank, code in enumerate(codes) if code is not None and code < 0 and told[rank] is None]
    failed = [(found["time"], rank) for rank, found in told.items() if found is not None]
    if killed:
        rank = killed[0]
        name = _signal_name(-(codes[rank] or 0))
        hint = _last_lines(logs[rank]) or "the other ranks were ended"
        return LaunchError(f"rank {wanted.devices[rank]} was killed by {name}", hint)
    if not failed:
        rank = next(rank for rank, code in enumerate(codes) if code)
        return LaunchError(f"rank {wanted.devices[rank]} ended with code {codes[rank]}", _last_lines(logs[rank]))
    _, rank = min(failed)
    found = told[rank]
    assert found is not None
    return _explained(wanted.devices[rank], found)


def _told(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(read_bytes(path, REPORT))
    except (OSError, ValueError):
        return None
    return found


def _explained(device: int, found: Mapping[str, Any]) -> LaunchError:
    place = f" in `{found['statement']}` of `@{found['function']}`" if "statement" in found else ""
    message = str(found["message"])[:TOLD]
    if found["kind"] == "OutOfMemoryError":
        live = ", ".join(f"`{name}` {_bytes(size)}" for name, size in found.get("live", ()))
        return LaunchError(f"rank {device} ran out of memory{place}", f"largest live values: {live or 'none'}")
    return LaunchError(f"rank {device} failed{place}: {message}")


def _bytes(size: int) -> str:
    from distir.cost import show_bytes

    return show_bytes(size)


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _last_lines(log: Path) -> str | None:
    try:
        text = read_text(log, REPORT, "replace")[-TOLD:].strip()
    except OSError:
        return None
    lines = [line for line in text.split("\n") if line.strip()]
    return lines[-1].strip() if lines else None


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kill what still runs, with whatever it has started, and wait for it."""
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
