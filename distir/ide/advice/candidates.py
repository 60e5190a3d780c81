"""Candidates for advice: moves of statements, recomputation of values held at the peak, and transform steps.

A candidate is found without effort; `make` does the work, and may find that it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from distir.diagnostics import Span
from distir.ide.actions.recompute import recomputations
from distir.ide.actions.schedule import faster_moves_in
from distir.ide.actions.transforms import CannotTransform, rewritten_in_place
from distir.ide.advice.core import AdviceKind, Assurance
from distir.ide.document import Document
from distir.ide.edits import Edit
from distir.ide.instances import facts
from distir.ir import names, operands
from distir.simulate.page.answers import memory_of

LARGEST = 4
"""How many of the largest values that are held at the peak are tried."""

MOST_OPS = 2_000_000
"""In programs of more ops, calls inlined, no use of memory over time is known."""


@dataclass(frozen=True, slots=True)
class AdvisedChange:
    """Edits, in words, with what they are about."""

    title: str
    kind: AdviceKind
    span: Span
    edits: tuple[Edit, ...]
    assurance: Assurance = Assurance.NOT_COMPARED
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """Something to try. `make` gives the changes that came of it, none where it does not apply."""

    name: str
    make: Callable[[], Iterator[AdvisedChange]]


def candidates(document: Document, pause: Callable[[], None]) -> Iterator[Attempt]:
    """All there is to try on a simulated document: what needs no more devices first. `pause` may raise."""
    from distir.transform import STEPS
    from distir.transform.steps import in_order

    simulation = document.simulation
    if simulation is None:
        return
    for name in document.program.module.functions:
        if facts(document).shown(name) is not None:
            yield Attempt(f"moves in `@{name}`", lambda name=name: _moves(document, name, pause))
    if simulation.ops <= MOST_OPS:
        yield Attempt("recomputation", lambda: _recomputations(document, pause))
    room = max(1, document.setup.hardware.devices // max(1, len(simulation.devices)))
    ordered = in_order(STEPS.values())
    alone = [(words, words in step.tries(1)) for step in ordered for words in step.tries(room)]
    for words, _ in sorted(alone, key=lambda pair: not pair[1]):
        yield Attempt(f"`{words}`", lambda words=words: _step(document, tuple(words.split())))


def _moves(document: Document, name: str, pause: Callable[[], None]) -> Iterator[AdvisedChange]:
    written = document.program.syntax.by_name[name]
    for move in faster_moves_in(document, written, pause):
        yield AdvisedChange(move.title, AdviceKind.MOVE, written.statement(move.index), move.edits, Assurance.ORDER)


def _recomputations(document: Document, pause: Callable[[], None]) -> Iterator[AdvisedChange]:
    """Of the largest values that are held at a peak: where each is used again after that."""
    simulation, syntax = document.simulation, document.program.syntax
    if simulation is None:
        return
    tried: set[tuple[str, int]] = set()
    for memory in memory_of(simulation, syntax.source_map).memories[:LARGEST]:
        for value in [value for value in memory.values if value.statement is not None][:LARGEST]:
            written, made = syntax.by_name.get(value.function), value.statement
            if written is None or made is None:
                continue
            uses = [i for i, s in enumerate(written.function.body) if i > made and value.name in names(operands(s))]
            if len(uses) < 2 or (value.function, uses[-1]) in tried:
                continue
            tried.add((value.function, uses[-1]))
            span = written.statement(uses[-1])
            for action in recomputations(document, Span(span.start, span.start)):
                pause()
                yield AdvisedChange(action.title.partition(":")[0], AdviceKind.RECOMPUTE, span, action.edits)


def _step(document: Document, steps: tuple[str, ...]) -> Iterator[AdvisedChange]:
    entry, text = document.entry, document.text
    if entry is None:
        return
    try:
        made = rewritten_in_place(document, entry.name, steps)
    except CannotTransform:
        return
    if made != text:
        edit = difference(text, made)
        name = document.program.syntax.by_name[entry.name].name
        yield AdvisedChange(f"apply `{' '.join(steps)}`", AdviceKind.STEP, name, (edit,), steps=steps)


def difference(text: str, made: str) -> Edit:
    """The edit that makes one text of another: what is between the first lines and the last that they share."""
    old, new = text.splitlines(keepends=True), made.splitlines(keepends=True)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    first, last = sum(map(len, old[:start])), len(text) - sum(map(len, old[len(old) - end :]))
    return Edit(Span(first, last), "".join(new[start : len(new) - end]))
