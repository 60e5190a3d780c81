"""The rule of an op along one mesh axis: of which parts of operands it computes which parts of its results.

It follows from the op's layout and linearity alone. The checker asks whether operands are placed as the rule needs them
(`typings`); the partitioner brings them there (`transform.sharding.decide`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.ir import Attributes, Dense, Dim, TensorType, Type, dims
from distir.ops import Op, Value, type_of
from distir.ops.dropout import runs_of
from distir.ops.host import known_ints
from distir.ops.layout import Block, Blocks, Layout, Letters, Shared
from distir.ops.splitting import linear_operands, operand_places
from distir.placement.along import GREATEST, PARTIAL, WHOLE, Split, State, is_host, is_zigzag
from distir.placement.part_types import whole_block

KEEP_GREATEST = frozenset(
    {"Concat", "Greatest", "Identity", "Max", "ReduceMax", "Reshape", "Send", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Ops that map partial maxima to partial maxima."""

DIVIDE = frozenset({"Div", "Mean", "ReduceMean"})
"""Ops that are linear where they do not round: not of integers."""


@dataclass(frozen=True, slots=True)
class Typing:
    """One way in which an op computes parts of its results from parts of its operands, along one mesh axis.

    Its other fields and properties say what the per-device form of the statement must write beside the op: all of it
    follows from `letter` and `layout`.
    """

    needed: tuple[State, ...]
    """The placement of each operand: of a tuple, those of its items."""
    given: tuple[State, ...]
    """The placement of each result."""
    letter: str | None = None
    """The letter of `layout` that is split. None: the op is on each device as it is in the whole program."""
    layout: Layout | None = field(default=None, compare=False)
    lessened: int | None = None
    """The operand whose shared blocks are divided by the number of devices, since results are sums over devices."""

    @property
    def parted(self) -> bool:
        """Whether devices run other ops instead of this one: those that its rule `parted` writes."""
        return self.layout is not None and self.letter in self.layout.parted

    @property
    def located(self) -> bool:
        """Whether each device's part of the first operand states where in the whole it begins (`Layout.start`)."""
        return self.layout is not None and self.letter in self.layout.located

    @property
    def averaged(self) -> bool:
        """Whether the op is a mean over the split dimension: each device's mean is a term once divided by their number.

        The operand `Layout.scaled` is divided, if there is one, instead of the result.
        """
        return self.layout is not None and self.letter in self.layout.averaged

    @property
    def zigzag(self) -> bool:
        """Whether parts are in zig-zag."""
        return any(map(is_zigzag, (*self.needed, *self.given)))

    @property
    def divided(self) -> tuple[str, ...]:
        """The attributes that hold a size of the whole, of which each device has a part."""
        return () if self.layout is None or self.letter is None else self.layout.divided.get(self.letter, ())

    @property
    def divided_operands(self) -> tuple[int, ...]:
        """The host operands that hold such sizes."""
        if self.layout is None or self.letter is None or self.letter == self.layout.apart:
            return ()
        return self.layout.divided_operands.get(self.letter, ())


def kept(op: Op, vs: tuple[Value, ...], states: tuple[State, ...], ws: Sequence[Type]) -> Typing | None:
    """The typing of an op on operands as they are, that gives each result as they are; None if it does not."""
    if op.awaits:  # the others are waited for, and not read
        return Typing(states, (states[0],))
    if PARTIAL in states and _stays_partial(op, vs, states):
        return Typing(states, (PARTIAL,) * len(ws))
    if GREATEST in states and op.name in KEEP_GREATEST and all(state in (WHOLE, GREATEST) for state in states):
        return Typing(states, (GREATEST,) * len(ws))  # a whole value is a partial maximum, too
    return None


def _stays_partial(op: Op, vs: Sequence[Value], states: Sequence[State]) -> bool:
    """Whether the op maps partial sums to partial sums of its results."""
    if op.name in DIVIDE and not _is_float(type_of(vs[0])):
        return False
    if op.linear == "jointly":
        places = operand_places(op, vs)
        host = [is_host(v) for v in vs]
        stated = all(place.device == "host" for place, h in zip(places, host, strict=True) if h)
        return stated and all(s is PARTIAL for s, h in zip(states, host, strict=True) if not h)
    partial = [i for i, state in enumerate(states) if state is PARTIAL]
    others = [state for state in states if state is not PARTIAL]
    return (
        len(partial) == 1 and op.operand_name(partial[0]) in linear_operands(op, vs) and all(s is WHOLE for s in others)
    )


def elements(type: Type) -> int:
    """The number of elements; 1 if unknown."""
    found = type.elements if isinstance(type, TensorType) else None
    return found if isinstance(found, int) else 1


def at(letters: Letters, axis: int) -> str | None:
    """The letter of a dimension; None where the shape was not known."""
    return letters[axis] if axis < len(letters) else None


def by_letter(
    op: Op,
    letter: str,
    found: Layout,
    attrs: Attributes,
    vs: Sequence[Value],
    states: Sequence[State],
    ws: Sequence[Type],
    size: int,
) -> Typing | None:
    """The typing that splits one letter, nearest to these placements of operands; None if that is impossible."""
    if letter == found.apart:
        return _split_apart(letter, found, vs, states, ws, size)
    like = _common_split(letter, found, states)
    if like is None or not _may_be_split(letter, found, attrs, vs, ws, like, size):
        return None
    needed = placed_along(letter, found.operands, found.operand_blocks, like, WHOLE)
    made = replace(like, blocks=() if _cuts(letter, found) else like.blocks)
    given = placed_along(letter, found.results, found.result_blocks, made, PARTIAL)
    if needed is None or given is None:
        return None
    given = tuple(_without_letter(j, found) if s is PARTIAL else s for j, s in enumerate(given))
    pairs = [*zip((type_of(v) for v in vs), needed, strict=True), *zip(ws, given, strict=True)]
    if (letter in found.parted or letter in found.located) and not all(_is_known(t, s) for t, s in pairs):
        return None
    if letter in found.located and not _can_start(found, vs, needed[0], like, size):
        return None
    if not all(_fits(t, s, size) for t, s in pairs):
        return None
    if not like.is_mixed or PARTIAL not in given:
        return Typing(needed, given, letter, found)
    lessened = _linear_in(op, found, needed, vs)
    if lessened is None or any(isinstance(s, Split) for s in given):  # which would have less of its shared blocks, too
        return None
    return Typing(needed, given, letter, found, lessened)


def _may_be_split(
    letter: str,
    found: Layout,
    attrs: Attributes,
    vs: Sequence[Value],
    ws: Sequence[Type],
    like: Split,
    size: int,
) -> bool:
    """Whether the op takes parts such as these of a letter's dimension, whatever its size is."""
    if like.blocks and (letter in found.contiguous or joins(letter, found)):
        return False
    if like.loose and (letter in found.parted or joins(letter, found) or _cuts(letter, found)):
        return False
    if letter in found.averaged and (like.is_mixed or not all(map(_is_float, ws))):
        return False
    parted = letter in found.parted - found.gathered and letter != found.sequence
    if like.blocks and parted and not (letter in found.blocked and are_equal(like.blocks)):
        return False
    along = [dim_of(type_of(v), letters, letter) for v, letters in zip(vs, found.operands, strict=True)]
    count = size * (2 if like.zigzag else 1)
    return all(_divides_number(attrs.get(name), along, like, count) for name in found.divided.get(letter, ()))


def _can_start(found: Layout, vs: Sequence[Value], state: State, like: Split, size: int) -> bool:
    """Whether it can be stated where each device's part begins: as one place, or as some of the runs stated so far."""
    if like.zigzag and not found.starts:
        return False
    runs, count = len(stated_runs(found, vs, state)), size * (2 if like.zigzag else 1)
    return not runs or not runs % count or not count % runs


def _divides_number(value: object, along: Sequence[Dim], like: Split, count: int) -> bool:
    """Whether a number in an attribute is that of whole groups in each part of a dimension, as far as known.

    Where some blocks are replicated, it must be the size of the dimension.
    """
    if like.is_mixed:
        return value is not None and value in along
    if not isinstance(value, int) or isinstance(value, bool) or not like.blocks:
        return _divides(value, count)
    groups = [dim // value for dim in along if isinstance(dim, int) and value]
    return all(_divides(whole_block(block), count * group) for block in like.blocks for group in groups)


def _without_letter(result: int, found: Layout) -> State:
    """The state of a result that does not have the split letter."""
    if result in found.greatest:
        return GREATEST
    return WHOLE if result in found.whole else PARTIAL


def _split_apart(
    letter: str, found: Layout, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Type], size: int
) -> Typing | None:
    """The typing for a dimension joined from others, or cut into others, some of which may be replicated."""
    pairs = zip(found.operands, states, strict=True)
    needed = tuple(s if isinstance(s, Split) and at(letters, s.axis) == letter else WHOLE for letters, s in pairs)
    own = [s for s in needed if isinstance(s, Split)]
    if not own or any(s.loose or s.zigzag != own[0].zigzag for s in own):
        return None
    if _cuts(letter, found):
        (wanted, *_) = found.operand_blocks.values()
        (state,) = own
        groups = _grouped(wanted, state.blocks)
        if groups is None:
            return None
        given = tuple(_of_group(found.results[j].index(letter), group) for j, group in enumerate(groups))
    else:
        ((_, axis), dims), *_ = found.result_blocks.items()
        blocks = [_in_joined(state, dim) for state, dim in zip(needed, dims, strict=True)]
        if any(block is None for block in blocks):
            return None
        given = (Split(axis, tuple(block for each in blocks if each is not None for block in each)),)
    if own[0].zigzag:
        given = tuple(replace(s, zigzag=True) if isinstance(s, Split) else s for s in given)
    placed = [*zip((type_of(v) for v in vs), needed, strict=True), *zip(ws, given, strict=True)]
    return Typing(needed, given, letter, found) if all(_fits(t, s, size) for t, s in placed) else None


def stated_runs(found: Layout, vs: Sequence[Value], state: State) -> tuple[int, ...]:
    """The starts of the first operand's runs along the split dimension; empty if there is one run."""
    start = vs[found.start] if found.start is not None and found.start < len(vs) else None
    stated, first = known_ints(start) if isinstance(start, Dense) else None, type_of(vs[0])
    if not stated or not isinstance(state, Split) or not isinstance(first, TensorType):
        return ()
    runs = runs_of(stated, len(first.shape or ()))[state.axis]
    return runs if len(runs) > 1 else ()


def _grouped(wanted: Blocks, blocks: Blocks) -> list[Blocks] | None:
    """For each block into which a dimension is cut, its own blocks; None if boundaries do not match."""
    if wanted == blocks:
        return [(block,) for block in blocks]
    if len(wanted) == 1 and not blocks:
        return [wanted]
    left, found = list(blocks), list[Blocks]()
    for block in wanted:
        group: list[Block] = []
        while left and isinstance(block, int) and sum(whole_sizes(group)) < block:
            group.append(left.pop(0))
        if sum(whole_sizes(group)) != block or not group:
            return None
        found.append(tuple(group))
    return None if left else found


def whole_sizes(blocks: Sequence[Block]) -> list[int]:
    """The sizes of whole blocks, as far as they are known."""
    return [size for block in blocks if isinstance(size := whole_block(block), int)]


def are_equal(blocks: Blocks) -> bool:
    """Whether blocks are of one size, all split."""
    return all(isinstance(block, int) and block == blocks[0] for block in blocks)


def _of_group(axis: int, group: Blocks) -> State:
    """The state of a dimension that consists of these blocks."""
    if all(isinstance(block, Shared) for block in group):
        return WHOLE
    return Split(axis) if len(group) == 1 else Split(axis, group)


def _in_joined(state: State, dim: Block) -> Blocks | None:
    """The blocks of the joined dimension due to an operand in this state; None if unknown."""
    if not isinstance(state, Split):
        return (Shared(dim),) if isinstance(dim, int) else None
    return None if state.is_repeated else state.blocks or (dim,)


def _linear_in(op: Op, found: Layout, needed: Sequence[State], vs: Sequence[Value]) -> int | None:
    """The smallest split operand in which the op is linear."""
    linear = [
        i
        for i, state in enumerate(needed)
        if isinstance(state, Split)
        and (i in found.factors or op.linear == "jointly" or op.operand_name(i) in op.linear)
    ]
    return min(linear, key=lambda i: elements(type_of(vs[i])), default=None)


def dim_of(type: Type, letters: Letters, letter: str) -> Dim:
    """The size of a letter's dimension."""
    shape = type.shape if isinstance(type, TensorType) else None
    return shape[letters.index(letter)] if shape is not None and letter in letters else None


def joins(letter: str, found: Layout) -> bool:
    """Whether a result is joined from blocks along the letter."""
    return any(found.results[j][axis] == letter for j, axis in found.result_blocks)


def _cuts(letter: str, found: Layout) -> bool:
    """Whether an operand is cut into blocks along the letter."""
    return any(found.operands[i][axis] == letter for i, axis in found.operand_blocks)


def _common_split(letter: str, found: Layout, states: Sequence[State]) -> Split | None:
    """How operands are to be split along the letter, as of dimension 0; None if they do not match.

    If a block is whole in some operands and split in others, it is split.
    """
    own: list[Split] = []
    for i, (letters, state) in enumerate(zip(found.operands, states, strict=True)):
        if isinstance(state, Split) and at(letters, state.axis) == letter:
            if (wanted := found.operand_blocks.get((i, state.axis))) is not None and wanted != state.blocks:
                return None
            own.append(state)
    if len({state.zigzag for state in own}) > 1 or len({tuple(map(whole_block, state.blocks)) for state in own}) > 1:
        return None
    most = min(own, key=lambda s: sum(isinstance(block, Shared) for block in s.blocks), default=Split(0))
    return Split(0, most.blocks, bool(own) and all(state.loose for state in own), most.zigzag)


def placed_along(
    letter: str,
    places: tuple[Letters, ...],
    own_blocks: Mapping[tuple[int, int], Blocks],
    like: Split,
    otherwise: State,
) -> tuple[State, ...] | None:
    """A state for each operand or result, split `like` this along the letter; None if the letter occurs twice."""
    found: list[State] = []
    for i, letters in enumerate(places):
        if letters.count(letter) > 1:
            return None
        if letter not in letters:
            found.append(otherwise)
            continue
        axis = letters.index(letter)
        found.append(replace(like, axis=axis, blocks=own_blocks.get((i, axis), like.blocks)))
    return tuple(found)


def _fits(type: Type, state: State, size: int) -> bool:
    """Whether the split dimension consists of the blocks and it, and each of these, divides, as far as known."""
    if not isinstance(state, Split) or not isinstance(type, TensorType) or type.shape is None:
        return True
    dim, count = type.shape[state.axis], size * (2 if state.zigzag else 1)
    sizes = [whole_block(block) for block in state.blocks]
    if state.blocks and isinstance(dim, int) and None not in sizes:
        whole = dims.total(sizes)
        if isinstance(whole, int) and (dim % whole if state.is_repeated else whole != dim):
            return False
    split = [whole_block(block) for block in state.blocks if not isinstance(block, Shared)]
    return all(_divides(dim, count) for dim in (*split, *(() if state.is_mixed else (dim,))))


def _is_known(type: Type, state: State) -> bool:
    """Whether the size of the dimension that is split is a number."""
    shape = type.shape if isinstance(type, TensorType) else None
    return not isinstance(state, Split) or (shape is not None and isinstance(shape[state.axis], int))


def _divides(value: object, size: int) -> bool:
    """Whether a dimension, or a number in an attribute, divides, as far as known."""
    return not isinstance(value, int) or isinstance(value, bool) or value % size == 0


def _is_float(type: Type) -> bool:
    return isinstance(type, TensorType) and type.dtype is not None and type.dtype.kind == "float"
