"""Counts the FLOPs of a program from its types alone: by op, and by statement."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from distir.analysis import Analysis, Instance
from distir.ir import Apply, Attributes, Call, DimensionError, Statement, TensorType, TupleType, Type, types
from distir.ir.deep import Deep, finish
from distir.ops import OPS, Op, Reject, Value, type_of
from distir.ops.devices import canonical_devices, devices_of, known_work

ANY_SIZE = 5040
"""The size assumed for named dimensions when FLOPs are counted: a multiple of all numbers up to 10."""


Called = tuple[str, tuple[Value, ...]]
"""A function and its arguments."""


def flops(analysis: Analysis, entry: str) -> dict[str, int]:
    """The FLOPs of one run, summed over all devices, by op.

    Omits ops with an unknown size or unknown work; named dimensions count as `ANY_SIZE`.
    """
    first = (entry, tuple(p.type for p in analysis.module.functions[entry].params))
    return finish(_counted(analysis, first, {}))


def statement_flops(analysis: Analysis, entry: str) -> list[int]:
    """The FLOPs by statement of the entry function; a call's are those of its callee."""
    function, known = analysis.module.functions[entry], dict[Called, dict[str, int]]()
    instance = analysis.domain.instance(entry, tuple(p.type for p in function.params))
    return [
        sum(finish(_counted(analysis, (s.function, instance.state(s.args)), known)).values())
        if isinstance(s, Call)
        else sum(_own(analysis, s, instance).values())
        for s in function.body
    ]


def _canonical(called: Called) -> Called:
    name, vs = called
    return name, canonical_devices(devices_of(vs))(vs)


def _counted(analysis: Analysis, called: Called, known: dict[Called, dict[str, int]]) -> Deep[dict[str, int]]:
    """The FLOPs of a function's own ops by name, then those of its calls.

    `known`: those of functions and their callees; calls that differ in their devices alone are one.
    """
    key = _canonical(called)
    if key not in known:
        instance = analysis.domain.instance(*called)
        body, found = instance.function.body, dict[str, int]()
        each = [_own(analysis, statement, instance) for statement in body]
        for s in body:
            if isinstance(s, Call):
                each.append((yield _counted(analysis, (s.function, instance.state(s.args)), known)))
        for name, count in (item for counts in each for item in counts.items()):
            found[name] = found.get(name, 0) + count
        known[key] = found
    return known[key]


def _own(analysis: Analysis, statement: Statement, instance: Instance) -> Mapping[str, int]:
    """The FLOPs of a statement that is an op, by the op's name; nothing if they are unknown."""
    op = OPS.get(statement.op) if isinstance(statement, Apply) else None
    if not isinstance(statement, Apply) or op is None or op.communication is not None:
        return {}
    vs = instance.state(statement.args)
    try:
        count = _flops(op, statement.attrs, vs, analysis.domain.answer(statement, vs))
    except Reject:
        return {}
    return {op.name: count} if count else {}


@lru_cache(maxsize=1 << 12)  # layers repeat the same ops
def _flops(op: Op, attrs: Attributes, vs: tuple[Value, ...], ws: tuple[Value, ...]) -> int:
    """The FLOPs of an op. Raises Reject where its work is unknown."""
    try:
        return known_work(op, tuple(map(_sized, vs)), tuple(_sized_type(type_of(w)) for w in ws), attrs).flops
    except DimensionError:
        return 0


def _sized(value: Value) -> Value:
    """A type with `ANY_SIZE` for its named dimensions; known values unchanged."""
    return _sized_type(value) if isinstance(value, (TensorType, TupleType)) else value


def _sized_type(type: Type) -> Type:
    names = types.dim_names(type)
    return types.substitute(type, dict.fromkeys(names, ANY_SIZE)) if names else type


def weight_bytes(type: Type) -> int:
    """The bytes of a value of this type; 0 where its size is not known."""
    size = types.nbytes(_sized_type(type))
    return size if isinstance(size, int) else 0


def percent(share: float) -> str:
    """Formats a share: `12.5 %`."""
    return f"{100 * share:.3g} %"
