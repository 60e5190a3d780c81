"""Nodes that no op of ours can express, as the smaller ones that ONNX defines them by. For importers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.ops.bridge.schema import node_schema

if TYPE_CHECKING:
    import onnx


def expansion(node: onnx.NodeProto, operand_types: Sequence[onnx.TypeProto]) -> onnx.FunctionProto | None:
    """The function that ONNX defines a node by; None for a primitive of ONNX, and for what ONNX does not know.

    `operand_types`: one for each input of the node, an empty one for an input that is left out. The function's own
    attributes are those of the node, its inputs and outputs the schema's, of which the node may give fewer.
    """
    from onnx import FunctionProto

    schema: Any = node_schema(node)  # onnx declares no types for what follows
    if schema is None:
        return None
    if schema.has_function:
        return schema.function_body
    if not schema.has_context_dependent_function:
        return None
    function = FunctionProto()
    types = [described.SerializeToString() for described in operand_types]
    function.ParseFromString(schema.get_context_dependent_function(node.SerializeToString(), types))
    return function
