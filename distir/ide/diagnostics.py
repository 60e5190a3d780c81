"""Diagnostics of a document for an editor: the findings of `distir check`, and those of simulation.

Simulation comes later than types. Until it does, what it found of an earlier version is kept with the statements that
it was found of, so that it does not flicker while the user types. Where errors prevent it, findings are marked as old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from distir.analysis.revision import Change, change
from distir.diagnostics import Diagnostic, Note, Span
from distir.diagnostics.codes import lints, proofs
from distir.diagnostics.codes import simulation as codes
from distir.ide.advice.core import Advice, Advised
from distir.ide.document import Document
from distir.ide.proofs import Proved
from distir.ide.staleness import stale
from distir.ir import Site

FADED = {lints.UNUSED_VALUE.number}
NOT_WRONG = {
    code.number for code in (codes.MOSTLY_IDLE, codes.UNBOUND, codes.UNPLACED, codes.UNKNOWN_COST, codes.FASTER)
}
"""Codes that `distir check` does not report: performance, and reasons why a program cannot be simulated."""


class FindingSeverity(StrEnum):
    """How much a finding weighs."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"


LEVELS = dict.fromkeys((*NOT_WRONG, proofs.NOT_COMPARABLE.number), FindingSeverity.INFORMATION)
LEVELS[proofs.NOT_PROVED.number] = FindingSeverity.WARNING
"""Findings that weigh less than their diagnostics: what is not proved may still be right."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A diagnostic with its places in the text. `faded`: the piece of text is not needed."""

    diagnostic: Diagnostic
    level: FindingSeverity
    faded: bool = False

    @property
    def span(self) -> Span:
        """Where it stands; the beginning of the text where that is not known."""
        return self.diagnostic.site if isinstance(self.diagnostic.site, Span) else Span(0, 0)


def findings(
    document: Document,
    earlier: Document | None = None,
    proved: Proved | None = None,
    advised: Advised | None = None,
) -> list[Finding]:
    """All findings, in the order of the text.

    Simulates and proves nothing: where the document has not been simulated, those of `earlier`, which has, are kept;
    where `proved` is of another version, what it says of statements that are still there. `advised`: of this version.
    """
    found = [_finding(d) for d in document.program.diagnostics]
    if document.is_simulated:
        found += map(_finding, (*document.findings, *document.program.located(_notices(document))))
    elif earlier is not None and earlier.is_simulated:
        kept = _kept((*earlier.unlocated, *_notices(earlier)), earlier, document)
        if document.program.errors and (old := stale(document, earlier)) is not None:
            kept = (replace(d, notes=(*d.notes, Note(f"this finding is {old}"))) for d in kept)
        found += map(_finding, document.program.located(kept))
    if proved is not None:
        kept = _kept(proved.unlocated, proved.document, document)
        found += map(_finding, document.program.located(kept))
    if advised is not None:
        found += (_finding(possible(advice)) for advice in advised.about_places())
    return sorted(found, key=lambda f: f.span.start)


def possible(advice: Advice) -> Diagnostic:
    """Advice as a finding at its place."""
    gain = f"{advice.speedup:.3g}× possible here: {advice.title}"
    return Diagnostic(codes.FASTER, advice.span, gain, (Note(advice.assurance.in_words),))


def _notices(document: Document) -> tuple[Diagnostic, ...]:
    return document.simulation.notices() if document.simulation is not None else ()


def _finding(diagnostic: Diagnostic) -> Finding:
    number = diagnostic.code.number
    level = LEVELS.get(number) or FindingSeverity(diagnostic.severity.value)
    return Finding(diagnostic, level, number in FADED)


def _kept(found: Iterable[Diagnostic], old: Document, new: Document) -> Iterator[Diagnostic]:
    """Findings of an earlier version whose statements are still there."""
    edits: dict[str, Change] = {}
    for diagnostic in found:
        site = _moved(diagnostic.site, old, new, edits)
        if site is not None:
            notes = (Note(note.message, _moved(note.site, old, new, edits)) for note in diagnostic.notes)
            yield replace(diagnostic, site=site, notes=tuple(notes))


def _moved(site: Site | Span | None, old: Document, new: Document, edits: dict[str, Change]) -> Site | None:
    if not isinstance(site, Site):
        return None
    before, after = old.program.module.functions.get(site.function), new.program.module.functions.get(site.function)
    if before is None or after is None or site.index is None:
        return site if after is not None else None
    edit = edits.get(site.function)
    if edit is None:
        edit = edits[site.function] = change(before.body, after.body)
    index = edit.new_index(site.index)
    return None if index is None else Site(site.function, index, site.part)
