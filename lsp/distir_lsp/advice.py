"""Advice: searched for when typing pauses, listed on request, applied as an edit of the text, so that undo undoes it.

A thread of its own searches; an edit ends the search. What is searched unasked is for a lens above the entry function,
and, where the setting is `problems`, for information findings.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

from lsprotocol import types

from distir.ide.advice.core import Advice, Advised
from distir_lsp.answers import Answer, answer_of, written
from distir_lsp.editing import workspace_edit
from distir_lsp.progress import progress
from distir_lsp.protocol import Raw
from distir_lsp.scheduling import Background, Debounced
from distir_lsp.server import DistirServer
from distir_lsp.workspace import Open, statements

PAUSE_S = 1.0
"""Seconds without typing before a search begins by itself."""

UNASKED_S, ASKED_S = 4.0, 20.0
"""About how long it may take; and one that a person waits for."""

LONGEST_UNASKED = 2_000
"""Statements of the longest program that is searched unasked: steps take long on others, and cannot be ended midway."""

MOST_OFFERED = 8
"""A message offers at most this many pieces of advice as buttons."""


def register(server: DistirServer) -> None:
    """Search in pauses, and offer the request and the commands."""
    searches = Background("distir-advice")

    async def search(found: Open, within_s: float) -> Advised | None:
        """Search on the version that is open now; None where the text changes meanwhile, or cannot be simulated."""
        from distir.ide.advice.search import NoAdvice, advise

        text, path, setup = found.text, found.path, found.settings.setup
        try:
            async with progress(server, f"advice for {path.rpartition('/')[2]}"):
                advised = await searches.run(lambda pause: advise(text, path, setup, within_s, pause))
        except NoAdvice:
            return None
        if found.text != text or found.settings.setup is not setup:
            return None
        found.advised = advised
        if found.settings.advice == "problems":
            server.findings_changed(found)
        if (workspace := server.client_capabilities.workspace) and workspace.code_lens is not None:
            server.workspace_code_lens_refresh(None)
        return advised

    async def unasked(uri: str) -> None:
        found = server.documents.get(uri)
        if found is not None and found.advice() is None:
            await search(found, UNASKED_S)

    waiting = Debounced(unasked)

    def simulated(uri: str) -> None:
        found = server.documents.get(uri)
        done = found.simulated if found is not None else None
        if found is None or done is None or found.settings.advice == "off" or uri in server.followed:
            return
        if sys.platform == "emscripten":
            return  # in a browser there is but one thread
        if done.simulation is not None and done is found.current() and statements(done) <= LONGEST_UNASKED:
            waiting.start(uri, PAUSE_S)

    server.after_simulation.append(simulated)
    server.on_edit.append(waiting.cancel)
    server.on_shutdown.append(searches.close)

    async def asked(uri: str) -> tuple[Open, Advised] | str:
        """A document with all advice for it, or why there is none."""
        found = server.documents.get(uri)
        if found is None or found.current() is None:
            return f"`{uri}` is not open, or not analysed"
        advised = found.advice()
        if advised is None or (advised.untried and advised.seconds < ASKED_S / 2):
            waiting.cancel(uri)
            advised = await search(found, ASKED_S)
        return (
            (found, advised) if advised is not None else "the program has errors, cannot be simulated, or has changed"
        )

    @server.feature("distir/advice")
    async def listed(params: Any) -> Raw:  # pyright: ignore[reportUnusedFunction]
        outcome = await asked(_uri(params))
        if isinstance(outcome, str):
            return written({"error": outcome})
        found, advised = outcome
        advised_then = answer_of(advised.document, {}, found.positions)
        return written({**advised_then, "version": found.version, **_listed(advised, found)})

    @server.command("distir.applyAdvice")
    async def apply(uri: str, number: int) -> None:  # pyright: ignore[reportUnusedFunction]
        found = server.documents.get(uri)
        advised = found.advice() if found is not None else None
        if advised is None or not 0 <= number < len(advised.advice):
            _say(server, "the text has changed since: ask for advice again")
            return
        await _apply(server, uri, advised.advice[number])

    @server.command("distir.advice")
    async def offer(uri: str) -> None:  # pyright: ignore[reportUnusedFunction]
        outcome = await asked(uri)
        if isinstance(outcome, str) or not outcome[1].advice:
            _say(server, outcome if isinstance(outcome, str) else "nothing that was tried makes it faster or smaller")
            return
        best = {in_short(advice): advice for advice in outcome[1].advice[:MOST_OFFERED]}
        message = types.ShowMessageRequestParams(
            types.MessageType.Info, "Apply which advice?", [types.MessageActionItem(title) for title in best]
        )
        chosen = await server.window_show_message_request_async(message)
        if chosen is not None and chosen.title in best and outcome[0].advice() is outcome[1]:
            await _apply(server, uri, best[chosen.title])


def repairs(server: DistirServer, uri: str, place: types.Range) -> Iterator[types.CodeAction]:
    """The repairs of findings that say what is faster, in a piece of the text."""
    found = server.documents[uri]
    advised = found.advice()
    if advised is None or found.settings.advice != "problems":
        return
    span = server.range_to_span(uri, place)
    for advice in advised.about(span):
        edit = workspace_edit(server, uri, advice.edits)
        yield types.CodeAction(title=in_short(advice), kind=types.CodeActionKind.QuickFix, edit=edit)


def in_short(advice: Advice) -> str:
    """Advice in a line."""
    devices = "" if advice.is_free else f" on {advice.after.devices} devices"
    return f"{advice.title}: {advice.speedup:.3g}x{devices}".replace("`", "")


async def _apply(server: DistirServer, uri: str, advice: Advice) -> None:
    edit = workspace_edit(server, uri, advice.edits)
    await server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit, label=in_short(advice)))


def _listed(advised: Advised, found: Open) -> Answer:
    from distir_lsp.answers import as_json

    return {
        "program": as_json(advised.before, None),
        "advice": [
            {
                "number": number,
                "title": advice.title,
                "kind": advice.kind.value,
                "steps": list(advice.steps),
                "range": as_json(advice.span, found.positions),
                "speedup": as_json(advice.speedup, None),
                **as_json(advice.after, None),
                "saved_bytes": advice.saved_bytes,
                "assurance": advice.assurance.value,
                "results": advice.assurance.in_words,
                "why": advice.why,
            }
            for number, advice in enumerate(advised.advice)
        ],
        "untried": list(advised.untried),
        "refused": advised.refused,
    }


def _uri(params: Any) -> str:
    document = cast("Mapping[str, Any]", params).get("textDocument") if isinstance(params, Mapping) else None
    uri = cast("Mapping[str, Any]", document).get("uri") if isinstance(document, Mapping) else None
    return uri if isinstance(uri, str) else ""


def _say(server: DistirServer, text: str) -> None:
    server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))
