"""How much time is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Deadline:
    """So many seconds of wall time from now."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    begun: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "begun", self.clock())

    @property
    def left(self) -> float:
        """How many seconds are left; 0 once it has passed."""
        return max(0.0, self.begun + self.seconds - self.clock())
