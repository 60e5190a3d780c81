"""What is left out of ONNX, ops and backend node cases, as a page; `python tests/onnx/left_out.py` writes it."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from textwrap import fill

from node_case_samples import node_cases, outcome

from distir.ops import bridge
from distir.ops.bridge.gradients import RULES

PAGE = Path(__file__).parents[2] / "docs" / "onnx-ops.md"


def documented():
    """The cases that the page says are left out, each with its reason."""
    listed = {}
    for line in PAGE.read_text().splitlines():
        reason, bar, names = line.removeprefix("- ").partition(": `test_")
        if bar:
            listed |= dict.fromkeys(re.findall(r"`(test_\w+)`", f"`test_{names}"), reason)
    return listed


def page():
    """The page's text, from running every case."""
    reasons = defaultdict(list)
    for case in node_cases().values():
        if reason := outcome(case):
            reasons[reason].append(case.name)
    lines = [page_of_ops()]
    total, missing = len(node_cases()), sum(map(len, reasons.values()))
    lines.append(CASES.format(total=total, passed=total - missing, missing=missing))
    for reason, names in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        lines.append(f"- {reason}: {', '.join(f'`{name}`' for name in sorted(names))}")
    return "\n".join(lines) + "\n"


def page_of_ops():
    """The part of the page that is about ops."""
    ops = defaultdict(list)
    for name, reason in bridge.LEFT_OUT.items():
        ops[reason].append(name)
    differentiable = fill(", ".join(f"`{name}`" for name in sorted(RULES, key=str.lower)), 118)
    listed = [f"- {', '.join(f'`{name}`' for name in sorted(names))}: {reason}." for reason, names in ops.items()]
    return "\n".join([HEAD.format(opset=bridge.OPSET, differentiable=differentiable), *listed])


HEAD = """\
# ONNX's ops

Programs can use every op of the standard ONNX domain, at operator set {opset}, by its ONNX name. `distir ops` lists
first the ops that DistIR defines, then the names of those that the `onnx` package provides (`pip install
'distir[onnx]'`): operands, attributes and documentation come from its schemas (`distir ops Conv`), result types from
its shape inference, values from its reference implementation. Of the latter these have gradients:
{differentiable}.

Where ONNX leaves behaviour unspecified, DistIR defines it:

- Random ops without a `seed` get a fixed random seed: a program has the same results every time.
- An integer attribute of ONNX that is a flag is `true` or `false`; one that is an element type is that type:
  `output_dtype = Float16`.
- An operand that determines a shape (`sizes` of `Resize`) must be a host value.
- DistIR computes `MaxPool`, `GroupNormalization` and grouped `ConvTranspose` itself, because ONNX's implementation
  (1.23) has errors or rounds more than necessary.
- All operands on a device, and all results, are on the same device; if all operands are host values, so are the
  results.

## Ops that are not supported
"""

CASES = """
## Backend cases that are not supported

ONNX has {total} backend test cases for single ops; {passed} of them are imported and give the expected results, and
{missing} do not, for these reasons.
"""

if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE}\n")
