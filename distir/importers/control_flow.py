"""`If`, `Loop` and `Scan` as straight-line code, where it is known before the program runs how they go.

A branch is taken if its condition is a known host value, a loop is written out if its number of steps is. Everything
else is refused, with the node named. The steps are equal, so outlining makes a function of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distir.files import limits
from distir.importers.core import ImportRefused
from distir.importers.onnx_nodes import described, left_out, needs
from distir.importers.translation import Translation
from distir.ir import DTYPES, Dense, TensorType
from distir.ops import type_of

if TYPE_CHECKING:
    import onnx

CONTROL_FLOW = ("If", "Loop", "Scan")


def translate(into: Translation, node: onnx.NodeProto) -> None:
    """Write a node of control flow out. Raises ImportRefused."""
    {"If": _branch, "Loop": _loop, "Scan": _scan}[node.op_type](into, node)


def _branch(into: Translation, node: onnx.NodeProto) -> None:
    condition = into.known(into.env[node.input[0]]) if node.input and node.input[0] in into.env else None
    if condition is None or len(condition.values) != 1:
        raise left_out(node)
    taken = _attribute(node, "then_branch" if condition.values[0] else "else_branch").g
    results = _step(into, node, taken, {}, node.output[0])
    for output, result in zip(node.output, results, strict=False):
        into.env[output] = result


def _loop(into: Translation, node: onnx.NodeProto) -> None:
    body = _attribute(node, "body").g
    limit, goes_on, *states = [into.env[name] for name in (*node.input, "", "")[: max(2, len(node.input))]]
    steps = into.known(limit)
    stated = steps.values[0] if steps is not None and len(steps.values) == 1 else None
    if limit and not isinstance(stated, int):
        raise left_out(node)
    bound = stated if isinstance(stated, int) else limits.STEPS
    scanned: list[list[str]] = [[] for _ in range(len(body.output) - 1 - len(states))]
    for step in range(bound):
        condition = into.known(goes_on) if goes_on else None
        if goes_on and condition is None:
            raise left_out(node)
        if condition is not None and not condition.values[0]:
            break
        prefix = f"{node.output[0]}.{step}"
        iteration = _number(into, f"{prefix}.step", step)
        going = goes_on or _truth(into, f"{prefix}.going")
        goes_on, *results = _step(into, node, body, dict(_paired(body, [iteration, going, *states])), prefix)
        states, rest = results[: len(states)], results[len(states) :]
        for collected, result in zip(scanned, rest, strict=True):
            collected.append(result)
        if step >= limits.STEPS - 1:
            raise ImportRefused(f"{described(node)} takes more than {limits.STEPS} steps", "export it without the loop")
    _give(into, node, states, scanned, [0] * len(scanned))


def _scan(into: Translation, node: onnx.NodeProto) -> None:
    body = _attribute(node, "body").g
    count = int(_attribute(node, "num_scan_inputs").i)
    split = len(node.input) - count
    states, scanned_inputs = ([into.env[name] for name in part] for part in (node.input[:split], node.input[split:]))
    axes = _integers(node, "scan_input_axes", count)
    backward = _integers(node, "scan_input_directions", count)
    steps = _length(into, scanned_inputs, axes)
    if steps is None or not 0 < steps <= limits.STEPS:
        raise left_out(node)
    outputs = len(body.output) - len(states)
    scanned: list[list[str]] = [[] for _ in range(outputs)]
    for step in range(steps):
        prefix = f"{node.output[0]}.{step}"
        items: list[str] = []
        for i, (name, axis) in enumerate(zip(scanned_inputs, axes, strict=True)):
            place = _number(into, f"{prefix}.place{i}", steps - 1 - step if backward[i] else step)
            items.append(_applied(into, "Gather", [name, place], f"{prefix}.item{i}", axis=axis))
        results = _step(into, node, body, dict(_paired(body, [*states, *items])), prefix)
        states, rest = results[: len(states)], results[len(states) :]
        for collected, result in zip(scanned, rest, strict=True):
            collected.append(result)
    for collected, reverse in zip(scanned, _integers(node, "scan_output_directions", outputs), strict=True):
        if reverse:
            collected.reverse()
    _give(into, node, states, scanned, _integers(node, "scan_output_axes", outputs))


def _step(
    into: Translation, node: onnx.NodeProto, graph: onnx.GraphProto, given: Mapping[str, str], prefix: str
) -> list[str]:
    """Translate a graph inside a node, its inputs being `given`, and give what its outputs are called."""
    if message := into.functions.write_out(len(graph.node)):
        raise ImportRefused(f"{message} ({described(node)})", "export it without the loop")
    outer, used = dict(into.env), into.used
    into.env.update(given)
    into.used = used | {name for n in graph.node for name in needs(n)} | {value.name for value in graph.output}
    for tensor in graph.initializer:
        into.tensor(tensor.name, tensor, described(node), f"{prefix}.{tensor.name}")
    shadowed = {name for n in graph.node for name in n.output}
    for name in shadowed:
        into.env.pop(name, None)
    into.nodes(graph.node)
    missing = next((value.name for value in graph.output if value.name not in into.env), None)
    if missing is not None:
        raise ImportRefused(f"{described(node)} gives `{missing}`, which nothing inside it defines")
    results = [into.env[value.name] for value in graph.output]
    into.env, into.used = outer, used
    return results


def _give(
    into: Translation, node: onnx.NodeProto, states: Sequence[str], scanned: list[list[str]], axes: Sequence[int]
) -> None:
    """Let the node's outputs be the final states, and what its steps gave, stacked."""
    stacked: list[str] = []
    for number, (collected, axis) in enumerate(zip(scanned, axes, strict=True)):
        if not collected:
            raise ImportRefused(f"{described(node)} takes no step, so that the shape of its results is not known")
        name = f"{node.output[0]}.stacked{number}"
        place = _number(into, f"{name}.axis", axis, vector=True)
        slices = [_applied(into, "Unsqueeze", [c, place], f"{name}.{i}") for i, c in enumerate(collected)]
        stacked.append(_applied(into, "Concat", slices, name, axis=axis))
    for output, result in zip(node.output, [*states, *stacked], strict=False):
        if output:
            into.env[output] = result


def _applied(into: Translation, op: str, operands: list[str], name: str, **attributes: Any) -> str:
    """Append a node of ours on values of the program, and give its result."""
    from onnx import helper

    mine = [f"{name}.operand{i}" for i in range(len(operands))]
    into.env.update(zip(mine, operands, strict=True))
    into.node(helper.make_node(op, mine, [name], **attributes))
    return into.env[name]


def _number(into: Translation, name: str, value: int, vector: bool = False) -> str:
    into.constant(name, Dense(DTYPES["Int64"], (1,) if vector else (), (value,)))
    return into.env[name]


def _truth(into: Translation, name: str) -> str:
    into.constant(name, Dense(DTYPES["Bool"], (), (True,)))
    return into.env[name]


def _paired(body: onnx.GraphProto, names: Sequence[str]) -> list[tuple[str, str]]:
    if len(body.input) != len(names):
        raise ImportRefused(f"the loop `{body.name}` expected {len(body.input)} values, found {len(names)}")
    return [(value.name, name) for value, name in zip(body.input, names, strict=True)]


def _length(into: Translation, names: Sequence[str], axes: Sequence[int]) -> int | None:
    """How many steps there are along the axes of what is scanned; None if that is not known."""
    lengths: set[Any] = set()
    for name, axis in zip(names, axes, strict=True):
        found = type_of(into.values[name])
        shape = found.shape if isinstance(found, TensorType) else None
        lengths.add(shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None)
    length = lengths.pop() if len(lengths) == 1 else None
    return length if isinstance(length, int) else None


def _attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto:
    found = next((a for a in node.attribute if a.name == name), None)
    if found is None:
        raise ImportRefused(f"{described(node)} needs the attribute `{name}`")
    return found


def _integers(node: onnx.NodeProto, name: str, count: int) -> list[int]:
    given = [int(number) for a in node.attribute if a.name == name for number in a.ints]
    return (given + [0] * count)[:count]
