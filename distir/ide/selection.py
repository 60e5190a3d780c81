"""Selections that grow: name, operand, operands, statement, stage, body, function, text."""

from __future__ import annotations

from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.mentions import TokenizedPiece, piece_at
from distir.ide.symbols import groups, sections


def selections(document: Document, offset: int) -> list[Span]:
    """The ranges that a selection grows to from an offset, from the smallest to the whole text."""
    document = document.seen_from(offset)
    syntax = document.program.syntax
    found: list[Span] = []
    piece = piece_at(syntax, offset)
    if piece is not None and piece.tokens:
        found += _within(piece, offset)
    written = syntax.function_at(offset)
    if written is not None:
        if piece is not None:
            found.append(written.head if piece.index is None else written.statement(piece.index))
        index = None if piece is None else piece.index
        if index is not None:
            parts = [*groups(document, written), *sections(syntax, written)]
            found += [Span(written.starts[p.first], written.ends[p.last]) for p in parts if p.first <= index <= p.last]
            found.append(Span(written.starts[0], written.ends[-1]))
        found.append(written.span)
    found.append(Span(0, len(document.text)))
    return _growing(found, offset)


def _within(piece: TokenizedPiece, offset: int) -> list[Span]:
    """The token at an offset, and around it the items of lists and the brackets, inside out."""
    tokens = piece.tokens
    touching = [t.span for t in tokens if t.span.start <= offset <= t.span.end]
    found = touching[-1:]
    open_at: list[int] = []
    for number, token in enumerate(tokens):
        if token.text in ("(", "[", "{"):
            open_at.append(number)
        elif token.text in (")", "]", "}") and open_at:
            start = open_at.pop()
            if tokens[start].span.start <= offset <= token.span.end:
                found += _bracketed(piece, start, number, offset)
    return found


def _bracketed(piece: TokenizedPiece, start: int, end: int, offset: int) -> list[Span]:
    """The bracket's item around an offset, all items, the bracket, and the expression before it."""
    tokens = piece.tokens
    depth, item = 0, start + 1
    found: list[Span] = []
    for number in range(start + 1, end + 1):
        text = tokens[number].text
        if (text == "," and not depth) or number == end:
            if item < number:
                found.append(Span(tokens[item].span.start, tokens[number - 1].span.end))
            item = number + 1
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
    around = [span for span in found if span.start <= offset <= span.end]
    if found:
        around.append(Span(found[0].start, found[-1].end))
    around.append(Span(tokens[start].span.start, tokens[end].span.end))
    callee = _before(piece, start)
    if callee < start:
        around.append(Span(tokens[callee].span.start, tokens[end].span.end))
    return around


def _before(piece: TokenizedPiece, start: int) -> int:
    """The first token of the expression before a bracket: a name, possibly followed by other brackets."""
    tokens = piece.tokens
    at, depth = start - 1, 0
    while at >= 0 and (depth or tokens[at].text == "]"):
        depth += (tokens[at].text in (")", "]")) - (tokens[at].text in ("(", "["))
        at -= 1
    return at if at >= 0 and tokens[at].text not in (",", "(", "[", "=", ":", "{", "->") else start


def _growing(spans: list[Span], offset: int) -> list[Span]:
    """The spans that hold the offset, each wider than the one before."""
    found: list[Span] = []
    holding = (s for s in spans if s.start <= offset <= s.end)
    for span in sorted(holding, key=lambda s: s.end - s.start):
        last = found[-1] if found else None
        if last is None or (span != last and span.start <= last.start and last.end <= span.end):
            found.append(span)
    return found
