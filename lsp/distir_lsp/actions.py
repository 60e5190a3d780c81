"""Code actions in the protocol's terms; `distir.ide.actions` determines the actions and their edits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types

from distir.diagnostics import Diagnostic, Span
from distir.ide.actions.core import EXTRACT, FIX_ALL, INLINE, QUICK_FIX, REWRITE, Action
from distir.ide.document import Document
from distir_lsp import advice
from distir_lsp.addresses import address_of
from distir_lsp.editing import EditRefused, workspace_edit
from distir_lsp.server import DistirServer

if TYPE_CHECKING:  # imported on the first request, so that the server starts sooner
    from distir.ide.actions.transforms import Offer

MOST_UNASKED = 2_000
"""In texts of more statements, what takes long to find is offered only when the user asks for actions.

Edits of more are made when they are chosen, for clients that can wait till then; others are not offered them.
"""


def register(server: DistirServer) -> None:
    """Offer code actions."""

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions([QUICK_FIX, INLINE, EXTRACT, REWRITE, FIX_ALL], resolve_provider=True),
    )
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        from distir.ide.actions import transforms

        uri = params.text_document.uri
        await asyncio.sleep(0.005)  # the cursor may have moved on
        document = server.document(uri)
        if document is None:
            return []
        span = server.range_to_span(uri, params.range)
        found: list[types.CodeAction] = []
        for action in _actions(server, document, uri, span, params.context):
            found.append(_as_code_action(server, uri, action, params.context.diagnostics))
            await asyncio.sleep(0)
        if _wanted(params.context, QUICK_FIX):
            found += advice.repairs(server, uri, params.range)
        proved = server.proved(uri)
        if _wanted(params.context, QUICK_FIX) and proved is not None and proved.unlocated:
            from distir.ide.actions.collectives import collectives

            repairs = await server.with_proof(lambda: list(collectives(document, proved, span)))
            found += (_as_code_action(server, uri, action, params.context.diagnostics) for action in repairs)
        if _wanted(params.context, REWRITE) and _resolves_edits(server):
            if _is_asked(params.context):
                found += _long_annotations(document, uri, span)
            if _creates_files(server):
                found += (_as_offer(uri, offer) for offer in transforms.offers(document, span))
        return found

    @server.feature(types.CODE_ACTION_RESOLVE)
    def resolve(action: types.CodeAction) -> types.CodeAction:
        from distir.ide.actions import annotations, transforms

        data: Any = action.data
        if not _is_offer(data):
            return action
        uri, function, steps = cast("list[Any]", data)
        document = server.document(uri)
        if document is None:
            return action
        if not steps:
            action.edit = workspace_edit(server, uri, annotations.all_types(document, function))
            return action
        try:
            text = transforms.transformed(document, function, steps).text
        except transforms.CannotTransform as error:
            raise EditRefused(f"`{' '.join(steps)}`: {error}") from None
        action.edit = _new_file(_free(transforms.new_path(server.documents[uri].path, steps)), text)
        return action


def _actions(
    server: DistirServer, document: Document, uri: str, span: Span, context: types.CodeActionContext
) -> Iterator[Action]:
    """All that is offered at a place: first what makes the program faster, then what repairs it."""
    from distir.ide.actions import annotations, fixes, functions, recompute, schedule

    simulated = server.simulated(uri)
    timed = simulated if simulated is not None and simulated.text == document.text else None
    statements = sum(len(f.starts) for f in document.program.syntax.functions)
    is_looked_at = _is_asked(context) or statements <= MOST_UNASKED
    if _wanted(context, QUICK_FIX) and timed is not None and is_looked_at:
        yield from schedule.faster_moves(timed, span)
    if _wanted(context, QUICK_FIX):
        yield from fixes.quick_fixes(document, span)
        done = server.simulated(uri)
        if done is not None and done.text == document.text:
            yield from fixes.larger_machines(done, span)
    if _wanted(context, FIX_ALL, only_asked=True) and (everything := fixes.remove_unused(document)) is not None:
        yield everything
    if _wanted(context, REWRITE):
        yield from annotations.state_types(document, span, MOST_UNASKED)
    if not is_looked_at:
        return
    if _wanted(context, EXTRACT):
        yield from functions.outline_selection(document, span)
    if _wanted(context, INLINE):
        yield from functions.inline_call(document, span)
    if _wanted(context, REWRITE) and timed is not None:
        yield from recompute.recomputations(timed, span)


def _long_annotations(document: Document, uri: str, span: Span) -> list[types.CodeAction]:
    """The types of a whole function that is too long for its edits to be sent before they are wanted."""
    from distir.ide.actions import annotations

    written = document.program.syntax.function_at(span.start)
    if written is None or len(written.function.body) <= MOST_UNASKED:
        return []
    name = written.function.name
    if next(annotations.all_types(document, name), None) is None:
        return []
    data: Any = [uri, name, []]
    return [types.CodeAction(title=annotations.all_types_title(name), kind=REWRITE, data=data)]


def _is_asked(context: types.CodeActionContext) -> bool:
    """Whether the user asked, not the editor on its own."""
    return context.trigger_kind is not types.CodeActionTriggerKind.Automatic


def _wanted(context: types.CodeActionContext, kind: str, only_asked: bool = False) -> bool:
    """Whether the client wants actions of a kind; some only where it names them."""
    if context.only is None:
        return not only_asked
    return any(
        kind == str(getattr(o, "value", o)) or kind.startswith(f"{getattr(o, 'value', o)}.") for o in context.only
    )


def _as_code_action(
    server: DistirServer, uri: str, action: Action, given: Sequence[types.Diagnostic]
) -> types.CodeAction:
    return types.CodeAction(
        title=action.title,
        kind=action.kind,
        diagnostics=[d for d in given if any(_same(server, uri, d, f) for f in action.fixes)] or None,
        is_preferred=True if action.preferred else None,
        edit=workspace_edit(server, uri, action.edits) if action.edits else None,
        command=_choice(uri, action) if action.hardware is not None else None,
    )


def _choice(uri: str, action: Action) -> types.Command:
    """The command that has the server simulate a document for another machine."""
    return types.Command(action.title, "distir.useHardware", arguments=[uri, action.hardware])


def _same(server: DistirServer, uri: str, given: types.Diagnostic, found: Diagnostic) -> bool:
    place = found.site
    same_code = str(given.code) == found.code.number
    return same_code and isinstance(place, Span) and server.span_to_range(uri, place) == given.range


def _as_offer(uri: str, offer: Offer) -> types.CodeAction:
    data: Any = [uri, offer.function, list(offer.steps)]
    return types.CodeAction(title=offer.title, kind=REWRITE, data=data)


def _is_offer(data: Any) -> bool:
    """Whether what an action carries is what `_as_offer` gave it; clients may send anything."""
    if not isinstance(data, (list, tuple)) or len(cast("Sequence[Any]", data)) != 3:
        return False
    uri, function, steps = cast("Sequence[Any]", data)
    texts = [uri, function, *cast("Sequence[Any]", steps)] if isinstance(steps, (list, tuple)) else [None]
    return all(isinstance(text, str) for text in texts)


def _free(path: str) -> str:
    """The path, or one like it of which there is no file yet."""
    wanted = Path(path)
    numbered = (wanted.with_name(f"{wanted.stem}.{number}{wanted.suffix}") for number in count(2))
    return str(next(p for p in chain([wanted], numbered) if not os.path.lexists(p)))


def _new_file(path: str, text: str) -> types.WorkspaceEdit:
    """An edit that makes a file."""
    uri = address_of(path)
    start = types.Position(0, 0)
    options = types.CreateFileOptions(overwrite=False, ignore_if_exists=False)
    return types.WorkspaceEdit(
        document_changes=[
            types.CreateFile(uri, options=options),
            types.TextDocumentEdit(
                types.OptionalVersionedTextDocumentIdentifier(uri),
                [types.TextEdit(types.Range(start, start), text)],
            ),
        ]
    )


def _creates_files(server: DistirServer) -> bool:
    """Whether an edit may make files."""
    workspace = server.client_capabilities.workspace
    edit = workspace.workspace_edit if workspace is not None else None
    return edit is not None and types.ResourceOperationKind.Create in (edit.resource_operations or ())


def _resolves_edits(server: DistirServer) -> bool:
    """Whether the client asks for what an action does when it is chosen."""
    text = server.client_capabilities.text_document
    action = text.code_action if text is not None else None
    support = action.resolve_support if action is not None else None
    return support is not None and "edit" in support.properties and bool(action and action.data_support)
