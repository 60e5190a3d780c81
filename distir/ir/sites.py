"""Places in a program, as diagnostics name them: by function, statement and part, without text positions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a statement, or of a function's head: `Part("operand", 1)`, `Part("attribute", "axis")`.

    Kinds: `operand`, `result`, `claim`, `attribute`, `callee` (op or function name), `stream`, `facts`, `param`,
    `param_type`, `role`, `result_type`, `name` (the function's), `all` (of a statement).
    """

    kind: str
    key: int | str = 0


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a program: a function, a statement of it (`None`: its head), a part of that (`None`: all of it)."""

    function: str
    index: int | None = None
    part: Part | None = None
