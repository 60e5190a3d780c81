"""What commands cost as a user runs them, each a process of its own: CPU time and memory.

Llama 3 405B: the model, its training step, and a simulation of it on one device; the training step on a mesh of 16,384
devices, and its check. Ratios are to the CPU time of the first command, the model. Run it as a script. Nothing is
asserted: times depend on the machine. The first round fills caches (bytecode, the grammar's tables), and is not shown.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

ROUNDS = 3
COMMANDS = tuple(
    tuple(line.split())
    for line in (
        "model llama3-405b -o model.dir",
        "transform grad loss=cross_entropy optimizer=adam model.dir -o training.dir",
        "simulate training.dir --hardware dgx-h100 --bind B=1",
        "transform grad optimizer=adamw precision=mixed mesh dp=2048 tp=8 zero=1 model.dir -o mesh.dir",
        "check mesh.dir",
    )
)
ON_MESH = 3
"""From which command on a program is on a mesh."""
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
    least = [min(seconds for seconds, _ in runs) for runs in zip(*rounds, strict=True)]
    most = [max(memory for _, memory in runs) for runs in zip(*rounds, strict=True)]
    for words, seconds, memory in zip(COMMANDS, least, most, strict=True):
        print(f"distir {' '.join(words):94} {seconds:5.2f} s, {seconds / least[0]:4.1f}, {memory:4.0f} MB")
    for what, own in (("the first three", slice(ON_MESH)), ("on a mesh", slice(ON_MESH, None))):
        print(f"{what:101} {sum(least[own]):5.2f} s, {sum(least[own]) / least[0]:4.1f}")


if __name__ == "__main__":
    main()
