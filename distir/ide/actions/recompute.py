"""Recomputing a value instead of holding it: less memory for more time, both as simulated.

Where computing one value again only keeps its operands instead, these are computed again with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from distir.cost import show_bytes, show_seconds
from distir.diagnostics import Span
from distir.ide.actions.core import REWRITE, Action, renamed_in, statement_at
from distir.ide.actions.schedule import saved, simulated_after
from distir.ide.document import Document
from distir.ide.edits import Edit, before_statement
from distir.ide.instances import facts
from distir.ir import DISCARD, Apply, Call, Return, Statement, names, operands, results
from distir.ir.builder import namer
from distir.ir.rewrite import with_operands
from distir.ops import OPS
from distir.syntax import FunctionSyntax

TRIED = 3
"""How many operands are tried."""

LONGEST_CHAIN = 8
"""How many statements are computed again for one value at most."""


def recomputations(document: Document, span: Span) -> Iterator[Action]:
    """Compute operands of the statement at a place again instead of keeping them, where that saves memory."""
    chosen = statement_at(document, span)
    simulation = document.simulation
    if chosen is None or simulation is None or facts(document).shown(chosen[0].function.name) is None:
        return
    written, index = chosen
    body = written.function.body
    made = {name: i for i, statement in enumerate(body[:index]) for name in results(statement) if name}
    tried = 0
    for name in dict.fromkeys(names(operands(body[index]))):
        if tried >= TRIED or name not in made or not _is_kept(body, name, made[name], index):
            continue
        tried += 1
        for chain in _chains(body, made, made[name], index):
            edits = tuple(_again(document, written, name, chain, index))
            after = simulated_after(document, edits)
            less = {} if after is None else saved(simulation, after)
            if after is None or not less or min(less.values()) < 0:
                continue
            memory = ", ".join(f"{show_bytes(n)} less on device {device}" for device, n in less.items())
            change = after.latency_s - simulation.latency_s
            time = "no longer" if change <= 0 else f"{show_seconds(change)} longer"
            more = f" with what it is made of ({len(chain) - 1} more)" if len(chain) > 1 else ""
            yield Action(f"recompute `%{name}` here{more} instead of keeping it: {memory}, {time}", REWRITE, edits)
            break


def _is_kept(body: Sequence[Statement], name: str, at: int, index: int) -> bool:
    """Whether a value waits from an earlier use for this one, and an op or call that no device waits for makes it."""
    is_used = any(name in names(operands(body[i])) for i in range(at + 1, index))
    return is_used and _is_made_again(body[at], views=False)


def _is_made_again(statement: Statement, views: bool = True) -> bool:
    """Whether an op or call can be run once more: nothing that communicates. `views`: also what costs nothing."""
    if isinstance(statement, Apply):
        return statement.op in OPS and OPS[statement.op].communication is None and (views or not OPS[statement.op].view)
    return isinstance(statement, Call)


def _chains(body: Sequence[Statement], made: Mapping[str, int], at: int, index: int) -> Iterator[tuple[int, ...]]:
    """The statements to run again: the one that defines a value, then more and more of those that it depends on.

    What is used from the statement `index` on is there anyway.
    """
    alive = {name for statement in body[index:] for name in names(operands(statement))}
    chain = {at}
    while len(chain) <= LONGEST_CHAIN:
        yield tuple(sorted(chain))
        needed = {made[n] for i in chain for n in names(operands(body[i])) if n in made and n not in alive} - chain
        again = {number for number in needed if _is_made_again(body[number])}
        if not again:
            return
        chain |= again


def _again(document: Document, written: FunctionSyntax, name: str, chain: Sequence[int], index: int) -> Iterator[Edit]:
    """The edits that recompute a value before a statement, for it and later ones."""
    body = written.function.body
    fresh = namer(written.function)
    used = {name} | {n for number in chain for n in names(operands(body[number]))}
    renamed: dict[str, str] = {}
    again: list[Statement] = []
    for number in chain:
        statement = body[number]
        assert isinstance(statement, (Apply, Call))
        moved = with_operands(statement, renamed)
        assert isinstance(moved, (Apply, Call))
        for made in statement.results:
            if made in used and made != DISCARD:
                renamed[made] = fresh.fresh(f"{made}_again")
        kept = tuple(renamed.get(made, DISCARD) for made in statement.results)
        again.append(replace(moved, results=kept))
    yield from before_statement(document.program.syntax, written, index, again)
    for later in range(index, len(body)):
        if name in names(operands(body[later])) and not isinstance(body[later], Return):
            yield from renamed_in(document, written, later, name, renamed[name])
