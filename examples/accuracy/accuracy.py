"""How true the simulator is here: calibrate, run programs, and lay what was simulated beside what was measured.

`make accuracy` runs this. With `--measured`, nothing is run: what was measured once, on the machine that the profiles
in `examples/accuracy/two_cores` describe, is compared with what the simulator says now. With `--backend nccl` one GPU
runs programs of its own, all in one process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from comparison import PROFILES, Measured, compare, draw, machines, read, report, write
from configurations import Configuration, drawn, drawn_on_gpu

from distir.cost.calibrate.measuring import typical

if TYPE_CHECKING:
    from distir.lower import Lowered

HERE = Path(__file__).parent
COMMITTED = HERE / "two_cores"
FEWEST, MOST = 12, 100
"""Timed runs in a round."""

ROUND_S = 0.4
"""How long a round times a configuration, about."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", action="store_true", help="measure nothing: take what was measured")
    parser.add_argument("--folder", type=Path, default=None, help="where measurements are written, or read from")
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo", help="nccl: one GPU")
    parser.add_argument("--rounds", type=int, default=2, help="how often each configuration is launched")
    parser.add_argument("--calibration-rounds", type=int, default=5, help="of `distir calibrate`")
    parser.add_argument("--out", type=Path, default=Path("build/accuracy"), help="where the report is written")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    folder = options.folder or (COMMITTED if options.measured else options.out)
    if not options.measured:
        folder.mkdir(parents=True, exist_ok=True)
        measured = measure_on_gpu if options.backend == "nccl" else measure
        measured(folder, options.rounds, options.calibration_rounds)
    if not (folder / "measured.csv").exists():
        sys.exit(f"nothing has been measured in {folder} yet: run this without --measured")
    hardware = machines(folder)
    rows = compare(read(folder / "measured.csv"), hardware)
    text = report(rows, hardware)
    (options.out / "report.md").write_text(text)
    draw(rows, options.out / "accuracy.svg")
    print(text)


def measure(folder: Path, rounds: int, calibration_rounds: int) -> None:
    """Calibrate with one rank and with two, then time all configurations, in rounds."""
    for ranks, name in PROFILES.items():
        words = [
            "--devices",
            str(ranks),
            "--threads",
            "1",
            "--rounds",
            str(calibration_rounds),
            "-o",
            str(folder / name),
        ]
        subprocess.run([Path(sys.executable).with_name("distir"), "calibrate", *words], check=True)
    hardware = machines(folder)
    configurations = drawn()
    found: dict[int, list[list[float]]] = {c.number: [] for c in configurations}
    for number in range(rounds):
        for configuration in configurations:
            runs = timed(configuration, hardware)
            found[configuration.number].append(runs)
            print(f"round {number + 1}, {configuration}: {1e3 * typical(runs):.3f} ms", file=sys.stderr, flush=True)
    write(folder / "measured.csv", [_measured(c, found[c.number]) for c in configurations])


def measure_on_gpu(folder: Path, rounds: int, calibration_rounds: int) -> None:
    """Calibrate one GPU, then time its configurations, in rounds: in each, all of them in one process."""
    words = ["--backend", "nccl", "--dtypes", "BFloat16,Float32", "--rounds", str(calibration_rounds)]
    distir_command = Path(sys.executable).with_name("distir")
    subprocess.run([distir_command, "calibrate", *words, "-o", str(folder / PROFILES[1])], check=True)
    configurations = drawn_on_gpu()
    found: dict[int, list[list[float]]] = {c.number: [] for c in configurations}
    peaks: dict[int, int] = {}
    with tempfile.TemporaryDirectory(prefix="distir-accuracy-") as scratch:
        folders = write_programs(configurations, Path(scratch))
        for _ in range(rounds):
            together = [sys.executable, str(HERE / "together.py"), *map(str, folders)]
            lines = subprocess.run(together, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
            for line in (json.loads(line) for line in lines):
                number = int(line["folder"])
                if "error" in line:
                    sys.exit(f"{configurations[number]}: {line['error']}")
                found[number].append(line["seconds"])
                peaks[number] = line["peak_memory_bytes"]
    rows = [_measured(c, found[c.number], peaks[c.number]) for c in configurations]
    write(folder / "measured.csv", rows)


def write_programs(configurations: Sequence[Configuration], folder: Path) -> list[Path]:
    """Lower each configuration to a folder named by its number."""
    found = [folder / f"{c.number:02}" for c in configurations]
    for place, configuration in zip(found, configurations, strict=True):
        lowered(configuration).write(place)
    return found


def lowered(configuration: Configuration) -> Lowered:
    """The torch program of a configuration."""
    from distir.lower import EntryPoint, lower
    from distir.simulate import arguments

    module = configuration.program()
    main = module.functions["main"]
    return lower([EntryPoint("main", module, main, arguments(main, {}))])


def _measured(configuration: Configuration, rounds: list[list[float]], peak: int | None = None) -> Measured:
    seconds = statistics.median(map(typical, rounds))
    every = sorted(run for runs in rounds for run in runs)
    return Measured(configuration, len(every), seconds, every[len(every) * 9 // 10] / seconds - 1, peak)


def timed(configuration: Configuration, hardware: dict) -> list[float]:
    """Seconds of each run of a configuration: of its slowest rank."""
    import distir
    from distir.lower import Launch, launch

    expected = distir.simulate(configuration.program(), hardware[configuration.ranks]).latency_s
    repeat = max(FEWEST, min(MOST, round(ROUND_S / expected)))
    program = lowered(configuration)
    with tempfile.TemporaryDirectory(prefix="distir-accuracy-") as scratch:
        program.write(Path(scratch))
        words = ["--repeat", str(repeat), "--warmup", "2", "--threads", "1"]
        return launch(Launch(Path(scratch), program.ranks, timeout_s=120, words=words))["latencies_s"]


if __name__ == "__main__":
    main()
