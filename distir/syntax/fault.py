"""Text that fits the grammar but is invalid: raised by rules, located by `reading.evaluate`."""

from __future__ import annotations

from collections.abc import Sequence

from distir.diagnostics import Code
from distir.diagnostics.spelling import nearest


class Fault(Exception):  # noqa: N818 (a fault of the text)
    """Text that fits the grammar but is invalid. `first` and `last` are the numbers of the tokens at fault."""

    def __init__(self, code: Code, message: str, help: str | None = None, child: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.help = code, message, help
        self.child = child
        self.first, self.last = -1, -1


def placed(fault: Fault, tokens: tuple[int, int] | None) -> Fault:
    """The fault, at these tokens."""
    if tokens is not None:
        fault.first, fault.last = tokens
    return fault


def meant(name: str, known: Sequence[str]) -> str | None:
    """The help that asks whether the most similar known name was meant."""
    similar = nearest(name, known)
    return f"did you mean `{similar}`?" if similar else None
