"""Proofs of a document against the sequential program that its settings name: what is not proved, what values are."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from distir.analysis.program import Program, read
from distir.diagnostics import Diagnostic, Site
from distir.diagnostics.codes import proofs as codes
from distir.files.reading import PROGRAM, advice, read_bytes, why_not
from distir.ide.document import Document
from distir.syntax import decode

if TYPE_CHECKING:  # loaded with the first proof, so that the server starts sooner
    from distir.prove.comparing import Reference
    from distir.prove.placements import CallSite, Placements

MOST_TERMS, MOST_GROWTH = 100_000, 4
"""Terms of earlier versions are forgotten where there are more, and so many times as many as one version has."""


class UnusableSequential(Exception):  # noqa: N818 - the user's file, no failure of ours
    """The sequential program cannot be read, or is wrong; the message says how. `help`: what to do."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True, slots=True, eq=False)
class Sequential:
    """A version of the program that others are proved against: the same object while its file is."""

    path: str
    program: Program


@dataclass(frozen=True, slots=True, eq=False)
class Proved:
    """A version of a text that was compared with the sequential program.

    `unlocated`: what is not proved, by sites of the program. `placements`: what values are; None where the programs
    cannot be compared.
    """

    document: Document
    sequential: Sequential
    sizes: tuple[tuple[str, int], ...]
    unlocated: tuple[Diagnostic, ...]
    placements: Placements | None = None
    reference: Reference | None = None
    terms: int = 0
    """How many there were when the reference was new."""

    def is_of(self, document: Document, sequential: Sequential) -> bool:
        """Whether this is what holds of a document."""
        same = self.document.program is document.program and self.sequential is sequential
        return same and self.sizes == _sizes(document, sequential)


def sequential(path: str) -> Sequential:
    """The program in a file; one that has not changed is not read again. Raises UnusableSequential."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return _read(path)  # raises the reason
    return _remembered(path, (status.st_mtime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=4)
def _remembered(path: str, version: tuple[int, ...]) -> Sequential:
    del version  # a key of the cache: changes with the file
    return _read(path)


def _read(path: str) -> Sequential:
    name = os.path.basename(path)
    try:
        text, problems = decode(read_bytes(path, PROGRAM), path)
    except OSError as error:
        raise UnusableSequential(f"cannot read `{name}`: {why_not(error)}", advice(error)) from None
    if text is None:
        raise UnusableSequential(f"`{name}`: {problems[0].message}")
    program = read(text, path)
    for diagnostic in program.errors[:1]:
        raise UnusableSequential(f"`{name}` has errors: {diagnostic.message}", f"`distir check {name}` shows them")
    return Sequential(path, program)


def prove(document: Document, against: Sequential, earlier: Proved | None, pause: Callable[[], None]) -> Proved:
    """Compare a document with the sequential program. `pause` is called at each statement, and may raise to give up.

    `earlier`, of another version, makes no difference but in time.
    """
    from distir.prove import ProveError, follow, reference
    from distir.prove.placements import Placements

    sizes = _sizes(document, against)
    try:
        known = _reference(earlier, against, sizes)
        if known is None:
            made = reference(against.program.module, dict(sizes), pause)
            known = made, 0
        found = follow(document.program.module, known[0], pause=pause)
        placements = Placements(found, _shown(document))
    except ProveError as error:
        name = os.path.basename(against.path)
        entry = document.program.module.entry()
        site = None if entry is None else Site(entry.name)
        message = f"cannot be compared with `{name}`: {error}"
        return Proved(document, against, sizes, (Diagnostic(codes.NOT_COMPARABLE, site, message),))
    unlocated = tuple(found.proof.diagnostics(document.program.module))
    terms = known[1] or len(known[0].algebra.terms)
    return Proved(document, against, sizes, unlocated, placements, known[0], terms)


def _reference(
    earlier: Proved | None, against: Sequential, sizes: tuple[tuple[str, int], ...]
) -> tuple[Reference, int] | None:
    """What an earlier proof knows, if it is of the same sequential program; not where too much of it is of the past."""
    if earlier is None or earlier.reference is None or earlier.sequential is not against or earlier.sizes != sizes:
        return None
    if len(earlier.reference.algebra.terms) > max(MOST_TERMS, MOST_GROWTH * earlier.terms):
        return None
    return earlier.reference, earlier.terms


def _sizes(document: Document, against: Sequential) -> tuple[tuple[str, int], ...]:
    """The sizes of the sequential program's named dimensions."""
    from distir.simulate.setup import bindable

    entry = against.program.module.entry()
    names = frozenset[str]() if entry is None else bindable(entry)
    bound = {name: value for name, value in document.setup.bind.items() if name in names}
    return tuple(sorted((name, value) for name, value in bound.items() if isinstance(value, int)))


def _shown(document: Document) -> dict[str, CallSite]:
    """By function, the call that types, values and times are shown for."""
    from distir.ide.instances import facts

    if not document.is_simulated or document.simulation is None:
        return {}
    found = {name: facts(document).shown(name) for name in document.program.module.functions}
    callers = {name: occurrence.caller for name, occurrence in found.items() if occurrence is not None}
    return {name: (caller[0].name, caller[1]) for name, caller in callers.items() if caller is not None}


def located(proved: Proved) -> tuple[Diagnostic, ...]:
    """What is not proved, with places in the text that it was proved of."""
    return tuple(replace(d) for d in proved.document.program.located(proved.unlocated))
