"""Common subexpression elimination."""

from __future__ import annotations

from distir.ir import DISCARD, Apply, Arg, Call, Function, Module, Statement
from distir.ir.rewrite import Rewriter, with_operands
from distir.transform.dead_code import with_results
from distir.transform.steps import always, step


@step(on_mesh=True, tries=always("cse"))
def cse(module: Module) -> Module:
    """Common subexpression elimination: replace an op or call by an earlier one with the same operands.

    This undoes recomputation and repeated sends that save memory; apply it before such steps.
    """
    return Module(map(_distinct, module))


def _distinct(function: Function) -> Function:
    edit = Rewriter(function)
    first: dict[object, int] = {}
    same: dict[str, Arg] = {}
    for index, statement in edit:
        statement = with_operands(statement, same)
        edit.replace(index, statement)
        if isinstance(statement, (Apply, Call)) and (earlier := first.setdefault(_key(statement), index)) != index:
            edit.replace(earlier, _merged(edit[earlier], statement, same))
            edit.erase(index)
    return edit.done()


def _key(statement: Apply | Call) -> tuple[object, ...]:
    """Equal for two statements with equal ops, operands, streams and claims."""
    if isinstance(statement, Apply):
        what: tuple[object, ...] = ("op", statement.op, statement.attrs)
    else:
        what = ("call", statement.function)
    return (*what, statement.args, len(statement.results), statement.claims, statement.stream)


def _merged(earlier: Statement, later: Apply | Call, same: dict[str, Arg]) -> Statement:
    """The earlier statement, with names also for those results that only the later one uses."""
    assert isinstance(earlier, (Apply, Call))
    results = tuple(a or b for a, b in zip(earlier.results, later.results, strict=True))
    same.update({b: a for a, b in zip(results, later.results, strict=True) if b not in (DISCARD, a)})
    return with_results(earlier, results)
