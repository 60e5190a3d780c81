"""Tensor parallelism: which dimensions of the parameters are split.

Those that no input of the program has and that no op needs whole: the inner width of an MLP, the heads of attention,
the vocabulary. A matrix that produces such a dimension is then split by columns, one that contracts it by rows, with
all ops in between, as in Shoeybi et al., *Megatron-LM*, 2019; but this follows from the dimensions alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from distir.diagnostics import Diagnostic, Note, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.spelling import nearest
from distir.ir import Function, Param, Part, Site, TensorType, TupleType, Type
from distir.ir.roles import is_held
from distir.ops.layout import Block, Blocks, Repeated, Shared
from distir.placement.along import WHOLE, Split, State
from distir.transform.sharding.classes import Pieces, Place, Settled, Traits, is_one
from distir.transform.sharding.shares import Reasons
from distir.transform.sharding.sizes import check_divides, divisors


@dataclass(slots=True)
class Candidate:
    """A class of dimensions that could be split. `places`: those of parameters."""

    number: int
    traits: Traits
    places: list[Place] = field(default_factory=list[Place])
    covered: float = 0
    """The number of parameter elements that would be split."""


def parameter_states(
    entry: Function, size: int, by_hand: Sequence[str], settled: Settled, left: Collection[str] = ()
) -> list[State]:
    """A state for each parameter of the entry function. Raises ProgramError where nothing can be split so.

    `left`: parameters that are not split.
    """
    stated = _stated(entry, by_hand)
    if stated:
        split = _stated_places(entry, stated, settled, size)
    else:
        chosen = {candidate.number for candidate in _chosen(entry, settled, size, left)}
        found = ((place, _blocks(pieces, chosen)) for place, pieces in settled.places.items())
        split = {place: blocks for place, blocks in found if blocks is not None}
    return [_state(p.name, p.type, split) for p in entry.params]


def _blocks(pieces: Pieces, chosen: Collection[int]) -> Blocks | None:
    """The blocks of a dimension with some split classes; None if it has none, or the split cannot be expressed."""
    if not any(of in chosen for of, _ in pieces):
        return None
    if is_one(pieces):
        return ()
    found: list[Block] = []
    for of, block in pieces:
        if of not in chosen and isinstance(block, int):
            found.append(Shared(block))
        elif of in chosen and not isinstance(block, Repeated):
            found.append(block)
        else:
            return None
    return tuple(found)


def reasons(entry: Function, states: Sequence[State], size: int, by_hand: str, settled: Settled) -> Reasons:
    """Why `parameter_states` did not split other parameters. `by_hand`: the option that states which, if it does."""
    split = {p.name: state for p, state in zip(entry.params, states, strict=True) if isinstance(state, Split)}
    chosen = frozenset(
        of
        for name, state in split.items()
        for (of, _), block in zip(settled.places[name, (), state.axis], state.blocks or (None,), strict=True)
        if not isinstance(block, Shared)
    )
    return Reasons(settled, _inputs(entry, settled), chosen, size, by_hand)


def _inputs(entry: Function, settled: Settled) -> dict[int, str]:
    """By class: an input of the program that has it."""
    inputs = {p.name for p in entry.params if not is_held(p)}
    return {of: name for (name, _, _), pieces in settled.places.items() if name in inputs for of, _ in pieces}


def _chosen(entry: Function, settled: Settled, size: int, left: Collection[str] = ()) -> list[Candidate]:
    """The classes to split, without conflicts among them.

    Classes with the most parameter elements per contraction come first. Then come classes that conflict in weights
    alone, if they split a matrix that is otherwise whole: between consecutive convolutions, for instance, sums of
    channels are scattered or parts gathered.
    """
    reached = _inputs(entry, settled)
    candidates = (c for c in _candidates(entry, settled) if any(name not in left for name, _, _ in c.places))
    open_classes = [c for c in candidates if not c.traits.whole and c.number not in reached]
    chosen: list[Candidate] = []
    numbers: set[int] = set()
    indivisible: list[Candidate] = []
    later: list[Candidate] = []
    conflicts = _Conflicts(settled, {c.number for c in open_classes}, reached)
    for candidate in sorted(open_classes, key=lambda c: (-c.covered / max(c.traits.sums, 1), c.traits.sums)):
        if conflicts.between(candidate.number, numbers):
            later.append(candidate)
        elif all(n % size == 0 for n in candidate.traits.sizes):
            chosen.append(candidate)
            numbers.add(candidate.number)
        elif candidate.traits.sums and not candidate.traits.parted:  # a vocabulary, or classes, may be replicated
            indivisible.append(candidate)
    if indivisible:
        raise ProgramError([_indivisible(entry, indivisible[0], indivisible + chosen, size)])
    if not chosen:
        message = f"no dimension of a parameter of `@{entry.name}` can be split over {size} devices"
        hint = f"state a split by hand, as in `shard={_divisible(entry, size)}`"
        if not any("param" in p.roles for p in entry.params):
            hint = "mark the parameters, as in `%w: Tensor[Float32, (768, 768), 1] {param}`"
        notes = _what_each_meets(entry, Reasons(settled, reached, frozenset(), size, ""))
        raise ProgramError([Diagnostic(codes.NOTHING_TO_SPLIT, Site(entry.name), message, notes, hint)])
    split = {place[:2] for candidate in chosen for place in candidate.places}
    matrices = {p.name for p in entry.params if "param" in p.roles and _rank(p.type) > 1}
    for candidate in later:
        own = {place[:2] for place in candidate.places}
        gained = any(name in matrices for name, _ in own - split)
        fits = all(n % size == 0 for n in candidate.traits.sizes)
        if gained and fits and not conflicts.beside_inputs(candidate.number, numbers):
            chosen.append(candidate)
            numbers.add(candidate.number)
            split |= own
    return chosen


def _divisible(entry: Function, size: int) -> str:
    """A parameter and a dimension that the number of devices divides, as the option `shard` takes them."""
    for param in entry.params:
        shape = param.type.shape or () if isinstance(param.type, TensorType) and "param" in param.roles else ()
        for axis, dim in enumerate(shape):
            if isinstance(dim, int) and dim % size == 0 and len(shape) > 1:
                return f"{param.name}:{axis}"
    return "w1:1,w2:0"


def _what_each_meets(entry: Function, why: Reasons) -> tuple[Note, ...]:
    """A note for each reason why parameters cannot be split, on the first of them."""
    found: dict[str, list[int]] = {}
    for index, param in enumerate(entry.params):
        if "param" in param.roles and _rank(param.type):
            found.setdefault(why.of(param.name, param.type), []).append(index)
    return tuple(
        Note(
            f"`%{entry.params[first].name}`{f' and {len(rest)} more' if rest else ''}: {reason}",
            Site(entry.name, None, Part("param_type", first)),
        )
        for reason, (first, *rest) in found.items()
    )


class _Conflicts:
    """Which classes occur together in one value or op."""

    def __init__(self, settled: Settled, numbers: Collection[int], reached: Collection[int]) -> None:
        self._together: dict[int, set[int]] = {}
        self._beside_inputs: dict[int, set[int]] = {}
        """By class: those that occur with it."""
        for group in settled.conflicts:
            beside, own = not group.isdisjoint(reached), group.intersection(numbers)
            for one in own if len(own) > 1 else ():
                self._together.setdefault(one, set()).update(own)
                if beside:
                    self._beside_inputs.setdefault(one, set()).update(own)

    def between(self, one: int, others: Collection[int]) -> bool:
        """Whether some value has a class and one of others."""
        return not self._together.get(one, _NONE).isdisjoint(others)

    def beside_inputs(self, one: int, others: Collection[int]) -> bool:
        """Whether some value has both beside a dimension of the program's inputs, so that it is no weight."""
        return not self._beside_inputs.get(one, _NONE).isdisjoint(others)


_NONE = frozenset[int]()


def _rank(type: Type) -> int:
    return len(type.shape or ()) if isinstance(type, TensorType) else 0


def _candidates(entry: Function, settled: Settled) -> Iterable[Candidate]:
    """Every class that a parameter has, in the order of the parameters."""
    found: dict[int, Candidate] = {}
    weights = {p.name for p in entry.params if "param" in p.roles}
    by_name: dict[str, list[Place]] = {}
    for place in settled.places:
        by_name.setdefault(place[0], []).append(place)
    for param in entry.params:
        for place in by_name.get(param.name, []) if param.name in weights else []:
            pieces = settled.places[place]
            for of, block in pieces:
                candidate = found.setdefault(of, Candidate(of, settled.traits[of]))
                candidate.places.append(place)
                candidate.covered += _elements(param.type, place[1]) * _share(block, [b for _, b in pieces])
    return found.values()


def _share(block: Block, blocks: Sequence[Block]) -> float:
    """The share of a block in its dimension."""
    if not all(isinstance(b, int) for b in blocks):
        return 1 / len(blocks)
    return cast(int, block) / sum(cast("list[int]", blocks))


def _elements(type: Type, path: tuple[int, ...]) -> int:
    """The number of elements of a leaf; 1 if it is unknown."""
    leaf = type
    for k in path:
        assert isinstance(leaf, TupleType)
        leaf = leaf.items[k]
    elements = leaf.elements if isinstance(leaf, TensorType) else None
    return elements if isinstance(elements, int) else 1


def _indivisible(entry: Function, candidate: Candidate, others: Iterable[Candidate], size: int) -> Diagnostic:
    name, _, axis = candidate.places[0]
    index = next(i for i, p in enumerate(entry.params) if p.name == name)
    sizes = sorted(n for n in candidate.traits.sizes if n % size)
    counts = {n: name for name, n in sorted(candidate.traits.counts, reverse=True)}  # `kv_num_heads` first
    listed = [f"{n} (`{counts[n]}`)" if n in counts else str(n) for n in sizes]
    which = ", ".join(listed[:-1]) + (" or " if sizes[1:] else "") + listed[-1]
    message = f"`%{name}` dimension {axis} is to be split, and {which} does not split over {size} devices"
    common = math.gcd(*(n for c in others for n in c.traits.sizes))
    hint = f"{divisors(common)} would do"
    if all(counts.get(n) == "kv_num_heads" and size % n == 0 for n in sizes):
        hint += (
            ", beside `cp`, `dp` and `pp`; servers that copy heads of keys and values hold and compute on each device"
            f" what it does of a model with {size} such heads (`distir model … --kv-heads {size}`)"
        )
    site = Site(entry.name, None, Part("param_type", index))
    return Diagnostic(codes.INDIVISIBLE_SPLIT, site, message, (), hint)


def _stated(entry: Function, by_hand: Sequence[str]) -> dict[str, int]:
    """Splits by option: from a parameter's name to a dimension. Raises ProgramError for invalid ones."""
    found: dict[str, int] = {}
    for word in by_hand:
        name, _, axis = word.removeprefix("%").rpartition(":")
        if not name or not axis.lstrip("-").isdecimal():
            raise _bad(entry, f"expected a parameter and a dimension, as in `w1:1`, found `{word}`")
        if name not in {p.name for p in entry.params}:
            near = nearest(name, [p.name for p in entry.params])
            hint = f"did you mean `%{near}`?" if near else None
            raise _bad(entry, f"`@{entry.name}` has no parameter `%{name}`", hint)
        found[name] = int(axis)
    return {name: _axis(entry, name, axis) for name, axis in found.items()}


def _axis(entry: Function, name: str, axis: int) -> int:
    param = next(p for p in entry.params if p.name == name)
    shape = param.type.shape if isinstance(param.type, TensorType) else None
    if shape is None or not -len(shape) <= axis < len(shape):
        raise _bad(entry, f"`%{name}: {param.type}` has no dimension {axis}")
    return axis % len(shape)


def _bad(entry: Function, message: str, hint: str | None = None) -> ProgramError:
    return ProgramError([Diagnostic(codes.BAD_SPLIT, Site(entry.name), message, (), hint)])


def _stated_places(entry: Function, stated: Mapping[str, int], settled: Settled, size: int) -> dict[Place, Blocks]:
    """The dimensions of stated parameters and of their optimizer state; blocks are derived."""
    found: dict[Place, Blocks] = {}
    state = {p.name for p in entry.params if "state" in p.roles}
    for index, param in enumerate(entry.params):
        if param.name not in stated:
            continue
        place = (param.name, (), stated[param.name])
        pieces = settled.places[place]
        blocks: Blocks = () if is_one(pieces) else tuple(block for _, block in pieces)
        site = Site(entry.name, None, Part("param_type", index))
        for dim in (_size(param, place[2]), *blocks):
            check_divides(dim if isinstance(dim, int) else None, size, f"`%{param.name}` dimension {place[2]}", site)
        found[place] = blocks
        found |= {p: blocks for p, own in settled.places.items() if own == pieces and p[0] in state}
    return found


def _size(param: Param, axis: int) -> int | None:
    shape = param.type.shape if isinstance(param.type, TensorType) else None
    dim = shape[axis] if shape is not None else None
    return dim if isinstance(dim, int) else None


def _state(name: str, type: Type, split: Mapping[Place, Blocks], path: tuple[int, ...] = ()) -> State:
    if isinstance(type, TupleType):
        return tuple(_state(name, item, split, (*path, k)) for k, item in enumerate(type.items))
    shape = type.shape or () if isinstance(type, TensorType) else ()
    axes = [axis for axis in range(len(shape)) if (name, path, axis) in split]
    if not axes:
        return WHOLE
    # Of two, the longer one: then the shorter one is gathered before a product, or scattered after it.
    axis = max(axes, key=lambda axis: dim if isinstance(dim := shape[axis], int) else 0)
    return Split(axis, split[name, path, axis])
