"""Rotary position embedding, however it is spelled: by halves or neighbours, with complex numbers, of a part of a head.

What a spelling does to the elements of a head is followed element by element, as a sum of products. Two numbers of each
sum are what is looked for: an element of a head times a cosine, and its partner times a sine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distir.importers.recognition.rewriting import MatchedFunction, rule
from distir.ir import Apply, Shape
from distir.ops import to_array

LARGEST = 1024
"""Elements of the largest head."""

DEEPEST = 16
"""Statements that a spelling may have on a way."""

Cell = tuple[tuple[tuple[int, ...], float], ...]
"""An element as a sum: of products of elements of values, each with its factor, in order. These go by numbers."""

SEEN_THROUGH = {
    *("Slice", "Split", "Concat", "Neg", "Mul", "Add", "Sub", "Reshape", "Unsqueeze", "Squeeze", "Expand"),
    *("Cos", "Sin", "Cast", "RotaryEmbedding"),
}


@rule("Add", "Concat", "Reshape")
def rotary(program: MatchedFunction, root: Apply) -> str | None:
    """Each pair of elements of a head turned by the angle of its position."""
    shape = program.shape(root.results[0])
    if shape is None or len(shape) != 4 or not isinstance(shape[-1], int) or not 2 <= shape[-1] <= LARGEST:
        return None
    if not _cuts_and_joins(program, root.results[0]):
        return None
    readings = (_read(program, root, shape, _Rows(program, halves)) for halves in (False, True))
    return next(filter(None, readings), None) or _read_of_sums(program, root, shape)


def _read_of_sums(program: MatchedFunction, root: Apply, shape: Shape) -> str | None:
    """The same where heads are the result of a product or a sum, as with a bias, which is not to be seen through."""
    seen = _Rows(program, False)
    seen.of(root.results[0])
    made = [name for name in seen.known if name != root.results[0] and program.shape(name) == shape]
    sums = [name for name in made if (maker := program.maker(name)) is not None and maker.op in ("Add", "Sub", "Mul")]
    readings = (_read(program, root, shape, _Rows(program, halves, x)) for x in sums for halves in (False, True))
    return next(filter(None, readings), None)


def _read(program: MatchedFunction, root: Apply, shape: Shape, rows: _Rows) -> str | None:
    whole = rows.of(root.results[0])
    if whole is None or math.prod(whole.shape[:-1]) != 1:
        return None
    dtype = program.dtype(root.results[0])
    for x in rows.heads(shape, root.results[0]):
        row = rows.known[x]
        if row is not None and program.dtype(x) != dtype:  # parts are converted, not the whole
            row = rows.marked(row, ("Cast", dtype))
        found = _turned(whole.cells, row)
        if found is None or not program.inner(root, rows.between(root.results[0], x)):
            continue
        pairs, interleaved = found
        caches = [rows.with_halves([pair[i] for pair in pairs], interleaved) for i in (0, 1)]
        if caches[0] is not None and caches[1] is not None:
            x = x if program.dtype(x) == dtype or dtype is None else program.apply("Cast", x, to=dtype)
            return _written(program, x, caches[0], caches[1], interleaved, 2 * len(pairs))
    return None


def _written(program: MatchedFunction, x: str, cos: str, sin: str, interleaved: bool, turning: int) -> str | None:
    """The op, with rows of cosines and sines as it wants them, and heads before tokens."""
    shape = program.shape(x)
    laid = [_laid(program, cache, shape or ()) for cache in (cos, sin)]
    if shape is None or len(shape) != 4 or None in laid or laid[0] != laid[1]:
        return None
    tokens = laid[0]
    caches = [_cache(program, name, 4, tokens) for name in (cos, sin)]
    attrs: dict[str, Any] = {"interleaved": True} if interleaved else {}
    if turning != shape[-1]:
        attrs["rotary_embedding_dim"] = turning
    if tokens == 2:
        return program.apply("RotaryEmbedding", x, *caches, **attrs)
    swapped = program.apply("Transpose", x, perm=(0, 2, 1, 3))
    turned = program.apply("RotaryEmbedding", swapped, *caches, like=x, **attrs)
    return program.apply("Transpose", turned, perm=(0, 2, 1, 3), like=x)


def _laid(program: MatchedFunction, cache: str, heads: Shape) -> int | None:
    """Which dimension of the heads the tokens are, as a table of angles that broadcasts with them says."""
    shape = program.shape(cache)
    if shape is None or not 2 <= len(shape) <= 4:
        return None
    padded = (*(1,) * (4 - len(shape)), *shape)
    if padded[0] != 1 and padded[0] != heads[0]:
        return None
    if padded[1] == 1 and padded[2] == heads[2]:
        return 2
    return 1 if padded[2] == 1 and padded[1] == heads[1] else None


def _cache(program: MatchedFunction, name: str, rank: int, tokens: int | None) -> str:
    """A table of angles with the dimensions (batch, tokens, pairs)."""
    shape = program.shape(name) or ()
    heads = {1: 2, 2: 1}[tokens or 2]
    missing = rank - len(shape)
    if missing <= heads:
        name = program.squeezed(name, heads - missing)
        shape = program.shape(name) or ()
    for _ in range(3 - len(shape)):
        name = program.apply("Unsqueeze", name, program.sizes([0], name))
    return name


def _turned(cells: Sequence[Cell], x: _Row | None) -> tuple[list[tuple[Cell, Cell]], bool] | None:
    """The cosine and the sine of each pair of elements of `x` that is turned, and whether pairs are neighbours."""
    heads = [] if x is None else [cell[0][0][0] for cell in x.cells]
    turning = sum(len(cell) == 2 for cell in cells)
    rest = all(cells[j] == (((heads[j],), 1.0),) for j in range(turning, len(heads)))
    if not rest or turning == 0 or turning % 2 or len(heads) != len(cells):
        return None
    for interleaved in (False, True):
        pairs = _pairs(heads[:turning], cells[:turning], interleaved)
        if pairs is not None:
            return pairs, interleaved
    return None


def _pairs(x: Sequence[int], cells: Sequence[Cell], interleaved: bool) -> list[tuple[Cell, Cell]] | None:
    half = len(cells) // 2
    found: list[tuple[Cell, Cell]] = []
    for i in range(half):
        even, odd = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
        cos, sin = _factor(cells[even], x[even]), _factor(cells[odd], x[even])
        minus, again = _factor(cells[even], x[odd]), _factor(cells[odd], x[odd])
        if cos is None or sin is None or cos != again or minus != _negative(sin):
            return None
        found.append((cos, sin))
    return found


def _factor(cell: Cell, element: int) -> Cell | None:
    """What an element is multiplied with in a sum, once."""
    terms = [(term, n) for term, n in cell if element in term]
    if len(terms) != 1:
        return None
    term, n = terms[0]
    rest = list(term)
    rest.remove(element)
    return ((tuple(rest), n),) if rest and element not in rest else None


def _negative(cell: Cell) -> Cell:
    return tuple((term, -n) for term, n in cell)


def _cuts_and_joins(program: MatchedFunction, name: str) -> bool:
    """Whether what gives a value takes heads apart and joins them again: else it needs no closer look."""
    pending, seen, ops = [(name, 0)], set[str](), set[str]()
    while pending:
        name, depth = pending.pop()
        made = program.maker(name)
        if made is None or made.op not in SEEN_THROUGH or depth == DEEPEST or name in seen:
            continue
        seen.add(name)
        ops.add(made.op)
        pending += [(str(arg), depth + 1) for arg in made.args if isinstance(arg, str) and arg]
    return "Concat" in ops and bool(ops & {"Slice", "Split", "RotaryEmbedding"})


@dataclass(slots=True)
class _Row:
    """The elements along the last dimensions of a value, whatever stands before these."""

    shape: tuple[int, ...]
    cells: list[Cell]


@dataclass
class _Rows:
    """Values by the elements of their rows, as sums of products of elements of other values."""

    program: MatchedFunction
    halves: bool
    """Whether a dimension that is parted in two is one of halves, not of two heads."""
    opaque: str = ""
    """A value that is not seen through."""
    known: dict[str, _Row | None] = field(default_factory=dict[str, "_Row | None"])
    numbers: dict[object, int] = field(default_factory=dict[object, int])
    """Of elements of values, and of functions of such."""

    def of(self, name: str, depth: int = 0) -> _Row | None:
        """The row of a value; its own elements where it is not seen through. None where its size is not known."""
        if name not in self.known:
            made = self.program.maker(name)
            found = None
            fixed = self.program.known(name) is not None
            if made is not None and made.op in SEEN_THROUGH and depth < DEEPEST and not fixed and name != self.opaque:
                found = _OPS[made.op](self, made, name, depth)
            self.known[name] = found or self._own(name)
        return self.known[name]

    def element(self, what: object) -> Cell:
        """One element, identified by what it is."""
        return (((self.numbers.setdefault(what, len(self.numbers)),), 1.0),)

    def marked(self, row: _Row, said: object, shape: tuple[int, ...] | None = None) -> _Row:
        """A function of each element of a row."""
        return _Row(shape or row.shape, [self.element((said, cell)) for cell in row.cells])

    def _own(self, name: str) -> _Row | None:
        shape = self.program.shape(name)
        number = self.program.number(name)
        if number is not None:
            return _Row((1,), [(((), number),)])
        last = 2 if shape and len(shape) > 2 and shape[-1] == 2 else 1  # pairs lie along the last one
        inner = tuple(size for size in (shape or ())[-last:] if isinstance(size, int))
        if not shape or len(inner) < last or not 0 < math.prod(inner) <= LARGEST:
            return None
        fixed = self.program.known(name)
        if fixed is not None and len(set(fixed.values)) == 1:
            return _Row(inner, [(((), float(to_array(fixed).flat[0])),)] * math.prod(inner))
        if fixed is not None:  # equal columns are one element, whatever they are called
            columns = to_array(fixed).reshape(-1, math.prod(inner)).T
            return _Row(inner, [self.element((shape[:-last], column.tobytes())) for column in columns])
        return _Row(inner, [self.element((name, i)) for i in range(math.prod(inner))])

    def heads(self, shape: Shape, but: str) -> list[str]:
        """Values of this shape of which nothing is known but that they have elements."""
        return [
            name
            for name, row in self.known.items()
            if row is not None
            and name != but
            and self.program.shape(name) == shape
            and len(row.shape) == 1
            and all(len(cell) == 1 and len(cell[0][0]) == 1 and cell[0][1] == 1 for cell in row.cells)
        ]

    def with_halves(self, wanted: Sequence[Cell], interleaved: bool) -> str | None:
        """A value that holds these elements, one for each pair: one that is there, or the half of one."""
        twice = [cell for cell in wanted for _ in (0, 1)] if interleaved else [*wanted, *wanted]
        name = self._holding(wanted)
        if name is not None:
            return name
        name = self._holding(twice)
        return None if name is None else self._cut(name, len(wanted), interleaved)

    def _holding(self, cells: Sequence[Cell]) -> str | None:
        wanted = list(cells)
        held = (name for name, row in self.known.items() if row and self._along_last(name, row) == wanted)
        return next(held, None)

    def _along_last(self, name: str, row: _Row) -> list[Cell]:
        """The elements of a row along the last dimension of its value."""
        row = self.narrow(row, 1)
        return row.cells if (self.program.shape(name) or ())[-1:] == row.shape else []

    def narrow(self, row: _Row, rank: int) -> _Row:
        """A row of fewer dimensions, of which each element represents those before it: equal ones are equal again."""
        if len(row.shape) <= rank:
            return row
        lead, inner = row.shape[:-rank], row.shape[-rank:]
        size = math.prod(inner)
        columns = [(lead, tuple(row.cells[i::size])) for i in range(size)]
        return _Row(inner, [self.element(column) for column in columns])

    def _cut(self, name: str, half: int, interleaved: bool) -> str:
        """The first of each two equal elements of a row."""
        program, axis = self.program, len(self.program.shape(name) or ()) - 1
        bare = _of_the_parts(program, name, half)
        if bare is not None and not interleaved:
            return bare
        starts, ends, axes = (program.sizes([n], name) for n in (0, 2 * half if interleaved else half, axis))
        steps = (program.sizes([2], name),) if interleaved else ()
        return program.apply("Slice", name, starts, ends, axes, *steps)

    def between(self, name: str, x: str) -> set[str]:
        """The values between `x` and another one: those that have to do with it."""
        found: dict[str, bool] = {x: True}

        def depends(name: str, depth: int) -> bool:
            if name not in found:
                made = self.program.maker(name)
                through = made is not None and made.op in SEEN_THROUGH and depth < DEEPEST
                args = [str(arg) for arg in made.args if isinstance(arg, str) and arg] if made and through else []
                found[name] = sum(depends(arg, depth + 1) for arg in args) > 0  # all of them are visited
            return found[name]

        depends(name, 0)
        results = {result for n, d in found.items() if d and n != x for result in _results(self.program, n)}
        return results - {x}


def _results(program: MatchedFunction, name: str) -> tuple[str, ...]:
    made = program.maker(name)
    return () if made is None else tuple(filter(None, made.results))


def _of_the_parts(program: MatchedFunction, name: str, half: int) -> str | None:
    """Cosines of angles that were written twice, as cosines of the angles themselves."""
    chain: list[Apply] = []
    while (made := program.maker(name)) is not None and made.op in ("Cos", "Sin", "Cast", "Mul", "Unsqueeze"):
        if made.op == "Mul" and program.number(made.args[1]) is None:
            return None
        if made.op == "Unsqueeze" and any(
            axis in (-1, _rank(program, name) - 1) for axis in program.ints(made.args[1]) or ()
        ):
            return None
        chain.append(made)
        name = str(made.args[0])
    if made is None or made.op != "Concat" or len(made.args) != 2 or made.args[0] != made.args[1] or not chain:
        return None
    if made.attrs.get("axis") not in (-1, _rank(program, name) - 1) or (program.shape(made.args[0]) or ())[-1:] != (
        half,
    ):
        return None
    for one in reversed(chain):
        source = str(made.args[0]) if one is chain[-1] else name
        name = program.apply(one.op, source, *map(str, one.args[1:]), like=one.results[0], **one.attrs)
    return name


def _rank(program: MatchedFunction, name: object) -> int:
    return len(program.shape(name) or ())


# what ops do to rows


def _behind(rows: _Rows, name: object, axis: int, row: _Row) -> int | None:
    """The dimension of a row that an axis of its value is, from the front of the row; None if it stands before it."""
    rank = _rank(rows.program, name)
    place = (axis % rank if rank else 0) - (rank - len(row.shape))
    return place if place >= 0 else None


def _grid(row: _Row) -> Any:
    import numpy as np

    grid = np.empty(len(row.cells), dtype=object)
    for i, cell in enumerate(row.cells):
        grid[i] = cell
    return grid.reshape(row.shape)


def _row(grid: Any) -> _Row:
    return _Row(tuple(grid.shape), [*grid.reshape(-1)])


def _slice(rows: _Rows, made: Apply, name: str, depth: int) -> _Row | None:
    program = rows.program
    row = rows.of(str(made.args[0]), depth + 1)
    starts, ends, axes, steps = [*(program.ints(arg) for arg in made.args[1:]), None, None][:4]
    if row is None or starts is None or ends is None:
        return None
    grid = _grid(row)
    index: list[Any] = [slice(None)] * len(row.shape)
    for i, start in enumerate(starts):
        place = _behind(rows, made.args[0], axes[i] if axes else i, row)
        step = steps[i] if steps else 1
        if place is None or step < 1:
            return None
        index[place] = slice(start, ends[i], step)
    return _row(grid[tuple(index)])


def _split(rows: _Rows, made: Apply, name: str, depth: int) -> _Row | None:
    row = rows.of(str(made.args[0]), depth + 1)
    axis = made.attrs.get("axis", 0)
    place = None if row is None or not isinstance(axis, int) else _behind(rows, made.args[0], axis, row)
    if row is None or place is None or not isinstance(axis, int):
        return None
    sizes = [(rows.program.shape(result) or (None,))[axis] if result else None for result in made.results]
    if len(made.args) > 1:
        sizes = [*(rows.program.ints(made.args[1]) or ())]
    at = made.results.index(name)
    widths = [size for size in sizes[: at + 1] if isinstance(size, int)]
    if len(widths) != at + 1:
        return None
    index: list[Any] = [slice(None)] * len(row.shape)
    index[place] = slice(sum(widths[:at]), sum(widths))
    return _row(_grid(row)[tuple(index)])


def _concat(rows: _Rows, made: Apply, name: str, depth: int) -> _Row | None:
    import numpy as np

    parts = [rows.of(str(arg), depth + 1) for arg in made.args]
    axis = made.attrs.get("axis")
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not isinstance(axis, int) or len({len(part.shape) for part in known}) > 1:
        return None
    place = _behind(rows, made.args[0], axis, known[0])
    return None if place is None else _row(np.concatenate([_grid(part) for part in known], axis=place))


def _elementwise(combined: Callable[..., Cell | None]) -> Callable[[_Rows, Apply, str, int], _Row | None]:
    def of(rows: _Rows, made: Apply, name: str, depth: int) -> _Row | None:
        import numpy as np

        operands = [rows.of(str(arg), depth + 1) for arg in made.args[:2]]
        known = [row for row in operands if row is not None]
        if len(known) < len(operands):
            return None
        if not all(_aligned(rows, made, i, known) for i in range(len(known))):
            rank = min(len(row.shape) for row in known)
            known = [rows.narrow(row, rank) for row in known]
        try:
            grids = np.broadcast_arrays(*(_grid(row) for row in known))
        except ValueError:
            return None
        cells = [combined(*values) for values in zip(*(grid.reshape(-1) for grid in grids), strict=True)]
        shape = tuple(grids[0].shape)
        sizes = (rows.program.shape(name) or ())[-len(shape) :]
        there = [cell for cell in cells if cell is not None]
        return _Row(shape, there) if len(there) == len(cells) and sizes == shape else None

    return of


def _aligned(rows: _Rows, made: Apply, i: int, operands: Sequence[_Row]) -> bool:
    """Whether an operand whose row has fewer dimensions than others' has none, or 1, in the places of the others."""
    shape, own = rows.program.shape(made.args[i]) or (), len(operands[i].shape)
    longest = max(len(row.shape) for row in operands)
    return all(size == 1 for size in shape[:-own][own - longest :]) if longest > own else True


def _plus(a: Cell, b: Cell) -> Cell | None:
    found: dict[tuple[int, ...], float] = dict(a)
    for term, n in b:
        found[term] = found.get(term, 0.0) + n
    return tuple(sorted(found.items())) if len(found) <= 2 else None


def _times(a: Cell, b: Cell) -> Cell | None:
    if len(a) != 1 or len(b) != 1:
        return None
    (s, m), (t, n) = a[0], b[0]
    return ((tuple(sorted((*s, *t))), m * n),)


def _minus(a: Cell, b: Cell) -> Cell | None:
    return _plus(a, _negative(b))


def _function(rows: _Rows, made: Apply, name: str, depth: int) -> _Row | None:
    """Equal functions of equal elements are equal."""
    row = rows.of(str(made.args[0]), depth + 1)
    if row is None:
        return None
    return rows.marked(row, (made.op, made.attrs.get("to")))


def _reshape(rows: _Rows, made: Apply, name: str, depth: int) -> _Row | None:
    """The dimensions of a row parted or merged; what stands before them stays."""
    before, after = rows.program.shape(made.args[0]), rows.program.shape(name)
    row = rows.of(str(made.args[0]), depth + 1)
    if row is None or before is None or after is None:
        return None
    lead = len(before) - len(row.shape)
    inner = tuple(size for size in after[lead:] if isinstance(size, int))
    if after[:lead] != before[:lead] or len(inner) < len(after) - lead or math.prod(inner) != len(row.cells):
        return None
    parted = len(inner) > len(row.shape)
    pairs = inner[-1] == 2 or (inner[-2:-1] == (2,) and rows.halves)
    return _Row(inner, row.cells) if inner and (pairs or not parted) else None


def _unsqueeze(rows: _Rows, made: Apply, name: str, depth: int) -> _Row | None:
    row, given = rows.of(str(made.args[0]), depth + 1), rows.program.ints(made.args[1])
    after = rows.program.shape(name)
    if row is None or given is None or after is None:
        return None
    axes = {axis % len(after) for axis in given}
    inner, left, axis = list[int](), len(row.shape), len(after)
    while left or axis - 1 in axes:
        axis -= 1
        inner.insert(0, 1 if axis in axes else row.shape[left - 1])
        left -= axis not in axes
        if not left and axis - 1 in axes:  # where the row ends, and what stands before it begins
            break
    outside = tuple(sorted(a - len(after) for a in axes if a < axis))
    found = _Row(tuple(inner), row.cells)
    return rows.marked(found, ("Unsqueeze", outside)) if outside else found


def _squeeze(rows: _Rows, made: Apply, name: str, depth: int) -> _Row | None:
    row, axes = rows.of(str(made.args[0]), depth + 1), rows.program.listed(made)
    if row is None or axes is None:
        return None
    places = [_behind(rows, made.args[0], axis, row) for axis in axes]
    left = tuple(size for i, size in enumerate(row.shape) if i not in places)
    found = _Row(left, row.cells)
    if not left:
        return None
    return rows.marked(found, ("Squeeze", tuple(axes))) if None in places else found


def _expand(rows: _Rows, made: Apply, name: str, depth: int) -> _Row | None:
    """A row whose dimensions of 1 are repeated; not what stands before it."""
    import numpy as np

    row, after = rows.of(str(made.args[0]), depth + 1), rows.program.shape(name)
    before = rows.program.shape(made.args[0])
    if row is None or after is None or before is None or after[: -len(row.shape)] != before[: -len(row.shape)]:
        return None
    inner = tuple(size for size in after[-len(row.shape) :] if isinstance(size, int))
    if len(inner) < len(row.shape) or math.prod(inner) > LARGEST:
        return None
    try:
        return _row(np.broadcast_to(_grid(row), inner))
    except ValueError:
        return None


def _again(rows: _Rows, made: Apply, name: str, depth: int) -> _Row | None:
    """What has been recognised of a part of a head."""
    x, cos, sin = (rows.of(str(arg), depth + 1) for arg in made.args[:3])
    if (
        x is None
        or cos is None
        or sin is None
        or len(made.args) > 3
        or len(x.shape) != 1
        or made.attrs.get("num_heads")
    ):
        return None
    turning = made.attrs.get("rotary_embedding_dim") or len(x.cells)
    if not isinstance(turning, int) or cos.shape != (turning // 2,) or sin.shape != cos.shape:
        return None
    cells = [*x.cells]
    for i in range(turning // 2):
        even, odd = (2 * i, 2 * i + 1) if made.attrs.get("interleaved") else (i, i + turning // 2)
        a, b = x.cells[even], x.cells[odd]
        products = [_times(a, cos.cells[i]), _times(b, sin.cells[i]), _times(a, sin.cells[i]), _times(b, cos.cells[i])]
        if None in products:
            return None
        ac, bs, a_s, bc = (product or () for product in products)
        turned = _minus(ac, bs), _plus(a_s, bc)
        if turned[0] is None or turned[1] is None:
            return None
        cells[even], cells[odd] = turned[0], turned[1]
    return _Row(x.shape, cells)


_OPS: Mapping[str, Callable[[_Rows, Apply, str, int], _Row | None]] = {
    "Slice": _slice,
    "Split": _split,
    "Concat": _concat,
    "Neg": _elementwise(_negative),
    "Add": _elementwise(_plus),
    "Sub": _elementwise(_minus),
    "Mul": _elementwise(_times),
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Expand": _expand,
    "RotaryEmbedding": _again,
    **dict.fromkeys(("Cos", "Sin", "Cast"), _function),
}

RULES = (rotary,)
