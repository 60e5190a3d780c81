"""Partial strategies: some fields are said, and a framework decides the others.

A configuration of a framework, or a row of a table, leaves fields unsaid. Its words for several fields at once, as
`fp8` and `modules:mlp`, are read and written here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

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

    def without(self, *names: str) -> Partial:
        """The same, which does not say these."""
        return Partial().saying(**{name: value for name, value in self.fields.items() if name not in names})

    def completed(self, usual: Strategy) -> Strategy:
        """The strategy whose other fields are the usual ones."""
        return replace(usual, **self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stating:
    """What states a strategy in part, as a job, or a row of a table.

    `said`: how it is distributed and run, as far as it says; of the rest its framework decides. Microbatches are not
    said: they follow from the batches.
    """

    said: Partial = field(default_factory=Partial)

    @property
    def strategy(self) -> Strategy:
        """What is said of its strategy; other fields are at their defaults."""
        return self.said.strategy

    def says(self, name: str) -> bool:
        """Whether it says this field."""
        return name in self.said.said

    def saying(self, **fields: Any) -> Self:
        """The same, of whose strategy these fields are said, too."""
        return replace(self, said=self.said.saying(**fields))

    @property
    def precision(self) -> str:
        """The word for what products are computed in; empty where that is not said."""
        own = self.strategy.precision, self.strategy.scaling
        return next((word for word, fields in PRECISIONS.items() if fields == own), "")

    @property
    def recompute(self) -> str:
        """The word for what is recomputed; empty where that is not said."""
        own = self.strategy
        if not own.checkpoint:
            return "none" if self.says("checkpoint") else ""
        return f"modules:{own.modules}" if own.modules else own.recompute or "full"

    @property
    def overlaps(self) -> bool:
        """Whether gradients and weights of replicas are communicated beside computation."""
        return self.strategy.overlap and (not self.strategy.kinds or "gradients" in self.strategy.kinds)

    @property
    def sharding(self) -> str:
        """The word for what replicas share; empty where that is not said."""
        own = self.strategy
        name = "hsdp" if own.zero == 3 and own.shard else f"zero{own.zero}" if self.says("zero") else ""
        return f"{name}:{own.shard}" if own.shard else name


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


def of_recomputation(word: str) -> dict[str, Any]:
    """The fields of a word for what is recomputed: `none`, `full`, `full:8`, `selective`, `modules:mlp`."""
    what, _, modules = word.partition(":")
    if what == "modules":
        return {"checkpoint": True, "recompute": "selective", "modules": modules}
    return {"checkpoint": what != "none", "recompute": "" if word in ("none", "full") else word, "modules": ""}


LOSS: Final = ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLossGrad")
"""The ops that shards run on whole logits, as the field `whole` says, where logits are gathered."""


def of_sharding(word: str) -> dict[str, Any]:
    """The fields of a word for what replicas share: `zero1`, or `hsdp:8`, stage 3 within groups of 8 replicas."""
    name, _, group = word.partition(":")
    stage = 3 if name == "hsdp" else int(name[4])
    return {"zero": stage, "shard": int(group or 0) if stage else 0}
