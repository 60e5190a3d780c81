"""Ops that each device computes whole although it has parts of their operands, which are gathered for them.

Such as a loss of all logits, whose gradient is split again as the logits were: each device takes its part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from distir.ir import Apply, Statement, TensorType
from distir.ir import names as names_of
from distir.ops import Value, type_of
from distir.placement.along import Split, State

PASSED_ON = frozenset({"Cast", "Flatten", "Reshape"})
"""Ops allowed between a value and an op that needs it whole: the value before them is gathered, in its type."""


class NeededWhole:
    """The ops of a body that are computed whole, and the axes along which values were gathered for them."""

    def __init__(self, ops: Collection[str], users: Callable[[str], Sequence[Statement]]) -> None:
        self._ops, self._users = ops, users
        self._gathered: dict[str, int] = {}
        """By value gathered for an op that needs it whole, or computed from one: the gathered axis, from the end."""

    def includes(self, statement: Statement) -> bool:
        """Whether a statement's op is one of them, or one whose results only such ops use."""
        if not self._ops or not isinstance(statement, Apply):
            return False
        if statement.op in self._ops:
            return True
        users = [user for name in statement.results for user in self._users(name)]
        return statement.op in PASSED_ON and bool(users) and all(map(self.includes, users))

    def gather(self, statement: Apply, vs: Sequence[Value], states: Sequence[State]) -> None:
        """Note that a statement's operands are gathered for it."""
        for v, state in zip(vs, states, strict=True):
            if isinstance(state, Split) and not state.blocks:
                found = type_of(v)
                assert isinstance(found, TensorType), "what is split is a tensor"
                axis = state.axis - len(found.shape or ())
                self._gathered.update((name, axis) for name in statement.results)

    def axis_again(self, statement: Apply) -> int | None:
        """The axis, from the end, along which to split the result of a statement of whole operands again."""
        axes = {self._gathered[name] for name in names_of(statement.args) if name in self._gathered}
        if statement.op in PASSED_ON:
            self._gathered.update((name, axis) for name in statement.results for axis in axes)
        if statement.op not in self._ops or len(axes) != 1 or len(statement.results) != 1:
            return None
        return axes.pop()
