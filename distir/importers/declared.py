"""What an ONNX file declares of its values, compared with what its ops make of them: types, shapes, elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from distir.importers.core import ImportRefused, Weight
from distir.importers.onnx_nodes import STANDARD, described
from distir.importers.opsets import without_data
from distir.ir import DType, TensorType, Type, types
from distir.ops.bridge.schema import dtype_numbered, element_type, schema_of

if TYPE_CHECKING:
    import onnx

Known = Callable[[str], Type | None]
"""The type that was inferred of a value of the graph."""


def check_declared(model: onnx.ModelProto, tensors: Mapping[str, Weight], known: Known) -> list[str]:
    """Remarks on values of which the file declares another rank than its ops make, where onnx's checker lets it pass.

    Raises ImportRefused where it does not, and for a value of which the file declares another type, or other sizes.
    """
    graph, remarks = model.graph, list[str]()
    for value in (*graph.input, *graph.value_info, *graph.output):
        found = known(value.name)
        if not isinstance(found, TensorType) or value.type.WhichOneof("value") != "tensor_type":
            continue
        stated = value.type.tensor_type
        dtype = dtype_numbered(stated.elem_type)
        if dtype is not None and found.dtype is not None and dtype != found.dtype:
            raise _contradiction(value.name, dtype.name, found.dtype.name)
        if not stated.HasField("shape") or found.shape is None:
            continue
        shape = [int(d.dim_value) if d.HasField("dim_value") else None for d in stated.shape.dim]
        pairs = zip(shape, found.shape, strict=False)
        sizes = any(isinstance(theirs, int) and ours is not None and ours != theirs for ours, theirs in pairs)
        if sizes or len(shape) != len(found.shape):
            shown = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in stated.shape.dim]
            made = types.show_shape(found.shape)
            refused = _contradiction(value.name, f"({', '.join(shown)})", made)
            if len(shape) == len(found.shape) or (not remarks and not _passes(model, tensors)):
                raise refused
            remarks.append(f"{refused.message}: the program has {made}, as runtimes do")
    return remarks


def _passes(model: onnx.ModelProto, tensors: Mapping[str, Weight]) -> bool:
    """Whether onnx's checker finds no contradiction: it knows fewer shapes, where they depend on values."""
    from onnx import shape_inference

    try:
        shape_inference.infer_shapes(without_data(model, tensors), check_type=True, strict_mode=True)
    except shape_inference.InferenceError:
        return False
    return True


def _contradiction(name: str, declared: str, found: str) -> ImportRefused:
    return ImportRefused(
        f"the file declares `{name}` as {declared}, its ops make it {found}",
        "export the model again, or correct what it declares",
    )


def check_elements(nodes: Iterable[onnx.NodeProto], known: Known) -> None:
    """Raises ImportRefused for a node that is given elements which its op does not take by ONNX's definition."""
    for node in nodes:
        operands = _operands(node.op_type) if node.domain in STANDARD else ()
        same: dict[str, tuple[str, DType]] = {}
        for i, name in enumerate(node.input if operands else ()):
            letter, taken = operands[min(i, len(operands) - 1)]
            found = known(name) if name else None
            dtype = found.dtype if isinstance(found, TensorType) else None
            if dtype is None:
                continue
            if _onnx_name(dtype) not in taken:
                raise ImportRefused(
                    f"{described(node)} is given elements of {dtype.name} (`{name}`), which `{node.op_type}` does not "
                    "take",
                    "put a `Cast` before it",
                )
            first, expected = same.setdefault(letter, (name, dtype))
            if letter and expected != dtype:
                raise ImportRefused(
                    f"{described(node)} is given elements of {expected.name} (`{first}`) and of {dtype.name} "
                    f"(`{name}`), which should be the same",
                    "put a `Cast` before it",
                )


@cache
def _operands(name: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Of each operand of an op, the letter of its type, "" for one that may differ from others, and what it takes."""
    import onnx.defs

    try:
        schema: Any = schema_of(name)
    except onnx.defs.SchemaError:
        return ()
    letters = {constraint.type_param_str for constraint in schema.type_constraints}
    return tuple(
        (one.type_str if one.type_str in letters and one.is_homogeneous else "", frozenset(map(str, one.types)))
        for one in schema.inputs
    )


@cache
def _onnx_name(dtype: DType) -> str:
    import onnx

    return f"tensor({onnx.TensorProto.DataType.Name(element_type(dtype)).lower()})"  # pyright: ignore[reportArgumentType]
