"""What each value of a program is: a weight, a gradient, optimizer state, an activation, ….

A parameter of the entry function is of the kind that its role says; copies of it, and what is gathered from it, are of
the same kind. A gradient is an optimizer's operand, before and after it is summed over devices and microbatches, in the
element type in which it is; where nothing is updated, what a backward pass gives. All else that a program computes is
an activation. Which parameter a value belongs to, `owners` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Union

from distir.ir import Apply, Arg, Call, Function, Module, Param
from distir.ir.calls import callees, callees_first, calls_of
from distir.ir.core import names
from distir.ir.dataflow import maker
from distir.ops import OPS
from distir.ops.optimizer import is_optimizer

WEIGHTS, BUFFERS, STATE, CACHES, INPUTS = "weights", "buffers", "optimizer state", "caches", "inputs"
GRADIENTS, ACTIVATIONS, TEMPORARY = "gradients", "activations", "temporary"
KINDS: tuple[str, ...] = (WEIGHTS, BUFFERS, STATE, CACHES, INPUTS, GRADIENTS, ACTIVATIONS, TEMPORARY)
"""The kinds of values, in the order of listings; `temporary`: memory of an op while it runs."""

ROLES = {"param": WEIGHTS, "buffer": BUFFERS, "state": STATE}

MOVING = frozenset(("Flatten", "Slice", "Split", "Concat", "Cast", "CastGradient", "GroupPart", "GroupParts"))
"""Ops whose results are what their operands are, beside views, communication, and copies to hosts and back."""

SUMMING, SCALING = frozenset(("Add", "Sum", "Transpose")), frozenset(("Mul", "Div"))
"""Ops that add gradients up, or turn them, and that may scale them by a number."""

BELONGING = frozenset((WEIGHTS, BUFFERS, STATE, GRADIENTS))
"""The kinds of values that belong to a parameter."""

Place = tuple[str, str]
"""A function and a value of it."""

_Kind = Union[str, "tuple[_Kind, ...]", None]
"""The kind of a value, of a tuple by item; None where it is not known yet."""

NO_KINDS: Mapping[str, _Kind] = {}


def kind_of(param: Param) -> str:
    """The kind of an entry function's parameter, by its role. State with a batch is a cache, as of keys and values."""
    if "state" in param.roles and "batch" in param.roles:
        return CACHES
    return next((kind for role, kind in ROLES.items() if role in param.roles), INPUTS)


@dataclass
class ValueKinds:
    """The kind of each value of a program, in any call."""

    module: Module
    entry: Function
    gradients: set[Place] = field(default_factory=set[Place])
    _kinds: dict[str, Mapping[str, _Kind]] = field(default_factory=dict[str, "Mapping[str, _Kind]"])
    """By function: the kinds of its values, of tuples by item."""
    uncast: set[Place] = field(default_factory=set[Place])
    """Gradients in the element type in which they are computed, where they are added up in another one."""

    def __post_init__(self) -> None:
        order = list(reversed(list(callees_first(self.module))))
        given: dict[str, list[_Kind]] = {f.name: [None] * len(f.params) for f in order}
        given[self.entry.name] = [kind_of(p) for p in self.entry.params]
        callers: dict[str, set[str]] = {}
        for function in order:
            for callee in callees(function):
                callers.setdefault(callee, set()).add(function.name)
        waiting = {function.name for function in order}
        while waiting:  # arguments become known from callers to callees, results the other way: two sweeps, mostly
            for function in (*order, *reversed(order)):
                if function.name in waiting:
                    waiting.discard(function.name)
                    waiting |= self._forward(function, given, callers)
        self._backward()

    def of_parameter(self, name: str) -> str:
        """The kind of a parameter of the entry function."""
        kind = self._kind_in(self.entry.name, name)
        return INPUTS if kind is None else _whole(kind)

    def of(self, function: str, name: str) -> str:
        """The kind of a value that a statement of a function defines."""
        if (function, name) in self.gradients:
            return GRADIENTS
        kind = self._kind_in(function, name)
        return kind if isinstance(kind, str) else ACTIVATIONS if kind is None else _whole(kind)

    def _kind_in(self, function: str, name: str) -> _Kind:
        return self._kinds.get(function, NO_KINDS).get(name)

    def is_gradient(self, function: str, name: str) -> bool:
        """Whether a value is a gradient of a weight, in whatever element type."""
        return (function, name) in self.gradients or (function, name) in self.uncast

    def belongs(self, function: str, name: str) -> bool:
        """Whether a value is a weight, state, a copy or an update of one, or a gradient."""
        return self.is_gradient(function, name) or not BELONGING.isdisjoint(_leaves(self._kind_in(function, name)))

    def _forward(self, function: Function, given: dict[str, list[_Kind]], callers: Mapping[str, set[str]]) -> set[str]:
        """Propagate kinds through a function. Returns the functions for which kinds changed."""
        params = [p.name for p in function.params]
        rho: dict[str, _Kind] = dict(zip(params, given[function.name], strict=True))
        changed: set[str] = set()
        for statement in function.body:
            if isinstance(statement, Call):
                callee = self.module.functions[statement.function]
                own = given[callee.name]
                joined = [_joined((own[i], _kind(arg, rho))) for i, arg in enumerate(statement.args)]
                if joined != own:
                    changed.add(callee.name)
                    given[callee.name] = joined
                inside = self._kinds.get(callee.name, NO_KINDS)
                rho |= {r: _kind(arg, inside) for r, arg in zip(statement.results, callee.returned, strict=True)}
            elif isinstance(statement, Apply) and in_place(statement):
                rho |= {result: _updated(statement, result) for result in statement.results}
            elif isinstance(statement, Apply):
                rho |= zip(statement.results, _given(statement, rho), strict=True)
        known = self._kinds.get(function.name, NO_KINDS)
        found = {**known, **{name: kind for name, kind in rho.items() if kind is not None}}
        if found != known:
            changed |= callers.get(function.name, set())
            self._kinds[function.name] = found
        return changed

    def _backward(self) -> None:
        """From the operands of optimizers to where the gradients come from."""
        makers: dict[Place, tuple[Apply | Call | None, int]] = {}
        calls = calls_of(self.module)
        waiting: list[_Item] = []
        for function in self.module:
            makers.update(((function.name, p.name), (None, n)) for n, p in enumerate(function.params))
            for statement in function.body:
                if isinstance(statement, (Apply, Call)):
                    makers.update(((function.name, r), (statement, n)) for n, r in enumerate(statement.results))
                if isinstance(statement, Apply) and updates(statement):
                    waiting += [((function.name, name), ()) for name in names(statement.args[1:2])]
        waiting = waiting or [((self.entry.name, name), ()) for name in _given_back(self.module, self.entry)]
        seen: set[_Item] = set()
        for found in (self.gradients, self.uncast):
            cast: list[_Item] = []
            while waiting:
                item = waiting.pop()
                if item in seen:
                    continue
                seen.add(item)
                found.add(item[0])
                maker, number = makers[item[0]]
                is_cast = isinstance(maker, Apply) and maker.op == "CastGradient" and found is self.gradients
                (cast if is_cast else waiting).extend(self._origins(item, maker, number, calls))
            waiting = cast
        self.uncast -= self.gradients

    def _origins(
        self,
        item: _Item,
        maker: Apply | Call | None,
        number: int,
        calls: Mapping[str, list[tuple[Function, int, Call]]],
    ) -> Iterator[_Item]:
        """Where a gradient comes from, which is in a value, or an item of it.

        `number`: which result of its maker the value is, or which parameter if there is none.
        """
        (name, value), path = item
        if maker is None:
            for function, _, call in calls.get(name, ()):
                yield from _in(function.name, call.args[number], path)
        elif isinstance(maker, Call):
            callee = self.module.functions[maker.function]
            yield from _in(callee.name, callee.returned[number], path)
        elif maker.op == "UnpackTuple":
            yield from _in(name, maker.args[0], (number, *path))
        elif maker.op == "MakeTuple":
            yield from _in(name, maker.args, path)
        elif carries(maker):
            yield from (((name, each), path) for each in names(moved(maker)))
        elif written := _written(maker, value):  # a product that is added to the sum so far
            yield from (((name, each), path) for each in names(written))


_Item = tuple[Place, tuple[int, ...]]
"""A value, and the way to an item of it; without a way all of it."""


def _in(function: str, arg: Arg, path: tuple[int, ...]) -> Iterator[_Item]:
    while isinstance(arg, tuple) and path:
        arg, path = arg[path[0]], path[1:]
    yield from (((function, name), path) for name in names((arg,)))


kinds_of = lru_cache(maxsize=4)(ValueKinds)
"""The kinds of a module's values, by the module and its entry function; transforms ask for them several times."""


def _given_back(module: Module, entry: Function) -> Iterator[str]:
    """What a function returns of a backward pass."""
    for name in names(entry.returned):
        made = maker(entry, name)
        if isinstance(made, (Apply, Call)):
            callee = module.functions[made.function].facts.phase if isinstance(made, Call) else ""
            if (made.facts.phase or callee) in ("backward", "weight"):
                yield name


def _given(statement: Apply, rho: Mapping[str, _Kind]) -> Sequence[_Kind]:
    """The kinds of what a statement gives, which writes into none of its operands."""
    count = len(statement.results)
    is_moved = moves(statement) or OPS[statement.op].family == "cache"
    kinds = [_kind(arg, rho) for arg in moved(statement) if names((arg,))] if is_moved else [ACTIVATIONS]
    if statement.op == "MakeTuple":
        return [tuple(_kind(arg, rho) for arg in statement.args)]
    if statement.op == "UnpackTuple" and isinstance(kinds[0], tuple) and len(kinds[0]) == count:
        return kinds[0]
    if OPS[statement.op].communication is not None and len(kinds) == count:
        return kinds
    return [None if None in kinds else _joined(kinds or [ACTIVATIONS])] * count


def _kind(arg: Arg, rho: Mapping[str, _Kind]) -> _Kind:
    """The kind of an operand; of a list the common one."""
    return rho.get(arg) if isinstance(arg, str) else _joined(rho.get(name) for name in names((arg,)))


def _joined(kinds: Iterable[_Kind]) -> _Kind:
    """The common kind of several values, of tuples by item; None if none is known."""
    known = [kind for kind in dict.fromkeys(kinds) if kind is not None]
    if len(known) < 2:
        return next(iter(known), None)
    if all(isinstance(kind, tuple) and len(kind) == len(known[0]) for kind in known):
        return tuple(map(_joined, zip(*known, strict=True)))
    return ACTIVATIONS


def _leaves(kind: _Kind) -> Iterator[str]:
    """The kinds of a value's items."""
    if isinstance(kind, tuple):
        for item in kind:
            yield from _leaves(item)
    elif kind is not None:
        yield kind


def _whole(kind: _Kind) -> str:
    """The kind of all of a value."""
    found = {*_leaves(kind)}
    return found.pop() if len(found) == 1 else ACTIVATIONS


def moved(statement: Apply) -> tuple[Arg, ...]:
    """The operands that the results may be, or are written to."""
    op = OPS[statement.op]
    return statement.args[:1] if op.family == "cache" or op.view == "first" else statement.args


def moves(statement: Apply) -> bool:
    """Whether the results of a statement are what its operands are, elsewhere or in another form."""
    op = OPS[statement.op]
    return bool(op.view) or op.communication is not None or op.family == "offload" or op.name in MOVING


def carries(statement: Apply) -> bool:
    """Whether a gradient that a statement gives is what it takes, elsewhere, in another form, added up, or scaled."""
    scales = statement.op in SCALING and len([*names(statement.args)]) == 1
    return moves(statement) or statement.op in SUMMING or scales


def updates(statement: Apply) -> bool:
    """Whether a statement takes a gradient and updates a parameter with it."""
    return is_optimizer(OPS[statement.op]) and statement.op not in ("MovingAverage", "Assign")


def _written(statement: Apply, value: str) -> tuple[Arg, ...]:
    """The operand in whose memory a result is written; none if there is none."""
    inplace = OPS[statement.op].inplace
    place = inplace.get(statement.results.index(value)) if inplace != "each" else None
    return statement.args[place : place + 1] if place is not None else ()


def in_place(statement: Apply) -> Mapping[int, int]:
    """By result of an update: the operand in whose memory it is written; empty for other ops."""
    op = OPS[statement.op]
    return op.inplace if op.inplace != "each" and is_optimizer(op) else {}


def _updated(statement: Apply, name: str) -> str:
    """The kind of an optimizer's result."""
    if statement.op == "MovingAverage":
        return BUFFERS
    return WEIGHTS if name == statement.results[0] else STATE
