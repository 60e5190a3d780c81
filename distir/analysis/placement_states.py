"""Placements of values, as the states along single axes in which the rules of ops have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from distir.ir import HOST, AnyType, Meshes, OwnedAlong, PendingAlong, SplitAlong, TensorType, TupleType, Type
from distir.ir.places import Place, along
from distir.ir.types import device_of
from distir.ops import Value, type_of
from distir.placement.along import GREATEST, PARTIAL, WHOLE, OwnedBy, Split, State, Unsplit
from distir.placement.part_types import part_of


@lru_cache(maxsize=1 << 14)
def erased(v: Value) -> Value:
    """A value, and nothing of where its parts are: as in the sequential program."""
    match v:
        case TensorType(places=()):
            return v
        case TensorType():
            return replace(v, places=())
        case TupleType(items):
            return TupleType(tuple(map(erased_type, items)))
        case tuple():
            return tuple(map(erased, v))
        case _:
            return v


def erased_type(type: Type) -> Type:
    """A type, and nothing of where parts are."""
    found = erased(type)
    assert isinstance(found, (TensorType, TupleType, AnyType))
    return found


def held(type: Type, meshes: Meshes) -> Type:
    """The type of what each device of a mesh holds of a value. Raises DimensionError if a dimension does not divide."""
    if not meshes:
        return type
    if isinstance(type, TupleType):
        return TupleType(tuple(held(item, meshes) for item in type.items))
    part = erased_type(type)
    for axis, size in meshes.of(device_of(type)):
        part = part_of(part, state(type, axis), size)
    return part


def state(v: Value, axis: str) -> State:
    """The placement of a value along one axis; of a tuple, that of each item."""
    if isinstance(v, TensorType):
        return state_of(along(v.places, axis))
    if isinstance(v, TupleType):
        return tuple(state(item, axis) for item in v.items)
    return tuple(state(item, axis) for item in v) if isinstance(v, tuple) else WHOLE


def state_of(place: Place | None) -> Unsplit | Split | OwnedBy:
    """An entry of a placement as a state along its axis."""
    match place:
        case None:
            return WHOLE
        case SplitAlong(dim, _, blocks, zigzag):
            return Split(dim, blocks, zigzag=zigzag)
        case OwnedAlong(_, number):
            return OwnedBy(number)
        case PendingAlong(how="sum"):
            return PARTIAL
        case PendingAlong():
            return GREATEST


def place_of(state: State, axis: str) -> Place | None:
    """A state along an axis as an entry of a placement; None where the value is whole."""
    if isinstance(state, Split):
        return SplitAlong(state.axis, axis, state.blocks, state.zigzag)
    if isinstance(state, OwnedBy):
        return OwnedAlong(axis, state.number)
    return PendingAlong(axis, "sum") if state is PARTIAL else PendingAlong(axis, "max") if state is GREATEST else None


def tensors(type: Type) -> Iterator[TensorType]:
    """The tensors in a value of a type."""
    if isinstance(type, TupleType):
        for item in type.items:
            yield from tensors(item)
    elif isinstance(type, TensorType):
        yield type


def unplaced(v: Value) -> Value:
    """Of a value whose placement is not known, the device."""
    if isinstance(v, TupleType):
        return TupleType(tuple(type_of(unplaced(item)) for item in v.items))
    return AnyType(v.device) if isinstance(v, TensorType) and v.device != HOST else v
