"""Hover and inlay hints. What they say is `distir.ide`'s; here is the protocol only."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, cast

from lsprotocol import types

from distir.diagnostics import Span
from distir.ide import hints as ide
from distir.ide.hover import hover as about
from distir.ide.instances import View
from distir_lsp.protocol import Raw
from distir_lsp.server import DistirServer

LINES_AT_ONCE = 500
"""Hints of longer ranges are found in pieces, so that a cancelled request ends early."""


def register(server: DistirServer) -> None:
    """Offer hover and inlay hints."""
    server.after_simulation.append(lambda _: refresh(server))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:  # pyright: ignore[reportUnusedFunction]
        uri = params.text_document.uri
        view = view_of(server, uri)
        if view is None:
            return None
        positions = server.positions(uri)
        said = about(view, positions.offset(params.position))
        if said is None:
            return None
        return types.Hover(_markdown(said.markdown, uri), positions.range(said.span))

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions(resolve_provider=True))
    async def inlay_hints(params: types.InlayHintParams) -> Raw | None:  # pyright: ignore[reportUnusedFunction]
        uri = params.text_document.uri
        view = view_of(server, uri)
        if view is None:
            return None
        positions, settings = server.positions(uri), server.settings(uri)
        texts: list[str] = []
        first, last = params.range.start.line, params.range.end.line
        for line in range(first, last + 1, LINES_AT_ONCE):
            if line > first:
                await asyncio.sleep(0.005)
            if line >= len(positions.starts):
                break
            stop = min(line + LINES_AT_ONCE - 1, last, len(positions.starts) - 1)
            span = Span(positions.starts[line], positions.line_end(stop))
            for hint in ide.hints(view, span, settings.hints, settings.placements):
                texts.append(_written(hint, uri, view, *positions.place(hint.offset)))
        return server.raw(f"[{','.join(texts)}]")

    @server.feature(types.INLAY_HINT_RESOLVE)
    def resolve(hint: types.InlayHint) -> types.InlayHint:  # pyright: ignore[reportUnusedFunction]
        match cast("Any", hint.data):
            case [
                str(uri),
                version,
                ("type" | "value" | "placement" | "time" | "wait") as kind,
                str(function),
                int(index),
                int(part),
                int(count),
            ] if index >= ide.PARAMETER and part >= 0 and count >= 0:
                view = view_of(server, uri)
            case _:  # nothing that we gave
                return hint
        if view is None:
            return hint
        said = ide.tooltip(view, function, kind, index, part, count)
        if said is not None:
            hint.tooltip = _markdown(said, uri)
        edits = ide.inserted(view, function, index, part, count) if kind == "type" else ()
        if edits and version == view.document.version:
            positions = server.positions(uri)
            hint.text_edits = [types.TextEdit(positions.range(edit.span), edit.text) for edit in edits]
        return hint


def _markdown(text: str, uri: str) -> types.MarkupContent:
    """Markdown whose lines of the program are links into the document."""
    return types.MarkupContent(types.MarkupKind.Markdown, _LINE.sub(rf"[line \1](<{_escaped(uri)}#L\1>)", text))


_LINE = re.compile(r"\[line (\d+)\]\(#L\1\)")


def _escaped(uri: str) -> str:
    """An address as the replacement of a pattern, between angle brackets."""
    return uri.replace("\\", "%5C").replace("<", "%3C").replace(">", "%3E")


def refresh(server: DistirServer) -> None:
    """Ask the client to refresh what a simulation changes, if it supports that."""
    workspace = server.client_capabilities.workspace
    if workspace is None:
        return
    if workspace.inlay_hint is not None and workspace.inlay_hint.refresh_support:
        server.workspace_inlay_hint_refresh(None)
    if workspace.code_lens is not None and workspace.code_lens.refresh_support:
        server.workspace_code_lens_refresh(None)
    if workspace.semantic_tokens is not None and workspace.semantic_tokens.refresh_support:
        server.workspace_semantic_tokens_refresh(None)


def view_of(server: DistirServer, uri: str) -> View | None:
    """An open document as it is shown now; None for one that is not open."""
    document, followed = server.document(uri), server.followed.get(uri)
    if document is None:
        return None
    if followed is None or followed.rank is None:
        return View(document, server.simulated(uri), lambda: server.is_on_demand(uri), server.proved(uri))
    from distir.ide.part_view import PartView

    return PartView(document, server.simulated(uri), server.simulated(followed.source), followed.rank)


def _written(hint: ide.Hint, uri: str, view: View, line: int, column: int) -> str:
    kind = '"kind":1,' if hint.kind == "type" else ""
    data = [uri, view.document.version, hint.kind, hint.function, hint.index, hint.part, hint.count]
    return (
        f'{{"position":{{"line":{line},"character":{column}}},"label":{json.dumps(hint.text)},'
        f'{kind}"data":{json.dumps(data)}}}'
    )
