"""Transforms of a function into a new file: what is offered, and the text that it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from distir.diagnostics import ProgramError, Span
from distir.ide.actions.core import has_errors
from distir.ide.document import Document
from distir.ir import Call, Function, Module
from distir.ops import canonical
from distir.syntax import Carried, carried, parse

if TYPE_CHECKING:
    from distir.transform.steps import Step

OFFERED: tuple[tuple[str, ...], ...] = (
    ("grad",),
    ("dp=2",),
    ("tp=2",),
    ("pp=2", "microbatches=4"),
    ("reschedule",),
    ("inline",),
    ("outline",),
    ("cse",),
    ("dce",),
    ("fold",),
)
"""Steps as `distir transform` takes them."""


class CannotTransform(Exception):  # noqa: N818 (a verdict on a program)
    """A step that cannot be applied to this program; the message says why."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A transform that can be applied; its text is made on request (`transformed`)."""

    title: str
    function: str
    steps: tuple[str, ...]


def offers(document: Document, span: Span) -> list[Offer]:
    """The transforms of the function whose head the cursor is in; none for a program that is wrong."""
    syntax = document.program.syntax
    written = syntax.function_at(span.start)
    if written is None or span.start > written.head.end or not written.function.name or has_errors(document):
        return []
    name = written.function.name
    return [Offer(f"apply `{' '.join(s)}` to `@{name}` in a new file", name, s) for s in OFFERED]


@dataclass(frozen=True, slots=True)
class StepParameter:
    """What a step takes: `kind` as its parameter is annotated; `required`, or else `default`.

    `choices`: the words that it is limited to; None where it is typed.
    """

    name: str
    kind: str
    required: bool
    default: str
    choices: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class KnownStep:
    """A step that can be chosen: what follows its `=`, if anything, and its options."""

    name: str
    documentation: str
    value: StepParameter | None
    options: tuple[StepParameter, ...]


def known_steps() -> tuple[KnownStep, ...]:
    """All steps, in the order in which they are applied, as a form asks for them."""
    from distir.transform import STEPS
    from distir.transform.steps import Option, in_order

    def choice(option: Option) -> StepParameter:
        default = option.default
        stated = "" if default in (None, ()) else str(default).lower() if isinstance(default, bool) else str(default)
        words = ("true", "false") if option.kind == "bool" else option.choices
        return StepParameter(option.name, option.kind, option.required, stated, None if words is None else tuple(words))

    return tuple(
        KnownStep(s.name, s.documentation, choice(s.value) if s.value else None, tuple(map(choice, s.options.values())))
        for s in in_order(STEPS.values())
    )


def transformed(document: Document, function: str, steps: Sequence[str]) -> Carried:
    """The text of a function and all that it calls, transformed, with their comments. Raises CannotTransform.

    What steps say of the result is above it, as comments. Steps that ask the simulator go by the machine and the
    sizes of the document's setup.
    """
    said, found = _applied(document, function, steps)
    return Carried("".join(f"// {line}\n" for line in said) + found.text, found.left_out)


def rewritten_in_place(document: Document, function: str, steps: Sequence[str]) -> str:
    """The whole text with a function and all that it calls transformed; the other functions stay as they are.

    Comments stay with their statements. Raises CannotTransform.
    """
    _, found = _applied(document, function, steps)
    program = document.program
    own, made = alone(program.module, function).functions, parse(found.text, program.source.path, canonical)
    others = [written for written in program.syntax.functions if written.function.name not in own]
    if taken := {written.function.name for written in others} & made.by_name.keys():
        raise CannotTransform(f"the result has a function `@{min(taken)}`, and so has the text")
    text = program.source.text
    return "\n".join([*(f"{text[written.span.start : written.span.end]}\n" for written in others), found.text])


def _applied(document: Document, function: str, steps: Sequence[str]) -> tuple[list[str], Carried]:
    """The report of steps, and the resulting text with comments. Raises CannotTransform."""
    from distir.transform import StepError, listening, parse_steps  # all steps are loaded only here

    module = document.program.module
    if function not in module.functions:
        raise CannotTransform(f"there is no function `@{function}`")
    own = alone(module, function)
    sizes = tuple(f"{name}={size}" for name, size in document.setup.bind.items() if isinstance(size, int))
    applied: list[Step] = []
    try:
        applications = parse_steps(steps, defaults={"hardware": document.setup.hardware, "bind": sizes})
        applied = [application.step for application in applications]
        made = own
        with listening() as said:
            for application in applications:
                made = application(made)
        found = carried(made, document.program.syntax)
        return said, Carried(found.text, tuple(left for left in found.left_out if left[0] in own.functions))
    except ProgramError as error:
        first = error.diagnostics[0]
        parts = (first.message, first.help, _other_order(applied))
        raise CannotTransform("; ".join(part for part in parts if part)) from None
    except (StepError, ValueError, LookupError) as error:
        raise CannotTransform(str(error)) from None


def _other_order(applied: Sequence[Step]) -> str:
    """Advice for steps that are in another order than that in which they are applied; else nothing."""
    from distir.transform.steps import in_order

    ordered = in_order(applied)
    if len(set(map(id, applied))) < len(applied) or ordered == list(applied):
        return ""
    return f"the steps are applied in turn, and their order is {', '.join(step.name for step in ordered)}"


def alone(module: Module, name: str) -> Module:
    """A function as the entry of a module, with all that it calls, and what scatters and gathers for it."""
    entry = module.functions[name]
    reached: dict[str, Function] = {}
    waiting = [
        entry,
        *(module.functions[f"{name}.{r}"] for r in ("scatter", "gather") if f"{name}.{r}" in module.functions),
    ]
    around = {f.name for f in waiting}
    while waiting:
        function = waiting.pop()
        if function.name not in reached:
            reached[function.name] = function
            called = {s.function for s in function.body if isinstance(s, Call)}
            waiting += [module.functions[c] for c in called if c in module.functions]
    callees = [f for f in module if f.name in reached and f.name not in around]
    return Module([*callees, *(f for f in module if f.name in around and f is not entry), entry])


def new_path(path: str, steps: Sequence[str]) -> str:
    """A file name beside the source for its transform: `mlp.dir` and `pp=2 microbatches=4` give `mlp.pp2.dir`."""
    file = PurePath(path)
    return str(file.with_name(f"{file.stem}.{steps[0].replace('=', '')}{file.suffix or '.dir'}"))
