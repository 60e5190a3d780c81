"""Tuples: several values under one name. Making and unpacking one costs nothing."""

from __future__ import annotations

from typing import Any

from distir.diagnostics.codes import types as codes
from distir.ir import AnyType, TupleType, Type
from distir.ops.core import op
from distir.ops.unify import Reject


@op("T -> *U", view=True, linear="jointly")
def UnpackTuple(tuple: tuple[Any, ...]) -> Any:
    """The items of a tuple, in order.

    %a, %b = UnpackTuple(%w: Tuple[Tensor[Float32, (2, 3), 1], Tensor[Float32, (3,), 1]])
    """
    return tuple


@UnpackTuple.types
def _(tuple: Type, *, count: int) -> list[Type]:
    if isinstance(tuple, AnyType):
        return [tuple] * count
    if not isinstance(tuple, TupleType):
        raise Reject(codes.KIND_MISMATCH, f"`UnpackTuple` expected a tuple, found `{tuple}`", "tuple")
    return list(tuple.items)


@op("*T -> U", view=True, linear="jointly")
def MakeTuple(*items: Any) -> tuple[Any, ...]:
    """A tuple of the operands.

    %w = MakeTuple(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3,), 1])
    """
    return items


@MakeTuple.types
def _(*items: Type) -> list[Type]:
    return [TupleType(items)]
