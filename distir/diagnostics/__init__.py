"""One `Diagnostic` type for the command line, the editor and the API; each code once, with documentation."""

from distir.diagnostics.core import CODES, Code, Diagnostic, Note, ProgramError, Severity, Source, Span
from distir.diagnostics.report import Report
from distir.diagnostics.spelling import nearest, suggestion

__all__ = [
    "CODES",
    "Code",
    "Diagnostic",
    "Note",
    "ProgramError",
    "Report",
    "Severity",
    "Source",
    "Span",
    "nearest",
    "suggestion",
]
