"""Sums over shards that are spread along their tokens instead of being given whole to all: sequence parallelism."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from distir.analysis import Checker
from distir.ir import Apply, Arg, PendingAlong, SplitAlong
from distir.ir.places import cuts_of
from distir.placement.along import PARTIAL, WHOLE, Split, State
from distir.placement.rule import Typing
from distir.transform.mesh.values import PlacedValues, loose_axes
from distir.transform.sharding.batch import Places as Batch
from distir.transform.sharding.spread import tokens_of


@dataclass(frozen=True, slots=True)
class SequenceSpread:
    """Axes over which sums are spread along their tokens, instead of being given whole to all of their devices."""

    axes: tuple[str, ...]
    batch: Mapping[str, Batch]
    """By function: the dimensions of its values that are the batch, and so no tokens."""


class SpreadSums:
    """The sums of one function that are spread. `spread`: over which axis, if any are."""

    def __init__(self, values: PlacedValues, domain: Checker, spread: SequenceSpread | None) -> None:
        self.values, self.domain, self.spread = values, domain, spread
        self._spread: dict[str, tuple[SplitAlong, ...]] = {}
        """By pending sum: how it is spread along its tokens."""

    @property
    def _axes(self) -> frozenset[str]:
        """The axes over which sums are spread."""
        return frozenset() if self.spread is None else frozenset(self.spread.axes)

    def tokens(self, arg: Arg) -> tuple[SplitAlong, ...]:
        """How a pending sum is spread along its tokens, outermost first; empty if it is not."""
        spread = self.spread
        if spread is None or not isinstance(arg, str):
            return ()
        if not {*self.values.pending(arg)} >= {PendingAlong(axis) for axis in spread.axes}:
            return ()
        if arg not in self._spread:
            now = self.values.places(arg)

            def parts(dim: int) -> int:
                return self.values.parts((*cuts_of(now, dim), *(SplitAlong(dim, axis) for axis in spread.axes)))

            users = [self.values.function.body[i] for i in self.values.uses.get(arg, ())]
            batch = spread.batch.get(self.values.function.name, {})
            dim = tokens_of(arg, self.values.value(arg), batch, users, self.values.instance, self.domain, parts)
            self._spread[arg] = () if dim is None else tuple(SplitAlong(dim, axis) for axis in spread.axes)
        return self._spread[arg]

    def stored(self, arg: Arg) -> frozenset[str]:
        """The axes along which a value is split only to be stored so, and gathered for its use: not its tokens."""
        return loose_axes(self.values.loose(arg)) - self._axes

    def as_tokens(self, name: str, axes: Sequence[str]) -> None:
        """Say of a value that was brought beside tokens that it yields where these do."""
        loose = loose_axes(self.values.loose(name))
        own = self._axes.intersection(axes) - loose
        if own:
            self.values.define(name, self.values.value(name), loose | own)

    def typing(
        self, statement: Apply, axis: str, states: Sequence[State], decided: Callable[[Sequence[State]], Typing]
    ) -> Typing:
        """How a statement is executed along one axis: on sums that are spread along tokens, if it can use parts."""
        typing = decided(states)
        spread = [*states]
        for i, (arg, now, need) in enumerate(zip(statement.args, states, typing.needed, strict=True)):
            tokens = self.tokens(arg) if now is PARTIAL and need is WHOLE else ()
            spread[i] = next((Split(own.dim, (), loose=True) for own in tokens if own.axis == axis), now)
        if spread == [*states]:
            return typing
        found = decided(spread)
        rows = zip(found.needed, spread, states, strict=True)
        return found if all(need == s for need, s, before in rows if s != before) else typing
