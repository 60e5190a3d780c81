"""`Expand` as late as can be: what is the same for every member of the batch is computed once, with a batch of 1.

Exporters expand masks, positions and states to the size of the batch, and then compute with them. Here each statement
that takes such an `Expand` is written for what was expanded, and the expanding goes behind it; it ends in an op that
broadcasts. Elements picked by a grid of indices, as `mask[batch, key]` is, are slices, transposed. So nothing is left
that depends on the batch's size alone, but an `Expand` where a value must have all its members.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from distir.importers.batched import broadcasts
from distir.ir import DTYPES, Apply, Attributes, Constant, Dense, Dim, Shape, SymbolicDim, TensorType, dims
from distir.ops import OPS, Reject, Value, dense, to_array, type_of
from distir.ops.layout import Layout
from distir.ops.numeric import np
from distir.ops.splitting import layout

if TYPE_CHECKING:
    from distir.importers.translation import Translation


def sunk(into: Translation, statement: Apply) -> Apply:
    """The statement on what its operands were before they were expanded, expanding the result if it must be.

    What is needed before the last statement is appended. The statement itself where it needs them expanded. Of its
    result only what it would best be called is known.
    """
    rule = _RULES.get(statement.op, _elementwise if broadcasts(statement.op) else _along_letters)
    return rule(into, statement) or statement


# What makes an `Expand`.


def _tile(into: Translation, statement: Apply) -> Apply | None:
    """Copies one after the other are copies along a dimension of their own, merged with the one that is repeated."""
    hint, (data, repeats) = statement.results[0], map(str, statement.args)
    shape, counts = _shape(into, data), into.values[repeats]
    if not shape or not isinstance(counts, Dense) or len(counts.values) != len(shape):
        return None
    times = [count if isinstance(count, SymbolicDim) else int(count) for count in counts.values]
    merged = [i for i, (size, count) in enumerate(zip(shape, times, strict=True)) if size != 1 != count]
    rest = [-1 if i in merged else dims.multiply(*pair) for i, pair in enumerate(zip(shape, times, strict=True))]
    if len(merged) > 1 or (merged and not all(isinstance(size, int) for size in rest)):
        return None
    source, whole = _source(into, data), [dims.multiply(*pair) for pair in zip(shape, times, strict=True)]
    if not merged:
        return _expanded(into, source, tuple(whole))
    (at,) = merged
    source = _append(into, f"{hint}.once", "Unsqueeze", (data, _sizes(into, hint, (at,))))
    made = _expanded(into, source, (*whole[:at], times[at], shape[at], *whole[at + 1 :]))
    if made is None:
        return None
    copies = _append(into, f"{hint}.copies", made.op, tuple(map(str, made.args)))
    return Apply(statement.results, "Reshape", (copies, _sizes(into, hint, rest)))


def _constant_of_shape(into: Translation, statement: Apply) -> Apply | None:
    sizes, filling = into.values[str(statement.args[0])], dense(statement.attrs.get("value", 0.0))
    if not isinstance(sizes, Dense) or not sizes.symbolic:
        return None
    one = into.builder.fresh(f"{statement.results[0]}.value")
    into.values[one] = Dense(filling.dtype, (1,) * len(sizes.values), filling.values)
    return Apply(statement.results, "Expand", (one, statement.args[0]))


def _expand(into: Translation, statement: Apply) -> Apply | None:
    """An `Expand` of an `Expand`, and one that adds dimensions: what is expanded has all of them."""
    data, whole = str(statement.args[0]), _result_shape(into, statement)
    source = _source(into, data)
    shape = _shape(into, source)
    if whole is None or shape is None or None in shape:
        return None
    if len(shape) == len(whole):
        return _expanded(into, source, whole) if source != data or shape == whole else None
    axes = tuple(range(len(whole) - len(shape)))
    wide = _append(into, statement.results[0], "Unsqueeze", (data, _sizes(into, data, axes)))
    return Apply(statement.results, "Expand", (wide, statement.args[1]))


# What passes it on.


def _elementwise(into: Translation, statement: Apply) -> Apply | None:
    """Operands that broadcast need not be expanded; the result must be, where none of them is as large."""
    args = tuple(str(arg) for arg in statement.args)
    sources = tuple(_source(into, arg) for arg in args)
    if sources == args:
        return None
    rank = max(len(_shape(into, arg) or ()) for arg in args)
    numbers = [arg != source and _is_number(into, source) for arg, source in zip(args, sources, strict=True)]
    if any(not number and len(_shape(into, arg) or ()) == rank for arg, number in zip(args, numbers, strict=True)):
        sources = tuple(_number(into, s) if number else s for s, number in zip(sources, numbers, strict=True))
    return _behind(into, statement, sources)


def _is_number(into: Translation, name: str) -> bool:
    known = into.known(name)
    return known is not None and len(known.values) == 1


def _number(into: Translation, name: str) -> str:
    """A constant of one element without its dimensions, as a person would write it."""
    known = into.known(name)
    assert known is not None
    given = into.builder.fresh(f"{name}.number")
    into.values[given] = Dense(known.dtype, (), known.values)
    return given


def _product(into: Translation, statement: Apply) -> Apply | None:
    """Matrices broadcast along what is before their last two dimensions."""
    args = [str(arg) for arg in statement.args]
    if any(len(_shape(into, arg) or ()) < 2 for arg in args):
        return None
    sources = tuple(_as_needed(into, arg, range(len(_shape(into, arg) or ()) - 2)) or arg for arg in args)
    return None if list(sources) == args else _behind(into, statement, sources)


def _attention(into: Translation, statement: Apply) -> Apply | None:
    """A mask broadcasts to the scores, but along the keys."""
    args = [str(arg) for arg in statement.args]
    mask = args[3] if len(args) > 3 else ""
    source = _source(into, mask) if mask else mask
    shape = _shape(into, mask)
    if source == mask or shape is None:
        return None
    mask = _as_needed(into, mask, range(len(shape) - 1)) or mask
    return Apply(statement.results, statement.op, (*args[:3], mask, *args[4:]), statement.attrs)


def _along_letters(into: Translation, statement: Apply) -> Apply | None:
    """Dimensions along which an op does the same for each place, as its layout says."""
    args = [str(arg) for arg in statement.args]
    if statement.op not in OPS or all(_source(into, arg) == arg for arg in args):
        return None
    found = _layout(into, statement)
    if found is None or len(found.results) != 1:
        return None
    letters = _free_letters(into, args, found) & {letter for letter in found.results[0] if letter is not None}
    if not letters:
        return None
    sources: list[str] = []
    for arg, own in zip(args, found.operands, strict=True):
        source = _as_needed(into, arg, [axis for axis, letter in enumerate(own) if letter in letters])
        if source is None:
            return None
        sources.append(source)
    return _behind(into, statement, tuple(sources))


def _reshape(into: Translation, statement: Apply) -> Apply | None:
    """Dimensions that stay by themselves."""
    data, given = map(str, statement.args)
    before, after = _shape(into, data), _result_shape(into, statement)
    found = _layout(into, statement)
    if _source(into, data) == data or before is None or after is None or found is None:
        return None
    letters = _free_letters(into, [data, given], found) - found.contiguous
    source = _as_needed(into, data, [axis for axis, letter in enumerate(found.operands[0]) if letter in letters])
    sizes = [1 if letter in letters else size for letter, size in zip(found.results[0], after, strict=True)]
    open_sizes = [size for size in sizes if not isinstance(size, int)]
    if not letters or source is None or len(open_sizes) > 1 or (open_sizes and 0 in sizes):
        return None
    said = tuple(size if isinstance(size, int) else -1 for size in sizes)
    name = _append(into, statement.results[0], "Reshape", (source, _sizes(into, data, said)))
    return _expanded(into, name, after)


def _layout(into: Translation, statement: Apply) -> Layout | None:
    vs = tuple(into.values[str(arg)] for arg in statement.args)
    if any(v is not None and not isinstance(type_of(v), TensorType) for v in vs):
        return None
    try:
        ws = into.functions.domain.answer(Apply(("_",), statement.op, statement.args, statement.attrs), vs)
        return layout(OPS[statement.op], vs, [type_of(w) for w in ws], statement.attrs)
    except Reject:
        return None


def _free_letters(into: Translation, args: Sequence[str], found: Layout) -> set[str]:
    """The letters of dimensions that are expanded in all operands that have them."""
    free: set[str] = set()
    bound: set[str | None] = {*found.parted, *found.averaged, *found.divided, *found.divided_operands}
    bound.update(found.operands[value][axis] for value, axis in found.operand_blocks)
    bound.update(found.results[value][axis] for value, axis in found.result_blocks)
    for arg, own in zip(args, found.operands, strict=True):
        now, then = _shape(into, arg) or (), _shape(into, _source(into, arg)) or ()
        for letter, size, before in zip(own, now, then, strict=False):
            if letter is not None:
                (free if size != before == 1 else bound).add(letter)
    return free - bound


# Elements picked by a grid of indices.


def _gather_nd(into: Translation, statement: Apply) -> Apply | None:
    """Indices that each depend on dimensions of their own: one `Gather` after the other, none for those that count.

    Where one index depends on dimensions that others count through, it picks elements along its own.
    """
    data, indices = map(str, statement.args)
    shape, whole = _shape(into, data), _result_shape(into, statement)
    parts = _components(into, indices)
    if not parts or statement.attrs.get("batch_dims", 0) != 0 or shape is None or whole is None:
        return None
    rank = len(_shape(into, parts[0]) or ()) - 1
    sources = [_source(into, part) for part in parts]
    axes = [[axis for axis, size in enumerate((_shape(into, s) or ())[:-1]) if size != 1] for s in sources]
    counting = [len(own) == 1 and _counts(into, s, n) for s, own, n in zip(sources, axes, shape, strict=False)]
    if len({axis for own in axes for axis in own}) == sum(map(len, axes)):
        return _outer(into, statement, sources, axes, counting, whole)
    last = len(parts) - 1
    if rank == last and all(counting[:-1]) and axes[:-1] == [[axis] for axis in range(last)]:
        return _picked(into, statement, parts[-1], shape)
    return None


def _components(into: Translation, indices: str) -> list[str]:
    """The indices along each dimension, of which a last dimension was made; none where that is not known."""
    shape = _shape(into, indices)
    if not shape or None in shape:
        return []
    if shape[-1] == 1:
        return [indices]
    maker = into.makers.get(_source(into, indices))
    if maker is None or maker.op != "Concat" or maker.attrs.get("axis") not in (-1, len(shape) - 1):
        return []
    parts = [str(arg) for arg in maker.args]
    shapes = [_shape(into, part) for part in parts]
    return parts if all(s and s[-1] == 1 and None not in s for s in shapes) else []


def _outer(
    into: Translation,
    statement: Apply,
    sources: Sequence[str],
    axes: Sequence[Sequence[int]],
    counting: Sequence[bool],
    whole: Shape,
) -> Apply:
    hint, name = statement.results[0], str(statement.args[0])
    for at in reversed(range(len(sources))):
        if counting[at]:
            continue
        index, own = sources[at], axes[at]
        gone = tuple(axis for axis in range(len(_shape(into, index) or ())) if axis not in own)
        index = _append(into, f"{hint}.index", "Squeeze", (index, _sizes(into, index, gone)))
        name = _append(into, hint, "Gather", (name, index), axis=at)
    order = [axis for own in axes for axis in own]
    behind = len(_shape(into, name) or ()) - len(order)
    places = [*sorted(range(len(order)), key=order.__getitem__), *range(len(order), len(order) + behind)]
    if places != sorted(places):
        name = _append(into, hint, "Transpose", (name,), perm=tuple(places))
    missing = tuple(axis for axis in range(len(whole) - behind) if axis not in order)
    if missing:
        name = _append(into, hint, "Unsqueeze", (name, _sizes(into, name, missing)))
    return _expanded(into, name, whole) or statement


def _picked(into: Translation, statement: Apply, index: str, shape: Shape) -> Apply:
    """`data[i, …, index[i, …]]`: along the dimension behind those that are counted through."""
    hint, data, place = statement.results[0], str(statement.args[0]), len(_shape(into, index) or ()) - 1
    behind = len(shape) - place - 1
    if behind:
        new = tuple(range(place + 1, len(shape)))
        index = _append(into, f"{hint}.index", "Unsqueeze", (index, _sizes(into, index, new)))
        target = (*(1,) * (place + 1), *(size if isinstance(size, int) else -1 for size in shape[place + 1 :]))
        if -1 in target:
            return statement
        index = _append(into, f"{hint}.index", "Expand", (index, _sizes(into, index, target)))
    name = _append(into, f"{hint}.picked", "GatherElements", (data, index), axis=place)
    return Apply(statement.results, "Squeeze", (name, _sizes(into, name, (place,))))


def _counts(into: Translation, name: str, size: Dim) -> bool:
    """Whether a value is 0, 1, … up to all positions of a dimension, along its one dimension that is not 1."""
    known = into.known(name)
    if known is not None:
        return isinstance(size, int) and np.array_equal(to_array(known).reshape(-1), np.arange(size))
    while (maker := into.makers.get(name)) is not None and maker.op in _SAME_ELEMENTS:
        name = str(maker.args[0])
    if maker is None or maker.op != "Range" or _shape(into, name) != (size,):
        return False
    start, _, delta = (into.known(str(arg)) for arg in maker.args)
    return start is not None and delta is not None and (start.values, delta.values) == ((0,), (1,))


_SAME_ELEMENTS = frozenset(("Cast", "Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))
"""Ops that leave the elements of what has one dimension that is not 1 in their order."""

_RULES = {
    "Attention": _attention,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "GatherND": _gather_nd,
    "MatMul": _product,
    "Reshape": _reshape,
    "Tile": _tile,
}


# Before and behind.


def _source(into: Translation, name: str) -> str:
    """What a value was before it was expanded, with as many dimensions; the value itself where it was not."""
    maker = into.makers.get(name)
    if maker is None or maker.op != "Expand":
        return name
    source = str(maker.args[0])
    before, after = _shape(into, source), _shape(into, name)
    return source if before is not None and after is not None and len(before) == len(after) else name


def _as_needed(into: Translation, name: str, axes: Collection[int]) -> str | None:
    """A value as it was before it was expanded along some axes; None where the sizes of others cannot be said."""
    source = _source(into, name)
    if source == name:
        return name
    before, after = _shape(into, source) or (), _shape(into, name) or ()
    wanted = tuple(b if i in axes else a for i, (b, a) in enumerate(zip(before, after, strict=True)))
    if wanted == before:
        return source
    if wanted == after:
        return name
    made = _expanded(into, source, wanted)
    return None if made is None else _append(into, f"{name}.expanded", made.op, tuple(map(str, made.args)))


def _behind(into: Translation, statement: Apply, sources: tuple[str, ...]) -> Apply | None:
    """The statement on other operands, its result expanded to what it was; None where that cannot be said."""
    whole = _result_shape(into, statement)
    found = Apply(statement.results, statement.op, sources, statement.attrs)
    made = _result_shape(into, found)
    if whole is None or made is None or len(whole) != len(made):
        return None
    if made == whole:
        return found
    if not _can_be_said(into, whole):
        return None
    name = _append(into, statement.results[0], statement.op, sources, **statement.attrs)
    return _expanded(into, name, whole)


def _expanded(into: Translation, source: str, whole: Shape) -> Apply | None:
    """The statement that expands a value to a shape; None where its sizes cannot be said."""
    before = _shape(into, source)
    if before == whole:
        return Apply((), "Identity", (source,))
    if before is None or len(before) != len(whole) or not _can_be_said(into, whole):
        return None
    target = tuple(1 if b == a else a for b, a in zip(before, whole, strict=True))
    return Apply((), "Expand", (source, _sizes(into, source, target)))


def _can_be_said(into: Translation, shape: Shape) -> bool:
    """Whether each size is a number, or one that a parameter has."""
    stated = [p.type.shape for p in into.builder.params if isinstance(p.type, TensorType) and p.type.shape]
    known = {size for sizes in stated for size in sizes}
    return all(isinstance(size, int) or (isinstance(size, SymbolicDim) and size in known) for size in shape)


def _sizes(into: Translation, of: str, sizes: Sequence[Dim]) -> str:
    name = into.builder.fresh(f"{of}.sizes")
    into.values[name] = Dense(DTYPES["Int64"], (len(sizes),), tuple(size for size in sizes if size is not None))
    return name


def _append(into: Translation, hint: str, op: str, args: tuple[str, ...], **attrs: Constant) -> str:
    name = into.builder.fresh(hint)
    into.append(Apply((name,), op, args, Attributes(attrs)))
    return name


def _result_shape(into: Translation, statement: Apply) -> Shape | None:
    """The shape of the one result; None where it is not known in full."""
    vs: tuple[Value, ...] = tuple(into.values[str(arg)] for arg in statement.args)
    try:
        found = into.functions.domain.answer(Apply(("_",), statement.op, statement.args, statement.attrs), vs)
    except Reject:
        return None
    stated = type_of(found[0]) if len(found) == 1 else None
    shape = stated.shape if isinstance(stated, TensorType) else None
    return None if shape is None or None in shape else shape


def _shape(into: Translation, name: str) -> Shape | None:
    stated = type_of(into.values.get(name))
    return stated.shape if isinstance(stated, TensorType) else None
