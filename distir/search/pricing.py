"""What a search asks of a training framework: which plans it runs, and what a step of them takes there.

Nothing here knows frameworks: `distir.configurations.searched` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from distir.search.rows import Row
from distir.search.subject import Subject
from distir.transform.strategy import Strategy


class Pricing(Protocol):
    """A framework that runs the plans of a search. It goes to other processes."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def lost(self, subject: Subject, plan: Strategy, batch_size: int | None) -> Mapping[str, str]:
        """What of a plan it does not run, in words, by field; nothing where it runs the plan."""
        ...

    def rows(self, subject: Subject, plan: Strategy, batch_sizes: Sequence[int | None]) -> Iterator[Row]:
        """The rows of a plan, as `evaluate` gives them."""
        ...
