"""What overlap gains on this machine, beside what the simulation says: training steps on processes, with gloo.

Run it as a script: `python benchmarks/bench_overlap.py [HARDWARE]`. Nothing is asserted: times depend on the machine,
and where transfers take the cores that compute, overlap gains little.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import distir
from distir.models import mlp

PROFILE = Path(__file__).parents[1] / "examples" / "accuracy" / "two_cores" / "two_ranks.toml"
"""Two processes, of a core each."""

STRATEGIES = ("dp=2", "accumulate=4 dp=2", "dp=2 zero=2 partition=split", "dp=2 zero=3 partition=split")


def measured(module: Any, folder: Path) -> float:
    """The median time of a step on processes, in seconds."""
    path = folder / "step.dir"
    path.write_text(distir.format(module))
    command = [str(Path(sys.executable).with_name("distir")), "launch", str(path), "--repeat", "9", "--json"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(found.stdout)["latency_s"])


def main() -> None:
    """Print a row for each strategy: simulated and measured, without overlap and with it."""
    hardware = sys.argv[1] if len(sys.argv) > 1 else str(PROFILE)
    training = distir.transform(mlp(8, 512, 64, "Float32"), "grad", "optimizer=adam")
    print(f"{'strategy':32}{'simulated':>24}{'measured':>24}")
    with tempfile.TemporaryDirectory() as folder:
        for words in STRATEGIES:
            plain = distir.transform(training, *words.split())
            beside = distir.transform(plain, "overlap")
            says = [distir.simulate(module, hardware).latency_s for module in (plain, beside)]
            takes = [measured(module, Path(folder)) for module in (plain, beside)]
            cells = [f"{a * 1e3:.1f} -> {b * 1e3:.1f} ms" for a, b in (says, takes)]
            print(f"{words:32}{cells[0]:>24}{cells[1]:>24}")


if __name__ == "__main__":
    main()
