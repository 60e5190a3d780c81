"""Partitions one function's body over the devices of a mesh axis, statement by statement, forward.

A value keeps the state in which it was computed until a statement needs another one: partial sums are reduced where
they are first needed whole, and once. Host values keep their meaning in the whole program.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any, Protocol, cast

from distir.analysis import Checker, Instance
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Arg,
    Attributes,
    Call,
    Dense,
    Function,
    Literal,
    Part,
    Return,
    Site,
    Statement,
    TensorType,
    TupleType,
    Type,
    results,
    types,
)
from distir.ir import names as names_of
from distir.ir.dataflow import uses
from distir.ir.deep import Deep
from distir.ops import OPS, Value, strengthen, type_of
from distir.transform.sharding.batch import Places
from distir.transform.sharding.decide import Decision, NoRule, NotExchanged, decide, made_in_parts
from distir.transform.sharding.items import Collective, Each, Item, Joint, LocalSlice, is_plain, repeated
from distir.transform.sharding.mesh import Mesh
from distir.transform.sharding.rewrite import Rewriting, restated, rewritten
from distir.transform.sharding.sizes import divisors
from distir.transform.sharding.state import (
    GREATEST,
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
    """A partitioned callee."""

    name: str
    joint: bool
    """Whether it is called once for all devices, not for each."""
    given: tuple[State, ...]
    single: tuple[bool, ...]
    """Which results are host values."""


Form = tuple[object, tuple[bool, ...], tuple[Value, ...], tuple[int, ...]]
"""A statement up to names: its op, discarded results, operands, and their states."""


class Callees(Protocol):
    """Provides partitioned callees."""

    tokens: Mapping[str, Places] | None
    """By function: batch dimensions, if sums are to be spread over the devices (see `ShardedBody.spread`)."""
    spread: int
    """The number of sums that were spread."""

    @property
    def cut_sends(self) -> bool:
        """Whether values that every device holds whole are sent in parts."""
        ...

    def callee(self, name: str, vs: Sequence[Value], states: Sequence[State]) -> Deep[Callee]:
        """A function written for arguments in these states."""
        ...

    def sums(self, name: str, vs: Sequence[Value], states: Sequence[State]) -> Deep[int]:
        """The number of sums over devices in a call with arguments in these states."""
        ...


PASSED_ON = frozenset({"Cast", "Flatten", "Reshape"})
"""Ops allowed between a value and an op that needs it whole: the value before them is gathered, in its type."""


class ShardedBody(Rewriting):
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
        taken = [*(p.name for p in function.params), *(n for s in function.body for n in results(s))]
        super().__init__(mesh.size, taken, domain, mesh.order)
        self.callees, self.function, self.instance, self.mesh = callees, function, instance, mesh
        self.constraints = constraints
        """By value: a state that all its users get."""
        self._complete: set[Arg] = set()
        """Arguments without partial sums: a cache, since a stage's weights recur with each microbatch."""
        self._forms: dict[Form | None, tuple[Item, Sequence[tuple[Value, State, bool]]]] = {}
        """By form of a statement: the items of the first one, and its results; a pipeline repeats its statements."""
        self._leafwise_known: dict[Any, Decision] = {}
        """Decisions for ops over tuples: a cache, since gradients are accumulated with each microbatch."""
        self._gathered_along: dict[str, int] = {}
        """By value gathered for an op that needs it whole, or computed from one: the gathered axis, from the end."""
        self._worth: dict[str, bool] = {}
        for param, value, state in zip(function.params, instance.args, states, strict=True):
            self.define(param.name, value, state)

    @cached_property
    def _users(self) -> Mapping[str, Sequence[Statement]]:
        """By value: the statements that use it."""
        body = self.function.body
        return {name: [body[i] for i in places] for name, places in uses(self.function).items()}

    def run(self) -> Deep[None]:
        """Partition all statements."""
        for index, statement in enumerate(self.function.body):
            if isinstance(statement, (Apply, Call)):
                yield from self._statement(index, statement)
                for name in statement.results if self.constraints else ():
                    if name in self.constraints and (made := self.placed(name, self.constraints[name])) != name:
                        self._settled[name] = made
            else:
                assert isinstance(statement, Return), "the module checks"

    def _statement(self, index: int, statement: Apply | Call) -> Deep[None]:
        """Partition a statement; like an earlier one of the same form, if that had no other effects.

        It uses partial sums in the state that an earlier statement needed: so no value computed from them is summed
        again.
        """
        for arg in statement.args if isinstance(statement, Apply) else ():
            is_sum = isinstance(arg, str) and self.state(arg) is PARTIAL and arg not in self._settled
            if isinstance(arg, str) and is_sum and self._is_worth_a_sum(arg):
                self._finish(arg)
        args = tuple(map(self.settled, statement.args))
        if args != statement.args:
            statement = replace(statement, args=args)
        if isinstance(statement, Apply) and statement.op == "Sum":
            statement = self._partial_scalars_first(statement)
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

    def _partial_scalars_first(self, statement: Apply) -> Apply:
        """Add partial sums among scalar operands of a sum first, for one collective instead of one each.

        For larger values the extra addition takes longer than it saves.
        """
        own = [arg for arg in statement.args if self.state(arg) is PARTIAL]
        w = self.instance.state[statement.results[0]] if statement.results[0] != DISCARD else None
        scalar = isinstance(w, TensorType) and w.shape == ()
        if not scalar or len(own) < 2 or len(own) == len(statement.args):
            return statement
        name = self.fresh(f"{statement.results[0]}_part")
        self._write(Apply((name,), "Sum", tuple(own), stream=statement.stream), [w], (PARTIAL,))
        return replace(statement, args=(name, *(arg for arg in statement.args if arg not in own)))

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

    def _is_worth_a_sum(self, name: str) -> bool:
        """Whether to reduce a partial sum at once, as results of its users, reduced one by one, are larger together."""
        known = self._worth.get(name)
        if known is None:
            users = self._users.get(name, ())
            known = self._worth[name] = len(users) > 1 and self._is_smaller(name, users)
        return known

    def _is_smaller(self, name: str, users: Sequence[Statement]) -> bool:
        """Whether a value is no larger than the results of these statements."""
        made = [tuple(filter(None, results(user))) or (name,) for user in users]
        sizes = [sum(_elements(type_of(v)) for v in self.instance.state(names)) for names in made]
        return _elements(type_of(self.value(name))) <= sum(sizes)

    def completed(self, arg: Arg) -> Arg:
        """The argument with partial sums completed."""
        return self.placed(arg, _completed(self.state(arg))) if self._is_partial(arg) else arg

    def returned(self, arg: Arg) -> Arg:
        """The argument as the program returns it: with partial sums completed, and in a finite list of blocks."""
        state = self.state(arg)
        return self.placed(arg, WHOLE) if isinstance(state, Split) and state.is_repeated else self.completed(arg)

    def settled(self, arg: Arg) -> Arg:
        """The argument with partial sums completed, if a statement already needed that."""
        return self._settled.get(arg, arg) if isinstance(arg, str) else arg

    def kept(self, arg: Arg) -> Arg:
        """The argument as a function returns it: in the state that its last user needed, as will a backward pass."""
        found = self.settled(arg)
        return self._exchanged.get(found, found) if isinstance(found, str) else found

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
        elif statement.op == "Send" and self.callees.cut_sends and (parts := self._parts_to_send(vs[0], states[0])):
            self._send_in_parts(statement, states[0], parts, ws)
        elif all(map(is_whole, states)):
            decision = self._wanted_in_parts(statement, vs, ws)
            if decision is not None:
                self._write_decided(statement, vs, ws, decision)
            else:
                self._write_whole(statement, ws)
        elif all(map(is_host, ws)):
            self._host(statement, vs, ws)
        elif any(isinstance(type_of(v), TupleType) for v in vs):
            self._leafwise(index, statement, vs, states, ws)
        else:
            decision = self._decision(index, statement, vs, states, ws)
            if all(map(is_whole, decision.given)):
                decision = self._wanted_in_parts(statement, vs, ws) or decision
            decision = self._spread(index, statement, vs, states, ws, decision)
            self._write_decided(statement, vs, ws, decision)

    def _write_whole(self, statement: Apply, ws: Sequence[Value]) -> None:
        """Append a statement of whole operands.

        If the operands of a `whole` op were gathered for it, its results are split again: so each device takes its part
        of the gradient of logits.
        """
        axes = {self._gathered_along[name] for name in names_of(statement.args) if name in self._gathered_along}
        if statement.op in PASSED_ON:
            self._gathered_along.update((name, axis) for name in statement.results for axis in axes)
        if statement.op not in self.mesh.whole or len(axes) != 1 or len(statement.results) != 1:
            self._write(statement, ws, [whole_like(type_of(w)) for w in ws])
            return
        (axis,), (name,), (w,) = axes, statement.results, ws
        made = type_of(w)
        rank = len(made.shape) if isinstance(made, TensorType) and made.shape is not None else 0
        if -axis > rank:
            self._write(statement, ws, [WHOLE])
            return
        whole, state = self.fresh(f"{name}_whole"), Split(rank + axis)
        self._write(replace(statement, results=(whole,), claims=()), ws, [WHOLE])
        self.items.append(LocalSlice(name, whole, state.axis))
        self.define(name, w, state)

    def _wanted_in_parts(self, statement: Apply, vs: Sequence[Value], ws: Sequence[Value]) -> Decision | None:
        """The decision to compute only the part that a user needs, if devices can compute it from whole operands."""
        op, name = OPS[statement.op], statement.results[0]
        if "parted" not in op.rules or len(ws) != 1 or is_host(ws[0]):
            return None
        for user in self._users.get(name, ()):
            known = isinstance(user, Apply) and all(arg == name or arg in self._states for arg in names_of(user.args))
            if not known or not isinstance(user, Apply) or user.op in ("MakeTuple", "UnpackTuple", "Send"):
                continue
            theirs = tuple(ws[0] if arg == name else self.value(arg) for arg in user.args)
            states = tuple(WHOLE if arg == name else self.state(arg) for arg in user.args)
            made = [type_of(w) for w in self.domain.answer(user, theirs)]
            if any(isinstance(type_of(v), TupleType) for v in theirs):
                continue
            try:
                needed = decide(OPS[user.op], user.attrs, theirs, states, made, self.size, self.order).needed
            except (NoRule, NotExchanged):
                continue
            wanted = needed[user.args.index(name)]
            if isinstance(wanted, Split):
                return made_in_parts(op, statement.attrs, vs, [type_of(ws[0])], wanted, self.size)
        return None

    def _parts_to_send(self, value: Value, state: State) -> State | None:
        """The state in which a value is sent in parts; None where every device sends what it has.

        A partial sum is scattered as it is taken, unless sums are spread along the tokens anyway.
        """
        found = type_of(value)
        if isinstance(found, TupleType):
            states = state if isinstance(state, tuple) else (state,) * len(found.items)
            parts = [self._part_to_send(item, s) for item, s in zip(found.items, states, strict=True)]
            return None if parts == list(states) else tuple(parts)
        part = self._part_to_send(found, state)
        return None if part == state else part

    def _part_to_send(self, found: Type, state: State) -> State:
        whole = state is WHOLE or (state is PARTIAL and self.callees.tokens is None)
        if not whole or not isinstance(found, TensorType) or found.device == HOST:
            return state
        divides = [isinstance(dim, int) and dim and dim % self.size == 0 for dim in found.shape or ()]
        # The first dimension last: it is mostly that of the batch, which data parallelism splits.
        axis = next((axis for axis in (*range(1, len(divides)), 0) if divides and divides[axis]), None)
        return state if axis is None else Split(axis)

    def _send_in_parts(self, statement: Apply, before: State, parts: State, ws: Sequence[Value]) -> None:
        """Write a send of a part by each device, and a gather after it."""
        (result,), (w,) = statement.results, ws
        if result == DISCARD:
            result = self.fresh("unused")
        part = self.fresh(f"{result}_sent")
        arg = self.placed(statement.args[0], parts)
        self._write(replace(statement, results=(part,), args=(arg,)), ws, (parts,))
        if isinstance(parts, Split):
            self._gather_into(result, part, w, parts)
            return
        found = type_of(w)
        assert isinstance(found, TupleType)
        assert isinstance(parts, tuple)
        names = tuple(self.fresh(f"{part}_{k}") for k in range(len(parts)))
        self.items.append(Each(Apply(names, "UnpackTuple", (part,))))
        gathered: list[str] = []
        states: list[State] = []
        cut = [not (isinstance(before, tuple) and before[k] == state) for k, state in enumerate(parts)]
        cut = [is_cut and isinstance(state, Split) for is_cut, state in zip(cut, parts, strict=True)]
        for k, (name, state) in enumerate(zip(names, parts, strict=True)):
            self.define(name, _item(w, k), state)
            gathered.append(self.fresh(f"{result}_{k}") if cut[k] else name)
            states.append(WHOLE if cut[k] else state)
            if cut[k]:
                assert isinstance(state, Split)
                self._gather_into(gathered[-1], name, _item(w, k), state)
        self._write(Apply((result,), "MakeTuple", tuple(gathered)), ws, (tuple(states),))

    def _gather_into(self, result: str, part: str, w: Value, state: Split) -> None:
        self.items.append(Collective(result, "MPIAllgather", part, _along(state.axis)))
        self.define(result, w, WHOLE)

    def _is_whole(self, statement: Statement) -> bool:
        """Whether each device computes this from whole operands: a `whole` op, or one that only such ops use."""
        if not self.mesh.whole or not isinstance(statement, Apply):
            return False
        if statement.op in self.mesh.whole:
            return True
        users = [user for name in statement.results for user in self._users.get(name, ())]
        return statement.op in PASSED_ON and bool(users) and all(map(self._is_whole, users))

    def _decision(
        self, index: int, statement: Apply, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value]
    ) -> Decision:
        op = OPS[statement.op]
        if self._is_whole(statement) and not any(map(holds_partial, states)):
            for v, state in zip(vs, states, strict=True):
                if isinstance(state, Split) and not state.blocks:
                    axis = state.axis - len(cast(TensorType, type_of(v)).shape or ())
                    self._gathered_along.update((name, axis) for name in statement.results)
            return Decision((WHOLE,) * len(states), (WHOLE,) * len(ws))
        try:
            return decide(op, statement.attrs, vs, states, [type_of(w) for w in ws], self.size, self.order)
        except NotExchanged as found:
            sizes = " and ".join(map(str, sorted(found.sizes, reverse=True)))
            message = f"`{op.name}` has {sizes} heads, which do not split over {self.size} devices"
            hint = f"{divisors(math.gcd(*found.sizes))} would do, or `cp_kind=allgather`"
            site = Site(self.function.name, index)
            raise ProgramError([Diagnostic(codes.INDIVISIBLE_SPLIT, site, message, (), hint)]) from None
        except NoRule:
            split = next(i for i, state in enumerate(states) if isinstance(state, Split))
            named = statement.args[split]
            message = f"nothing says how `{op.name}` can be split, and `%{named}` is, along its dimension"
            axis = cast(Split, states[split]).axis
            site = Site(self.function.name, index, Part("operand", split))
            hint = f"state a rule where the op is defined (`@{op.name}.sharding`)"
            found = Diagnostic(codes.NO_SHARDING_RULE, site, f"{message} {axis}", (), hint)
            raise ProgramError([found]) from None

    def _spread(
        self,
        index: int,
        statement: Apply,
        vs: Sequence[Value],
        states: Sequence[State],
        ws: Sequence[Value],
        decision: Decision,
    ) -> Decision:
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

    def spread(self, name: str) -> State:
        """The state of a partial sum that is not needed whole: loosely split along its tokens, if it has any.

        Tokens are neither the batch nor the last dimension, the features (sequence parallelism: Korthikanti et al.,
        *Reducing activation recomputation in large transformer models*, 2022).
        """
        found = type_of(self.value(name))
        places = (self.callees.tokens or {}).get(self.function.name, {})
        if not isinstance(found, TensorType) or found.shape is None:
            return WHOLE
        batch = [axis for axis in range(len(found.shape)) if (name, (), axis) in places]
        for axis, dim in enumerate(found.shape[:-1]):
            if batch and axis not in batch and isinstance(dim, int) and dim % self.size == 0:
                return Split(axis, (), loose=True)
        return WHOLE

    def _write_decided(self, statement: Apply, vs: Sequence[Value], ws: Sequence[Value], decision: Decision) -> None:
        whole = _typed_where_cut(statement, vs, decision)
        args = [self.placed(arg, need) for arg, need in zip(whole, decision.needed, strict=True)]
        if decision.letter is None:
            self._write(statement, ws, decision.given, args)
        elif decision.returned is None:
            rewritten(self, statement, args, vs, ws, decision)
        else:
            own = self._own_names(statement.results, decision)
            assert decision.layout is not None
            assert decision.layout.exchanged is not None
            mark = decision.layout.exchanged.mark
            attrs = Attributes({name: value for name, value in statement.attrs.items() if name != mark})
            rewritten(self, replace(statement, results=own, attrs=attrs, claims=()), args, vs, ws, decision)
            self._bring_back(statement.results, own, ws, decision)

    def _own_names(self, results: Sequence[str], decision: Decision) -> tuple[str, ...]:
        """Names for results that change their state at once."""
        assert decision.returned is not None
        pairs = zip(results, decision.given, decision.returned, strict=True)
        return tuple(r if r == DISCARD or given == back else self.fresh(f"{r}_heads") for r, given, back in pairs)

    def _bring_back(self, results: Sequence[str], own: Sequence[str], ws: Sequence[Value], decision: Decision) -> None:
        """Bring results back into the states of the op's operands."""
        assert decision.returned is not None
        for name, given, w, now, back in zip(results, own, ws, decision.given, decision.returned, strict=True):
            if given == name:
                continue
            assert isinstance(now, Split)
            assert isinstance(back, Split)
            along = Attributes({"split_axis": back.axis, "concat_axis": now.axis})
            self.items.append(Collective(name, "MPIAlltoall", given, along))
            self.define(name, w, back)

    def _leafwise(
        self, index: int, statement: Apply, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value]
    ) -> None:
        """An op over tuples, decided leaf by leaf; leaves may need other states, but no other changes."""
        key = (statement.op, statement.attrs, tuple(vs), tuple(states), tuple(ws))
        decision = self._leafwise_known.get(key)
        if decision is None:
            decision = self._leafwise_known[key] = self._leaf_decision(index, statement, vs, states, ws)
        args = [self.placed(arg, need) for arg, need in zip(statement.args, decision.needed, strict=True)]
        self._write(statement, ws, decision.given, args)

    def _leaf_decision(
        self, index: int, statement: Apply, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value]
    ) -> Decision:
        """The decision for tuples, with a state for each item."""
        tuples = [isinstance(type_of(v), TupleType) for v in vs]
        if not any(tuples):
            return self._decision(index, statement, vs, states, ws)
        inner: list[Decision] = []
        for k in range(next(len(t.items) for v in vs if isinstance(t := type_of(v), TupleType))):
            item_states = [s[k] if isinstance(s, tuple) else s for s in states]
            items = ([_item(v, k) for v in values] for values in (vs, ws))
            inner.append(self._leaf_decision(index, statement, next(items), item_states, next(items)))
        needed = tuple(tuple(d.needed[i] for d in inner) if is_tuple else WHOLE for i, is_tuple in enumerate(tuples))
        return Decision(needed, tuple(tuple(d.given[j] for d in inner) for j in range(len(ws))))

    def _host(self, statement: Apply, vs: Sequence[Value], ws: Sequence[Value]) -> None:
        """Static properties of a split value (its shape) are those of the whole value."""
        restated(self, statement, vs, ws)

    def _call(self, statement: Call) -> Deep[None]:
        vs = tuple(map(self.value, statement.args))
        args = yield from self._given_partial(statement, vs)
        states = tuple(map(self.state, args))
        ws = self.domain.instance(statement.function, vs).state.returned
        found = yield self.callees.callee(statement.function, vs, states)
        if not found.joint:
            own = replace(statement, function=found.name, args=args, claims=self.claims(statement, found.given))
            self.items.append(Each(own))
        else:
            names = tuple(
                self.fresh("unused") if name == DISCARD and single else name
                for name, single in zip(statement.results, found.single, strict=True)
            )
            self.single.update(name for name, single in zip(names, found.single, strict=True) if single)
            self.items.append(Joint(names, found.name, args))
        for name, w, state in zip(statement.results, ws, found.given, strict=True):
            self.define(name, w, state)

    def _given_partial(self, statement: Call, vs: tuple[Value, ...]) -> Deep[tuple[Arg, ...]]:
        """The arguments of a call: partial sums stay partial if the function only passes them on, or adds to them.

        If it needs them whole they are completed here, once for all users; but not for a function that names devices:
        it is a part of its caller's schedule, and completes them at their first use.
        """
        partial = [i for i, arg in enumerate(statement.args) if self._is_partial(arg)]
        if not partial or names_devices(self.domain.module.functions[statement.function]):
            return statement.args

        def sums(kept: Collection[int]) -> Deep[int]:
            states = (self.state(a) if i in kept else self._finished(a) for i, a in enumerate(statement.args))
            return self.callees.sums(statement.function, vs, tuple(states))

        least = yield sums(())
        kept = partial
        if (yield sums(partial)) > least:
            kept = list[int]()
            for i in partial:
                if (yield sums((i,))) <= least:
                    kept.append(i)
        args = list(statement.args)
        for i in set(partial).difference(kept):
            args[i] = self._finish(args[i])
        return tuple(args)

    def _finish(self, arg: Arg) -> Arg:
        """The argument with partial sums completed, or spread over the devices."""
        state = self._finished(arg)
        self.callees.spread += isinstance(state, Split)
        return self.placed(arg, state)

    def _finished(self, arg: Arg) -> State:
        """The state of an argument without partial sums."""
        state = self.state(arg)
        if state is not PARTIAL or not isinstance(arg, str):
            return _completed(state)
        return self.spread(arg)

    def _is_partial(self, arg: Arg) -> bool:
        """Whether an argument holds partial sums."""
        if arg in self._complete:
            return False
        if holds_partial(self.state(arg)):
            return True
        self._complete.add(arg)
        return False

    def _write(
        self, statement: Apply, ws: Sequence[Value], given: Sequence[State], args: Sequence[Arg] | None = None
    ) -> None:
        """Append a statement as it is, with other arguments."""
        unchanged = args is None or tuple(args) == statement.args
        claims = self.claims(statement, given)
        if not (unchanged and claims == statement.claims):
            statement = replace(statement, args=tuple(args or statement.args), claims=claims)
        self.items.append(Each(statement))
        for name, w, state in zip(statement.results, ws, given, strict=True):
            self.define(name, w, state)


@cache
def _along(axis: int) -> Attributes:
    return Attributes({"axis": axis})


@lru_cache(maxsize=1 << 14)  # a cache, as large tuples are passed from call to call
def _elements(type: Type) -> int:
    """The number of elements, with 1 for unknown dimensions."""
    if isinstance(type, TupleType):
        return sum(map(_elements, type.items))
    shape = type.shape or () if isinstance(type, TensorType) else (0,)
    return math.prod([dim if isinstance(dim, int) else 1 for dim in shape])


def names_devices(function: Function) -> bool:
    """Whether a function's parameters or statements name devices."""
    return any(types.devices(p.type) for p in function.params)


def _completed(state: State) -> State:
    if isinstance(state, tuple):
        return tuple(map(_completed, state))
    return WHOLE if state in (PARTIAL, GREATEST) else state


def _item(value: Value, k: int) -> Value:
    if isinstance(value, TupleType):
        return value.items[k]
    return value[k] if isinstance(value, tuple) else value


def _typed_where_cut(statement: Apply, vs: Sequence[Value], decision: Decision) -> tuple[Arg, ...]:
    """The operands, with element types for literals that are split: those types follow from other operands."""
    pairs = zip(statement.args, decision.needed, strict=True)
    if not any(isinstance(arg, Literal) and isinstance(need, Split) for arg, need in pairs):
        return statement.args
    strong = strengthen(OPS[statement.op], vs, statement.attrs)
    typed = zip(statement.args, vs, strong, strict=True)
    return tuple(
        Literal(found) if isinstance(arg, Literal) and isinstance(found, Dense) and type_of(v) != found.type else arg
        for arg, v, found in typed
    )
