"""What is known of a statement beside its meaning: facts, which those who write a program state, and readers look up.

A fact changes no value, type, device, time or memory. A statement has those that it states, those of the function it
is in, and those of the calls that lead there (`within`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

PHASES: Final[Mapping[str, str]] = {
    "forward": "computes outputs and the loss",
    "backward": "computes gradients",
    "weight": "computes gradients of weights alone, apart from those of activations",
    "optimizer": "updates weights, state and averages",
}
"""By phase of a training step, what is done in it; a statement is in the latest of those that are stated for it."""

PHASE_ORDER: Final = {phase: number for number, phase in enumerate(("", *PHASES))}
"""By phase, and the empty name: which one is later."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a statement, or of all in a function. Numbers count from 1; 0 and the empty name are no fact."""

    phase: str = ""
    stage: int = 0
    microbatch: int = 0
    layer: int = 0
    of: str = ""

    def __bool__(self) -> bool:
        return self != NO_FACTS

    @property
    def stated(self) -> dict[str, Any]:
        """The facts that are stated, by name."""
        return {name: value for name in FACTS if (value := getattr(self, name))}

    def filled(self, other: Facts) -> Facts:
        """These facts, and those of `other` of which none is stated here."""
        if not self or self == other:
            return other
        return Facts(*(getattr(self, name) or getattr(other, name) for name in FACTS)) if other else self

    def beyond(self, outer: Facts) -> Facts:
        """The facts to state where `outer` are stated around: those that differ."""
        return Facts(**{name: value for name, value in self.stated.items() if value != getattr(outer, name)})

    def within(self, outer: Facts) -> Facts:
        """The facts of what states these, and is in a function, or is called, with the facts `outer`.

        Microbatches and layers count on from those of the call. The later phase, the inner stage and parameter hold.
        """
        if not outer:
            return self
        if not self:
            return outer
        return Facts(
            max(self.phase, outer.phase, key=PHASE_ORDER.__getitem__),
            self.stage or outer.stage,
            _counted_on(outer.microbatch, self.microbatch),
            _counted_on(outer.layer, self.layer),
            self.of or outer.of,
        )


def _counted_on(first: int, number: int) -> int:
    return first + number - 1 if first and number else first or number


NO_FACTS: Final = Facts()

FACTS: Final[Mapping[str, str]] = {
    "phase": f"the phase of a training step: {', '.join(PHASES)}",
    "stage": "the stage of a pipeline, counted from 1",
    "microbatch": "the microbatch, counted from 1; in a function that is called for one, counted on from that",
    "layer": "the layer, counted from 1; in a function that is called for one, counted on from that",
    "of": "the parameter, of the function or of the entry, that a gradient, an update, or a gathered copy belongs to",
}
"""By name of a fact, what it says. The phase is written as its word alone."""

assert tuple(FACTS) == tuple(field.name for field in fields(Facts))
