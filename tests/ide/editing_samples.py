"""Marked-up text: `<|>` is the cursor, `<[` and `]>` are the ends of a selection. None of it is in the program."""

import re

from distir.cost import load
from distir.diagnostics import Span
from distir.ide.document import Setup, open_document
from distir.ide.edits import applied

SETUP = Setup(load("dgx-a100"))


def opened(text, setup=SETUP):
    return open_document(text, "program.dir", setup)


def at_cursor(marked):
    """The document and the offset of the cursor."""
    offset = marked.index("<|>")
    return opened(marked.replace("<|>", "")), offset


def with_selection(marked):
    """The document and the span that is selected; an empty one at the cursor."""
    if "<|>" in marked:
        document, offset = at_cursor(marked)
        return document, Span(offset, offset)
    start = marked.index("<[")
    end = marked.index("]>") - 2
    return opened(re.sub(r"<\[|\]>", "", marked)), Span(start, end)


def marked(text, spans):
    """The text with the spans in `<[` and `]>`."""
    for span in sorted(spans, key=lambda s: s.start, reverse=True):
        text = f"{text[: span.start]}<[{text[span.start : span.end]}]>{text[span.end :]}"
    return text


def after(document, edits):
    return applied(document.text, edits)


def only(actions, beginning):
    """The one action whose title begins so."""
    found = [a for a in actions if a.title.startswith(beginning)]
    assert len(found) == 1, [a.title for a in actions]
    return found[0]
