"""The function bodies by which ONNX defines nodes that are no single op here. For importers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.ops.bridge.schema import node_schema

if TYPE_CHECKING:
    import onnx


def expansion(node: onnx.NodeProto, operand_types: Sequence[onnx.TypeProto]) -> onnx.FunctionProto | None:
    """The function by which ONNX defines a node; None for a primitive of ONNX, and for an op unknown to ONNX.

    `operand_types`: one for each input of the node, an empty one for an omitted input. The attributes of the function
    are those of the node; its inputs and outputs are those of the schema, of which the node may have fewer.
    """
    from onnx import FunctionProto

    schema: Any = node_schema(node)  # onnx has no type annotations for the following attributes
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
