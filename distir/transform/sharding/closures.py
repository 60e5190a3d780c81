"""Functions with all that they call: what tells them apart from one program to the next.

A search splits the same stages over devices again and again, for other numbers of microbatches and replicas. What was
found for a function in one program holds in every other one that has the same function, with the same callees.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Final, Generic, TypeVar

from distir.ir import Apply, Module
from distir.ir.calls import callees
from distir.ir.deep import Deep, finish
from distir.ops import OPS
from distir.transform.sharding.mesh import Mesh, devices_of, names_device

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEPT = 1 << 12
"""How many findings are kept of each kind."""


class Findings(Generic[K, V]):
    """What was found, by what it depends on: the last `KEPT` of a kind."""

    def __init__(self) -> None:
        self._known: Final[dict[K, V]] = {}
        self._lock: Final = Lock()

    def get(self, key: K) -> V | None:
        """What was found, if it is known."""
        return self._known.get(key)

    def put(self, key: K, found: V) -> V:
        """Keep a finding, and forget the oldest one if there are too many."""
        with self._lock:
            if len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = found
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function with all that it calls, and the definitions of the ops in them: one object for equal ones."""

    names_devices: bool
    """Whether a device is named in any of them."""

    def split_by(self, mesh: Mesh) -> Hashable:
        """What of a mesh it depends on how the functions are split."""
        if self.names_devices:
            return mesh
        return mesh.size, mesh.run if mesh.representative else None, mesh.order, mesh.whole


_CLOSURES: Final[Findings[Hashable, Closure]] = Findings()
"""Of all programs: by the function, the closures of those that it calls, and the definitions of its ops."""


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
            ops = frozenset(OPS.get(s.op) for s in function.body if isinstance(s, Apply))
            key = (function, tuple(called), ops)
            known = _CLOSURES.get(key)
            if known is None:
                named = bool(devices_of(function)) or any(map(names_device, function.body))
                known = _CLOSURES.put(key, Closure(named or any(inner.names_devices for inner in called)))
            self._found[name] = known
        return known
