"""Identifies functions with all their callees across programs, to cache results.

A search partitions the same stages repeatedly, for several numbers of microbatches and replicas. A result for a
function in one program holds in every other program with the same function and callees.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Final, Generic, TypeVar

from distir.ir import Module, ops_in
from distir.ir.calls import callees
from distir.ir.deep import Deep, finish
from distir.ops import OPS
from distir.transform.sharding.mesh import Mesh, devices_of, names_device

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEPT = 1 << 12
"""The size of each cache."""


class Findings(Generic[K, V]):
    """A cache of the last `KEPT` results."""

    def __init__(self) -> None:
        self._known: Final[dict[K, V]] = {}
        self._lock: Final = Lock()

    def get(self, key: K) -> V | None:
        """The cached result, or None."""
        return self._known.get(key)

    def put(self, key: K, found: V) -> V:
        """Add a result, and evict the oldest one if there are too many."""
        with self._lock:
            if len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = found
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function with all its callees and the definitions of their ops, interned."""

    names_devices: bool
    """Whether any of them names a device."""

    def split_by(self, mesh: Mesh) -> Hashable:
        """The properties of a mesh on which the partitioned functions depend."""
        if self.names_devices:
            return mesh
        return mesh.size, mesh.run if mesh.representative else None, mesh.order, mesh.whole, mesh.factors


_CLOSURES: Final[Findings[Hashable, Closure]] = Findings()
"""The closures of all programs, by function, closures of callees, and definitions of ops."""


class Closures:
    """The closures of one module's functions."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._found: dict[str, Closure] = {}

    def of(self, name: str) -> Closure:
        """The closure of a function by its name."""
        return finish(self._closure(name))

    def _closure(self, name: str) -> Deep[Closure]:
        known = self._found.get(name)
        if known is None:
            function = self._module.functions[name]
            called: list[Closure] = []
            for callee in callees(function):
                called.append((yield self._closure(callee)))
            ops = frozenset(OPS.get(s.op) for s in ops_in(function))
            key = (function, tuple(called), ops)
            known = _CLOSURES.get(key)
            if known is None:
                named = bool(devices_of(function)) or any(map(names_device, function.body))
                known = _CLOSURES.put(key, Closure(named or any(inner.names_devices for inner in called)))
            self._found[name] = known
        return known
