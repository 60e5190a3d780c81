"""Every form in which diagnostics are written. A new one is a function and an entry here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distir.diagnostics.github import github
from distir.diagnostics.json_form import json_form
from distir.diagnostics.report import Report
from distir.diagnostics.sarif import sarif
from distir.diagnostics.terminal import text

Format = Callable[[Sequence[Report]], str]
"""From the reports of a run, one per text that was read, to a whole document that ends in a new line, or is empty."""

FORMATS: dict[str, Format] = {
    "text": text,
    "json": json_form,
    "sarif": sarif,
    "github": github,
}
"""By the name that `--format` takes. To a terminal, `terminal.write` does the first one better."""
