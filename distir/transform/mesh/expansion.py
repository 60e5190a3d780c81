"""The program of every device of a mesh, from one that says each statement once.

Which parts each device has, and where it communicates, the program says. Functions, statements on parts, and the
collectives of devices are written as the partitioner writes them (`sharding`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from distir.analysis import Analysis
from distir.analysis.erasure import as_identities
from distir.analysis.moving import axes_of
from distir.analysis.placed_results import replaced_by
from distir.analysis.placement_states import place_of, state_of
from distir.analysis.placing import typing
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import placements as codes
from distir.ir import (
    DISCARD,
    DTYPES,
    HOST,
    UNKNOWN,
    Apply,
    Arg,
    Attributes,
    Call,
    Constant,
    Function,
    Meshes,
    Module,
    Return,
    Site,
    SplitAlong,
    TensorType,
    TupleType,
    Type,
    operands,
    results,
    types,
)
from distir.ir.collection import paused_collection
from distir.ir.dataflow import uses
from distir.ir.deep import Deep
from distir.ir.places import along, places, show_mesh
from distir.ir.rolling import unrolled
from distir.ir.types import device_of
from distir.ops import OPS, Value, type_of
from distir.ops.host import MOST_ENTRIES
from distir.ops.mesh import COLLECTIVES
from distir.ops.resources import ROUTED
from distir.ops.tuples import TUPLING
from distir.ops.views import VIEWS
from distir.placement.along import (
    Nested,
    OwnedBy,
    Split,
    State,
    Unsplit,
    is_host,
    is_owned,
    is_whole,
    is_zigzag,
    nested,
    state_along,
)
from distir.placement.part_types import part_of, whole_block
from distir.placement.rule import Typing
from distir.transform.checking import check_result, checked
from distir.transform.entry import entry_of
from distir.transform.fusion import with_kernels
from distir.transform.mesh.lines import in_lines
from distir.transform.mesh.sizes import axes_of_device, refuse_names, sized
from distir.transform.mesh.staged import StagedExpansion, StageMesh, transfer
from distir.transform.mesh.values import narrow_type
from distir.transform.mesh.wanted import is_update
from distir.transform.sharding.body import Callee, ShardedBody
from distir.transform.sharding.decide import made_in_parts
from distir.transform.sharding.decided import typed_where_cut
from distir.transform.sharding.factors import Decisions, written_along
from distir.transform.sharding.items import (
    Collective,
    Each,
    Expansion,
    Item,
    LocalSlice,
    is_of_statement,
    made_by,
    of_statement,
    taken_by,
    with_facts,
)
from distir.transform.sharding.mesh import Mesh, Order, mesh_of
from distir.transform.sharding.partition import NONE, Entry, Partition
from distir.transform.sharding.reshard import NotAlong
from distir.transform.sharding.rewrite import restated, share_of
from distir.transform.sharding.scatter_gather import gather, scatter

NO_SIZES: Mapping[str, Constant] = {}
NO_CUT: Mapping[int, Typing] = {}
NO_NAMES: Mapping[str, str] = {}


def expand(
    module: Module, bind: Mapping[str, Constant] = NO_SIZES, *, representative: bool = False, ends: bool = True
) -> Module:
    """The program of every device that a program on a mesh represents, with `@main.scatter` and `@main.gather`.

    Device s of the program becomes as many devices as the mesh has, side by side, numbered with the first axis
    outermost; with `representative` the first of these, whose collectives state the groups that they are of. `bind` has
    sizes of the mesh that are names. Without `ends` the program alone is written, to be simulated: not what scatters
    its inputs and gathers its results, and it is not checked. A program without a mesh stays as it is. Raises
    ProgramError where the program does not check, or a size has no number.
    """
    if not module.mesh:
        return module
    module = sized(module, bind)
    refuse_names(module)
    analysis = checked(module)
    plain = as_identities(module)
    entry = entry_of(plain)
    meshes = module.meshes
    for mesh in () if representative else meshes.each:
        count = math.prod(size for _, size in mesh if isinstance(size, int))
        if count > MOST_ENTRIES:
            message = f"expected at most {MOST_ENTRIES:,} devices, found {count:,} in `{show_mesh(mesh)}`"
            raise ProgramError([Diagnostic(codes.BAD_MESH, Site(entry.name), message, help="take fewer devices")])
    with paused_collection():
        program = _Program(checked(plain, entry.name), _devices(plain, entry, meshes, representative))
        program.written, program.meshes = analysis, meshes
        program.in_place = {
            str(entry.returned[result]): entry.params[number].name
            for result, number in replaced_by(plain, entry).items()
            if {"donated", "param"} <= entry.params[number].roles.keys()
        }
        states = [placement(p.type, meshes) for p in analysis.module.functions[entry.name].params]
        done = program.entry(entry, states)
        program.lines[done.function.name] = program.starts
        made = Module([*program.functions.values(), *(_ends(plain, entry, done, program.mesh) if ends else ())])
        if program.apart:
            made = with_kernels(made, program.apart)
            program.lines |= dict.fromkeys(program.apart, (0,))
        if representative:
            functions = [own for f in made for own in in_lines(f, program.lines.get(f.name))]
            made = Module(dict.fromkeys(functions))
    if ends:
        check_result("expand", module, made)
    return made


def _ends(plain: Module, entry: Function, done: Entry, mesh: Mesh) -> Iterator[Function]:
    """The functions that scatter the inputs of a program and gather its results."""
    given = [_listed(s, p.type, entry) for s, p in zip(done.params, entry.params, strict=True)]
    found = [_listed(s, type_of(v), entry) for s, v in zip(done.results, done.result_values, strict=True)]
    written_out = unrolled(plain)  # counted messages of stages differ in devices
    yield scatter(written_out, entry, given, mesh)
    yield gather(written_out, entry, done.function, done.result_values, found, mesh)


def _devices(plain: Module, entry: Function, meshes: Meshes, representative: bool) -> Mesh:
    """The devices that each device of the program becomes."""
    factors = tuple(size for _, size in axes_of_device(meshes, None))
    mesh = replace(mesh_of(plain, entry, math.prod(factors), "innermost", representative), factors=factors)
    if not meshes.stages:
        return mesh
    stages = ((device, axes_of_device(meshes, device)) for device in range(mesh.first, mesh.first + mesh.count))
    return StageMesh(mesh.size, mesh.first, mesh.count, mesh.place, factors=factors, stages=tuple(stages))


@lru_cache(maxsize=1 << 12)
def placement(type: Type, meshes: Meshes) -> State:
    """Where the parts of a value of a type are, along the axes as factors of all devices of its stage."""
    if isinstance(type, TupleType):
        return tuple(placement(item, meshes) for item in type.items)
    placed = type.places if isinstance(type, TensorType) else ()
    axes = axes_of_device(meshes, device_of(type))
    sizes = [size for _, size in axes]
    states = [state_of(along(placed, axis)) for axis, _ in axes]
    names = [axis for axis, _ in axes]
    cut = [names.index(place.axis) for place in placed if isinstance(place, SplitAlong) and place.axis in names]
    order = (*cut, *(k for k in range(len(axes)) if k not in cut))
    owned = any(isinstance(state, OwnedBy) for state in states)
    if not owned and all(
        cut.index(a) < cut.index(b) for a in cut for b in cut if a < b and _cut_alike(states[a], states[b])
    ):
        return nested(states, sizes) if axes else state_of(None)
    return Nested(tuple(zip(states, sizes, strict=True)), order)


def _cut_alike(one: State, other: State) -> bool:
    """Whether both split one dimension."""
    return isinstance(one, Split) and isinstance(other, Split) and one.axis == other.axis


@lru_cache(maxsize=1 << 12)
def placed(v: Value, state: State, meshes: Meshes) -> Value:
    """A value of this placement, as the program with the mesh has it."""
    if isinstance(v, TupleType):
        own = state if isinstance(state, tuple) else (state,) * len(v.items)
        return TupleType(tuple(type_of(placed(item, s, meshes)) for item, s in zip(v.items, own, strict=True)))
    if not isinstance(v, TensorType) or is_whole(state):
        return v
    axes = axes_of_device(meshes, v.device)
    order = (state.order if isinstance(state, Nested) else ()) or range(len(axes))
    found = (place_of(state_along(state, k), axes[k][0]) for k in order)
    return replace(v, places=places(place for place in found if place is not None))


def _listed(state: State, type: Type, entry: Function) -> State:
    """A placement with the blocks of each cut listed, as what is cut is cut into them and joined of them."""
    if isinstance(state, tuple):
        assert isinstance(type, TupleType)
        return tuple(_listed(s, item, entry) for s, item in zip(state, type.items, strict=True))
    if isinstance(state, Nested):
        listed = replace(state, parts=tuple((_with_blocks(s, type, entry), size) for s, size in state.parts))
        parts = tuple((_of_parts(listed, k), size) for k, (_, size) in enumerate(listed.parts))
        return replace(listed, parts=parts)
    return _with_blocks(state, type, entry)


def _of_parts(state: Nested, factor: int) -> Unsplit | Split | OwnedBy:
    """The state along an axis of the parts along those that are outside of it: of their blocks."""
    own, _ = state.parts[factor]
    if not isinstance(own, Split) or len(own.blocks) < 2:
        return own
    along = ((s, n) for k, s, n in state.cuts if k != factor and isinstance(s, Split) and s.axis == own.axis)
    outer = (n for s, n in along if s.blocks != own.blocks)  # those in the same blocks split each of them
    return replace(own, blocks=own.blocks[: len(own.blocks) // math.prod(outer)])


def _with_blocks(state: Unsplit | Split | OwnedBy, type: Type, entry: Function) -> Unsplit | Split | OwnedBy:
    if not isinstance(state, Split) or not state.is_repeated or not isinstance(type, TensorType):
        return state
    ((block,), dim) = state.blocks, (type.shape or ())[state.axis]
    size = whole_block(block)
    if not isinstance(dim, int) or not isinstance(size, int):
        message = f"`{type}` is split in blocks, of which there are as many as a size says that is not known"
        hint = "gather the value before it is returned"
        raise ProgramError([Diagnostic(codes.BAD_PLACEMENT, Site(entry.name), message, help=hint)])
    return replace(state, blocks=(size,) * (dim // size))


@dataclass
class _Program(Partition):
    """The functions of the program of every device. `written`: the analysis of the program on the mesh."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.written: Analysis = self.analysis
        self.meshes = Meshes()
        self.decisions: dict[object, tuple[Decisions, tuple[State, ...]]] = {}
        """By op, and operands that are placed so: how it is executed on their parts, and how it needs them."""
        self.lines: dict[str, Sequence[int]] = {}
        """By function that is written: where each statement on the mesh begins in it, written for one device."""
        self.starts: Sequence[int] = ()
        self.in_place = NO_NAMES
        """By result of the entry function: the donated weight that it replaces."""
        self.apart: set[str] = set()
        """Kernels of which the ops on parts communicate: on each device these are several."""

    @property
    def is_staged(self) -> bool:
        """Whether stages become differently many devices."""
        return bool(self.meshes.stages)

    def callee(self, name: str, vs: Sequence[Value], states: Sequence[State]) -> Deep[Callee]:
        """The function for arguments that are placed so."""
        key = (name, tuple(vs), tuple(states))
        known = self._done.get(key)
        if known is None:
            known = self._done[key] = yield self._function(*key)
        if known.joint and self.module.functions[name].kernel:
            self.apart.add(known.name)
        return known

    def _body(
        self,
        function: Function,
        vs: tuple[Value, ...],
        states: Sequence[State],
        constraints: Mapping[str, State] = NONE,
    ) -> Deep[ShardedBody]:
        instance = self.analysis.domain.instance(function.name, vs)
        body = _Body(self, self.analysis.domain, self.mesh, function, instance, states, constraints)
        given = tuple(placed(v, s, self.meshes) for v, s in zip(vs, states, strict=True))
        body.on_mesh(self, given)
        yield body.run()
        self.starts = body.starts
        return body

    def _expansion(self, body: ShardedBody, single: set[str]) -> Expansion:

        def held(name: str) -> Sequence[int]:
            if isinstance(body, _Body) and name in body.within:
                return body.within[name]
            return self.mesh.of(type_of(body.value(name))).having(body.state(name))

        held_by = held if body.owns else None
        if not self.is_staged:
            return Expansion(self.mesh, single, body.names.taken, held_by)
        return StagedExpansion(self.mesh, single, body.names.taken, lambda name: type_of(body.value(name)), held_by)

    def _write(self, body: ShardedBody, expansion: Expansion) -> None:
        assert isinstance(body, _Body)
        begins: list[int] = []
        for item, mesh in zip(body.items, body.stages, strict=True):
            begins.append(len(expansion.body))
            if isinstance(expansion, StagedExpansion):
                expansion.write_on(item, mesh)
            else:
                expansion.write(item)
        begins.append(len(expansion.body))
        self.starts = [begins[start] for start in body.starts]

    def _named(self, name: str, make: Callable[[str], Function]) -> str:
        chosen = super()._named(name, make)
        self.lines[chosen] = self.starts
        return chosen


class _Body(ShardedBody):
    """The body of a function: each statement on the parts that the program says, and its collectives."""

    def on_mesh(self, program: _Program, args: tuple[Value, ...]) -> None:
        """Set the program on the mesh, and what it gives this function."""
        self.meshes, self.devices, self.known = program.meshes, program.mesh, program.decisions
        self.axes = axes_of_device(program.meshes, None)
        is_entry = self.function.name == entry_of(program.written.module).name
        self.in_place = program.in_place if is_entry else NO_NAMES
        self.starts: list[int] = []
        """By statement: how many items were there before it."""
        self.said = program.written.domain.instance(self.function.name, args)
        self.stages: list[Mesh] = []
        """By item: the devices of its stage."""
        self.one_item: dict[object, tuple[Item, Mesh, Sequence[tuple[Value, State]]]] = {}
        """By what statements share: the item that one of them is, the devices of its stage, and its results."""
        self.within: dict[str, Sequence[int]] = {}
        """By name that only the owners of operands compute, on the way to a result: their ranks."""

    def given_to(self, statement: Call, vs: tuple[Value, ...]) -> Deep[tuple[Arg, ...]]:
        """The arguments of a call, as they are."""
        yield from ()
        return statement.args

    def result(self, arg: Arg, state: State | None) -> Arg:
        """A result of the entry function, as it is."""
        return arg

    def kept(self, arg: Arg) -> Arg:
        """A result of a function, as it is."""
        return arg

    def _statement(self, index: int, statement: Apply | Call) -> Deep[None]:
        first = len(self.items)
        self.starts.append(first)
        alike = self._alike(index, statement)
        known = None if alike is None else self.one_item.get(alike)
        if known is not None:
            item, mesh, given = known
            self.items.append(of_statement(item, statement))
            for name, (w, state) in zip(statement.results, given, strict=True):
                self.define(name, w, state)
            self.stages.append(mesh)
            return
        mesh = self._begin(index)
        if isinstance(statement, Call):
            yield from self._call(statement)
        else:
            self._apply_on_mesh(index, statement)
            self._of_owners(statement, mesh)
        self.stages += [mesh] * (len(self.items) - len(self.stages))
        if alike is not None and len(self.items) == first + 1 and is_of_statement(self.items[first], statement):
            made = [(self.value(name), self.state(name)) for name in statement.results]
            self.one_item[alike] = self.items[first], mesh, made

    def _alike(self, index: int, statement: Apply | Call) -> object:
        """What statements share that each device executes alike, up to names; None where names matter."""
        body = self.said.function.body
        written, after = body[index : index + 2]
        if not isinstance(written, Apply) or self.owns or (isinstance(after, Apply) and after.op == "Shard"):
            return None
        form = self._form(statement)
        values = *self.said.state(written.args), *self.said.state(written.results)
        alone = written.op == "Shard" and self._is_only_updated(written.results[0])
        return None if form is None else (form, statement.stream, written.op, written.attrs, values, alone)

    def _of_owners(self, statement: Apply, mesh: Mesh) -> None:
        """Say which devices have what the items of an op define besides its results: those that have what it is of."""
        if statement.op in COLLECTIVES or statement.op in TUPLING or not self.owns:
            return
        for item in self.items[self.starts[-1] :]:
            of = [
                self.within.get(arg, mesh.having(self.state(arg))) for arg in taken_by(item) if arg not in self.single
            ]
            if any(len(own) < mesh.ranks for own in of):
                ranks = [rank for rank in of[0] if all(rank in own for own in of)]
                self.within |= {name: ranks for name in made_by(item) if name not in statement.results}

    def _begin(self, index: int) -> Mesh:
        """Take the mesh of the stage that executes a statement."""
        statement = self.said.function.body[index]
        values = (*self.said.state(operands(statement)), *self.said.state(results(statement)))
        leaves = (leaf for v in values for leaf in types.leaves(type_of(v)))
        on = next((leaf for leaf in leaves if leaf.device not in (None, HOST)), UNKNOWN)
        mesh = self.devices.of(on)
        self.size, self.factors, self.axes = mesh.size, mesh.factors, axes_of_device(self.meshes, device_of(on))
        return mesh

    def _apply_on_mesh(self, index: int, statement: Apply) -> None:
        written = self.said.function.body[index]
        assert isinstance(written, Apply)
        vs = tuple(map(self.value, statement.args))
        ws = self.domain.answer(statement, vs)
        given = tuple(placement(type_of(w), self.meshes) for w in self.said.state(written.results))
        if written.op == "Send" and self._is_to_another_mesh(written):
            self._sent_to_another_mesh(written, ws[0], given[0])
        elif written.op in COLLECTIVES:
            self._collective_of_mesh(written, ws[0], given[0])
        elif written.op == "UnpackTuple" and is_owned(self.state(statement.args[0])):
            names = (self.fresh("unused") if name == DISCARD else name for name in statement.results)
            self.write(replace(statement, results=tuple(names)), ws, self._items(statement))
        elif cut := self._cut_at_once(index, written, vs, ws):
            self._on_parts(index, statement, vs, ws, cut)
            after = self.said.function.body[index + 1]
            assert isinstance(after, Apply)
            (part,) = self.said.state(after.results)
            self.define(written.results[0], ws[0], placement(type_of(part), self.meshes))
        elif written.op in TUPLING or all(is_whole(self.state(arg)) for arg in statement.args):
            self.write(statement, ws, given)
        elif all(map(is_host, ws)):
            restated(self, statement, vs, ws)
        elif any(isinstance(type_of(v), TupleType) for v in vs):
            self.write(statement, ws, given)
        else:
            self._on_parts(index, statement, vs, ws)
            for name, w, state in zip(statement.results, ws, given, strict=True):
                self.define(name, w, state)

    def _items(self, unpacked: Apply) -> tuple[State, ...]:
        """The states of the items of a tuple of which devices have some."""
        found = self.state(unpacked.args[0])
        assert isinstance(found, tuple)
        return found

    def _is_to_another_mesh(self, statement: Apply) -> bool:
        """Whether a send is to a stage of another mesh."""
        here, there = (device_of(type_of(self.said.state((arg,))[0])) for arg in (*statement.args, *statement.results))
        return self.meshes.of(here) != self.meshes.of(there)

    def _sent_to_another_mesh(self, statement: Apply, w: Value, given: State) -> None:
        """Append a send of which each device gets its part."""
        (arg,), (name,) = statement.args, statement.results
        found, to = type_of(self.said.state((arg,))[0]), device_of(type_of(w))
        assert isinstance(arg, str)
        assert isinstance(found, TensorType)
        assert to is not None
        made = transfer(name, arg, to, found, self.axes, axes_of_device(self.meshes, to))
        self.items.append(replace(made, facts=statement.facts, stream=statement.stream))
        self.define(name, w, given)

    def _cut_at_once(
        self, index: int, statement: Apply, vs: tuple[Value, ...], ws: tuple[Value, ...]
    ) -> Mapping[int, Typing]:
        """By axis: how each device computes its part of a result, of which the next statement takes that, alone.

        Empty where the op does not compute parts of whole operands.
        """
        after = self.said.function.body[index + 1]
        if not isinstance(after, Apply) or after.op != "Shard" or after.args != statement.results:
            return {}
        if [*self._uses.get(statement.results[0], ())] != [index + 1]:
            return {}
        names, axes = [axis for axis, _ in self.axes], axes_of(after)
        size = math.prod(size for axis, size in self.axes if axis in axes)
        part = type_of(self.said.state(after.results)[0])
        wanted = state_of(along(part.places, axes[0])) if isinstance(part, TensorType) else None
        if not isinstance(wanted, Split) or wanted.zigzag or len(ws) != 1:
            return {}
        found = made_in_parts(OPS[statement.op], statement.attrs, vs, [type_of(ws[0])], wanted, size)
        return {} if found is None else dict.fromkeys(map(names.index, axes), found)

    @cached_property
    def _uses(self) -> Mapping[str, Sequence[int]]:
        return uses(self.said.function)

    def _on_parts(
        self,
        index: int,
        statement: Apply,
        vs: tuple[Value, ...],
        ws: tuple[Value, ...],
        cut: Mapping[int, Typing] = NO_CUT,
    ) -> None:
        """Append a statement as each device executes it on its parts. `cut`: its typing where its result is cut."""
        states = tuple(map(self.state, statement.args))
        key = statement.op, statement.attrs, vs, ws, states, self.axes, *cut.items()
        known = self.known.get(key)
        if known is None:
            found = self._decisions(statement, vs, ws, states, cut)
            known = self.known[key] = found, found.needed
        decisions, needed = known
        rows = zip(typed_where_cut(statement, vs, needed), vs, needed, strict=True)
        args = tuple(self.placed(arg, need) if is_host(v) and not is_whole(need) else arg for arg, v, need in rows)
        first, parted = len(self.items), any(own.parted for own in decisions.each)
        stream = "" if parted else statement.stream
        try:
            written_along(self, replace(statement, args=args, claims=(), stream=stream), decisions)
        except NotAlong:
            message = f"`{statement.op}` cannot be written out on parts along several axes of the mesh at once"
            hint = "gather its operands along one of the axes first"
            site = Site(self.function.name, index)
            raise ProgramError([Diagnostic(codes.NOT_PARTS, site, message, help=hint)]) from None
        if parted and statement.stream:
            self.items[first:] = (_communicating_on(statement.stream, item) for item in self.items[first:])

    def _decisions(
        self,
        statement: Apply,
        vs: tuple[Value, ...],
        ws: tuple[Value, ...],
        states: tuple[State, ...],
        cut: Mapping[int, Typing],
    ) -> Decisions:
        """The typing of a statement along each axis, and its operands and results, cut along those before.

        Along axes that split the same dimension it is one typing: that of all devices along them.
        """
        nested_ones = (state.order for state in states if isinstance(state, Nested))
        order = next(filter(None, nested_ones), tuple(range(len(self.axes))))
        along: dict[Typing, tuple[int, ...]] = {}
        for k in order:
            axis, size = self.axes[k]
            found = cut.get(k) or typing(statement, vs, ws, tuple(state_along(s, k) for s in states), axis, size)
            along[found] = (*along.get(found, ()), k)
        along = dict(sorted(along.items(), key=lambda item: item[0].parted))  # these are written last
        operands, results = [vs], [ws]
        for own, factors in along.items():
            size = math.prod(self.factors[k] for k in factors)
            operands.append(tuple(map(_part, operands[-1], own.needed, [size] * len(vs))))
            results.append(tuple(map(_part, results[-1], own.given, [size] * len(ws))))
        return Decisions(tuple(along), tuple(operands[:-1]), tuple(results[:-1]), self.factors, tuple(along.values()))

    def _collective_of_mesh(self, statement: Apply, w: Value, given: State) -> None:
        """Append what a collective over axes of the mesh is on its devices: one of all devices along them."""
        (arg,), (name,) = statement.args, statement.results
        assert isinstance(arg, str)
        if self.state(arg) == given:  # computed so
            self.write(Apply((name,), "Identity", (arg,), facts=statement.facts), (w,), (given,))
            return
        names, first = [axis for axis, _ in self.axes], len(self.items)
        along = [names.index(axis) for axis in axes_of(statement)]
        states = map(_of_items, (self.state(arg), given))
        now, then = (_of_parts(s, along[0]) if isinstance(s, Nested) else s for s in states)
        with self.along(*along, order=Order(is_zigzag(now) or is_zigzag(then))):
            if statement.attrs.get("wide") and isinstance(w, TensorType) and narrow_type(w) is not None:
                self._summed_wide(arg, name, w)
            else:
                self._brought(arg, name, w, now, then, {n: v for n, v in statement.attrs.items() if n in ROUTED})
        for number, item in enumerate(self.items[first:], first):
            self.items[number] = with_facts(item, statement.facts)
            if isinstance(item, Collective):
                self.items[number] = replace(self.items[number], stream=statement.stream)
            if isinstance(item, LocalSlice):
                is_view = statement.op == VIEWS["Shard"]
                self.items[number] = replace(item, view=True) if is_view else self._alone(item, name, w)
        self.define(name, w, given)

    def _alone(self, item: LocalSlice, name: str, w: Value) -> LocalSlice:
        """The slice of a weight of which a device updates its part, and reads no other, with the length of all."""
        if not self._is_only_updated(name):
            return item
        assert isinstance(item.arg, str)
        local = part_of(type_of(w), self.state(item.arg), self.size)
        length = local.shape[item.axis] if isinstance(local, TensorType) and local.shape is not None else None
        parts = item.order.parts(math.prod(self.factors[k] for k in item.along))
        return replace(item, length=length) if isinstance(length, int) and length % parts == 0 else item

    def _is_only_updated(self, name: str) -> bool:
        users = (self.said.function.body[i] for i in self._uses.get(name, ()))
        return all(
            isinstance(user, Return) or (isinstance(user, Apply) and is_update(user) and user.args[0] == name)
            for user in users
        )

    def _summed_wide(self, arg: str, name: str, w: TensorType) -> None:
        """Append a sum in Float32 of values of fewer bits, between casts."""
        assert w.dtype is not None
        wide, state = replace(w, dtype=DTYPES["Float32"]), self.state(arg)
        cast, total = (self.fresh(f"{own}_wide") for own in (arg, name))
        self.items.append(Each(Apply((cast,), "Cast", (arg,), Attributes({"to": DTYPES["Float32"]}))))
        self.define(cast, wide, state)
        self._brought(cast, total, wide, Unsplit.PARTIAL, Unsplit.WHOLE, {})
        self.items.append(Each(Apply((name,), "Cast", (total,), Attributes({"to": w.dtype}))))

    def _brought(self, arg: str, name: str, w: Value, now: State, then: State, routed: Mapping[str, Constant]) -> None:
        """Append what brings a value from one placement along an axis into another, under a name.

        `routed`: what an all-to-all states of the router of the tokens that it brings.
        """
        match now, then:
            case Unsplit.PARTIAL, Unsplit.WHOLE:
                made = self._collective(name, "MPIAllreduce", arg, w, then)
            case Unsplit.PARTIAL, OwnedBy():
                made = self._collective(name, "MPIReduce", arg, w, then, root=_device_of(w))
            case OwnedBy(), _:
                made = self._collective(name, "MPIBroadcast", arg, w, then, root=_device_of(w))
                self.items[-1] = replace(self.items[-1], into=self.in_place.get(name, ""))
            case Unsplit.GREATEST, Unsplit.WHOLE:
                made = self._greatest(arg, name, w)
            case Unsplit.PARTIAL, Split(dim):
                ordered = self.in_order_of_devices(arg, dim)
                made = self._collective(name, "MPIReduceScatter", ordered, w, then, axis=dim)
            case Split(joined), Split(dim):
                ordered = self.in_order_of_devices(arg, dim) if is_zigzag(then) else arg
                axes = {"split_axis": dim, "concat_axis": joined}
                hint = f"{name}_turned" if is_zigzag(now) else name
                made = self._collective(hint, "MPIAlltoall", ordered, w, then, **axes, **routed)
                made = self.in_order(made, joined) if is_zigzag(now) else made
            case Split(), Unsplit.WHOLE:
                made = self._gathered(arg, name, w, now)
            case Unsplit.WHOLE, Split():
                made = self._cut(arg, name, w, then)
            case _:
                made = share_of(self, arg)
        self.items[-1] = _named(self.items[-1], str(made), name)
        self.names.give_back(str(made))


def _device_of(w: Value) -> int:
    """The device of the program on which a value is."""
    device = next((leaf.device for leaf in types.leaves(type_of(w)) if leaf.device not in (None, HOST)), None)
    return 1 if device is None else device


def _communicating_on(stream: str, item: Item) -> Item:
    """The item, on the stream if devices communicate."""
    return replace(item, stream=stream) if isinstance(item, Collective) else item


def _named(item: Item, made: str, name: str) -> Item:
    """The item with its result under another name."""
    if isinstance(item, (Collective, LocalSlice)):
        assert item.result == made
        return replace(item, result=name)
    assert isinstance(item, Each)
    assert item.statement.results == (made,)
    return Each(replace(item.statement, results=(name,)))


def _of_items(state: State) -> State:
    """The state of the first item of a tuple: along the axis of a collective that is one for all."""
    while isinstance(state, tuple):
        state = state[0]
    return state


def _part(value: Value, state: State, size: int) -> Value:
    return part_of(value, state, size) if isinstance(value, TensorType) else value
