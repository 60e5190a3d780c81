"""What commands cost as a user runs them, each a process of its own: CPU time and memory.

Llama 3 405B: the model, its training step, and a simulation of it on one device. Run it as a script. Nothing is
asserted: times depend on the machine. The first round fills caches (bytecode, the grammar's tables), and is not shown.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

ROUNDS = 3
COMMANDS = (
    ("model", "llama3-405b", "-o", "model.dir"),
    ("transform", "grad", "loss=cross_entropy", "optimizer=adam", "model.dir", "-o", "training.dir"),
    ("simulate", "training.dir", "--hardware", "dgx-h100", "--bind", "B=1"),
)
START = "import sys; from distir_start import distir; sys.exit(distir())"


def spent(words: tuple[str, ...], folder: str) -> tuple[float, float]:
    """The CPU time of a command in seconds, and the most memory in MB."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = subprocess.Popen(
        [sys.executable, "-c", START, *words], cwd=folder, env=environment, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """A line for each command, and one for all: the least of some rounds."""
    with tempfile.TemporaryDirectory() as folder:
        rounds = [[spent(words, folder) for words in COMMANDS] for _ in range(ROUNDS + 1)][1:]
    for words, runs in zip(COMMANDS, zip(*rounds, strict=True), strict=True):
        print(f"distir {' '.join(words):62} {min(t for t, _ in runs):5.2f} s, {max(m for _, m in runs):4.0f} MB")
    print(f"{'all three':69} {min(sum(t for t, _ in runs) for runs in rounds):5.2f} s")


if __name__ == "__main__":
    main()
