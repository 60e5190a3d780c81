"""Inlining of calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle

from distir.analysis.size import MOST_WRITTEN, refuse_beyond
from distir.diagnostics.spelling import suggestion
from distir.ir import (
    DISCARD,
    UNKNOWN,
    Apply,
    Arg,
    Broken,
    Call,
    Claims,
    Facts,
    Function,
    Module,
    Return,
    Statement,
    Type,
    types,
)
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.calls import called_by, callees, inlined_sizes
from distir.ir.deep import Deep, finish
from distir.ir.rewrite import on_stream, state_since, substituted, with_operands
from distir.transform.dead_code import with_results
from distir.transform.entry import entry_names
from distir.transform.steps import StepError, step, tell


@step(after=("grad", "checkpoint", "pp", "accumulate", "tp", "dp", "dtp", "zero", "mesh"), on_mesh=True)
def inline(module: Module, functions: tuple[str, ...] | None = None) -> Module:
    """Inline calls: of all functions, or of `inline=layer,dense`.

    Values keep their names unless these are taken. Functions without calls are removed. Raises ProgramError if a
    function would have more than a million statements.
    """
    chosen = {name.removeprefix("@") for name in functions or module.functions}
    for name in chosen - set(module.functions):
        hint = suggestion(name, module.functions)
        raise StepError(f"`inline` expected functions of the program, found `{name}`" + (f"; {hint}" if hint else ""))
    chosen -= set(entry_names(module))
    called = called_by(module)
    kept = [function for function in module if function.name not in chosen & called]
    sizes = inlined_sizes(module, chosen)
    for function in kept:
        refuse_beyond(sizes[function.name], MOST_WRITTEN, function.name, "`inline` writes")
    kernels = [name for name in sorted(chosen & called) if module.functions[name].kernel]
    if kernels:
        more = f" and {len(kernels) - 1} more" if len(kernels) > 1 else ""
        tell(f"no kernel any more: `@{kernels[0]}`{more}; each op takes its own time, `fuse` makes kernels again")
    return Module(_inlined(module, chosen, function) for function in kept)


def without_calls(module: Module) -> Module:
    """The module with all calls in its entry function, and in those that go with it, inlined: of kernels, too.

    The module itself where one of these would have more than a million statements.
    """
    kept, sizes = set(entry_names(module)), inlined_sizes(module)
    if any(sizes[name] > MOST_WRITTEN for name in kept):
        return module
    chosen = set(module.functions) - kept
    return Module(_inlined(module, chosen, function) for function in module if function.name in kept)


def _inlined(module: Module, chosen: set[str], function: Function) -> Function:
    if chosen.isdisjoint(callees(function)):
        return function
    inlining, instead = _Inlining(module, chosen, function, namer(function)), dict[str, Arg]()
    for statement in function.body:
        finish(inlining.write(with_operands(statement, instead), instead))
    return replace(function, body=tuple(inlining.body))


def inlined_call(
    module: Module, function: Function, call: Call, builder: FunctionBuilder
) -> tuple[list[Statement], dict[str, Arg]]:
    """The callee's body in place of a call, and a substitution for those results that are other values of the caller.

    `function` is the caller. `builder` holds the names in use. Calls in the body stay calls.
    """
    inlining = _Inlining(module, set(), function, builder)
    instead: dict[str, Arg] = {}
    finish(inlining.write_out(call, instead))
    return inlining.body, instead


class _Inlining:
    """Writes one function with its chosen calls inlined, recursively."""

    def __init__(self, module: Module, chosen: set[str], function: Function, builder: FunctionBuilder) -> None:
        self.module, self.chosen, self.builder = module, chosen, builder
        self.body: list[Statement] = []
        self._params = {p.name for p in function.params}

    def write(self, statement: Statement, instead: dict[str, Arg]) -> Deep[None]:
        """Append a statement, renamed. `instead` receives the values that replace results of an inlined call."""
        if isinstance(statement, Call) and statement.function in self.chosen:
            yield self.write_out(statement, instead)
        else:
            self.body.append(statement)

    def _passed(self, facts: Facts, passed: Mapping[str, Arg]) -> Facts:
        """The facts of a callee's statement in the caller: of a parameter, where one is passed for the callee's."""
        of = passed.get(facts.of, facts.of)
        return facts if of == facts.of else replace(facts, of=of if of in self._params else "")

    def write_out(self, call: Call, instead: dict[str, Arg]) -> Deep[None]:
        """Append the callee's body. `instead` receives the values that replace results of the call."""
        callee = self.module.functions[call.function]
        facts, start = callee.facts.within(call.facts), len(self.body)
        renamed: dict[str, Arg] = {}
        for param, arg in zip(callee.params, call.args, strict=True):
            renamed[param.name] = arg
            if isinstance(arg, tuple):  # a list as an argument is a tuple
                renamed[param.name] = made = self.builder.fresh(param.name)
                self.body.append(Apply((made,), "MakeTuple", arg))
        given: dict[str, str] = {}
        claimed: dict[str, Type] = {}
        for name, arg, claim in zip(call.results, callee.returned, call.claims or cycle((None,)), strict=False):
            if isinstance(arg, str) and name != DISCARD and arg not in renamed:
                given.setdefault(arg, name)
                if claim is not None:
                    claimed[arg] = types.meet(claimed.get(arg, UNKNOWN), claim) or claim
        for statement in callee.body:
            if isinstance(statement, (Return, Broken)):
                continue
            inner = with_operands(statement, renamed)
            assert isinstance(inner, (Apply, Call))
            named = tuple(name and (given.get(name) or self.builder.fresh(name)) for name in inner.results)
            renamed.update((name, own) for name, own in zip(inner.results, named, strict=True) if name != DISCARD)
            claims = _stated_too(_kept_claims(inner.claims), inner.results, claimed)
            others: dict[str, Arg] = {}
            stated = self._passed(inner.facts, renamed).within(facts)
            own = replace(with_results(inner, named), claims=claims, facts=stated)
            (written,) = on_stream(call.stream, [own])
            yield from self.write(written, others)
            renamed.update((n, others[own]) for n, own in zip(inner.results, named, strict=True) if own in others)
        for name, arg in zip(call.results, substituted(callee.returned, renamed), strict=True):
            if name == DISCARD or arg == name:
                continue
            if isinstance(arg, tuple):
                self.body.append(Apply((name,), "MakeTuple", arg))
            else:
                instead[name] = arg
        state_since(self.body, start, facts)


def _kept_claims(claims: Claims) -> Claims:
    """Drops claims that mention the callee's named dimensions, which mean nothing in the caller."""
    kept = tuple(None if claim is None or types.dim_names(claim) else claim for claim in claims)
    return kept if any(claim is not None for claim in kept) else ()


def _stated_too(claims: Claims, made: Sequence[str], stated: Mapping[str, Type]) -> Claims:
    """The callee's claims combined with those of the call, by the callee's names."""
    if stated.keys().isdisjoint(made):
        return claims
    found: list[Type | None] = []
    for claim, name in zip(claims or (None,) * len(made), made, strict=True):
        more = stated.get(name)
        found.append(claim if more is None else more if claim is None else types.meet(claim, more) or claim)
    return tuple(found)
