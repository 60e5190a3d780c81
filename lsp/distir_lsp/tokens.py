"""Semantic tokens: whole, of a range, and as what changed since the last answer. Pieces come from `distir.ide`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

from lsprotocol import types

from distir.ide.instances import View
from distir.ide.tokens import MODIFIERS, TYPES, EncodedPiece, Units, pieces
from distir_lsp.positions import Positions
from distir_lsp.protocol import Raw
from distir_lsp.reading import view_of
from distir_lsp.server import DistirServer
from distir_lsp.workspace import Open

PIECES_AT_ONCE = 2000
"""Statements between yields to other requests."""


@dataclass(slots=True)
class Sent:
    """The last tokens sent for one document: their id, and the numbers as text, piece by piece.

    `stamp`: which state of which document that was.
    """

    number: int = 0
    stamp: tuple[Open, int] | None = None
    texts: list[str] = field(default_factory=list[str])
    counts: list[int] = field(default_factory=list[int])


def register(server: DistirServer) -> None:
    """Offer semantic tokens."""
    sent: dict[str, Sent] = {}
    legend = types.SemanticTokensLegend(list(TYPES), list(MODIFIERS))

    async def renewed(last: Sent, uri: str, view: View) -> None:
        """Bring what was sent up to date, if anything has happened since."""
        found = server.documents[uri]
        stamp = found, found.stamp
        if last.stamp != stamp:
            texts, counts = await _all(view, server.positions(uri))
            last.texts, last.counts, last.stamp, last.number = texts, counts, stamp, last.number + 1

    @server.feature(
        types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
        types.SemanticTokensRegistrationOptions(
            legend=legend, full=types.SemanticTokensFullDelta(delta=True), range=True
        ),
    )
    async def full(params: types.SemanticTokensParams) -> Raw | None:  # pyright: ignore[reportUnusedFunction]
        uri = params.text_document.uri
        view = view_of(server, uri)
        if view is None:
            return None
        for gone in sent.keys() - server.documents.keys():
            del sent[gone]
        last = sent.setdefault(uri, Sent())
        await renewed(last, uri, view)
        return _answer(last)

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA)
    async def delta(params: types.SemanticTokensDeltaParams) -> Raw | None:  # pyright: ignore[reportUnusedFunction]
        uri = params.text_document.uri
        view = view_of(server, uri)
        if view is None:
            return None
        last = sent.setdefault(uri, Sent())
        before, before_counts, number = last.texts, last.counts, last.number
        await renewed(last, uri, view)
        if not before or params.previous_result_id != str(number):
            return _answer(last)
        edit = _edit(before, before_counts, last.texts, last.counts)
        return server.raw(f'{{"resultId":{json.dumps(str(last.number))},"edits":[{edit}]}}')

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE)
    def some(params: types.SemanticTokensRangeParams) -> Raw | None:  # pyright: ignore[reportUnusedFunction]
        uri = params.text_document.uri
        view = view_of(server, uri)
        if view is None:
            return None
        positions = server.positions(uri)
        span = positions.span(params.range)
        chain = _Chain(positions)
        texts = [chain.text(piece) for piece in pieces(view, span.start, span.end, _units_of(positions))]
        return server.raw(f'{{"data":[{",".join(texts)}]}}')


async def _all(view: View, positions: Positions) -> tuple[list[str], list[int]]:
    chain = _Chain(positions)
    texts: list[str] = []
    counts: list[int] = []
    for number, piece in enumerate(pieces(view, 0, len(positions.text), _units_of(positions))):
        texts.append(chain.text(piece))
        counts.append(5 * piece.count)
        if number % PIECES_AT_ONCE == PIECES_AT_ONCE - 1:
            await asyncio.sleep(0.002)
    return texts, counts


def _answer(last: Sent) -> Raw:
    return Raw(f'{{"resultId":{json.dumps(str(last.number))},"data":[{",".join(last.texts)}]}}')


def _edit(before: list[str], before_counts: list[int], texts: list[str], counts: list[int]) -> str:
    """The one edit that makes the new tokens of the old ones; empty where they are the same."""
    shortest = min(len(before), len(texts))
    head = 0
    while head < shortest and before[head] == texts[head]:
        head += 1
    tail = 0
    while tail < shortest - head and before[-1 - tail] == texts[-1 - tail]:
        tail += 1
    if head == len(before) == len(texts):
        return ""
    start = sum(counts[:head])
    removed = sum(before_counts[head : len(before) - tail])
    data = ",".join(texts[head : len(texts) - tail])
    return f'{{"start":{start},"deleteCount":{removed},"data":[{data}]}}'


class _Chain:
    """Pieces one after another: each first token relative to the last one before it."""

    def __init__(self, positions: Positions) -> None:
        self.positions = positions
        self.line = self.column = 0

    def text(self, piece: EncodedPiece) -> str:
        """The numbers of a piece's tokens."""
        start_line, start_column = self.positions.place(piece.offset)
        lines, columns = piece.ahead
        line, column = start_line + lines, columns if lines else start_column + columns
        head = f"{line - self.line},{column - self.column if line == self.line else column},{piece.first}"
        self.line = start_line + piece.lines
        self.column = piece.column if piece.lines else start_column + piece.column
        return f"{head},{piece.rest}" if piece.rest else head


_UNITS: dict[str, Units] = {
    "utf-8": lambda text: len(text.encode("utf-8", "surrogatepass")),
    "utf-16": lambda text: len(text) + sum(character > "\uffff" for character in text),
    "utf-32": len,
}


def _units_of(positions: Positions) -> Units:
    return _UNITS[positions.encoding]
