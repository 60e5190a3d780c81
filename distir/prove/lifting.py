"""Applies ops to pieces, by their layouts: the result is a piece of the op's result on the wholes.

An op on rows 0 to 3 of a value gives rows 0 to 3 of the op on the value, if its layout has one letter for both. Along
a letter that a result lacks, the result is a sum, of which a part of the operands gives a partial sum. A partial sum of
an operand in which the op is linear gives one of the result. The layouts are those that sharding uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from distir.ir import Attributes, Dense, DimensionError, Literal, TensorType
from distir.ir.types import HOST
from distir.ops import Op, Reject, Value, bind, infer_types, type_of
from distir.ops.layout import Layout, Letters
from distir.ops.splitting import layout, linear_operands
from distir.prove import runs as places
from distir.prove.algebra import FACTORS, Algebra
from distir.prove.greatest import Over, greatest_over
from distir.prove.pieces import Addends, Term, TermPiece, Through, at_odds, elements, is_free, shape_of
from distir.prove.runs import Runs
from distir.prove.terms import Atom, Form, OpDetails, Shape, Unproved, factor, scaled_out

PARTIAL = "is a partial sum"
MISSING = "an all-reduce is missing"
AGAIN = "what was added is in the sum already"
"""What is said of an operand that should be a sum."""

ANYWHERE = 1
"""In the place of the device of operands."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """An op on wholes, and which piece of each of its results the op on pieces gives."""

    attrs: Attributes
    wholes: tuple[Shape, ...]
    """The whole shapes of the results."""
    runs: tuple[tuple[Runs, ...], ...]
    contracted: tuple[tuple[tuple[str, int, Runs], ...], ...]
    """By result: letters along which it is a sum, the number of addends, and which of them the operands have."""
    greatest: tuple[Over, ...]
    """By result: the dimensions of operands over some places of which it is the maximum."""
    scale: float
    """A mean over a part is so many times what it adds to the mean over the whole: it is divided by fewer elements."""
    operands: tuple[TermPiece | None, ...]
    """With constants as parts of those of the sequential program."""
    stated: Mapping[int, Shape]
    """Host operands that state the shape of a result, with that of the whole."""


def lift(
    algebra: Algebra,
    op: Op,
    attrs: Attributes,
    operands: Sequence[TermPiece | None],
    results: Sequence[Value],
    linear: frozenset[int] = frozenset(),
) -> list[TermPiece]:
    """The results of an op on pieces; `results` are their types or values. Raises Unproved.

    `linear`: operands in each of which it is linear by itself, besides those that the op names.
    """
    bound = bind(op, attrs)
    if algebra.sequential:
        algebra.attributes.setdefault(op.name, {})[bound] = None
    operands, is_located = _located(algebra, op, bound, operands, results)
    if all(piece is None or piece.has_all_places for piece in operands):
        shapes = tuple(map(shape_of, results))
        full = tuple([tuple(map(places.full, shape)) for shape in shapes])
        none = ((),) * len(results)
        lifted = Lifted(bound, shapes, full, none, none, 1.0, tuple(operands), {})
    else:
        lifted = _lifted(algebra, op, bound, operands, results, is_located)
    return _made(algebra, op, lifted, operands, results, linear)


def _located(
    algebra: Algebra, op: Op, bound: Attributes, operands: Sequence[TermPiece | None], results: Sequence[Value]
) -> tuple[Sequence[TermPiece | None], bool]:
    """The operands without the one that states at which index of the whole the first one begins; whether there is one.

    An operand that is left out states 0. Raises Unproved if the first operand begins elsewhere.
    """
    if "sharding" not in op.rules or not operands or operands[0] is None:
        return operands, False
    try:
        found = layout(op, [None if x is None else x.value for x in operands], list(map(type_of, results)), bound)
    except Reject:
        return operands, False
    if found is None or found.start is None:
        return operands, False
    data, rest = operands[0], list(operands[: found.start])
    given = operands[found.start] if len(operands) > found.start else None
    begins = [min(at, default=(0, 0))[0] for at in data.runs]
    known = (
        isinstance(given.value, (Dense, Literal)) and elements(given.value) if given is not None else (0,) * len(begins)
    )
    held = list(map(int, known)) if known else None
    matter = [k for k, letter in enumerate(found.operands[0]) if letter in found.located]
    if held is None or any(held[k] != begins[k] or len(data.runs[k]) > 1 for k in matter):
        if given is None:
            return operands, False
        said = "an unknown place" if held is None else f"{held}"
        raise Unproved(f"`{op.name}` expects that `{algebra.label(op, 0)}` begins at {said}, not at {begins}")
    rest += [None, *operands[found.start + 1 :]]
    while rest and rest[-1] is None:
        rest.pop()
    return rest, True


def _made(
    algebra: Algebra,
    op: Op,
    lifted: Lifted,
    operands: Sequence[TermPiece | None],
    results: Sequence[Value],
    more: frozenset[int],
) -> list[TermPiece]:
    """The pieces of the op's results. Raises Unproved for a partial sum where the sum is needed."""
    values = tuple([None if piece is None else piece.value for piece in operands])
    linear, dtypes = _of_values(op, values)
    linear |= more
    partial = [i for i, piece in enumerate(lifted.operands) if piece is not None and piece.is_partial]
    if len(partial) > 1 or (partial and partial[0] not in linear):
        raise Unproved(_needs_sum(algebra, op, lifted.operands, partial))
    forms: list[Form] = []
    scale = lifted.scale
    for i, piece in enumerate(lifted.operands):
        if i in lifted.stated:
            form = _stated(algebra, values[i], lifted.stated[i], shape_of(results[0]))
        else:
            form = () if piece is None else piece.form
        if i in linear and i not in partial and len(values) > 1 and _is_float(values[i]):
            form, c = scaled_out(form)
            if c != 1.0:
                algebra.laws[FACTORS] = None
            scale *= c
        forms.append(form)
    shapes = tuple([None if piece is None else piece.whole for piece in lifted.operands])
    groups: dict[Addends, list[Term]] = {(): []}
    if partial:
        groups = {}
        piece = lifted.operands[partial[0]]
        assert piece is not None
        for term in piece.terms:
            groups.setdefault(term[2], []).append(term)
    found: list[TermPiece] = []
    for j, result in enumerate(results):
        terms: list[Term] = []
        for addends, group in groups.items():
            own, c = list(forms), scale
            if partial:
                inner, d = scaled_out(tuple((atom, e) for atom, e, _ in group))
                own[partial[0]], c = inner, c * d
            if linear and any(not own[i] for i in linear if lifted.operands[i] is not None):
                continue  # linear in zeros
            whole = lifted.wholes[j]
            details = OpDetails(j, lifted.attrs, dtypes, shapes, max(len(results), op.saved))
            atom = algebra.terms.atom(op.name, whole, tuple(own), details, tuple(sorted(linear)))
            sums = [(algebra.sum_number((atom, letter), size), at) for letter, size, at in lifted.contracted[j]]
            for number, at in addends:  # of an operand: the sum over the op on the addends
                others = tuple([() if i == partial[0] else form for i, form in enumerate(own)])
                head = Through(op.name, partial[0], others, details, tuple(sorted(linear)), number)
                sums.append((algebra.sum_number(head, algebra.sizes[number]), at))
            terms.append((atom, factor(c), tuple(sorted(sums))))
        made = TermPiece(result, lifted.wholes[j], lifted.runs[j], algebra.totalled(terms))
        found.append(greatest_over(algebra, made, lifted.greatest[j]) if lifted.greatest[j] else made)
    return found


@lru_cache(maxsize=1 << 12)  # shards, replicas and microbatches repeat
def _of_values(op: Op, values: tuple[Value, ...]) -> tuple[frozenset[int], tuple[str | None, ...]]:
    """The operands in each of which an op is linear, and their element types."""
    return _linear(op, values), tuple([None if v is None else _dtype(v) for v in values])


def _lifted(
    algebra: Algebra,
    op: Op,
    bound: Attributes,
    operands: Sequence[TermPiece | None],
    results: Sequence[Value],
    is_located: bool,
) -> Lifted:
    """The op on wholes; `is_located`: an operand states where in the whole the first one begins.

    Raises Unproved where pieces do not belong together, or the layout does not tell.
    """
    values = [None if piece is None else piece.value for piece in operands]
    types = [type_of(v) for v in results]
    try:
        near = layout(op, values, types, bound)
    except Reject:
        near = None
    if near is None:
        raise Unproved(f"`{op.name}` has no layout: nothing says what it does to parts of its operands")
    if is_located:
        near = replace(near, located=frozenset())
    reason: Unproved | None = None
    for attrs in _whole_attributes(algebra, op, near, bound, operands):
        try:
            known = _of_wholes(algebra, op, attrs, operands, len(results))
            found, wholes = known if known is not None else (near, None)
            if is_located:
                found = replace(found, located=frozenset())
        except Unproved as unproved:
            reason = reason or unproved
            continue
        for one in (found, *found.others):
            try:
                return _of_layout(algebra, op, one, wholes, bound, attrs, operands, results)
            except Unproved as unproved:
                reason = reason or unproved
    assert reason is not None
    raise reason


def _of_layout(
    algebra: Algebra,
    op: Op,
    found: Layout,
    inferred: tuple[Shape, ...] | None,
    bound: Attributes,
    attrs: Attributes,
    operands: Sequence[TermPiece | None],
    results: Sequence[Value],
) -> Lifted:
    """The same by one layout, for these attributes on wholes, whose results have the shapes `inferred`, if known."""
    operands = _refitted(algebra, found, operands)
    letters = _letters(algebra, op, found, operands)
    fitted = tuple(
        [
            None if piece is None else _fitted(algebra, op, piece, own, letters)
            for piece, own in zip(operands, found.operands, strict=True)
        ]
    )
    split = {letter: at for letter, at in letters.items() if at[1] != places.full(at[0])}
    _check(op, found, split, bound, attrs)
    scale = 1.0
    for letter, (size, at) in split.items():
        if letter in found.averaged:
            scale *= size / places.length(at)
    wholes: list[Shape] = []
    runs: list[tuple[Runs, ...]] = []
    contracted: list[tuple[tuple[str, int, Runs], ...]] = []
    greatest: list[Over] = []
    for j, (result, own) in enumerate(zip(results, found.results, strict=True)):
        shape = shape_of(result)
        if len(own) != len(shape):
            raise Unproved(f"the layout of `{op.name}` does not tell the dimensions of its results")
        dims = [
            _dimension(op, n, split.get(letter or ""), found.grains.get(letter or "", 1))
            for n, letter in zip(shape, own, strict=True)
        ]
        wholes.append(tuple([size for size, _ in dims]))
        runs.append(tuple([at for _, at in dims]))
        sums = [(letter, size, at) for letter, (size, at) in sorted(split.items()) if letter not in own]
        for letter, _, _ in sums:
            if (
                op.family.startswith("onnx ")
                and "sharding" not in op.rules
                and not _adds_up(op, found, letter, operands)
            ):
                raise Unproved(f"nothing says that `{op.name}` is a sum over parts of its operands")
        is_sum = j not in found.whole | found.greatest
        contracted.append(tuple(sums) if is_sum else ())
        over = [(_dimension_of(found, letter), at, size) for letter, size, at in sums if j in found.greatest]
        greatest.append(tuple(sorted(over)))
    if inferred is not None and inferred != tuple(wholes):
        raise Unproved(f"the parts that `{op.name}` is given do not fit its results")
    stated = {} if found.stated is None else {found.stated: wholes[0]}
    return Lifted(attrs, tuple(wholes), tuple(runs), tuple(contracted), tuple(greatest), scale, fitted, stated)


def _dimension_of(found: Layout, letter: str) -> tuple[int, int]:
    """The first operand with a letter, and its dimension."""
    return next((i, own.index(letter)) for i, own in enumerate(found.operands) if letter in own)


def _adds_up(op: Op, found: Layout, letter: str, operands: Sequence[TermPiece | None]) -> bool:
    """Whether an op whose layout follows from the signature is linear in an operand with the letter: a sum over it."""
    linear = _linear(op, [None if piece is None else piece.value for piece in operands])
    return any(letter in found.operands[i] for i in linear)


def _of_wholes(
    algebra: Algebra, op: Op, attrs: Attributes, operands: Sequence[TermPiece | None], count: int
) -> tuple[Layout, tuple[Shape, ...]] | None:
    """The layout for wholes, in which a dimension of 1 is one that broadcasts, and the shapes of their results.

    Cached for all shards, replicas and microbatches of an op: devices and places do not matter.
    """
    values: list[Value] = []
    for piece in operands:
        known = type_of(piece.value) if piece is not None else None
        if piece is None or isinstance(piece.value, (Dense, Literal)) or not isinstance(known, TensorType):
            values.append(None if piece is None else piece.value)
        else:
            device = known.device if known.device in (None, HOST) else ANYWHERE
            values.append(TensorType(known.dtype, piece.whole, device, known.offloaded))
    key = op.name, attrs, tuple(values), count
    if key not in algebra.wholes:
        algebra.wholes[key] = _inferred(op, attrs, values, count)
    return algebra.wholes[key]


def _inferred(
    op: Op, attrs: Attributes, values: Sequence[Value], count: int
) -> tuple[Layout, tuple[Shape, ...]] | None:
    try:
        types = infer_types(op, values, attrs, count)
        found = layout(op, values, types, attrs)
        shapes = tuple(map(shape_of, types))
    except (Reject, DimensionError, Unproved):
        return None
    return None if found is None or found.stated is not None else (found, shapes)


def _whole_attributes(
    algebra: Algebra, op: Op, found: Layout, bound: Attributes, operands: Sequence[TermPiece | None]
) -> list[Attributes]:
    """What the attributes on wholes may be: those that count what is in a part, multiplied; or as they were seen."""
    changed: dict[str, Any] = dict(bound)
    for letter, names in found.divided.items():
        for piece, own in zip(operands, found.operands, strict=True):
            if piece is None or letter not in own:
                continue
            axis = own.index(letter)
            size, length = piece.whole[axis], places.length(piece.runs[axis])
            part = places.part(piece.runs[axis], size)
            if part is not None:
                numbers = [(name, n) for name in names if isinstance(n := bound[name], (int, float))]
                changed.update({name: number * part[1] for name, number in numbers})
                break
            counted = [(name, count) for name in names if isinstance(count := bound[name], int)]
            if length and all(not count * size % length for _, count in counted):
                changed.update({name: count * size // length for name, count in counted})
                break
    first = Attributes(changed)
    return [first, *(seen for seen in algebra.attributes.get(op.name, ()) if seen != first)]


def _letters(
    algebra: Algebra, op: Op, found: Layout, operands: Sequence[TermPiece | None]
) -> dict[str, tuple[int, Runs]]:
    """Which places of each letter the operands have. Raises Unproved where they differ, or a dimension has none."""
    letters: dict[str, tuple[int, Runs]] = {}
    for i, (piece, own) in enumerate(zip(operands, found.operands, strict=True)):
        if piece is None or piece.constant is not None:
            continue
        if len(own) != len(piece.whole):
            if not piece.has_all_places:
                raise Unproved(f"the layout of `{op.name}` does not tell the dimensions of `{algebra.label(op, i)}`")
            continue
        for axis, letter in enumerate(own):
            at = piece.whole[axis], piece.runs[axis]
            if letter is None:
                if at[1] != places.full(at[0]):
                    message = f"`{op.name}` needs all of dimension {axis} of `{algebra.label(op, i)}`, "
                    raise Unproved(f"{message}which has the places {places.shown(at[1])} of {at[0]}")
                continue
            known = letters.setdefault(letter, at)
            if known == at:
                continue
            one, other = places.part(known[1], known[0]), places.part(at[1], at[0])
            if known == places.grown(at, found.grains.get(letter, 1)):
                continue
            if known[0] == at[0] or one is None or one != other:
                raise Unproved(f"`{op.name}`: {at_odds(axis, known, at)}")
    return letters


def _refitted(algebra: Algebra, found: Layout, operands: Sequence[TermPiece | None]) -> list[TermPiece | None]:
    """The operands with the places that others have of dimensions along which all elements are equal."""
    letters: dict[str, tuple[int, Runs]] = {}
    pairs = list(zip(operands, found.operands, strict=True))
    for piece, own in pairs:
        if piece is not None and piece.constant is None and len(own) == len(piece.whole):
            for axis, letter in enumerate(own):
                if letter is not None and not is_free(piece, axis):
                    letters.setdefault(letter, (piece.whole[axis], piece.runs[axis]))
    made: list[TermPiece | None] = []
    for piece, own in pairs:
        if piece is None or piece.constant is not None or len(own) != len(piece.whole):
            made.append(piece)
            continue
        dims = [letters.get(x or "", (n, r)) for x, n, r in zip(own, piece.whole, piece.runs, strict=True)]
        made.append(algebra.refitted(piece, tuple([n for n, _ in dims]), tuple([at for _, at in dims])))
    return made


def _fitted(
    algebra: Algebra, op: Op, piece: TermPiece, own: Letters, letters: Mapping[str, tuple[int, Runs]]
) -> TermPiece:
    """A constant as the part that is due of one of the sequential program."""
    atom = piece.constant
    if atom is None or len(own) != len(piece.whole):
        return piece
    dims = [_dimension(op, n, letters.get(x or "")) for x, n in zip(own, piece.whole, strict=True)]
    whole, runs = tuple([size for size, _ in dims]), tuple([at for _, at in dims])
    if whole == piece.whole and runs == piece.runs:
        return piece
    if tuple(map(places.length, runs)) != piece.whole:
        raise Unproved("a constant has another size than the part that is due")
    if atom.kind == "fill":
        larger = algebra.terms.atom("fill", whole, details=atom.details)
    else:
        larger = algebra.containing(atom, whole, runs)
    if larger is None:
        raise Unproved("a constant is not the part of one of the sequential program that is due here")
    return replace(piece, whole=whole, runs=runs, terms=((larger, piece.terms[0][1], ()),))


def _check(op: Op, found: Layout, split: Mapping[str, tuple[int, Runs]], bound: Attributes, attrs: Attributes) -> None:
    """Raises Unproved for a letter along which the op is not the same on parts."""
    counted = {name for letter in split for name in found.divided.get(letter, ())}
    if any(attrs[name] != bound[name] for name in bound if name not in counted):
        raise Unproved(f"the attributes of `{op.name}` do not fit the parts of its operands")
    for letter, (size, at) in split.items():
        if letter in found.parted or letter in found.located or letter == found.apart:
            raise Unproved(f"`{op.name}` on the places {places.shown(at)} of {size} depends on where they are")
        blocks = [*found.operand_blocks, *((-1 - j, axis) for j, axis in found.result_blocks)]
        for i, axis in blocks:
            own = found.operands[i] if i >= 0 else found.results[-1 - i]
            if own[axis] == letter:
                raise Unproved(f"`{op.name}` cuts or joins the dimension of which there are {places.shown(at)}")
        aligned = places.in_blocks(at, found.grains.get(letter, 0))
        if letter in found.contiguous and not aligned and places.part(at, size) is None:
            raise Unproved(f"`{op.name}` needs one of equal parts, found {places.shown(at)} of {size}")
        if found.divided_operands.get(letter):
            raise Unproved(f"`{op.name}` states a size that depends on the part")
        for name in found.divided.get(letter, ()):
            whole, own = attrs[name], bound[name]
            if not isinstance(whole, int) or not isinstance(own, int) or not _counts(at, size, own, whole):
                raise Unproved(f"`{name}` of `{op.name}` does not fit the part {places.shown(at)} of {size}")


def _counts(at: Runs, size: int, own: int, whole: int) -> bool:
    """Whether places have `own` of the `whole` equal parts, one after the other, that a dimension consists of."""
    part = places.part(at, size)
    if part is not None:
        return own * part[1] == whole
    each, rest = divmod(size, whole) if whole else (0, 0)
    if not each or rest or any(end % each for run in at for end in run):
        return False
    return own * each == places.length(at)


def _dimension(op: Op, n: int, at: tuple[int, Runs] | None, grain: int = 1) -> tuple[int, Runs]:
    """The whole size and the places of a result's dimension of size `n`, perhaps of blocks of `grain` places."""
    if at is None or at[1] == places.full(at[0]):
        return n, places.full(n)
    if places.length(at[1]) == n:
        return at
    part = places.part(at[1], at[0])
    if part is None and places.in_blocks(at[1], grain) and places.length(at[1]) == n * grain:
        return at[0] // grain, tuple([(start // grain, stop // grain) for start, stop in at[1]])
    if part is None:
        raise Unproved(f"`{op.name}` gives {n} places for {places.shown(at[1])} of {at[0]}")
    return part[1] * n, ((part[0] * n, (part[0] + 1) * n),)


def _linear(op: Op, values: Sequence[Value]) -> frozenset[int]:
    """The operands in each of which the op is linear by itself."""
    if op.linear == "jointly":
        devices = [i for i, v in enumerate(values) if v is not None and not isinstance(v, (Dense, Literal))]
        return frozenset(devices) if len(devices) == 1 else frozenset()
    names = linear_operands(op, values)
    return frozenset(i for i in range(len(values)) if values[i] is not None and op.operand_name(i) in names)


def _stated(algebra: Algebra, value: Value, whole: Shape, own: Shape) -> Form:
    """A host operand that states the shape of a part, as it states that of the whole."""
    held = elements(value) if isinstance(value, (Dense, Literal)) else None
    if held is None or len(held) > len(own):
        raise Unproved("the shape that an operand states is not known")
    behind = len(own) - len(held)
    wanted = tuple([whole[behind + k] if n == own[behind + k] else n for k, n in enumerate(held)])
    return algebra.of_value(Literal(wanted)).form


def _needs_sum(algebra: Algebra, op: Op, operands: Sequence[TermPiece | None], partial: Sequence[int]) -> str:
    """What to say of operands that are partial sums, or more than sums."""
    names = " and ".join(f"`{algebra.label(op, i)}`" for i in partial)
    for i in partial:
        piece = operands[i]
        if piece is not None and _has_addends_again(algebra, piece):
            return f"`{algebra.label(op, i)}` counts some addends of a sum more often than others: {AGAIN}"
    if len(partial) > 1:
        return f"{names} are partial sums, of which `{op.name}` gives no part of the result: {MISSING}"
    return f"{names} {PARTIAL}, and `{op.name}` needs the sum: {MISSING}"


def _has_addends_again(algebra: Algebra, piece: TermPiece) -> bool:
    """Whether a partial sum has all addends of a sum, and some of them more often: no all-reduce makes it the sum."""
    held: dict[Atom, list[Addends]] = {}
    for atom, _, addends in piece.terms:
        held.setdefault(atom, []).append(addends)
    for own in held.values():
        numbers = {number for addends in own for number, _ in addends}
        if len(own) < 2 or len(numbers) != 1 or any(len(addends) > 1 for addends in own):
            continue  # all addends, a part of them alone, or parts of sums of sums
        size = algebra.sizes[numbers.pop()]
        with suppress(Unproved):  # it depends on the device
            if places.cover([addends[0][1] if addends else places.full(size) for addends in own], size):
                return True
    return False


def _is_float(value: Value) -> bool:
    found = type_of(value)
    return isinstance(found, TensorType) and found.dtype is not None and found.dtype.kind == "float"


def _dtype(value: Value) -> str:
    found = type_of(value)
    return found.dtype.name if isinstance(found, TensorType) and found.dtype is not None else "?"
