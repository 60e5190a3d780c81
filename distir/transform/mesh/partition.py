"""Writes the functions of a sequential program on a mesh, all axes at once, from where its parameters are placed.

Each function is written once for the placements of its arguments, statement by statement, forward. An op stays as it
is: along each axis its rule says how its operands must be placed (`sharding.decide`), and collectives bring them there.
So without placements and collectives the program is the sequential one.

A value keeps its placement until a statement needs another one. A pending sum is ended where it is first needed whole,
once for all its users; one that an update takes, as the update's weight and state are placed (`wanted`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.analysis import Analysis
from distir.analysis.placement_states import erased, state, tensors
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
    Module,
    OwnedAlong,
    Part,
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
from distir.ir.places import Place, Repeated, places
from distir.ir.rewrite import facts_of, mapped, with_names
from distir.ops import Reject, Value, type_of
from distir.ops.tuples import TUPLING
from distir.placement.along import State, any_split, holds_partial, is_host
from distir.transform.mesh.collectives import Collectives
from distir.transform.mesh.in_parts import needed_in_parts
from distir.transform.mesh.moves import NoWay
from distir.transform.mesh.sends import sent_in_parts
from distir.transform.mesh.spread import SequenceSpread, SpreadSums
from distir.transform.mesh.sums import PendingSums
from distir.transform.mesh.typed import Execution, Executions
from distir.transform.mesh.values import (
    FIXED,
    Loose,
    PlacedValues,
    claims_of,
    loose_axes,
    loose_items,
    loose_tuple,
    placed_as,
)
from distir.transform.mesh.wanted import Gradient, Wanted, gradients_returned, wanted_of_call
from distir.transform.orphans import without_orphans
from distir.transform.sharding.decide import Exchanged, NoRule, NotExchanged
from distir.transform.sharding.needed_whole import NeededWhole


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


Key = tuple[str, tuple[Value, ...], tuple[Loose, ...], tuple[Wanted | None, ...], str]


@dataclass
class MeshPartition:
    """One run over one module. `functions` are those written so far, callees before callers."""

    analysis: Analysis
    axes: Axes
    replicas: tuple[str, ...] = ()
    """The axes along which devices have parts of the inputs, outermost first: a collective may be over several."""
    shards: tuple[str, ...] = ()
    """Those along which they have parts of the same weights: one may be over several of these, too."""
    spread: SequenceSpread | None = None
    wide: bool = False
    """Whether gradients of fewer bits are summed in Float32."""
    whole: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """By axis: the ops that every device along it computes by itself, of whole operands."""
    cut_sends: bool = False
    """Whether shards send in parts what all of them have whole."""
    owners: tuple[str, ...] = ()
    """The axes along which devices have whole experts, each some of them."""
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    origins: dict[str, str] = field(default_factory=dict[str, str])
    """By function: the one of which it was written."""
    returned: tuple[Value, ...] = ()
    """What the entry function returns."""
    spread_sums: int = 0
    made: dict[object, tuple[Value, ...]] = field(default_factory=dict[object, tuple[Value, ...]])
    """By op and operands that are placed so: its results."""
    _done: dict[Key, PlacedCallee] = field(default_factory=dict[Key, PlacedCallee])

    def __post_init__(self) -> None:
        self.executions = Executions((self.replicas, self.shards))

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
        body = _Body(self, function, tuple(args), tuple(loose), "", gradients, early, results)
        finish(body.run())
        returned = tuple(map(body.returned, function.returned))
        self.returned = tuple(map(body.values.value, returned))
        made = self._made(function, body, returned)
        whole = _with_result_names(replace(made, mesh=self.axes), function.returned)
        return without_orphans(self.analysis.module, [*self.functions.values(), whole], self.origins)

    def callee(
        self, call: Call, args: tuple[Value, ...], loose: tuple[Loose, ...], wanted: tuple[Wanted | None, ...] = ()
    ) -> Deep[PlacedCallee]:
        """The function that is called for arguments that are placed so, written once.

        `wanted`: how results that are gradients are wanted, which are reduced where they are computed, if any is.
        """
        name, of_tokens = call.function, FIXED if self.spread is None else frozenset(self.spread.axes)
        phase = call.facts.phase if any(loose_axes(own) - of_tokens for own in loose) else ""
        key = (name, args, loose, wanted, phase)
        known = self._done.get(key)
        if known is None:
            function = self.analysis.module.functions[name]
            whole = tuple(map(erased, args))
            inside = gradients_returned(function, self.analysis, whole, wanted) if wanted else {}
            body = _Body(self, function, args, loose, phase, inside, early=bool(wanted))
            yield body.run()
            returned = tuple(map(body.kept, function.returned))
            written = self._named(self._made(function, body, returned))
            given = tuple(map(body.values.value, returned))
            known = self._done[key] = PlacedCallee(
                written, given, tuple(map(body.values.loose, returned)), body.collectives.sums, body.needs_sizes
            )
        return known

    def _made(self, function: Function, body: _Body, returned: tuple[Arg, ...]) -> Function:
        self.spread_sums += body.collectives.spread_sums
        sized = body.needs_sizes
        params = tuple(replace(p, type=placed_as(p.type, body.values.value(p.name), sized)) for p in function.params)
        stated = function.result_types
        if stated is not None:
            stated = tuple(placed_as(t, body.values.value(arg), sized) for t, arg in zip(stated, returned, strict=True))
        written = map(body.with_sizes, body.values.written) if sized else body.values.written
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
        phase: str,
        gradients: Mapping[str, Wanted],
        early: bool,
        results: Mapping[str, Places] | None = None,
    ) -> None:
        self.program, self.function, self.axes = program, function, program.axes
        self.domain = program.analysis.domain
        self.instance = self.domain.instance(function.name, tuple(map(erased, args)))
        self.is_entry, self.wanted, self.early = results is not None, results or {}, early
        self.gradients_in = gradients
        """By value that is a gradient, or a tuple with gradients: how it is wanted."""
        self.gradients = {name: g for name, g in self.gradients_in.items() if isinstance(g, Gradient)}
        self.values = PlacedValues(function, self.instance, self.axes, program.made, phase, program.owners)
        self.spread = SpreadSums(self.values, self.domain, program.spread)
        self.collectives = Collectives(self.values, self.spread, (program.replicas, program.shards), self._apply)
        self.sums = PendingSums(self.collectives, self.gradients, self._apply, program.wide)
        self.whole = {axis: NeededWhole(ops, self._users) for axis, ops in program.whole.items()}
        self.needs_sizes = False
        for param, value, own in zip(function.params, args, loose, strict=True):
            self.values.define(param.name, value, own)

    def run(self) -> Deep[None]:
        """Write all statements."""
        for index, statement in enumerate(self.function.body):
            if not isinstance(statement, (Apply, Call)):
                assert isinstance(statement, Return), "the module checks"
                continue
            self.values.around = _of_none(self._facts(statement))
            try:
                if isinstance(statement, Apply):
                    self._apply(self.sums.before(statement))
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
                    found = self.values.value(name)
                    message = f"`%{name}` is `{found}`, and is to be split in blocks of a number that is not known"
                    site = Site(self.function.name, index)
                    raise ProgramError([Diagnostic(codes.BAD_SPLIT, site, message)]) from None
        self.needs_sizes |= self.collectives.lists_blocks

    def with_sizes(self, statement: Statement) -> Statement:
        """A statement whose claims state the sizes that are known."""
        if not isinstance(statement, (Apply, Call)) or not statement.claims:
            return statement
        values = [None if name == DISCARD else self.values.value(name) for name in statement.results]
        pairs = zip(statement.claims, values, strict=False)
        return replace(statement, claims=tuple(None if c is None else placed_as(c, v, True) for c, v in pairs))

    def _users(self, name: str) -> list[Statement]:
        return [self.function.body[i] for i in uses(self.function).get(name, ())]

    def kept(self, arg: Arg) -> Arg:
        """An argument as a function returns it: split as its first user needed it, as will a backward pass."""
        arg = self.values.settled(arg)
        while isinstance(arg, str) and arg in self.collectives.split_as:
            arg = self.collectives.split_as[arg]
        return arg

    def returned(self, arg: Arg) -> Arg:
        """A result of the program: nothing is pending, and blocks are in a finite list."""
        made = maker(self.function, arg) if isinstance(arg, str) else None
        self.values.around = Facts(facts_of(made).phase) if isinstance(made, (Apply, Call)) else NO_FACTS
        return self._finite(self.values.settled(arg))

    def _finite(self, arg: Arg) -> Arg:
        if isinstance(type_of(self.values.value(arg)), TupleType):
            ends = (p for tensor in tensors(type_of(self.values.value(arg))) for p in tensor.places)
            if all(map(_may_be_returned, ends)):
                return arg
            return self.values.by_items(arg, lambda item, _: self._finite(item))
        return self.collectives.brought(arg, tuple(filter(_may_be_returned, self.values.places(arg))))

    def _apply(self, statement: Apply) -> None:
        vs = tuple(map(self.values.value, statement.args))
        ws = self.domain.answer(statement, tuple(map(erased, vs)))
        if statement.op in TUPLING or all(map(is_host, ws)):
            own = [*map(self.values.loose, statement.args)]
            match statement.op:
                case "MakeTuple":
                    loose = [loose_tuple(own)]
                case "UnpackTuple":
                    loose = loose_items(own[0], len(ws))
                case _:
                    loose = [FIXED.union(*map(loose_axes, own))] * len(ws)
            self.values.write(statement, ws, loose)
            return
        is_cut = self.program.cut_sends and statement.op == "Send" and statement.results[0] != DISCARD
        if is_cut and sent_in_parts(statement, self.program.shards, self.collectives, self._apply):
            return
        whole = self._needed_whole(statement, vs)
        whole_along = frozenset(whole)
        """The axes along which operands that are split are gathered, whatever the op's rule says."""
        while True:
            how = self.program.executions.of(statement, vs, ws, self.spread, whole_along)
            self.needs_sizes |= how.needs_sizes
            summed = self.sums.as_wanted(statement, how.each)
            if summed is not statement:
                self._apply(summed)
                return
            args = [*statement.args]
            try:
                for i in how.moved:
                    args[i] = self.collectives.as_needed(args[i], how.needed[i], how.order)
                break
            except NoWay:
                pairs = (pair for one in how.needed for pair in zip(self.axes, one, strict=True))
                whole_along = how.whole_along | {axis for (axis, _), s in pairs if _has_blocks(s)}
        statement = replace(statement, args=tuple(args)) if how.moved else statement
        if any(isinstance(typing, Exchanged) for typing in how.each):
            self._write_exchanged(statement, ws, how)
        else:
            self.values.write(statement, ws, how.loose)
        if (needed := needed_in_parts(statement, ws, how.each, self.spread)) is not None:
            (name,) = statement.results
            part = self.collectives.as_needed(name, needed, [axis for axis, _ in self.axes])
            self.collectives.split_as.setdefault(name, str(part))
        for axis in whole:
            self._split_again(statement, axis)

    def _needed_whole(self, statement: Apply, vs: tuple[Value, ...]) -> list[str]:
        """The axes along which every device computes a statement by itself, of operands that are gathered for it."""
        found = list[str]()
        for axis, ops in self.whole.items():
            states = tuple(state(v, axis) for v in vs)
            if ops.includes(statement) and not any(map(holds_partial, states)):
                ops.gather(statement, vs, states)
                found.append(axis)
        return found

    def _split_again(self, statement: Apply, axis: str) -> None:
        """Split the result of such a statement as its operands were."""
        dim = self.whole[axis].axis_again(statement)
        made = None if dim is None else type_of(self.values.value(statement.results[0]))
        if dim is not None and isinstance(made, TensorType) and -dim <= len(made.shape or ()):
            name, cut = statement.results[0], SplitAlong(len(made.shape or ()) + dim, axis)
            self.values.settled_as[name] = str(self.collectives.brought(name, places((*made.places, cut))))

    def _write_exchanged(self, statement: Apply, ws: tuple[Value, ...], how: Execution) -> None:
        """Append an op whose operands are placed as it needs them, and bring results back that it gives otherwise."""
        names, attrs, back = [*statement.results], statement.attrs, list[tuple[str, str, list[State]]]()
        for typing in how.each:
            attrs = typing.unmarked(attrs) if isinstance(typing, Exchanged) else attrs
        for j, name in enumerate(statement.results):
            wanted = [t.returned[j] if isinstance(t, Exchanged) else t.given[j] for t in how.each]
            if name != DISCARD and wanted != [t.given[j] for t in how.each]:
                names[j] = self.values.names.fresh(f"{name}_own")
                back.append((names[j], name, wanted))
        claims = () if back else statement.claims
        self.values.write(replace(statement, results=tuple(names), attrs=attrs, claims=claims), ws, how.loose)
        for made, name, wanted in back:
            self.collectives.as_needed(made, wanted, [axis for axis, _ in self.axes], name)

    def _call(self, statement: Call) -> Deep[None]:
        function = self.domain.module.functions[statement.function]
        pairs = zip(statement.args, function.params, strict=True)
        args = tuple(arg if _hands_on(function, p.name) else self.collectives.for_use(arg) for arg, p in pairs)
        args = yield from self._given_to(replace(statement, args=args))
        vs = tuple(map(self.values.value, args))
        wanted = wanted_of_call(statement, self.gradients_in)
        callee = yield self.program.callee(statement, vs, tuple(map(self.values.loose, args)), wanted)
        self.collectives.sums += callee.sums
        self.needs_sizes |= callee.needs_sizes
        claims = claims_of(statement, callee.given)
        self.values.written.append(replace(statement, function=callee.name, args=args, claims=claims))
        for name, w, loose in zip(statement.results, callee.given, callee.loose, strict=True):
            self.values.define(name, w, loose)

    def _facts(self, statement: Apply | Call) -> Facts:
        if isinstance(statement, Apply):
            return statement.facts
        return self.domain.module.functions[statement.function].facts.within(statement.facts)

    def _placed_as_wanted(self, name: str) -> None:
        """Bring what a statement gave to where the program returns it, or its update wants it, if that is at once."""
        gradient = self.gradients.get(name)
        if self.early and isinstance(gradient, Gradient) and gradient.last:
            if self.is_entry:
                self.sums.ended(name)
            else:
                self.sums.ended_of_microbatch(name)
        wanted = self.wanted.get(name)
        if wanted is not None and (made := self.collectives.brought(self.values.settled(name), wanted)) != name:
            assert isinstance(made, str)
            self.values.settled_as[name] = made

    def _given_to(self, statement: Call) -> Deep[tuple[Arg, ...]]:
        """The arguments of a call: sums stay pending if the function only passes them on, or adds to them."""
        args = list(map(self.values.settled, statement.args))
        pending = [i for i, arg in enumerate(args) if self.values.pending(arg)]
        if not pending:
            return tuple(args)

        wanted = wanted_of_call(statement, self.gradients_in)

        def sums(kept: Sequence[int]) -> Deep[int]:
            vs, loose = [*map(self.values.value, args)], [*map(self.values.loose, args)]
            for i in set(pending).difference(kept):
                tokens, found = self.spread.tokens(args[i]), vs[i]
                assert isinstance(found, TensorType)
                vs[i] = replace(found, places=self.sums.left(args[i]))
                loose[i] = loose_axes(loose[i]) | {own.axis for own in tokens}
            return (yield self.program.callee(statement, tuple(vs), tuple(loose), wanted)).sums

        least, kept = (yield sums(())), pending
        if (yield sums(pending)) > least:
            kept = list[int]()
            for i in pending:
                if (yield sums((i,))) <= least:
                    kept.append(i)
        return tuple(arg if i in kept else self.sums.ended(arg) for i, arg in enumerate(args))

    def _no_rule(self, index: int, statement: Apply | Call) -> ProgramError:
        """The error of an op that has no rule by which it could be split."""
        assert isinstance(statement, Apply)
        split = next(a for a in statement.args if any(isinstance(p, SplitAlong) for p in self.values.places(a)))
        message = f"nothing says how `{statement.op}` can be split, and `%{split}` is: `{self.values.value(split)}`"
        hint = f"state a rule where the op is defined (`@{statement.op}.sharding`)"
        return ProgramError([Diagnostic(codes.NO_SHARDING_RULE, Site(self.function.name, index), message, (), hint)])


def _of_none(facts: Facts) -> Facts:
    return replace(facts, of="") if facts.of else facts


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


def _may_be_returned(place: Place) -> bool:
    """Whether nothing is pending, and blocks are in a finite list."""
    if isinstance(place, SplitAlong):
        return not any(isinstance(block, Repeated) for block in place.blocks)
    return isinstance(place, OwnedAlong)


def _has_blocks(found: State) -> bool:
    return any_split(found, lambda split: bool(split.blocks))
