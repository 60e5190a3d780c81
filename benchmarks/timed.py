"""What the benchmarks that work in stages print of each: CPU time, and the most memory so far."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def timed(what: str, run: Callable[[], T]) -> T:
    """Run, and print the seconds of CPU time and the most memory so far."""
    start = time.process_time()
    found = run()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"    {what:<10} {time.process_time() - start:6.2f} s, {memory:.0f} MB")
    return found
