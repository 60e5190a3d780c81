"""Tries what there is to try on a program, within a time: simulates each change, compares its results, orders them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from distir.diagnostics import ProgramError
from distir.ide.actions.transforms import alone
from distir.ide.advice.candidates import AdvisedChange, Attempt, candidates
from distir.ide.advice.core import Advice, AdviceFigures, Advised, Assurance, helps, in_order
from distir.ide.document import Document, Setup, open_document
from distir.ide.edits import applied
from distir.ir import Module

PROOFS = 0.3
"""The part of the time that is for comparing results."""


class NoAdvice(Exception):  # noqa: N818 - a verdict on a program
    """A program that cannot be simulated, so that nothing can be said of it; the message says why."""


class _OutOfTime(Exception):  # noqa: N818 - ends a search, no failure
    """The time is over."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """Gives up after a moment on the monotonic clock, in seconds, or when the caller wants no more."""

    until: float
    pause: Callable[[], None]

    def __call__(self) -> None:
        self.pause()
        if time.monotonic() > self.until:
            raise _OutOfTime


def advise(
    text: str,
    path: str,
    setup: Setup,
    within_s: float,
    pause: Callable[[], None] = lambda: None,
    verify_bytes: int | None = None,
) -> Advised:
    """Search for changes that make a program faster or smaller, within about `within_s` seconds.

    It reads the text for itself, so that it may run in a thread of its own. `pause` is called now and then, and may
    raise to give up. With `verify_bytes`, what is not proved is run on random inputs, if its results take no more than
    so many bytes at once. Raises NoAdvice for a program that cannot be simulated.
    """
    begun = time.monotonic()
    document = open_document(text, path, setup)
    document.simulate(pause)
    if document.simulation is None:
        raise NoAdvice(str(document.unsimulated).partition("\n")[0])
    before = AdviceFigures.of(document.simulation)
    found: list[Advice] = []
    untried: list[str] = []
    refused = 0
    clock = _Clock(begun + (1 - PROOFS) * within_s, pause)
    for candidate in candidates(document, clock):
        outcome = _tried(document, before, candidate, clock)
        if outcome is None:
            untried.append(candidate.name)
            continue
        found += filter(helps, outcome.advice)
        refused += not outcome.applies
    last = _Clock(begun + within_s, pause)
    ordered = [_assured(document, advice, last, verify_bytes) for advice in in_order(found)]
    return Advised(document, before, tuple(ordered), tuple(untried), refused, time.monotonic() - begun)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a candidate; whether it applies."""

    advice: Sequence[Advice]
    applies: bool


def _tried(document: Document, before: AdviceFigures, candidate: Attempt, clock: _Clock) -> _Outcome | None:
    """The outcome of a candidate; None if there is no time for it."""
    found: list[Advice] = []
    applies = False
    try:
        clock()
        for change in candidate.make():
            applies = True
            found += _simulated(document, before, change, clock)
    except _OutOfTime:
        return None if not found else _Outcome(found, True)
    return _Outcome(found, applies)


def _simulated(document: Document, before: AdviceFigures, change: AdvisedChange, clock: _Clock) -> Iterator[Advice]:
    """A change with its gain; None if its result does not check, or cannot be simulated."""
    after = changed(document, change.edits)
    after.simulate(clock)
    if after.simulation is not None:
        figures = AdviceFigures.of(after.simulation)
        yield Advice(
            change.title, change.kind, change.span, change.edits, before, figures, change.assurance, change.steps
        )


def changed(document: Document, edits: Sequence[Any]) -> Document:
    """The document after edits of advice; the entry function keeps its name."""
    setup = document.setup if document.entry is None else replace(document.setup, entry=document.entry.name)
    return document.edited(applied(document.text, edits), document.version).under(setup)


def _assured(document: Document, advice: Advice, clock: _Clock, verify_bytes: int | None) -> Advice:
    """The advice with the verification of its results."""
    if advice.assurance is not Assurance.NOT_COMPARED or document.entry is None:
        return advice
    name, after = document.entry.name, changed(document, advice.edits).program.module
    sequential, distributed = alone(document.program.module, name), alone(after, name)
    if f"{name}.scatter" in sequential.functions:
        if [p.type for p in sequential.functions[name].params] != [p.type for p in distributed.functions[name].params]:
            return replace(advice, why=f"what `@{name}.scatter` gives is split further")
        sequential, distributed = (_without_ends(module, name) for module in (sequential, distributed))
    sizes = {name: size for name, size in document.setup.bind.items() if isinstance(size, int)}
    why = _unproved(distributed, sequential, sizes, clock)
    if why is None:
        return replace(advice, assurance=Assurance.PROVED)
    if verify_bytes is not None:
        unequal = _unequal(sequential, distributed, sizes, verify_bytes)
        if unequal is None:
            return replace(advice, assurance=Assurance.VERIFIED)
        why = f"{why}; {unequal}"
    return replace(advice, why=why)


def _without_ends(module: Module, name: str) -> Module:
    """A module without what scatters and gathers for its entry, so that parameters and results are the entry's own."""
    return Module(f for f in module if f.name not in (f"{name}.scatter", f"{name}.gather"))


def _unproved(distributed: Module, sequential: Module, sizes: dict[str, int], clock: _Clock) -> str | None:
    """Why it is not proved that two programs agree; None where it is."""
    from distir.prove import ProveError, prove

    try:
        clock()
        found = prove(distributed, sequential, sizes, pause=clock)
    except _OutOfTime:
        return "no time for a proof"
    except ProveError as error:
        return str(error)
    return None if found.proved else "not proved"


def _unequal(sequential: Module, distributed: Module, sizes: dict[str, int], most: int) -> str | None:
    """Why it is not known that two programs agree on random inputs; None where they do."""
    from distir.analysis import InputError
    from distir.transform import VerifyError, verify

    try:
        found = verify(sequential, distributed, bind=sizes, max_bytes=most)
    except (VerifyError, InputError) as error:
        return str(error)
    except ProgramError as error:
        return error.diagnostics[0].message
    return None if found.equal else "the results differ"
