"""The entry points of the scripts `distir` and `distir-lsp`: small, so that Ctrl-C is handled from the first line on.

A package of its own, since importing one that holds more runs all of that package first. Ctrl-C ends a command with 130
and no traceback: at once where nothing is begun yet, or is done; in between by KeyboardInterrupt, so that what was
begun is cleaned up, and a second Ctrl-C does not wait for that. Standard streams that the caller has closed are there.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

INTERRUPTED = 130


class _Interrupts:
    """What is done about Ctrl-C. `cleans`: whether there may be something to clean up."""

    def __init__(self) -> None:
        self.cleans = self.happened = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.happened = True
        if not self.cleans:
            os._exit(INTERRUPTED)
        self.cleans = False
        raise KeyboardInterrupt

    def unraisable(self, unraisable: Any) -> None:
        """Exit where Python would only print the interrupt and continue, as in one of its callbacks."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            os._exit(INTERRUPTED)
        sys.__unraisablehook__(unraisable)


def distir() -> int:
    """The script `distir`. Gives the exit code."""

    def main() -> int:
        from distir.cli import main

        return main()

    return _guarded(main)


def language_server() -> int:
    """The script `distir-lsp`. Gives the exit code."""

    def main() -> int:
        from distir_lsp.__main__ import main

        return main()

    return _guarded(main)


def _guarded(main: Callable[[], int]) -> int:
    interrupts = _Interrupts()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored, as behind `nohup`
        signal.signal(signal.SIGINT, interrupts)
        sys.unraisablehook = interrupts.unraisable
    _fill_descriptors()
    try:
        interrupts.cleans = True
        code = main()
        interrupts.cleans = False
    except BaseException:  # Python before 3.12 makes a RuntimeError of what is raised while a class is made
        if not interrupts.happened:
            raise
        code = INTERRUPTED
    return INTERRUPTED if interrupts.happened else code


def _fill_descriptors() -> None:
    """Keep the numbers of standard streams that are closed: else the next file that is opened would be one of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
