"""The ranges of a program's integer parameters: indices of what they select from, labels among their classes.

For random inputs. The elements of a parameter are followed through the program and its calls: ops move them, add known
numbers to them, or compute something else from them. An op that takes elements as indices bounds them (`CHOOSING`).
Runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Union

from distir.analysis.domains import Instance, Types
from distir.ir import (
    DISCARD,
    Apply,
    Arg,
    Attributes,
    Call,
    Dense,
    Dim,
    Literal,
    TensorType,
    TupleType,
    Type,
)
from distir.ir.deep import Deep, finish
from distir.ops import Value, type_of


@dataclass(frozen=True, slots=True)
class Bounds:
    """The whole numbers from `low` to below `high`, and those that are no index: labels that are ignored."""

    low: int
    high: int
    also: frozenset[int] = frozenset()


Leaf = tuple[str, tuple[int, ...]]
"""A parameter, and the part of it where it is a tuple."""


@dataclass(frozen=True, slots=True)
class Made:
    """Elements of a parameter: `more` than what is given for it; None where something else was made of them.

    `replaced`: some of them were replaced by others, perhaps those that are no index.
    """

    leaf: Leaf
    more: int | None = 0
    replaced: bool = False


Elements = Union[frozenset[Made], "tuple[Elements, ...]"]
"""Of which parameters' elements a value is made; of a tuple, of each part."""

NOTHING: frozenset[Made] = frozenset()

DATA = frozenset(
    ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Cast", "CastLike")
    + ("Expand", "Tile", "Pad", "Gather", "GatherElements", "GatherND", "ReduceMax", "ReduceMin", "TopK", "Clip")
    + ("Abs", "DepthToSpace", "SpaceToDepth", "Send", "Compress", "Trilu", "ReverseSequence")
    + ("MPIBroadcast", "MPIScatter", "MPIGather", "MPIAllgather", "MPIAlltoall")
)
"""Ops whose results hold elements of their first operands."""

PLACES = frozenset(("ArgMax", "ArgMin", "Dispatch", "Mod", "NonZero", "Shape", "Size"))
"""Ops whose results are in a range of their own, whatever they are given."""

ANY = frozenset(("Concat", "Max", "Min", "ScatterElements", "ScatterND", "TensorScatter"))
"""Ops whose results hold elements of any of their operands."""

Choice = Callable[[Sequence[Value], Attributes], "Bounds | None"]
"""What an op allows as indices, by all its operands and its attributes; None where that is not known."""


def _axis_of(operand: int, axis: str | int = "axis") -> Choice:
    """Places along a dimension of an operand."""

    def bound(vs: Sequence[Value], attrs: Attributes) -> Bounds | None:
        chosen = attrs.get(axis, 0) if isinstance(axis, str) else axis
        found = _at(_shape(vs[operand]), chosen)
        ignored = attrs.get("ignore_index")
        also = frozenset([ignored]) if isinstance(ignored, int) else frozenset[int]()
        return None if found is None else Bounds(0, found, also)

    return bound


def _number(operand: int, place: str | None = None) -> Choice:
    """A number that is the value of an operand, or one of its numbers."""

    def bound(vs: Sequence[Value], attrs: Attributes) -> Bounds | None:
        found = _at(_numbers(vs[operand]), 0 if place is None else attrs.get(place, 0))
        return None if found is None else Bounds(0, found)

    return bound


def _smallest(operand: int) -> Choice:
    """Places along several dimensions of an operand at once."""

    def bound(vs: Sequence[Value], attrs: Attributes) -> Bounds | None:
        last, batched = _at(_shape(vs[1]), -1), attrs.get("batch_dims", 0)
        if last is None or not isinstance(batched, int):
            return None
        sizes = _shape(vs[operand])[batched : batched + last]
        known = [size for size in sizes if isinstance(size, int)]
        return Bounds(0, min(known)) if known and len(known) == len(sizes) else None

    return bound


def _attribute(name: str) -> Choice:
    """As many as an attribute says."""

    def bound(vs: Sequence[Value], attrs: Attributes) -> Bounds | None:
        found = attrs.get(name)
        return Bounds(0, found) if isinstance(found, int) else None

    return bound


def _rows_of_choices(vs: Sequence[Value], attrs: Attributes) -> Bounds | None:
    """Rows of `Permute`: as many as it is given, or as there are choices."""
    if len(vs) > 3:
        return _number(3)(vs, attrs)
    n, k = _at(_shape(vs[1]), -2), _at(_shape(vs[1]), -1)
    return None if n is None or k is None else Bounds(0, n * k)


def _share_of_rows(rows: int, counts: int, *, stated: bool = False) -> Choice:
    """Counts whose sum is at most the number of rows, however they are drawn."""

    def bound(vs: Sequence[Value], attrs: Attributes) -> Bounds | None:
        found = _at(_numbers(vs[rows]), 0) if stated else _at(_shape(vs[rows]), -2)
        experts = _at(_shape(vs[counts]), -1)
        return Bounds(0, found // experts + 1) if found is not None and experts else None

    return bound


def _places_of_cache(vs: Sequence[Value], attrs: Attributes) -> Bounds | None:
    """Where an update may begin: so that it fits, or any number of times round."""
    axis = attrs.get("axis", -2)
    places, written = (_at(_shape(v), axis) for v in vs[:2])
    if places is None or written is None:
        return None
    return Bounds(0, 2 * places if attrs.get("mode") == "circular" else places - written + 1)


def _filled_places(vs: Sequence[Value], attrs: Attributes) -> Bounds | None:
    """How much of a cache may be filled: all queries are in it, if they are its last tokens."""
    queries, places = (_at(_shape(v), -2) for v in vs[:2])
    if queries is None or places is None:
        return None
    return Bounds(queries if attrs.get("is_causal") else 1, places + 1)


CHOOSING: dict[tuple[str, int], Choice] = {
    ("Gather", 1): _axis_of(0),
    ("GatherElements", 1): _axis_of(0),
    ("GatherND", 1): _smallest(0),
    ("GatherGrad", 1): _number(2, "axis"),
    ("ScatterElements", 1): _axis_of(0),
    ("ScatterND", 1): _smallest(0),
    ("OneHot", 0): _number(1),
    ("Mod", 0): _number(1),
    ("GroupedMatMul", 2): _axis_of(1, 0),
    ("TensorScatter", 2): _places_of_cache,
    ("Attention", 5): _filled_places,
    ("RouteGrad", 2): _axis_of(1, -1),
    ("Dispatch", 0): _attribute("num_experts"),
    ("Permute", 1): _rows_of_choices,
    ("Unpermute", 1): _axis_of(0, -2),
    ("UnpermuteGrad", 2): _axis_of(1, -2),
    ("RaggedMatMul", 2): _share_of_rows(0, 2),
    ("RaggedMatMulGrad", 2): _share_of_rows(0, 2),
    ("ScaledRaggedMatMul", 2): _share_of_rows(0, 2),
    ("ScaledRaggedMatMulGrad", 2): _share_of_rows(0, 2),
    ("RaggedExpand", 1): _share_of_rows(2, 1, stated=True),
    ("RaggedSum", 1): _share_of_rows(0, 1),
    ("SoftmaxCrossEntropyLoss", 1): _axis_of(0, 1),
    ("SoftmaxCrossEntropyLossGrad", 2): _axis_of(1, 1),
    ("NegativeLogLikelihoodLoss", 1): _axis_of(0, 1),
    ("NegativeLogLikelihoodLossGrad", 2): _axis_of(1, 1),
}
"""By op and operand: which numbers it may hold."""


SCATTER = ".scatter"


def index_bounds(domain: Types, instance: Instance) -> dict[Leaf, Bounds]:
    """The range of each integer parameter of a function, or of a part of a tuple, where the program determines it.

    The results of `@main.scatter` are the arguments of `@main`, and are followed through it.
    """
    params = zip(instance.function.params, instance.args, strict=True)
    given = tuple(_of_parameter(p.name, (), type_of(v)) for p, v in params)
    if all(map(_is_nothing, given)):
        return {}
    found = _Followed(domain)
    returned: tuple[Elements, ...] = finish(found.through(instance, given))
    name = instance.function.name
    if name.endswith(SCATTER) and (entry := name.removesuffix(SCATTER)) in domain.module.functions:
        finish(found.through(domain.instance(entry, instance.state.returned), returned))
    return {
        leaf: replace(bound, also=frozenset()) if leaf in found.bare else bound
        for leaf, bound in found.bounds.items()
        if leaf not in found.unknown and bound.low < bound.high
    }


def _of_parameter(name: str, path: tuple[int, ...], stated: Type) -> Elements:
    if isinstance(stated, TupleType):
        return tuple(_of_parameter(name, (*path, k), item) for k, item in enumerate(stated.items))
    return frozenset([Made((name, path))]) if _is_whole(stated) else NOTHING


def _is_whole(stated: Type) -> bool:
    return isinstance(stated, TensorType) and stated.dtype is not None and stated.dtype.kind in ("int", "uint")


@dataclass
class _Followed:
    """Follows elements through functions, each once for the same ones."""

    domain: Types
    bounds: dict[Leaf, Bounds] = field(default_factory=dict[Leaf, Bounds])
    unknown: set[Leaf] = field(default_factory=set[Leaf])
    """Of which something was made that is an index."""
    bare: set[Leaf] = field(default_factory=set[Leaf])
    """Which are indices as they are, of an op that ignores none."""
    known: dict[tuple[int, tuple[Elements, ...]], tuple[Elements, ...]] = field(
        default_factory=dict[tuple[int, tuple[Elements, ...]], tuple[Elements, ...]]
    )

    def through(self, instance: Instance, given: tuple[Elements, ...]) -> Deep[tuple[Elements, ...]]:
        """Of which elements the results of a function are, where its parameters are of those given."""
        key = id(instance), given  # the checker keeps instances, so each id stays its own
        if key in self.known:
            return self.known[key]
        rho = dict(zip((p.name for p in instance.function.params), given, strict=True))
        for statement in instance.function.body:
            if not isinstance(statement, (Apply, Call)):
                continue
            operands = tuple(_elements(arg, rho) for arg in statement.args)
            if all(map(_is_nothing, operands)):
                continue
            if isinstance(statement, Call):
                callee = self.domain.instance(statement.function, instance.state(statement.args))
                results = yield self.through(callee, operands)
            else:
                results = self._apply(statement, instance, operands)
            rho.update((n, r) for n, r in zip(statement.results, results, strict=True) if n != DISCARD)
        self.known[key] = tuple(_elements(arg, rho) for arg in instance.function.returned)
        return self.known[key]

    def _apply(self, op: Apply, instance: Instance, operands: tuple[Elements, ...]) -> Sequence[Elements]:
        if op.op == "MakeTuple":
            return [operands]
        if op.op == "UnpackTuple" and isinstance(operands[0], tuple):
            return operands[0]
        vs = instance.state(op.args)
        if op.op in DATA and isinstance(operands[0], tuple) and len(op.results) == 1:
            return [operands[0]]
        flat = tuple(map(_joined, operands))
        for place, own in enumerate(flat):
            if own and (choice := CHOOSING.get((op.op, place))):
                self._chosen(own, _bound(choice, vs, op.attrs))
        made = self._made(op, vs, flat)
        results = [instance.state.get(name) for name in op.results]
        return [NOTHING if w is not None and _is_truth(type_of(w)) else made for w in results]

    def _chosen(self, elements: frozenset[Made], bound: Bounds | None) -> None:
        for made in elements:
            if bound is None or made.more is None:
                self.unknown.add(made.leaf)
                continue
            if not bound.also and not made.replaced:
                self.bare.add(made.leaf)
            low, high = max(0, bound.low - made.more), bound.high - made.more
            before = self.bounds.get(made.leaf, Bounds(low, high))
            also = before.also | {number - made.more for number in bound.also}
            self.bounds[made.leaf] = Bounds(max(low, before.low), min(high, before.high), also)

    def _made(self, op: Apply, vs: Sequence[Value], operands: Sequence[frozenset[Made]]) -> frozenset[Made]:
        """Of which elements the result is."""
        if op.op in PLACES:
            return NOTHING
        if op.op in DATA:
            return operands[0]
        if op.op in ANY:
            return NOTHING.union(*operands)
        if op.op == "Where":
            return frozenset(replace(made, replaced=True) for made in NOTHING.union(*operands[1:]))
        more = _added(op, vs)
        moved = NOTHING.union(*operands)
        return frozenset(replace(m, more=None if m.more is None or more is None else m.more + more) for m in moved)


def _added(op: Apply, vs: Sequence[Value]) -> int | None:
    """What an op adds to each element of its first operand, or of its second one where it may; None for any other."""
    if op.op not in ("Add", "Sub"):
        return None
    numbers = [set(_numbers(v)) for v in (vs if op.op == "Add" else vs[1:])]
    known = [n for found in numbers if len(found) == 1 and isinstance(n := next(iter(found)), int)]
    return None if len(known) != 1 else known[0] if op.op == "Add" else -known[0]


def _bound(choice: Choice, vs: Sequence[Value], attrs: Attributes) -> Bounds | None:
    try:
        return choice(vs, attrs)
    except IndexError:  # an operand that is left out
        return None


def _elements(arg: Arg, rho: Mapping[str, Elements]) -> Elements:
    if isinstance(arg, tuple):
        return tuple(_elements(item, rho) for item in arg)
    return rho.get(arg, NOTHING) if isinstance(arg, str) else NOTHING


def _joined(elements: Elements) -> frozenset[Made]:
    return NOTHING.union(*map(_joined, elements)) if isinstance(elements, tuple) else elements


def _is_nothing(elements: Elements) -> bool:
    return all(map(_is_nothing, elements)) if isinstance(elements, tuple) else not elements


def _is_truth(stated: Type) -> bool:
    return isinstance(stated, TensorType) and stated.dtype is not None and stated.dtype.kind == "bool"


def _shape(value: Value) -> Sequence[Dim]:
    found = type_of(value)
    return (found.shape or ()) if isinstance(found, TensorType) else ()


def _at(numbers: Sequence[object], axis: object) -> int | None:
    if not isinstance(axis, int) or not -len(numbers) <= axis < len(numbers):
        return None
    found = numbers[axis]
    return found if isinstance(found, int) else None


def _numbers(value: Value) -> Sequence[object]:
    """The elements of a constant of one dimension at most."""
    from distir.ops import dense

    constant = dense(value.value) if isinstance(value, Literal) else value
    return constant.values if isinstance(constant, Dense) and len(constant.shape) <= 1 else ()
