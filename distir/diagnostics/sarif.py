"""Diagnostics as SARIF 2.1.0, for GitHub code scanning and other viewers: `check --format sarif`.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; the section numbers below are of that document. What
GitHub asks for beyond it: https://docs.github.com/en/code-security/code-scanning (SARIF support).
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from distir.diagnostics.core import Code, Diagnostic, Source, Span
from distir.diagnostics.json_form import dump
from distir.diagnostics.paths import uri
from distir.diagnostics.report import Report, line_extent, placed_notes, remarks, span_within
from distir.ir import Site

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"

_WIDE = re.compile("[\U00010000-\U0010ffff]")  # two UTF-16 code units each
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")  # `Send[device = 2](%x)` would be read as a link, §3.11.6
_HASHED = 1000  # characters of a line that tell it from others


def sarif(reports: Sequence[Report]) -> str:
    """One run, its rules the codes that occur."""
    found = {d.code.number: d.code for report in reports for d in report.diagnostics}
    codes = [found[number] for number in sorted(found)]
    index = {code.number: i for i, code in enumerate(codes)}
    driver: dict[str, object] = {"name": "DistIR", "rules": [_rule(code) for code in codes]}
    if version := _version():
        driver["version"] = version
    run = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",  # §3.14.17
        "results": [result for report in reports for result in _results(report, index)],
    }
    return dump({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(code: Code) -> dict[str, object]:
    return {
        "id": code.number,
        "name": code.name,
        "shortDescription": {"text": code.title},
        "fullDescription": {"text": code.summary},
        "help": {"text": code.documentation, "markdown": code.documentation},
        "defaultConfiguration": {"level": code.severity.value},
    }


def _results(report: Report, index: dict[str, int]) -> list[dict[str, object]]:
    """§3.27."""
    text = _Text(report.source, uri(report.source.path), [m.start() for m in _WIDE.finditer(report.source.text)])
    seen: Counter[str] = Counter()
    results: list[dict[str, object]] = []
    for diagnostic in report.in_order():
        fingerprint = _fingerprint(report.source, diagnostic)
        seen[fingerprint] += 1
        result: dict[str, object] = {
            "ruleId": diagnostic.code.number,
            "ruleIndex": index[diagnostic.code.number],
            "level": diagnostic.severity.value,
            "message": _message("\n".join([diagnostic.message, *remarks(diagnostic)])),
            "locations": [_location(text, diagnostic.site)],
            "partialFingerprints": {"codeAndLine/v1": f"{fingerprint}:{seen[fingerprint]}"},
        }
        if notes := placed_notes(diagnostic):
            result["relatedLocations"] = [
                {"id": i, **_location(text, note.site), "message": _message(note.message)}
                for i, note in enumerate(notes)
            ]
        results.append(result)
    return results


def _message(text: str) -> dict[str, object]:
    """§3.11, a plain text."""
    return {"text": _LINK.sub(r"\\[", text)}


@dataclass(frozen=True, slots=True)
class _Text:
    """A text, what it is called, and the offsets of its characters that take two UTF-16 code units."""

    source: Source
    uri: str
    wide: list[int]


def _location(text: _Text, site: Site | Span | None) -> dict[str, object]:
    """§3.28. What has no place is put on the first line: GitHub wants a line for everything."""
    region = {"startLine": 1}
    if span := span_within(text.source, site):
        line, column = _position(text, span.start)
        end_line, end_column = _position(text, span.end)
        region = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
    return {"physicalLocation": {"artifactLocation": {"uri": text.uri}, "region": region}}


def _position(text: _Text, offset: int) -> tuple[int, int]:
    """The line, and the column in UTF-16 code units."""
    line, column = text.source.position(offset)
    line_start = offset - column + 1
    return line, column + bisect_left(text.wide, offset) - bisect_left(text.wide, line_start)


def _fingerprint(source: Source, diagnostic: Diagnostic) -> str:
    """The same for the same finding in a line that has moved."""
    line = ""
    if span := span_within(source, diagnostic.site):
        extent = line_extent(source, source.position(span.start)[0])
        line = source.text[extent.start : min(extent.end, extent.start + _HASHED)].strip()
    content = f"{diagnostic.code.number}\n{line}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:16]


def _version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("distir")
    except PackageNotFoundError:  # a checkout that is not installed
        return None
