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

Every op of the standard ONNX domain, at operator set {opset}, can be used in a program by its ONNX name. `distir ops`
lists them: first those that have definitions of their own, then by name alone those that come from ONNX itself
(`pip install 'distir[onnx]'`), with operands, attributes and documentation from its schemas (`distir ops Conv`), result
types from its shape inference, values from its reference implementation. Of the latter these have gradients:
{differentiable}.

Where ONNX leaves something open, this is how it is settled:

- Random ops without a `seed` have one: a program gives the same results every time.
- An attribute that ONNX declares as an integer and means as a flag is written `true` or `false`; one that it means as
  an element type is written as that type: `output_dtype = Float16`.
- An operand that decides a shape (`sizes` of `Resize`) must be a host value.
- `MaxPool`, `GroupNormalization` and grouped `ConvTranspose` are computed here, where ONNX's implementation (1.23) errs
  or rounds more than it need.
- All operands that live on a device live on the same one, and so do the results; of host values alone the results are
  host values.

## Ops that are left out
"""

CASES = """
## Backend cases that are left out

ONNX's own backend tests for single ops are {total} cases; {passed} of them are imported and run with the results
expected, and {missing} are not, for these reasons.
"""

if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE}\n")
