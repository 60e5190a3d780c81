"""`distir fmt`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import output
from distir.cli.endings import REFUSED, WRONG, Refused, Wrong
from distir.cli.files import STDIN, expand, replace_file, shown
from distir.cli.programs import read_text
from distir.diagnostics import ProgramError, Report, terminal

if TYPE_CHECKING:
    from distir.syntax import Syntax


def fmt(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, folders, or `-` for standard input to output.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; list what would change, with exit code 1.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Write nothing; show what would change.")] = False,
    facts: Annotated[
        bool, typer.Option("--facts", help="State what follows of statements: phases, microbatches, parameters.")
    ] = False,
) -> int:
    """Rewrite programs in canonical form.

    Comments are preserved. Files are replaced atomically; files in canonical form and files with syntax errors are
    unchanged.

    For example:

        distir fmt models/

        distir fmt --check --diff program.dir

        cat program.dir | distir fmt -
    """
    changed, unchanged = 0, 0
    wrong: list[Report] = []
    unread: list[Refused] = []
    for path in expand(paths):
        try:
            with output.progress(f"formatting {shown(path)}"):
                old = read_text(path)
                new = _formatted(old, shown(path), facts)
            changed, unchanged = changed + (old != new), unchanged + (old == new)
            if check and old != new:
                output.report(shown(path))
            if diff:
                _show_difference(old, new, shown(path))
            if not (check or diff):
                _put(path, old, new)
        except Wrong as ending:
            wrong += ending.reports
        except Refused as refused:
            unread.append(refused)
    terminal.write(wrong, sys.stderr)
    for refused in unread:
        output.complain("error", refused.message, refused.help)
    verb = "would change" if check or diff else "changed"
    output.tell_terminal(f"{changed} file{'' if changed == 1 else 's'} {verb}, {unchanged} unchanged")
    return REFUSED if unread else WRONG if wrong or (check and changed) else 0


def _formatted(text: str, name: str, facts: bool) -> str:
    """The canonical text. Raises Wrong for one with syntax errors."""
    from distir.ops import canonical
    from distir.syntax import format, parse  # noqa: A004 - the verb users know

    syntax = parse(text, name, canonical)
    try:
        return format(_with_facts(syntax) if facts else syntax)
    except ProgramError as error:
        raise Wrong([Report(syntax.source, error.diagnostics)]) from None


def _with_facts(syntax: Syntax) -> Syntax:
    from distir.analysis.provenance import with_facts

    entry = syntax.module.entry()
    if entry is None or len({f.function.name for f in syntax.functions}) != len(syntax.functions):
        return syntax  # two of a name are no program
    stated = with_facts(syntax.module, entry).functions
    return replace(syntax, functions=tuple(replace(f, function=stated[f.function.name]) for f in syntax.functions))


def _put(path: str, old: str, new: str) -> None:
    if path == STDIN:
        output.write_exactly(new.encode())
    elif new != old:
        replace_file(path, new.encode())


def _show_difference(old: str, new: str, name: str) -> None:
    from distir.cli.line_diff import unified

    colours = {"+": "32", "-": "31", "@": "36"} if output.in_colour(sys.stdout) else {}
    for line in unified(_lines(old), _lines(new), name, f"{name} (formatted)"):
        bare = line.rstrip("\n")
        colour = None if line.startswith(("+++", "---")) else colours.get(line[:1])
        output.report(bare, colour)


def _lines(text: str) -> list[str]:
    """A text's lines; a last one without an end says so, as in every diff."""
    lines = text.split("\n")
    ended = [line + "\n" for line in lines[:-1]]
    return [*ended, lines[-1] + "\n\\ No newline at end of file\n"] if lines[-1] else ended
