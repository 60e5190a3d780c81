"""Drops the inner values of runs of blocks, and recomputes them where the backward pass needs them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from distir.ir import DISCARD, Apply, Arg, Call, Function, Statement, names, operands
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.rewrite import with_operands
from distir.transform.checkpoint.blocks import TrainingStep
from distir.transform.dead_code import live


def recomputed(entry: Function, turn: int, inside: Mapping[str, Apply | Call]) -> Function | None:
    """The entry function with the values `inside` dropped before statement `turn`, and recomputed as late as possible.

    `inside`: by value, the statement that computes it. None if the backward pass uses none of them.
    """
    back = _WayBack(namer(entry), inside, {})
    body = list(entry.body[:turn])
    for statement in entry.body[turn:]:
        back.need(names(operands(statement)), body)
        body.append(with_operands(statement, back.again))
    if not back.again:
        return None
    last = body.pop()
    kept = (*live(body, names(operands(last))), last)
    return replace(entry, body=kept)


def inside_runs(
    entry: Function, step: TrainingStep, count: int, layers: int, host: Container[str]
) -> dict[str, Apply | Call]:
    """The values used within their run of `count` blocks alone before the backward pass, and their statements.

    For the first `layers` blocks. Values on the `host` take no device memory and are left out, as are values passed
    from one run to the next.
    """
    run_of = {i: number // count for number, block in enumerate(step.blocks[:layers]) for i in block}
    outside = {*names(entry.returned), *step.prepared}
    found: dict[str, tuple[int, Apply | Call]] = {}
    for index, statement in enumerate(entry.body[: step.turn]):
        run = run_of.get(index)
        outside.update(n for n in names(operands(statement)) if n in found and found[n][0] != run)
        if run is not None and isinstance(statement, (Apply, Call)):
            found.update({name: (run, statement) for name in statement.results if name != DISCARD and name not in host})
    return {name: statement for name, (_, statement) in found.items() if name not in outside}


@dataclass(slots=True)
class _WayBack:
    """The values recomputed so far: new names by old ones."""

    namer: FunctionBuilder
    inside: Mapping[str, Apply | Call]
    again: dict[str, Arg]

    def need(self, wanted: Iterable[str], body: list[Statement]) -> None:
        """Append the statements that recompute the values wanted, as far as they were dropped."""
        pending = [name for name in wanted if name in self.inside and name not in self.again]
        while pending:
            name = pending[-1]
            if name in self.again:
                pending.pop()
                continue
            made = self.inside[name]
            missing = [n for n in names(made.args) if n in self.inside and n not in self.again]
            pending += missing
            if not missing:
                body.append(self._made_again(pending.pop()))

    def _made_again(self, name: str) -> Statement:
        made = self.inside[name]
        results = tuple(n and self.namer.fresh(f"{n}_again") if n in self.inside else DISCARD for n in made.results)
        statement = with_operands(made, self.again)
        assert isinstance(statement, (Apply, Call))
        self.again.update({old: new for old, new in zip(made.results, results, strict=True) if new})
        facts = replace(statement.facts, phase="backward") if statement.facts.phase else statement.facts
        return replace(statement, results=results, facts=facts)
