"""Where the parts of a value are: its placement over the axes of a mesh, as its type states it.

A mesh has named axes, the outermost first: `mesh (dp = 4, tp = 2)` is 8 devices, of which the first two are neighbours
along `tp`. Along an axis a value is split, on one device alone, a sum or a maximum that is pending, or, where nothing
is said, whole: the same on every device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from distir.ir import dims
from distir.ir.dims import Dim, SymbolicDim

Size = int | SymbolicDim
"""The number of devices along an axis; a name that is bound later, as those of dimensions are."""

Mesh = tuple[tuple[str, Size], ...]
"""The axes of a mesh and their sizes, outermost first; empty where there is none."""


Stages = tuple[tuple[int, Mesh], ...]
"""Devices of a program that represent other meshes than the rest, in ascending order, with these."""


@dataclass(frozen=True, slots=True)
class Meshes:
    """What each device of a module represents: `mesh`, but for those that `stages` lists. False without meshes."""

    mesh: Mesh = ()
    stages: Stages = ()

    def __bool__(self) -> bool:
        return bool(self.mesh)

    def of(self, device: int | None) -> Mesh:
        """The mesh that a device represents; that of most where it is not known which device."""
        return next((mesh for stage, mesh in self.stages if stage == device), self.mesh)

    @property
    def each(self) -> tuple[Mesh, ...]:
        """All meshes, each once."""
        return tuple(dict.fromkeys((self.mesh, *(mesh for _, mesh in self.stages))))

    @property
    def axes(self) -> Mesh:
        """All axes, each once, with the size that it has in the first mesh that has it."""
        found: dict[str, Size] = {}
        for axis, size in (pair for mesh in self.each for pair in mesh):
            found.setdefault(axis, size)
        return tuple(found.items())

    def __str__(self) -> str:
        return ", ".join((show_mesh(self.mesh), *(show_mesh(mesh, stage) for stage, mesh in self.stages)))


class OnMeshes:
    """A module, as far as its functions state meshes."""

    __slots__ = ()

    @property
    def mesh(self) -> Mesh:
        """The mesh of most devices; empty where no function states any."""
        return self.meshes.mesh

    @property
    def meshes(self: Any) -> Meshes:
        """The mesh of each device."""
        return next((Meshes(function.mesh, function.stages) for function in self if function.mesh), Meshes())


@dataclass(frozen=True, slots=True)
class Shared:
    """A replicated block, next to others that are split."""

    size: int

    def __str__(self) -> str:
        return f"whole {self.size}"


@dataclass(frozen=True, slots=True)
class Repeated:
    """Blocks of one size that fill the dimension."""

    size: int

    def __str__(self) -> str:
        return f"each {self.size}"


Block = Dim | Shared | Repeated

Blocks = tuple[Block, ...]
"""The sizes of the blocks that a dimension is concatenated from or will be cut into. Each block is split by itself."""


@dataclass(frozen=True, slots=True)
class SplitAlong:
    """A dimension that is split along an axis, into equal parts; with `blocks`, each block by itself.

    In `zigzag` device i of n has the parts i and 2n - 1 - i of 2n.
    """

    dim: int
    axis: str
    blocks: Blocks = ()
    zigzag: bool = False

    def __str__(self) -> str:
        blocks = ", ".join(dims.show(b) if b is None or isinstance(b, int) else str(b) for b in self.blocks)
        shown = f"{self.axis}[{blocks}]" if blocks else self.axis
        return f"{ZIGZAG}({shown})" if self.zigzag else shown

    def sized(self, bindings: Mapping[str, Dim]) -> SplitAlong:
        """The same with named sizes of blocks replaced. Raises DimensionError where one cannot hold."""
        if not any(isinstance(block, SymbolicDim) for block in self.blocks):
            return self
        blocks = [dims.substitute(b, bindings) if isinstance(b, SymbolicDim) else b for b in self.blocks]
        return replace(self, blocks=tuple(blocks))

    @property
    def has_several(self) -> bool:
        """Whether a device has several parts of the dimension, one of each block or two in zig-zag."""
        return bool(self.blocks) or self.zigzag


ZIGZAG: Final = "zigzag"
"""The word in a type that says so: `4096@zigzag(cp)`."""

IN_ZIGZAG: Final = "device i of n has the parts i and 2n - 1 - i of 2n"
"""What it means."""


PENDING: Final = ("sum", "max")
"""The words in a type that say what a value is of those that the devices have."""

NOUNS: Final[Mapping[str, str]] = {"sum": "sum", "max": "maximum"}
"""What messages call it."""


@dataclass(frozen=True, slots=True)
class PendingAlong:
    """A value that is the sum, or the elementwise maximum, over an axis, of what the devices have."""

    axis: str
    how: str = "sum"

    def __str__(self) -> str:
        return f"{self.how} {self.axis}"


OWNED: Final = "on"
"""The word in a type behind which stand an axis and the number of the device that has a value."""


@dataclass(frozen=True, slots=True)
class OwnedAlong:
    """A value that one device along an axis has whole, and the others do not have. `number`: the device's, from 1."""

    axis: str
    number: int

    def __str__(self) -> str:
        return f"{OWNED} {self.axis} {self.number}"


Place = SplitAlong | OwnedAlong | PendingAlong

Places = tuple[Place, ...]
"""A placement, one entry for each axis along which a value is not whole: the cuts of each dimension, outermost first,
then the device that has it, by names of axes, then what is pending, in the order of `PENDING` and of names."""


def places(found: Iterable[Place]) -> Places:
    """A placement of these entries: of cuts of one dimension, the outermost first."""
    found = list(found)
    if len(found) < 2:
        return tuple(found)
    cuts = sorted((p for p in found if isinstance(p, SplitAlong)), key=lambda cut: cut.dim)
    owned = sorted((p for p in found if isinstance(p, OwnedAlong)), key=lambda p: p.axis)
    pending = sorted((p for p in found if isinstance(p, PendingAlong)), key=lambda p: (PENDING.index(p.how), p.axis))
    return (*cuts, *owned, *pending)


def along(placed: Places, axis: str) -> Place | None:
    """The entry for an axis; None where the value is whole along it."""
    return next((place for place in placed if place.axis == axis), None)


def without(placed: Places, axis: str) -> Places:
    """The placement of a value that is whole along an axis."""
    return tuple(place for place in placed if place.axis != axis)


def cuts_of(placed: Places, dim: int) -> list[SplitAlong]:
    """The cuts of a dimension, outermost first."""
    return [place for place in placed if isinstance(place, SplitAlong) and place.dim == dim]


def show_dim(dim: Dim, cuts: list[SplitAlong]) -> str:
    """A dimension as it is written: `4096@tp`, `(B+1)@(dp, tp)`."""
    shown = dims.show(dim)
    if not cuts:
        return shown
    if isinstance(dim, SymbolicDim) and len(dim.terms) > 1 and dim.denominator == 1:
        shown = f"({shown})"
    over = ", ".join(map(str, cuts))
    return f"{shown}@{over}" if len(cuts) == 1 else f"{shown}@({over})"


def show_qualities(placed: Places) -> Iterator[str]:
    """What is said behind the device: `on dp 2`, `sum tp`, `sum (dp, tp)`."""
    yield from (str(place) for place in placed if isinstance(place, OwnedAlong))
    for how in PENDING:
        axes = [place.axis for place in placed if isinstance(place, PendingAlong) and place.how == how]
        if axes:
            yield f"{how} {axes[0]}" if len(axes) == 1 else f"{how} ({', '.join(axes)})"


def show_axes(axes: Sequence[str]) -> str:
    """Axes as a message names them: `dp`, `dp` and `tp`."""
    *first, last = (f"`{axis}`" for axis in axes)
    return f"{', '.join(first)} and {last}" if first else last


def count(sizes: Iterable[Size]) -> Dim:
    """The number of devices along axes of these sizes."""
    return dims.product(sizes)


def with_sizes(mesh: Mesh, bound: Mapping[str, int]) -> Mesh:
    """The mesh with numbers in place of names that are bound."""
    return tuple((axis, bound.get(str(size), size)) for axis, size in mesh)


def unsized(mesh: Mesh) -> list[str]:
    """The names in sizes of a mesh."""
    return [str(size) for _, size in mesh if isinstance(size, SymbolicDim)]


def show_mesh(mesh: Mesh, stage: int | None = None) -> str:
    """A mesh as it is written behind a function's head: `mesh (dp = 4, tp = 2)`, `mesh 2 (dp = 2, tp = 4)`."""
    number = "" if stage is None else f" {stage}"
    return f"{MESH}{number} ({', '.join(f'{axis} = {size}' for axis, size in mesh)})"


MESH: Final = "mesh"
"""The word that states a mesh, behind a function's head."""
