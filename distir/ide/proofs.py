"""Proofs of a document against the sequential program that its settings name: what is not proved, what values are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from distir.analysis.erasure import as_identities
from distir.analysis.program import Program, read
from distir.diagnostics import Diagnostic
from distir.diagnostics.codes import proofs as codes
from distir.files.reading import PROGRAM, advice, read_bytes, why_not
from distir.ide.document import Document
from distir.ir import Site
from distir.syntax import decode

if TYPE_CHECKING:  # loaded with the first proof, so that the server starts sooner
    from distir.prove.comparing import Reference
    from distir.prove.placements import CallSite, Placements

MOST_TERMS, MOST_GROWTH = 200_000, 20
"""Earlier versions are forgotten where there are more terms, and so many times as many as the sequential program's."""


class UnusableSequential(Exception):  # noqa: N818 - the user's file, no failure of ours
    """The sequential program cannot be read, or is wrong; the message says how. `help`: what to do."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True, slots=True, eq=False)
class SequentialFile:
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
    sequential: SequentialFile
    sizes: tuple[tuple[str, int], ...]
    unlocated: tuple[Diagnostic, ...]
    placements: Placements | None = None

    def is_of(self, document: Document, sequential: SequentialFile) -> bool:
        """Whether this is what holds of a document."""
        same = self.document.program is document.program and self.sequential is sequential
        return same and self.sizes == _sizes(document, sequential)


def sequential(path: str) -> SequentialFile:
    """The program in a file; one that has not changed is not read again. Raises UnusableSequential."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return _read(path)  # raises the reason
    return _remembered(path, (status.st_mtime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=4)
def _remembered(path: str, version: tuple[int, ...]) -> SequentialFile:
    del version  # a key of the cache: changes with the file
    return _read(path)


def _read(path: str) -> SequentialFile:
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
    return SequentialFile(path, program)


@dataclass
class Prover:
    """Compares one version of a text after another: what is the same in two versions is followed once."""

    _sequential: SequentialFile | None = None
    _sizes: tuple[tuple[str, int], ...] = ()
    _reference: Reference | None = None
    _terms: int = 0
    """How many terms there were before the first version was compared."""

    def prove(
        self,
        document: Document,
        against: SequentialFile,
        shown: Mapping[str, CallSite],
        pause: Callable[[], None] = lambda: None,
    ) -> Proved:
        """Compare a document with the sequential program. `pause`, called at each statement, may raise to give up.

        `shown`: by function, the call whose values are placed; of others the first.
        """
        from distir.prove import ProveError, follow
        from distir.prove.placements import Placements

        sizes, module = _sizes(document, against), as_identities(document.program.module)
        try:
            found = follow(module, self._known(against, sizes, pause), pause=pause)
            placements = Placements(found, shown)
        except ProveError as error:
            entry = module.entry()
            site = None if entry is None else Site(entry.name)
            message = f"cannot be compared with `{os.path.basename(against.path)}`: {error}"
            return Proved(document, against, sizes, (Diagnostic(codes.NOT_COMPARABLE, site, message),))
        return Proved(document, against, sizes, tuple(found.proof.diagnostics(module)), placements)

    def _known(
        self, against: SequentialFile, sizes: tuple[tuple[str, int], ...], pause: Callable[[], None]
    ) -> Reference:
        """The sequential program with what was found of earlier versions, unless most of that is of the past."""
        from distir.prove import reference

        known, same = self._reference, (self._sequential, self._sizes) == (against, sizes)
        if known is None or not same or len(known.algebra.terms) > max(MOST_TERMS, MOST_GROWTH * self._terms):
            known = reference(as_identities(against.program.module), dict(sizes), pause, renames=False)
            self._sequential, self._sizes, self._reference = against, sizes, known
            self._terms = len(known.algebra.terms)
        return known


def _sizes(document: Document, against: SequentialFile) -> tuple[tuple[str, int], ...]:
    """The sizes of the sequential program's named dimensions."""
    from distir.simulate.setup import bindable

    entry = against.program.module.entry()
    names = frozenset[str]() if entry is None else bindable(entry)
    bound = {name: value for name, value in document.setup.bind.items() if name in names}
    return tuple(sorted((name, value) for name, value in bound.items() if isinstance(value, int)))
