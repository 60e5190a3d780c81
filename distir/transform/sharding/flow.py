"""Dimension analysis: finds which dimensions of a program are equal, through ops and calls.

A function is analysed once for each tuple of arguments; its callers use a summary of its parameters' and results'
dimensions. So the cost is linear in calls, not in the inlined program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from distir.analysis import Checker, Instance
from distir.ir import DISCARD, Apply, Arg, Call, Function, Literal, SymbolicDim, TensorType, TupleType, Type, names
from distir.ir.deep import Deep, finish
from distir.ops import OPS, Value, bind, type_of
from distir.ops.layout import Blocks, Layout
from distir.ops.splitting import layout
from distir.ops.tuples import TUPLING
from distir.placement.along import is_host
from distir.transform.sharding.boundary import BoundarySummary, Sides, summary_of
from distir.transform.sharding.classes import Classes, Pieces, Settled, is_one
from distir.transform.sharding.leaves import (
    Leaf,
    Related,
    changes_no_dimension,
    dimensions,
    flat,
    has_unknown,
    have_one_form,
    leafwise,
    makes_no_dimension,
)


class Flow:
    """The dimension analysis of one module.

    If an op may be split in several ways, the analysis chooses one that splits nothing which must be whole. With
    `likeliest` it always chooses the most likely one (the outermost of regrouped dimensions), and follows host values,
    too. With `along_sequence` it chooses the first one that splits a sequence dimension. With `unknown` it leaves out
    dimensions of known sizes, which equal no others: most of a training step's, as weights have no others.
    """

    def __init__(
        self, domain: Checker, likeliest: bool = False, along_sequence: bool = False, unknown: bool = False
    ) -> None:
        self._domain = domain
        self.likeliest = likeliest
        self.along_sequence = along_sequence
        self.unknown = unknown
        self._summaries: dict[tuple[str, tuple[Value, ...]], BoundarySummary] = {}
        self._settled: dict[tuple[str, tuple[Value, ...]], Settled] = {}

    def entry(self, function: Function) -> Settled:
        """The classes of an entry function's dimensions."""
        return self.function(function, [p.type for p in function.params])

    def function(self, function: Function, vs: Sequence[Value]) -> Settled:
        """The classes of a function's dimensions, for these arguments."""
        given = tuple(vs)
        key = self._key(function, given)
        if key not in self._settled:
            self._settled[key] = finish(self._function(function, given))
        return self._settled[key]

    def _key(self, function: Function, vs: tuple[Value, ...]) -> tuple[str, tuple[Value, ...]]:
        """The same for calls that differ only in their devices, of which dimensions are alike."""
        place = self._domain.replicas.key(function.name, vs)
        return (function.name, vs) if place is None else place[0]

    def _function(self, function: Function, vs: tuple[Value, ...]) -> Deep[Settled]:
        instance = self._domain.instance(function.name, vs)
        body = _Body(self, self._domain, function, instance)
        yield from body.follow()
        settled = body.classes.settled()
        asked = body.same if self.likeliest else filter(body.same.__contains__, names(function.returned))
        settled.name({name: body.same[name] for name in asked})
        return settled

    def summary(self, function: Function, vs: tuple[Value, ...]) -> Deep[BoundarySummary]:
        """The summary of a function."""
        key = self._key(function, vs)
        if key not in self._summaries:
            settled = self._settled.get(key) or (yield from self._function(function, vs))
            if self.likeliest:  # then all dimensions of callees are asked for, too
                self._settled[key] = settled
            self._summaries[key] = summary_of(function, settled)
        return self._summaries[key]


def _changed(one: Layout) -> set[str | None]:
    """The letters of dimensions joined from others, or cut into them."""
    found = {one.operands[i][axis] for i, axis in one.operand_blocks}
    return found | {one.results[j][axis] for j, axis in one.result_blocks}


Form = tuple[object, tuple[Arg, ...], tuple[Value, ...], tuple[bool, ...]]
"""A statement up to names: its op, operands by values with equal dimensions, and discarded results."""


class _Body:
    def __init__(self, flow: Flow, domain: Checker, function: Function, instance: Instance) -> None:
        self.flow, self.domain, self.function, self.instance = flow, domain, function, instance
        self.classes = Classes()
        self.choices: list[tuple[Apply, Sequence[Leaf], Sequence[Leaf], Layout]] = []
        self.same: dict[str, str] = {}
        """By value: an earlier one with the same dimensions. Unused if all dimensions are requested."""
        self._forms: dict[Form, tuple[str, ...]] = {}
        """By form of a statement: the results of the first one. A pipeline calls each stage many times."""
        self._repeated: dict[Form, tuple[BoundarySummary, Sequence[int], int]] = {}
        """By form of a call: the callee, a node for each of its classes, and the number of further calls."""

    def follow(self) -> Deep[None]:
        """Find the classes of all dimensions."""
        for param, value in zip(self.function.params, self.instance.args, strict=True):
            self._sizes(param.name, type_of(value))
        for statement in self.function.body:
            if self.flow.unknown and isinstance(statement, (Apply, Call)) and self._is_known_in_size(statement):
                continue
            if isinstance(statement, Apply):
                self._apply(statement)
            elif isinstance(statement, Call):
                yield from self._call(statement)
        for summary, own, times in self._repeated.values():
            for node, traits in zip(own, summary.classes, strict=True):
                self.classes.traits(node).sums += times * traits.sums
        if self.flow.along_sequence:
            self._choose_along_sequence()
        for choice in self.choices:  # all `whole` traits are known by now
            self._choose(*choice)

    def _is_known_in_size(self, statement: Apply | Call) -> bool:
        """Whether all its operands' dimensions are of known sizes, so that its results' equal no others."""
        vs = self.instance.state(statement.args)
        return bool(vs) and not any(is_host(v) or has_unknown(type_of(v)) for v in vs)

    def _form(self, statement: Apply | Call, vs: tuple[Value, ...]) -> Form:
        """The form of a statement: statements of one form have results with equal dimensions."""
        named = tuple([arg if isinstance(arg, Literal) else self.same.get(arg, arg) for arg in flat(statement.args)])
        discarded = tuple([name == DISCARD for name in statement.results])
        what = (statement.op, statement.attrs) if isinstance(statement, Apply) else statement.function
        return what, named, vs, discarded

    def _is_known(self, form: Form, results: Sequence[str]) -> bool:
        """Reuse the analysis of a statement of this form, if there is one."""
        known = self._forms.get(form)
        if known is None:
            return False
        for name, earlier in zip(results, known, strict=True):
            if name != DISCARD:
                self.same[name] = self.same.get(earlier, earlier)
        return True

    def _sizes(self, name: str, type: Type, path: tuple[int, ...] = ()) -> None:
        """Create nodes for a value's dimensions."""
        name = self.same.get(name, name)
        if isinstance(type, TupleType):
            for k, item in enumerate(type.items):
                self._sizes(name, item, (*path, k))
        elif isinstance(type, TensorType):
            nodes: list[int] = []
            for axis, dim in enumerate(type.shape or ()):
                if isinstance(dim, int) and self.flow.unknown:
                    continue
                nodes.append(node := self.classes.node((name, path, axis)))
                if isinstance(dim, int):
                    traits = self.classes.traits(node)
                    if dim not in traits.sizes:
                        traits.sizes |= {dim}
            self.classes.conflict(nodes, f"%{name}")

    def _apply(self, statement: Apply) -> None:
        vs = self.instance.state(statement.args)
        form = self._form(statement, vs)
        if self._is_known(form, statement.results):
            return
        ws = self.domain.answer(statement, vs)
        leaves = self._leaves(statement, vs, ws)
        if OPS[statement.op].awaits:  # other operands are waited for, and not read
            statement = replace(statement, args=statement.args[:1])
            leaves = [(vs[:1], ws, f and replace(f, operands=f.operands[:1])) for vs, ws, f in leaves]
        if makes_no_dimension(statement, leaves):
            self._forms[form] = statement.results
            if changes_no_dimension(statement, leaves):
                (operand, *_), (result,) = form[1], statement.results
                assert isinstance(operand, str)
                self.same[result] = operand
            elif have_one_form(statement, leaves):
                self.same.update(dict.fromkeys(statement.results[1:], statement.results[0]))
        if statement.op in TUPLING:
            self._tuple(statement, vs, ws)
        if not (statement.op in TUPLING and all(isinstance(arg, str) for arg in statement.args)):
            for name, w in zip(statement.results, ws, strict=True):
                if name != DISCARD:
                    self._sizes(name, type_of(w))
        for operands, results, found in leaves:
            if found is not None and found.others and not self.flow.likeliest:
                self.choices.append((statement, operands, results, found))
            else:
                self._relate(statement, operands, results, found)

    def _leaves(self, statement: Apply, vs: Sequence[Value], ws: Sequence[Value]) -> list[Related]:
        """The operands and results of an op, leaf by leaf where they are tuples, with the op's layout for them."""
        if statement.op in TUPLING:
            return []
        rows: Iterable[Sequence[Leaf]]
        if any(isinstance(type_of(v), TupleType) for v in vs):
            rows = leafwise([(v, ()) for v in (*vs, *ws)])
        elif self.flow.likeliest or not all(map(is_host, vs)):
            rows = [[(v, ()) for v in (*vs, *ws)]]
        else:
            rows = []
        op, count = OPS[statement.op], len(vs)
        found: list[Related] = []
        known: dict[tuple[Value, ...], Layout | None] = {}
        for row in rows:
            values = tuple([v for v, _ in row])
            if values not in known:
                known[values] = layout(op, values[:count], [type_of(w) for w in values[count:]], statement.attrs)
            found.append((row[:count], row[count:], known[values]))
        return found

    def _tuple(self, statement: Apply, vs: Sequence[Value], ws: Sequence[Value]) -> None:
        makes = statement.op == "MakeTuple"
        inner, items = (statement.args, vs) if makes else (statement.results, ws)
        (whole,) = statement.results if makes else statement.args
        for k, (name, item) in enumerate(zip(inner, items, strict=True)):
            if isinstance(name, str) and isinstance(whole, str) and DISCARD not in (name, whole):
                for path, axis in dimensions(type_of(item), self.flow.unknown):
                    if makes:
                        self.classes.put((whole, (k, *path), axis), self._node(name, path, axis))
                    else:
                        self.classes.put((name, path, axis), self._node(whole, (k, *path), axis))

    def _choose(self, statement: Apply, vs: Sequence[Leaf], ws: Sequence[Leaf], found: Layout) -> None:
        """The first layout in which no regrouped dimension must be whole.

        Layouts that regroup named dimensions alone come last: those are inputs' dimensions, which are not split here.
        """
        named: list[Layout] = []
        for one in (found, *found.others):
            changed = _changed(one) or found.contiguous
            places = [*zip(statement.args, vs, one.operands, strict=True)]
            places += [*zip(statement.results, ws, one.results, strict=True)]
            nodes: list[int] = []
            sizes: set[bool] = set()
            for arg, (value, path), letters in places:
                of = type_of(value)
                shape = of.shape if isinstance(of, TensorType) else None
                for axis, letter in enumerate(letters):
                    if letter in changed:
                        nodes.append(self._node(arg, path, axis))
                        sizes.add(shape is not None and isinstance(shape[axis], SymbolicDim))
            if any(self.classes.traits(node).whole for node in nodes):
                continue
            if sizes != {True}:
                self._relate(statement, vs, ws, one)
                return
            named.append(one)
        self._relate(statement, vs, ws, next(iter(named), found))

    def _choose_along_sequence(self) -> None:
        """Choose layouts that split sequence dimensions until there are none: each may reveal more such dimensions."""
        left = list[tuple[Apply, Sequence[Leaf], Sequence[Leaf], Layout]]()
        while len(left) != len(self.choices):
            left, self.choices = self.choices, []
            for choice in left:
                statement, vs, ws, found = choice
                one = next((one for one in found.others if self._goes_along_sequence(statement, vs, ws, one)), None)
                if one is None:
                    self.choices.append(choice)
                else:
                    self._relate(statement, vs, ws, one)

    def _goes_along_sequence(self, statement: Apply, vs: Sequence[Leaf], ws: Sequence[Leaf], one: Layout) -> bool:
        """Whether a layout splits a sequence dimension. Dimensions joined from it then are sequence dimensions, too."""
        nodes: list[int] = []
        for args, values, places in (
            (statement.args, vs, one.operands),
            (statement.results, ws, one.results),
        ):
            for arg, (_, path), letters in zip(args, values, places, strict=True):
                changed = [axis for axis, letter in enumerate(letters) if letter in _changed(one)]
                nodes += [self._node(arg, path, axis) for axis in changed]
        found = any(self.classes.traits(node).sequence for node in nodes)
        for node in nodes if found else ():
            self.classes.traits(node).sequence = True
        return found

    def _relate(self, statement: Apply, vs: Sequence[Leaf], ws: Sequence[Leaf], found: Layout | None) -> None:
        """Relate operands' and results' dimensions by an op's layout."""
        op = OPS[statement.op]
        by_letter: dict[str, list[int]] = {}
        given: set[str] = set()
        pieces: list[int] = []
        joined: tuple[int, Blocks] | None = None
        for is_result, args, values, letters in (
            (False, statement.args, vs, found.operands if found else ((),) * len(vs)),
            (True, statement.results, ws, found.results if found else ((),) * len(ws)),
        ):
            for i, (arg, (value, path)) in enumerate(zip(args, values, strict=True)):
                for _, axis in dimensions(type_of(value), self.flow.unknown):
                    letter = letters[i][axis] if axis < len(letters[i]) else None
                    node = self._operand(arg, value, path, axis) if not is_result else self._node(arg, path, axis)
                    if letter is None:
                        self._needs_whole(node, statement.op, found)
                    if letter is None:
                        continue
                    assert found is not None
                    if is_result:
                        given.add(letter)
                    blocks = (found.result_blocks if is_result else found.operand_blocks).get((i, axis))
                    if letter == found.apart:
                        if blocks is None:
                            pieces.append(node)
                        else:
                            joined = node, blocks
                        continue
                    if blocks:
                        part = self.classes.new()
                        self.classes.link(node, [part] * len(blocks), blocks)
                        node = part
                    elif blocks is not None:
                        self.classes.traits(node).contiguous = True
                    by_letter.setdefault(letter, []).append(node)
        if joined is not None:
            self.classes.link(joined[0], pieces, joined[1])
        for letter, nodes in by_letter.items():
            for node in nodes[1:]:
                self.classes.unite(nodes[0], node)
            self._trait(statement.op, found, letter, nodes[0], letter in given, vs)
            if found is not None and letter in found.divided:
                bound = bind(op, statement.attrs)
                counts = {(name, n) for name in found.divided[letter] if isinstance(n := bound.get(name), int)}
                traits = self.classes.traits(nodes[0])
                traits.sizes |= {n for _, n in counts}
                traits.counts |= counts
        values = (*found.operands, *found.results) if found is not None else ()
        for one, other in combinations(by_letter, 2):
            if not any(one in letters and other in letters for letters in values):
                self.classes.conflict((by_letter[one][0], by_letter[other][0]), statement.op)

    def _needs_whole(self, node: int, op: str, found: Layout | None) -> None:
        traits = self.classes.traits(node)
        if not traits.whole:
            traits.whole = f"nothing says how `{op}` is split" if found is None else f"`{op}` needs it whole"

    def _trait(self, op: str, found: Layout | None, letter: str, node: int, given: bool, vs: Sequence[Leaf]) -> None:
        assert found is not None
        traits = self.classes.traits(node)
        traits.sums += not given
        traits.contiguous |= letter in found.contiguous
        traits.owned |= letter == found.owned
        traits.sequence |= letter == found.sequence
        if letter in found.parted - found.gathered:
            traits.parted = True
            traits.contiguous = True
            if found.positions is not None and is_host(vs[found.positions][0]):  # known positions
                self._needs_whole(node, op, found)

    def _node(self, arg: Arg, path: tuple[int, ...], axis: int) -> int:
        if isinstance(arg, str) and arg != DISCARD:
            return self.classes.node((self.same.get(arg, arg), path, axis))
        return self.classes.new()

    def _operand(self, arg: Arg, value: Value, path: tuple[int, ...], axis: int) -> int:
        """The node of an operand's dimension; for a host value a new one each time, as it can be sliced anywhere."""
        return self.classes.new() if is_host(value) and not self.flow.likeliest else self._node(arg, path, axis)

    def _call(self, statement: Call) -> Deep[None]:
        vs = self.instance.state(statement.args)
        form = self._form(statement, vs)
        if self._is_known(form, statement.results):
            summary, own, times = self._repeated[form]
            self._repeated[form] = summary, own, times + 1
            return
        summary: BoundarySummary = yield self.flow.summary(self.domain.module.functions[statement.function], vs)
        args = [self.same.get(arg, arg) if isinstance(arg, str) else arg for arg in statement.args]
        own = [self.classes.new() for _ in summary.classes]
        for node, traits in zip(own, summary.classes, strict=True):
            self.classes.traits(node).absorb(traits)
        if any(summary.params.values()):  # a value computed without operands differs in each call
            self._forms[form] = statement.results
            self._repeated[form] = summary, own, 0
        rows: list[tuple[int, Pieces]] = []
        for position, arg in enumerate(args):
            rows += self._given(arg, summary.params[position])
        for position, name in enumerate(statement.results):
            rows += self._made(name, summary.results[position], own)
        for node, pieces in rows:
            if is_one(pieces):
                self.classes.unite(node, own[pieces[0][0]])
            else:
                self.classes.link(node, [own[of] for of, _ in pieces], tuple(block for _, block in pieces))
        for group in summary.conflicts:
            self.classes.conflict([own[of] for of in group], f"@{statement.function}")

    def _made(self, name: str, sides: Sides, own: Sequence[int]) -> Iterator[tuple[int, Pieces]]:
        """Set the dimensions of a call's result that consist of blocks; the others are the callee's classes."""
        for (path, axis), pieces in sides if name != DISCARD else ():
            if is_one(pieces):
                self.classes.put((name, path, axis), own[pieces[0][0]])
            else:
                yield self.classes.node((name, path, axis)), pieces

    def _given(self, arg: Arg, sides: Sides) -> Iterator[tuple[int, Pieces]]:
        """Relate the dimensions of an argument to their classes and blocks in the callee."""
        for (path, axis), pieces in sides:
            node = self._node(arg, path, axis)
            if not isinstance(arg, str):
                self.classes.traits(node).whole = "a constant has it"
            yield node, pieces
