"""`distir explain`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from distir.cli import options, output
from distir.cli.endings import Refused


def explain(
    code: Annotated[
        str | None,
        typer.Argument(metavar="CODE", help="The number or name of a diagnostic. [default: list all]"),
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Explain a diagnostic, with an example.

    For example:

        distir explain DIR301

        distir explain
    """
    from distir.diagnostics.explain import explain as documentation

    if code is None:
        return _list(as_json)
    try:
        text = documentation(code)
    except LookupError as error:
        message, _, hint = str(error.args[0]).partition("; ")
        raise Refused(message, hint or "`distir explain` lists them all") from None
    if as_json:
        from distir.diagnostics import CODES

        found = CODES[text.split(":")[0].removeprefix("# ")]
        output.write_json(
            {"code": found.number, "name": found.name, "severity": found.severity, "documentation": found.documentation}
        )
        return 0
    from distir.diagnostics import terminal

    terminal.write_explanation(code, sys.stdout)
    return 0


def _list(as_json: bool) -> int:
    from distir.diagnostics.explain import all_codes

    codes = sorted(all_codes().values(), key=lambda c: c.number)
    if as_json:
        output.write_json([{"code": c.number, "name": c.name, "severity": c.severity, "title": c.title} for c in codes])
        return 0
    from rich.text import Text

    listed = output.table("code", "name", "severity", "meaning")
    for c in codes:
        listed.add_row(Text(c.number), Text(c.name), Text(c.severity), Text(c.title.rstrip(".").replace("`", "")))
    output.lay_out(listed)
    return 0
