"""What overlap gains on this machine, beside what the simulation says: training steps on two processes, with gloo.

Run it as a script: `python benchmarks/bench_overlap.py [HARDWARE]`, on a machine with nothing else to do and two cores
for each process: one computes, gloo's threads have the other. HARDWARE is a profile that `distir calibrate --devices 2
--threads 1` has written here; by default that of the last `make accuracy`, or else the one that is committed.

Each program is measured with overlap and without in turn, in the same two processes, so that what disturbs the machine
disturbs both. Results are compared. Nothing is asserted of times: they depend on the machine.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ranks import reported

import distir
from distir.cost import load
from distir.lower import EntryPoint
from distir.models import mlp
from distir.simulate import arguments

ROOT = Path(__file__).parents[1]
PROFILES = (ROOT / "build/accuracy/two_ranks.toml", ROOT / "examples/accuracy/two_cores/two_ranks.toml")
PAIRS, WARM = 21, 3
"""How often both are timed, and how often they run before."""

MEASURE = f"""
def measure():
    torch.set_grad_enabled(False)
    values = {{name: program.inputs(name, {{}}) for name in ("plain", "beside")}}
    results, seconds = {{}}, {{name: [] for name in values}}
    for turn in range({PAIRS + WARM}):
        for name in list(values)[:: 1 if turn % 2 else -1]:
            given = program.copies(name, values[name])
            runtime.barrier()
            start = time.perf_counter()
            found = program.call(name, given)
            if turn >= {WARM}:
                seconds[name].append(time.perf_counter() - start)
            results[name] = found
    apart = [float((a - b).abs().max()) for a, b in zip(*results.values()) if a.is_floating_point()]
    return runtime.exchanged({{"seconds": seconds, "apart": max(apart)}})
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A perceptron that is trained, how it is distributed, and what is put on streams."""

    layers: int
    width: int
    batch: int
    steps: str
    overlap: str

    def programs(self) -> tuple[Any, Any]:
        """Without overlap, and with it."""
        training = distir.transform(mlp(self.layers, self.width, self.batch, "Float32"), "grad", "optimizer=sgd")
        plain = distir.transform(training, *self.steps.split())
        return plain, distir.transform(plain, *self.overlap.split())

    def __str__(self) -> str:
        kinds = self.overlap.partition(" ")[0]
        return f"{self.layers} x {self.width}, {self.batch}: {self.steps.replace(' partition=split', '')} {kinds}"


BUCKETS = f"overlap=gradients bucket_bytes={4 << 20} first_bucket_bytes={4 << 20}"
CASES = (
    Case(8, 1024, 128, "dp=2", BUCKETS),
    Case(8, 1024, 256, "dp=2", BUCKETS),
    Case(4, 2048, 128, "dp=2", "overlap=gradients bucket_bytes=16777216 first_bucket_bytes=16777216"),
    Case(8, 1024, 256, "accumulate=2 dp=2", BUCKETS),
    Case(8, 1024, 256, "dp=2 zero=2 partition=split", BUCKETS),
    Case(8, 1024, 256, "dp=2 zero=3 partition=split", "overlap=gradients,weights"),
    Case(6, 1024, 512, "pp=2 microbatches=4", "overlap=transfers"),
    Case(4, 512, 32, "dp=2", "overlap=gradients bucket_bytes=0 first_bucket_bytes=0"),
)
"""Those with messages about as long as the products beside them gain most; the last one has small ones."""


def measured(plain: Any, beside: Any) -> tuple[dict[str, list[float]], float]:
    """The seconds of each run of both, of the slower rank, and by how much results differ at most."""
    entries: list[EntryPoint] = []
    for name, module in (("plain", plain), ("beside", beside)):
        main = module.functions["main"]
        entries.append(EntryPoint(name, module, main, arguments(main, {})))
    found = reported(entries, MEASURE)
    seconds = {
        name: [max(times) for times in zip(*(each["seconds"][name] for each in found), strict=True)]
        for name in ("plain", "beside")
    }
    return seconds, max(each["apart"] for each in found)


def main() -> None:
    """Print a row for each program: simulated and measured, and the gain of each."""
    hardware = sys.argv[1] if len(sys.argv) > 1 else str(next(path for path in PROFILES if path.exists()))
    start = time.perf_counter()
    print(f"{hardware}: {load(hardware).title}")
    print(f"{'program':64}{'simulated':>24}{'gain':>7}{'measured':>24}{'gain':>7}{'faster in':>11}{'results':>9}")
    agree: list[bool] = []
    for case in CASES:
        plain, beside = case.programs()
        says = [distir.simulate(module, hardware).latency_s for module in (plain, beside)]
        found, apart = measured(plain, beside)
        takes = [statistics.median(found[name]) for name in ("plain", "beside")]
        pairs = [a > b for a, b in zip(found["plain"], found["beside"], strict=True)]
        expected, gained = (1 - b / a for a, b in (says, takes))
        cells = [f"{a * 1e3:.1f} -> {b * 1e3:.1f} ms" for a, b in (says, takes)]
        agree.append((expected > 0.02) <= (gained > 0))
        same = "same" if apart < 1e-4 else f"{apart:.1g}"
        print(
            f"{case!s:64}{cells[0]:>24}{expected:7.0%}{cells[1]:>24}{gained:7.0%}"
            f"{sum(pairs):>7} of {len(pairs)}{same:>8}",
            flush=True,
        )
    seconds = time.perf_counter() - start
    print(f"\nfaster where the simulation says so: {sum(agree)} of {len(agree)} programs ({seconds:.0f} s)")


if __name__ == "__main__":
    main()
