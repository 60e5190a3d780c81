"""Reverse-mode differentiation of functions, by the ops' gradient rules.

Each function `@dense` gets a VJP function `@denseGrad`. It takes those parameters and results of `@dense` that it uses,
then residuals (inner values that `@dense` returns in addition), then the gradients of the results; it returns the
gradients of the parameters. Host values and views are recomputed rather than passed. A VJP function is written once
however often its function is called: a deep model of equal layers has one.

Independent of losses and optimizers, which are in `training`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from typing import Literal as OneOf

from distir.analysis import Analysis, State
from distir.analysis.kinds import WEIGHTS, ValueKinds
from distir.analysis.owners import Belongings
from distir.analysis.provenance import with_parameters_named
from distir.analysis.size import refuse_beyond
from distir.diagnostics import Diagnostic, Note, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    HOST,
    UNKNOWN,
    Apply,
    Arg,
    Broken,
    Call,
    DType,
    Facts,
    Function,
    Literal,
    Module,
    Param,
    Part,
    Return,
    Site,
    Statement,
    TensorType,
    Type,
    names,
    operands,
    results,
    types,
)
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.calls import inlined_sizes
from distir.ir.deep import Deep, finish
from distir.ops import OPS, Value, type_of
from distir.transform.backward_pass import BackwardPass, Gradient, is_differentiable
from distir.transform.dead_code import live
from distir.transform.generic import declared, generic, generic_value, with_dtypes
from distir.transform.residuals import Residuals

if TYPE_CHECKING:  # rules are loaded only where something is differentiated
    from distir.ops.backward import Tape


BACKWARD = "backward"

MOST_RETURNED = 200_000
"""The most residuals that calls may return to the entry function for its backward pass: 50 MB of program text."""


@dataclass(frozen=True, slots=True)
class Need:
    """A forward value that a VJP function takes: a parameter or result by number, or a residual by name."""

    kind: OneOf["param", "result", "inside"]
    key: int | str


@dataclass(frozen=True, slots=True)
class VjpFunction:
    """The signature of a VJP function.

    `seeds`: results of the forward function whose gradients it takes; `gradients`: parameters whose gradients it
    returns, in these `dtypes`, where they are known: gradients of 8-bit floats are wider.
    """

    name: str
    needs: tuple[Need, ...]
    seeds: tuple[int, ...]
    gradients: tuple[int, ...]
    dtypes: tuple[DType | None, ...]


def _typed(found: Type, dtype: DType | None) -> Type:
    """The type with `dtype` as its element type; unchanged for None."""
    return replace(found, dtype=dtype) if isinstance(found, TensorType) and dtype is not None else found


class Differentiation:
    """A module's differentiation in progress: its VJP functions, and the residuals that they take."""

    def __init__(self, analysis: Analysis) -> None:
        from distir.ops import backward as rules

        self._rules = rules
        self.module = analysis.module
        self.kept = Residuals(analysis.module)
        self._analysis = analysis
        self._sizes = inlined_sizes(analysis.module)
        self._own = dict(analysis.states)
        self._functions = namer(self.module)
        self._backwards: dict[tuple[object, ...], VjpFunction | None] = {}
        self._bodies: dict[object, Function] = {}
        self._types: dict[tuple[str, int, str], Type] = {}
        """By function, id of a state, and name: the types of values that had no name (`_`) in the program."""
        self._written: dict[str, list[Function]] = {}
        self._calls: list[Site] = []
        """The call stack of functions being differentiated, from the entry function inwards."""

    def gradients(
        self, function: Function, builder: FunctionBuilder, seeds: Mapping[str, Arg], wanted: Sequence[str]
    ) -> dict[str, Arg]:
        """Write the backward pass of the entry function to `builder`, and return the gradients of `wanted` parameters.

        `seeds`: gradients of values of the function. Omits parameters on which those values do not depend. Raises
        ProgramError if an op has no gradient, or too many residuals would be returned.
        """
        inside = sum(size for name, size in self._sizes.items() if name != function.name)
        values = "values inside of calls that may have to be returned for the backward pass"
        refuse_beyond(inside, MOST_RETURNED, function.name, "gradients are found of programs with", of=values)
        state = self._own[function.name]
        module = Module(function if f.name == function.name else f for f in self.module)
        self._owners = Belongings(ValueKinds(module, function))
        back = self._pass(function, state, builder, wanted)
        back.phase = BACKWARD
        self.kept.names_with(function.name, builder)
        finish(self._go_back(back, seeds))
        builder.facts = Facts(BACKWARD)
        found = {name: back.total(name) for name in wanted}
        return {name: gradient for name, gradient in found.items() if gradient is not None}

    def module_with(self, entry: Function) -> Module:
        """The module with the new entry function, the functions extended by residuals, and their VJP functions."""
        return Module(self.kept.functions(entry, self._written))

    # One function's backward pass.

    def _pass(self, function: Function, state: State, builder: FunctionBuilder, wanted: Iterable[str]) -> BackwardPass:
        active = {name for name in wanted if is_differentiable(type_of(state[name]))}
        uses: dict[str, int] = {}
        for statement in function.body:
            held = [name for name in names(operands(statement)) if name in active]
            if held and not isinstance(statement, Return):
                active.update(n for n in results(statement) if n and is_differentiable(type_of(state[n])))
            for name in held:
                uses[name] = uses.get(name, 0) + 1

        def weight(name: str) -> str:
            is_weight = self._owners.kinds.of(function.name, name) == WEIGHTS
            owner = self._owners.value(function.name, name) if is_weight else ""
            return owner if isinstance(owner, str) and " " not in owner else ""

        return BackwardPass(function, state, builder, active, uses, weight)

    def _go_back(self, back: BackwardPass, seeds: Mapping[str, Arg]) -> Deep[Tape]:
        own = self._own.get(back.function.name)
        known: dict[str, Value] = {
            name: generic_value(own[name] if own is not None else None, value)
            for name, value in back.state.items()
            if name != DISCARD
        }
        tape = self._rules.Tape(known)
        for name, seed in seeds.items():
            back.contributions.setdefault(name, []).append(seed)
            if isinstance(seed, str):
                known.setdefault(seed, type_of(known[name]))
        for index in reversed(range(len(back.function.body))):
            statement = back.function.body[index]
            if isinstance(statement, (Return, Broken)) or back.active.isdisjoint(names(statement.args)):
                continue
            if any(name in back.contributions for name in statement.results):
                yield from self._step_back(back, tape, index, statement)
        return tape

    def _step_back(self, back: BackwardPass, tape: Tape, index: int, statement: Apply | Call) -> Deep[None]:
        back.builder.facts = replace(statement.facts, phase=back.phase)
        saved = OPS[statement.op].saved if isinstance(statement, Apply) else 0
        if DISCARD in statement.results or len(statement.results) < saved:
            statement = self.kept.all_named(back.function.name, index, statement, saved)
            if isinstance(statement, Apply):
                tape.learn(statement)
        dys: list[Gradient] = []
        for name in statement.results:
            known = _typed(type_of(tape.values[name]), back.dtype(tape, name)) if name in back.contributions else None
            dys.append(back.total(name))
            if isinstance(dys[-1], str) and known is not None:
                tape.values.setdefault(dys[-1], known)
        if isinstance(statement, Call):
            yield from self._back_through_call(back, tape, index, statement, dys)
            return
        try:
            found = self._rules.operand_gradients(statement, dys, back.active, tape)
        except self._rules.NotDifferentiable as reason:
            raise self._refusal(Site(back.function.name, index, Part("callee")), reason) from None
        pairs = [
            (arg, gradient)
            for arg, gradient in zip(statement.args, found, strict=False)
            if gradient is not None and not back.active.isdisjoint(names((arg,)))
        ]
        back.keep(tape, pairs, statement.stream)

    # Calls, and the VJP functions of their callees.

    def _back_through_call(
        self, back: BackwardPass, tape: Tape, index: int, call: Call, dys: Sequence[Gradient]
    ) -> Deep[None]:
        seeded = tuple(i for i, dy in enumerate(dys) if dy is not None)
        active = tuple(i for i, arg in enumerate(call.args) if not back.active.isdisjoint(names((arg,))))
        self._calls.append(Site(back.function.name, index))
        backward: VjpFunction | None = yield self._backward(call.function, back.state(call.args), seeded, active)
        self._calls.pop()
        if backward is None:
            return
        args: list[Arg] = [self._passed(back.function.name, index, call, need) for need in backward.needs]
        args += [dy for i in backward.seeds if (dy := dys[i]) is not None]
        hints: list[str] = []
        for i in backward.gradients:
            arg = call.args[i]
            param = self.module.functions[call.function].params[i].name
            hints.append(back.contribution_name(arg) if isinstance(arg, str) else back.builder.fresh(f"d{param}"))
        back.builder.body.append(Call(tuple(hints), backward.name, tuple(args), facts=back.builder.facts))
        for i, gradient, dtype in zip(backward.gradients, hints, backward.dtypes, strict=True):
            tape.values[gradient] = _typed(type_of(tape.value(call.args[i])), dtype)
            back.contribute(call.args[i], gradient)

    def _passed(self, function: str, index: int, call: Call, need: Need) -> Arg:
        if need.kind == "param":
            return call.args[int(need.key)]
        if need.kind == "result":
            return call.results[int(need.key)]
        return self.kept.extra(function, index, call, str(need.key))

    def _backward(
        self, name: str, vs: tuple[Value, ...], seeded: tuple[int, ...], active: tuple[int, ...]
    ) -> Deep[VjpFunction | None]:
        """The VJP function of `name` for these arguments; None if no parameter has a gradient."""
        key = (name, vs, seeded, active)
        if key not in self._backwards:
            self._backwards[key] = yield from self._made_backward(*key)
        return self._backwards[key]

    def _made_backward(
        self, name: str, vs: tuple[Value, ...], seeded: tuple[int, ...], active: tuple[int, ...]
    ) -> Deep[VjpFunction | None]:
        function = self.module.functions[name]
        state = self._analysis.domain.instance(name, vs).state
        builder = namer(function)
        builder.take(self.kept.own_names(name))
        back = self._pass(function, state, builder, [function.params[i].name for i in active])
        seeds: dict[str, Arg] = {}
        given: dict[int, str] = {}
        for i in seeded:
            arg = function.returned[i]
            if not isinstance(arg, str) or arg in seeds:
                hint = arg if isinstance(arg, str) else "y"
                given[i] = builder.fresh(f"d{hint}")
                back.contribute(arg, given[i])
            else:
                seeds[arg] = given[i] = builder.fresh(f"d{arg}")
        tape = yield from self._go_back(back, seeds)
        dtypes = {i: back.dtype(tape, function.params[i].name) for i in active}
        found = ((i, back.total(function.params[i].name)) for i in active)
        totals = {i: gradient for i, gradient in found if gradient is not None}
        if not totals:
            return None
        returned = tuple(totals.values())
        body = live(builder.body, names(returned))
        name, needs, taken = self._finished(function, state, body, returned, given)
        return VjpFunction(name, needs, taken, tuple(totals), tuple(dtypes[i] for i in totals))

    def _finished(
        self,
        function: Function,
        state: State,
        body: list[Statement],
        returned: tuple[Arg, ...],
        given: Mapping[int, str],
    ) -> tuple[str, tuple[Need, ...], tuple[int, ...]]:
        """The VJP function with its head: name, forward values, and gradients of results."""
        made = {name for statement in body for name in results(statement)} | set(given.values())
        wanted = [*(n for s in body for n in names(operands(s))), *names(returned)]
        outside = dict.fromkeys(n for n in wanted if n not in made and n != DISCARD)
        used = set(wanted)
        needs, again = self._needs(function, state, outside)
        heads = dict.fromkeys(needs.values())
        for need, name in needs.items():
            if need.kind == "inside":
                self.kept.keep(function.name, name)
        seeds = {i: name for i, name in given.items() if name in used}
        forward = {name: name for name in heads}
        for i, name in seeds.items():
            heads[name] = None
            arg = function.returned[i]
            forward[name] = arg if isinstance(arg, str) else DISCARD
        stated = self._stated(function, state, list(forward.values()), _has_literals([*again, *body]))
        params = tuple(Param(name, found) for name, found in zip(heads, stated, strict=True))
        whole = (*again, *body, Return(returned))
        known = self._bodies.get((function.name, params, whole))
        if known is None:
            facts = replace(function.facts, phase=BACKWARD)
            known = Function(self._functions.fresh(f"{function.name}Grad"), params, whole, facts=facts)
            known = with_parameters_named(known, {p.name: "" for p in function.params})
            self._bodies[function.name, params, whole] = known
            self._written.setdefault(function.name, []).append(known)
        return known.name, tuple(needs), tuple(seeds)

    def _stated(self, function: Function, state: State, values: Sequence[str], with_literals: bool) -> list[Type]:
        """Types to declare for parameters that hold forward values; unknown for `DISCARD`."""
        own = self._own[function.name]
        found = [UNKNOWN if name == DISCARD else generic(self._type(function, own, name)) for name in values]
        if with_literals:
            known = [UNKNOWN if name == DISCARD else self._type(function, state, name) for name in values]
            found = [with_dtypes(f, k) for f, k in zip(found, known, strict=True)]
        return declared(found)

    def _type(self, function: Function, state: State, name: str) -> Type:
        """The type of a value, including values that had no name (`_`) in the program."""
        passed: list[tuple[str, int, str]] = []
        while (known := self._types.get((function.name, id(state), name))) is None and name not in state:
            passed.append((function.name, id(state), name))  # the checker keeps states, so each id stays its own
            index, statement = self.kept.definition(function, name)
            if isinstance(statement, Apply):
                tape = self._rules.Tape(dict(state))
                tape.learn(statement)
                known = type_of(tape.values[name])
                break
            assert isinstance(statement, Call)
            inside = self._analysis.domain.instance(statement.function, state(statement.args)).state
            if name in statement.results:
                known = type_of(inside.returned[statement.results.index(name)])
                break
            name = self.kept.inside_of(function.name, index, name)
            function, state = self.module.functions[statement.function], inside
        found = type_of(state[name]) if known is None else known
        self._types.update(dict.fromkeys(passed, found))
        return found

    def _needs(
        self, function: Function, state: State, outside: Iterable[str]
    ) -> tuple[dict[Need, str], list[Statement]]:
        """The forward values that a VJP function takes, and the statements that it recomputes."""
        places: dict[str, Need] = {p.name: Need("param", i) for i, p in enumerate(function.params)}
        for i, arg in enumerate(function.returned):
            if isinstance(arg, str):
                places.setdefault(arg, Need("result", i))
        definitions = self.kept.definitions(function)
        found: dict[Need, str] = {}
        again: dict[int, Statement] = {}
        pending = list(outside)
        while pending:
            name = pending.pop()
            index, statement = definitions.get(name, (-1, None))
            if name in places:
                found[places[name]] = name
            elif isinstance(statement, Apply) and _is_cheap(statement, state):
                if index not in again:
                    again[index] = statement
                    pending += names(statement.args)
            else:
                found[Need("inside", name)] = name
        made = {name for statement in again.values() for name in results(statement)}
        found = {need: name for need, name in found.items() if name not in made}
        order = {"param": 0, "result": 1, "inside": 2}
        place = {name: i for i, name in enumerate(definitions)}
        ordered = sorted(found.items(), key=lambda n: (order[n[0].kind], _position(n[0], place)))
        statements = [again[i] for i in sorted(again)]
        kept = live(statements, {*outside, *(n for s in statements for n in names(operands(s)))})
        return dict(ordered), kept

    def _refusal(self, site: Site, reason: Exception) -> ProgramError:
        hint = getattr(reason, "help", None)
        notes = tuple(Note("called here", call) for call in reversed(self._calls))
        return ProgramError([Diagnostic(codes.NOT_DIFFERENTIABLE, site, str(reason), notes, hint)])


def _is_cheap(statement: Apply, state: State) -> bool:
    """Whether recomputing a value is cheaper than keeping it as a residual."""
    if OPS[statement.op].view:
        return True
    return all(types.device_of(type_of(state[name])) == HOST for name in statement.results if name in state and name)


def _has_literals(statements: Iterable[Statement]) -> bool:
    """Whether some operands are literals, whose element type depends on the others."""
    return any(
        isinstance(arg, Literal) and isinstance(arg.value, (int, float)) for s in statements for arg in operands(s)
    )


def _position(need: Need, place: Mapping[str, int]) -> int:
    return need.key if isinstance(need.key, int) else place.get(need.key, 0)
