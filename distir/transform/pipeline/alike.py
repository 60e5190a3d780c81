"""Passes of several stages that do the same become one function, which the stages call with their weights.

So a program does not grow with its stages, and runs of their calls are counted. What a pass computes, and in which
order, decides; names of values and numbers of layers do not. Layers count on from those that a call states.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import groupby

from distir.ir import DISCARD, Apply, Arg, Call, Facts, Function, Module, Statement, operands, results
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.rewrite import common, facts_of, mapped, shared, stated_with, with_names
from distir.ops.tuples import TUPLING


def with_shared(module: Module, passes: Mapping[str, tuple[int, str]]) -> Module:
    """The module in which passes that do the same are one function.

    `passes`: by name of a pass: its stage, counted from 1, and what it does, as in `stage_3_forward`.
    """
    groups: dict[Hashable, list[Function]] = {}
    for name in passes:
        groups.setdefault(_meaning(module.functions[name]), []).append(module.functions[name])
    taken, written = namer(module), dict[str, tuple[Function, Facts]]()
    for group in groups.values():
        if len(group) > 1:
            stages, what = _numbers([passes[function.name][0] for function in group]), passes[group[0].name][1]
            written.update(_as_one(group, taken.fresh(f"{stages}_{what}")))
    if not written:
        return module

    def called(statement: Statement) -> Statement:
        if not isinstance(statement, Call) or statement.function not in written:
            return statement
        function, facts = written[statement.function]
        return replace(statement, function=function.name, facts=facts.filled(statement.facts))

    found = (written[f.name][0] if f.name in written else mapped(f, called) for f in module)
    return Module({function.name: function for function in found}.values())


def _as_one(group: Sequence[Function], name: str) -> Iterator[tuple[str, tuple[Function, Facts]]]:
    """By name of a pass that does the same as others: the function for all, and what its calls state."""
    first = _with_values(group[0], _common_names([*map(_values, group)]))
    bodies, calls = shared([_facts(function, first) for function in group])
    body = tuple(map(stated_with, first.body, bodies))
    function = replace(first, name=name, body=body, facts=common(function.facts for function in group))
    for each, facts in zip(group, calls, strict=True):
        yield each.name, (function, facts.filled(each.facts))


def _common_names(rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """By value of the first function: its name in one for all; a row lists the values of each function.

    Numbers that differ count from the least, and go where there is one alone: `weights_3` is `weights`, `x18` and `x19`
    are `x0` and `x1`.
    """
    columns = [tuple(re.split(r"(\d+)", name) for name in names) for names in zip(*rows, strict=True)]
    counted: dict[tuple[int, ...], set[int]] = {}
    """By the steps from function to function: the numbers in the first one."""
    for names in columns:
        for numbers in _that_differ(names).values():
            counted.setdefault(_steps(numbers), set()).add(numbers[0])
    return {"".join(names[0]): _common_name(names, counted) for names in columns}


def _common_name(names: Sequence[Sequence[str]], counted: Mapping[tuple[int, ...], Set[int]]) -> str:
    found = list(names[0])
    for place, numbers in _that_differ(names).items():
        known = counted[_steps(numbers)]
        found[place] = str(numbers[0] - min(known)) if len(known) > 1 else ""
        if len(known) == 1:
            found[place - 1] = found[place - 1].rstrip("_.")
    return "".join(found) or "".join(names[0])


def _that_differ(names: Sequence[Sequence[str]]) -> dict[int, list[int]]:
    """The numbers in which names differ, by their places among the parts of a name; none where texts differ, too."""
    if len({tuple(name[::2]) for name in names}) > 1:
        return {}
    return {
        place: [int(name[place]) for name in names]
        for place in range(1, len(names[0]), 2)
        if len({n[place] for n in names}) > 1
    }


def _steps(numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(number - numbers[0] for number in numbers)


def _values(function: Function) -> list[str]:
    """The names that a function defines."""
    inner = [name for statement in function.body for name in results(statement) if name != DISCARD]
    return [*(param.name for param in function.params), *inner]


def _with_values(function: Function, named: Mapping[str, str]) -> Function:
    """The function with other names of its values, each of which is one that no other has."""
    builder = FunctionBuilder(function.name)
    own = {name: builder.fresh(named[name]) for name in _values(function)}
    params = tuple(replace(param, name=own[param.name]) for param in function.params)
    body = tuple(with_names(statement, own) for statement in function.body)
    return replace(function, params=params, body=body)


def _numbers(stages: Sequence[int]) -> str:
    """Stages as a name begins with them: `stages_2_to_5`, `stages_1_and_3_to_5`, `stage_2`."""
    own = sorted(set(stages))
    runs = [[*run] for _, run in groupby(own, key=lambda stage: stage - own.index(stage))]
    shown = "_and_".join(f"{run[0]}_to_{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"stages_{shown}" if len(own) > 1 else f"stage_{shown}"


def _facts(function: Function, first: Function) -> list[Facts]:
    """The facts of each statement, which name parameters of the first function."""
    named = {own.name: other.name for own, other in zip(function.params, first.params, strict=True)}
    stated = map(facts_of, function.body)
    return [replace(facts, of=named.get(facts.of, facts.of)) if facts.of else facts for facts in stated]


def _meaning(function: Function) -> Hashable:
    """What a pass computes, equal for those that do the same; its name where its layers are not those of all it does.

    What states no layer in a function that is called for one is of that.
    """
    worked = [s for s in function.body if isinstance(s, Call) or (isinstance(s, Apply) and s.op not in TUPLING)]
    layers = [s.facts.layer for s in worked]
    if any(layers) and not all(layers):
        return function.name
    first = min(filter(None, layers), default=0)
    numbers = dict[str, int]()
    for param in function.params:
        numbers[param.name] = len(numbers)
    body = [_of_statement(statement, numbers, first) for statement in function.body]
    params = tuple((param.type, param.roles) for param in function.params)
    return params, tuple(body), function.result_types, function.kernel, function.facts.phase, function.mesh


def _of_statement(statement: Statement, numbers: dict[str, int], first: int) -> Hashable:
    """What a statement computes of values that have these numbers, which its results get, too."""
    args = tuple([_of_arg(arg, numbers) for arg in operands(statement)])
    if not isinstance(statement, (Apply, Call)):
        return type(statement), args
    for name in statement.results:
        if name != DISCARD:
            numbers[name] = len(numbers)
    what = (statement.op, statement.attrs) if isinstance(statement, Apply) else statement.function
    facts = statement.facts
    stated = facts.phase, facts.layer and facts.layer - first, numbers.get(facts.of, facts.of)
    made = tuple([name != DISCARD for name in statement.results])
    return what, args, made, statement.claims, statement.stream, stated


def _of_arg(arg: Arg, numbers: Mapping[str, int]) -> Hashable:
    if isinstance(arg, tuple):
        return tuple([_of_arg(item, numbers) for item in arg])
    return numbers[arg] if isinstance(arg, str) and arg != DISCARD else arg
