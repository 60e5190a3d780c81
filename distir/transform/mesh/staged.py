"""Stages that become differently many devices, and what is sent between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from distir.ir import DISCARD, HOST, Apply, Attributes, TensorType, Type, types
from distir.ir.places import cuts_of
from distir.transform.mesh.sizes import NumberedMesh
from distir.transform.sharding.items import Expansion, Held, Item, SentPiece, Transfer
from distir.transform.sharding.mesh import Mesh

Cuts = tuple[tuple[int, int, int], ...]
"""Dimensions that are cut, with which of how many pieces."""


@dataclass(frozen=True, slots=True)
class StageMesh(Mesh):
    """The devices of one stage, numbered behind those of the stages before it. `stages`: the mesh of each device."""

    stages: tuple[tuple[int, NumberedMesh], ...] = ()

    def of(self, type: Type) -> Mesh:
        """The devices of the stage of a value; of the first one where it is on none."""
        device = types.device_of(type)
        axes = dict(self.stages).get(device if device is not None else HOST, self.stages[0][1])
        factors = tuple(size for _, size in axes)
        return replace(self, size=math.prod(factors), factors=factors)

    def device(self, device: int, rank: int) -> int:
        """The device that replaces `device` for a rank, counted from 0."""
        before = (math.prod(n for _, n in axes) for stage, axes in self.stages if stage < device)
        return self.first + sum(before) + rank


class StagedExpansion(Expansion):
    """Expands items for all devices of the stage of each."""

    def __init__(
        self,
        mesh: Mesh,
        single: Iterable[str],
        taken: Iterable[str],
        type_of: Callable[[str], Type],
        held: Held | None = None,
    ) -> None:
        super().__init__(mesh, single, taken, held)
        self.type_of = type_of

    def names(self, name: str) -> tuple[str, ...]:
        """The names on the devices of a value's stage, in order."""
        found = self.type_of(name)
        if types.device_of(found) in (None, HOST):
            return super().names(name)  # a value on the way, of the stage of the item
        now, self.mesh = self.mesh, self.mesh.of(found)
        made = super().names(name)
        self.mesh = now
        return made

    def write_on(self, item: Item, mesh: Mesh) -> None:
        """Append an item's statements, for the devices of a stage."""
        self.mesh = mesh
        self.write(item)

    def _transfer(self, item: Transfer) -> None:
        """Send each device the pieces of its part, cut off where they are and joined where they arrive."""
        held, made = self.names(item.arg), self.names(item.result)
        cuts = {(rank, cut) for pieces in item.pieces for piece in pieces for rank, cut in _steps(piece)}
        known: dict[tuple[int, Cuts], str] = {(rank, ()): n for rank, n in enumerate(held)}
        for rank, cut in sorted(cuts, key=lambda step: (step[0], len(step[1]))):
            self._cut(item, known, rank, cut, cuts)
        for to, (pieces, name) in enumerate(zip(item.pieces, made, strict=True)):
            if self._held is not None and to not in self._held(item.result):
                continue
            joins = [join for join in item.joins if join[1] > 1]
            device = Attributes({"device": self.mesh.device(item.to, to)})
            sent = [
                self._made(name if not joins else self._builder.fresh(f"{name}_piece"), "Send", (known[piece],), device)
                for piece in ((piece.rank, piece.cuts) for piece in pieces)
            ]
            while joins:
                dim, count = joins.pop()
                last = not joins
                groups = [tuple(sent[n : n + count]) for n in range(0, len(sent), count)]
                names = [name if last else self._builder.fresh(f"{name}_piece") for _ in groups]
                pairs = zip(names, groups, strict=True)
                sent = [self._made(own, "Concat", group, Attributes({"axis": dim})) for own, group in pairs]

    def _cut(
        self,
        item: Transfer,
        known: dict[tuple[int, Cuts], str],
        rank: int,
        cut: Cuts,
        wanted: set[tuple[int, Cuts]],
    ) -> None:
        """Append the cut of a device's part into pieces, once for all of them."""
        if (rank, cut) in known:
            return
        *before, (dim, _, count) = cut
        every = [(rank, (*before, (dim, k, count))) for k in range(count)]
        names = tuple(self._builder.fresh(f"{item.arg}_cut") if own in wanted else DISCARD for own in every)
        attrs = Attributes({"axis": dim, "num_outputs": count})
        self.body.append(Apply(names, "Split", (known[rank, tuple(before)],), attrs))
        known.update(zip(every, names, strict=True))

    def _made(self, name: str, op: str, args: tuple[str, ...], attrs: Attributes) -> str:
        self.body.append(Apply((name,), op, args, attrs))
        return name


def _steps(piece: SentPiece) -> Iterator[tuple[int, Cuts]]:
    """The pieces that are cut on the way to one: along one dimension after the other."""
    for n in range(1, len(piece.cuts) + 1):
        yield piece.rank, piece.cuts[:n]


def transfer(result: str, arg: str, to: int, found: TensorType, here: NumberedMesh, there: NumberedMesh) -> Transfer:
    """What is sent of a value so that each device of another stage has its part of it.

    Along axes that do not split it a device is sent what one of those has that have it, in turn.
    """
    split = [[cut.axis for cut in cuts_of(found.places, dim)] for dim in range(len(found.shape or ()))]
    split = [(dim, axes) for dim, axes in enumerate(split) if axes]
    mine, theirs = dict(here), dict(there)
    joins = tuple((dim, max(1, _number(axes, mine) // _number(axes, theirs))) for dim, axes in split)
    pieces: list[tuple[SentPiece, ...]] = []
    for rank in range(math.prod(theirs.values())):
        place = _coordinates(rank, there)
        options: list[list[tuple[dict[str, int], Cuts]]] = []
        for (dim, axes), (_, joined) in zip(split, joins, strict=True):
            count = max(1, _number(axes, theirs) // _number(axes, mine))
            number = _place(axes, place, theirs)
            cut = ((dim, number % count, count),) if count > 1 else ()
            first = number // count * joined
            options.append([(_apart(first + k, axes, mine), cut) for k in range(joined)])
        rest = {axis: place.get(axis, 0) % size for axis, size in here}
        pieces.append(tuple(_piece(rest, chosen, here) for chosen in product(*options)))
    return Transfer(result, arg, to, tuple(pieces), joins)


def _piece(
    rest: Mapping[str, int],
    chosen: Sequence[tuple[dict[str, int], Cuts]],
    here: NumberedMesh,
) -> SentPiece:
    place = dict(rest)
    for own, _ in chosen:
        place |= own
    rank = 0
    for axis, size in here:
        rank = rank * size + place[axis]
    return SentPiece(rank, tuple(cut for _, cuts in chosen for cut in cuts))


def _number(axes: Sequence[str], sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[axis] for axis in axes)


def _coordinates(rank: int, mesh: NumberedMesh) -> dict[str, int]:
    """The place of a rank along each axis."""
    found: dict[str, int] = {}
    for axis, size in reversed(mesh):
        rank, found[axis] = divmod(rank, size)
    return found


def _place(axes: Sequence[str], place: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """The place along axes, of which the first is outermost."""
    number = 0
    for axis in axes:
        number = number * sizes[axis] + place[axis]
    return number


def _apart(number: int, axes: Sequence[str], sizes: Mapping[str, int]) -> dict[str, int]:
    """The place along each of the axes, of a place along all."""
    found: dict[str, int] = {}
    for axis in reversed(axes):
        number, found[axis] = divmod(number, sizes[axis])
    return found
