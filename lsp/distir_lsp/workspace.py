"""The open documents: their text, its latest analysis, and the last one that was simulated. Sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lsprotocol import types

from distir.ide.advice.core import Advised
from distir.ide.document import Document, open_document
from distir.ide.proofs import Proved, Prover
from distir.simulate.revision import go_on
from distir_lsp.addresses import path_of
from distir_lsp.positions import Positions
from distir_lsp.scheduling import cpu_s
from distir_lsp.settings import Settings

STATEMENT_S, KNOWN_STATEMENT_S = 5e-6, 1e-6
"""About how long a statement takes to simulate for the first time, and after an edit elsewhere."""


@dataclass(eq=False)
class Open:
    """One open document. Its analysis follows the text when it is asked for."""

    uri: str
    version: int
    positions: Positions
    settings: Settings
    chosen: dict[str, object]
    """The user's choices for this document: fields of `Setup`."""
    machine: tuple[str, Mapping[str, str]] | None = None
    """The hardware among that, by its name or path, and the figures of it that were changed."""
    simulated: Document | None = None
    proved: Proved | None = None
    """The last version that was compared with the sequential program."""
    advised: Advised | None = None
    """Advice for a version of the text, perhaps an earlier one."""
    prover: Prover = field(default_factory=Prover)
    cost_s: float = 0.0
    """How long the last analysis took, with its simulation, in seconds of this thread's CPU time."""
    simulation_s: float | None = None
    """How long the last incremental simulation alone took; likewise."""
    put_off_since: float | None = None
    """Since when a simulation in the background waits for a pause in typing, on the event loop's clock."""
    is_demanded: bool = False
    """The user asked for the simulation of a program of any size."""
    stamp: int = 0
    """Counts what changes the findings."""
    _document: Document | None = None
    _is_given_up: bool = False

    @property
    def path(self) -> str:
        """The file's name, as messages show it; the whole address for what is no file."""
        return path_of(self.uri)

    @property
    def text(self) -> str:
        """The text of the document."""
        return self.positions.text

    @property
    def is_too_long(self) -> bool:
        """Whether the text is too long to be analysed."""
        return len(self.text) > self.settings.read_at_most

    def current(self) -> Document | None:
        """The document of the latest version, parsed, and checked on demand. None if it is too long."""
        if self.is_too_long or self._is_given_up:
            self._document = self.simulated = self.proved = None
            return None
        known = self._document
        if known is None:
            known = open_document(self.text, self.path, self.settings.setup, self.version)
        elif known.text is not self.text:
            known = known.edited(self.text, self.version)
        if known.setup is not self.settings.setup:
            known = known.under(self.settings.setup)
        known.version = self.version
        self._document = known
        return known

    def advice(self) -> Advised | None:
        """Advice for this version of the text, under these settings; None where there is none yet."""
        found = self.advised
        if found is None or found.document.text != self.text or found.document.setup is not self.settings.setup:
            return None
        return found

    def give_up(self) -> None:
        """Checking this version takes too long: it is left alone until the next one."""
        self._is_given_up = True
        self._document = self.simulated = self.proved = None
        self.stamp += 1

    def is_on_demand(self, document: Document) -> bool:
        """Whether a program is too long to be simulated without a request, and none was made."""
        return not self.is_demanded and statements(document) > self.settings.simulated_at_most

    def expected_simulation_s(self, document: Document) -> float:
        """About how long it takes to simulate a document."""
        if document.earlier is None:
            return STATEMENT_S * statements(document)
        return self.simulation_s if self.simulation_s is not None else KNOWN_STATEMENT_S * statements(document)

    def simulate(self, document: Document, pause: Callable[[], None] = go_on) -> None:
        """Simulate a document, and note how long it takes. In any thread; `pause` may raise to give up."""
        goes_on, start = document.earlier is not None, cpu_s()
        document.simulate(pause)
        if goes_on:
            self.simulation_s = cpu_s() - start

    def change(self, version: int, changes: Sequence[types.TextDocumentContentChangeEvent]) -> None:
        """Apply the edits of one notification in order, each to the result of the one before."""
        positions = self.positions
        for change in changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                positions = positions.edited(positions.span(change.range), change.text)
            else:
                positions = Positions(change.text, positions.encoding)
        self.positions, self.version, self._is_given_up = positions, version, False
        self.stamp += 1


def statements(document: Document) -> int:
    """How many statements a text has, calls not followed."""
    return sum(len(function.body) for function in document.program.module)
