"""Calls that differ only in their devices: one is interpreted, the others are derived by renaming devices.

Data parallelism calls a stage once per replica. If neither the function nor its callees name a device, the result on
one set of devices gives that on any other. Renaming preserves the order of devices, because ops list theirs in order.
Depends on values and devices; not on rules of ops, and not on diagnostics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from distir.analysis.domains import Instance, Replica
from distir.ir import Apply, Call, Function, Module, types
from distir.ir.calls import callees
from distir.ir.deep import Deep, finish
from distir.ops import OPS, Value, bridge
from distir.ops.devices import Devices, canonical_devices, device_terms, devices_of, renaming

Key = tuple[str, tuple[Value, ...]]
"""A function, and arguments on canonical devices."""


@dataclass(slots=True)
class Replicas:
    """Instances of a module's functions, from which those on other devices are derived."""

    module: Module
    _named: dict[str, bool] = field(default_factory=dict[str, bool])
    _origins: dict[Key, tuple[Instance, Devices]] = field(default_factory=dict[Key, tuple[Instance, Devices]])

    def names_devices(self, name: str) -> bool:
        """Whether a function or one of its callees names a device; true on a cycle of calls.

        So all do where devices represent different meshes.
        """
        if self.module.meshes.stages:
            return True
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

    def key(self, name: str, vs: Sequence[Value]) -> tuple[Key, Devices] | None:
        """A key shared by the calls that differ only in their devices, and the devices of this call.

        None where the devices make a difference, or there are none.
        """
        if self.names_devices(name):
            return None
        devices = devices_of(vs)
        return ((name, canonical_devices(devices)(tuple(vs))), devices) if devices else None

    def following(self, name: str, vs: Sequence[Value]) -> Instance | None:
        """The instance for these arguments, derived from one on other devices; None if there is none."""
        found = self.key(name, vs)
        if found is None or found[0] not in self._origins:
            return None
        origin, devices = self._origins[found[0]]
        return Replica.of(origin, renaming(devices, found[1]))

    def add(self, name: str, vs: Sequence[Value], instance: Instance) -> None:
        """Derive others from this instance, which has no errors."""
        found = self.key(name, vs)
        if found is not None:
            self._origins.setdefault(found[0], (instance, found[1]))


def _names_devices(function: Function) -> bool:
    stated = [*(param.type for param in function.params), *(function.result_types or ())]
    for statement in function.body:
        if isinstance(statement, (Apply, Call)) and statement.claims:
            stated += [claim for claim in statement.claims if claim is not None]
        if isinstance(statement, Apply) and statement.attrs:
            definition = OPS.get(statement.op)
            if definition is None:
                if statement.op not in bridge.NAMES:
                    return True
            elif not device_terms(definition).isdisjoint(statement.attrs):
                return True
    return any(map(types.devices, stated))
