"""Why a parameter of the model of frameworks and machines has the value that it has.

A parameter is in the model if it has a cause with a public source: code of that version, a data sheet, a table of
measured ops. What has none is not in the model, but in the band of errors. Where runs chose a value among several, the
cause names the source of these runs, which is then no test of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of some parameters. `of`: their names, none for a statement that no parameter expresses.

    `source`: where it is read, and what is read there. `chosen_by`: the repositories whose published runs chose the
    value among several.
    """

    of: tuple[str, ...]
    source: str
    chosen_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The source, and who chose."""
        runs = f" (chosen by runs of {', '.join(self.chosen_by)})" if self.chosen_by else ""
        return f"{self.source}{runs}"


def cause(of: str, source: str, *chosen_by: str) -> Cause:
    """A cause. `of`: names of parameters between spaces, those of `HeldMemory` behind `memory.`."""
    return Cause(tuple(of.split()), source, chosen_by)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of all frameworks, or of machines."""

    name: str
    value: object
    causes: tuple[Cause, ...]


PARAMETERS: Final[dict[str, Parameter]] = {}
"""By name: what modules have declared."""


def parameter(name: str, value: Value, *causes: str | Cause) -> Value:
    """Declare a parameter, and return its value. `causes`: sources, or causes that say which runs chose it."""
    PARAMETERS[name] = Parameter(name, value, tuple(c if isinstance(c, Cause) else Cause((name,), c) for c in causes))
    return value


def uncaused(parameters: Iterable[str], causes: Iterable[Cause]) -> list[str]:
    """The names of parameters that no cause is of."""
    known = {name for each in causes if each.source for name in each.of}
    return [name for name in parameters if name not in known]
