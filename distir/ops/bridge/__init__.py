"""The bridge: the ops of the standard ONNX domain that are not built in, under their ONNX names.

Built-in ops take precedence. Operands, attributes and documentation come from ONNX's schema, result types from its
shape inference of single nodes, values from its reference implementation. The signatures (which determine the layouts)
and the work are defined here, once per family.

onnx is imported when a program first uses such an op, so no module here may import it at the top. The names of these
ops are loaded on first use, too: most programs use none.
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
