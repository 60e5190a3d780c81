"""Links of a text: files of tensors, and addresses and files in comments."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from distir.diagnostics import Span
from distir.syntax import Syntax

_EXTERNAL = re.compile(r'\bexternal\s*<[^">\n]*"((?:[^"\\\n]|\\.)*)"')
_ADDRESS = re.compile(r"https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]]")
_FILE = re.compile(r"(?<![\w/.:])(?:[\w.-]+/)*[\w.-]+\.(?:dir|onnx|safetensors|toml|json|html|py)\b(?!/)")


@dataclass(frozen=True, slots=True)
class DocumentLink:
    """A reference to something else: `target` is an address, or a path relative to the text's folder.

    `certain`: it is one, whether or not the file is there; others are worth showing only if it is.
    """

    span: Span
    target: str
    certain: bool


def links(syntax: Syntax) -> list[DocumentLink]:
    """All references of a text, in its order."""
    text = syntax.source.text
    comments = sorted([*syntax.comments, *(c for f in syntax.functions for c in f.comments)])
    found = [link for start, end in comments for link in _in_comment(text, start, end)]
    for match in _EXTERNAL.finditer(text) if "external" in text else ():
        at = bisect.bisect_right(comments, (match.start(), len(text))) - 1
        if at >= 0 and match.start() < comments[at][1]:
            continue
        path = _path(match[1])
        if path:
            found.append(DocumentLink(Span(*match.span(1)), path, certain=True))
    return sorted(found, key=lambda link: link.span.start)


def _path(written: str) -> str | None:
    """The file that a reference `model.safetensors#name` names."""
    try:
        return json.loads(f'"{written}"').split("#")[0]
    except ValueError:
        return None


def _in_comment(text: str, start: int, end: int) -> Iterator[DocumentLink]:
    for match in _ADDRESS.finditer(text, start, end):
        yield DocumentLink(Span(*match.span()), match[0], certain=True)
    for match in _FILE.finditer(text, start, end):
        if "://" not in text[max(start, match.start() - 200) : match.start()].split(" ")[-1]:
            yield DocumentLink(Span(*match.span()), match[0], certain=False)
