"""The bridge: every op of the standard ONNX domain that we do not define ourselves, by its ONNX name.

Ours come first: the bridge is asked for a name that is found nowhere else. Operands, attributes and documentation
come from ONNX's schema, result types from its per-node shape inference, values from its reference implementation;
the signatures (which say how an op may be split over devices) and the work are stated here, once per family.

onnx is imported when a program names such an op, never before: nothing here may import it at module level. Nor are the
names of these ops loaded before somebody asks for them: most programs have none.
"""

from typing import TYPE_CHECKING

from distir.ir.late import late_names

if TYPE_CHECKING:
    from distir.ops.bridge.definition import hint, standard_op
    from distir.ops.bridge.families import FAMILIES, NAMES
    from distir.ops.bridge.function_bodies import expansion
    from distir.ops.bridge.left_out import LEFT_OUT
    from distir.ops.bridge.schema import OPSET

_HOMES = {
    "distir.ops.bridge.definition": ("hint", "standard_op"),
    "distir.ops.bridge.families": ("FAMILIES", "NAMES"),
    "distir.ops.bridge.function_bodies": ("expansion",),
    "distir.ops.bridge.left_out": ("LEFT_OUT",),
    "distir.ops.bridge.schema": ("OPSET",),
}
__getattr__ = late_names(__name__, {name: home for home, names in _HOMES.items() for name in names})

__all__ = ["FAMILIES", "LEFT_OUT", "NAMES", "OPSET", "expansion", "hint", "standard_op"]
