"""Definitions, references, symbols, calls, folding, selections, links. What they are is `distir.ide`'s."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from lsprotocol import types

from distir.diagnostics import Span
from distir.files.reading import PROGRAM, read_bytes
from distir.ide import calls, folding, links, navigation, selection, symbols
from distir.ide.document import Document
from distir.ops import canonical
from distir.syntax import Syntax, decode, parse
from distir_lsp.addresses import address_of, file_of
from distir_lsp.positions import Positions
from distir_lsp.protocol import Raw
from distir_lsp.server import DistirServer

MOST_FILES = 2_000
"""How many files of the workspace are looked through for symbols."""

LARGEST_FILE = 4 << 20
"""Larger files, in bytes, are not opened for that."""

MOST_FOUND = 500
"""How many symbols of the workspace are given at once; a longer query finds the others."""

KINDS = {
    symbols.SymbolKind.FUNCTION: types.SymbolKind.Function,
    symbols.SymbolKind.SECTION: types.SymbolKind.Namespace,
    symbols.SymbolKind.GROUP: types.SymbolKind.Module,
    symbols.SymbolKind.OP: types.SymbolKind.Variable,
    symbols.SymbolKind.CALL: types.SymbolKind.Method,
    symbols.SymbolKind.PARAM: types.SymbolKind.Field,
}


def register(server: DistirServer) -> None:
    """Offer all of it."""
    _register_names(server)
    _register_symbols(server)
    _register_calls(server)
    _register_structure(server)


def _register_names(server: DistirServer) -> None:
    def locations(uri: str, spans: Iterable[Span]) -> list[types.Location]:
        positions = server.positions(uri)
        return [types.Location(uri, positions.range(span)) for span in spans]

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(params: types.DefinitionParams) -> list[types.Location]:
        document, offset = place(server, params)
        return [] if document is None else locations(_uri(params), navigation.definition(document, offset))

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def references(params: types.ReferenceParams) -> list[types.Location]:
        document, offset = place(server, params)
        if document is None:
            return []
        found = navigation.references(document, offset, params.context.include_declaration)
        return locations(_uri(params), found)

    @server.feature(types.TEXT_DOCUMENT_TYPE_DEFINITION)
    def type_definition(
        params: types.TypeDefinitionParams,
    ) -> list[types.Location]:
        document, offset = place(server, params)
        return [] if document is None else locations(_uri(params), navigation.type_definition(document, offset))

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def highlight(
        params: types.DocumentHighlightParams,
    ) -> list[types.DocumentHighlight]:
        document, offset = place(server, params)
        if document is None:
            return []
        positions = server.positions(_uri(params))
        read, write = types.DocumentHighlightKind.Read, types.DocumentHighlightKind.Write
        found = navigation.highlights(document, offset)
        return [types.DocumentHighlight(positions.range(h.span), write if h.writes else read) for h in found]


def _register_symbols(server: DistirServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def document_symbol(params: types.DocumentSymbolParams) -> Raw | None:
        await asyncio.sleep(0.005)  # a cancel that is on its way wins
        uri = params.text_document.uri
        document = server.document(uri)
        if document is None:
            return None
        found = symbols.document_symbols(document)
        text = server.client_capabilities.text_document
        asked = text.document_symbol if text is not None else None
        if asked is not None and asked.hierarchical_document_symbol_support:
            return server.raw(_tree(found, server.positions(uri)))
        return server.raw(_flat(found, uri, server.positions(uri)))

    @server.feature(types.WORKSPACE_SYMBOL)
    async def workspace_symbol(params: types.WorkspaceSymbolParams) -> list[types.SymbolInformation]:
        found: list[types.SymbolInformation] = []
        for uri in list(server.documents):
            document = server.document(uri)
            if document is not None:
                every = symbols.workspace_symbols(document.program.syntax, params.query)
                found += _informations(every, uri, server.positions(uri))
        for path in _files(server):
            await asyncio.sleep(0)
            uri = address_of(path)
            if uri not in server.documents and len(found) < MOST_FOUND:
                known = _read(str(path), *_version(path))
                every = symbols.workspace_symbols(known, params.query) if known is not None else ()
                positions = Positions(known.source.text, server.encoding) if known is not None else None
                found += _informations(every, uri, positions) if positions is not None else ()
        return found[:MOST_FOUND]


def _register_calls(server: DistirServer) -> None:
    def item(uri: str, found: calls.CallItem) -> types.CallHierarchyItem:
        positions = server.positions(uri)
        kind = types.SymbolKind.Function
        return types.CallHierarchyItem(
            name=f"@{found.name}",
            kind=kind,
            uri=uri,
            range=positions.range(found.span),
            selection_range=positions.range(found.selection),
            detail=found.detail,
            data=found.name,
        )

    @server.feature(types.TEXT_DOCUMENT_PREPARE_CALL_HIERARCHY)
    def prepare(
        params: types.CallHierarchyPrepareParams,
    ) -> list[types.CallHierarchyItem] | None:
        document, offset = place(server, params)
        found = None if document is None else calls.prepare_calls(document, offset)
        return None if found is None else [item(_uri(params), found)]

    @server.feature(types.CALL_HIERARCHY_INCOMING_CALLS)
    def incoming(
        params: types.CallHierarchyIncomingCallsParams,
    ) -> list[types.CallHierarchyIncomingCall]:
        uri, document = params.item.uri, server.document(params.item.uri)
        edges = [] if document is None else calls.incoming(document, str(params.item.data))
        return [
            types.CallHierarchyIncomingCall(item(uri, e.item), [server.span_to_range(uri, s) for s in e.sites])
            for e in edges
        ]

    @server.feature(types.CALL_HIERARCHY_OUTGOING_CALLS)
    def outgoing(
        params: types.CallHierarchyOutgoingCallsParams,
    ) -> list[types.CallHierarchyOutgoingCall]:
        uri, document = params.item.uri, server.document(params.item.uri)
        if document is None:
            return []
        offset = server.positions(uri).offset(params.item.selection_range.start)
        edges = calls.outgoing(document, str(params.item.data), offset)
        return [
            types.CallHierarchyOutgoingCall(item(uri, e.item), [server.span_to_range(uri, s) for s in e.sites])
            for e in edges
        ]


def _register_structure(server: DistirServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_FOLDING_RANGE)
    async def fold(params: types.FoldingRangeParams) -> Raw | None:
        await asyncio.sleep(0.005)
        uri = params.text_document.uri
        document = server.document(uri)
        if document is None:
            return None
        line = server.positions(uri).place
        found = (
            {"startLine": line(f.span.start)[0], "endLine": line(f.span.end)[0], "kind": f.kind}
            | ({"collapsedText": f"… ×{f.times}"} if f.times > 1 else {})
            for f in folding.folds(document)
        )
        return server.raw(json.dumps(list(found)))

    @server.feature(types.TEXT_DOCUMENT_SELECTION_RANGE)
    def select(params: types.SelectionRangeParams) -> list[types.SelectionRange]:
        uri = params.text_document.uri
        document = server.document(uri)
        if document is None:
            return []
        positions = server.positions(uri)
        found: list[types.SelectionRange] = []
        for position in params.positions:
            spans = selection.selections(document, positions.offset(position))
            chosen: types.SelectionRange | None = None
            for span in reversed(spans):
                chosen = types.SelectionRange(positions.range(span), chosen)
            found.append(chosen or types.SelectionRange(types.Range(position, position)))
        return found

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_LINK)
    def link(params: types.DocumentLinkParams) -> list[types.DocumentLink]:
        uri = params.text_document.uri
        document = server.document(uri)
        if document is None:
            return []
        folder, positions = Path(server.documents[uri].path).parent, server.positions(uri)
        found: list[types.DocumentLink] = []
        for each in links.links(document.program.syntax):
            target = each.target if "://" in each.target else _file(folder, each.target, each.certain)
            if target is not None:
                found.append(types.DocumentLink(positions.range(each.span), target))
        return found


def place(server: DistirServer, params: Any) -> tuple[Document | None, int]:
    """The document and offset of a request; None for a document that is not open."""
    uri = _uri(params)
    document = server.document(uri)
    return document, 0 if document is None else server.positions(uri).offset(params.position)


def _uri(params: Any) -> str:
    return cast("str", params.text_document.uri)


def _file(folder: Path, name: str, is_certain: bool) -> str | None:
    path = folder / name
    return address_of(path) if is_certain or os.path.exists(path) else None


# ---- symbols as JSON: objects would be slow for long texts

_quoted = json.encoder.encode_basestring_ascii
_NUMBERS = {kind: number.value for kind, number in KINDS.items()}


def _tree(found: Sequence[symbols.Symbol], positions: Positions) -> str:
    return f"[{','.join([_node(s, positions) for s in found])}]"


def _node(symbol: symbols.Symbol, positions: Positions) -> str:
    children = f',"children":{_tree(symbol.children, positions)}' if symbol.children else ""
    whole = _range(symbol.span, positions)
    chosen = whole if symbol.selection is symbol.span else _range(symbol.selection, positions)
    return (
        f'{{"name":{_quoted(symbol.name)},"detail":{_quoted(symbol.detail)},"kind":{_NUMBERS[symbol.kind]},'
        f'"range":{whole},"selectionRange":{chosen}{children}}}'
    )


def _flat(found: Sequence[symbols.Symbol], uri: str, positions: Positions) -> str:
    location = json.dumps(uri)
    entries = (
        f'{{"name":{_quoted(s.name)},"kind":{_NUMBERS[s.kind]},'
        f'"location":{{"uri":{location},"range":{_range(s.span, positions)}}}}}'
        for s in _all(found)
    )
    return f"[{','.join(entries)}]"


def _all(found: Iterable[symbols.Symbol]) -> Iterator[symbols.Symbol]:
    for symbol in found:
        yield symbol
        yield from _all(symbol.children)


def _range(span: Span, positions: Positions) -> str:
    line, column, end_line, end_column = positions.places(span.start, span.end)
    return f'{{"start":{{"line":{line},"character":{column}}},"end":{{"line":{end_line},"character":{end_column}}}}}'


# ---- the workspace


def _informations(found: Iterable[symbols.Symbol], uri: str, positions: Positions) -> Iterator[types.SymbolInformation]:
    for s in found:
        container = s.detail if s.kind is symbols.SymbolKind.PARAM else None
        at = types.Location(uri, positions.range(s.selection))
        yield types.SymbolInformation(at, s.name, KINDS[s.kind], container_name=container)


def _files(server: DistirServer) -> Iterator[Path]:
    """The programs in the folders that the editor has open, hidden folders apart."""
    left = MOST_FILES
    for folder in list(server.workspace.folders.values()):
        root = file_of(folder.uri)
        for here, inner, names in os.walk(root) if root else ():
            inner[:] = [name for name in inner if not name.startswith(".") and name != "node_modules"]
            for name in names:
                if name.endswith(".dir") and left:
                    left -= 1
                    yield Path(here, name)


def _version(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=64)
def _read(path: str, modified: int, size: int) -> Syntax | None:
    """A file's syntax; None for one that cannot be read. Its modification time is part of the key."""
    del modified
    if not 0 < size <= LARGEST_FILE:
        return None
    try:
        text, _ = decode(read_bytes(path, PROGRAM), path)
    except OSError:
        return None
    return None if text is None else parse(text, path, canonical)
