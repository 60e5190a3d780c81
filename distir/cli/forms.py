"""The options of a command as fields of a form, for editors; derived from the command itself.

An option that a form is to ask for has a `Label` beside what typer says of it:

    dp: Annotated[str | None, typer.Option(metavar="N,N,…", help="D to try."), Label("Degrees of data parallelism")]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal, get_args, get_origin

Kind = Literal["number", "factor", "numbers", "pairs", "switch", "flag", "choice", "text"]
"""What a field takes: a whole number; a number; several, comma-separated; words with `=`, each for an option of its
own; on or off; a word alone or nothing; one of `choices`; anything."""

KINDS: dict[str, Kind] = {"N": "number", "X": "factor", "WATT": "factor", "N,N,…": "numbers"}
"""By how an option is said to look."""


@dataclass(frozen=True, slots=True)
class Label:
    """An option's label in a form."""

    text: str


@dataclass(frozen=True, slots=True)
class FormField:
    """An option: its name on the command line without `--`, what a form calls it, what it means."""

    name: str
    label: str
    detail: str
    kind: Kind
    choices: tuple[str, ...] = field(default=())


def form_of(command: Callable[..., Any]) -> Iterator[FormField]:
    """The options of a command that have a `Label`, in its order."""
    for name, parameter in signature(command, eval_str=True).parameters.items():
        of, *more = get_args(parameter.annotation) or (None,)
        label = next((one for one in more if isinstance(one, Label)), None)
        if label is None:
            continue
        option = next(one for one in more if not isinstance(one, Label))
        shape = option.metavar or ""
        choices = tuple(shape.split("|")) if "|" in shape else ()
        kind: Kind = "choice" if choices else KINDS.get(shape, "text")
        if bool in (of, *get_args(of)):
            kind = "flag" if of is bool else "switch"
        elif any(get_origin(one) is list for one in (of, *get_args(of))):
            kind = "pairs"
        yield FormField(name.replace("_", "-"), label.text, option.help, kind, choices)
