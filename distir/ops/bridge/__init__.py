"""The bridge: every op of the standard ONNX domain that we do not define ourselves, by its ONNX name.

Ours come first: the bridge is asked for a name that is found nowhere else. Operands, attributes and documentation
come from ONNX's schema, result types from its per-node shape inference, values from its reference implementation;
the signatures (which say how an op may be split over devices) and the work are stated here, once per family.

onnx is imported when a program names such an op, never before: nothing here may import it at module level.
"""

from distir.ops.bridge.definition import hint, standard_op
from distir.ops.bridge.expansion import expansion
from distir.ops.bridge.families import FAMILIES
from distir.ops.bridge.left_out import LEFT_OUT
from distir.ops.bridge.schema import OPSET

NAMES = tuple(FAMILIES)
"""The ops that the bridge gives; they exist only where onnx is installed."""

__all__ = ["FAMILIES", "LEFT_OUT", "NAMES", "OPSET", "expansion", "hint", "standard_op"]
