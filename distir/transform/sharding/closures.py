"""Functions with all that they call: what tells them apart from one program to the next.

A search splits the same stages over devices again and again, for other numbers of microbatches and replicas. What was
found for a function in one program holds in every other one that has the same function, with the same callees.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Generic, TypeVar

from distir.ir import Apply, Call, Function, Module
from distir.ops import OPS
from distir.transform.sharding.mesh import Mesh, devices_of, names_device

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEPT = 1 << 12
"""How many findings are kept of each kind."""


@dataclass(frozen=True, slots=True)
class Closure:
    """A function, first, with all that it calls, and the definitions of the ops in them."""

    functions: tuple[Function, ...]
    ops: frozenset[object]
    names_devices: bool = field(compare=False)
    """Whether a device is named in any of them."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.functions, self.ops)))

    def split_by(self, mesh: Mesh) -> Hashable:
        """What of a mesh it depends on how the functions are split."""
        if self.names_devices:
            return mesh
        return mesh.size, mesh.run if mesh.representative else None

    def __hash__(self) -> int:
        return self._hash


class Closures:
    """The closures of one module's functions."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._found: dict[str, Closure] = {}

    def of(self, name: str) -> Closure:
        """The closure of a function by its name."""
        known = self._found.get(name)
        if known is None:
            known = self._found[name] = self._closure(self._module.functions[name])
        return known

    def _closure(self, function: Function) -> Closure:
        functions = dict.fromkeys((function,))
        ops: set[object] = set()
        named = bool(devices_of(function)) or any(map(names_device, function.body))
        for statement in function.body:
            if isinstance(statement, Call):
                inner = self.of(statement.function)
                functions |= dict.fromkeys(inner.functions)
                ops |= inner.ops
                named = named or inner.names_devices
            elif isinstance(statement, Apply):
                ops.add(OPS.get(statement.op))
        return Closure(tuple(functions), frozenset(ops), named)


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
