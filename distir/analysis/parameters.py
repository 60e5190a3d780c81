"""What a call passes, against what the function states of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as type_codes
from distir.ir import AnyType, Dim, DimensionError, Function, Part, TensorType, TupleType, Type, types
from distir.ir.dims import named, solve
from distir.ops import Reject, Value, type_of


def parameters(function: Function, vs: Sequence[Value]) -> tuple[tuple[Value, ...], Mapping[str, Dim]]:
    """Arguments with what the parameters' types add, and the sizes of the named dimensions. Raises Reject."""
    if len(vs) != len(function.params):
        names = ", ".join(f"%{p.name}" for p in function.params)
        message = f"`@{function.name}` expected {len(function.params)} arguments ({names}), found {len(vs)}"
        raise Reject(name_codes.OPERAND_COUNT, message, Part("callee"))
    if all(v is param.type for param, v in zip(function.params, vs, strict=True)):  # the function for its own types
        return tuple(vs), {name: named(name) for t in dict.fromkeys(vs) for name in types.dim_names(type_of(t))}
    dims: dict[str, Dim] = {}
    first: dict[tuple[Type, Value], int] = {}
    for index, pair in enumerate(zip([param.type for param in function.params], vs, strict=True)):
        first.setdefault(pair, index)  # arguments may be thousands, their types are few
    names = {stated: found for stated, _ in first if (found := types.dim_names(stated))}
    for stated, v in first:
        if stated in names:
            dims = {**dict(_sizes(stated, type_of(v))), **dims}
    for name in chain(*names.values()):  # what no argument tells is unknown: the caller may call something else so
        dims.setdefault(name, None)
    met = {pair: _argument(function, index, pair[1], dims if pair[0] in names else {}) for pair, index in first.items()}
    return tuple([met[param.type, v] for param, v in zip(function.params, vs, strict=True)]), dims


@lru_cache(maxsize=1 << 14)  # large tuples are passed from call to call
def _sizes(stated: Type, found: Type) -> tuple[tuple[str, Dim], ...]:
    """What the named dimensions of `stated` are where `found` is in its place: by the first that tells."""
    sizes: dict[str, Dim] = {}
    if isinstance(stated, TupleType) and isinstance(found, TupleType):
        for inner, item in zip(stated.items, found.items, strict=False):
            if types.dim_names(inner):
                sizes = {**dict(_sizes(inner, item)), **sizes}
    elif isinstance(stated, TensorType) and isinstance(found, TensorType):
        for dim, size in zip(stated.shape or (), found.shape or (), strict=False):
            if (solved := solve(dim, size)) is not None:
                sizes.setdefault(*solved)
    return tuple(sizes.items())


def _argument(function: Function, index: int, v: Value, dims: Mapping[str, Dim]) -> Value:
    """An argument with what is stated of its parameter, by the sizes of the named dimensions there."""
    param, part, found = function.params[index], Part("operand", index), type_of(v)
    try:
        stated = types.substitute(param.type, dims)
    except DimensionError as error:
        raise Reject(type_codes.BAD_ARGUMENT, f"`@{function.name}` `%{param.name}`: {error}", part) from None
    met = types.meet(stated, found)
    if met is None:
        message = f"`@{function.name}` expected `{stated}` for `%{param.name}`, found `{found}`"
        raise Reject(type_codes.BAD_ARGUMENT, message, part)
    return v if met is found or not isinstance(v, (TensorType, TupleType, AnyType)) else types.one(met)
