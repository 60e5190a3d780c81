"""Arranges the rows of experts in equal parts, one for each device that will own experts, in a program on one device.

Without a capacity the rows of a group are sorted by expert, without gaps, so the first row of an owner depends on data.
Here each owner gets a range of rows of fixed size: then rows, experts and their counts form one dimension, which can be
split. Results are equal. Ops that access rows by index need no change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.analysis import Analysis, Instance, State, check
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    Apply,
    Arg,
    Attributes,
    Call,
    Dim,
    Function,
    Literal,
    Module,
    Part,
    Site,
    Statement,
    TensorType,
    TupleType,
    Type,
    ops_in,
)
from distir.ir.rewrite import Rewriter, mapped
from distir.ops import type_of
from distir.ops.experts.operands import RAGGED_GRADIENTS, RAGGED_PRODUCTS
from distir.transform.instances import by_function, first_instances, instances
from distir.transform.sharding.sizes import divisors

PRODUCTS = (*RAGGED_PRODUCTS, *RAGGED_GRADIENTS)
RAGGED = frozenset({*PRODUCTS, "RaggedExpand", "RaggedSum"})
"""The ops that access rows by expert."""

QUANTISING = ("QuantizeFloat8", "ScaleToFloat8")
"""The ops that make their operands, in products in 8-bit floats."""


@dataclass(frozen=True, slots=True)
class Owners:
    """The number of owners, and their room as a multiple (`skew`) of the mean; 0: room for all rows."""

    count: int
    skew: float

    def room(self, choices: int) -> int:
        """The rows for which an owner has room, of a group's choices."""
        return choices if not self.skew else min(choices, math.ceil(self.skew * choices / self.count))


@dataclass(frozen=True, slots=True)
class OwnedExperts:
    """The program, and whether experts process all tokens that choose them."""

    module: Module
    is_dropless: bool


def owned(analysis: Analysis, entry: Function, owners: Owners) -> OwnedExperts:
    """The program with separate rows for each owner.

    Raises ProgramError where there are none, or they do not divide.
    """
    run = _Run(owners)
    firsts = [*first_instances(analysis, entry)]
    for instance in firsts:
        run.look(instance)
    changed = analysis.module.replacing(*map(run.function, firsts))
    if not run.dispatched:
        raise no_experts(entry)
    before = by_function(instances(analysis, entry))
    return OwnedExperts(retyped(analysis.module, changed, entry, before, _opened, _merged), bool(run.rooms))


def no_experts(entry: Function) -> ProgramError:
    """The error of a program in which there are no experts to be split."""
    message = f"`@{entry.name}` dispatches no tokens to experts"
    written = "as `distir model mixtral-8x7b` writes"
    hint = f"leave out `ep` and `expert_parallel`, or split a program with `Dispatch`, {written}"
    return ProgramError([Diagnostic(codes.NOTHING_TO_SPLIT, Site(entry.name), message, (), hint)])


def owners_of(module: Module) -> int:
    """The number of devices that share the experts of a program; 1 if they are not shared."""
    return max((n for s in ops_in(module, "Dispatch") if isinstance(n := s.attrs.get("owners", 1), int)), default=1)


def _quantised_rows(function: Function) -> set[str]:
    """The quantised rows that experts' products take."""
    products = [*ops_in(function, *PRODUCTS)]
    found = {s.args[0] for s in products} | {s.args[1] for s in products if s.op in RAGGED_GRADIENTS}
    return {name for name in found if isinstance(name, str)}


@dataclass
class _Run:
    owners: Owners
    dispatched: int = 0
    rooms: dict[int, int] = field(default_factory=dict[int, int])
    """By number of rows of a group: the number with room for each owner."""

    def look(self, instance: Instance) -> None:
        """Find the number of rows of groups without a capacity."""
        function = instance.function
        for index, statement in enumerate(function.body):
            if isinstance(statement, Apply) and statement.op == "Dispatch" and statement.attrs.get("capacity") is None:
                choices = self._choices(function, index, instance.state, statement.args[0])
                self.rooms[choices] = self.owners.count * self.owners.room(choices)

    def function(self, instance: Instance) -> Function:
        """The function with separate rows for each owner."""
        function = instance.function
        edit, rows = Rewriter(function), _quantised_rows(function)
        for i, s in edit:
            if isinstance(s, Apply) and s.op in QUANTISING and not rows.isdisjoint(s.results):
                s = replace(s, attrs=Attributes({**s.attrs, "owners": self.owners.count}), claims=())
            edit.replace(i, self._statement(function, i, s, instance.state))
        return edit.done()

    def _statement(self, function: Function, index: int, statement: Statement, rho: State) -> Statement:
        if not isinstance(statement, Apply):
            return statement
        attrs = dict(statement.attrs)
        if statement.op == "Dispatch":
            self.dispatched += 1
            experts = attrs["num_experts"]
            assert isinstance(experts, int)
            if experts % self.owners.count:
                message = f"{experts} experts do not split over {self.owners.count} devices"
                site, hint = Site(function.name, index, Part("attr", "num_experts")), f"{divisors(experts)} would do"
                raise ProgramError([Diagnostic(codes.INDIVISIBLE_SPLIT, site, message, (), hint)])
            if attrs.get("capacity") is not None:
                return statement
            choices = self._choices(function, index, rho, statement.args[0])
            attrs |= {"owners": self.owners.count, "room": self.owners.room(choices)}
            return replace(statement, attrs=Attributes(attrs), claims=())
        if statement.op == "Permute":
            x, places, *others = statement.args
            weights, stated = (*others, DISCARD, DISCARD)[:2]
            rows = self.rooms.get(self._choices(function, index, rho, places)) if stated == DISCARD else None
            if rows is None:
                return statement
            return replace(statement, args=(x, places, weights, Literal(rows)), claims=())
        if statement.op in RAGGED:
            args, load = statement.args, attrs.get("load", 1.0)
            assert isinstance(load, (int, float))
            third = args[2] if len(args) > 2 else DISCARD
            counted = third != DISCARD
            if statement.op == "RaggedExpand" and isinstance(third, Literal) and isinstance(third.value, int):
                args = (*args[:2], Literal(self.rooms.get(third.value, third.value)))
            elif statement.op in PRODUCTS and counted and not self.owners.skew:
                attrs["load"] = load / self.owners.count
            attrs["owners"] = self.owners.count
            return replace(statement, args=args, attrs=Attributes(attrs), claims=())
        return statement

    def _choices(self, function: Function, index: int, rho: State, arg: Arg) -> int:
        """The number of choices in a group. Raises ProgramError if it is unknown."""
        found = type_of(rho[arg]) if isinstance(arg, str) else None if isinstance(arg, tuple) else type_of(arg)
        shape = found.shape if isinstance(found, TensorType) else None
        if shape is None or not (isinstance(tokens := shape[-2], int) and isinstance(each := shape[-1], int)):
            message = f"the tokens of a group must be known to dispatch them to devices, found `{found}`"
            raise ProgramError([Diagnostic(codes.BAD_SPLIT, Site(function.name, index), message)])
        return tokens * each


def retyped(
    given: Module,
    changed: Module,
    entry: Function,
    before: Mapping[str, Sequence[Instance]],
    opened: Callable[[Type], Type],
    merged: Callable[[Type, Type, Type], Type],
) -> Module:
    """The rewritten program, with the sizes that it gives its functions now in the types of their parameters.

    `before`: the instances of the given one. `opened`: types of parameters without sizes that may be others now;
    `merged`: a stated type, with what its arguments were and are.
    """
    called = [function for function in changed if function.name != entry.name]
    free = (replace(f, params=tuple(replace(p, type=opened(p.type)) for p in f.params)) for f in called)
    now = check(changed.replacing(*map(unclaimed, free)), late=True)
    after = by_function(instances(now, entry))
    functions: list[Function] = []
    for function in called:
        params = function.params
        for old, new in zip(before.get(function.name, ()), after.get(function.name, ()), strict=False):
            columns = zip(params, old.args, new.args, strict=True)
            params = tuple([replace(p, type=merged(p.type, type_of(a), type_of(b))) for p, a, b in columns])
        stated = replace(function, params=params)
        is_called = function.name in after and stated != given.functions[function.name]
        functions.append(unclaimed(stated) if is_called else function)
    return changed.replacing(*functions)


def unclaimed(function: Function) -> Function:
    """The function without claims."""

    def changed(s: Statement) -> Statement:
        return replace(s, claims=()) if isinstance(s, (Apply, Call)) and s.claims else s

    return replace(mapped(function, changed), result_types=None)


def _opened(type: Type) -> Type:
    """The type with dimensions unknown that may be a number of rows, or a part of it."""
    if isinstance(type, TupleType):
        return TupleType(tuple(map(_opened, type.items)))
    shape = type.shape or () if isinstance(type, TensorType) else ()
    if not isinstance(type, TensorType) or len(shape) < 2 or not isinstance(shape[-2], int):
        return type
    return TensorType(type.dtype, (*shape[:-2], None, shape[-1]), type.device)


def _merged(stated: Type, before: Type, after: Type) -> Type:
    """A type with the sizes that changed."""
    if isinstance(stated, TupleType) and isinstance(before, TupleType) and isinstance(after, TupleType):
        return TupleType(tuple(map(_merged, stated.items, before.items, after.items)))
    if not (isinstance(stated, TensorType) and isinstance(before, TensorType) and isinstance(after, TensorType)):
        return stated
    if stated.shape is None or before.shape is None or after.shape is None or before.shape == after.shape:
        return stated
    shape: tuple[Dim, ...] = tuple(
        s if b == a else a for s, b, a in zip(stated.shape, before.shape, after.shape, strict=True)
    )
    return replace(stated, shape=shape)
