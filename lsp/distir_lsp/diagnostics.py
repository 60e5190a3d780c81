"""Diagnostics in the protocol's terms: sent when they are found, or given when the client asks."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from distir import __version__
from distir.diagnostics import Note, Report, Span
from distir.diagnostics.explain import explain
from distir.files.cache import cache_folder
from distir.files.reading import OURS, read_text
from distir.ide.diagnostics import Finding, FindingSeverity, findings
from distir_lsp.addresses import address_of
from distir_lsp.positions import Positions
from distir_lsp.protocol import Raw
from distir_lsp.workspace import Open

if TYPE_CHECKING:
    from distir_lsp.server import DistirServer

SEVERITIES = {FindingSeverity.ERROR: 1, FindingSeverity.WARNING: 2, FindingSeverity.INFORMATION: 3}
UNNECESSARY = 1

MOST_SENT = 1_000
"""Editors show no more, and each costs time with every key."""


def register(server: DistirServer) -> None:
    """Give diagnostics to clients that ask for them."""

    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(inter_file_dependencies=False, workspace_diagnostics=False, identifier="distir"),
    )
    def pulled(params: types.DocumentDiagnosticParams) -> Raw:  # pyright: ignore[reportUnusedFunction]
        found = server.documents.get(params.text_document.uri)
        if found is None:
            return Raw('{"kind":"full","items":[]}')
        items = as_json(server, found)  # first: it may be what makes the stamp old
        stamp = f"{found.version}.{found.stamp}"
        if params.previous_result_id == stamp:
            return Raw(f'{{"kind":"unchanged","resultId":"{stamp}"}}')
        return Raw(f'{{"kind":"full","resultId":"{stamp}","items":{json.dumps(items)}}}')


def publish(server: DistirServer, found: Open) -> None:
    """Send all that is known to be wrong with the latest version of a document."""
    items = as_json(server, found)
    params = {"uri": found.uri, "version": found.version, "diagnostics": items}
    server.protocol.notify_raw(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, json.dumps(params))


def publish_reports(server: DistirServer, reports: Sequence[Report]) -> None:
    """Send what is wrong with settings files; files of which nothing is said any more are cleared."""
    by_uri: dict[str, list[dict[str, Any]]] = {uri: [] for uri in server.reported}
    for report in reports:
        uri = address_of(os.path.abspath(report.source.path))
        writer = _Writer(server, uri, Positions(report.source.text, server.encoding))
        written = [writer.item(Finding(d, FindingSeverity(d.severity.value))) for d in report.diagnostics]
        known = by_uri.get(uri, [])
        by_uri[uri] = [*known, *(item for item in written if item not in known)]
    for uri, items in by_uri.items():
        params = {"uri": uri, "diagnostics": items}
        server.protocol.notify_raw(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, json.dumps(params))
    server.reported = {uri for uri, items in by_uri.items() if items}


def as_json(server: DistirServer, found: Open) -> list[dict[str, Any]]:
    """The findings of the latest version of a document."""
    document = found.current()
    if document is None:
        return []
    writer = _Writer(server, found.uri, found.positions)
    advised = found.advice() if found.settings.advice == "problems" else None
    shown = findings(document, found.simulated, found.proved, advised)
    items = [writer.item(finding) for finding in shown[:MOST_SENT]]
    if len(shown) > MOST_SENT:
        message = f"{len(shown) - MOST_SENT} more findings are not shown; `distir check` lists them all"
        items.append({"range": writer.range(Span(0, 0)), "severity": 3, "source": "distir", "message": message})
    return items


class _Writer:
    """Writes findings as the client understands them."""

    def __init__(self, server: DistirServer, uri: str, positions: Positions) -> None:
        self.uri, self.positions = uri, positions
        text = server.client_capabilities.text_document
        can: Any = (text.publish_diagnostics if text is not None else None) or (
            text.diagnostic if text is not None else None
        )
        self.has_related = bool(getattr(can, "related_information", False))
        self.has_tags = getattr(can, "tag_support", None) is not None
        self.has_links = bool(getattr(can, "code_description_support", False))

    def item(self, finding: Finding) -> dict[str, Any]:
        """One diagnostic. Notes that have no place, and what to do, are in the message."""
        diagnostic = finding.diagnostic
        related = [note for note in diagnostic.notes if isinstance(note.site, Span)] if self.has_related else []
        notes = [f"note: {note.message}" for note in diagnostic.notes if note not in related]
        helps = [f"help: {diagnostic.help}"] if diagnostic.help else []
        item: dict[str, Any] = {
            "range": self.range(finding.span),
            "severity": SEVERITIES[finding.level],
            "code": diagnostic.code.number,
            "source": "distir",
            "message": "\n".join([diagnostic.message, *notes, *helps]),
        }
        if related:
            item["relatedInformation"] = [self._related(note) for note in related]
        if finding.faded and self.has_tags:
            item["tags"] = [UNNECESSARY]
        if self.has_links and (link := documentation(diagnostic.code.number)) is not None:
            item["codeDescription"] = {"href": link}
        return item

    def range(self, span: Span) -> dict[str, Any]:
        (line, column), (end_line, end_column) = self.positions.place(span.start), self.positions.place(span.end)
        start = {"line": line, "character": column}
        return {"start": start, "end": {"line": end_line, "character": end_column}}

    def _related(self, note: Note) -> dict[str, Any]:
        assert isinstance(note.site, Span)
        return {"location": {"uri": self.uri, "range": self.range(note.site)}, "message": note.message}


@cache
def documentation(number: str) -> str | None:
    """The address of a code's documentation: a file beside the user's other caches, written when it is first linked to.

    None where it cannot be written.
    """
    folder = cache_folder(__version__)
    if folder is None:
        return None
    try:
        path = folder / f"{number}.md"
        text = explain(number)
        if not path.exists() or read_text(path, OURS, "replace") != text:
            path.write_text(text, "utf-8")
    except (OSError, LookupError):
        return None
    return path.as_uri()
