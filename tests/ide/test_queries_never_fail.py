"""Whatever the text and wherever the cursor: every query answers."""

import contextlib
from itertools import pairwise
from pathlib import Path

import pytest
from editing_samples import after, opened
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import most_examples

from distir.diagnostics import Span
from distir.ide.actions import annotations, fixes, functions, recompute, schedule, transforms
from distir.ide.calls import incoming, outgoing, prepare_calls
from distir.ide.completion import completions
from distir.ide.folding import folds
from distir.ide.formatting import format_document, format_on_type, format_range
from distir.ide.links import links
from distir.ide.navigation import definition, highlights, references, type_definition
from distir.ide.rename import RenameError, prepare, rename
from distir.ide.selection import selections
from distir.ide.signature_help import signature_help
from distir.ide.symbols import document_symbols, workspace_symbols

EXAMPLES = [path.read_text() for path in sorted((Path(__file__).parents[2] / "examples").glob("*.dir"))]
PIECES = [
    "%",
    "@",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    '"',
    "//",
    "/*",
    "*/",
    "\n",
    "\r\n",
    ",",
    "=",
    ":",
    "func",
    "return",
    "_",
]
PIECES += ["%x", "@main", "é😀", "\u2028", "\ufeff", "...", "Send[device = 2](", "Tensor[", "-> ", "dense<", "\t"]


def every_query(document, span):
    offset = span.end
    for query in (definition, references, highlights, type_definition, selections, completions, signature_help):
        query(document, offset)
    with contextlib.suppress(RenameError):
        prepare(document, offset)
        rename(document, offset, "fresh")
    document_symbols(document)
    list(workspace_symbols(document.program.syntax, "m"))
    folds(document)
    links(document.program.syntax)
    item = prepare_calls(document, offset)
    if item is not None:
        incoming(document, item.name)
        outgoing(document, item.name)
    changes = [format_document(document), format_range(document, span)]
    changes += [format_on_type(document, offset, typed) for typed in ("\n", "}")]
    actions = [*fixes.quick_fixes(document, span), *annotations.state_types(document, span)]
    actions += [*functions.inline_call(document, span), *functions.outline_selection(document, span)]
    actions += [*schedule.faster_moves(document, span), *recompute.recomputations(document, span)]
    everything = fixes.remove_unused(document)
    transforms.offers(document, span)
    for edits in (*changes, *(a.edits for a in actions), everything.edits if everything is not None else ()):
        ordered = sorted(edits, key=lambda e: (e.span.start, e.span.end))
        assert all(a.span.end <= b.span.start for a, b in pairwise(ordered)), "edits overlap"
        opened(after(document, edits))


@settings(max_examples=most_examples(60), deadline=None)
@given(st.data())
def test_examples_in_which_something_was_typed(data):
    text = data.draw(st.sampled_from(EXAMPLES))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        gone = data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(st.sampled_from(PIECES)) + text[at + gone :]
    document = opened(text)
    start = data.draw(st.integers(0, len(text)))
    every_query(document, Span(start, min(len(text), start + data.draw(st.sampled_from([0, 0, 1, 40, 400])))))


@settings(max_examples=most_examples(60), deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.integers(0, 100))
def test_texts_that_are_hardly_programs(text, place):
    every_query(opened(text), Span(min(place, len(text)), min(place, len(text))))


@pytest.mark.parametrize(
    "text", ["", "\n", "func", "func @", "func @f", "func @f(", "func @f(%x", "func @f(%x) {", "}", "%"]
)
def test_texts_that_were_just_begun(text):
    for offset in range(len(text) + 1):
        every_query(opened(text), Span(offset, offset))
