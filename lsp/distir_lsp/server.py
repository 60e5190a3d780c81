"""The server: open documents, and the features that are registered with it, each in a module of its own."""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from cattrs import Converter
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from distir import __version__
from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.instances import calls_shown, facts
from distir.ide.proofs import Proved
from distir.ir.collection import set_apart
from distir_lsp import diagnostics, following
from distir_lsp.addresses import path_of
from distir_lsp.positions import UTF16, Positions
from distir_lsp.progress import progress
from distir_lsp.protocol import Protocol, Raw
from distir_lsp.scheduling import Background, Debounced, Found, cpu_s, pause_after
from distir_lsp.settings import Client, Settings, settings_for
from distir_lsp.watch import Overdue
from distir_lsp.workspace import Open

FEATURES = (
    "settings",
    "diagnostics",
    "reading",
    "tokens",
    "lenses",
    "requests",
    "navigation",
    "editing",
    "actions",
    "advice",
)
"""Modules of this package; each has `register(server)`."""

QUICK_S = 0.1
"""Faster simulations run at once, between two messages; others in the background."""

QUIET_S = 0.15
"""Seconds without typing before a background simulation starts."""

PATIENCE_S = 3.0
"""How long typing puts a simulation in the background off, and ends it; the next one is done in any case."""

WARMED_AFTER_S = 0.005
"""If an analysis takes longer, the data of hints and colours is computed in the background before the client requests
it."""

LONGEST_TURN_S, CHARACTER_S = 30.0, 2e-5
"""How long a request may keep others waiting before it is given up; more for each character of the longest text."""

SWITCH_S = 0.0005
"""How long messages wait for a simulation in the background, at each step that reading one takes."""


class DistirServer(LanguageServer):
    """The state for handlers: the latest document, the last simulated one, positions, settings."""

    protocol: Protocol  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, converter: Callable[[], Converter] = default_converter) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            "distir",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=Protocol,
            converter_factory=converter,
            max_workers=8,
        )
        self.has_threads = True
        """Whether anything can be done beside the event loop; in a browser, all of it is in turn."""
        self.documents: dict[str, Open] = {}
        self.client_settings = Client()
        self.after_simulation: list[Callable[[str], None]] = []
        """Called with a document's address when its latest version has been simulated."""
        self.on_edit: list[Callable[[str], None]] = []
        """Called with a document's address when it is edited or closed: what is under way for it is useless."""
        self.on_shutdown: list[Callable[[], None]] = []
        """Called when the server ends."""
        self.obtain: Callable[[str], Awaitable[bool]] | None = None
        """Fetches a Python package that is not there when it is first needed, where that can be done: in a browser."""
        self.reported: set[str] = set()
        """The settings files whose problems have been reported."""
        self.followed: dict[str, following.Followed] = {}
        """By the address of a document, open or not yet, that was made of another one: which one."""
        self._told: set[str] = set()
        self._reporting = False
        self._analysis = Debounced(self._analyse)
        self._warming = Debounced(self._warm)
        self._background = Background()
        self._proving = Debounced(self._prove)
        self._proofs = Background("distir-proof")
        """A thread of its own: nothing that a person waits for is to wait for a proof."""
        self._in_any_case: dict[str, asyncio.Task[None]] = {}
        """By document: the simulation that typing does not end."""
        self._encoding = UTF16

        @self.command("distir.simulate")
        def simulate(uri: str) -> None:  # pyright: ignore[reportUnusedFunction]
            self._simulate_on_demand(uri)

        for name in FEATURES:
            importlib.import_module(f"distir_lsp.{name}").register(self)
        sys.setswitchinterval(SWITCH_S)
        # what is loaded stays; versions of documents hold no cycles, so looking for some is seldom worth its time
        set_apart()
        gc.set_threshold(50_000, 20, 100)

    # ---- what handlers ask

    def document(self, uri: str) -> Document | None:
        """The latest version of an open document, parsed and (once analysed) checked.

        None if it is not open, longer than the limit in the settings, or given up.
        """
        found = self.documents.get(uri)
        return None if found is None else found.current()

    def simulated(self, uri: str) -> Document | None:
        """The last version whose simulation is done: perhaps an earlier one than `document`; None before the first.

        A version with errors takes no earlier one's place.
        """
        found = self.documents.get(uri)
        return None if found is None else found.simulated

    def proved(self, uri: str) -> Proved | None:
        """The last version that was compared with the sequential program."""
        found = self.documents.get(uri)
        return None if found is None else found.proved

    def is_on_demand(self, uri: str) -> bool:
        """Whether the latest version is simulated only when the user asks for it."""
        found = self.documents.get(uri)
        document = None if found is None else found.current()
        return found is not None and document is not None and found.is_on_demand(document)

    def positions(self, uri: str) -> Positions:
        """Offsets and positions of the latest version of an open document. Raises KeyError for one that is not open."""
        return self.documents[uri].positions

    def positions_of(self, uri: str, document: Document) -> Positions:
        """Offsets and positions of a version of a document, which need not be the latest."""
        found = self.documents.get(uri)
        if found is not None and found.text is document.text:
            return found.positions
        return Positions(document.text, self.encoding)

    def span_to_range(self, uri: str, span: Span) -> types.Range:
        """The range of a span in the latest version."""
        return self.positions(uri).range(span)

    def range_to_span(self, uri: str, range: types.Range) -> Span:
        """The piece of the latest version that a range means."""
        return self.positions(uri).span(range)

    def raw(self, json: str) -> Raw:
        """An answer that is JSON already: for whole-file answers, which objects would make slow."""
        return Raw(json)

    def settings(self, uri: str) -> Settings:
        """The settings of a document: from `distir.toml`, the client, and the user's choices for it."""
        found = self.documents.get(uri)
        return settings_for(path_of(uri), self.client_settings) if found is None else found.settings

    def choose(self, uri: str, **changes: Any) -> None:
        """Use another setup for a document, until it is closed: `changes` are fields of `Setup`."""
        found = self.documents.get(uri)
        if found is not None:
            found.chosen.update(changes)
            self._set_up(found)

    def patience_s(self) -> float:
        """How long a turn of the event loop may take: at least as long as analysing the longest text."""
        return LONGEST_TURN_S + CHARACTER_S * max((len(d.text) for d in list(self.documents.values())), default=0)

    @property
    def encoding(self) -> str:
        """The units of columns: `utf-8`, `utf-16` or `utf-32`."""
        return self._encoding

    @property
    def is_asked_for_diagnostics(self) -> bool:
        """Whether the client pulls diagnostics and supports refresh requests; else they are pushed."""
        text, workspace = self.client_capabilities.text_document, self.client_capabilities.workspace
        asks = text is not None and text.diagnostic is not None
        refreshed = workspace.diagnostics if workspace is not None else None
        return asks and refreshed is not None and bool(refreshed.refresh_support)

    async def with_proof(self, work: Callable[[], Found]) -> Found:
        """Ask what proofs know, in their thread, one after another."""
        return await self._proofs.run(lambda _: work())

    async def aside(self, work: Callable[[], Found]) -> Found:
        """Do what takes long in the thread of simulations, one after another; requests are answered meanwhile."""
        return await self._background.run(lambda _: work())

    async def obtained(self, package: str) -> bool:
        """Whether a package that was not there is there now."""
        return self.obtain is not None and await self.obtain(package)

    def tell(self, message: str, kind: types.MessageType = types.MessageType.Warning) -> None:
        """Show the user a message, once."""
        if message not in self._told:
            self._told.add(message)
            self.window_show_message(types.ShowMessageParams(kind, message))

    # ---- events of the protocol and the settings

    def opened(self, item: types.TextDocumentItem) -> None:
        """A document was opened; one that is open already is replaced."""
        self.closed(item.uri)
        capabilities = self.server_capabilities.position_encoding
        self._encoding = str(getattr(capabilities, "value", capabilities) or UTF16)
        settings = settings_for(path_of(item.uri), self.client_settings)
        found = Open(item.uri, item.version, Positions(item.text, self.encoding), settings, {})
        self.documents[item.uri] = found
        following.opened(self, found)
        self._tell_of(settings)
        self._analysis.start(item.uri)

    def changed(
        self,
        document: types.VersionedTextDocumentIdentifier,
        changes: Sequence[types.TextDocumentContentChangeEvent],
    ) -> None:
        """A document was edited. Only its text is changed at once: what follows from it can wait for more."""
        found = self.documents.get(document.uri)
        if found is not None:
            found.change(document.version, changes)
            self._end_work_on(document.uri)
            self._analysis.start(document.uri, pause_after(found.cost_s))

    def closed(self, uri: str) -> None:
        """A document was closed: forget it, and clear its diagnostics."""
        self._analysis.cancel(uri)
        self._end_work_on(uri)
        if (task := self._in_any_case.pop(uri, None)) is not None:
            task.cancel()
        if self.documents.pop(uri, None) is not None and not self.is_asked_for_diagnostics:
            cleared = types.PublishDiagnosticsParams(uri, [])
            self.text_document_publish_diagnostics(cleared)

    def _end_work_on(self, uri: str) -> None:
        """End what is done for a version that is no more."""
        self.protocol.overtake(uri)
        self._warming.cancel(uri)
        self._proving.cancel(uri)
        for notify in self.on_edit:
            notify(uri)

    def settings_changed(self) -> None:
        """Check all documents under the current settings."""
        for found in self.documents.values():
            self._set_up(found)

    def shutdown(self) -> None:
        """End, whatever is under way."""
        self._background.close()
        self._proofs.close()
        for close in self.on_shutdown:
            close()
        super().shutdown()

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Errors are logged; requests have their own answers, so nothing is shown on the screen."""
        logging.getLogger(__name__).debug("%s", error, exc_info=error)
        if self.protocol.writer is None or self._reporting:
            return  # an error about a message that cannot be sent cannot be sent either
        message = f"{type(error).__name__}: {error}"
        self._reporting = True
        try:
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))
        finally:
            self._reporting = False

    def findings_changed(self, found: Open) -> None:
        """Send the findings of a document anew, or have the client ask for them."""
        found.stamp += 1
        self._show(found)
        if self.is_asked_for_diagnostics:
            self.workspace_diagnostic_refresh(None)

    # ---- what is done by itself

    def _set_up(self, found: Open) -> None:
        """Check a document under the current settings, if they changed."""
        settings = settings_for(found.path, self.client_settings)
        setup = replace(settings.setup, **found.chosen)
        old = found.settings
        if setup == old.setup:
            setup = old.setup
        found.settings = replace(settings, setup=setup)
        self._tell_of(settings)
        if setup is not old.setup or settings.hints != old.hints or found.settings != old:
            found.stamp += 1
            self._analysis.start(found.uri)

    def _tell_of(self, settings: Settings) -> None:
        """Say what is wrong with the settings of any open document."""
        for trouble in settings.trouble:
            self.tell(trouble)
        reports = [report for found in self.documents.values() for report in found.settings.reports]
        if reports or self.reported:
            diagnostics.publish_reports(self, reports)

    def _show(self, found: Open) -> None:
        """Send the findings, or let the client ask for them."""
        if not self.is_asked_for_diagnostics:
            diagnostics.publish(self, found)

    async def _analyse(self, uri: str) -> None:
        """Check the latest version of a document; one that takes too long is left alone until it is edited."""
        found = self.documents[uri]
        try:
            await self._look_at(found)
        except Overdue:
            found.give_up()
            self.tell(f"analysing `{found.path}` took too long and was given up; edit it to try again")
            self._show(found)
        except ModuleNotFoundError as missing:
            if await self.obtained(missing.name or ""):
                self._analysis.start(uri)
                return
            found.give_up()
            self.tell(f"`{found.path}` cannot be analysed here: that needs the Python package `{missing.name}`")
            self._show(found)

    async def _look_at(self, found: Open) -> None:
        """Check the latest version of a document, then simulate it; said after each where that takes long."""
        document = found.current()
        if document is None:
            limit = f"{found.settings.read_at_most:,} characters"
            self.tell(f"`{found.path}` is longer than {limit} and not analysed; `distir.readLimit` sets the limit")
            self._show(found)
            return
        start = cpu_s()
        if document.program.errors or not self._may_simulate(found, document):
            self._show(found)
            found.cost_s = cpu_s() - start
            self._done(found, document)
            return
        if found.expected_simulation_s(document) <= QUICK_S:
            found.simulate(document)
        else:
            self._show(found)
            if not await self._at_leisure(found, document):
                return
        self._simulated(found, document)
        found.cost_s = cpu_s() - start
        self._done(found, document)

    def _simulated(self, found: Open, document: Document) -> None:
        """Show the findings of a simulation that is done."""
        found.simulated, found.put_off_since = document, None
        if found.settings.sequential is None:
            found.proved = None
        elif document is found.current():
            self._proving.start(found.uri, QUIET_S)
        found.stamp += 1
        self._show(found)

    async def _at_leisure(self, found: Open, document: Document) -> bool:
        """Simulate in the background once typing pauses; False if it continues without the caller."""
        now = asyncio.get_running_loop().time()
        if found.put_off_since is None:
            found.put_off_since = now
        if found.uri in self._in_any_case:
            return False  # another version's, which will be the base of this one's
        if now - found.put_off_since > PATIENCE_S:
            self._in_any_case[found.uri] = asyncio.ensure_future(self._to_the_end(found, document))
            return False
        await asyncio.sleep(QUIET_S)  # what would be given up for the next key had better not begin
        await self._in_background(found, document)
        return True

    async def _to_the_end(self, found: Open, document: Document) -> None:
        """Simulate in the background in spite of typing; later versions use it as their base."""
        await self._in_background(found, document)
        del self._in_any_case[found.uri]
        self._simulated(found, document)
        self._done(found, document)
        latest = found.current()
        if latest is not None and latest is not document:
            latest.go_on_from(document)
            self._analysis.start(found.uri)

    def _done(self, found: Open, document: Document) -> None:
        """Let the client ask again for what depends on the simulation."""
        if found.simulated is not document:
            return
        if self.is_asked_for_diagnostics:
            self.workspace_diagnostic_refresh(None)
        if self.has_threads and found.cost_s > WARMED_AFTER_S and document.is_simulated:
            self._warming.start(found.uri, QUIET_S)
        else:
            self._refresh(found.uri)

    async def _warm(self, uri: str) -> None:
        """Find what hints and colours will ask of a long program, then let the client ask for them."""
        document = self.simulated(uri)
        if document is not None:
            await self.aside(facts(document).warm)
            self._refresh(uri)

    async def _prove(self, uri: str) -> None:
        """Compare the latest version with the sequential program, after all else; given up when it is edited."""
        found = self.documents[uri]
        document, sequential = found.current(), found.settings.sequential
        if document is None or sequential is None or document.program.errors:
            return
        if found.proved is not None and found.proved.is_of(document, sequential):
            return
        async with progress(self, f"proving {found.path.rpartition('/')[2]}"):
            found.proved = await self._proofs.run(
                lambda pause: found.prover.prove(document, sequential, calls_shown(document), pause)
            )
        self.findings_changed(found)
        if found.settings.hints.sequential:
            self._refresh(uri)

    def _refresh(self, uri: str) -> None:
        for notify in self.after_simulation:
            notify(uri)

    def _may_simulate(self, found: Open, document: Document) -> bool:
        """Whether a program is small enough to be simulated without being asked to; else it is said, once."""
        if not found.is_on_demand(document):
            return True
        limit = found.settings.simulated_at_most
        self.tell(
            f"`{found.path}` has more than {limit:,} statements, so it is simulated only on demand: run the command "
            "`distir.simulate`, or raise `distir.simulation.limit`",
            types.MessageType.Info,
        )
        return False

    def _simulate_on_demand(self, uri: str) -> None:
        """The command `distir.simulate`: simulate a program of any size, now and from now on."""
        found = self.documents.get(uri)
        if found is not None:
            found.is_demanded = True
            self._analysis.start(uri)

    async def _in_background(self, found: Open, document: Document) -> None:
        """Simulate in another thread, with progress; given up when the document is edited."""
        async with progress(self, f"simulating {found.path.rpartition('/')[2]}"):
            await self._background.run(functools.partial(found.simulate, document))
