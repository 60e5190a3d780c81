"""Whether values can be placed on a mesh as their types state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from distir.diagnostics import Code, Diagnostic
from distir.diagnostics.codes import placements as codes
from distir.diagnostics.spelling import nearest
from distir.ir import Dim, Mesh, Meshes, OwnedAlong, Part, PendingAlong, SplitAlong, TensorType, TupleType, Type, dims
from distir.ir.places import Repeated, Shared, Size, count, cuts_of, show_mesh
from distir.ops import Reject


@dataclass(frozen=True, slots=True)
class Uneven:
    """What does not divide, and by what: a size, and the parts into which axes (`tp = 2`) cut it.

    `zigzag`: there are two of each device.
    """

    size: int
    parts: int
    over: str
    zigzag: bool = False

    def would_do(self, size: int) -> str:
        """The numbers of devices that would do for a size."""
        each = 2 if self.zigzag else 1
        found = [n for n in range(1, min(size // each, 4 * self.parts) + 1) if size % (n * each) == 0][-4:]
        if not found:
            return "split it in order" if self.zigzag else "leave it whole"
        return f"{', '.join(map(str, found[:-1]))}{' or ' if found[:-1] else ''}{found[-1]} would do"


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why a value cannot be placed so, and what helps. `uneven`: that a dimension does not divide."""

    message: str
    help: str | None = None
    code: Code = codes.BAD_PLACEMENT
    uneven: Uneven | None = None
    cause: str = ""
    """What of the mesh is at fault, for as many values as there are."""


def together(found: Iterable[tuple[Diagnostic, Uneven]]) -> Iterator[Diagnostic]:
    """One message for each of the axes by whose devices something does not divide: at the first, for all."""
    by_axes: dict[str, list[tuple[Diagnostic, Uneven]]] = {}
    for diagnostic, uneven in found:
        by_axes.setdefault(uneven.over, []).append((diagnostic, uneven))
    for (first, uneven), *others in by_axes.values():
        if others:
            more = f"nor do {len(others)} other parameters" if others[1:] else "nor does another parameter"
            size = math.gcd(uneven.size, *(other.size for _, other in others))
            first = replace(first, message=f"{first.message}; {more}", help=uneven.would_do(size))
        yield first


def refuse(type: Type, meshes: Meshes, part: Part) -> None:
    """Raises Reject where a type that is stated places values as the mesh does not allow."""
    wrong = complaint(type, meshes)
    if wrong is not None:
        raise Reject(wrong.code, f"`{type}`: {wrong.message}", part, help=wrong.help, cause=wrong.cause)


@lru_cache(maxsize=1 << 12)
def complaint(type: Type, meshes: Meshes) -> Complaint | None:
    """Why values of a type cannot be placed so on the mesh of their device; None if they can."""
    if isinstance(type, TupleType):
        return next((found for item in type.items if (found := complaint(item, meshes))), None)
    if not isinstance(type, TensorType) or not type.places:
        return None
    mesh = meshes.of(type.device)
    sizes = dict(mesh)
    for place in type.places:
        if place.axis not in sizes:
            return unknown_axis(place.axis, mesh)
    for place in type.places:
        size = sizes[place.axis]
        if isinstance(place, OwnedAlong) and not 0 < place.number <= (size if isinstance(size, int) else place.number):
            return Complaint(
                f"`{place}` is no device of the axis, which has {size}", f"devices along `{place.axis}` count from 1"
            )
    pending = {place.how for place in type.places if isinstance(place, PendingAlong)}
    if len(pending) > 1:
        return Complaint("a value is not a pending sum and a pending maximum at once", "end one of them first")
    for dim, size in enumerate(type.shape or ()):
        found = _uneven(dim, size, cuts_of(type.places, dim), sizes)
        if found is not None:
            return found
    return None


def unknown_axis(axis: str, mesh: Mesh) -> Complaint:
    """That the mesh has no such axis."""
    if not mesh:
        hint = "state it behind the head of a function: `mesh (dp = 4, tp = 2)`"
        return Complaint(f"there is no axis `{axis}`, as there is no mesh", hint, codes.UNKNOWN_AXIS, cause=axis)
    near = nearest(axis, dict(mesh))
    hint = f"did you mean `{near}`?" if near else f"the mesh is `{show_mesh(mesh)}`"
    return Complaint(f"the mesh has no axis `{axis}`", hint, codes.UNKNOWN_AXIS, cause=axis)


def _uneven(dim: int, size: Dim, cuts: Sequence[SplitAlong], sizes: Mapping[str, Size]) -> Complaint | None:
    """What is wrong with how a dimension is split."""
    if not cuts:
        return None
    blocked = [cut for cut in cuts if cut.blocks]
    outer = cuts[: -len(blocked)] if blocked else cuts[:0]
    inner = [cut.zigzag for cut in cuts].index(True) if any(cut.zigzag for cut in cuts) else len(cuts)
    if False in [cut.zigzag for cut in cuts[inner : inner + sum(cut.zigzag for cut in cuts)]]:
        hint = "name the axes along which it is in zig-zag one after the other"
        return Complaint(f"dimension {dim} is split in order between axes along which it is in zig-zag", hint)
    if blocked and (
        blocked != [*cuts[len(outer) :]]
        or not are_in_one(blocked)
        or (outer and not _are_of_whole_blocks(size, cuts[-1], outer, sizes))
    ):
        hint = "gather along one of them first"
        return Complaint(f"dimension {dim} is split in blocks along `{blocked[0].axis}`, and along another axis", hint)
    cuts = cuts[len(outer) :]
    devices, zigzag = parts_along(cuts, sizes), any(cut.zigzag for cut in cuts)
    over = " × ".join(f"{cut.axis} = {sizes[cut.axis]}" for cut in cuts)
    blocks = blocked[0].blocks if blocked else (size,)
    repeated = any(isinstance(b, Repeated) for b in blocks)
    total = dims.total(b.size if isinstance(b, (Shared, Repeated)) else b for b in blocks)
    if isinstance(total, int) and isinstance(size, int) and (size % total if repeated else size != total):
        hint = "state the size of each block, as `[8, 8, whole 4]`"
        return Complaint(f"blocks of {total} in all do not make up dimension {dim}, which is {size}", hint)
    for each in (b.size if isinstance(b, Repeated) else b for b in blocks if not isinstance(b, Shared)):
        if isinstance(each, int) and isinstance(devices, int) and each % devices:
            what = f"dimension {dim}, which is {each}," if not blocked else f"a block of {each} in dimension {dim}"
            into = f"into {devices} parts, two for each device in zig-zag" if zigzag else f"over {devices} devices"
            uneven = Uneven(each, devices, over, zigzag)
            return Complaint(f"{what} does not split {into} ({over})", uneven.would_do(each), uneven=uneven, cause=over)
    return None


def are_in_one(cuts: Sequence[SplitAlong]) -> bool:
    """Whether all are in the same blocks, each of which is split along all of the axes."""
    return len({cut.blocks for cut in cuts}) == 1


def parts_along(cuts: Sequence[SplitAlong], sizes: Mapping[str, Size]) -> Dim:
    """Into how many parts axes cut a dimension, the outermost first: one for each device, and in zig-zag two.

    Axes behind those in zig-zag cut what a device has, which may be one of its two parts.
    """
    last = max((n for n, cut in enumerate(cuts) if cut.zigzag), default=None)
    found = [sizes[cut.axis] for cut in cuts]
    inner = 0 if last is None else count(found[last + 1 :])
    return count((*found, 1 if isinstance(inner, int) and inner % 2 == 0 else 2))


def _are_of_whole_blocks(
    size: Dim, blocked: SplitAlong, outer: Sequence[SplitAlong], sizes: Mapping[str, Size]
) -> bool:
    """Whether parts along outer axes are of as many whole blocks of one size, each of which is split by itself."""
    number, (first, *others) = parts_along(outer, sizes), blocked.blocks
    block = first.size if isinstance(first, Repeated) else first
    if isinstance(block, Shared) or any(other != first for other in others):
        return False
    if isinstance(size, int) and isinstance(number, int) and isinstance(block, int):
        return size % (block * number) == 0
    return True
