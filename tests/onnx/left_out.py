"""What is left out of ONNX, ops and backend node cases, as a page; `python tests/onnx/left_out.py` writes it."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from node_programs import Inexpressible, assert_similar, inputs_and_outputs, node_cases, program

from distir.analysis import execute
from distir.diagnostics import ProgramError
from distir.ir import TensorType
from distir.ops import bridge, dtype_of

PAGE = Path(__file__).parents[2] / "docs" / "onnx-ops.md"

DIFFERENT = {
    r"test_bernoulli.*": "random numbers, which no two implementations draw alike",
    r"test_cast_e8m0_FLOAT(16)?_to_FLOAT8E8M0": "powers of two rounded to the nearest here and up there (`round_mode`)",
    r"test_attention_4d_causal_fp16_expanded": "sums of Float16 elements, rounded once here and at each step there",
}
"""Cases that run but whose results may differ, by a pattern of their names."""


def outcome(case):
    """None if the case runs with the results expected, else why it is left out. Raises what nobody expected."""
    try:
        module = program(case.model)
    except Inexpressible as reason:
        return str(reason)
    inputs, expected = inputs_and_outputs(case)
    try:
        outputs = execute(module, inputs)
    except ProgramError as error:
        raise AssertionError(f"{case.name}: {[d.message for d in error.diagnostics]}") from None
    for output in outputs:
        assert describes(output.type, output.value), f"{case.name}: {output.type}, found {output.value.shape}"
    try:
        assert_similar(case, expected, [output.value for output in outputs])
    except AssertionError:
        if may_differ(case.name) is None:
            raise
        return may_differ(case.name)
    return None


def describes(type, value):
    """Whether the type tells at least the element type and the rank, and is right."""
    if not isinstance(type, TensorType) or type.dtype is not dtype_of(value) or type.shape is None:
        return False
    return len(type.shape) == value.ndim and all(d in (None, n) for d, n in zip(type.shape, value.shape, strict=True))


def may_differ(name):
    return next((reason for pattern, reason in DIFFERENT.items() if re.fullmatch(pattern, name)), None)


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
        if reason := may_differ(case.name) or outcome(case):
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
    listed = [f"- {', '.join(f'`{name}`' for name in sorted(names))}: {reason}." for reason, names in ops.items()]
    return "\n".join([HEAD.format(opset=bridge.OPSET), *listed])


HEAD = """\
# ONNX's ops

Every op of the standard ONNX domain, at operator set {opset}, can be used in a program by its ONNX name: those that
`distir ops` lists have definitions of their own, the others come from ONNX itself (`pip install 'distir[onnx]'`): their
operands, attributes and documentation from its schemas, result types from its shape inference, values from its
reference implementation.

Where ONNX leaves something open, this is how it is settled:

- Random ops without a `seed` have one: a program gives the same results every time.
- An attribute that ONNX declares as an integer and means as a flag is written `true` or `false`; one that it means as
  an element type is written as that type: `output_dtype = Float16`.
- An operand that decides a shape (`sizes` of `Resize`) must be a host value.
- All operands that live on a device live on the same one, and so do the results; of host values alone the results are
  host values.

## Ops that are left out
"""

CASES = """
## Backend cases that are left out

ONNX's own backend tests for single ops are {total} cases; {passed} of them run as programs, with the results expected,
and {missing} do not, for these reasons.
"""

if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE}\n")
