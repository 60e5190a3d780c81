"""Types between ONNX and the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distir.importers.core import ImportRefused
from distir.importers.names import dimension, dimension_name
from distir.ir import Dim, TensorType, Type, dims
from distir.ops.bridge.schema import dtype_numbered, element_type

if TYPE_CHECKING:
    import onnx


def tensor_type(value: onnx.ValueInfoProto, device: int) -> TensorType:
    """The type of a graph's input; a dimension of which nothing is said gets a name. Raises ImportRefused."""
    import onnx

    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        what = (kind or "value without a type").removesuffix("_type").replace("_", " ")
        article = "an" if what.startswith("o") else "a"
        raise ImportRefused(f"the input `{value.name}` is {article} {what}, which the language lacks")
    tensor = value.type.tensor_type
    dtype = dtype_numbered(tensor.elem_type)
    if dtype is None:
        names: dict[int, str] = {number: name for name, number in onnx.TensorProto.DataType.items()}
        name = names.get(tensor.elem_type, f"type {tensor.elem_type}")
        raise ImportRefused(f"the input `{value.name}` has elements of {name}, which the language lacks")
    if not tensor.HasField("shape"):
        return TensorType(dtype, None, device)
    sizes: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value"):
            if dim.dim_value < 0:
                raise ImportRefused(f"the input `{value.name}` has a negative dimension: {dim.dim_value}")
            sizes.append(int(dim.dim_value))
        else:
            sizes.append(dimension(dim.dim_param or f"{dimension_name(value.name)}_{axis}"))
    return TensorType(dtype, tuple(sizes), device)


def type_proto(described: Type) -> onnx.TypeProto:
    """A type for ONNX; an empty one where it is not known."""
    import onnx
    from onnx import helper

    if not isinstance(described, TensorType) or described.dtype is None:
        return onnx.TypeProto()
    shape = None
    if described.shape is not None:
        shape = [dim if isinstance(dim, int) else None if dim is None else dims.show(dim) for dim in described.shape]
    return helper.make_tensor_type_proto(element_type(described.dtype), shape)
