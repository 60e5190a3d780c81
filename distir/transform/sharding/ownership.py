"""Which devices own which experts: separate rows for each owner, and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from distir.ir import Function, Module
from distir.ir.roles import is_held
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.sharding.classes import Settled, is_one
from distir.transform.sharding.owned import OwnedExperts, Owners, owned, owners_of
from distir.transform.sharding.state import Split, State, nested
from distir.transform.steps import StepError, tell

Owned = Mapping[str, tuple[tuple[tuple[int, ...], int], ...]]
"""By parameter: the dimensions that number experts, each a path to a leaf and an axis."""


def with_owners(module: Module, count: int, skew: float) -> Module:
    """The program, still on one device, with rows in equal parts for so many devices that own equal parts of experts.

    A note says where there is room for all tokens on each of them. Raises StepError for no `skew`, and where experts
    have owners already, ProgramError where there are no experts, or they do not divide.
    """
    if skew and skew < 1:
        raise StepError(f"`skew` expected a multiple of the mean from 1, found {skew:g}")
    if (before := owners_of(module)) > 1:
        both = "over replicas and shards they are split in one step, as by `dtp=2,2,1 experts=2 etp=1`"
        raise StepError(f"experts are split over {before} devices already; {both}")
    made = _with_owners(module, Owners(count, skew))
    if not skew and made.is_dropless:
        tell(f"there is room for all tokens on each device, {count} times the mean: state `skew=…` for simulation")
    return made.module


@lru_cache(maxsize=16)  # cached for searches
def _with_owners(module: Module, owners: Owners) -> OwnedExperts:
    return owned(checked(module), entry_of(module), owners)


def owned_weights(entry: Function, settled: Settled) -> Owned:
    """The weights of experts, and their optimizer state."""
    held = {p.name for p in entry.params if is_held(p)}
    found: dict[str, tuple[tuple[tuple[int, ...], int], ...]] = {}
    for (name, path, axis), pieces in settled.places.items():
        if name in held and is_one(pieces) and settled.traits[pieces[0][0]].owned:
            found[name] = (*found.get(name, ()), (path, axis))
    return found


def by_owner(
    entry: Function,
    states: list[State],
    weights: Owned,
    among: Sequence[State] | None = None,
    factors: tuple[int, ...] = (),
) -> list[State]:
    """The states of the entry function's parameters, those of experts split by owner.

    With `factors` owners are along the outer one of these two, and `among` says how experts are split along the inner.
    """
    found = [*states]
    for i, param in enumerate(entry.params):
        for path, axis in weights.get(param.name, ()):
            found[i] = _along(found[i], among[i] if among else None, path, axis, factors)
    return found


def _along(state: State, inner: State | None, path: tuple[int, ...], axis: int, factors: tuple[int, ...]) -> State:
    """A state with one leaf split along an axis."""
    if not path:
        return Split(axis) if inner is None else nested((Split(axis), inner), factors)
    assert isinstance(state, tuple)

    def item(k: int, s: State) -> State:
        own = inner[k] if isinstance(inner, tuple) else inner
        return _along(s, own, path[1:], axis, factors) if k == path[0] else s

    return tuple(item(k, s) for k, s in enumerate(state))
