"""Runs a lowered folder on this machine: one process per rank. Does not depend on torch.

The processes rendezvous through a file, so there are no port conflicts. When one fails, its error is reported and the
others are killed. No process outlives this one: each runs in its own process group, which is killed here, and exits
when its standard input closes, as it does when this process dies.
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
from distir.ir.errors import DistirError

POLL_S = 0.02
"""The interval at which the processes are polled."""

GRACE_S = 1.0
"""How long the other ranks may take to report their errors once one has failed."""

MOST_CHARACTERS = 4000
"""The length to which error messages and the standard error of a process are cut."""


MALLOC_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
"""For glibc: the process caches freed memory, as GPU allocators do. Otherwise, in each step the kernel would zero the
pages of large tensors again."""


PROCESS_BYTES = 200 << 20
"""What a process takes that has loaded torch, before it holds any tensor."""


class LaunchError(DistirError, RuntimeError):
    """A rank failed or timed out. `help`: details, or what to do."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True, slots=True)
class Launch:
    """A folder, and how to run it. `timeout_s`: for the whole run; `words`: further arguments of the script."""

    folder: Path
    devices: Sequence[int]
    backend: str = "gloo"
    timeout_s: float = 300.0
    words: Sequence[str] = ()
    environment: Mapping[str, str] | None = None
    script: str = "run.py"


def gpus() -> int:
    """How many GPUs torch finds on this machine, in a process of its own; 0 without torch."""
    words = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    try:
        return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def launch(wanted: Launch) -> dict[str, Any]:
    """Run all ranks of a folder. Returns the report of run.py. Raises LaunchError, KeyboardInterrupt."""
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
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine, whatever its host name
        for name, value in MALLOC_SETTINGS.items():
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
    """Wait until all processes have succeeded. Raises LaunchError on the first failure, or on a timeout."""
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
    """The root cause: a rank that was killed, or else the earliest reported error."""
    until = time.monotonic() + GRACE_S
    while time.monotonic() < until and any(process.poll() is None for process in processes):
        time.sleep(POLL_S)
    codes = [process.poll() for process in processes]
    reported = {rank: _reported(room / f"{rank}.json") for rank in range(len(codes))}
    killed = [rank for rank, code in enumerate(codes) if code is not None and code < 0 and reported[rank] is None]
    failed = [(found["time"], rank) for rank, found in reported.items() if found is not None]
    if killed:
        rank = killed[0]
        name = _signal_name(-(codes[rank] or 0))
        hint = _last_lines(logs[rank]) or "the other ranks were ended"
        return LaunchError(f"rank {wanted.devices[rank]} was killed by {name}", hint)
    if not failed:
        rank = next(rank for rank, code in enumerate(codes) if code)
        return LaunchError(f"rank {wanted.devices[rank]} ended with code {codes[rank]}", _last_lines(logs[rank]))
    _, rank = min(failed)
    found = reported[rank]
    assert found is not None
    return _explained(wanted.devices[rank], found)


def _reported(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(read_bytes(path, REPORT))
    except (OSError, ValueError):
        return None
    return found


def _explained(device: int, found: Mapping[str, Any]) -> LaunchError:
    place = f" in `{found['statement']}` of `@{found['function']}`" if "statement" in found else ""
    message = str(found["message"])[:MOST_CHARACTERS]
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
        text = read_text(log, REPORT, "replace")[-MOST_CHARACTERS:].strip()
    except OSError:
        return None
    lines = [line for line in text.split("\n") if line.strip()]
    return lines[-1].strip() if lines else None


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kill the processes that still run, with their children, and wait for them."""
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
