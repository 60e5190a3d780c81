"""Types that can be declared in a function's head, because they hold for every call.

A function may be called on several devices and with several sizes. Types inferred from its declared parameters hold for
every call; types refined by the arguments of one call do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from distir.ir import AnyType, Dim, TensorType, TupleType, Type, types
from distir.ops import Value, type_of


def generic(value: Value) -> Type:
    """The type of a value as inferred from a function's declared parameters, in a form that can be declared."""
    found = type_of(value)
    if isinstance(found, TupleType):
        return TupleType(tuple(map(generic, found.items)))
    if isinstance(found, TensorType) and found.dtype is None:  # then the rest carries no information
        return AnyType(found.device)
    return found


def generic_value(own: Value, found: Value) -> Value:
    """The value as known in one call, but with the function's own named dimensions."""
    if not isinstance(found, (TensorType, TupleType)):
        return found
    return _with_names(type_of(own), found)


def _with_names(own: Type, found: Type) -> Type:
    if isinstance(found, TupleType) and isinstance(own, TupleType) and len(own.items) == len(found.items):
        return TupleType(tuple(_with_names(o, f) for o, f in zip(own.items, found.items, strict=True)))
    if not (isinstance(own, TensorType) and isinstance(found, TensorType)) or own.shape is None:
        return found
    if found.shape is None or len(found.shape) != len(own.shape):
        return TensorType(own.dtype or found.dtype, own.shape, found.device, found.offloaded)
    shape = tuple(o if o is not None else f for o, f in zip(own.shape, found.shape, strict=True))
    return TensorType(own.dtype or found.dtype, shape, found.device, found.offloaded)


def with_dtypes(own: Type, found: Type) -> Type:
    """The type, with element types of one call if it has none.

    A literal takes the element type of its neighbours; a function that holds literals must say what these are.
    """
    match own, found:
        case AnyType(device), TupleType(items):
            return TupleType(tuple(with_dtypes(AnyType(device), item) for item in items))
        case AnyType(device), TensorType(dtype, _, _, offloaded) if dtype is not None:
            return TensorType(dtype, None, device, offloaded)
        case TensorType(None, shape, device, offloaded), TensorType(dtype, _, _):
            return TensorType(dtype, shape, device, offloaded)
        case TupleType(items), TupleType(others) if len(items) == len(others):
            return TupleType(tuple(with_dtypes(o, f) for o, f in zip(items, others, strict=True)))
        case _:
            return own


def declared(stated: Sequence[Type]) -> list[Type]:
    """Types to declare for a function's parameters; `8*B` becomes unknown if no parameter binds `B`."""
    leaves = [leaf for each in stated for leaf in types.leaves(each) if isinstance(leaf, TensorType)]
    bound = {str(dim) for leaf in leaves for dim in leaf.shape or ()}
    unknown: dict[str, Dim] = dict.fromkeys({name for leaf in leaves for name in types.dim_names(leaf)} - bound)
    return [types.substitute(each, unknown) for each in stated]
