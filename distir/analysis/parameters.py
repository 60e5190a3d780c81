"""What a call passes, against what the function states of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as type_codes
from distir.ir import AnyType, Dim, DimensionError, Function, Param, Part, TensorType, TupleType, Type, types
from distir.ir.dims import named, solve
from distir.ops import Reject, Value, type_of
from distir.ops.devices import canonical_devices, devices_of


def parameters(function: Function, vs: Sequence[Value]) -> tuple[tuple[Value, ...], Mapping[str, Dim]]:
    """Arguments with what the parameters' types add, and the sizes of the named dimensions. Raises Reject."""
    if len(vs) != len(function.params):
        names = ", ".join(f"%{p.name}" for p in function.params)
        message = f"`@{function.name}` expected {len(function.params)} arguments ({names}), found {len(vs)}"
        raise Reject(name_codes.OPERAND_COUNT, message, Part("callee"))
    if all(v is param.type for param, v in zip(function.params, vs, strict=True)):  # the function for its own types
        return tuple(vs), {name: named(name) for t in dict.fromkeys(vs) for name in types.dim_names(type_of(t))}
    given = tuple(vs)
    there = canonical_devices(devices_of(given))
    try:
        args, dims = _bound(function.name, function.params, there(given))
    except Reject:  # its message names the devices, or a parameter does
        return _bound(function.name, function.params, given)
    return there.back(args), dims


@lru_cache(maxsize=1 << 13)  # a function is called with the same sizes again and again
def _bound(
    function: str, params: tuple[Param, ...], vs: tuple[Value, ...]
) -> tuple[tuple[Value, ...], Mapping[str, Dim]]:
    dims: dict[str, Dim] = {}
    first: dict[tuple[Type, Value], int] = {}
    for index, (param, v) in enumerate(zip(params, vs, strict=True)):
        first.setdefault((param.type, v), index)  # arguments may be thousands, their types are few
    for stated, v in first:
        _bind(stated, type_of(v), dims)
    for stated, _ in first:  # what no argument tells is unknown: the caller may call something else by that name
        for name in types.dim_names(stated):
            dims.setdefault(name, None)
    met = {pair: _argument(function, params, index, pair[1], dims) for pair, index in first.items()}
    return tuple([met[param.type, v] for param, v in zip(params, vs, strict=True)]), dims


def _bind(stated: Type, found: Type, dims: dict[str, Dim]) -> None:
    """Let the named dimensions of `stated` be what `found` has in their places."""
    if isinstance(stated, TupleType) and isinstance(found, TupleType):
        for inner, item in zip(stated.items, found.items, strict=False):
            _bind(inner, item, dims)
    elif isinstance(stated, TensorType) and isinstance(found, TensorType):
        for dim, size in zip(stated.shape or (), found.shape or (), strict=False):
            if (solved := solve(dim, size)) is not None:
                dims.setdefault(*solved)


def _argument(function: str, params: Sequence[Param], index: int, v: Value, dims: Mapping[str, Dim]) -> Value:
    param, part = params[index], Part("operand", index)
    try:
        stated = types.substitute(param.type, dims)
    except DimensionError as error:
        raise Reject(type_codes.BAD_ARGUMENT, f"`@{function}` `%{param.name}`: {error}", part) from None
    met = types.meet(stated, type_of(v))
    if met is None:
        message = f"`@{function}` expected `{stated}` for `%{param.name}`, found `{type_of(v)}`"
        raise Reject(type_codes.BAD_ARGUMENT, message, part)
    return types.one(met) if isinstance(v, (TensorType, TupleType, AnyType)) else v
