"""Renaming of devices: a result for values on some devices is valid for values on others.

Ops are invariant under a renaming of devices. So the results of their rules, their work, and the results of a function
that names no device are computed once, on *canonical* devices that no program uses, in the order of the original ones.
`answer` and `known_work` cache them for the whole process: they repeat on other devices of a program, in its later
versions, and in other plans of a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, cast

from distir.ir import HOST, AnyType, Attributes, Constant, Dense, TensorType, TupleType, Type, types
from distir.ops.core import Op
from distir.ops.infer import Value
from distir.ops.resources import Work
from distir.ops.unify import Reject
from distir.ops.workload import work

Devices = tuple[int, ...]
"""In ascending order."""

CANONICAL: Final = 1 << 62
"""The first canonical device: greater than any in a program."""

KEPT = 1 << 15

LARGE = 1 << 10
"""Results for constants with more elements are not cached."""

Rule = Callable[[Op, tuple[Value, ...], Attributes, int], "tuple[Value, ...] | None"]


@dataclass(frozen=True, slots=True, eq=False)
class Renaming:
    """An order-preserving, one-to-one renaming of devices."""

    before: Devices
    after: Devices
    devices: dict[int, int]
    _known: dict[Type, Type] = field(default_factory=dict[Type, Type])

    def __call__(self, v: Any) -> Any:
        """The value with its devices renamed; devices outside of the renaming are unchanged."""
        if isinstance(v, tuple):
            find = self._known.get
            return tuple([find(item) or self(item) for item in cast("tuple[Any, ...]", v)])
        if not isinstance(v, (TensorType, TupleType, AnyType)):
            return v
        known = self._known.get(v)
        if known is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            known = self._known[v] = types.one(self._renamed(v))
        return known

    @property
    def back(self) -> Renaming:
        """The inverse renaming."""
        return renaming(self.after, self.before)

    def attributes(self, op: Op, attrs: Attributes) -> Attributes:
        """An op's attributes with their devices renamed."""
        terms = device_terms(op)
        if not attrs or not terms or terms.isdisjoint(attrs):
            return attrs
        return Attributes({name: self._named(value) if name in terms else value for name, value in attrs.items()})

    def _named(self, value: Constant) -> Constant:
        if isinstance(value, tuple):
            return tuple([self._named(item) for item in value])
        return self.devices.get(value, value) if isinstance(value, int) else value

    def _renamed(self, type: Type) -> Type:
        match type:
            case TensorType(dtype, shape, int(device), offloaded, places) if device != HOST:
                return TensorType(dtype, shape, self.devices.get(device, device), offloaded, places)
            case TupleType(items):
                return TupleType(tuple([self(item) for item in items]))
            case AnyType(int(device)):
                return AnyType(self.devices.get(device, device))
            case _:
                return type


@lru_cache(maxsize=1 << 10)
def renaming(before: Devices, after: Devices) -> Renaming:
    """The renaming of these devices to the others, in order."""
    return Renaming(before, after, dict(zip(before, after, strict=True)))


def renamed(devices: Mapping[int, int]) -> Renaming:
    """The renaming given by a mapping."""
    before = tuple(sorted(devices))
    return renaming(before, tuple([devices[device] for device in before]))


@lru_cache(maxsize=1 << 10)
def canonical_devices(devices: Devices) -> Renaming:
    """The renaming of devices to canonical ones."""
    return renaming(devices, tuple(range(CANONICAL, CANONICAL + len(devices))))


def devices_of(vs: Iterable[Value], op: Op | None = None, attrs: Attributes | None = None) -> Devices:
    """The devices of values, and those in an op's attributes."""
    found: set[int] = set()
    for v in vs:
        if isinstance(v, TensorType):
            if v.device is not None and v.device != HOST:
                found.add(v.device)
        elif isinstance(v, (TupleType, AnyType)):
            found |= types.devices(v)
        elif isinstance(v, tuple):
            found.update(devices_of(v))
    if attrs and op is not None and not (terms := device_terms(op)).isdisjoint(attrs):
        found.update(d for name in terms if name in attrs for d in _ints(attrs[name]))
    return tuple(sorted(found))


def answer(rules: tuple[Rule, ...], op: Op, vs: tuple[Value, ...], attrs: Attributes, count: int) -> tuple[Value, ...]:
    """The answer of the first rule that has one, for `count` results. Raises Reject."""
    if any(isinstance(v, Dense) and len(v.values) > LARGE for v in vs):
        return _answer.__wrapped__(rules, op, vs, attrs, count)
    devices = devices_of(vs, op, attrs)
    if not devices:
        return _answer(rules, op, vs, attrs, count)
    there = canonical_devices(devices)
    try:
        ws = _answer(rules, op, there(vs), there.attributes(op, attrs), count)
    except Reject:  # its message names the devices
        return _answer(rules, op, vs, attrs, count)
    return there.back(ws)


def known_work(op: Op, vs: tuple[Value, ...], ws: tuple[Type, ...], attrs: Attributes) -> Work:
    """`work`, cached. Raises Reject."""
    there = canonical_devices(devices_of((*vs, *ws), op, attrs))
    try:
        return _work(op, there(vs), there(ws), there.attributes(op, attrs)).on(there.back.devices)
    except Reject:  # its message may name the devices
        return work(op, vs, ws, attrs)


@lru_cache(maxsize=1 << 10)
def device_terms(op: Op) -> frozenset[str]:
    """The attributes of an op that name devices. Cached per definition, as a later one may have other attributes."""
    patterns = [place.pattern for s in op.signatures for place in (*s.operands, *s.results)]
    return frozenset(pattern.device.removesuffix("_i") for pattern in patterns if pattern.device is not None)


def _ints(value: Constant) -> Sequence[int]:
    """The devices in an attribute."""
    if isinstance(value, tuple):
        return [device for item in value for device in _ints(item)]
    return [value] if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else []


@lru_cache(maxsize=KEPT)
def _answer(rules: tuple[Rule, ...], op: Op, vs: tuple[Value, ...], attrs: Attributes, count: int) -> tuple[Value, ...]:
    for rule in rules:
        ws = rule(op, vs, attrs, count)
        if ws is not None:
            return tuple(ws)
    raise AssertionError(f"no rule for {op.name}")


@lru_cache(maxsize=KEPT)
def _work(op: Op, vs: tuple[Value, ...], ws: tuple[Type, ...], attrs: Attributes) -> Work:
    return work(op, vs, ws, attrs)
