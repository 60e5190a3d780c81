"""Conversion of ONNX's schemas, element types and nodes. Defines the version of the operator set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from distir.ir import DTYPES, Attributes, DType
from distir.ops.specs import REQUIRED, AttributeSpec, OperandSpec

if TYPE_CHECKING:
    import onnx

OPSET = 28
"""The version of ONNX's operator set; models of other versions are converted on import."""

IR_VERSION = 14
"""The version of the ONNX file format for this operator set."""

FLAGS = frozenset(
    (
        *("align_corners", "antialias", "ceil_mode", "count_include_pad", "detect_negative", "detect_positive"),
        *("exclude_outside", "exclusive", "input_forget", "inverse", "keepdims", "linear_before_reset"),
        *("noop_with_empty_axes", "onesided", "periodic", "reverse", "saturate", "sorted", "training_mode"),
    )
)
"""Attributes of type Boolean, which ONNX declares as integers."""

ELEMENT_TYPES = frozenset(("dtype", "output_datatype", "output_dtype", "precision", "to"))
"""Attributes that are element types, which ONNX declares as integers."""

_ONNX_NAMES = {"Float32": "FLOAT", "Float64": "DOUBLE"}


@cache
def schema_of(name: str) -> onnx.defs.OpSchema:
    """The schema of an op of the standard domain. Raises onnx's SchemaError if there is none."""
    import onnx.defs

    return onnx.defs.get_schema(name, OPSET, "")


def node_schema(node: onnx.NodeProto) -> onnx.defs.OpSchema | None:
    """The schema of a node's op, of any domain of ONNX; None for another domain. Raises onnx's SchemaError."""
    import onnx.defs

    if node.domain in ("", "ai.onnx"):
        return schema_of(node.op_type)
    try:
        return onnx.defs.get_schema(node.op_type, node.domain)
    except onnx.defs.SchemaError:
        return None


@cache
def element_type(dtype: DType) -> int:
    """The number of an element type in ONNX."""
    import onnx

    return onnx.TensorProto.DataType.Value(_ONNX_NAMES.get(dtype.name, dtype.name.upper()))


@cache
def dtype_numbered(number: int) -> DType | None:
    """The element type with this number in ONNX; None for an unsupported one."""
    return next((dtype for dtype in DTYPES.values() if element_type(dtype) == number), None)


def operand_specs(name: str) -> tuple[OperandSpec, ...]:
    """The operands of the schema."""
    option = type(schema_of(name)).FormalParameterOption
    return tuple(
        OperandSpec(f.name, f.option == option.Variadic, f.option == option.Optional) for f in schema_of(name).inputs
    )


@cache
def allowed_dtypes(name: str, operand: int) -> frozenset[DType]:
    """The element types that the schema allows for an operand."""
    from onnx.helper import tensor_dtype_to_string

    formal = schema_of(name).inputs[min(operand, len(schema_of(name).inputs) - 1)]
    names = {tensor_dtype_to_string(element_type(d)).split(".")[1]: d for d in DTYPES.values()}
    tags = {f"tensor({_TYPE_TAGS.get(tag, tag.lower())})": dtype for tag, dtype in names.items()}
    return frozenset(tags[tag] for tag in formal.types if tag in tags)


_TYPE_TAGS = {"FLOAT": "float", "DOUBLE": "double"}


def attribute_specs(name: str) -> tuple[AttributeSpec, ...]:
    """The attributes of the schema, required ones first, then by name."""
    declared: list[Any] = list(schema_of(name).attributes.values())
    specs = [AttributeSpec(a.name, _kind(a.name, a.type.name), _default(a)) for a in declared]
    return tuple(sorted(specs, key=lambda spec: (spec.default is not REQUIRED, spec.name)))


def make_node(name: str, attrs: Attributes, operands: list[str], count: int) -> onnx.NodeProto:
    """The ONNX node of one op; omitted operands have the name ""."""
    from onnx import helper

    given = {n: _onnx_value(v) for n, v in attrs.items()}
    full = {n: v for n, v in given.items() if v != []}
    node = helper.make_node(name, operands, [f"r{i}" for i in range(count)], **full)
    declared: dict[str, Any] = schema_of(name).attributes if len(full) < len(given) else {}
    for empty in given.keys() - full.keys():  # an empty list does not determine the kind
        if empty in declared:
            node.attribute.append(helper.make_attribute(empty, [], attr_type=declared[empty].type.value))
    return node


_KINDS = {
    "INT": "int",
    "FLOAT": "float",
    "STRING": "str",
    "INTS": "tuple[int, ...]",
    "FLOATS": "tuple[float, ...]",
    "STRINGS": "tuple[str, ...]",
}


def _kind(name: str, declared: str) -> str:
    if name in FLAGS:
        return "bool"
    return "DType" if name in ELEMENT_TYPES else _KINDS[declared]


def _default(attribute: Any) -> Any:
    from onnx import helper

    if attribute.required:
        return REQUIRED
    if not attribute.default_value.name:
        return None
    value: Any = helper.get_attribute_value(attribute.default_value)
    if attribute.name in FLAGS:
        return bool(value)
    if attribute.name in ELEMENT_TYPES:
        return dtype_numbered(value)  # 0 in ONNX is None here: no element type
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return float(f"{value:.7g}")  # as the schema's author wrote it, before it was rounded to 32 bits
    if isinstance(value, (list, tuple)):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in cast("Sequence[Any]", value))
    return value


def _onnx_value(value: Any) -> Any:
    if isinstance(value, DType):
        return element_type(value)
    if isinstance(value, bool):
        return int(value)
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
