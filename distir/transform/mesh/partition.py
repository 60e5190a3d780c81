"""Writes the functions of a sequential program on a mesh, all axes at once, from where its parameters are placed.

Each function is written once for the placements of its arguments, statement by statement, forward. An op stays as it
is: along each axis its rule says how its operands must be placed (`sharding.decide`), and collectives bring them there.
So without placements and collectives the program is the sequential one.

A value keeps its placement until a statement needs another one. A pending sum is ended where it is first needed whole,
once for all its users; one that an update takes, as the update's weight and state are placed (`wanted`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from distir.analysis import Analysis
from distir.analysis.placement_states import erased, place_of, state, tensors
from distir.analysis.placing import dividing, placed
from distir.analysis.stated_places import complaint
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    NO_FACTS,
    Apply,
    Arg,
    Call,
    Facts,
    Function,
    Literal,
    Meshes,
    Module,
    Part,
    PendingAlong,
    Places,
    Return,
    Site,
    SplitAlong,
    Statement,
    TensorType,
    TupleType,
    Type,
    results,
)
from distir.ir import Mesh as Axes
from distir.ir.builder import namer
from distir.ir.dataflow import maker, uses
from distir.ir.deep import Deep, finish
from distir.ir.places import Repeated, along, cuts_of, places
from distir.ir.rewrite import facts_of, mapped, with_names
from distir.ops import OPS, Reject, Value, item_of, type_of
from distir.ops.tuples import TUPLING
from distir.placement.along import PARTIAL, WHOLE, Split, State, is_host
from distir.placement.rule import Typing
from distir.transform.mesh.moves import AxisMove, NoWay, moves
from distir.transform.mesh.wanted import Gradient, Wanted, gradients_returned, wanted_of_call
from distir.transform.orphans import without_orphans
from distir.transform.sharding.batch import Places as Batch
from distir.transform.sharding.decide import Exchanged, NoRule, NotExchanged, decide
from distir.transform.sharding.spread import tokens_of

Loose = frozenset[str]
"""The axes along which a value is split only to be stored so: an op that could be split otherwise gathers it."""

FIXED: Loose = frozenset()


@dataclass(frozen=True, slots=True)
class SequenceSpread:
    """An axis over which sums are spread along their tokens, instead of being given whole to all of its devices."""

    axis: str
    batch: Mapping[str, Batch]
    """By function: the dimensions of its values that are the batch, and so no tokens."""


@dataclass(frozen=True, slots=True)
class PlacedCallee:
    """A function for arguments that are placed so."""

    name: str
    given: tuple[Value, ...]
    loose: tuple[Loose, ...]
    sums: int
    """The number of pending sums that a call of it ends."""
    needs_sizes: bool
    """Whether how an op is executed on parts depends on sizes, so that parameters state those that are known."""


Key = tuple[str, tuple[Value, ...], tuple[Loose, ...], tuple[Wanted | None, ...]]


@dataclass
class MeshPartition:
    """One run over one module. `functions` are those written so far, callees before callers."""

    analysis: Analysis
    axes: Axes
    replicas: tuple[str, ...] = ()
    """The axes along which devices have parts of the inputs, outermost first: a collective may be over several."""
    spread: SequenceSpread | None = None
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    origins: dict[str, str] = field(default_factory=dict[str, str])
    """By function: the one of which it was written."""
    returned: tuple[Value, ...] = ()
    """What the entry function returns."""
    spread_sums: int = 0
    _done: dict[Key, PlacedCallee] = field(default_factory=dict[Key, PlacedCallee])

    def entry(
        self,
        function: Function,
        args: Sequence[Type],
        loose: Sequence[Loose],
        results: Mapping[str, Places],
        gradients: Mapping[str, Wanted],
        early: bool,
    ) -> Module:
        """The program whose entry function takes these arguments.

        `results`: by value that it returns, the placement that is wanted. `gradients`: by value, what its update wants,
        at once if `early`, else where it is first needed whole.
        """
        body = _Body(self, function, tuple(args), tuple(loose), results, gradients, early)
        finish(body.run())
        returned = tuple(map(body.returned, function.returned))
        self.returned = tuple(map(body.value, returned))
        made = self._made(function, body, returned)
        whole = _with_result_names(replace(made, mesh=self.axes), function.returned)
        return without_orphans(self.analysis.module, [*self.functions.values(), whole], self.origins)

    def callee(
        self, name: str, args: tuple[Value, ...], loose: tuple[Loose, ...], wanted: tuple[Wanted | None, ...] = ()
    ) -> Deep[PlacedCallee]:
        """The function for arguments that are placed so, written once.

        `wanted`: how results that are gradients are wanted, which are reduced where they are computed, if any is.
        """
        key = (name, args, loose, wanted)
        known = self._done.get(key)
        if known is None:
            function = self.analysis.module.functions[name]
            whole = tuple(map(erased, args))
            inside = gradients_returned(function, self.analysis, whole, wanted) if wanted else {}
            body = _Body(self, function, args, loose, gradients=inside, early=bool(wanted))
            yield body.run()
            returned = tuple(map(body.kept, function.returned))
            written = self._named(self._made(function, body, returned))
            given = tuple(map(body.value, returned))
            known = self._done[key] = PlacedCallee(
                written, given, tuple(map(body.loose, returned)), body.sums, body.needs_sizes
            )
        return known

    def _made(self, function: Function, body: _Body, returned: tuple[Arg, ...]) -> Function:
        sized = body.needs_sizes
        params = tuple(replace(p, type=placed_as(p.type, body.value(p.name), sized)) for p in function.params)
        stated = function.result_types
        if stated is not None:
            stated = tuple(placed_as(t, body.value(arg), sized) for t, arg in zip(stated, returned, strict=True))
        written = map(body.with_sizes, body.written) if sized else body.written
        return replace(function, params=params, body=(*written, Return(returned)), result_types=stated)

    def _named(self, function: Function) -> str:
        """Add a function under its own name, with a number if that is another's."""
        number, made = 0, function
        while made != self.functions.get(made.name, made) or (number and made.name in self.analysis.module.functions):
            number += 1
            made = replace(function, name=f"{function.name}_{number}")
        self.functions[made.name], self.origins[made.name] = made, function.name
        return made.name


class _Body:
    """The statements of a function in progress, with the values of its names and where they are placed."""

    def __init__(
        self,
        program: MeshPartition,
        function: Function,
        args: tuple[Value, ...],
        loose: tuple[Loose, ...],
        results: Mapping[str, Places] | None = None,
        gradients: Mapping[str, Wanted] | None = None,
        early: bool = False,
    ) -> None:
        self.program, self.function, self.axes = program, function, program.axes
        self.domain = program.analysis.domain
        self.instance = self.domain.instance(function.name, tuple(map(erased, args)))
        self.wanted, self.early = results or {}, early
        self.gradients_in: Mapping[str, Wanted] = gradients or {}
        """By value that is a gradient, or a tuple with gradients: how it is wanted."""
        self.gradients = {name: g for name, g in self.gradients_in.items() if isinstance(g, Gradient)}
        self.names = namer(function)
        self.written: list[Statement] = []
        self.sums = 0
        self.needs_sizes = False
        self._around = NO_FACTS
        """The facts of collectives for the present statement."""
        self._values: dict[str, Value] = {}
        self._loose: dict[str, Loose] = {}
        self._spread: dict[str, SplitAlong | None] = {}
        """By pending sum: how it is spread along its tokens."""
        self._settled: dict[str, str] = {}
        """By pending sum: what it was first brought to."""
        self._exchanged: dict[str, str] = {}
        """By value that is split: what it was first brought to, split along another dimension."""
        self._moved: dict[tuple[str, Places, str], str] = {}
        """By value, placement and, of one that is gathered for its use, phase: the collective's result."""
        for param, value, own in zip(function.params, args, loose, strict=True):
            self._define(param.name, value, own)

    def run(self) -> Deep[None]:
        """Write all statements."""
        for index, statement in enumerate(self.function.body):
            if not isinstance(statement, (Apply, Call)):
                assert isinstance(statement, Return), "the module checks"
                continue
            self._around = replace(self._facts(statement), of="")
            try:
                if isinstance(statement, Apply):
                    self._apply(self._with_sums(statement))
                else:
                    yield from self._call(statement)
            except Reject as reject:
                site = Site(self.function.name, index, reject.part if isinstance(reject.part, Part) else None)
                raise ProgramError([Diagnostic(reject.code, site, reject.message, (), reject.help)]) from None
            except NotExchanged as found:
                raise found.at(Site(self.function.name, index)) from None
            except NoRule:
                raise self._no_rule(index, statement) from None
            for name in results(statement):
                try:
                    self._placed_as_wanted(name)
                except NoWay:
                    message = (
                        f"`%{name}` is `{self.value(name)}`, and is to be split in blocks of a number that is not known"
                    )
                    found = Diagnostic(codes.BAD_SPLIT, Site(self.function.name, index), message)
                    raise ProgramError([found]) from None

    def value(self, arg: Arg) -> Value:
        """A value of the whole program, with where its parts are."""
        if isinstance(arg, str):
            return self._values[arg] if arg else None
        return arg if isinstance(arg, Literal) else tuple(map(self.value, arg))

    def loose(self, arg: Arg) -> Loose:
        """The axes along which a value is split only to be stored so."""
        return self._loose.get(arg, FIXED) if isinstance(arg, str) else FIXED

    def with_sizes(self, statement: Statement) -> Statement:
        """A statement whose claims state the sizes that are known."""
        if not isinstance(statement, (Apply, Call)) or not statement.claims:
            return statement
        values = [None if name == DISCARD else self.value(name) for name in statement.results]
        pairs = zip(statement.claims, values, strict=False)
        return replace(statement, claims=tuple(None if c is None else placed_as(c, v, True) for c, v in pairs))

    def settled(self, arg: Arg) -> Arg:
        """An argument, with pending sums ended if a statement needed that."""
        while isinstance(arg, str) and arg in self._settled:
            arg = self._settled[arg]
        return arg

    def kept(self, arg: Arg) -> Arg:
        """An argument as a function returns it: split as its first user needed it, as will a backward pass."""
        arg = self.settled(arg)
        return self._exchanged.get(arg, arg) if isinstance(arg, str) else arg

    def returned(self, arg: Arg) -> Arg:
        """A result of the program: nothing is pending, and blocks are in a finite list."""
        made = maker(self.function, arg) if isinstance(arg, str) else None
        self._around = Facts(facts_of(made).phase) if isinstance(made, (Apply, Call)) else NO_FACTS
        return self._finite(self.settled(arg))

    def _finite(self, arg: Arg) -> Arg:
        if isinstance(type_of(self.value(arg)), TupleType):
            ends = (p for tensor in tensors(type_of(self.value(arg))) for p in tensor.places)
            return arg if all(map(_may_be_returned, ends)) else self._by_items(arg, lambda item, _: self._finite(item))
        return self._brought(arg, tuple(filter(_may_be_returned, self._places(arg))))

    # ---- statements

    def _apply(self, statement: Apply) -> None:
        vs = tuple(map(self.value, statement.args))
        ws = self.domain.answer(statement, tuple(map(erased, vs)))
        if statement.op in TUPLING or all(map(is_host, ws)):
            own = frozenset[str]().union(*map(self.loose, statement.args))
            self._write(statement, ws, [own] * len(ws))
            return
        whole_along: set[str] = set()
        """The axes along which operands that are split are gathered, whatever the op's rule says."""
        while True:
            each = [self._typing(statement, vs, ws, axis, axis in whole_along) for axis, _ in self.axes]
            self.needs_sizes |= any(map(_depends_on_sizes, each))
            apart = {typing.letter: axis for (axis, _), typing in zip(self.axes, each, strict=True) if typing.parted}
            if len(apart) > 1:  # of parts of two dimensions no device can compute its part
                whole_along |= {*[*apart.values()][:-1]}
                continue
            summed = self._summed_as_wanted(statement, each)
            if summed != statement:
                self._apply(summed)
                return
            needed = [tuple(typing.needed[i] for typing in each) for i in range(len(vs))]
            order = self._order(vs, needed)
            try:
                args = [self._as_needed(*one, order) for one in zip(statement.args, needed, strict=True)]
                break
            except NoWay:
                whole_along |= {a for one in needed for (a, _), s in zip(self.axes, one, strict=True) if _has_blocks(s)}
        loose = [
            frozenset(axis for (axis, _), typing in zip(self.axes, each, strict=True) if _is_loose(typing.given[j]))
            for j in range(len(ws))
        ]
        self._write_exchanged(replace(statement, args=tuple(args)), ws, loose, each)

    def _write_exchanged(
        self, statement: Apply, ws: tuple[Value, ...], loose: Sequence[Loose], each: Sequence[Typing]
    ) -> None:
        """Append an op whose operands are placed as it needs them, and bring results back that it gives otherwise."""
        names, attrs, back = [*statement.results], statement.attrs, list[tuple[str, str, list[State]]]()
        for typing in each:
            attrs = typing.unmarked(attrs) if isinstance(typing, Exchanged) else attrs
        for j, name in enumerate(statement.results):
            wanted = [t.returned[j] if isinstance(t, Exchanged) else t.given[j] for t in each]
            if name != DISCARD and wanted != [t.given[j] for t in each]:
                names[j] = self.names.fresh(f"{name}_own")
                back.append((names[j], name, wanted))
        claims = () if back else statement.claims
        self._write(replace(statement, results=tuple(names), attrs=attrs, claims=claims), ws, loose)
        for made, name, wanted in back:
            self._as_needed(made, wanted, [axis for axis, _ in self.axes], name)

    def _call(self, statement: Call) -> Deep[None]:
        function = self.domain.module.functions[statement.function]
        pairs = zip(statement.args, function.params, strict=True)
        args = tuple(arg if _hands_on(function, p.name) else self._used(arg) for arg, p in pairs)
        args = yield from self._given_to(replace(statement, args=args))
        vs = tuple(map(self.value, args))
        wanted = wanted_of_call(statement, self.gradients_in)
        callee = yield self.program.callee(statement.function, vs, tuple(map(self.loose, args)), wanted)
        self.sums += callee.sums
        self.needs_sizes |= callee.needs_sizes
        claims = _claims(statement, callee.given)
        self.written.append(replace(statement, function=callee.name, args=args, claims=claims))
        for name, w, loose in zip(statement.results, callee.given, callee.loose, strict=True):
            self._define(name, w, loose)

    def _used(self, arg: Arg) -> Arg:
        """An argument, gathered where it is split only to be stored so: once for a function, before it is called."""
        return self._brought(arg, tuple(p for p in self._places(arg) if p.axis not in self._stored(arg)))

    def _stored(self, arg: Arg) -> Loose:
        """The axes along which a value is split only to be stored so, and gathered for its use: not its tokens."""
        spread = self.program.spread
        return self.loose(arg) if spread is None else self.loose(arg) - {spread.axis}

    def _write(self, statement: Apply, ws: tuple[Value, ...], loose: Sequence[Loose]) -> None:
        """Append an op whose operands are placed as it needs them."""
        vs = tuple(map(self.value, statement.args))
        made = placed(Meshes(self.axes), statement, vs, lambda _: ws)
        self.written.append(replace(statement, claims=_claims(statement, made)))
        for name, w, own in zip(statement.results, made, loose, strict=True):
            self._define(name, w, own)

    def _define(self, name: str, value: Value, loose: Loose) -> None:
        if name != DISCARD:
            self._values[name] = value
            if loose:
                self._loose[name] = loose

    def _facts(self, statement: Apply | Call) -> Facts:
        if isinstance(statement, Apply):
            return statement.facts
        return self.domain.module.functions[statement.function].facts.within(statement.facts)

    # ---- how operands must be placed

    def _typing(
        self, statement: Apply, vs: tuple[Value, ...], ws: tuple[Value, ...], axis: str, gathered: bool
    ) -> Typing:
        """How a statement is executed along one axis; `gathered`: on no parts."""
        op, size = OPS[statement.op], self._devices({axis})
        whole, made = tuple(map(erased, vs)), [type_of(w) for w in ws]
        states = [self._state(arg, axis) for arg in statement.args]
        if any(isinstance(type_of(v), TupleType) for v in vs):
            size = dividing(vs, axis, dict(self.axes)) or 1  # sizes are numbers
            return self._of_items(op.name, statement, whole, states, ws, size)
        if gathered:
            states = [WHOLE if isinstance(s, Split) else s for s in states]

        def decided(states: Sequence[State], parts: int = size) -> Typing:
            """How it is executed on operands placed so, if a dimension is cut into so many parts, or into more."""
            found = decide(op, statement.attrs, whole, states, made, parts)
            needed = self._parts(vs, found.needed, axis)
            return found if parts % needed == 0 else decided(states, math.lcm(parts, needed))

        return self._with_spread_sums(statement, axis, states, lambda states: decided(states))

    def _devices(self, axes: Collection[str]) -> int:
        """The number of devices along axes."""
        return math.prod(size for axis, size in self.axes if axis in axes and isinstance(size, int))

    def _parts(self, vs: Sequence[Value], needed: Sequence[State], axis: str) -> int:
        """Into how many parts a dimension that is to be split along an axis is cut, along that and other axes."""
        most = 1
        for v, need in zip(vs, needed, strict=True):
            if isinstance(v, TensorType) and isinstance(need, Split):
                others = () if need.blocks else cuts_of(v.places, need.axis)
                cuts = {axis, *(cut.axis for cut in others if not cut.blocks)}
                most = max(most, self._devices(cuts))
        return most

    def _of_items(
        self,
        op: str,
        statement: Apply,
        vs: tuple[Value, ...],
        states: Sequence[State],
        ws: tuple[Value, ...],
        size: int,
    ) -> Typing:
        """How an op over tuples is executed along one axis: item by item."""
        tuples = [isinstance(type_of(v), TupleType) for v in vs]
        count = next(len(t.items) for v in vs if isinstance(t := type_of(v), TupleType))
        each: list[Typing] = []
        for k in range(count):
            own, made = [item_of(v, k) for v in vs], tuple(item_of(w, k) for w in ws)
            found = [_of_item(s, k) for s in states]
            if any(isinstance(type_of(v), TupleType) for v in own):
                each.append(self._of_items(op, statement, tuple(own), found, made, size))
            else:
                each.append(decide(OPS[op], statement.attrs, own, found, [*map(type_of, made)], size))
        needed = (tuple(t.needed[i] for t in each) if is_tuple else WHOLE for i, is_tuple in enumerate(tuples))
        return Typing(tuple(needed), tuple(tuple(t.given[j] for t in each) for j in range(len(ws))))

    def _state(self, arg: Arg, axis: str) -> State:
        found = state(self.value(arg), axis)
        return _loosened(found) if axis in self.loose(arg) else found

    def _order(self, vs: Sequence[Value], needed: Sequence[Sequence[State]]) -> list[str]:
        """The axes, in the order in which they are to cut dimensions of operands: that of operands which have it."""
        first: set[tuple[str, str]] = set()
        for v, states in zip(vs, needed, strict=True):
            for tensor in tensors(type_of(v)):
                for dim in range(len(tensor.shape or ())):
                    own = [cut.axis for cut in cuts_of(tensor.places, dim)]
                    then = [axis for (axis, _), s in zip(self.axes, states, strict=True) if _is_along(s, dim)]
                    own += [axis for axis in then if axis not in own]
                    pairs = ((a, b) for n, a in enumerate(own) for b in own[n + 1 :])
                    first |= {(a, b) for a, b in pairs if (b, a) not in first}
        left, found = [axis for axis, _ in self.axes], list[str]()
        while left:
            axis = next((a for a in left if not any((b, a) in first for b in left)), left[0])
            left.remove(axis)
            found.append(axis)
        return found

    def _as_needed(self, arg: Arg, needed: Sequence[State], order: Sequence[str], name: str = "") -> Arg:
        """An operand as a statement needs it along each axis, under a name if one is given. Raises NoWay."""
        if any(isinstance(s, tuple) for s in needed):
            return self._items_as_needed(arg, needed, order)
        if not isinstance(type_of(self.value(arg)), TensorType) or is_host(self.value(arg)):
            return arg
        states = dict(zip((axis for axis, _ in self.axes), needed, strict=True))
        found = (place_of(states[axis], axis) for axis in order)
        return self._brought(arg, places(place for place in found if place is not None), name)

    def _items_as_needed(self, arg: Arg, needed: Sequence[State], order: Sequence[str]) -> Arg:
        """A tuple whose items are brought to where they are needed, each by itself."""
        if all(state(self.value(arg), axis) == s for (axis, _), s in zip(self.axes, needed, strict=True)):
            return arg
        return self._by_items(arg, lambda item, k: self._as_needed(item, [_of_item(s, k) for s in needed], order))

    def _by_items(self, arg: Arg, placed: Callable[[str, int], Arg]) -> str:
        """A tuple whose items are placed otherwise, each by itself."""
        assert isinstance(arg, str)
        found = type_of(self.value(arg))
        assert isinstance(found, TupleType)
        items = tuple(self.names.fresh(f"{arg}_{k}") for k in range(len(found.items)))
        unpacked = Apply(items, "UnpackTuple", (arg,), facts=self._around)
        self._write(unpacked, found.items, [self.loose(arg)] * len(items))
        args = tuple(placed(item, k) for k, item in enumerate(items))
        made = self.names.fresh(f"{arg}_placed")
        self._write(Apply((made,), "MakeTuple", args, facts=self._around), (erased(found),), [FIXED])
        return made

    # ---- collectives

    def _places(self, arg: Arg) -> Places:
        found = type_of(self.value(arg))
        return found.places if isinstance(found, TensorType) else ()

    def _brought(self, arg: Arg, wanted: Places, name: str = "") -> Arg:
        """A value in another placement, under a name if one is given. Raises NoWay."""
        for move in moves(self._places(arg), wanted, self.program.replicas):
            assert isinstance(arg, str), "literals are host values"
            arg = self._collective(arg, move, name if move.given == wanted else "")
        return arg

    def _collective(self, arg: str, move: AxisMove, name: str = "") -> str:
        """The result of a collective; of a weight that is gathered for its use, again in each phase."""
        of = self._stored(arg).intersection(move.axes)
        key = (arg, move.given, self._around.phase if of else "")
        if key not in self._moved:
            if move.cut is not None and move.cut.blocks and cuts_of(self._places(arg), move.cut.dim):
                self._moved[key] = self._in_blocks_of_parts(arg, move.cut)
                return self._moved[key]
            made = self._moved[key] = name or self.names.fresh(f"{arg}_{move.ending}")
            self.written.append(Apply((made,), move.op, (arg,), move.attrs, facts=self._around))
            before = type_of(self.value(arg))
            assert isinstance(before, TensorType)
            loose = self.loose(arg) - of
            if move.cut is not None and move.cut == self._tokens(arg):
                loose |= {move.cut.axis}
                self.program.spread_sums += 1
            self._define(made, replace(before, places=move.given), loose)
            if move.op == "AllToAll":
                self._exchanged.setdefault(arg, made)
            if move.reduces:
                self.sums += 1
                self._settled.setdefault(arg, made)
        return self._moved[key]

    def _in_blocks_of_parts(self, arg: str, cut: SplitAlong) -> str:
        """A value in parts of whole blocks of one size, with each block split: blocks are a dimension meanwhile."""
        found = type_of(self.value(arg))
        assert isinstance(found, TensorType)
        before, behind = (0,) * cut.dim, (found.shape or ())[cut.dim + 1 :]
        block = cut.blocks[0].size if isinstance(cut.blocks[0], Repeated) else cut.blocks[0]
        sizes = [dim for dim in (block, *behind) if isinstance(dim, int)]
        if len(sizes) < 1 + len(behind):
            raise NoWay
        apart, made = (self.names.fresh(f"{arg}_{ending}") for ending in ("blocks", "part"))
        self._apply(Apply((apart,), "Reshape", (arg, Literal((*before, -1, *sizes))), facts=self._around))
        inner = SplitAlong(cut.dim + 1, cut.axis)
        part = self._brought(apart, places((*self._places(apart), inner)))
        self._apply(Apply((made,), "Reshape", (part, Literal((*before, -1, *sizes[1:]))), facts=self._around))
        return made

    # ---- pending sums

    def _pending(self, arg: Arg) -> Places:
        """The sums that are pending in a value."""
        return tuple(p for p in self._places(arg) if p == PendingAlong(p.axis))

    def _left(self, arg: Arg, kept: Sequence[str] = ()) -> Places:
        """The placement of a value without pending sums but along axes that are `kept`: whole, or spread."""
        now, pending = self._places(arg), self._pending(arg)
        left = tuple(p for p in now if p.axis in kept or p not in pending)
        spread = self._tokens(arg)
        return left if spread is None or spread.axis in kept else places((*left, spread))

    def _tokens(self, arg: Arg) -> SplitAlong | None:
        """How a pending sum is spread along its tokens, if it is."""
        spread = self.program.spread
        if spread is None or not isinstance(arg, str) or PendingAlong(spread.axis) not in self._pending(arg):
            return None
        if arg not in self._spread:
            now = self._places(arg)

            def parts(dim: int) -> int:
                return self._devices({spread.axis, *(cut.axis for cut in cuts_of(now, dim))})

            users = [self.function.body[i] for i in self._uses.get(arg, ())]
            batch = spread.batch.get(self.function.name, {})
            dim = tokens_of(arg, self.value(arg), batch, users, self.instance, self.domain, parts)
            self._spread[arg] = None if dim is None else SplitAlong(dim, spread.axis)
        return self._spread[arg]

    def _with_spread_sums(
        self, statement: Apply, axis: str, states: Sequence[State], decided: Callable[[Sequence[State]], Typing]
    ) -> Typing:
        """How a statement is executed along one axis: on sums that are spread along tokens, if it can use parts."""
        typing = decided(states)
        spread = [*states]
        for i, (arg, now, need) in enumerate(zip(statement.args, states, typing.needed, strict=True)):
            tokens = self._tokens(arg) if now is PARTIAL and need is WHOLE else None
            if tokens is not None and tokens.axis == axis:
                spread[i] = Split(tokens.dim, (), loose=True)
        if spread == [*states]:
            return typing
        found = decided(spread)
        rows = zip(found.needed, spread, states, strict=True)
        return found if all(need == s for need, s, before in rows if s != before) else typing

    def _ended(self, arg: Arg, kept: Sequence[str] = ()) -> Arg:
        """A value without pending sums but along axes that are `kept`; a gradient is split as its update wants it."""
        now = self._places(arg)
        gradient = self.gradients.get(arg) if isinstance(arg, str) else None
        left = self._left(arg, kept)
        if left == now or gradient is None:
            return self._brought(arg, left)
        around, self._around = self._around, replace(self._around, of=gradient.of)
        split = places((*left, *(p for p in gradient.wanted if along(left, p.axis) is None)))
        try:
            made = self._brought(arg, split if self._divides(arg, split) else left)
        except NoWay:
            made = self._brought(arg, left)
        self._around = around
        assert isinstance(arg, str)
        assert isinstance(made, str)
        self._settled[arg] = made
        return made

    def _divides(self, arg: Arg, wanted: Places) -> bool:
        """Whether the dimensions of a value are multiples of the parts of a placement, as far as sizes are known."""
        found = type_of(self.value(arg))
        return (
            complaint(replace(found, places=wanted), Meshes(self.axes)) is None
            if isinstance(found, TensorType)
            else True
        )

    def _placed_as_wanted(self, name: str) -> None:
        """Bring what a statement gave to where the program returns it, or its update wants it, if that is at once."""
        gradient = self.gradients.get(name)
        if self.early and isinstance(gradient, Gradient) and gradient.last:
            self._ended(name)
        wanted = self.wanted.get(name)
        if wanted is not None and (made := self._brought(self.settled(name), wanted)) != name:
            assert isinstance(made, str)
            self._settled[name] = made

    def _summed_as_wanted(self, statement: Apply, each: Sequence[Typing]) -> Apply:
        """The statement with gradients among its operands summed as their updates want them, where it needs sums."""
        args = list(statement.args)
        for i, arg in enumerate(statement.args):
            if arg in self.gradients:
                kept = [axis for (axis, _), t in zip(self.axes, each, strict=True) if t.needed[i] is PARTIAL]
                args[i] = self._ended(arg, kept)
        return replace(statement, args=tuple(args))

    def _with_sums(self, statement: Apply) -> Apply:
        """The statement with operands that are ended already, or before it because that communicates less."""
        for arg in statement.args:
            if isinstance(arg, str) and arg not in self._settled and self._pending(arg) and self._is_worth_a_sum(arg):
                self._ended(arg)
        args = tuple(map(self.settled, statement.args))
        statement = statement if args == statement.args else replace(statement, args=args)
        if statement.op == "Sum":
            for axis, _ in self.axes:
                statement = self._terms_first(statement, axis)
        return statement

    def _terms_first(self, statement: Apply, axis: str) -> Apply:
        """Add operands that are pending along an axis first, to end one sum instead of several."""
        own = [arg for arg in statement.args if PendingAlong(axis) in self._pending(arg)]
        if not 1 < len(own) < len(statement.args):
            return statement
        name = self.names.fresh(f"{statement.results[0]}_terms")
        self._apply(Apply((name,), "Sum", tuple(own), facts=statement.facts))
        return replace(statement, args=(name, *(arg for arg in statement.args if arg not in own)))

    def _is_worth_a_sum(self, name: str) -> bool:
        """Whether several statements use a value whose results, each summed by itself, are larger together."""
        users = [self.function.body[i] for i in self._uses.get(name, ())]
        made = [tuple(n for n in results(user) if n != DISCARD) or (name,) for user in users]
        sizes = (sum(_elements(type_of(v)) for v in self.instance.state(names)) for names in made)
        return len(users) > 1 and _elements(type_of(self.value(name))) <= sum(sizes)

    @cached_property
    def _uses(self) -> Mapping[str, Sequence[int]]:
        return uses(self.function)

    def _given_to(self, statement: Call) -> Deep[tuple[Arg, ...]]:
        """The arguments of a call: sums stay pending if the function only passes them on, or adds to them."""
        args = list(map(self.settled, statement.args))
        pending = [i for i, arg in enumerate(args) if self._pending(arg)]
        if not pending:
            return tuple(args)

        wanted = wanted_of_call(statement, self.gradients_in)

        def sums(kept: Sequence[int]) -> Deep[int]:
            vs, loose = [*map(self.value, args)], [*map(self.loose, args)]
            for i in set(pending).difference(kept):
                tokens, found = self._tokens(args[i]), vs[i]
                assert isinstance(found, TensorType)
                vs[i] = replace(found, places=self._left(args[i]))
                loose[i] |= {tokens.axis} if tokens is not None else FIXED
            return (yield self.program.callee(statement.function, tuple(vs), tuple(loose), wanted)).sums

        least, kept = (yield sums(())), pending
        if (yield sums(pending)) > least:
            kept = list[int]()
            for i in pending:
                if (yield sums((i,))) <= least:
                    kept.append(i)
        return tuple(arg if i in kept else self._ended(arg) for i, arg in enumerate(args))

    def _no_rule(self, index: int, statement: Apply | Call) -> ProgramError:
        """The error of an op that has no rule by which it could be split."""
        assert isinstance(statement, Apply)
        split = next(a for a in statement.args if any(isinstance(p, SplitAlong) for p in self._places(a)))
        message = f"nothing says how `{statement.op}` can be split, and `%{split}` is: `{self.value(split)}`"
        hint = f"state a rule where the op is defined (`@{statement.op}.sharding`)"
        return ProgramError([Diagnostic(codes.NO_SHARDING_RULE, Site(self.function.name, index), message, (), hint)])


def _hands_on(function: Function, name: str) -> bool:
    """Whether a function gives a parameter to others only, as one of several layers does."""
    return all(isinstance(function.body[i], Call) for i in uses(function).get(name, ()))


def _with_result_names(function: Function, names: Sequence[Arg]) -> Function:
    """The function with what it returns under the names that this had before collectives."""
    defined = {name for statement in function.body for name in results(statement)}
    pairs = [(old, new) for old, new in zip(names, function.returned, strict=True) if old != new and old in defined]
    free = namer(function)
    renamed: dict[str, str] = {}
    for old, new in pairs:
        if isinstance(old, str) and isinstance(new, str) and old not in function.returned and new not in renamed:
            renamed |= {new: old, old: free.fresh(f"{old}_own")}
    return mapped(function, lambda s: with_names(s, renamed)) if renamed else function


def _claims(statement: Apply | Call, ws: Sequence[Value]) -> tuple[Type | None, ...]:
    pairs = zip(statement.claims, ws, strict=False)
    return tuple(None if claim is None else placed_as(claim, w) for claim, w in pairs)


def placed_as(claim: Type, v: Value, sized: bool = False) -> Type:
    """What is stated of a value, with where its parts are; if `sized`, with the sizes that are known."""
    found = type_of(v)
    if isinstance(claim, TensorType) and isinstance(found, TensorType):
        known = claim.shape if claim.shape is not None or not found.places else found.shape
        if sized and known is not None and found.shape is not None:
            known = tuple(b if isinstance(b, int) else a for a, b in zip(known, found.shape, strict=True))
        return replace(claim, shape=known, places=found.places)
    if isinstance(claim, TupleType) and isinstance(found, TupleType):
        return TupleType(tuple(placed_as(c, t, sized) for c, t in zip(claim.items, found.items, strict=True)))
    return claim


def _depends_on_sizes(typing: Typing) -> bool:
    """Whether a dimension is split in parts that the op takes of certain sizes only."""
    return typing.parted or typing.located or (typing.layout is not None and typing.letter in typing.layout.grains)


def _may_be_returned(place: SplitAlong | PendingAlong) -> bool:
    """Whether nothing is pending, and blocks are in a finite list."""
    return isinstance(place, SplitAlong) and not any(isinstance(block, Repeated) for block in place.blocks)


def _of_item(found: State, k: int) -> State:
    return found[k] if isinstance(found, tuple) else found


def _loosened(found: State) -> State:
    if isinstance(found, tuple):
        return tuple(map(_loosened, found))
    return replace(found, loose=True) if isinstance(found, Split) else found


def _any(found: State, holds: Callable[[Split], bool]) -> bool:
    if isinstance(found, tuple):
        return any(_any(item, holds) for item in found)
    return isinstance(found, Split) and holds(found)


def _is_loose(found: State) -> bool:
    return _any(found, lambda split: split.loose)


def _has_blocks(found: State) -> bool:
    return _any(found, lambda split: bool(split.blocks))


def _is_along(found: State, dim: int) -> bool:
    return _any(found, lambda split: split.axis == dim)


def _elements(type: Type) -> int:
    """The number of elements, with 1 for unknown dimensions."""
    if isinstance(type, TupleType):
        return sum(map(_elements, type.items))
    shape = type.shape or () if isinstance(type, TensorType) else (0,)
    return math.prod(dim if isinstance(dim, int) else 1 for dim in shape)
