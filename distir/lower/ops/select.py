"""Taking tensors apart and putting them together, in torch."""

from __future__ import annotations

from distir.ir import DTYPES, Dense
from distir.lower.forms import Operand, Unpacked, Write, items, torch_form

INDICES = ("Int64", "Int32")
"""What torch takes as indices; a tensor of UInt8 would be taken for a mask."""


def index(indices: Operand) -> str:
    """An operand as indices for torch."""
    text = indices.tensor
    return text if indices.dtype.name in INDICES else f"{text}.long()"


def window(rank: int, axis: int, inside: str) -> str:
    """What stands in brackets to take `inside` along one axis."""
    return ", ".join([":"] * axis + [inside])


@torch_form("Split")
def _(
    write: Write, input: Operand, split: Operand | None = None, *, axis: int, num_outputs: int | None = None
) -> Unpacked:
    sizes = [(r.shape or ())[axis] for r in write.results]
    return Unpacked(f"torch.split({input}, {list(sizes)}, {axis})")


@torch_form("Concat", fresh=True)
def _(write: Write, *inputs: Operand, axis: int) -> str:
    return f"torch.cat({items([x.tensor for x in inputs])}, {axis})"


@torch_form("Gather")
def _(write: Write, data: Operand, indices: Operand, *, axis: int) -> str:
    at = axis % data.rank
    if indices.value is None:
        return f"{data}[{window(data.rank, at, index(indices))}]"
    places = [int(i) % data.shape[at] for i in indices.ints("which slices are taken")]
    if indices.rank == 0:
        return f"{data}.select({at}, {places[0]})"
    known = write.constant(Dense(DTYPES["Int64"], indices.shape, tuple(places)))
    return f"{data}[{window(data.rank, at, known)}]"


@torch_form("GatherElements", fresh=True)
def _(write: Write, data: Operand, indices: Operand, *, axis: int) -> str:
    at = axis % data.rank
    return f"torch.gather({data}, {at}, {write.kernel('positions')}({indices}, {data.shape[at]}))"


@torch_form("GatherND", fresh=True)
def _(write: Write, data: Operand, indices: Operand, *, batch_dims: int) -> str:
    return f"{write.kernel('gather_nd')}({data}, {indices}, {batch_dims})"


@torch_form("ScatterElements", fresh=True)
def _(write: Write, data: Operand, indices: Operand, updates: Operand, *, axis: int, reduction: str) -> str:
    at = axis % data.rank
    places = f"{write.kernel('positions')}({indices}, {data.shape[at]})"
    return f"{write.kernel('scatter_elements')}({data.tensor}, {at}, {places}, {updates.tensor}, {reduction!r})"


@torch_form("ScatterND", fresh=True)
def _(write: Write, data: Operand, indices: Operand, updates: Operand, *, reduction: str) -> str:
    return f"{write.kernel('scatter_nd')}({data.tensor}, {indices}, {updates.tensor}, {reduction!r})"


@torch_form("Slice")
def _(
    write: Write,
    data: Operand,
    starts: Operand,
    ends: Operand,
    axes: Operand | None = None,
    steps: Operand | None = None,
) -> str:
    first, last = starts.ints("where the slice starts"), ends.ints("where the slice ends")
    named = tuple(range(len(first))) if axes is None else axes.ints("which axes are sliced")
    strides = (1,) * len(first) if steps is None else steps.ints("the step of the slice")
    window = [":"] * data.rank
    backwards: list[tuple[int, range]] = []
    for axis, start, end, step in zip(named, first, last, strides, strict=True):
        taken = range(*slice(start, end, step).indices(data.shape[axis]))
        if step > 0:
            window[axis % data.rank] = f"{taken.start}:{max(taken.start, taken.stop)}" + (
                f":{step}" if step > 1 else ""
            )
        else:
            backwards.append((axis % data.rank, taken))
    text = f"{data.tensor}[{', '.join(window)}]" if any(part != ":" for part in window) else data.tensor
    for axis, taken in backwards:
        places = write.constant(Dense(DTYPES["Int64"], (len(taken),), tuple(taken)))
        text = f"{text}.index_select({axis}, {places})"
    return text
