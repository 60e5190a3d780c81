"""The facts of a program's statements: those that it states, and else what follows from data flow.

Programs that transforms write state their facts. Of others, as written by hand, these follow:

- *phase*. An op that updates weights, and what depends on one, is of the optimizer; a gradient (an op that gradient
  rules write, a value `%dx` beside a `%x`), and what depends on one, of the backward pass; all the rest of a program
  that has either is forward.
- *microbatch*. A `Split` in the entry function cuts a `{batch}` parameter into parts, and some device works on several
  of them: what depends on one part alone is of that microbatch.
- *of*. What updates a parameter, or copies it, belongs to it, and so do its gradients, where they are computed, cast,
  added up and sent (`owners`).

Phases and microbatches are found where the program states none, parameters of each statement that states none: readers
look facts up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from distir.analysis.checking import analysed
from distir.analysis.kinds import kinds_of
from distir.analysis.owners import Belongings, Owner, passed
from distir.ir import NO_FACTS, Apply, Arg, Call, Facts, Function, Module, Return, Statement, names, types
from distir.ir.calls import callees_first
from distir.ir.rewrite import facts_of, mapped, stated_with
from distir.ops import OPS, type_of
from distir.ops.purpose import is_gradient, is_update, op_of

PHASES = ("forward", "backward", "optimizer")
"""By level, the phases that are inferred; what depends on several is of the highest."""

FORWARD, BACKWARD, OPTIMIZER = range(3)


def with_facts(module: Module, entry: Function) -> Module:
    """The module with the facts that it lacks, as far as they follow. `entry`: the function that is run."""
    module = _known(module, entry)
    owners = Belongings(kinds_of(module, module.functions[entry.name]))
    return Module(_with_parameters(function, owners) for function in module)


@lru_cache(maxsize=4)
def _known(module: Module, entry: Function) -> Module:
    """The module with phases and microbatches."""
    module = with_phases(module, entry)
    return module if "microbatch" in _stated(module) else _with_microbatches(module, module.functions[entry.name])


def without_facts(module: Module) -> Module:
    """The module without all that it states beside its meaning."""
    return Module(
        replace(
            function,
            facts=NO_FACTS,
            body=tuple(stated_with(s, NO_FACTS) if facts_of(s) else s for s in function.body),
        )
        for function in module
    )


def with_parameters_named(function: Function, instead: Mapping[str, str]) -> Function:
    """The function, which states other names, or none, of parameters that are not its own."""
    own = {param.name for param in function.params}

    def named(statement: Statement) -> Statement:
        of = facts_of(statement).of
        return _with(statement, of=instead[of]) if of in instead and of not in own else statement

    return mapped(function, named)


def with_phases(module: Module, entry: Function) -> Module:
    """The module of a training step with its phases; unchanged where it states some, or has none."""
    return module if "phase" in _stated(module) else _Phases(module, entry.name).written()


class Provenance:
    """The facts of each statement of a program, by the calls that lead to it."""

    def __init__(self, module: Module, entry: Function) -> None:
        self._module = _known(module, entry)
        self.entry = _entered(self._module.functions[entry.name], NO_FACTS, {})

    @cached_property
    def _owners(self) -> Belongings:
        return Belongings(kinds_of(self._module, self.entry.function))

    def called(self, context: Context, index: int) -> Context:
        """The function that a statement calls, as it is called there."""
        statement = context.function.body[index]
        assert isinstance(statement, Call)
        callee = self._module.functions[statement.function]
        given = zip(callee.params, statement.args, strict=True)
        of = {p.name: passed(self._owners.value(context.function.name, arg), context.of) for p, arg in given}
        return _entered(callee, self.facts(context, index), of)

    def facts(self, context: Context, index: int) -> Facts:
        """The facts of a statement, which name parameters of the entry function."""
        statement = context.function.body[index]
        found = facts_of(statement)
        if found.of in context.of or (isinstance(statement, Apply) and not found.of):
            found = replace(found, of=self._owners.of(context.function.name, statement, context.of))
        return found.within(context.facts)

    def of_entry(self) -> list[Facts]:
        """By statement of the entry function: its facts, and of a call those of all that it runs.

        Of parameters, those that are stated.
        """
        found: list[Facts] = []
        for statement in self.entry.function.body:
            inside = self._module.functions[statement.function].facts if isinstance(statement, Call) else NO_FACTS
            found.append(inside.within(facts_of(statement).within(self.entry.facts)))
        return found


@dataclass(frozen=True, slots=True)
class Context:
    """A call of a function. `facts`: those of all that it runs; `of`: by parameter, what is passed for it."""

    function: Function
    facts: Facts
    of: Mapping[str, Owner]


def _entered(function: Function, outer: Facts, of: Mapping[str, Owner]) -> Context:
    return Context(function, function.facts.within(outer), of)


def _stated(module: Module) -> Iterator[str]:
    """The kinds of facts that a module states."""
    for function in module:
        for facts in {function.facts, *map(facts_of, function.body)}:
            yield from (name for name in ("phase", "microbatch") if getattr(facts, name))


def _with(statement: Statement, **facts: object) -> Statement:
    if not isinstance(statement, (Apply, Call)):
        return statement
    return replace(statement, facts=replace(statement.facts, **facts))


# Phases: each function for any arguments, then for those that it is called with.


@dataclass(frozen=True, slots=True)
class _Value:
    """The level of a value, and the parameters of its function on which it depends, as a set of bits."""

    level: int = FORWARD
    params: int = 0


@dataclass(frozen=True)
class _Flow:
    """A function for any arguments: its values, and by statement what its operands and its op make it."""

    function: Function
    values: Mapping[str, _Value]
    statements: list[_Value]


_Given = tuple[int, int]
"""The parameters of a function that are gradients, and those that an optimizer gave, as sets of bits."""


class _Phases:
    def __init__(self, module: Module, entry: str) -> None:
        self._module, self._entry = module, entry
        self._flows: dict[str, _Flow] = {}
        for function in callees_first(module):
            self._flows[function.name] = self._flow(function)

    def written(self) -> Module:
        """The module with phases, where it is a training step."""
        given = self._contexts()
        if not any(value.level for name in given for value in self._flows[name].statements):
            return self._module
        found: dict[str, Function] = {}
        for function in callees_first(self._module):
            if function.name not in given:
                found[function.name] = function
                continue
            by_context = [self._levels(function, one) for one in given[function.name]]
            gives = {self._given(function, one) for one in given[function.name]}
            if function.name != self._entry and gives and min(gives) > FORWARD:
                phase = PHASES[min(gives)]  # all that it gives is of it, and so is what it does for that
                found[function.name] = replace(function, facts=replace(function.facts, phase=phase))
            else:
                found[function.name] = self._marked(function, by_context, found)
        return Module(found[name] for name in self._module.functions)

    def _contexts(self) -> dict[str, set[_Given]]:
        """By function that is run: with which parameters it is called."""
        found: dict[str, set[_Given]] = {self._entry: {(0, 0)}}
        waiting = [(self._entry, (0, 0))]
        while waiting:
            name, given = waiting.pop()
            flow = self._flows[name]
            for statement in flow.function.body:
                if not isinstance(statement, Call) or statement.function not in self._flows:
                    continue
                backward = optimizer = 0
                for index, arg in enumerate(statement.args):
                    level = _level(_joined(flow.values, names((arg,))), given)
                    backward |= (level >= BACKWARD) << index
                    optimizer |= (level >= OPTIMIZER) << index
                known = found.setdefault(statement.function, set())
                if (backward, optimizer) not in known:
                    known.add((backward, optimizer))
                    waiting.append((statement.function, (backward, optimizer)))
        return found

    def _levels(self, function: Function, given: _Given) -> list[int]:
        return [_level(value, given) for value in self._flows[function.name].statements]

    def _given(self, function: Function, given: _Given) -> int:
        """The least level of what a function returns."""
        values = self._flows[function.name].values
        return min((_level(_joined(values, names((arg,))), given) for arg in function.returned), default=FORWARD)

    def _marked(self, function: Function, by_context: list[list[int]], found: Mapping[str, Function]) -> Function:
        """The function with phases; its calls say those of statements that are of several."""
        body: list[Statement] = []
        for index, statement in enumerate(function.body):
            levels = {own[index] for own in by_context}
            phase = PHASES[levels.pop()] if len(levels) == 1 else ""
            if isinstance(statement, Call) and phase and _says(found.get(statement.function)):
                phase = ""  # it says by itself what each of its statements is
            body.append(_with(statement, phase=phase) if phase else statement)
        said = {facts_of(s).phase for s in body if not isinstance(s, Return)}
        if len(said) == 1 and "" not in said and function.name != self._entry:
            return replace(function, facts=replace(function.facts, phase=said.pop()))
        return replace(function, body=tuple(body))

    def _flow(self, function: Function) -> _Flow:
        values = {param.name: _Value(params=1 << index) for index, param in enumerate(function.params)}
        statements: list[_Value] = []
        for statement in function.body:
            used = _joined(values, names(statement.args)) if isinstance(statement, (Apply, Call)) else _Value()
            if isinstance(statement, Apply):
                used = replace(used, level=max(used.level, _op_level(statement, values)))
                values |= dict.fromkeys(statement.results, used)
            elif isinstance(statement, Call) and statement.function in self._flows:
                made = self._results(statement, values)
                used = replace(used, level=max(value.level for value in (used, *made.values())))
                values |= made
            statements.append(used)
        return _Flow(function, values, statements)

    def _results(self, call: Call, values: Mapping[str, _Value]) -> dict[str, _Value]:
        """The results of a call: their levels, and the arguments on which they depend."""
        flow = self._flows[call.function]
        found: dict[str, _Value] = {}
        for name, returned in zip(call.results, flow.function.returned, strict=False):
            inside = _joined(flow.values, names((returned,)))
            args = [n for i, arg in enumerate(call.args) if inside.params >> i & 1 for n in names((arg,))]
            joined = _joined(values, args)
            found[name] = replace(joined, level=max(inside.level, joined.level))
        return found


def _says(function: Function | None) -> bool:
    """Whether a function says of some of its statements alone what they are, not of all alike."""
    return function is not None and any(facts_of(statement).phase for statement in function.body)


def _level(value: _Value, given: _Given) -> int:
    backward, optimizer = given
    inherited = OPTIMIZER if value.params & optimizer else BACKWARD if value.params & backward else FORWARD
    return max(value.level, inherited)


def _joined(values: Mapping[str, _Value], used: Iterable[str]) -> _Value:
    level = params = 0
    for name in used:
        value = values.get(name)
        if value is not None:
            level, params = max(level, value.level), params | value.params
    return _Value(level, params)


def _op_level(statement: Apply, values: Mapping[str, _Value]) -> int:
    if is_update(statement):
        return OPTIMIZER
    gradients = (name[1:] in values for name in statement.results if name.startswith("d"))
    return BACKWARD if is_gradient(statement) or any(gradients) else FORWARD


# Microbatches: the parts of the batch that statements of the entry function depend on, as sets of bits.


def _with_microbatches(module: Module, entry: Function) -> Module:
    cut = _batch(entry)
    state = analysed(module).states.get(entry.name) if cut else None
    if state is None:
        return module
    parts: dict[str, int] = {}
    worked: dict[int, int] = {}
    of: list[int] = []
    several = False
    for statement in entry.body:
        used = _union(parts, names(statement.args)) if isinstance(statement, (Apply, Call)) else 0
        of.append(used)
        if not isinstance(statement, (Apply, Call)):
            continue
        cuts = _cuts(statement, cut)
        parts |= {name: 1 << i if cuts else used for i, name in enumerate(statement.results)}
        is_mixed = bool(used & (used - 1))
        several |= is_mixed and isinstance(statement, Call)
        op = op_of(statement)
        if used and not is_mixed and (op is None or op.communication is None):
            for name in statement.results:
                for device in types.devices(type_of(state[name])) if name in state else ():
                    worked[device] = worked.get(device, 0) | used
    if not several and not any(done & (done - 1) for done in worked.values()):
        return module
    body = (
        _with(statement, microbatch=used.bit_length()) if used and not used & (used - 1) else statement
        for statement, used in zip(entry.body, of, strict=True)
    )
    return module.replacing(replace(entry, body=tuple(body)))


def _batch(entry: Function) -> dict[str, object]:
    """By parameter: the dimension along which it holds examples, where all are cut into as many parts."""
    batch: dict[str, object] = {p.name: p.roles["batch"] for p in entry.params if "batch" in p.roles}
    counts = {len(s.results) for s in entry.body if isinstance(s, Apply) and _cuts(s, batch)}
    return batch if len(counts) == 1 else {}


def _cuts(statement: Statement, batch: Mapping[str, object]) -> bool:
    """Whether an op cuts the batch into parts."""
    if not isinstance(statement, Apply) or statement.op != "Split" or not statement.args:
        return False
    cut: Arg = statement.args[0]
    return isinstance(cut, str) and cut in batch and batch[cut] == statement.attrs.get("axis", 0)


def _union(parts: Mapping[str, int], used: Iterable[str]) -> int:
    found = 0
    for name in used:
        found |= parts.get(name, 0)
    return found


# Parameters that statements belong to.


def _with_parameters(function: Function, owners: Belongings) -> Function:
    def stated(statement: Statement) -> Statement:
        if not isinstance(statement, Apply) or statement.facts.of or OPS[statement.op].view:
            return statement
        of = owners.of(function.name, statement)
        return _with(statement, of=of) if of else statement

    return mapped(function, stated)
