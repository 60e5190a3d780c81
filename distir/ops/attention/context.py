"""Attention whose sequence is split over devices: keys gathered, or passed around a ring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distir.ir import (
    DISCARD,
    DTYPES,
    Arg,
    Literal,
)
from distir.ops.layout import Parts

if TYPE_CHECKING:
    pass


def around_ring(
    w: Parts, q: Arg, k: Arg, v: Arg, sinks: Arg, random: Sequence[Arg], length: int, attrs: Any
) -> list[Arg]:
    """The part of the result, and its log-sum-exp, over all keys, merged from those over the keys of each device.

    The next keys are sent before these are used, so that they can travel meanwhile. Sinks are keys of the first device.
    """
    found: list[Arg] = []
    stated = without_context(attrs)
    dtype = w.type(q).dtype
    narrow = None if dtype is None or dtype.bytes >= 4 else dtype
    for behind in range(w.size):
        here = k, v
        if behind + 1 < w.size:
            k, v = w.shifted(k), w.shifted(v)
        runs = _own_runs(w, length, behind, attrs)
        operands = trimmed(q, *here, DISCARD, DISCARD if behind else sinks, DISCARD, *drawn(random), *runs)
        part = w.several("Attention", 2, *operands, **stated)
        if not found:
            found = [w("Cast", part[0], to=DTYPES["Float32"]) if narrow else part[0], part[1]]
        else:
            found = [*w.several("MergeAttention", 2, *found, *part)]
    return [w("Cast", found[0], to=narrow) if narrow else found[0], found[1]]


def gradient_around_ring(
    w: Parts,
    given: Sequence[Arg],
    k: Arg,
    v: Arg,
    sinks: Arg,
    random: Sequence[Arg],
    length: int,
    attrs: Any,
    count: int,
) -> list[Arg]:
    """The gradients by keys that travel, and their own gradients with them, which come home in the end.

    `given`: the gradient of the result, the queries, the result and its log-sum-exp.
    """
    dy, q, y, lse = given
    stated = without_context(attrs)
    dq: list[Arg] = []
    dkeys: list[Arg] = []
    rest: list[Arg] = []
    for behind in range(w.size):
        here = k, v
        if behind + 1 < w.size:
            k, v = w.shifted(k), w.shifted(v)
        before = [w.shifted(x) for x in dkeys]
        runs = _own_runs(w, length, behind, attrs)
        operands = trimmed(dy, q, *here, y, lse, DISCARD, DISCARD if behind else sinks, *drawn(random), *runs)
        own, *parts = w.several("AttentionGrad", 3 if behind else count, *operands, **stated)
        dq.append(own)
        rest += parts[2:]
        dkeys = [w("Add", x, part) for x, part in zip(before, parts, strict=False)] if before else parts[:2]
        if len(dq) > 1:
            dq = [w("Add", *dq)]
    return [*dq, *(w.shifted(x) for x in dkeys), *rest]


def _own_runs(w: Parts, length: int, behind: int, attrs: Any) -> tuple[Arg, ...]:
    return (w.own_places(length), w.own_places(length, behind)) if goes_by_places(attrs) else ()


def goes_by_places(attrs: Mapping[str, Any]) -> bool:
    """Whether it matters where in the sequence queries and keys are: for a causal mask, and for what is dropped."""
    return bool(attrs["is_causal"] or attrs["dropout"])


def drawn(random: Sequence[Arg]) -> list[Arg]:
    """The key, rows and start of dropout, as operands before those of runs."""
    return [*random[:3], *(DISCARD,) * (3 - len(random))]


@dataclass(frozen=True, slots=True)
class _Keys:
    """Keys of a whole sequence. `in_order`: of the sequence, as a mask needs them; else of the devices."""

    length: int
    in_order: bool

    def runs(self, w: Parts) -> tuple[Arg, Arg]:
        """The runs of this device's queries, and of the keys."""
        whole = w.places(self.length)
        return w.own_places(self.length), DISCARD if self.in_order or whole == (0,) else Literal(whole)


def context_of(w: Parts, q: Arg, mask: Arg) -> tuple[int, _Keys]:
    """The axis of the sequence in operands, and its keys."""
    shape = w.type(q).shape or ()
    axis = 2 if len(shape) == 4 else 1
    length = shape[axis]
    assert isinstance(length, int), "or it is not decided so"
    return axis, _Keys(length, mask != DISCARD)


def trimmed(*operands: Arg) -> list[Arg]:
    """Operands up to the last that is stated."""
    stated = max(n for n, operand in enumerate(operands, 1) if operand != DISCARD)
    return [*operands[:stated]]


def without_context(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that are not what they are by default."""
    defaults = {"is_causal": False, "softcap": 0.0, "dropout": 0.0}
    return {name: value for name, value in attrs.items() if value is not None and defaults.get(name) != value}
