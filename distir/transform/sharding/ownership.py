"""Which devices own which experts: separate rows for each owner, and its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from distir.ir import Apply, Function, Module
from distir.ir.roles import is_held
from distir.placement.along import WHOLE, Split, State, nested
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.sharding.classes import Settled, is_one
from distir.transform.sharding.flow import Flow
from distir.transform.sharding.mesh import IN_ORDER, Order
from distir.transform.sharding.owned import OwnedExperts, Owners, owned, owners_of
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


def expert_weights(module: Module) -> Owned:
    """The same in a program in which no device owns a part of the experts; found as if there were several owners."""
    numbers = (s.attrs["num_experts"] for f in module for s in f.body if isinstance(s, Apply) and s.op == "Dispatch")
    experts = math.gcd(*(n for n in numbers if isinstance(n, int)))
    several = next((n for n in range(2, experts + 1) if experts % n == 0), None)
    if several is None:
        return {}
    made = _with_owners(module, Owners(several, 1.0)).module
    return owned_weights(entry_of(made), Flow(checked(made).domain).entry(entry_of(made)))


def owned_weights(entry: Function, settled: Settled) -> Owned:
    """The weights of experts, and their optimizer state."""
    held = {p.name for p in entry.params if is_held(p)}
    found: dict[str, tuple[tuple[tuple[int, ...], int], ...]] = {}
    for (name, path, axis), pieces in settled.places.items():
        if name in held and is_one(pieces) and settled.traits[pieces[0][0]].owned:
            found[name] = (*found.get(name, ()), (path, axis))
    return found


@dataclass(frozen=True, slots=True)
class Holders:
    """How the devices of a mesh axis hold experts, from outside in: copies of all parts of them, parts, each cut again.

    In Megatron's words of expert data parallelism, expert parallelism and expert tensor parallelism. The product is the
    number of devices.
    """

    copies: int = 1
    owners: int = 1
    cut: int = 1
    order: Order = IN_ORDER
    """That of values that are split over all devices; experts are in order."""

    @property
    def factors(self) -> tuple[int, ...]:
        """The factors of the mesh axis along which experts are placed differently; empty if they are not."""
        found = tuple(n for n in (self.copies, self.owners, self.cut) if n > 1)
        if len(found) == 1 and self.owners > 1 and self.order.zigzag:
            return (1, self.owners)
        return found if len(found) > 1 else ()

    def state(self, axis: int, cut: State) -> State:
        """The state of a value of experts, which `axis` numbers. `cut`: as devices split all of the experts."""
        states = [WHOLE] * (self.copies > 1) + [Split(axis)] * (self.owners > 1) + [cut] * (self.cut > 1)
        if not self.factors:
            return states[0] if states else cut
        return nested([WHOLE] * (len(self.factors) - len(states)) + states, self.factors)


def by_owner(entry: Function, states: Sequence[State], weights: Owned, holders: Holders) -> list[State]:
    """The states of the entry function's parameters, those of experts as devices hold them."""
    found = [*states]
    for i, param in enumerate(entry.params):
        for path, axis in weights.get(param.name, ()):
            found[i] = _along(found[i], path, axis, holders)
    return found


def _along(state: State, path: tuple[int, ...], axis: int, holders: Holders) -> State:
    """A state with one leaf that experts number."""
    if not path:
        return holders.state(axis, state)
    assert isinstance(state, tuple)
    return tuple(_along(s, path[1:], axis, holders) if k == path[0] else s for k, s in enumerate(state))
