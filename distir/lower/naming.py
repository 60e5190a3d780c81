"""Identifiers for generated code, made from the names of a program; none shadows another name."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

LONGEST = 60
"""The length to which names are cut."""

_TAKEN = frozenset({"torch", "dist", "math", "F", "C", "aten", "DEVICE", "GROUP", *keyword.kwlist, *dir(builtins)})


FUNCTION = "f_"
"""The prefix of generated functions, and of no other name: no variable shadows a function."""


class Identifiers:
    """Allocates unique identifiers, all with the same `prefix`."""

    def __init__(self, taken: Iterable[str] = (), prefix: str = "") -> None:
        self._taken = set(taken)
        self._prefix = prefix
        self._next: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """A new identifier like `hint`, of ASCII letters, digits and underscores only."""
        stem = re.sub(r"[^A-Za-z0-9_]", "_", hint)[:LONGEST]
        if not self._prefix and (not stem or stem[0].isdigit() or stem.startswith(("_", FUNCTION))):
            stem = f"v{stem}"
        stem = self._prefix + stem
        name, number = stem, self._next.get(stem, 0)
        while name in self._taken or name in _TAKEN:
            number += 1
            name = f"{stem}_{number}"
        self._next[stem] = number
        self._taken.add(name)
        return name


def comment(text: str, longest: int = 160) -> str:
    """The text as it can follow `#`: on one line, cut to `longest` characters, control characters escaped."""
    shown = text if len(text) <= longest else f"{text[:longest]} …"
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown)
