"""The ONNX functions of a model, what has been made of them, and what is inferred on the way. One per import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distir.analysis.domains import Types
from distir.files import limits
from distir.ir import Attributes, Dense, Function, Module, TensorType
from distir.ops import Op, Value, infer_partial, infer_types, infer_values

if TYPE_CHECKING:
    import onnx

LARGEST_FOLDED = 4096
"""Results with more elements are not computed here: no shape depends on them."""


@dataclass
class Functions:
    """The ONNX functions of a model, and what has been made of them. One per model."""

    protos: Mapping[tuple[str, str], onnx.FunctionProto] = field(default_factory=dict[Any, Any])
    made: dict[Any, Function] = field(default_factory=dict[Any, Function])
    open: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    domain: Types = field(default_factory=lambda: Types(Module(), (_small_values, infer_partial, infer_types)))
    opaque: dict[str, str] = field(default_factory=dict[str, str])
    """Ops that are not ours, with the domain that each comes from."""
    length: int = 0
    """Of the model's file: as many ops more may be written out."""
    written: int = 0

    def write_out(self, count: int = 1) -> str:
        """Note ops that are written out, in loops and calls too; what is wrong if they are too many."""
        self.written += count
        most = limits.written_out(self.length)
        return f"with loops and calls written out, there are more than {most:,} ops" if self.written > most else ""

    def name(self, hint: str) -> str:
        """A name that no function has yet, like `hint`."""
        taken = {f.name for f in self.made.values()} | {"main"}
        return next(n for n in (hint, *(f"{hint}_{i}" for i in range(1, len(taken) + 2))) if n not in taken)


def _small_values(op: Op, args: Sequence[Value], attrs: Attributes, count: int) -> tuple[Value, ...] | None:
    """The first rule of mixed interpretation, for small results."""
    if not all(isinstance(arg, Dense) or arg is None for arg in args):
        return None
    for found in infer_types(op, args, attrs, count):
        elements = found.elements if isinstance(found, TensorType) else None
        if isinstance(elements, int) and elements > LARGEST_FOLDED:
            return None
    return infer_values(op, args, attrs, count)
