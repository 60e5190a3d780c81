"""One function's body split over the devices of a mesh axis: statement by statement, forward.

A value keeps the state in which it was made until a statement needs another one: partial sums are completed where
they must be whole, once, and not before. Host values keep their meaning in the whole program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from distir.analysis import Checker, Instance
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    Apply,
    Arg,
    Call,
    Function,
    Part,
    Return,
    Site,
    TupleType,
    results,
)
from distir.ops import OPS, Value, type_of
from distir.transform.sharding.decide import Decision, NoRule, decide
from distir.transform.sharding.items import Each, Joint
from distir.transform.sharding.reshard import Resharding
from distir.transform.sharding.rewrite import restated, rewritten
from distir.transform.sharding.state import (
    PARTIAL,
    WHOLE,
    Split,
    State,
    holds_partial,
    is_host,
    is_whole,
    whole_like,
)


@dataclass(frozen=True, slots=True)
class Callee:
    """What a call becomes."""

    name: str
    joint: bool
    """Whether it is called once for all devices, not for each."""
    given: tuple[State, ...]
    single: tuple[bool, ...]
    """Which results are host values."""


class Callees(Protocol):
    """Where functions that are called come from."""

    def callee(self, name: str, vs: Sequence[Value], states: Sequence[State]) -> Callee: ...


class Body(Resharding):
    """The body of a function for arguments in certain states, as items."""

    def __init__(
        self,
        callees: Callees,
        domain: Checker,
        size: int,
        function: Function,
        instance: Instance,
        states: Sequence[State],
    ) -> None:
        super().__init__(size, [*(p.name for p in function.params), *(n for s in function.body for n in results(s))])
        self.callees, self.domain, self.function, self.instance = callees, domain, function, instance
        self.concrete = False
        """Whether sizes that the function calls by name are now written as numbers in it."""
        self._complete: set[Arg] = set()
        """Arguments that hold no partial sums; a stage's weights are asked for with each microbatch."""
        for param, value, state in zip(function.params, instance.args, states, strict=True):
            self.define(param.name, value, state)

    def run(self) -> None:
        for index, statement in enumerate(self.function.body):
            match statement:
                case Apply():
                    self._apply(index, statement)
                case Call():
                    self._call(statement)
                case _:
                    assert isinstance(statement, Return), "the module checks"

    def completed(self, arg: Arg) -> Arg:
        """The argument with partial sums completed."""
        if arg in self._complete:
            return arg
        state = self.state(arg)
        if holds_partial(state):
            return self.placed(arg, _completed(state))
        self._complete.add(arg)
        return arg

    def _apply(self, index: int, statement: Apply) -> None:
        vs = tuple(map(self.value, statement.args))
        states = tuple(map(self.state, statement.args))
        ws = self.domain.answer(statement, vs)
        if statement.op == "UnpackTuple":
            (items,) = states
            given = items if isinstance(items, tuple) else (items,) * len(ws)
            self._write(statement, ws, given)
        elif statement.op == "MakeTuple":
            self._write(statement, ws, (states,))
        elif all(map(is_whole, states)):
            self._write(statement, ws, [whole_like(type_of(w)) for w in ws])
        elif all(map(is_host, ws)):
            self._host(statement, vs, ws)
        elif any(isinstance(type_of(v), TupleType) for v in vs):
            self._leafwise(index, statement, vs, states, ws)
        else:
            decision = self._decision(index, statement, vs, states, ws)
            self._write_decided(statement, vs, ws, decision)

    def _decision(
        self, index: int, statement: Apply, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value]
    ) -> Decision:
        op = OPS[statement.op]
        try:
            return decide(op, statement.attrs, vs, states, [type_of(w) for w in ws], self.size)
        except NoRule:
            split = next(i for i, state in enumerate(states) if isinstance(state, Split))
            named = statement.args[split]
            message = f"nothing says how `{op.name}` can be split, and `%{named}` is, along its dimension"
            axis = cast(Split, states[split]).axis
            site = Site(self.function.name, index, Part("operand", split))
            hint = f"state a rule where the op is defined (`@{op.name}.sharding`)"
            found = Diagnostic(codes.NO_SHARDING_RULE, site, f"{message} {axis}", (), hint)
            raise ProgramError([found]) from None

    def _write_decided(self, statement: Apply, vs: Sequence[Value], ws: Sequence[Value], decision: Decision) -> None:
        args = [self.placed(arg, need) for arg, need in zip(statement.args, decision.needed, strict=True)]
        if decision.letter is None:
            self._write(statement, ws, decision.given, args)
        else:
            rewritten(self, statement, args, vs, ws, decision)

    def _leafwise(
        self, index: int, statement: Apply, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value]
    ) -> None:
        """An op over tuples: each leaf by itself, none of which may need more than other states."""
        count = next(len(t.items) for v in vs if isinstance(t := type_of(v), TupleType))
        needed: list[list[State]] = []
        given: list[tuple[State, ...]] = []
        for k in range(count):
            leaf_vs = [_item(v, k) for v in vs]
            leaf_states = [s[k] if isinstance(s, tuple) else s for s in states]
            leaf_ws = [_item(w, k) for w in ws]
            decision = self._decision(index, statement, leaf_vs, leaf_states, leaf_ws)
            needed.append(list(decision.needed))
            given.append(decision.given)
        wanted = [tuple(n[i] for n in needed) if isinstance(type_of(v), TupleType) else WHOLE for i, v in enumerate(vs)]
        args = [self.placed(arg, want) for arg, want in zip(statement.args, wanted, strict=True)]
        self._write(statement, ws, [tuple(g[j] for g in given) for j in range(len(ws))], args)

    def _host(self, statement: Apply, vs: Sequence[Value], ws: Sequence[Value]) -> None:
        """What is known of a split value before the program runs (its shape) is said of the whole one."""
        restated(self, statement, vs, ws)

    def _call(self, statement: Call) -> None:
        vs = tuple(map(self.value, statement.args))
        args = tuple(map(self.completed, statement.args))
        states = tuple(map(self.state, args))
        ws = self.domain.instance(statement.function, vs).state.returned
        found = self.callees.callee(statement.function, vs, states)
        if not found.joint:
            self.items.append(Each(Call(statement.results, found.name, args, self.claims(statement, found.given))))
        else:
            names = tuple(
                self.fresh("unused") if name == DISCARD and single else name
                for name, single in zip(statement.results, found.single, strict=True)
            )
            self.single.update(name for name, single in zip(names, found.single, strict=True) if single)
            self.items.append(Joint(names, found.name, args))
        for name, w, state in zip(statement.results, ws, found.given, strict=True):
            self.define(name, w, state)

    def _write(
        self, statement: Apply, ws: Sequence[Value], given: Sequence[State], args: Sequence[Arg] | None = None
    ) -> None:
        """Append a statement as it is, with other arguments."""
        unchanged = args is None or tuple(args) == statement.args
        claims = self.claims(statement, given)
        if not (unchanged and claims == statement.claims):
            statement = Apply(statement.results, statement.op, tuple(args or statement.args), statement.attrs, claims)
        self.items.append(Each(statement))
        for name, w, state in zip(statement.results, ws, given, strict=True):
            self.define(name, w, state)


def _completed(state: State) -> State:
    if isinstance(state, tuple):
        return tuple(map(_completed, state))
    return WHOLE if state is PARTIAL else state


def _item(value: Value, k: int) -> Value:
    if isinstance(value, TupleType):
        return value.items[k]
    return value[k] if isinstance(value, tuple) else value
