"""ONNX files: what is in them, and where their tensors' data lies.

Nothing is executed, and no file is read that is not in the model's own folder.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from distir.files.reading import MODEL, UnreadError, mapped, read_bytes, why_not
from distir.importers.core import ImportRefused, Weight
from distir.ops.bridge.schema import dtype_numbered
from distir.ops.numeric import from_bytes, numpy_dtype

if TYPE_CHECKING:
    import onnx


def read_model(path: str) -> onnx.ModelProto:
    """The model in a file, the data of external tensors left where it is. Raises ImportRefused, and OSError."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        data = read_bytes(path, MODEL)
    except UnreadError as error:
        raise ImportRefused(f"cannot read `{path}`: {why_not(error)}", error.help) from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise ImportRefused(f"`{path}` is no ONNX model, or is cut off: its bytes are no protobuf message") from None
    check_model(model, path)
    _clear_unknown_sizes(model.graph)
    return model


def _clear_unknown_sizes(graph: onnx.GraphProto) -> None:
    """Leave sizes out that are stated as -1: some exporters write so what is known when the model runs."""
    for value in (*graph.input, *graph.value_info, *graph.output):
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.HasField("dim_value") and dim.dim_value == -1:
                dim.ClearField("dim_value")


def check_model(model: onnx.ModelProto, path: str) -> None:
    """Raises ImportRefused for a message that is no model."""
    if not _texts_are_text(model):
        raise ImportRefused(f"`{path}` is no ONNX model: a name in it is no UTF-8 text")
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ImportRefused(f"`{path}` is no ONNX model: it holds no graph")
    if not model.opset_import and model.ir_version >= 3:
        raise ImportRefused(f"`{path}` does not say which operator set it is for", "export the model again")


def weight(tensor: onnx.TensorProto, folder: str) -> Weight:
    """A tensor's type, and how its data is read. Raises ImportRefused for what no tensor of ours can be.

    Data in other files is looked for in `folder` alone, the model's own.
    """
    import onnx

    dtype = dtype_numbered(tensor.data_type)
    if dtype is None:
        names: dict[int, str] = {number: name for name, number in onnx.TensorProto.DataType.items()}
        kind = names.get(tensor.data_type, f"type {tensor.data_type}")
        raise ImportRefused(f"`{tensor.name}` holds elements of {kind}, which the language lacks")
    shape = tuple(int(dim) for dim in tensor.dims)
    if any(dim < 0 for dim in shape):
        raise ImportRefused(f"`{tensor.name}` has a negative dimension: {shape}")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(tensor, Weight(dtype, shape, lambda: None), folder)
    nbytes = math.prod(shape) * dtype.bytes
    if tensor.HasField("raw_data") and len(tensor.raw_data) != nbytes:
        raise ImportRefused(f"`{tensor.name}` expected {nbytes} bytes of data, found {len(tensor.raw_data)}")

    def load() -> Any:
        import numpy as np
        from onnx import numpy_helper

        if tensor.HasField("raw_data"):
            return from_bytes(memoryview(tensor.raw_data), dtype, shape)
        try:
            if not math.prod(shape):
                return np.zeros(shape, numpy_dtype(dtype))  # numpy refuses (10**18, 10**18, 0)
            return numpy_helper.to_array(tensor)
        except (ValueError, TypeError) as error:
            raise ImportRefused(f"`{tensor.name}` cannot be read: {error}") from None

    return Weight(dtype, shape, load)


def _texts_are_text(message: Any) -> bool:
    """Whether all strings of a message, and of those in it, could be decoded; else protobuf gives bytes."""
    for field, value in message.ListFields():
        values: Any = value if field.is_repeated else (value,)
        if field.type == field.TYPE_STRING and not all(isinstance(text, str) for text in values):
            return False
        if field.type == field.TYPE_MESSAGE and not all(map(_texts_are_text, values)):
            return False
    return True


def _external(tensor: onnx.TensorProto, described: Weight, folder: str) -> Weight:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    path = _inside(folder, location, tensor.name)
    expected = math.prod(described.shape) * described.dtype.bytes
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", expected))
    except ValueError:
        raise ImportRefused(f"`{tensor.name}` says where its data lies in words that are no numbers") from None
    if offset < 0 or length != expected:
        raise ImportRefused(f"`{tensor.name}` expected {expected} bytes of data, found {length} in `{location}`")

    def load() -> Any:
        try:
            data = mapped(path) if expected else memoryview(b"")
        except FileNotFoundError:
            raise ImportRefused(f"the data of `{tensor.name}` is missing: there is no file `{location}`") from None
        except OSError as error:
            raise ImportRefused(f"the data of `{tensor.name}` cannot be read: `{location}`: {why_not(error)}") from None
        if offset + expected > len(data) and expected:
            raise ImportRefused(f"`{location}` is cut off: `{tensor.name}` ends at byte {offset + expected}")
        return from_bytes(data, described.dtype, described.shape, offset)

    return Weight(described.dtype, described.shape, load)


def _inside(folder: str, location: str, name: str) -> str:
    """The path of a file in the model's folder. Raises ImportRefused for one outside of it."""
    base = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(base, location)) if "\0" not in location else ""
    if not location or os.path.isabs(location) or os.path.commonpath([base, path or base + os.sep]) != base or not path:
        raise ImportRefused(
            f"the data of `{name}` lies outside of the model's folder, in `{location}`",
            "only files in the model's own folder are read",
        )
    return path
