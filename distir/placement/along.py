"""Placements over the devices of one mesh axis (`State`): whole, split, on one alone, partial sum or maximum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Union, cast

from distir.ir import HOST, Dense, External, Literal, TupleType, Type, types
from distir.ops import Value
from distir.ops.layout import Blocks, Repeated, Shared


class Unsplit(Enum):
    """The placement of a value that is not split.

    `WHOLE`: replicated. `PARTIAL`: the value is the sum over the devices. `GREATEST`: it is their elementwise maximum.

    No placement is a pending mean: a mean over a split dimension is a pending sum of what each device has, divided by
    their number (`Typing.averaged`).
    """

    WHOLE = "whole"
    PARTIAL = "partial"
    GREATEST = "greatest"

    __hash__ = object.__hash__  # `Enum`'s own hash is slow, and states of large tuples are hashed often


@dataclass(frozen=True, slots=True)
class Split:
    """Split into equal parts along `axis`, in order of the devices; with `blocks`, each block by itself.

    `Shared` blocks are replicated. In `zigzag` device i of n has the parts i and 2n - 1 - i of 2n. (The partitioner
    of one axis says that of the axis, not of its states: `mesh.Order`.)

    `loose`: a split that the partitioner chose only to avoid redundant computation. If an op could be split in two
    ways, a loose one yields.
    """

    axis: int
    blocks: Blocks = ()
    loose: bool = False
    zigzag: bool = False
    _hash: int = field(init=False, repr=False, compare=False)  # states of large tuples are hashed often

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.axis, self.blocks, self.loose, self.zigzag)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Split, (self.axis, self.blocks, self.loose, self.zigzag)  # the hash holds in this process only

    @property
    def is_mixed(self) -> bool:
        """Whether some blocks are replicated."""
        return any(isinstance(block, Shared) for block in self.blocks)

    @property
    def is_repeated(self) -> bool:
        """Whether the number of its blocks is unknown."""
        return any(isinstance(block, Repeated) for block in self.blocks)


@dataclass(frozen=True, slots=True)
class OwnedBy:
    """Whole on one device, which has this number along the axis, from 1; the others do not have it.

    `loose`: only to be stored so. An op that is not of it alone yields: it needs the value on every device.
    """

    number: int
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Nested:
    """Different placements along the factors of a mesh axis, outermost first: each a state, and a number of devices.

    So are experts, of which each shard has the same part as some others, or a part of the matrices of some.
    """

    parts: tuple[tuple[Unsplit | Split | OwnedBy, int], ...]
    order: tuple[int, ...] = ()
    """The factors in the order in which they cut a dimension, the outermost first, where it is another."""

    @property
    def cuts(self) -> tuple[tuple[int, Unsplit | Split | OwnedBy, int], ...]:
        """For each factor, in the order in which they cut: its number, the state along it, and its size."""
        return tuple((k, *self.parts[k]) for k in self.order or range(len(self.parts)))


State = Union[Unsplit, Split, OwnedBy, Nested, "tuple[State, ...]"]
WHOLE, PARTIAL, GREATEST = Unsplit.WHOLE, Unsplit.PARTIAL, Unsplit.GREATEST


def nested(states: Sequence[State], factors: Sequence[int]) -> State:
    """The state of a value with these states along the factors of a mesh axis."""
    if all(state == states[0] for state in states):
        return states[0]
    assert not any(isinstance(state, (tuple, Nested)) for state in states)
    return Nested(tuple(zip(cast("Sequence[Unsplit | Split | OwnedBy]", states), factors, strict=True)))


def parts_of(state: State) -> tuple[tuple[State, int], ...]:
    """The states along the factors of a mesh axis, with their sizes; none where it is the same along all."""
    return state.parts if isinstance(state, Nested) else ()


def is_owned(state: State) -> bool:
    """Whether only some devices have it, or an item of it."""
    if isinstance(state, tuple):
        return any(map(is_owned, state))
    return any(isinstance(part, OwnedBy) for part, _ in parts_of(state))


def state_along(state: State, factor: int) -> State:
    """The state along one factor of the mesh axis."""
    return state.parts[factor][0] if isinstance(state, Nested) else state


def is_nested(state: State) -> bool:
    """Whether it differs along the factors of the mesh axis."""
    return isinstance(state, Nested)


def is_zigzag(state: State) -> bool:
    """Whether it is split in zig-zag."""
    return isinstance(state, Split) and state.zigzag


def is_whole(state: State) -> bool:
    """Whether it is replicated."""
    return all(map(is_whole, state)) if isinstance(state, tuple) else state is WHOLE


def is_partial(state: State) -> bool:
    """Whether all leaves of a value are partial sums."""
    return bool(state) and all(map(is_partial, state)) if isinstance(state, tuple) else state is PARTIAL


def holds_partial(state: State) -> bool:
    """Whether some leaf is a partial sum or maximum."""
    if isinstance(state, Nested):
        return any(holds_partial(part) for part, _ in state.parts)
    return any(map(holds_partial, state)) if isinstance(state, tuple) else state in (PARTIAL, GREATEST)


def whole_like(type: Type) -> State:
    """The state of a whole value of this type."""
    return tuple(map(whole_like, type.items)) if isinstance(type, TupleType) else WHOLE


def is_host(value: Value) -> bool:
    """Whether a value is on the host."""
    if isinstance(value, tuple):
        return all(map(is_host, value))
    if value is None or isinstance(value, (Dense, External, Literal)):
        return True
    return types.device_of(value) == HOST


def of_item(found: State, k: int) -> State:
    """The placement of an item of a tuple."""
    return found[k] if isinstance(found, tuple) else found


def loosened(found: State) -> State:
    """The placement with each split, or owner, loose."""
    if isinstance(found, tuple):
        return tuple(map(loosened, found))
    return replace(found, loose=True) if isinstance(found, (Split, OwnedBy)) else found


def any_split(found: State, holds: Callable[[Split], bool]) -> bool:
    """Whether something holds for a split, or for that of an item of a tuple."""
    if isinstance(found, tuple):
        return any(any_split(item, holds) for item in found)
    return isinstance(found, Split) and holds(found)
