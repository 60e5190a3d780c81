"""Inlining: the bodies of functions in the place of their calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle

from distir.diagnostics.nearest import suggestion
from distir.ir import (
    DISCARD,
    UNKNOWN,
    Apply,
    Arg,
    Broken,
    Call,
    Claims,
    Function,
    Module,
    Return,
    Statement,
    Type,
    results,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.calls import callees_first
from distir.transform.common_subexpressions import substituted, with_arguments
from distir.transform.dead_code import with_results
from distir.transform.entry import entry_names
from distir.transform.steps import StepError, step


@step(after=("grad", "checkpoint", "pp", "tp", "dp", "dtp", "zero"))
def inline(module: Module, functions: tuple[str, ...] | None = None) -> Module:
    """Write the bodies of functions in the place of their calls: of all functions, or of `inline=layer,dense`.

    Values keep their names where these are free. Functions that nothing calls any more are removed.
    """
    chosen = {name.removeprefix("@") for name in functions or module.functions}
    for name in chosen - set(module.functions):
        hint = suggestion(name, module.functions)
        raise StepError(f"`inline` expected functions of the program, found `{name}`" + (f"; {hint}" if hint else ""))
    chosen -= set(entry_names(module))
    done: dict[str, Function] = {}
    for function in callees_first(module):
        done[function.name] = _expanded(function, done, chosen)
    called = {s.function for f in done.values() for s in f.body if isinstance(s, Call)}
    unused = {name for name in chosen if name not in called and _is_called(module, name)}
    return Module(done[f.name] for f in module if f.name not in unused)


def _is_called(module: Module, name: str) -> bool:
    return any(isinstance(s, Call) and s.function == name for f in module for s in f.body)


def _expanded(function: Function, done: Mapping[str, Function], chosen: set[str]) -> Function:
    """The function with the chosen ones of its calls written out."""
    if not any(isinstance(s, Call) and s.function in chosen for s in function.body):
        return function
    builder = FunctionBuilder(function.name)
    for name in (*(p.name for p in function.params), *(n for s in function.body for n in results(s))):
        if name != DISCARD:
            builder.fresh(name)
    instead: dict[str, Arg] = {}
    body: list[Statement] = []
    for statement in function.body:
        statement = with_arguments(statement, instead)
        if isinstance(statement, Call) and statement.function in chosen:
            body += _written_out(statement, done[statement.function], builder, instead)
        else:
            body.append(statement)
    return Function(function.name, function.params, tuple(body), function.result_types)


def _written_out(
    call: Call, callee: Function, builder: FunctionBuilder, instead: dict[str, Arg]
) -> Iterable[Statement]:
    """The callee's statements with the caller's names. `instead` learns what stands for the call's results."""
    renamed: dict[str, Arg] = {}
    for param, arg in zip(callee.params, call.args, strict=True):
        renamed[param.name] = arg
        if isinstance(arg, tuple):  # a list as an argument is a tuple
            renamed[param.name] = made = builder.fresh(param.name)
            yield Apply((made,), "MakeTuple", arg)
    given: dict[str, str] = {}
    stated: dict[str, Type] = {}
    for name, arg, claim in zip(call.results, callee.returned, call.claims or cycle((None,)), strict=False):
        if isinstance(arg, str) and name != DISCARD and arg not in renamed:
            given.setdefault(arg, name)
            if claim is not None:
                stated[arg] = types.meet(stated.get(arg, UNKNOWN), claim) or claim
    for statement in callee.body:
        if isinstance(statement, (Return, Broken)):
            continue
        inner = with_arguments(statement, renamed)
        assert isinstance(inner, (Apply, Call))
        for name in inner.results:
            if name != DISCARD:
                renamed[name] = given.get(name) or builder.fresh(name)
        named = tuple(str(renamed[name]) if name != DISCARD else DISCARD for name in inner.results)
        yield _with_claims(with_results(inner, named), _stated_too(_kept_claims(inner.claims), inner.results, stated))
    for name, arg in zip(call.results, substituted(callee.returned, renamed), strict=True):
        if name == DISCARD or arg == name:
            continue
        if isinstance(arg, tuple):
            yield Apply((name,), "MakeTuple", arg)
        else:
            instead[name] = arg


def _kept_claims(claims: Claims) -> Claims:
    """Without claims in terms of the callee's named dimensions, which the caller does not know."""
    kept = tuple(None if claim is None or types.dim_names(claim) else claim for claim in claims)
    return kept if any(claim is not None for claim in kept) else ()


def _stated_too(claims: Claims, made: Sequence[str], stated: Mapping[str, Type]) -> Claims:
    """Claims of results with what the call claims of them, by the callee's names."""
    if stated.keys().isdisjoint(made):
        return claims
    found: list[Type | None] = []
    for claim, name in zip(claims or (None,) * len(made), made, strict=True):
        more = stated.get(name)
        found.append(claim if more is None else more if claim is None else types.meet(claim, more) or claim)
    return tuple(found)


def _with_claims(statement: Apply | Call, claims: Claims) -> Apply | Call:
    if isinstance(statement, Apply):
        return Apply(statement.results, statement.op, statement.args, statement.attrs, claims)
    return Call(statement.results, statement.function, statement.args, claims)
