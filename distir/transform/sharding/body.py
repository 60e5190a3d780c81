"""Partitions one function's body over the devices of a mesh axis, statement by statement, forward.

A value keeps the state in which it was computed until a statement needs another one (`sums` says when partial sums are
reduced). Host values keep their meaning in the whole program.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from distir.analysis import Checker, Instance
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import DISCARD, Apply, Arg, Call, Facts, Function, Literal, Part, Return, Site, TensorType, TupleType
from distir.ir.dataflow import definitions
from distir.ir.deep import Deep
from distir.ir.rewrite import facts_of
from distir.ops import OPS, Value, item_of, type_of
from distir.placement.along import (
    PARTIAL,
    WHOLE,
    Nested,
    Split,
    State,
    holds_partial,
    is_host,
    is_nested,
    is_whole,
    whole_like,
)
from distir.placement.rule import Typing
from distir.transform.sharding.decide import NoRule, NotExchanged, decide
from distir.transform.sharding.decided import write_decided
from distir.transform.sharding.demanded import demanded, demanded_in_parts
from distir.transform.sharding.factors import decide_along, write_along, write_in_parts_along
from distir.transform.sharding.items import Each, Item, Joint, LocalSlice, is_call, is_plain, repeated, with_facts
from distir.transform.sharding.mesh import Mesh
from distir.transform.sharding.needed_whole import NeededWhole
from distir.transform.sharding.reshard import NotAlong
from distir.transform.sharding.rewrite import restated
from distir.transform.sharding.sends import parts_to_send, send_in_parts
from distir.transform.sharding.sums import PartialSums, Sums


@dataclass(frozen=True, slots=True)
class Callee:
    """A partitioned callee."""

    name: str
    joint: bool
    """Whether it is called once for all devices, not for each."""
    given: tuple[State, ...]
    single: tuple[bool, ...]
    """Which results are host values."""
    concrete: bool
    """Whether it holds for the sizes of these arguments alone, and so its callers do."""


Form = tuple[object, tuple[bool, ...], tuple[Value, ...], tuple[int, ...]]
"""A statement up to names: its op, discarded results, operands, and their states."""


class Callees(Sums, Protocol):
    """Provides partitioned callees."""

    @property
    def cut_sends(self) -> bool:
        """Whether values that every device holds whole are sent in parts."""
        ...

    @property
    def is_staged(self) -> bool:
        """Whether stages become differently many devices."""
        ...

    def callee(self, name: str, vs: Sequence[Value], states: Sequence[State]) -> Deep[Callee]:
        """A function written for arguments in these states."""
        ...


class ShardedBody(PartialSums):
    """The body of a function for given states of its arguments, as items."""

    def __init__(
        self,
        callees: Callees,
        domain: Checker,
        mesh: Mesh,
        function: Function,
        instance: Instance,
        states: Sequence[State],
        constraints: Mapping[str, State],
    ) -> None:
        super().__init__(callees, domain, mesh, function, instance)
        self.callees = callees
        self.constraints = constraints
        """By value: a state that all its users get."""
        self._whole = NeededWhole(mesh.whole, self.users)
        self._forms: dict[Form | None, tuple[Item, Sequence[tuple[Value, State, bool]]]] = {}
        """By form of a statement: the items of the first one, and its results; a pipeline repeats its statements."""
        self._leafwise_known: dict[Any, Typing] = {}
        """Decisions for ops over tuples: a cache, since gradients are accumulated with each microbatch."""
        for param, value, state in zip(function.params, instance.args, states, strict=True):
            self.define(param.name, value, state)

    def run(self) -> Deep[None]:
        """Partition all statements."""
        for index, statement in enumerate(self.function.body):
            if isinstance(statement, (Apply, Call)):
                start = len(self.items)
                yield from self._statement(index, statement)
                self._state(start, statement)
                for name in statement.results if self.constraints else ():
                    if name in self.constraints and (made := self.placed(name, self.constraints[name])) != name:
                        self._settled[name] = made
            else:
                assert isinstance(statement, Return), "the module checks"

    def result(self, arg: Arg, state: State | None) -> Arg:
        """A result of the entry function, in a state if one is stated."""
        start = len(self.items)
        returned = self.returned(arg)
        placed = returned if state is None else self.placed(returned, state)
        made = definitions(self.function).get(arg) if isinstance(arg, str) else None
        if made is not None:
            phase = Facts(facts_of(self.function.body[made]).phase)
            self.items[start:] = [with_facts(item, phase) for item in self.items[start:]]
        return placed

    def _state(self, start: int, statement: Apply | Call) -> None:
        """State the facts of a statement at its items, from `start` on: at those around a call with its function's."""
        around = statement.facts
        if isinstance(statement, Call):
            around = self.domain.module.functions[statement.function].facts.within(around)
        if around:
            for number, item in enumerate(self.items[start:], start):
                self.items[number] = with_facts(item, statement.facts if is_call(item) else around)

    def _statement(self, index: int, statement: Apply | Call) -> Deep[None]:
        """Partition a statement; like an earlier one of the same form, if that had no other effects.

        It uses partial sums in the state that an earlier statement needed: so no value computed from them is summed
        again.
        """
        if isinstance(statement, Apply):
            self.reduce_if_smaller(statement.args)
        args = tuple(map(self.settled, statement.args))
        if args != statement.args:
            statement = replace(statement, args=args)
        if isinstance(statement, Apply) and statement.op == "Sum":
            statement = self.partial_terms_first(statement)
        form = self._form(statement)
        known = self._forms.get(form)
        if known is None:
            before = len(self.items)
            if isinstance(statement, Apply):
                self._apply(index, statement)
            else:
                yield from self._call(statement)
            if form is not None and len(self.items) == before + 1 and is_plain(self.items[before], statement):
                given = [(self.value(name), self.state(name), name in self.single) for name in statement.results]
                self._forms[form] = self.items[before], given
            return
        first, given = known
        self.items.append(repeated(first, statement))
        for name, (value, state, single) in zip(statement.results, given, strict=True):
            if name == DISCARD:
                continue
            self._values[name], self._states[name] = value, state
            if single:
                self.single.add(name)

    def _form(self, statement: Apply | Call) -> Form | None:
        """The form of a statement; None if its names matter."""
        if statement.claims or self.callees.tokens is not None:
            return None
        vs: list[Value] = []
        states: list[int] = []
        for arg in statement.args:
            if isinstance(arg, str) and arg in self._values:
                vs.append(self._values[arg])
                states.append(id(self._states[arg]))  # states live as long as this; large ones compare slowly
            elif isinstance(arg, Literal):
                vs.append(arg)
                states.append(id(WHOLE))
            else:
                return None
        what = (statement.op, statement.attrs) if isinstance(statement, Apply) else statement.function
        return what, tuple([name == DISCARD for name in statement.results]), tuple(vs), tuple(states)

    def _apply(self, index: int, statement: Apply) -> None:
        vs = tuple(map(self.value, statement.args))
        states = tuple(map(self.state, statement.args))
        ws = self.domain.answer(statement, vs)
        if statement.op == "UnpackTuple":
            (items,) = states
            given = items if isinstance(items, tuple) else (items,) * len(ws)
            self.write(statement, ws, given)
        elif statement.op == "MakeTuple":
            self.write(statement, ws, (states,))
        elif statement.op == "Send" and (parts := self._sent(vs[0], states[0])):
            send_in_parts(self, statement, states[0], parts, ws[0])
        elif all(map(is_whole, states)):
            wanted = demanded(self, statement, ws) if self.factors else None
            decision = demanded_in_parts(self, statement, vs, ws)
            if decision is not None:
                write_decided(self, statement, vs, ws, decision)
            elif not isinstance(wanted, Nested) or not write_in_parts_along(self, statement, vs, ws, wanted):
                self._write_whole(statement, ws)
        elif all(map(is_host, ws)):
            restated(self, statement, vs, ws)
        elif any(isinstance(type_of(v), TupleType) for v in vs):
            self._leafwise(index, statement, vs, states, ws)
        elif any(map(is_nested, states)):
            with self._ruled(index, statement, states):
                found = decide_along(OPS[statement.op], statement.attrs, vs, states, ws, self.factors)
                write_along(self, statement, vs, ws, found)
        else:
            decision = self._decision(index, statement, vs, states, ws)
            if all(map(is_whole, decision.given)):
                decision = demanded_in_parts(self, statement, vs, ws) or decision
            decision = self._with_spread_sums(index, statement, vs, states, ws, decision)
            write_decided(self, statement, vs, ws, decision)

    def _sent(self, value: Value, state: State) -> State | None:
        """The state in which a value is sent in parts, if it is."""
        if not self.callees.cut_sends:
            return None
        return parts_to_send(value, state, self.size, scattered=self.callees.tokens is None)

    def _write_whole(self, statement: Apply, ws: Sequence[Value]) -> None:
        """Append a statement of whole operands. If they were gathered for it, its result is split again."""
        axis = self._whole.axis_again(statement)
        if axis is None:
            self.write(statement, ws, [whole_like(type_of(w)) for w in ws])
            return
        (name,), (w,) = statement.results, ws
        made = type_of(w)
        rank = len(made.shape) if isinstance(made, TensorType) and made.shape is not None else 0
        if -axis > rank:
            self.write(statement, ws, [WHOLE])
            return
        whole, state = self.fresh(f"{name}_whole"), Split(rank + axis)
        self.write(replace(statement, results=(whole,), claims=()), ws, [WHOLE])
        self.items.append(LocalSlice(name, whole, state.axis, self.order))
        self.define(name, w, state)

    def _decision(
        self, index: int, statement: Apply, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value]
    ) -> Typing:
        op = OPS[statement.op]
        if self._whole.includes(statement) and not any(map(holds_partial, states)):
            self._whole.gather(statement, vs, states)
            return Typing((WHOLE,) * len(states), (WHOLE,) * len(ws))
        with self._ruled(index, statement, states):
            if any(map(is_nested, states)):
                both = decide_along(op, statement.attrs, vs, states, ws, self.factors)
                return Typing(both.needed, both.given)
            return decide(op, statement.attrs, vs, states, [type_of(w) for w in ws], self.size, self.order)

    @contextmanager
    def _ruled(self, index: int, statement: Apply, states: Sequence[State]) -> Generator[None]:
        """Raises ProgramError where no rule says how the statement can be split."""
        op = OPS[statement.op]
        try:
            yield
        except NotExchanged as found:
            raise found.at(Site(self.function.name, index)) from None
        except (NoRule, NotAlong):
            split = next(i for i, state in enumerate(states) if isinstance(state, (Split, Nested)))
            named = statement.args[split]
            message = f"nothing says how `{op.name}` can be split, and `%{named}` is, along its dimension"
            state = states[split]
            axis = (
                next(own.axis for own, _ in state.parts if isinstance(own, Split))
                if isinstance(state, Nested)
                else cast(Split, state).axis
            )
            site = Site(self.function.name, index, Part("operand", split))
            hint = f"state a rule where the op is defined (`@{op.name}.sharding`)"
            found = Diagnostic(codes.NO_SHARDING_RULE, site, f"{message} {axis}", (), hint)
            raise ProgramError([found]) from None

    def _with_spread_sums(
        self,
        index: int,
        statement: Apply,
        vs: Sequence[Value],
        states: Sequence[State],
        ws: Sequence[Value],
        decision: Typing,
    ) -> Typing:
        """The decision with sums that would be needed whole spread over the devices, if the op can use parts."""
        spread = list(states)
        for i, (arg, state, need) in enumerate(zip(statement.args, states, decision.needed, strict=True)):
            if state is PARTIAL and need is WHOLE and isinstance(arg, str):
                there = self.spread(arg)
                spread[i] = state if there is WHOLE else there
        if spread == list(states):
            return decision
        found = self._decision(index, statement, vs, spread, ws)
        kept = all(n == s for n, s, old in zip(found.needed, spread, states, strict=True) if s != old)
        self.callees.spread += kept
        return found if kept else decision

    def _leafwise(
        self, index: int, statement: Apply, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value]
    ) -> None:
        """An op over tuples, decided leaf by leaf; leaves may need other states, but no other changes."""
        key = (statement.op, statement.attrs, tuple(vs), tuple(states), tuple(ws))
        decision = self._leafwise_known.get(key)
        if decision is None:
            decision = self._leafwise_known[key] = self._leaf_decision(index, statement, vs, states, ws)
        args = [self.placed(arg, need) for arg, need in zip(statement.args, decision.needed, strict=True)]
        self.write(statement, ws, decision.given, args)

    def _leaf_decision(
        self, index: int, statement: Apply, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value]
    ) -> Typing:
        """The decision for tuples, with a state for each item."""
        tuples = [isinstance(type_of(v), TupleType) for v in vs]
        if not any(tuples):
            return self._decision(index, statement, vs, states, ws)
        inner: list[Typing] = []
        for k in range(next(len(t.items) for v in vs if isinstance(t := type_of(v), TupleType))):
            item_states = [s[k] if isinstance(s, tuple) else s for s in states]
            items = ([item_of(v, k) for v in values] for values in (vs, ws))
            inner.append(self._leaf_decision(index, statement, next(items), item_states, next(items)))
        needed = tuple(tuple(d.needed[i] for d in inner) if is_tuple else WHOLE for i, is_tuple in enumerate(tuples))
        return Typing(needed, tuple(tuple(d.given[j] for d in inner) for j in range(len(ws))))

    def _call(self, statement: Call) -> Deep[None]:
        vs = tuple(map(self.value, statement.args))
        args: tuple[Arg, ...] = yield from self.given_to(statement, vs)
        states = tuple(map(self.state, args))
        ws = self.domain.instance(statement.function, vs).state.returned
        found = yield self.callees.callee(statement.function, vs, states)
        self.concrete |= found.concrete
        if not found.joint:
            own = replace(statement, function=found.name, args=args, claims=self.claims(statement, found.given))
            self.items.append(Each(own))
        else:
            names = tuple(
                self.fresh("unused") if name == DISCARD and (single or self.callees.is_staged) else name
                for name, single in zip(statement.results, found.single, strict=True)
            )
            self.single.update(name for name, single in zip(names, found.single, strict=True) if single)
            self.items.append(Joint(names, found.name, args))
            statement = replace(statement, results=names)
        for name, w, state in zip(statement.results, ws, found.given, strict=True):
            self.define(name, w, state)
