"""The whole evaluation, as a report with pictures in `build/paper/report.md`.

python examples/paper/report.py
"""

from __future__ import annotations

import platform

import best
import figure3
import memory_throughput
import scaling
import table1
from evaluation import OUT

PARTS = {"figure3": figure3, "table1": table1, "memory_throughput": memory_throughput, "best": best, "scaling": scaling}

HEAD = """# The DistIR paper's evaluation, simulated

Santhanam, Krishna, Tomioka, Harris, Zaharia: *DistIR: An Intermediate Representation and Simulator for Efficient Neural
Network Distribution*. Machine: the profile `dgx2-v100`, 16 V100 of a DGX-2, with figures from published sources and no
measurement of our own. Everything here is simulated; the paper's speedups and correlations are measured.
"""

DIFFERENCES = """## What differs from the paper, and why

- **Costs.** An op takes its launch and the longer of arithmetic and memory traffic, by published rates that depend on
  its size; the paper adds the two up, by regression on a machine that we do not have.
- **Ties.** Where two strategies send the same bytes, as D/T/P = 8/2/1 and 4/4/1 at batch 16,384 of MLP 1B, what is left
  decides: latencies, elementwise ops, and that the first layer's input needs no gradient, so that tensor parallelism
  here sends one all-reduce less per step than a transform that computes it all the same.
- **Pipelines** send what the next stage needs and hold both devices while they do, as in the paper; each microbatch
  of a stage pays the launch of each of its ops, which is why large K is slow here at small batches.
- **Memory** is exact for the program, to the byte; the paper's runs lost some to fragmentation.
- **Models.** Table 1 contradicts itself for some sizes; see `help(distir.models.named)`.
"""


def main() -> None:
    """Run all parts."""
    for part in PARTS.values():
        part.main()
    texts = [(OUT / f"{name}.md").read_text(encoding="utf-8") for name in PARTS]
    machine = f"Times of this report: one core of {platform.machine()}, Python {platform.python_version()}.\n"
    report = OUT / "report.md"
    report.write_text("\n".join([HEAD, machine, *texts, DIFFERENCES]), encoding="utf-8")
    print(f"wrote {report}")


if __name__ == "__main__":
    main()
