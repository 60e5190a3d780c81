"""Diagnostics as one JSON document, for scripts: `check --format json`.

The keys are fixed; more may be added. Lines and columns count from 1, columns in characters, the end is excluded; they
are null for what has no place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from distir.diagnostics.core import Diagnostic, Source, Span
from distir.diagnostics.report import LinePlace, Report, place
from distir.ir import Site


def json_form(reports: Sequence[Report]) -> str:
    """`{files: [path], diagnostics: [...]}`: every file that was read, and all that was found in them."""
    document = {
        "files": [report.source.path for report in reports],
        "diagnostics": [_diagnostic(report.source, d) for report in reports for d in report.in_order()],
    }
    return dump(document)


def dump(document: object) -> str:
    """A JSON document in ASCII, which every stream can take. Lone surrogates, which are no text, become U+FFFD."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if not text.isascii():
        well_formed = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        text = json.dumps(json.loads(well_formed), indent=2)
    return text.replace("\x7f", "\\u007f") + "\n"


def _diagnostic(source: Source, diagnostic: Diagnostic) -> dict[str, object]:
    return {
        "code": diagnostic.code.number,
        "name": diagnostic.code.name,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "file": source.path,
        **_position(source, diagnostic.site),
        "notes": [{"message": note.message, **_position(source, note.site)} for note in diagnostic.notes],
        "help": diagnostic.help,
    }


def _position(source: Source, site: Site | Span | None) -> dict[str, int | None]:
    found: LinePlace | None = place(source, site)
    return {
        "line": found and found.line,
        "column": found and found.column,
        "end_line": found and found.end_line,
        "end_column": found and found.end_column,
    }
