"""Names for generated code: from whatever a program calls its values to identifiers that mean nothing else."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

LONGEST = 60
"""Characters that are kept of a name."""

_TAKEN = frozenset({"torch", "dist", "math", "F", "C", "aten", "DEVICE", "GROUP", *keyword.kwlist, *dir(builtins)})


FUNCTION = "f_"
"""How the names of functions begin, and no others: what a value is called hides no function."""


class Names:
    """Identifiers that are given out once each. `prefix`: how all of them begin."""

    def __init__(self, taken: Iterable[str] = (), prefix: str = "") -> None:
        self._taken = set(taken)
        self._prefix = prefix
        self._next: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """An identifier like `hint` that nothing else has: letters, digits and underscores of ASCII alone."""
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
    """A text that stands behind `#` on one line, whatever is in it."""
    shown = text if len(text) <= longest else f"{text[:longest]} …"
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown)
