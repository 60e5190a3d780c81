"""What one device runs of a program, as text, with the places that its statements come from."""

from __future__ import annotations

from dataclasses import dataclass

from distir.diagnostics import ProgramError, Span
from distir.ide.document import Document
from distir.ir import DISCARD, Function, Site, results
from distir.lower.projection import project
from distir.simulate.setup import SetupError
from distir.simulate.simulation import BindError
from distir.syntax import parse, print_module


@dataclass(frozen=True, slots=True)
class Link:
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
    links: tuple[Link, ...]


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


def _links(document: Document, text: str) -> list[Link]:
    """Statements are known by the values that they define, which keep their names."""
    functions = document.program.module.functions
    syntax = parse(text)
    found: list[Link] = []
    for written in syntax.functions:
        whole = functions.get(written.function.name)
        if whole is None:
            continue
        places = _definitions(whole)
        for index, statement in enumerate(written.function.body):
            number = next((places[name] for name in results(statement) if name in places), None)
            if number is not None:
                line = syntax.source.position(written.starts[index])[0]
                span = document.program.syntax.source_map(Site(whole.name, number))
                found.append(Link(line, whole.name, number, span))
    return found


def _definitions(function: Function) -> dict[str, int]:
    return {name: index for index, s in enumerate(function.body) for name in results(s) if name != DISCARD}
