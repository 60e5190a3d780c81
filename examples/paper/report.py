"""The whole evaluation, as a page of the documentation with its figures: `docs/explanation/paper.md`.

python examples/paper/report.py
"""

from __future__ import annotations

import platform

import best
import deepest
import figure3
import memory_throughput
import scaling
import table1
from evaluation import OUT, REPORT

PARTS = {
    "figure3": figure3,
    "table1": table1,
    "memory_throughput": memory_throughput,
    "best": best,
    "deepest": deepest,
    "scaling": scaling,
}

HEAD = """# The paper's evaluation, simulated

Santhanam, Krishna, Tomioka, Harris, Zaharia: *DistIR: An Intermediate Representation and Simulator for Efficient Neural
Network Distribution*, 2021. `make paper` writes this page and its figures; search results are saved in `build/paper`,
so that an interrupted run resumes. The machine is the profile `dgx2-v100`, 16 V100 of a DGX-2 with 32 GB each, with
figures from published sources and no measurements of ours. Everything here is simulated. The paper's speedups and
correlations are measured on that machine, and cannot be repeated without one; [Accuracy](../accuracy.md) compares
simulated with measured times on machines that we have.
"""

DIFFERENCES = """## What differs from the paper, and why

**Costs.** The paper uses linear regressions, fitted on its machine, for matrix products and all-reduces, and simple
formulas for other ops. Here an op takes its launch time plus the longer of arithmetic and memory traffic, at published
rates that depend on its size; the time of a message follows from its algorithm and the links between the devices.
Absolute times differ; the best strategy differs only where two are within half a per cent of each other.

**Close calls.** At the batch sizes where another D/T/P is best here, the two are that close, and small effects decide:
latencies, elementwise ops, and one all-reduce less per step in our tensor parallelism, because the first layer's input
needs no gradient.

**Pipelines look worse at small batches and better at large ones** than the paper measured. At batch 128 a microbatch
is one example, and each op of each stage pays its launch time for it. At large batches only the bubble remains,
(P-1)/(K+P-1) or a tenth with K = 128 and P = 16, and transfers between neighbours; the paper's backend may also lose
time when stages wait for each other's sends. The paper's simulator has its largest errors for pipelines, too.

**Memory** is exact for the program, to the byte, and dead values are freed at once. The paper's backend allocates
dynamically, and the paper reports that fragmentation makes it run out of memory where its simulator predicts a fit.

**Simulation time.** The paper's simulator visits each op of each microbatch. Here transforms write calls of the same
functions, and the effect of a call is computed once; all batch sizes of a strategy share one transformed program.
"""


def main() -> None:
    """Run all parts."""
    for part in PARTS.values():
        part.main()
    texts = [(OUT / f"{name}.md").read_text(encoding="utf-8") for name in PARTS]
    machine = f"Times were measured on one core ({platform.machine()}, Python {platform.python_version()}).\n"
    report = REPORT.with_suffix(".md")
    report.write_text("\n".join([HEAD, machine, *texts, DIFFERENCES]), encoding="utf-8")
    print(f"wrote {report}")


if __name__ == "__main__":
    main()
