"""The whole evaluation, as a page of the documentation with its pictures: `docs/explanation/paper.md`.

python examples/paper/report.py
"""

from __future__ import annotations

import platform

import best
import figure3
import memory_throughput
import scaling
import table1
from evaluation import OUT, REPORT

PARTS = {"figure3": figure3, "table1": table1, "memory_throughput": memory_throughput, "best": best, "scaling": scaling}

HEAD = """# The paper's evaluation, simulated

Santhanam, Krishna, Tomioka, Harris, Zaharia: *DistIR: An Intermediate Representation and Simulator for Efficient Neural
Network Distribution*, 2021. `make paper` writes this page and its pictures; what is searched is kept in `build/paper`,
so that an interrupted run goes on. The machine is the profile `dgx2-v100`, 16 V100 of a DGX-2 with 32 GB each, with
figures from published sources and no measurement of our own. Everything here is simulated. The paper's speedups and
correlations are measured on that machine, and cannot be repeated without one; [Accuracy](../accuracy.md) compares
simulated with measured times where we can measure.
"""

DIFFERENCES = """## What differs from the paper, and why

**Costs.** The paper's products and all-reduces take what linear regressions say that were fitted on its machine, its
other ops what simple formulas say. Here an op takes its launch and the longer of arithmetic and memory traffic, by
published rates that depend on its size, and messages what their algorithm and the links between the devices say.
Absolute times differ; which strategy is best differs only where two are within half a per cent of each other.

**Close calls.** At the batch sizes where another D/T/P is best here, the two are that close, and what is small decides:
latencies, elementwise ops, and that the first layer's input needs no gradient, so that tensor parallelism here sends
one all-reduce less in a step than a transform that computes it all the same.

**Pipelines look worse at small batches and better at large ones** than the paper measured. At batch 128 a microbatch
is one example, and each op of each stage pays its launch for it. At large batches only the bubble is left,
(P-1)/(K+P-1) or a tenth with K = 128 and P = 16, and transfers between neighbours; the paper's backend may also lose
time where stages wait for each other's sends. The paper, too, finds that its simulator errs most for pipelines.

**Memory** is exact for the program, to the byte, and what is no longer needed is given back at once. The paper's
backend allocates as it goes, and it says that it runs out of memory, by fragmentation, where its simulator expects a
fit.

**Time to simulate.** The paper looks at each op of each microbatch. Here transforms write calls of the same functions,
and what a call does is found once; all batch sizes of a strategy share one transformed program.
"""


def main() -> None:
    """Run all parts."""
    for part in PARTS.values():
        part.main()
    texts = [(OUT / f"{name}.md").read_text(encoding="utf-8") for name in PARTS]
    machine = f"Times are of one core ({platform.machine()}, Python {platform.python_version()}).\n"
    report = REPORT.with_suffix(".md")
    report.write_text("\n".join([HEAD, machine, *texts, DIFFERENCES]), encoding="utf-8")
    print(f"wrote {report}")


if __name__ == "__main__":
    main()
