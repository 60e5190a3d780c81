"""Code lenses, and the commands behind them. Positions come from the parse alone, texts when a lens is shown.

Imports for commands are delayed until one runs, so that the server starts sooner.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from lsprotocol import types

from distir.files.reading import PROGRAM, read_text
from distir.ide import lenses as ide
from distir.ir import Site
from distir_lsp.addresses import file_of
from distir_lsp.following import choose_machine
from distir_lsp.protocol import Raw
from distir_lsp.reading import view_of
from distir_lsp.server import DistirServer


def register(server: DistirServer) -> None:
    """Offer code lenses."""

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=True))
    def code_lenses(params: types.CodeLensParams) -> Raw | None:  # pyright: ignore[reportUnusedFunction]
        uri = params.text_document.uri
        document = server.document(uri)
        if document is None:
            return None
        positions = server.positions(uri)
        texts: list[str] = []
        for lens in ide.lenses(document, server.settings(uri).advice != "off"):
            (line, column), (end_line, end_column) = positions.place(lens.span.start), positions.place(lens.span.end)
            texts.append(
                f'{{"range":{{"start":{{"line":{line},"character":{column}}},'
                f'"end":{{"line":{end_line},"character":{end_column}}}}},'
                f'"data":{json.dumps([uri, lens.function, lens.kind])}}}'
            )
        return server.raw(f"[{','.join(texts)}]")

    @server.feature(types.CODE_LENS_RESOLVE)
    def resolve(lens: types.CodeLens) -> types.CodeLens:  # pyright: ignore[reportUnusedFunction]
        lens.command = types.Command("…", "")
        match cast("Any", lens.data):
            case [
                str(uri),
                str(function),
                ("mesh" | "cost" | "calls" | "timeline" | "compare" | "hardware" | "advice") as kind,
            ]:
                view = view_of(server, uri)
                if view is not None:
                    said = ide.lens_text(view, function, kind, _why_not(server, uri), server.documents[uri].advice())
                    lens.command = types.Command(said.title, said.command, arguments=[uri, *said.arguments])
            case _:  # nothing that we gave
                pass
        return lens

    @server.command("distir.nextCall")
    def next_call(uri: str, function: str, number: int) -> None:  # pyright: ignore[reportUnusedFunction]
        document = server.document(uri)
        if document is not None:
            server.choose(uri, picked={**document.setup.picked, function: number})

    @server.command("distir.showCalls")
    async def show_calls(uri: str, function: str) -> None:  # pyright: ignore[reportUnusedFunction]
        view = view_of(server, uri)
        sites = view.facts.call_sites.get(function, ()) if view is not None else ()
        span = (
            view.document.program.syntax.source_map(Site(sites[0].caller, sites[0].index)) if view and sites else None
        )
        if span is not None:
            place = server.span_to_range(uri, span)
            await server.window_show_document_async(types.ShowDocumentParams(uri, take_focus=True, selection=place))

    @server.command("distir.timeline")
    async def timeline(uri: str) -> None:  # pyright: ignore[reportUnusedFunction]
        done = server.simulated(uri)
        if done is None or done.simulation is None:
            _say(server, "there is no simulation to show")
            return
        import tempfile

        from distir.simulate.page import timeline_page

        page = timeline_page(done.simulation, done.program.source, done.program.syntax.source_map)
        folder = Path(tempfile.mkdtemp(prefix="distir-"))
        file = folder / f"{done.simulation.function.name[:100]}.html"
        file.write_text(page, "utf-8", "backslashreplace")
        can_show = server.client_capabilities.window
        if can_show is not None and can_show.show_document is not None and can_show.show_document.support:
            await server.window_show_document_async(types.ShowDocumentParams(file.as_uri(), external=True))
        else:
            _say(server, f"the timeline is in {file}")

    @server.command("distir.compare")
    def compare_with_file(uri: str) -> None:  # pyright: ignore[reportUnusedFunction]
        from distir.ide.compare import compare, in_words
        from distir.ide.document import open_document

        done, path = server.simulated(uri), file_of(uri)
        try:
            text = read_text(path, PROGRAM, "replace") if path else None
        except OSError:
            text = None
        if done is None or done.simulation is None or text is None:
            _say(server, "there is nothing to compare: no simulation, or no file")
            return
        found = compare(open_document(text, path or uri, done.setup), done, "the file", "the document")
        _say(server, in_words(found) if found is not None else "the file cannot be simulated")

    @server.command("distir.useHardware")
    def use_hardware(uri: str, name: str) -> None:  # pyright: ignore[reportUnusedFunction]
        from distir.cost import HardwareError, load

        try:
            server.choose(uri, hardware=load(name))
        except HardwareError as error:
            _say(server, str(error.problems[0]))

    @server.command("distir.hardware")
    async def hardware(uri: str) -> None:  # pyright: ignore[reportUnusedFunction]
        from distir.cost import load
        from distir.ide.hardware import known

        names = [profile.name for profile in known()]
        asked = types.ShowMessageRequestParams(
            types.MessageType.Info, "Simulate on which hardware?", [types.MessageActionItem(name) for name in names]
        )
        chosen = await server.window_show_message_request_async(asked)
        if chosen is not None and chosen.title in names:
            choose_machine(server, uri, load(chosen.title), chosen.title, {})


def _why_not(server: DistirServer, uri: str) -> str | None:
    """Why a document has no simulation; None if it may still come."""
    document, done = server.document(uri), server.simulated(uri)
    if document is not None and document.program.errors:
        return "not simulated: the program has errors"
    if done is not None and done.simulation is None:
        return f"not simulated: {str(done.unsimulated).splitlines()[0]}"
    return None


def _say(server: DistirServer, text: str) -> None:
    server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))
