"""Completion, signatures, renaming, formatting. What they are is `distir.ide`'s; here is the protocol only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from distir.diagnostics import Span
from distir.ide import completion, formatting, rename, signature_help
from distir.ide.completion_items import Completion, CompletionKind
from distir.ide.edits import Edit
from distir_lsp.navigation import place
from distir_lsp.positions import Positions
from distir_lsp.protocol import Raw
from distir_lsp.reading import view_of
from distir_lsp.server import DistirServer

KINDS = {
    CompletionKind.VALUE: types.CompletionItemKind.Variable,
    CompletionKind.FUNCTION: types.CompletionItemKind.Function,
    CompletionKind.OP: types.CompletionItemKind.Operator,
    CompletionKind.ATTRIBUTE: types.CompletionItemKind.Property,
    CompletionKind.CONSTANT: types.CompletionItemKind.Value,
    CompletionKind.TYPE: types.CompletionItemKind.Class,
    CompletionKind.KEYWORD: types.CompletionItemKind.Keyword,
    CompletionKind.TEMPLATE: types.CompletionItemKind.Snippet,
}

TRIGGERS = ["%", "@", "[", "(", ":", '"']
"""After these completion opens. Not after `=`: who types on begins a list that the next letter would only close."""

SNIPPET = 2
"""The format of texts with places to fill in."""


class EditRefused(JsonRpcException):
    """A request that was understood and refused; the message is for the user."""

    CODE = types.LSPErrorCodes.RequestFailed.value
    MESSAGE = "refused"


def register(server: DistirServer) -> None:
    """Offer all of it."""
    _register_completion(server)
    _register_rename(server)
    _register_formatting(server)


def _register_completion(server: DistirServer) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION,
        types.CompletionOptions(trigger_characters=TRIGGERS, resolve_provider=True),
    )
    def complete(params: types.CompletionParams) -> Raw | None:
        document, offset = place(server, params)
        if document is None:
            return None
        found = completion.completions(document, offset, view_of(server, params.text_document.uri))
        positions = server.positions(params.text_document.uri)
        where, with_snippets = _range(positions, found.word), _takes_snippets(server)
        offered = [c for c in found.items if with_snippets or c.kind is not CompletionKind.TEMPLATE]
        items = [_item(c, i, where, positions, with_snippets) for i, c in enumerate(offered)]
        return server.raw(json.dumps({"isIncomplete": not found.complete, "items": items}))

    @server.feature(types.COMPLETION_ITEM_RESOLVE)
    def resolve(item: types.CompletionItem) -> types.CompletionItem:
        said = completion.documentation(item.data) if isinstance(item.data, str) else None
        if said is not None:
            item.documentation = types.MarkupContent(types.MarkupKind.Markdown, said)
        return item

    @server.feature(
        types.TEXT_DOCUMENT_SIGNATURE_HELP,
        types.SignatureHelpOptions(trigger_characters=["(", "[", ","], retrigger_characters=["=", " "]),
    )
    def signature(params: types.SignatureHelpParams) -> types.SignatureHelp | None:
        document, offset = place(server, params)
        view = view_of(server, params.text_document.uri)
        found = None if document is None else signature_help.signature_help(document, offset, view)
        if found is None:
            return None
        parameters = [types.ParameterInformation(found.label[p.start : p.end]) for p in found.parameters]
        if _takes_offsets(server):
            parameters = [types.ParameterInformation((p.start, p.end)) for p in found.parameters]
        said = types.MarkupContent(types.MarkupKind.Markdown, found.documentation) if found.documentation else None
        # a number beyond the parameters marks none of them
        active = len(parameters) if found.active is None else found.active
        return types.SignatureHelp([types.SignatureInformation(found.label, said, parameters, active)], 0, active)


def _register_rename(server: DistirServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare(
        params: types.PrepareRenameParams,
    ) -> types.PrepareRenamePlaceholder | None:
        document, offset = place(server, params)
        if document is None:
            return None
        try:
            span, name = rename.prepare(document, offset)
        except rename.RenameError:
            return None
        return types.PrepareRenamePlaceholder(server.span_to_range(params.text_document.uri, span), name)

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    def perform(params: types.RenameParams) -> types.WorkspaceEdit | None:
        document, offset = place(server, params)
        if document is None:
            return None
        try:
            edits = rename.rename(document, offset, params.new_name)
        except rename.RenameError as error:
            raise EditRefused(str(error)) from None
        return workspace_edit(server, params.text_document.uri, edits)


def _register_formatting(server: DistirServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def whole(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        uri = params.text_document.uri
        document = server.document(uri)
        return [] if document is None else text_edits(server, uri, formatting.format_document(document))

    @server.feature(types.TEXT_DOCUMENT_RANGE_FORMATTING)
    def part(params: types.DocumentRangeFormattingParams) -> list[types.TextEdit]:
        uri = params.text_document.uri
        document = server.document(uri)
        if document is None:
            return []
        span = server.range_to_span(uri, params.range)
        return text_edits(server, uri, formatting.format_range(document, span))

    first, *more = formatting.ON_TYPE

    @server.feature(
        types.TEXT_DOCUMENT_ON_TYPE_FORMATTING,
        types.DocumentOnTypeFormattingOptions(first, more_trigger_character=more),
    )
    def typed(params: types.DocumentOnTypeFormattingParams) -> list[types.TextEdit]:
        document, offset = place(server, params)
        if document is None:
            return []
        return text_edits(server, params.text_document.uri, formatting.format_on_type(document, offset, params.ch))


def text_edits(server: DistirServer, uri: str, edits: Iterable[Edit]) -> list[types.TextEdit]:
    """Edits in the protocol's terms."""
    positions = server.positions(uri)
    return [types.TextEdit(positions.range(edit.span), edit.text) for edit in edits]


def workspace_edit(server: DistirServer, uri: str, edits: Iterable[Edit]) -> types.WorkspaceEdit:
    """Edits of one document, for its latest version if the client supports versioned edits."""
    made = text_edits(server, uri, edits)
    workspace = server.client_capabilities.workspace
    if workspace is None or workspace.workspace_edit is None or not workspace.workspace_edit.document_changes:
        return types.WorkspaceEdit(changes={uri: made})
    version = server.documents[uri].version
    identifier = types.OptionalVersionedTextDocumentIdentifier(uri, version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, made)])


def _item(
    found: Completion, number: int, where: dict[str, Any], positions: Positions, with_snippets: bool
) -> dict[str, Any]:
    is_snippet = with_snippets and found.snippet is not None
    item: dict[str, Any] = {
        "label": found.label,
        "kind": KINDS[found.kind].value,
        "sortText": f"{number:05}",
        "textEdit": {"range": where, "newText": found.snippet if is_snippet else found.text},
    }
    if found.detail:
        item["detail"] = found.detail
    if is_snippet:
        item["insertTextFormat"] = SNIPPET
    if found.op is not None:
        item["data"] = found.op
    if found.edits:
        item["additionalTextEdits"] = [
            {"range": _range(positions, edit.span), "newText": edit.text} for edit in found.edits
        ]
    return item


def _range(positions: Positions, span: Span) -> dict[str, Any]:
    (line, column), (end_line, end) = positions.place(span.start), positions.place(span.end)
    return {"start": {"line": line, "character": column}, "end": {"line": end_line, "character": end}}


def _takes_snippets(server: DistirServer) -> bool:
    text = server.client_capabilities.text_document
    item = text.completion.completion_item if text is not None and text.completion is not None else None
    return bool(item is not None and item.snippet_support)


def _takes_offsets(server: DistirServer) -> bool:
    text = server.client_capabilities.text_document
    asked = text.signature_help if text is not None else None
    information = asked.signature_information if asked is not None else None
    parameter = information.parameter_information if information is not None else None
    return bool(parameter is not None and parameter.label_offset_support)
