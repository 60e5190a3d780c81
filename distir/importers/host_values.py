"""Which values of an ONNX graph are on the host: those that ops want before the program runs, and what makes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from distir.importers.onnx_nodes import STANDARD
from distir.ops import OPS
from distir.ops.signature import TensorPattern

if TYPE_CHECKING:
    import onnx

SHAPES = ("Shape", "Size")
"""Ops whose results are on the host wherever their operand is."""

_LOOP_OUTPUTS = {"Loop": 1}
"""How many outputs of a node's inner graph come before those that are the node's own."""


def host_values(graph: onnx.GraphProto) -> set[str]:
    """The names of values that some op wants before the program runs, those inside of branches and loops too."""
    wanted: set[str] = set()
    _add(graph.node, wanted)
    return wanted


def _add(nodes: Iterable[onnx.NodeProto], wanted: set[str]) -> None:
    for node in reversed(list(nodes)):
        inner = [a.g for a in node.attribute if a.HasField("g")]
        for graph in inner:
            _add_inside(node, graph, wanted)
        op = OPS.get(node.op_type) if node.domain in STANDARD else None
        computed = not inner and node.op_type not in SHAPES and any(name in wanted for name in node.output)
        for i, name in enumerate(node.input):
            if name and (computed or (op is not None and _on_host(op.signatures[0].operands, i))):
                wanted.add(name)


def _add_inside(node: onnx.NodeProto, graph: onnx.GraphProto, wanted: set[str]) -> None:
    """What a branch or the body of a loop wants, of the node's own inputs too."""
    given = graph.output[_LOOP_OUTPUTS.get(node.op_type, 0) :]
    wanted.update(value.name for value, name in zip(given, node.output, strict=False) if name in wanted)
    _add(graph.node, wanted)
    wanted.update(name for value, name in zip(graph.input, node.input, strict=False) if value.name in wanted and name)


def _on_host(places: Any, index: int) -> bool:
    if not places:
        return False
    pattern = places[min(index, len(places) - 1)].pattern
    return isinstance(pattern, TensorPattern) and pattern.device == "host"
