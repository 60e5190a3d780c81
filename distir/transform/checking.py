"""Checks programs before and after a transform: no step may give a program that does not check.

Each module is checked once: the result of a step is the input of the next.
"""

from __future__ import annotations

from textwrap import shorten

from distir.analysis import Analysis, analysed, check
from distir.diagnostics import Diagnostic, Note, ProgramError, Severity
from distir.diagnostics.codes import transforms as codes
from distir.ir import Module, Site
from distir.syntax import print_statement

LONGEST = 200
"""Characters of a statement in a message: constants may be large."""


def checked(module: Module, only: str | None = None) -> Analysis:
    """The analysis of a module, or of one function and its calls. Raises ProgramError for mistakes."""
    if only is None:
        analysis = analysed(module)
        found = analysis.problems
    else:
        analysis = check(module, late=True)
        found = analysis.domain.own_problems(only)
    errors = tuple(d for d in found if d.severity is Severity.ERROR)
    if errors:
        raise ProgramError(errors)
    return analysis


def check_result(step: str, given: Module, made: Module) -> None:
    """Check the result of a step, which was written as `tp=2`, say.

    Raises ProgramError: with the mistakes of `given`, the step's input, if it has any, else with DIR606.
    """
    errors = analysed(made).errors
    if errors:
        checked(given)
        raise ProgramError([broken(step, given, made, errors[0])])


def checked_result(step: str, given: Module, made: Module, only: str) -> Analysis:
    """The analysis of one function and its calls, after a part of a step. Raises ProgramError, DIR606."""
    try:
        return checked(made, only)
    except ProgramError as error:
        raise ProgramError([broken(step, given, made, error.diagnostics[0])]) from None


def broken(step: str, given: Module, made: Module, error: Diagnostic) -> Diagnostic:
    """The diagnostic for a step whose result does not check, located at the entry function of its input."""
    entry, site, where = given.entry(), error.site, ""
    if isinstance(site, Site):
        where = f", in `@{site.function}`"
        if site.index is not None:
            statement = print_statement(made.functions[site.function].body[site.index])
            where += f" at `{shorten(statement, LONGEST, placeholder=' …')}`"
    message = f"`{step}` gives a program that does not check: {error.code}{where}: {error.message}"
    notes = tuple(Note(note.message) for note in error.notes)
    hint = "the step is at fault, not the program: please report both"
    return Diagnostic(codes.BROKEN_RESULT, Site(entry.name) if entry else None, message, notes, hint)
