"""Called functions without the device that a sequential program states in them: stages call them on other devices."""

from __future__ import annotations

from dataclasses import replace

from distir.ir import Apply, Call, Function, Module, Statement, Type, types
from distir.ir.calls import reachable


def on_any_device(module: Module, entry: Function) -> Module:
    """The module in which no function that `entry` calls states a device; the same module if none does.

    The program runs on one device: so what a function computes does not depend on what it states.
    """
    called = {name: module.functions[name] for name in reachable(module.functions, [entry])}
    changed = {name: free for name, f in called.items() if (free := _free(f)) is not f}
    return Module(changed.get(f.name, f) for f in module) if changed else module


def _free(function: Function) -> Function:
    stated = [p.type for p in function.params] + list(function.result_types or ())
    stated += [t for s in function.body if isinstance(s, (Apply, Call)) for t in s.claims if t is not None]
    if not any(map(types.devices, stated)):
        return function
    result_types = function.result_types
    return replace(
        function,
        params=tuple(replace(p, type=types.on_device(p.type, None)) for p in function.params),
        body=tuple(map(_unclaimed, function.body)),
        result_types=None if result_types is None else tuple(types.on_device(t, None) for t in result_types),
    )


def _unclaimed(statement: Statement) -> Statement:
    if not isinstance(statement, (Apply, Call)) or not statement.claims:
        return statement
    return replace(statement, claims=tuple(map(_open, statement.claims)))


def _open(claim: Type | None) -> Type | None:
    return None if claim is None else types.on_device(claim, None)
