"""Cuts products and their collective into chunks, so that one chunk is communicated while another is computed.

A collective is cut along a dimension of its rows, together with the statements between it and products: a gather with
the products after it, a reduce-scatter or an all-reduce with those before it. A chunk of a value is like a shard, so
the sharding rules of ops apply: `sharding.decide`.

If the collective gathers or scatters along that dimension, a chunk has a part of each device's rows: it is split block
by block. Independent of the machine: `products` decides what is profitable.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from distir.analysis import Checker, State
from distir.ir import DISCARD, Apply, Arg, Attributes, Constant, Function, Literal, Module, Shape, Statement, TensorType
from distir.ir import names as names_of
from distir.ir import operands as operands_of
from distir.ir import results as results_of
from distir.ir.builder import namer
from distir.ir.dataflow import definitions, uses
from distir.ir.rewrite import Rewriter, facts_of, state_since, substituted
from distir.ops import OPS, Value, type_of
from distir.ops.group import REPRESENTATIVE_OPS
from distir.ops.layout import Layout
from distir.ops.mesh import COLLECTIVES
from distir.ops.purpose import pattern_of, sums_over_devices
from distir.ops.resources import Pattern
from distir.ops.splitting import layout
from distir.placement.along import WHOLE, Split
from distir.placement.along import State as Placement
from distir.placement.rule import Typing
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.instances import states_of_calls
from distir.transform.overlap.side_by_side import lined_up, side_by_side
from distir.transform.sharding.decide import NoRule, decide
from distir.transform.sharding.items import Each
from distir.transform.sharding.rewrite import Rewriting, rewritten


@dataclass(frozen=True, slots=True)
class Cut:
    """How the collective `at` is cut, with its products, and into how many chunks.

    `state`: the split of its products' results, or operands; `statements`: by number, the decisions for those computed
    chunk by chunk.
    """

    at: int
    chunks: int
    state: Split
    statements: Mapping[int, Typing]


def sites(function: Function) -> Iterator[int]:
    """The collectives of a function that are on no stream yet and have adjacent products.

    Products of a gather's result, or a sum of products over devices, possibly with views, and ops linear in partial
    sums, in between.
    """
    body = function.body
    made, used = definitions(function), uses(function)

    def follows(name: str) -> bool:
        users = (body[i] for i in used.get(name, ()))
        return any(is_product(s) or (_is_view(s) and any(map(follows, results_of(s)))) for s in users)

    def precedes(name: str) -> bool:
        s = body[made[name]] if name in made else None
        return s is not None and (is_product(s) or (_passes_sums(s) and any(map(precedes, names_of(operands_of(s))))))

    for index, statement in enumerate(function.body):
        if isinstance(statement, Apply) and not statement.stream:
            sums = sums_over_devices(statement) and pattern_of(statement) != "reduce"
            if any(map(follows, statement.results if _gathers(statement) else ())) or any(
                map(precedes, names_of(statement.args) if sums else ())
            ):
                yield index


def is_product(statement: Statement) -> bool:
    """Whether a statement is a product or attention, of which forward and backward passes consist."""
    return isinstance(statement, Apply) and OPS[statement.op].contraction is not None


def _gathers(statement: Statement) -> bool:
    return pattern_of(statement) == "allgather"


def _is_view(statement: Statement) -> bool:
    return isinstance(statement, Apply) and bool(OPS[statement.op].view)


def _passes_sums(statement: Statement) -> bool:
    """Whether a statement maps partial sums to partial sums, without communication."""
    if not isinstance(statement, Apply) or OPS[statement.op].communication is not None:
        return False
    return bool(OPS[statement.op].view or OPS[statement.op].linear)


def group_size(site: Statement) -> int:
    """The number of devices of a collective."""
    assert isinstance(site, Apply)
    size = site.attrs.get("size") if site.op in REPRESENTATIVE_OPS else len(site.args)
    assert isinstance(size, int)
    return size


def cut_at(rho: State, function: Function, at: int, chunks: int) -> Cut | None:
    """How a collective is cut into chunks with its products, in a function with these values.

    None if it has no adjacent product whose rows are cut with it.
    """
    found = _Finder(rho, function, at, chunks)
    for state in found.placements():
        cut = found.cut(state)
        if cut is not None:
            return cut
    return None


class _Finder:
    """Finds the statements that are cut with a collective."""

    def __init__(self, rho: State, function: Function, at: int, chunks: int) -> None:
        self.rho, self.function, self.at, self.chunks = rho, function, at, chunks
        statement = function.body[at]
        assert isinstance(statement, Apply)
        self.site = statement
        self._own = {at}
        self.made, self.uses = definitions(function), uses(function)

    def placements(self) -> Iterator[Split]:
        """The candidate splits of values on each device: along the first dimension of the rows, or later ones."""
        operand, result = self._type(self.site.args[0]), self._type(self.site.results[0])
        if operand is None or result is None:
            return
        whole, part = (result, operand) if _gathers(self.site) else (operand, result)
        if not whole or self.site.op in COLLECTIVES:  # a part of what each device has is no part of all of it
            return
        axis = None if pattern_of(self.site) == "allreduce" else self._axis(whole)
        for along in range(max(len(whole) - 1, 1)):
            here, there = whole[along], part[along]
            if not (isinstance(here, int) and isinstance(there, int) and there and there % self.chunks == 0):
                continue
            yield Split(along, (there,) * (here // there) if along == axis and here != there else ())

    def _axis(self, shape: Shape) -> int:
        axis = self.site.attrs.get("axis", 0)
        assert isinstance(axis, int)
        return axis % len(shape)

    def _type(self, arg: Arg) -> Shape | None:
        found = type_of(self.rho[arg]) if isinstance(arg, str) and arg in self.rho else None
        return found.shape if isinstance(found, TensorType) else None

    def cut(self, state: Split) -> Cut | None:
        """The cut with the collective's products in this state; None if some device has no product."""
        if any(not isinstance(arg, str) for arg in self.site.args):
            return None
        names = self.site.results if _gathers(self.site) else self.site.args
        states: dict[str, Split] = {}
        statements: dict[int, Typing] = {}
        for name in names:
            if not isinstance(name, str) or name == DISCARD:
                return None
            states[name] = state
            found = self._forward(name, states) if _gathers(self.site) else self._backward(name, states)
            if not any(is_product(self.function.body[index]) for index in found):
                return None
            statements.update(found)
        return Cut(self.at, self.chunks, state, dict(sorted(statements.items())))

    def _forward(self, name: str, states: dict[str, Split]) -> dict[int, Typing]:
        """The products after the collective, and the views in between."""
        found: dict[int, Typing] = {}
        for index in self.uses.get(name, ()):
            statement = self.function.body[index]
            if not isinstance(statement, Apply) or statement.stream or statement.op not in OPS:
                continue
            product, op = is_product(statement), OPS[statement.op]
            if not product and not op.view:
                continue
            decision = self._decided(statement, states)
            if decision is None or not self._is_ready(statement, states):
                continue
            if product:
                found[index] = decision
                continue
            (result,), (given,) = statement.results, decision.given
            assert isinstance(given, Split)
            states[result] = given
            behind = self._forward(result, states)
            if behind:
                found |= {index: decision, **behind}
            else:
                del states[result]
        return found

    def _is_ready(self, statement: Apply, states: Mapping[str, Split]) -> bool:
        """Whether all other operands are defined before the collective, or are cut."""
        others = (name for name in names_of(statement.args) if name not in states)
        return all(self.made.get(name, -1) < self.at for name in others)

    def _backward(self, name: str, states: dict[str, Split]) -> dict[int, Typing]:
        """The products from which a value is computed, and the views, sums and elementwise ops in between."""
        index, wanted = self.made.get(name), states[name]
        users = self.uses.get(name, ())
        statement = None if index is None else self.function.body[index]
        if index is None or not isinstance(statement, Apply) or statement.stream or statement.op not in OPS:
            return {}
        if not self._own.issuperset(users):
            return {}
        if len(statement.results) != 1 or statement.op in REPRESENTATIVE_OPS or OPS[statement.op].communication:
            return {}
        decision = self._inverse(statement, wanted, states)
        if decision is None:
            return {}
        if is_product(statement):
            return {index: decision}
        self._own.add(index)
        found = {index: decision}
        for arg, need in zip(statement.args, decision.needed, strict=True):
            if isinstance(need, Split) and isinstance(arg, str):
                if arg in states and states[arg] != need:
                    return {}
                states[arg] = need
                found |= self._backward(arg, states)
        return found

    def _decided(self, statement: Apply, states: Mapping[str, Placement]) -> Typing | None:
        """How an op is computed chunk by chunk; None if it cannot be, or its results are not in chunks."""
        vs = tuple(map(self._value, statement.args))
        before = [states.get(arg, WHOLE) if isinstance(arg, str) else WHOLE for arg in statement.args]
        ws = [type_of(self.rho[name]) for name in statement.results if name != DISCARD]
        if len(ws) != len(statement.results) or any(not isinstance(w, TensorType) for w in ws):
            return None
        if not all(v is None or isinstance(v, Literal) or isinstance(type_of(v), TensorType) for v in vs):
            return None
        try:
            found = decide(OPS[statement.op], statement.attrs, vs, before, ws, self.chunks)
        except NoRule:
            return None
        if found.letter is None or found.layout is None or found.letter in found.layout.parted:
            return None
        kept = all(need == state for need, state in zip(found.needed, before, strict=True))
        return found if kept and all(isinstance(given, Split) for given in found.given) else None

    def _inverse(self, statement: Apply, wanted: Split, states: Mapping[str, Split]) -> Typing | None:
        """How an op is computed chunk by chunk, for a wanted split of its result."""
        op, vs = OPS[statement.op], tuple(map(self._value, statement.args))
        ws = [type_of(self.rho[name]) for name in statement.results]
        found = layout(op, vs, ws, statement.attrs)
        if found is None or not all(isinstance(w, TensorType) for w in ws):
            return None
        for one in (found, *found.others):
            needed = _operands_for(one, wanted, vs)
            if needed is None:
                continue
            names = {arg: need for arg, need in zip(statement.args, needed, strict=True) if isinstance(arg, str)}
            decision = self._decided(statement, names)
            if decision is not None and decision.given == (wanted,) and decision.needed == needed:
                return decision
        return None

    def _value(self, arg: Arg) -> Value:
        if isinstance(arg, str):
            return self.rho[arg] if arg else None
        return arg if isinstance(arg, Literal) else tuple(map(self._value, arg))


def _operands_for(found: Layout, wanted: Split, vs: Sequence[Value]) -> tuple[Placement, ...] | None:
    """The operand states for which an op's result has this split; None if no operand is split."""
    letters = found.results[0]
    letter = letters[wanted.axis] if wanted.axis < len(letters) else None
    if letter is None or letter in found.parted or letter == found.apart:
        return None
    own = found.result_blocks.get((0, wanted.axis))
    if own is not None and own != wanted.blocks:
        return None
    needed: list[Placement] = []
    for i, (places, v) in enumerate(zip(found.operands, vs, strict=True)):
        if letter not in places or v is None:
            needed.append(WHOLE)
            continue
        axis = places.index(letter)
        blocks = found.operand_blocks.get((i, axis), () if own is not None else wanted.blocks)
        needed.append(Split(axis, blocks))
    return tuple(needed)


class _Writer(Rewriting):
    """Writes a function with one collective cut."""

    def __init__(self, domain: Checker, rho: State, function: Function, cut: Cut, stream: str) -> None:
        super().__init__(cut.chunks, namer(function), domain)
        self.rho, self.function, self.cut, self.stream = rho, function, cut, stream
        self.body: list[Statement] = []
        self.chunks: dict[str, tuple[str, ...]] = {}
        """By cut value: its chunks."""
        self.cut_as: dict[str, Split] = {}
        for name in self.names.taken:
            self.define(name, rho[name], WHOLE)

    def written(self) -> Function:
        site = self.function.body[self.cut.at]
        assert isinstance(site, Apply)
        gathers, first = _gathers(site), min(self.cut.statements)
        for index, statement in enumerate(self.function.body):
            start = len(self.body)
            if index == self.cut.at:
                self._site(site)
            if index == (first if gathers else self.cut.at):
                self._region(None if gathers else site)
            if index != self.cut.at and index not in self.cut.statements:
                for name in dict.fromkeys(names_of(operands_of(statement))):
                    self._join(name)
                self.body.append(statement)
            state_since(self.body, start, facts_of(statement))
        return replace(self.function, body=tuple(self.body))

    def _site(self, site: Apply) -> None:
        """Write a gather, chunk by chunk; other collectives follow what they sum."""
        if _gathers(site):
            parts = [self._pieces(arg, Split(self.cut.state.axis)) for arg in site.args if isinstance(arg, str)]
            for chunk in range(self.size):
                self._communicated(site, [part[chunk] for part in parts], self.cut.state)

    def _region(self, site: Apply | None) -> None:
        """Write the statements chunk by chunk, each chunk followed by the collective that sums it."""
        templates: list[Apply] = []
        for index, decision in self.cut.statements.items():
            statement = self.function.body[index]
            assert isinstance(statement, Apply)
            for arg, need in zip(statement.args, decision.needed, strict=True):
                given = isinstance(arg, str) and arg not in self.chunks and arg not in self._computed
                if isinstance(need, Split) and isinstance(arg, str) and given:
                    self._pieces(arg, need)
            self.items.clear()
            vs, ws = [self.value(arg) for arg in statement.args], [self.rho[name] for name in statement.results]
            rewritten(self, statement, list(statement.args), vs, ws, decision)
            for item in self.items:
                if not (isinstance(item, Each) and isinstance(item.statement, Apply)):
                    raise NoRule
                templates.append(item.statement)
            for name, given in zip(statement.results, decision.given, strict=True):
                assert isinstance(given, Split)
                self.cut_as[name] = given
        for chunk in range(self.size):
            for template in templates:
                args = self._of_chunk(template.args, chunk)
                self.body.append(replace(template, results=self._named(template.results), args=args, claims=()))
            if site is not None:
                args = self._of_chunk(site.args, chunk)
                self._communicated(site, args, Split(self.cut.state.axis))

    @cached_property
    def _computed(self) -> frozenset[str]:
        """Write statements that are computed chunk by chunk."""
        found = [name for index in self.cut.statements for name in results_of(self.function.body[index])]
        return frozenset(found)

    def _of_chunk(self, args: tuple[Arg, ...], chunk: int) -> tuple[Arg, ...]:
        return substituted(args, {name: parts[chunk] for name, parts in self.chunks.items() if len(parts) > chunk})

    def _named(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names for the results of the next chunk."""
        found: list[str] = []
        for name in names:
            found.append(self.fresh(f"{name}_chunk"))
            self.chunks[name] = (*self.chunks.get(name, ()), found[-1])
        return tuple(found)

    def _communicated(self, site: Apply, args: Sequence[Arg], state: Split) -> None:
        self.cut_as.update(dict.fromkeys(site.results, state))
        self.body.append(
            replace(site, results=self._named(site.results), args=tuple(args), claims=(), stream=self.stream)
        )

    def _pieces(self, arg: str, state: Split) -> tuple[str, ...]:
        """The chunks of a whole value."""
        shape = self._shape(arg)
        names = tuple(self.fresh(f"{arg}_chunk") for _ in range(self.size))
        if not state.blocks:
            view = all(dim == 1 for dim in shape[: state.axis])  # then each chunk is contiguous
            self._append("SplitView" if view else "Split", (arg,), names, axis=state.axis, num_outputs=self.size)
        else:
            apart, parts = self.fresh(f"{arg}_blocks"), tuple(self.fresh(f"{arg}_part") for _ in names)
            self._append("Reshape", (arg, _apart(shape, state, 1)), (apart,))
            self._append("Split", (apart,), parts, axis=state.axis + 1, num_outputs=self.size)
            for part, name in zip(parts, names, strict=True):
                self._append("Reshape", (part, _together(shape, state, self.size)), (name,))
        self.chunks[arg] = names
        return names

    def _join(self, name: str) -> None:
        """Concatenate the chunks of a value, unless it is whole."""
        state = self.cut_as.pop(name, None)
        if state is None:
            return
        chunks = self.chunks[name]
        if not state.blocks:
            self._append("Concat", chunks, (name,), axis=state.axis)
            return
        shape = self._shape(name)
        apart, joined = tuple(self.fresh(f"{name}_blocks") for _ in chunks), self.fresh(f"{name}_joined")
        for chunk, own in zip(chunks, apart, strict=True):
            self._append("Reshape", (chunk, _apart(shape, state, self.size)), (own,))
        self._append("Concat", apart, (joined,), axis=state.axis + 1)
        self._append("Reshape", (joined, _together(shape, state, 1)), (name,))

    def _shape(self, name: str) -> Shape:
        found = type_of(self.rho[name])
        assert isinstance(found, TensorType)
        assert found.shape is not None
        return found.shape

    def _append(self, op: str, args: tuple[Arg, ...], results: tuple[str, ...], **attrs: Constant) -> None:
        self.body.append(Apply(results, op, args, Attributes(attrs)))


def _blocks(state: Split, chunks: int) -> tuple[int, int]:
    """The number of blocks along a split dimension, and their size in a chunk. Raises NoRule if that is unknown."""
    (block, *_) = state.blocks
    if not isinstance(block, int):
        raise NoRule
    return len(state.blocks), block // chunks


def _apart(shape: Shape, state: Split, chunks: int) -> Literal:
    """The shape of a chunk, with its blocks as a separate dimension."""
    return _stated(shape, state.axis, _blocks(state, chunks))


def _together(shape: Shape, state: Split, chunks: int) -> Literal:
    """The shape of a chunk."""
    return _stated(shape, state.axis, (math.prod(_blocks(state, chunks)),))


def _stated(shape: Shape, axis: int, sizes: tuple[int, ...]) -> Literal:
    """A shape for `Reshape` with a dimension replaced by other sizes. Raises NoRule if a later size is unknown."""
    behind = [dim for dim in shape[axis + 1 :] if isinstance(dim, int)]
    if len(behind) < len(shape) - axis - 1:
        raise NoRule
    return Literal((0,) * axis + sizes + tuple(behind))


def written(domain: Checker, rho: State, function: Function, cut: Cut, stream: str) -> Function | None:
    """The function with a collective cut, its chunks on a stream; None if a size is unknown."""
    try:
        return _Writer(domain, rho, function, cut, stream).written()
    except NoRule:
        return None


def issued_early(values: Mapping[str, Value], function: Function, stream: str, places: Iterable[int]) -> Function:
    """The function with the statements at these places on the stream, too.

    All on it are as early as their operands allow, before what hides them.

    Independent statements run between a collective and its first use. Collectives that several devices have at one
    place are issued together: so each device has the same order as it would alone. So are adjacent ones with one op, as
    keys and values are sent.
    """
    edit = Rewriter(function)
    for place in places:
        statement = function.body[place]
        assert isinstance(statement, Apply)
        edit.replace(place, replace(statement, stream=stream))
    function = edit.done()
    body: list[Statement] = []
    waiting: list[Statement] = []
    in_flight: set[str] = set()
    for together in side_by_side(values, lined_up(values, function.body), stream, apart=False):
        if not (isinstance(together[0], Apply) and together[0].stream == stream):
            waiting += together
            continue
        needed, later = _needed(together, waiting)
        ready, blocked = _divided(needed, in_flight)
        body += ready
        if blocked:
            beside, later = _divided(later, in_flight.union(*map(results_of, blocked)))
            body += [*beside, *blocked]
            in_flight.clear()
        body += together
        in_flight.update(*map(results_of, together))
        waiting = later
    ready, blocked = _divided(waiting[:-1], in_flight)
    return replace(function, body=(*body, *ready, *blocked, *waiting[-1:]))


def issued_early_in(module: Module, stream: str, places: Mapping[str, Collection[int]]) -> dict[str, Function]:
    """By function that has some: the function with the statements at these places on the stream, likewise."""
    states = states_of_calls(checked(module), entry_of(module))
    functions = module.functions
    return {name: issued_early(states[name], functions[name], stream, own) for name, own in places.items() if own}


def on_no_stream(function: Function, patterns: Collection[Pattern]) -> list[int]:
    """The statements that communicate in these ways, and are on no stream yet."""
    return [
        i for i, s in enumerate(function.body) if isinstance(s, Apply) and not s.stream and pattern_of(s) in patterns
    ]


def _needed(statements: Sequence[Statement], before: Sequence[Statement]) -> tuple[list[Statement], list[Statement]]:
    """Partition statements into those on which some later ones depend, and the others."""
    names = {name for statement in statements for name in names_of(operands_of(statement))}
    needed: list[Statement] = []
    others: list[Statement] = []
    for other in reversed(before):
        if names.isdisjoint(results_of(other)):
            others.append(other)
        else:
            needed.append(other)
            names.update(names_of(operands_of(other)))
    return needed[::-1], others[::-1]


def _divided(statements: Sequence[Statement], made: Set[str]) -> tuple[list[Statement], list[Statement]]:
    """Partition statements into those independent of these values, and the others."""
    names = {*made}
    free: list[Statement] = []
    bound: list[Statement] = []
    for statement in statements:
        if names.isdisjoint(names_of(operands_of(statement))):
            free.append(statement)
        else:
            bound.append(statement)
            names.update(results_of(statement))
    return free, bound
