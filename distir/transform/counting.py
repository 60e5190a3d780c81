"""Counts the FLOPs of a program from its types alone: by op, and by statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from distir.analysis import Analysis, Instance
from distir.ir import Apply, Attributes, Call, DimensionError, Function, Statement, TensorType, TupleType, Type, types
from distir.ops import OPS, Op, Reject, Value, type_of
from distir.ops.devices import canonical_devices, devices_of, known_work

ANY_SIZE = 5040
"""The size assumed for named dimensions when FLOPs are counted: a multiple of all numbers up to 10."""


Called = tuple[str, tuple[Value, ...]]
"""A function and its arguments."""

Known = dict[Called, dict[str, int]]
"""The FLOPs of functions and their callees, by op. Those of calls that differ in their devices alone are one."""


def flops(analysis: Analysis, entry: str) -> dict[str, int]:
    """The FLOPs of one run, summed over all devices, by op.

    Omits ops with an unknown size or unknown work; named dimensions count as `ANY_SIZE`.
    """
    first = (entry, tuple(p.type for p in analysis.module.functions[entry].params))
    return _by_function(analysis, first)[_canonical(first)]


def statement_flops(analysis: Analysis, entry: str) -> list[int]:
    """The FLOPs by statement of the entry function; a call's are those of its callee."""
    function = analysis.module.functions[entry]
    first = (entry, tuple(p.type for p in function.params))
    known, instance = _by_function(analysis, first), analysis.domain.instance(*first)
    return [
        sum(known[_canonical((s.function, instance.state(s.args)))].values())
        if isinstance(s, Call)
        else sum(_own(analysis, s, instance).values())
        for s in function.body
    ]


def _canonical(called: Called) -> Called:
    name, vs = called
    return name, canonical_devices(devices_of(vs))(vs)


def _by_function(analysis: Analysis, first: Called) -> Known:
    """The FLOPs of a function and its callees."""
    domain, module = analysis.domain, analysis.module
    known: Known = {}
    pending = [first]
    while pending:
        key = pending[-1]
        if (canonical := _canonical(key)) in known:
            pending.pop()
            continue
        function, instance = module.functions[key[0]], domain.instance(*key)
        calls = {_canonical(call): call for call in _calls(function, instance)}
        missing = [call for found, call in calls.items() if found not in known]
        if missing:
            pending += missing
        else:
            inner = (known[_canonical(call)] for call in _calls(function, instance))
            known[canonical] = _counted(analysis, function, instance, inner)
    return known


def _calls(function: Function, instance: Instance) -> list[Called]:
    return [(s.function, instance.state(s.args)) for s in function.body if isinstance(s, Call)]


def _counted(
    analysis: Analysis, function: Function, instance: Instance, inner: Iterable[Mapping[str, int]]
) -> dict[str, int]:
    """The FLOPs of a function's own ops by name, then those of its calls."""
    found: dict[str, int] = {}
    for counts in (*(_own(analysis, statement, instance) for statement in function.body), *inner):
        for name, count in counts.items():
            found[name] = found.get(name, 0) + count
    return found


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
