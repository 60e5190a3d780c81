"""What an ONNX file declares of its values, compared with what its ops make of them: types, shapes, elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from distir.importers.core import ImportRefused
from distir.importers.onnx_nodes import STANDARD, described
from distir.ir import DType, TensorType, Type
from distir.ops.bridge.schema import dtype_numbered, element_type, schema_of

if TYPE_CHECKING:
    import onnx

Known = Callable[[str], Type | None]
"""The type that was inferred of a value of the graph."""


def check_declared(graph: onnx.GraphProto, known: Known) -> None:
    """Raises ImportRefused for a value of which the file declares another type, or another shape."""
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
        if len(shape) != len(found.shape) or any(
            isinstance(theirs, int) and ours is not None and ours != theirs for ours, theirs in pairs
        ):
            shown = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in stated.shape.dim]
            raise _contradiction(value.name, f"({', '.join(shown)})", f"({', '.join(map(str, found.shape))})")


def _contradiction(name: str, declared: str, found: str) -> ImportRefused:
    return ImportRefused(
        f"the file declares `{name}` as {declared}, its ops make it {found}",
        "`onnx.checker.check_model` with `full_check=True` refuses it, too: export the model again",
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
