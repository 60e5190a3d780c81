"""The program of every device of a mesh, from one that says each statement once.

Which parts each device has, and where it communicates, the program says. Functions, statements on parts, and the
collectives of devices are written as the partitioner writes them (`sharding`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from distir.analysis import Analysis
from distir.analysis.placing import place_of, state_of, typing
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import devices
from distir.diagnostics.codes import placements as codes
from distir.ir import Apply, Arg, Call, Function, Mesh, Module, Part, Site, SplitAlong, TensorType, TupleType, Type
from distir.ir.collection import paused_collection
from distir.ir.deep import Deep
from distir.ir.places import along, places, show_mesh
from distir.ops import Value, type_of
from distir.ops.host import MOST_ENTRIES
from distir.ops.mesh import COLLECTIVES
from distir.placement.along import Nested, Split, State, Unsplit, is_host, is_whole, nested, state_along
from distir.placement.part_types import part_of, whole_block
from distir.placement.rule import Typing
from distir.transform.checking import check_result, checked
from distir.transform.entry import entry_of
from distir.transform.mesh.erasure import as_identities
from distir.transform.sharding.body import Callee, ShardedBody
from distir.transform.sharding.decide import NoRule
from distir.transform.sharding.decided import typed_where_cut
from distir.transform.sharding.factors import Decisions, written_along
from distir.transform.sharding.items import Collective, Each, Item, LocalSlice, with_facts
from distir.transform.sharding.mesh import mesh_of
from distir.transform.sharding.partition import NONE, Partition
from distir.transform.sharding.reshard import NotAlong
from distir.transform.sharding.rewrite import restated, share_of
from distir.transform.sharding.scatter_gather import gather, scatter


def expand(module: Module) -> Module:
    """The program of every device that a program on a mesh represents, with `@main.scatter` and `@main.gather`.

    Device s of the program becomes as many devices as the mesh has, side by side, numbered with the first axis
    outermost. A program without a mesh stays as it is. Raises ProgramError where the program does not check, or an op
    cannot be written out on parts.
    """
    if not module.mesh:
        return module
    analysis = checked(module)
    plain = as_identities(module)
    entry = entry_of(plain)
    axes, count = module.mesh, math.prod(size for _, size in module.mesh)
    if count > MOST_ENTRIES:
        message = f"expected at most {MOST_ENTRIES:,} devices, found {count:,} in `{show_mesh(axes)}`"
        raise ProgramError([Diagnostic(codes.BAD_MESH, Site(entry.name), message, help="take fewer devices")])
    mesh = mesh_of(plain, entry, count, "innermost")
    with paused_collection():
        program = _Program(checked(plain), replace(mesh, factors=tuple(size for _, size in axes)))
        program.written, program.axes = analysis, axes
        states = [placement(p.type, axes) for p in analysis.module.functions[entry.name].params]
        done = program.entry(entry, states)
        given = [_listed(s, p.type, entry) for s, p in zip(states, entry.params, strict=True)]
        found = [_listed(s, type_of(v), entry) for s, v in zip(done.results, done.result_values, strict=True)]
        ends = (
            scatter(plain, entry, given, program.mesh),
            gather(plain, entry, done.function, done.result_values, found, program.mesh),
        )
        made = Module([*program.functions.values(), *ends])
    check_result("expand", module, made)
    return made


def placement(type: Type, axes: Mesh) -> State:
    """Where the parts of a value of a type are, along the axes as factors of all devices."""
    if isinstance(type, TupleType):
        return tuple(placement(item, axes) for item in type.items)
    placed = type.places if isinstance(type, TensorType) else ()
    sizes = [size for _, size in axes]
    states = [state_of(along(placed, axis)) for axis, _ in axes]
    names = [axis for axis, _ in axes]
    cut = [names.index(place.axis) for place in placed if isinstance(place, SplitAlong) and place.axis in names]
    order = (*cut, *(k for k in range(len(axes)) if k not in cut))
    if all(cut.index(a) < cut.index(b) for a in cut for b in cut if a < b and states[a] == states[b]):
        return nested(states, sizes) if axes else state_of(None)
    return Nested(tuple(zip(states, sizes, strict=True)), order)


def placed(v: Value, state: State, axes: Mesh) -> Value:
    """A value of this placement, as the program with the mesh has it."""
    if isinstance(v, TupleType):
        own = state if isinstance(state, tuple) else (state,) * len(v.items)
        return TupleType(tuple(type_of(placed(item, s, axes)) for item, s in zip(v.items, own, strict=True)))
    if not isinstance(v, TensorType) or is_whole(state):
        return v
    order = (state.order if isinstance(state, Nested) else ()) or range(len(axes))
    found = (place_of(state_along(state, k), axes[k][0]) for k in order)
    return replace(v, places=places(place for place in found if place is not None))


def _listed(state: State, type: Type, entry: Function) -> State:
    """A placement with blocks that fill a dimension listed, as whole values are cut into them and joined of them."""
    if isinstance(state, tuple):
        assert isinstance(type, TupleType)
        return tuple(_listed(s, item, entry) for s, item in zip(state, type.items, strict=True))
    if isinstance(state, Nested):
        return replace(state, parts=tuple((_with_blocks(s, type, entry), size) for s, size in state.parts))
    return _with_blocks(state, type, entry)


def _with_blocks(state: Unsplit | Split, type: Type, entry: Function) -> Unsplit | Split:
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
        self.axes: Mesh = ()

    def callee(self, name: str, vs: Sequence[Value], states: Sequence[State]) -> Deep[Callee]:
        """The function for arguments that are placed so."""
        key = (name, tuple(vs), tuple(states))
        known = self._done.get(key)
        if known is None:
            known = self._done[key] = yield self._function(*key)
        if known.joint and self.module.functions[name].kernel:
            message = f"the kernel `@{name}` is not one kernel on each device: its ops on parts communicate"
            hint = "end the kernel before them"
            raise ProgramError([Diagnostic(devices.IN_KERNEL, Site(name, None, Part("name")), message, help=hint)])
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
        given = tuple(placed(v, s, self.axes) for v, s in zip(vs, states, strict=True))
        body.on_mesh(self.written, self.axes, given)
        yield body.run()
        return body


class _Body(ShardedBody):
    """The body of a function: each statement on the parts that the program says, and its collectives."""

    def on_mesh(self, written: Analysis, axes: Mesh, args: tuple[Value, ...]) -> None:
        """Set the program on the mesh, and what it gives this function."""
        self.axes = axes
        self.said = written.domain.instance(self.function.name, args)

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
        if isinstance(statement, Call):
            yield from self._call(statement)
            return
        written = self.said.function.body[index]
        assert isinstance(written, Apply)
        vs = tuple(map(self.value, statement.args))
        ws = self.domain.answer(statement, vs)
        given = tuple(placement(type_of(w), self.axes) for w in self.said.state(statement.results))
        if written.op in COLLECTIVES:
            self._collective_of_mesh(written, ws[0], given[0])
        elif written.op in ("MakeTuple", "UnpackTuple") or all(is_whole(self.state(arg)) for arg in statement.args):
            self.write(statement, ws, given)
        elif all(map(is_host, ws)):
            restated(self, statement, vs, ws)
        elif any(isinstance(type_of(v), TupleType) for v in vs):
            self.write(statement, ws, given)
        else:
            self._on_parts(index, statement, vs, ws)
            for name, w, state in zip(statement.results, ws, given, strict=True):
                self.define(name, w, state)

    def _on_parts(self, index: int, statement: Apply, vs: tuple[Value, ...], ws: tuple[Value, ...]) -> None:
        """Append a statement as each device executes it on its parts."""
        states = tuple(map(self.state, statement.args))
        decisions = self._decisions(statement, vs, ws, states)
        rows = zip(typed_where_cut(statement, vs, decisions.needed), vs, decisions.needed, strict=True)
        args = tuple(self.placed(arg, need) if is_host(v) and not is_whole(need) else arg for arg, v, need in rows)
        try:
            written_along(self, replace(statement, args=args, claims=()), decisions)
        except (NoRule, NotAlong):
            message = f"`{statement.op}` cannot be written out on parts along several axes of the mesh at once"
            hint = "gather its operands along one of the axes first"
            site = Site(self.function.name, index)
            raise ProgramError([Diagnostic(codes.NOT_PARTS, site, message, help=hint)]) from None

    def _decisions(
        self, statement: Apply, vs: tuple[Value, ...], ws: tuple[Value, ...], states: tuple[State, ...]
    ) -> Decisions:
        """The typing of a statement along each axis, and its operands and results, cut along those before."""
        nested_ones = (state.order for state in states if isinstance(state, Nested))
        order = next(filter(None, nested_ones), tuple(range(len(self.axes))))
        each: dict[int, Typing] = {}
        operands: dict[int, tuple[Value, ...]] = {}
        results: dict[int, tuple[Value, ...]] = {}
        cut, made = vs, ws
        for k in order:
            axis, size = self.axes[k]
            each[k] = typing(statement, vs, ws, tuple(state_along(s, k) for s in states), axis, size)
            operands[k], results[k] = cut, made
            cut = tuple(map(_part, cut, each[k].needed, [size] * len(cut)))
            made = tuple(map(_part, made, each[k].given, [size] * len(made)))
        every = range(len(self.axes))
        parts, made = tuple(operands[k] for k in every), tuple(results[k] for k in every)
        return Decisions(tuple(each[k] for k in every), parts, made, self.factors, order)

    def _collective_of_mesh(self, statement: Apply, w: Value, given: State) -> None:
        """Append what a collective over an axis of the mesh is on its devices."""
        axis, names = statement.attrs["axis"], [axis for axis, _ in self.axes]
        (arg,), (name,) = statement.args, statement.results
        assert isinstance(arg, str)
        k, first = names.index(str(axis)), len(self.items)
        with self.along(k):
            now, then = (state_along(_of_items(s), k) for s in (self.state(arg), given))
            self._brought(arg, name, w, now, then)
        for number, item in enumerate(self.items[first:], first):
            self.items[number] = with_facts(item, statement.facts)
            if isinstance(item, Collective):
                self.items[number] = replace(self.items[number], stream=statement.stream)
        self.define(name, w, given)

    def _brought(self, arg: str, name: str, w: Value, now: State, then: State) -> None:
        """Append what brings a value from one placement along an axis into another, under a name."""
        match now, then:
            case Unsplit.PARTIAL, Unsplit.WHOLE:
                made = self._collective(name, "MPIAllreduce", arg, w, then)
            case Unsplit.GREATEST, Unsplit.WHOLE:
                made = self._greatest(arg, name, w)
            case Unsplit.PARTIAL, Split(dim):
                made = self._collective(name, "MPIReduceScatter", arg, w, then, axis=dim)
            case Split(joined), Split(dim):
                made = self._collective(name, "MPIAlltoall", arg, w, then, split_axis=dim, concat_axis=joined)
            case Split(), Unsplit.WHOLE:
                made = self._gathered(arg, name, w, now)
            case Unsplit.WHOLE, Split():
                made = self._cut(arg, name, w, then)
            case _:
                made = share_of(self, arg)
        self.items[-1] = _named(self.items[-1], str(made), name)
        self.names.give_back(str(made))


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
