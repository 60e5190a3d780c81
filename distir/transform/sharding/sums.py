"""When partial sums are reduced: where they are first needed whole, and once.

Except where it is cheaper to reduce them earlier. With sequence parallelism, sums that are not needed whole are spread
over the devices: each gets the sum for its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Protocol

from distir.analysis import Checker, Instance
from distir.ir import DISCARD, Apply, Arg, Call, Function, Statement, TensorType, TupleType, Type, results, types
from distir.ir.builder import namer
from distir.ir.dataflow import uses
from distir.ir.deep import Deep
from distir.ops import OPS, Value, type_of
from distir.placement.along import (
    GREATEST,
    PARTIAL,
    WHOLE,
    Nested,
    Split,
    State,
    holds_partial,
    nested,
)
from distir.transform.sharding.batch import Places
from distir.transform.sharding.mesh import Mesh
from distir.transform.sharding.rewrite import Rewriting
from distir.transform.sharding.spread import tokens_of


class Sums(Protocol):
    """What the bodies of one program share about its sums over devices."""

    tokens: Mapping[str, Places] | None
    """By function: batch dimensions, if sums are to be spread over the devices (see `PartialSums.spread`)."""
    spread: int
    """The number of sums that were spread."""

    def sums(self, name: str, vs: Sequence[Value], states: Sequence[State]) -> Deep[int]:
        """The number of sums over devices in a call with arguments in these states."""
        ...


class PartialSums(Rewriting):
    """The items of a function's body, and which of its values are partial sums."""

    def __init__(self, program: Sums, domain: Checker, mesh: Mesh, function: Function, instance: Instance) -> None:
        super().__init__(mesh.size, namer(function), domain, mesh.order, mesh.factors)
        self.function, self.instance = function, instance
        self._program = program
        self._complete: set[Arg] = set()
        """Arguments without partial sums: a cache, since a stage's weights recur with each microbatch."""
        self._worth: dict[str, bool] = {}

    @cached_property
    def _uses(self) -> Mapping[str, Sequence[int]]:
        return uses(self.function)

    def users(self, name: str) -> list[Statement]:
        """The statements that use a value."""
        return [self.function.body[i] for i in self._uses.get(name, ())]

    def completed(self, arg: Arg) -> Arg:
        """The argument with partial sums completed."""
        return self.placed(arg, _completed(self.state(arg))) if self._is_partial(arg) else arg

    def returned(self, arg: Arg) -> Arg:
        """The argument as the program returns it: with partial sums completed, and in a finite list of blocks."""
        state = self.state(arg)
        return self.placed(arg, WHOLE) if isinstance(state, Split) and state.is_repeated else self.completed(arg)

    def reduce_if_smaller(self, args: Sequence[Arg]) -> None:
        """Reduce the partial sums among operands whose users' results, reduced one by one, are larger together."""
        for arg in args:
            is_sum = isinstance(arg, str) and self.state(arg) is PARTIAL and arg not in self._settled
            if isinstance(arg, str) and is_sum and self._is_worth_a_sum(arg):
                self._finish(arg)

    def _is_worth_a_sum(self, name: str) -> bool:
        known = self._worth.get(name)
        if known is None:
            users = self.users(name)
            known = self._worth[name] = len(users) > 1 and self._is_smaller(name, users)
        return known

    def _is_smaller(self, name: str, users: Sequence[Statement]) -> bool:
        """Whether a value is no larger than the results of these statements."""
        made = [tuple(filter(None, results(user))) or (name,) for user in users]
        sizes = [sum(_elements(type_of(v)) for v in self.instance.state(names)) for names in made]
        return _elements(type_of(self.value(name))) <= sum(sizes)

    def partial_terms_first(self, statement: Apply) -> Apply:
        """Add partial sums among the operands of a `Sum` first, for one collective instead of one each."""
        own = [arg for arg in statement.args if self.state(arg) is PARTIAL]
        if statement.results[0] == DISCARD or not 1 < len(own) < len(statement.args):
            return statement
        name, w = self.fresh(f"{statement.results[0]}_part"), self.instance.state[statement.results[0]]
        self.write(Apply((name,), "Sum", tuple(own), stream=statement.stream), [w], (PARTIAL,))
        return replace(statement, args=(name, *(arg for arg in statement.args if arg not in own)))

    def given_to(self, statement: Call, vs: tuple[Value, ...]) -> Deep[tuple[Arg, ...]]:
        """The arguments of a call: partial sums stay partial if the function only passes them on, or adds to them.

        If it needs them whole they are completed here, once for all users; but not for a function that names devices:
        it is a part of its caller's schedule, and completes them at their first use.
        """
        partial = [i for i, arg in enumerate(statement.args) if self._is_partial(arg)]
        if not partial or names_devices(self.domain.module.functions[statement.function]):
            return statement.args

        def sums(kept: Collection[int]) -> Deep[int]:
            states = (self.state(a) if i in kept else self._finished(a) for i, a in enumerate(statement.args))
            return self._program.sums(statement.function, vs, tuple(states))

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

    def spread(self, name: str) -> State:
        """The state of a partial sum that is not needed whole: loosely split along its tokens, if it has any.

        The gradient of a split weight is split as that is: its update needs no more, as with the rows of an embedding.
        """
        updated = self._of_split_weight(name)
        if updated is not None:
            return updated
        batch = (self._program.tokens or {}).get(self.function.name, {})
        users = self.users(name)
        dim = tokens_of(name, self.value(name), batch, users, self.instance, self.domain, lambda _: self.size)
        return WHOLE if dim is None else Split(dim, (), loose=True)

    def _of_split_weight(self, name: str) -> State | None:
        """The state in which an optimizer's update needs a gradient; None if nothing updates a split weight with it."""
        for user in self.users(name):
            inplace = OPS[user.op].inplace if isinstance(user, Apply) else "each"
            if not isinstance(user, Apply) or user.args[1:2] != (name,) or inplace == "each" or inplace.get(0) != 0:
                continue
            weight = user.args[0]
            state = self.state(weight) if isinstance(weight, str) and self.is_defined(weight) else None
            if isinstance(state, Split) and not state.loose:
                return state
        return None

    def _finish(self, arg: Arg) -> Arg:
        """The argument with partial sums completed, or spread over the devices."""
        state = self._finished(arg)
        self._program.spread += isinstance(state, Split)
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


def names_devices(function: Function) -> bool:
    """Whether a function's parameters name devices."""
    return any(types.devices(p.type) for p in function.params)


def _completed(state: State) -> State:
    if isinstance(state, tuple):
        return tuple(map(_completed, state))
    if isinstance(state, Nested):
        return nested([_completed(own) for own, _ in state.parts], [count for _, count in state.parts])
    return WHOLE if state in (PARTIAL, GREATEST) else state


@lru_cache(maxsize=1 << 14)  # a cache, as large tuples are passed from call to call
def _elements(type: Type) -> int:
    """The number of elements, with 1 for unknown dimensions."""
    if isinstance(type, TupleType):
        return sum(map(_elements, type.items))
    shape = type.shape or () if isinstance(type, TensorType) else (0,)
    return math.prod([dim if isinstance(dim, int) else 1 for dim in shape])
