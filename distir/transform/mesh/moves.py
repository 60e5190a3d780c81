"""The collectives that bring a value from one placement over the axes of a mesh into another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from distir.ir import Attributes, Constant, OwnedAlong, PendingAlong, Places, SplitAlong
from distir.ir.places import Repeated, along, cuts_of, places, without
from distir.ops.mesh import stating


class NoWay(Exception):  # noqa: N818 - a verdict on two placements, not a failure of ours
    """No collectives bring a value there: it is to be split in blocks of which the number is not said."""


@dataclass(frozen=True, slots=True)
class AxisMove:
    """One collective over axes: its op and attributes, the ending of its result's name, and the new placement.

    `cut`: how a dimension is cut. `of`: how what is joined was cut, if that is in blocks or in zig-zag.
    """

    op: str
    attrs: Attributes
    ending: str
    given: Places
    cut: SplitAlong | None = None
    of: SplitAlong | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that it is over, the outermost first."""
        axes = self.attrs["axis"]
        return tuple(map(str, axes)) if isinstance(axes, tuple) else (str(axes),)

    @property
    def reduces(self) -> bool:
        """Whether it ends a pending sum or maximum."""
        return self.op in REDUCING


REDUCING = frozenset({"AllReduce", "ReduceScatter", "Reduce"})


@lru_cache(maxsize=1 << 10)
def moves(now: Places, wanted: Places, together: tuple[tuple[str, ...], ...] = ()) -> tuple[AxisMove, ...]:
    """What brings a value from one placement into another: what makes it smaller first, gathering last.

    A dimension is cut, and gathered, innermost last and first: only there its rows stay in order. Over several of
    axes that are `together`, which are in the order of the mesh, it is one collective. Raises NoWay.
    """
    found: list[AxisMove] = []
    for move in _moves(now, wanted, together):
        both = _joined(found[-1], move, together) if found else None
        found[-1:] = [both] if both is not None else [*found[-1:], move]
    return tuple(found)


def _joined(first: AxisMove, then: AxisMove, together: Sequence[Sequence[str]]) -> AxisMove | None:
    """One collective for two, one after the other; None if they are not of one kind, over axes that are together."""
    own, other = ({**move.attrs, "axis": "", "to": 0} for move in (first, then))
    axes = (*then.axes, *first.axes) if then.op == "AllGather" else (*first.axes, *then.axes)
    group = next((group for group in together if {*axes} <= {*group}), None)
    if first.op != then.op or own != other or group is None or then.op == "AllToAll":
        return None
    if _several(first) != _several(then) or any(own and own.blocks for own in (first.cut, first.of)):
        return None
    if then.op in ("AllReduce", "Broadcast"):
        axes = tuple(axis for axis in group if axis in axes)
    to = {"to": (*_numbers(first), *_numbers(then))} if then.op == "Reduce" else {}
    return replace(then, attrs=Attributes({**then.attrs, "axis": axes, **to}))


def _several(move: AxisMove) -> tuple[bool, bool]:
    """Whether a device has several parts of a dimension, one of each block, or two in zig-zag."""
    return (
        any(bool(own.blocks) for own in (move.cut, move.of) if own),
        any(own.zigzag for own in (move.cut, move.of) if own),
    )


def _numbers(reduced: AxisMove) -> tuple[Constant, ...]:
    """The numbers of the devices to which it reduces, along its axes."""
    to = reduced.attrs["to"]
    return to if isinstance(to, tuple) else (to,)


def _moves(now: Places, wanted: Places, together: Sequence[Sequence[str]]) -> Iterator[AxisMove]:
    """The same, over one axis each, but for all-to-alls."""
    while now != wanted:
        move = (
            _split(now, wanted)
            or _reduced(now, wanted)
            or _exchanged_together(now, wanted, together)
            or _exchanged(now, wanted)
            or _gathered(now, wanted)
        )
        if move is None:
            raise NoWay
        yield move
        now = move.given


def _split(now: Places, wanted: Places) -> AxisMove | None:
    """A part of a value that is whole along an axis, or of a sum that is pending."""
    ready = [cut for cut in wanted if isinstance(cut, SplitAlong) and _is_next(now, cut, wanted)]
    for cut in ready:
        if along(now, cut.axis) is None and not any(isinstance(block, Repeated) for block in cut.blocks):
            return _move("Shard", "part", now, cut, axis=cut.axis, dim=cut.dim, **stating(cut.blocks, cut.zigzag))
    for cut in ready:
        if along(now, cut.axis) == PendingAlong(cut.axis) and not cut.blocks:
            zigzag = stating((), cut.zigzag)
            return _move("ReduceScatter", "sum", now, cut, axis=cut.axis, dim=cut.dim, **zigzag)
    return None


def _reduced(now: Places, wanted: Places) -> AxisMove | None:
    """What is pending, whole; or a whole value in equal shares of a sum."""
    for place in now:
        then = along(wanted, place.axis)
        if place == PendingAlong(place.axis) and isinstance(then, OwnedAlong):
            attrs = Attributes({"axis": place.axis, "to": then.number})
            return AxisMove("Reduce", attrs, "sum", places((*without(now, place.axis), then)))
    for place in now:
        if isinstance(place, PendingAlong) and place not in wanted:
            how = {} if place.how == "sum" else {"op": place.how}
            ending = "sum" if place.how == "sum" else "greatest"
            then = along(wanted, place.axis)
            if place.how == "sum" and isinstance(then, SplitAlong) and not then.blocks and _obstructed(now, wanted):
                continue  # scattered, once what splits the dimension is gathered
            return AxisMove("AllReduce", Attributes({"axis": place.axis, **how}), ending, without(now, place.axis))
    for place in wanted:
        if isinstance(place, PendingAlong) and along(now, place.axis) is None:
            return AxisMove("Share", Attributes({"axis": place.axis}), "share", places((*now, place)))
    return None


def _exchanged_together(now: Places, wanted: Places, together: Sequence[Sequence[str]]) -> AxisMove | None:
    """A value that is split in one dimension along several axes, split along the same ones in another."""
    for group in together:
        cuts = [place for place in now if isinstance(place, SplitAlong) and place.axis in group]
        then = [place for place in wanted if isinstance(place, SplitAlong) and place.axis in group]
        if len(cuts) < 2 or [cut.axis for cut in cuts] != [cut.axis for cut in then]:
            continue
        if any(len({(cut.dim, cut.blocks, cut.zigzag) for cut in own}) > 1 or own[0].blocks for own in (cuts, then)):
            continue
        (before, *_), (cut, *_) = cuts, then
        is_last = cuts_of(now, before.dim)[-len(cuts) :] == cuts
        if before.dim != cut.dim and is_last and [*cuts_of(now, cut.dim), *then] == cuts_of(wanted, cut.dim):
            rest = (place for place in now if place not in cuts)
            axis = tuple(cut.axis for cut in cuts)
            attrs = Attributes({"axis": axis, "split": cut.dim, "join": before.dim, **stating((), cut.zigzag)})
            return AxisMove("AllToAll", attrs, "turned", places((*rest, *then)), cut)
    return None


def _exchanged(now: Places, wanted: Places) -> AxisMove | None:
    """A value that is split in one dimension, split along the same axis in another."""
    for cut in wanted:
        before = along(now, cut.axis)
        if not isinstance(cut, SplitAlong) or not isinstance(before, SplitAlong) or before.dim == cut.dim:
            continue
        is_one = not before.blocks and not cut.blocks
        if is_one and _innermost(now, before.dim) == before and _is_next(now, cut, wanted):
            zigzag = stating((), cut.zigzag)
            return _move("AllToAll", "turned", now, cut, axis=cut.axis, split=cut.dim, join=before.dim, **zigzag)
    return None


def _gathered(now: Places, wanted: Places) -> AxisMove | None:
    """A dimension that is split otherwise than it is to be, whole along the innermost axis that splits it.

    Or what one device has and is not to have alone, on all.
    """
    for place in now:
        if isinstance(place, OwnedAlong) and place not in wanted:
            return AxisMove("Broadcast", Attributes({"axis": place.axis}), "whole", without(now, place.axis))
    for dim in dict.fromkeys(cut.dim for cut in now if isinstance(cut, SplitAlong)):
        if not _is_start(cuts_of(now, dim), cuts_of(wanted, dim)):
            cut = _innermost(now, dim)
            attrs = Attributes({"axis": cut.axis, "dim": dim})
            return AxisMove("AllGather", attrs, "whole", without(now, cut.axis), of=cut)
    return None


def _move(op: str, ending: str, now: Places, cut: SplitAlong, **attrs: Constant) -> AxisMove:
    return AxisMove(op, Attributes(attrs), ending, places((*without(now, cut.axis), cut)), cut)


def _is_next(now: Places, cut: SplitAlong, wanted: Places) -> bool:
    """Whether a dimension, as it is split, is to be split along this axis next."""
    before, after = cuts_of(now, cut.dim), cuts_of(wanted, cut.dim)
    return after[: len(before) + 1] == [*before, cut]


def _obstructed(now: Places, wanted: Places) -> bool:
    """Whether some dimension is split otherwise than it is to be."""
    return _gathered(now, wanted) is not None


def _is_start(before: Sequence[SplitAlong], after: Sequence[SplitAlong]) -> bool:
    return after[: len(before)] == [*before]


def _innermost(now: Places, dim: int) -> SplitAlong:
    return cuts_of(now, dim)[-1]
