"""Answers of our own requests as JSON: records as objects, places in the text as the protocol's ranges."""

from __future__ import annotations

import dataclasses
import json
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, cast

from distir.diagnostics import Span
from distir.ide.document import Document
from distir_lsp.positions import Positions
from distir_lsp.protocol import Raw

PROTOCOL = 1
"""The version of these requests. It grows when an answer loses or changes something, not when it gains something."""

Answer = dict[str, Any]


def answer_of(document: Document, found: Any, positions: Positions) -> Answer:
    """An answer about a version of a document, with the version."""
    answer: Answer = {"version": document.version}
    answer.update(as_json(found, positions) or {})
    return answer


def written(answer: Answer) -> Raw:
    """An answer as the client gets it."""
    return Raw(json.dumps({"protocol": PROTOCOL, **answer}))


def as_json(value: Any, positions: Positions | None) -> Any:
    """Data as JSON: records as objects, places in the text as the protocol's ranges; no infinite numbers."""
    if isinstance(value, Span):
        return _range(value, positions) if positions is not None else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {key(f.name): as_json(getattr(value, f.name), positions) for f in fields}
    if isinstance(value, Mapping):
        return {str(k): as_json(v, positions) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item, positions) for item in cast("Sequence[Any]", value)]
    if isinstance(value, array):
        return cast("array[float]", value).tolist()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def key(name: str) -> str:
    """The name of a field in an answer."""
    return "range" if name == "span" else name.removesuffix("_span") + "_range" if name.endswith("_span") else name


def _range(span: Span, positions: Positions) -> dict[str, Any]:
    (line, column), (end_line, end_column) = positions.place(span.start), positions.place(span.end)
    return {"start": {"line": line, "character": column}, "end": {"line": end_line, "character": end_column}}
