"""Calls that differ in their devices alone: one of them is interpreted, the others follow by renaming.

Data parallelism calls a stage once per replica. What such a call gives is what it gives elsewhere, on other devices,
as long as neither the function nor what it calls names a device. Renaming keeps the order of devices, since ops list
theirs in order. Knows values and devices; no ops' rules, and nothing of what is wrong in a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from distir.ir import HOST, AnyType, Apply, Call, Constant, Function, Module, TensorType, TupleType, Type, types
from distir.ir.calls import callees
from distir.ir.deep import Deep, finish
from distir.ops import OPS, Op, Value, bridge, type_of
from distir.ops.elsewhere import NOWHERE

Devices = tuple[int, ...]
Key = tuple[str, tuple[Value, ...]]
"""A function, and arguments on devices that no program has, numbered by the order of those that they are on."""


@dataclass(frozen=True, slots=True, eq=False)
class Renaming:
    """Other devices in the place of some, one by one and in the same order."""

    before: Devices
    after: Devices
    devices: dict[int, int]
    _known: dict[Type, Type] = field(default_factory=dict[Type, Type])

    def __call__(self, v: Any) -> Any:
        """A value there. What it says of other devices stays."""
        if isinstance(v, (TensorType, TupleType, AnyType)):
            known = self._known.get(v)
            if known is None:
                known = self._known[v] = types.one(self._renamed(v))
            return known
        return tuple([self(item) for item in cast("tuple[Any, ...]", v)]) if isinstance(v, tuple) else v

    def named(self, value: Constant) -> Constant:
        """A device, or several, named by an attribute."""
        if isinstance(value, tuple):
            return tuple([self.named(item) for item in value])
        return self.devices.get(value, value) if isinstance(value, int) else value

    def _renamed(self, type: Type) -> Type:
        match type:
            case TensorType(dtype, shape, int(device)) if device != HOST:
                return TensorType(dtype, shape, self.devices.get(device, device))
            case TupleType(items):
                return TupleType(tuple([self(item) for item in items]))
            case AnyType(int(device)):
                return AnyType(self.devices.get(device, device))
            case _:
                return type


@dataclass(slots=True)
class Places:
    """Where a module's functions are called."""

    module: Module
    _named: dict[str, bool] = field(default_factory=dict[str, bool])
    _renamings: dict[tuple[Devices, Devices], Renaming] = field(default_factory=dict[tuple[Devices, Devices], Renaming])

    def renaming(self, before: Devices, after: Devices) -> Renaming:
        """Devices in the place of as many others."""
        known = self._renamings.get((before, after))
        if known is None:
            found = Renaming(before, after, dict(zip(before, after, strict=True)))
            known = self._renamings[before, after] = found
        return known

    def names_devices(self, name: str) -> bool:
        """Whether a function, or one that it calls, names a device; on a cycle of calls that is not told apart."""
        known = self._named.get(name)
        return finish(self._names_devices(name)) if known is None else known

    def _names_devices(self, name: str) -> Deep[bool]:
        if name not in self._named:
            self._named[name] = True
            function = self.module.functions.get(name)
            found = function is None or _names_devices(function)
            for callee in callees(function) if function is not None and not found else ():
                found = found or (yield self._names_devices(callee))
            self._named[name] = found
        return self._named[name]

    def of(self, name: str, vs: Sequence[Value]) -> tuple[Key, Devices] | None:
        """What calls that differ in their devices alone have in common, and the devices of this one.

        None where the devices make a difference, or there are none.
        """
        if self.names_devices(name):
            return None
        anywhere = self._anywhere(vs)
        return ((name, tuple([anywhere(v) for v in vs])), anywhere.before) if anywhere.before else None

    def of_op(self, op: Apply, vs: Sequence[Value]) -> tuple[object, Devices]:
        """What uses of an op that differ in their devices alone have in common, and the devices of this one.

        `vs`: its operands and results. Devices that its attributes name are among those, in the same order.
        """
        anywhere = self._anywhere(vs)
        values = tuple([anywhere(v) for v in vs])
        terms = device_terms(op.op)
        if not op.attrs or not terms or terms.isdisjoint(op.attrs):
            return (op.op, op.attrs, values), anywhere.before
        attributes = [(name, anywhere.named(value) if name in terms else value) for name, value in op.attrs.items()]
        return (op.op, frozenset(attributes), values), anywhere.before

    def _anywhere(self, vs: Sequence[Value]) -> Renaming:
        """From the devices of values to as many that no program has."""
        devices = tuple(sorted(frozenset[int]().union(*[types.devices(type_of(v)) for v in vs if v is not None])))
        return self.renaming(devices, tuple(range(NOWHERE, NOWHERE + len(devices))))


def _names_devices(function: Function) -> bool:
    stated = [*(param.type for param in function.params), *(function.result_types or ())]
    for statement in function.body:
        if isinstance(statement, (Apply, Call)) and statement.claims:
            stated += [claim for claim in statement.claims if claim is not None]
        if isinstance(statement, Apply) and statement.attrs:
            terms = device_terms(statement.op)
            if terms is None or not terms.isdisjoint(statement.attrs):
                return True
    return any(map(types.devices, stated))


def device_terms(name: str) -> frozenset[str] | None:
    """The attributes of an op that name devices, if it has them; None for an op that nobody knows."""
    definition = OPS.get(name)
    if definition is None:
        return frozenset() if name in bridge.NAMES else None
    return _terms(definition)


@lru_cache(maxsize=1 << 10)
def _terms(definition: Op) -> frozenset[str]:
    """By the definition, not its name: what is registered anew under a name may have other terms."""
    patterns = [place.pattern for s in definition.signatures for place in (*s.operands, *s.results)]
    return frozenset(pattern.device.removesuffix("_i") for pattern in patterns if pattern.device is not None)
