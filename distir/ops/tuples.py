"""Tuples: several values under one name. Making and unpacking one costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from distir.diagnostics.codes import types as codes
from distir.files import limits
from distir.ir import AnyType, Part, TupleType, Type
from distir.ops.core import op
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Unpacked, Write

TUPLING: Final = frozenset({"MakeTuple", "UnpackTuple"})
"""The ops that compute nothing: they put values into tuples, and take them out."""


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


@UnpackTuple.grad
def _(g: Backward) -> Gradients:
    return [g("MakeTuple", *(g.dy_or_zeros(i) for i in range(len(g.dys))))]


@UnpackTuple.torch
def _(write: Write, tuple: Expr) -> Unpacked:
    return write.unpacked(str(tuple))


@op("*T -> U", view=True, linear="jointly")
def MakeTuple(*items: Any) -> tuple[Any, ...]:
    """A tuple of the operands.

    %w = MakeTuple(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3,), 1])
    """
    return items


@MakeTuple.types
def _(*items: Type) -> list[Type]:
    made = TupleType(items)
    if made.depth > limits.NESTED:
        message = f"`MakeTuple` expected tuples nested at most {limits.NESTED} deep, found {made.depth}"
        raise Reject(codes.BAD_VALUE, message, Part("callee"))
    if made.width > limits.RESULTS:  # a tuple can double in every statement
        message = f"`MakeTuple` expected at most {limits.RESULTS} leaves, found {made.width}"
        raise Reject(codes.BAD_VALUE, message, Part("callee"))
    return [made]


@MakeTuple.grad
def _(g: Backward) -> Gradients:
    return g.several("UnpackTuple", len(g.x), g.dy)


@MakeTuple.torch
def _(write: Write, *parts: Expr) -> str:
    return write.items([part.tensor for part in parts])
