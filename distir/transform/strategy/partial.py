"""Partial strategies: some fields are said, and of the others whoever runs the strategy decides.

A configuration of a framework, or a row of a table, leaves fields unsaid. Its words for several fields at once, as
`fp8` and `modules:mlp`, are read and written here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from distir.transform.strategy.record import Strategy


@dataclass(frozen=True, slots=True)
class Partial:
    """A strategy of which some fields are `said`; in `strategy` the others are at their defaults."""

    strategy: Strategy = field(default_factory=Strategy)
    said: frozenset[str] = frozenset()

    @property
    def fields(self) -> dict[str, Any]:
        """What is said, by field."""
        return {name: getattr(self.strategy, name) for name in sorted(self.said)}

    def saying(self, **fields: Any) -> Partial:
        """The same, which says these, too."""
        return Partial(replace(self.strategy, **fields), self.said.union(fields))

    def completed(self, usual: Strategy) -> Strategy:
        """The strategy whose other fields are the usual ones."""
        return replace(usual, **self.fields)


def partial(**fields: Any) -> Partial:
    """A strategy of which these fields are said; those that are None are not."""
    return Partial().saying(**{name: value for name, value in fields.items() if value is not None})


PRECISIONS: Final = {
    "bf16": ("mixed", ""),
    "fp16": ("fp16", ""),
    "fp32": ("fp32", ""),
    "fp8": ("mixed", "delayed"),
    "mxfp8": ("mixed", "mx"),
    "nvfp4": ("mixed", "nv"),
}
"""By the word for what products are computed in: the fields `precision` and `scaling`.

Frameworks have 16-bit floats, and scale 8-bit floats, in their own ways, which these fields leave to them.
"""


def of_precision(word: str) -> dict[str, Any]:
    """The fields of a word for a precision; None where it is empty."""
    precision, scaling = PRECISIONS.get(word, (None, None))
    return {"precision": precision, "scaling": scaling}


def precision_of(found: Partial) -> str:
    """The word for a precision; empty where that is not said."""
    said = found.strategy.precision, found.strategy.scaling
    return next((word for word, fields in PRECISIONS.items() if fields == said), "")


def of_recomputation(word: str) -> dict[str, Any]:
    """The fields of a word for what is recomputed: `none`, `full`, `full:8`, `selective`, `modules:mlp`."""
    what, _, modules = word.partition(":")
    if what == "modules":
        return {"checkpoint": True, "recompute": "selective", "modules": modules}
    return {"checkpoint": what != "none", "recompute": "" if word in ("none", "full") else word, "modules": ""}


def recomputation_of(strategy: Strategy) -> str:
    """The word for what is recomputed."""
    if not strategy.checkpoint:
        return "none"
    return f"modules:{strategy.modules}" if strategy.modules else strategy.recompute or "full"
