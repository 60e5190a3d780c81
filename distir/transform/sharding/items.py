"""A partitioned function body, before it is expanded for each device of the mesh axis.

Names are those of whole or split values, each of which is one value per device. A body is `alike` if all statements are
equal on every device and none communicates: then it is one function, called for each device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

from distir.ir import (
    DISCARD,
    NO_ATTRIBUTES,
    NO_FACTS,
    Apply,
    Arg,
    Attributes,
    Call,
    Constant,
    Facts,
    Literal,
    Statement,
    Type,
)
from distir.ir import operands as operands_of
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import on_stream, state_since, stating
from distir.ops.group import GROUPED, GroupConstant, GroupPart, GroupParts, represented
from distir.ops.tuples import TUPLING
from distir.transform.sharding.mesh import DEVICE_ATTRIBUTES, IN_ORDER, Mesh, Order, names_device, on_devices


@dataclass(frozen=True, slots=True)
class Each:
    """One statement, equal on every device."""

    statement: Apply | Call


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective over all devices of a group, from `arg` to `result` on each."""

    result: str
    op: str
    arg: str
    attrs: Attributes
    along: tuple[int, ...] = ()
    """The factors of the mesh axis along which these are, outermost first; none: all of its devices."""
    facts: Facts = NO_FACTS
    stream: str = ""
    into: str = ""
    """A value in whose memory those write the result that an owner sends it to, if that is stated."""


@dataclass(frozen=True, slots=True)
class LocalSlice:
    """Every device slices its own part, along `axis`, of a value that all hold whole. `view`: it shares its memory.

    `length`: that of what is sliced, where its parts are equal and no device needs another's: then only that is read.
    """

    result: str
    arg: Arg
    axis: int
    order: Order = IN_ORDER
    along: tuple[int, ...] = ()
    facts: Facts = NO_FACTS
    view: bool = False
    length: int | None = None

    @property
    def op(self) -> str:
        """The op that gives all parts."""
        return "SplitView" if self.view else "Split"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A constant with a value for each device."""

    result: str
    values: tuple[Constant, ...]
    along: tuple[int, ...] = ()
    facts: Facts = NO_FACTS


@dataclass(frozen=True, slots=True)
class Joint:
    """One call for all devices, of a function that takes every parameter once per device."""

    results: tuple[str, ...]
    function: str
    args: tuple[Arg, ...]
    facts: Facts = NO_FACTS


@dataclass(frozen=True, slots=True)
class SentPiece:
    """What a device of another stage is sent: all, or a piece, of what a device has.

    `cuts`: for each dimension that is cut, which of how many pieces.
    """

    rank: int
    cuts: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """A send to a stage of other devices: to each the pieces of its part.

    `joins`: the dimensions of which pieces are joined, the first outermost, and how many.
    """

    result: str
    arg: str
    to: int
    pieces: tuple[tuple[SentPiece, ...], ...]
    joins: tuple[tuple[int, int], ...]
    facts: Facts = NO_FACTS
    stream: str = ""


Item = Each | Collective | LocalSlice | Ranked | Joint | Transfer


def with_facts(item: Item, facts: Facts) -> Item:
    """The item, with those of `facts` that it lacks."""
    if isinstance(item, Each):
        (statement,) = stating(facts, [item.statement])
        assert isinstance(statement, (Apply, Call))
        return item if statement is item.statement else Each(statement)
    return replace(item, facts=item.facts.filled(facts))


def made_by(item: Item) -> tuple[str, ...]:
    """The names that an item defines."""
    if isinstance(item, Each):
        return item.statement.results
    return item.results if isinstance(item, Joint) else (item.result,)


def taken_by(item: Item) -> tuple[str, ...]:
    """The names that an item uses."""
    match item:
        case Each(statement):
            return tuple(_flat(statement.args))
        case Joint(_, _, args):
            return tuple(_flat(args))
        case Ranked():
            return ()
        case _:
            return tuple(_flat((item.arg,)))


def is_call(item: Item) -> bool:
    """Whether the item calls a function."""
    return isinstance(item, Joint) or (isinstance(item, Each) and isinstance(item.statement, Call))


def is_plain(item: Item, statement: Apply | Call) -> bool:
    """Whether the item is the statement itself, up to the callee of a call."""
    match item:
        case Each(Call(results, _, args)) | Joint(results, _, args):
            return isinstance(statement, Call) and (results, args) == (statement.results, statement.args)
        case Each(same):
            return same == statement
        case _:
            return False


def repeated(first: Item, statement: Apply | Call) -> Item:
    """The item for a statement, from the plain one of another statement of the same form."""
    if isinstance(first, Joint):
        return Joint(statement.results, first.function, statement.args, statement.facts)
    if isinstance(first, Each) and isinstance(first.statement, Call):
        return Each(replace(first.statement, results=statement.results, args=statement.args, facts=statement.facts))
    return Each(statement)


def is_of_statement(item: Item, statement: Apply | Call) -> bool:
    """Whether an item is of the operands and results of a statement and of no others, whatever it does with them."""
    match item:
        case Each(Apply(results, _, args, facts=facts)):
            pairs = zip(args, statement.args, strict=False)
            same = len(args) == len(statement.args) and all(a == b or isinstance(a, Literal) for a, b in pairs)
        case Collective(result, _, arg, facts=facts) | LocalSlice(result, arg, facts=facts):
            results, same = (result,), (arg,) == statement.args
        case _:
            return False
    return same and results == statement.results and facts in (NO_FACTS, statement.facts)


def of_statement(item: Item, statement: Apply | Call) -> Item:
    """The item for a statement, from that of another one which does the same."""
    facts = statement.facts
    if isinstance(item, Each):
        pairs = zip(item.statement.args, statement.args, strict=True)
        args = tuple([own if isinstance(own, Literal) else arg for own, arg in pairs])
        return Each(replace(item.statement, results=statement.results, args=args, facts=facts))
    assert isinstance(item, (Collective, LocalSlice))
    return replace(item, result=statement.results[0], arg=statement.args[0], facts=facts)


def alike(items: Iterable[Item]) -> bool:
    """Whether a body is equal on every device, names no device and does not communicate."""
    return all(isinstance(item, Each) and not names_device(item.statement) for item in items)


Held = Callable[[str], Sequence[int]]
"""By the name of a value: the ranks of the devices that have it, in ascending order."""


class NoRun(Exception):  # noqa: N818 - a verdict on a mesh, not a failure of ours
    """The devices along some factors of an axis, in their order, are not equally far apart: which factors."""

    def __init__(self, factors: tuple[int, ...]) -> None:
        super().__init__(factors)
        self.factors = factors


class Expansion:
    """Expands items for all devices: `%x` becomes `%x_1`, `%x_2`, …; host values are not replicated.

    If one device represents all, items are written for it, and `%x` stays `%x`.
    """

    def __init__(self, mesh: Mesh, single: Iterable[str], taken: Iterable[str], held: Held | None = None) -> None:
        self.mesh = mesh
        self.single = {*single}
        self._held = held
        self.body: list[Statement] = []
        self._builder = FunctionBuilder("")
        self._builder.take(taken)
        self._names: dict[str, tuple[str, ...]] = {}
        self._attributes: dict[tuple[Attributes, tuple[str, ...], int], Attributes] = {}

    def names(self, name: str) -> tuple[str, ...]:
        """The names on the devices, in order; one name for a host value."""
        if name in self.single:
            return (name,)
        if name == DISCARD:
            return (DISCARD,) * self.mesh.ranks
        if self.mesh.representative:
            return (name,)
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = tuple(
                self._builder.fresh(f"{name}_{rank + 1}") for rank in range(self.mesh.size)
            )
        return known

    def ranks(self, name: str) -> Sequence[int]:
        """The ranks of the devices that have a value."""
        return range(self.mesh.ranks) if self._held is None or name == DISCARD else self._held(name)

    def own(self, name: str) -> tuple[str, ...]:
        """The names on the devices that have a value, in order."""
        if self._held is None or name in self.single:
            return self.names(name)
        names = self.names(name)
        return tuple(names[rank] for rank in self.ranks(name))

    def on(self, arg: Arg, rank: int) -> Arg:
        """An argument on one device."""
        if isinstance(arg, str):
            return self.names(arg)[0 if arg in self.single else rank]
        return arg if isinstance(arg, Literal) else tuple(self.on(item, rank) for item in arg)

    def all(self, args: Iterable[Arg]) -> tuple[Arg, ...]:
        """Arguments for all devices that have them, grouped by argument."""
        found: list[Arg] = []
        for arg in args:
            if isinstance(arg, str):
                found += self.own(arg)
            elif isinstance(arg, Literal):
                found.append(arg)
            else:
                found += [self.on(arg, rank) for rank in range(self.mesh.ranks)]
        return tuple(found)

    def facts(self, facts: Facts, rank: int = 0) -> Facts:
        """Facts on a device, which name its copy of a parameter."""
        if facts.of not in self._names:
            return facts
        having = self.ranks(facts.of)
        return replace(facts, of=self._names[facts.of][rank if rank in having else having[0]])

    def write(self, item: Item) -> None:
        """Append an item's statements."""
        start = len(self.body)
        self._write(item)
        if not isinstance(item, Each):
            state_since(self.body, start, self.facts(item.facts))
        if isinstance(item, (Collective, Transfer)) and item.stream:
            self.body[start:] = on_stream(item.stream, self.body[start:])

    def _write(self, item: Item) -> None:
        match item:
            case Each(statement):
                self._each(statement)
            case Collective(along=(_, *_)) | LocalSlice(along=(_, *_)) | Ranked(along=(_, *_)):
                self._along(item, item.along)
            case Collective(result, op, arg, attrs) if self.mesh.representative:
                self.body.append(
                    Apply((result,), GROUPED[op].name, (arg,), _grouped(attrs, self.mesh.size, self.mesh.run))
                )
            case Collective(result, op, arg, attrs):
                self.body.append(Apply(self.names(result), op, self.names(arg), attrs))
            case LocalSlice() if self.mesh.representative:
                self._slice_of_one(item, self.mesh.size, self.mesh.run)
            case LocalSlice():
                self._slices(item, self.mesh.size, range(self.mesh.size))
            case Ranked(result, values) if self.mesh.representative:
                attrs = Attributes({"values": values, "stride": self.mesh.run})
                self.body.append(Apply((result,), GroupConstant.name, (), attrs))
            case Ranked(result, values):
                for name, value in zip(self.names(result), values, strict=False):
                    self.body.append(Apply((name,), "Constant", (), Attributes({"value": value})))
            case Transfer():
                self._transfer(item)
            case Joint(results, function, args):
                names = tuple(name for result in results for name in self.own(result))
                self.body.append(Call(names, function, self.all(args)))

    def _transfer(self, item: Transfer) -> None:
        """Write a send to other devices than the value is on."""
        raise NotImplementedError

    def _along(self, item: Collective | LocalSlice | Ranked, factors: tuple[int, ...]) -> None:
        """Write an item that concerns some factors of the mesh axis. Raises NoRun for one representative of groups."""
        if self.mesh.representative and isinstance(item, Ranked):
            item, factors = self._in_order_of_devices(item, factors)
        if self.mesh.representative and factors != tuple(range(factors[0], factors[0] + len(factors))):
            raise NoRun(factors)
        size, stride = self.mesh.number(factors), self.mesh.run * self.mesh.inner(factors[-1])
        match item:
            case Collective(result, op, arg, attrs) if self.mesh.representative:
                self.body.append(Apply((result,), GROUPED[op].name, (arg,), _grouped(attrs, size, stride)))
            case Collective(result, op, arg, attrs):
                made, given = self.names(result), self.names(arg)
                for ranks in self.mesh.groups(factors):
                    if self._held is not None:
                        self._of_owners(item, ranks)
                        continue
                    own = tuple(given[rank] for rank in ranks)
                    self.body.append(Apply(tuple(made[rank] for rank in ranks), op, own, attrs))
            case LocalSlice() if self.mesh.representative:
                self._slice_of_one(item, size, stride)
            case LocalSlice():
                self._slices(item, size, [self.mesh.coordinate(rank, factors) for rank in range(self.mesh.size)])
            case Ranked(result, values) if self.mesh.representative:
                attrs = Attributes({"values": values, "stride": stride})
                self.body.append(Apply((result,), GroupConstant.name, (), attrs))
            case Ranked(result, values):
                for rank, name in enumerate(self.names(result)):
                    attrs = Attributes({"value": values[self.mesh.coordinate(rank, factors)]})
                    self.body.append(Apply((name,), "Constant", (), attrs))

    def _in_order_of_devices(self, item: Ranked, factors: tuple[int, ...]) -> tuple[Ranked, tuple[int, ...]]:
        """Constants of devices along factors, in the order of these devices."""
        ordered = tuple(sorted(factors))
        ranks = next(iter(self.mesh.groups(ordered)))
        values = tuple([item.values[self.mesh.coordinate(rank, factors)] for rank in ranks])
        return replace(item, values=values, along=ordered), ordered

    def _slice_of_one(self, item: LocalSlice, size: int, stride: int) -> None:
        """Write the slice of one device that represents a group of some, so far apart."""
        if not item.order.zigzag and item.length is not None:
            attrs = Attributes({"size": size, "stride": stride, "axis": item.axis})
            self.body.append(Apply((item.result,), GroupPart.name, (item.arg,), attrs))
            return
        if not item.order.zigzag:
            attrs = Attributes({"axis": item.axis, "num_outputs": size, "stride": stride})
            self.body.append(Apply((item.result, *(DISCARD,) * (size - 1)), item.op, (item.arg,), attrs))
            return
        own = tuple([item.order.of(rank, size) for rank in range(size)])
        attrs = Attributes({"axis": item.axis, "parts": own, "stride": stride})
        names = tuple([self._builder.fresh(f"{item.result}_run") for _ in own[0]])
        self.body.append(Apply(names, GroupParts.name, (item.arg,), attrs))
        self.body.append(Apply((item.result,), "Concat", names, Attributes({"axis": item.axis})))

    def _slices(self, item: LocalSlice, size: int, places: Sequence[int]) -> None:
        """Write each device's slice of a value that it holds whole. `places`: by device, which of `size` it is."""
        parts, axis, made = item.order.parts(size), Attributes({"axis": item.axis}), self.names(item.result)
        for rank in self.ranks(item.result):
            own, result = item.order.of(places[rank], size), made[rank]
            if len(own) == 1 and item.length is not None:
                bounds = [Literal((number * item.length // parts,)) for number in (own[0], own[0] + 1)]
                operands = (self.on(item.arg, rank), *bounds, Literal((item.axis,)))
                self.body.append(Apply((result,), "Slice", operands))
                continue
            names = {part: result if len(own) == 1 else self._builder.fresh(f"{result}_run") for part in own}
            kept = tuple(names.get(part, DISCARD) for part in range(parts))
            attrs = Attributes({**axis, "num_outputs": parts})
            self.body.append(Apply(kept, item.op, (self.on(item.arg, rank),), attrs))
            if len(own) > 1:
                self.body.append(Apply((result,), "Concat", tuple(names[part] for part in own), axis))

    def _each(self, statement: Apply | Call) -> None:
        named = [name for name in statement.results if name != DISCARD]
        single = bool(named) and not self.single.isdisjoint(named) and self.single.issuperset(named)
        moved = self.mesh.representative and isinstance(statement, Apply) and names_device(statement)
        if single and not moved and all(arg in self.single for arg in _flat(operands_of(statement))):
            self.body.append(statement)
            return
        if self.mesh.representative and not statement.claims:  # each value has one name; only device numbers change
            if isinstance(statement, Apply) and names_device(statement):
                statement = replace(statement, attrs=self._moved(statement.op, statement.attrs, 0))
            self.body.append(statement)
            return
        if self._held is not None:
            self._each_that_has(statement, single)
            return
        rows = zip(self._columns(statement.results, True), self._columns(statement.args), strict=True)
        attrs = statement.attrs if isinstance(statement, Apply) else NO_ATTRIBUTES
        moves = bool(attrs) and names_device(statement)
        for rank, (results, args) in enumerate(islice(rows, 1 if single else None)):
            claims = self._claims(statement.claims, rank) if statement.claims else ()
            facts = self.facts(statement.facts, rank)
            if isinstance(statement, Call):
                self.body.append(Call(results, statement.function, args, claims, statement.stream, facts))
            else:
                own = self._moved(statement.op, attrs, rank) if moves else attrs
                self.body.append(Apply(results, statement.op, args, own, claims, statement.stream, facts))

    def _each_that_has(self, statement: Apply | Call, single: bool) -> None:
        """Append a statement for each device that has its operands and results.

        Of tuples, and of the terms of a sum, a device takes those that it has.
        """
        op = statement.op if isinstance(statement, Apply) else ""
        packs = op in (*TUPLING, "Sum")
        of = statement.args if op == "UnpackTuple" else statement.results if packs else _all_of(statement)
        having = [{*self.ranks(name)} for name in _flat(of) if name not in self.single]
        ranks = [rank for rank in range(self.mesh.ranks) if all(rank in own for own in having)]
        for rank in ranks[: 1 if single else None]:
            results, args = ([self.on(arg, rank) for arg in row] for row in (statement.results, statement.args))
            if packs:
                results = [r for name, r in zip(statement.results, results, strict=True) if rank in self.ranks(name)]
                args = [a for arg, a in zip(statement.args, args, strict=True) if self._has(rank, arg)]
            facts, names = self.facts(statement.facts, rank), tuple(map(str, results))
            claims = self._claims(statement.claims, rank) if statement.claims and not packs else ()
            if isinstance(statement, Call):
                self.body.append(Call(names, statement.function, tuple(args), claims, statement.stream, facts))
            else:
                own = self._moved(statement.op, statement.attrs, rank) if names_device(statement) else statement.attrs
                self.body.append(Apply(names, statement.op, tuple(args), own, claims, statement.stream, facts))

    def _has(self, rank: int, arg: Arg) -> bool:
        """Whether a device has an argument."""
        return not isinstance(arg, str) or arg in self.single or rank in self.ranks(arg)

    def _of_owners(self, item: Collective, ranks: Sequence[int]) -> None:
        """Append a collective of these devices, as far as they have its operand, or get its result."""
        given, made = ([rank for rank in ranks if rank in self.ranks(name)] for name in (item.arg, item.result))
        if not given and not made:
            return
        args, results = self.names(item.arg), self.names(item.result)
        if item.op == "MPIBroadcast":
            (root,) = given
            self._names[item.result] = tuple(args[n] if n == root else name for n, name in enumerate(results))
            self._broadcast(item, root, [rank for rank in ranks if rank != root])
            return
        attrs = self._moved(item.op, item.attrs, made[0]) if item.op == "MPIReduce" else item.attrs
        own = tuple(args[rank] for rank in given)
        self.body.append(Apply(tuple(results[rank] for rank in made), item.op, own, attrs))

    def _broadcast(self, item: Collective, root: int, others: Sequence[int]) -> None:
        """Append what gives a value of one device to others, which keeps its own."""
        arg, made = self.names(item.arg)[root], self.names(item.result)
        into = self.names(item.into) if item.into else ()
        names = tuple(self._builder.fresh(f"{name}_sent") for name in made) if into else made
        if len(others) == 1:
            attrs = self._moved("Send", Attributes({"device": item.attrs["root"]}), others[0])
            self.body.append(Apply((names[others[0]],), "Send", (arg,), attrs))
        elif others:
            ranks, device = sorted([root, *others]), item.attrs["root"]
            devices = tuple(_on(self.mesh, device, rank) for rank in ranks)
            given = tuple(DISCARD if rank == root else names[rank] for rank in ranks)
            self.body.append(Apply(given, "MPIBroadcast", (arg,), Attributes({"devices": devices})))
        for rank in others if into else ():
            self.body.append(Apply((made[rank],), "Assign", (into[rank], names[rank])))

    def _columns(self, args: Sequence[Arg], made: bool = False) -> Iterable[tuple[Any, ...]]:
        """Arguments, or results, by device.

        A host value is equal on all of them: the first device's is used.
        """
        size = self.mesh.ranks
        columns: list[Sequence[Arg]] = []
        for arg in args:
            if isinstance(arg, str):
                if arg in self.single:
                    columns.append((arg, *(DISCARD,) * (size - 1)) if made else (arg,) * size)
                else:
                    columns.append(self._names.get(arg) or self.names(arg))
            elif isinstance(arg, Literal):
                columns.append((arg,) * size)
            else:
                columns.append([self.on(arg, rank) for rank in range(size)])
        return zip(*columns, strict=True) if columns else ((),) * size

    def _claims(self, claims: tuple[Type | None, ...], rank: int) -> tuple[Type | None, ...]:
        return tuple([claim and at_rank(claim, self.mesh, rank) for claim in claims])

    def _moved(self, op: str, attrs: Attributes, rank: int) -> Attributes:
        """Attributes with device numbers mapped to a rank's devices."""
        key = (attrs, (op, *attrs), rank)
        known = self._attributes.get(key)
        if known is None:
            known = self._attributes[key] = moved_attributes(op, attrs, self.mesh, rank)
        return known


def at_rank(type: Type, mesh: Mesh, rank: int) -> Type:
    """A type on a rank's devices."""
    return on_devices(type, lambda device: mesh.device(device, rank))


def moved_attributes(op: str, attrs: Attributes, mesh: Mesh, rank: int) -> Attributes:
    """Attributes with device numbers mapped to a rank's devices."""
    moved = {n: _on(mesh, v, rank) if n in DEVICE_ATTRIBUTES else v for n, v in attrs.items()}
    if (group := represented(op, attrs)) is not None:
        moved["stride"] = mesh.stride(group[1])
    return Attributes(moved)


@lru_cache(maxsize=1 << 12)  # a cache, since most collectives differ in their operands alone
def _grouped(attrs: Attributes, size: int, stride: int) -> Attributes:
    return Attributes({**attrs, "size": size, "stride": stride})


def _on(mesh: Mesh, value: Constant, rank: int) -> Constant:
    if isinstance(value, tuple):
        return tuple([_on(mesh, v, rank) for v in value])
    return mesh.device(value, rank) if isinstance(value, int) else value


def _all_of(statement: Apply | Call) -> tuple[Arg, ...]:
    """The results and operands of a statement."""
    return *(name for name in statement.results if name != DISCARD), *statement.args


def _flat(args: Sequence[Arg]) -> Iterable[str]:
    for arg in args:
        if isinstance(arg, str):
            yield arg
        elif isinstance(arg, tuple):
            yield from _flat(arg)
