"""The program of one device, as text, with the origins of its statements."""

from __future__ import annotations

from dataclasses import dataclass

from distir.diagnostics import ProgramError, Span
from distir.ide.document import Document
from distir.ir import DISCARD, Apply, Function, Site, Statement, results
from distir.lower.projection import project
from distir.simulate.setup import SetupError
from distir.simulate.simulation import BindError
from distir.syntax import parse, print_module


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """A line of the rank's program, from 1, and the statement of the whole program that it comes from."""

    line: int
    function: str
    statement: int
    span: Span | None


@dataclass(frozen=True, slots=True)
class RankProgram:
    """The program of one rank. `ranks`: all there are."""

    rank: int
    ranks: tuple[int, ...]
    text: str
    links: tuple[LineOrigin, ...]


def rank_program(document: Document, rank: int) -> RankProgram:
    """The program of one device. Raises LookupError with the reason where there is none."""
    analysis, entry = document.program.analysis, document.entry
    if entry is None or document.program.errors:
        raise LookupError("the program has errors" if document.program.errors else "the text holds no function")
    try:
        found = project(analysis, analysis.instance(entry, document.arguments))
    except (ProgramError, BindError, SetupError) as error:
        raise LookupError(str(error)) from None
    if rank not in found:
        raise LookupError(f"nothing runs on device {rank}; there are {', '.join(map(str, found)) or 'none'}")
    text = print_module(found[rank])
    return RankProgram(rank, tuple(found), text, tuple(_links(document, text)))


def origins(function: Function, whole: Function) -> list[int | None]:
    """For each statement of a rank's function, the statement of the whole program's that it comes from.

    They are in the same order, and the values that they define keep their names. A message whose results other ranks
    hold defines none here: it is known by its operands.
    """
    numbers = {name: number for number, s in enumerate(whole.body) for name in results(s) if name != DISCARD}
    found: list[int | None] = []
    reached = 0
    for statement in function.body:
        number = next((numbers[name] for name in results(statement) if name in numbers), None)
        if number is None and isinstance(statement, Apply):
            rest = range(reached, len(whole.body))
            number = next((i for i in rest if _is_same(statement, whole.body[i])), None)
        found.append(number)
        reached = number + 1 if number is not None else reached
    return found


def _is_same(statement: Apply, other: Statement) -> bool:
    return isinstance(other, Apply) and (other.op, other.args, other.attrs) == (
        statement.op,
        statement.args,
        statement.attrs,
    )


def _links(document: Document, text: str) -> list[LineOrigin]:
    functions = document.program.module.functions
    syntax = parse(text)
    found: list[LineOrigin] = []
    for written in syntax.functions:
        whole = functions.get(written.function.name)
        if whole is None:
            continue
        for index, number in enumerate(origins(written.function, whole)):
            if number is not None:
                line = syntax.source.position(written.starts[index])[0]
                span = document.program.syntax.source_map(Site(whole.name, number))
                found.append(LineOrigin(line, whole.name, number, span))
    return found
