"""Diagnostics as workflow commands that GitHub turns into annotations of a pull request: `check --format github`.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Sequence

from distir.diagnostics.core import Diagnostic, Source
from distir.diagnostics.paths import repository_path
from distir.diagnostics.report import Report, place, placed_notes, remarks
from distir.diagnostics.visible import visible


def github(reports: Sequence[Report]) -> str:
    """One line per diagnostic; empty if there are none."""
    return "".join(_command(report.source, d) for report in reports for d in report.in_order())


def _command(source: Source, diagnostic: Diagnostic) -> str:
    properties: dict[str, object] = {"file": repository_path(source.path)}
    if where := place(source, diagnostic.site):
        properties["line"] = where.line
        if where.line == where.end_line:  # GitHub takes columns within one line only
            properties["col"] = where.column
        properties["endLine"] = where.end_line
        if where.line == where.end_line:
            properties["endColumn"] = where.end_column
    properties["title"] = f"{diagnostic.code.number} {diagnostic.code.name}"
    fields = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{diagnostic.severity} {fields}::{_data(_message(source, diagnostic))}\n"


def _message(source: Source, diagnostic: Diagnostic) -> str:
    lines = [diagnostic.message]
    for note in placed_notes(diagnostic):
        where = place(source, note.site)
        lines.append(f"note: {note.message}" + (f" (line {where.line})" if where else ""))
    return "\n".join([*lines, *remarks(diagnostic)])


def _data(text: str) -> str:
    """What follows `::`, on one line and without control characters."""
    lines = [visible(line.removesuffix("\r")).replace("%", "%25") for line in text.split("\n")]
    return "%0A".join(lines)


def _property(text: str) -> str:
    """The value of a property, which ends at `,` or `::`."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
