"""What ops' rules say, kept for the whole process and for all devices: ops do not tell one device from another.

Programs repeat what they do, on one device after the other and from one version of a program to the next. An answer for
operands on one device is found once, on a device that no program has, and moved to where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from distir.ir import HOST, AnyType, Attributes, Dense, TensorType, TupleType, types
from distir.ops.core import Op
from distir.ops.infer import Value
from distir.ops.unify import Reject
from distir.ops.work import Work
from distir.ops.workload import work

NOWHERE: Final = 1 << 62
"""A device that no program has."""

KEPT = 1 << 15

LARGE = 1 << 10
"""What is said of constants with more elements is not kept."""

Rule = Callable[[Op, tuple[Value, ...], Attributes, int], "tuple[Value, ...] | None"]


def answer(rules: tuple[Rule, ...], op: Op, vs: tuple[Value, ...], attrs: Attributes, count: int) -> tuple[Value, ...]:
    """The answer of the first rule that has one, for `count` results. Raises Reject."""
    if any(isinstance(v, Dense) and len(v.values) > LARGE for v in vs):
        return _answer.__wrapped__(rules, op, vs, attrs, count)
    device = device_of(vs) if op.communication is None else None
    if device is not None:
        try:
            ws = _answer(rules, op, moved(vs, NOWHERE), attrs, count)
        except Reject:  # its message names the device
            return _answer(rules, op, vs, attrs, count)
        if device_of(ws) in (NOWHERE, HOST):
            return moved(ws, device)
    return _answer(rules, op, vs, attrs, count)


def known_work(op: Op, vs: tuple[Value, ...], ws: tuple[types.Type, ...], attrs: Attributes) -> Work:
    """`work`, kept."""
    if op.communication is None:
        device = device_of((*vs, *ws))
        if device is not None:
            try:
                return _work(op, moved(vs, NOWHERE), moved(ws, NOWHERE), attrs)
            except Reject:  # its message may name the device
                return work(op, vs, ws, attrs)
    return _work(op, vs, ws, attrs)


def device_of(vs: Iterable[Value]) -> int | None:
    """The one device of values: HOST if none lives on any; None if that is not known, or there are several."""
    home = HOST
    for v in vs:
        if isinstance(v, TensorType):
            device = v.device
        elif isinstance(v, TupleType):
            device = _tuple_device(v)
        elif isinstance(v, (AnyType, tuple)):
            return None
        else:
            continue
        if device is None or (device != home and HOST not in (device, home)):
            return None
        home = device if home == HOST else home
    return home


def moved(vs: tuple[Any, ...], device: int) -> tuple[Any, ...]:
    """Values that all live on one device, or none, on another one."""
    return tuple([_moved(v, device) if isinstance(v, (TensorType, TupleType)) else v for v in vs])


@lru_cache(maxsize=KEPT)
def _answer(rules: tuple[Rule, ...], op: Op, vs: tuple[Value, ...], attrs: Attributes, count: int) -> tuple[Value, ...]:
    for rule in rules:
        ws = rule(op, vs, attrs, count)
        if ws is not None:
            return tuple(ws)
    raise AssertionError(f"no rule for {op.name}")


@lru_cache(maxsize=KEPT)
def _work(op: Op, vs: tuple[Value, ...], ws: tuple[types.Type, ...], attrs: Attributes) -> Work:
    return work(op, vs, ws, attrs)


@lru_cache(maxsize=KEPT)
def _tuple_device(type: TupleType) -> int | None:
    if any(isinstance(leaf, AnyType) for leaf in types.leaves(type)):
        return None
    return device_of(tuple(types.leaves(type)))


@lru_cache(maxsize=KEPT)
def _moved(type: types.Type, device: int) -> types.Type:
    match type:
        case TensorType(dtype, shape, there):
            return type if there == HOST else types.one(TensorType(dtype, shape, device))
        case TupleType(items):
            return types.one(TupleType(tuple(_moved(item, device) for item in items)))
        case AnyType():
            return type
