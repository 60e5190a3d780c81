"""Hover on a value of a program on a mesh: what devices hold, what is pending, who placed it so and what that took."""

from __future__ import annotations

from collections.abc import Sequence

from distir.analysis.placement_states import held
from distir.analysis.stated_places import complaint
from distir.cost import show_bytes, show_seconds
from distir.ide.compact import in_full
from distir.ide.instances import View
from distir.ide.lines import statement_in_words
from distir.ide.markdown import block, code, paragraphs
from distir.ide.placements import Found, changed_by, ended_by, pending_since, reshards
from distir.ir import HOST, UNKNOWN, Function, Mesh, OwnedAlong, PendingAlong, SplitAlong, TensorType, Type, dims, types
from distir.ir.places import NOUNS, Place, along, count, cuts_of
from distir.ops import type_of

MOST_SHOWN = 4
"""Of an axis with more devices the first, the second and the last are shown."""


def about_placement(view: View, function: Function, name: str, made: int | None) -> str:
    """What is said of a value's placement; empty without a mesh."""
    meshes, found = view.facts.meshes, type_of(view.value(function.name, name))
    if not meshes or types.device_of(found) == HOST or found == UNKNOWN or complaint(found, meshes):
        return ""
    part, mesh = held(found, meshes), meshes.of(types.device_of(found))
    size = types.nbytes(part)
    bytes_ = f", {show_bytes(size)}" if isinstance(size, int) else ""
    holds = f"{_holders(found, mesh)} holds {code(in_full(part))}{bytes_}"
    grid = _grid(found, mesh) if isinstance(found, TensorType) else []
    shown = block("\n".join(grid), "text") if grid else ""
    return paragraphs([holds, shown, _changed(view, function, name, made), _pending(view, function, name, made)])


def _holders(found: Type, mesh: Mesh) -> str:
    """The devices that have a value, or parts of it."""
    placed = found.places if isinstance(found, TensorType) else ()
    owned = {place.axis: place.number for place in placed if isinstance(place, OwnedAlong)}
    devices = count(size for axis, size in mesh if axis not in owned)
    alone = "".join(f", number {number} along {code(axis)}," for axis, number in owned.items())
    return f"one device{alone}" if owned and devices == 1 else f"each of {dims.show(devices)} devices{alone}"


def _changed(view: View, function: Function, name: str, made: int | None) -> str:
    """The statement that placed a value so, and what that took."""
    by = None if made is None else changed_by(view, function, name, made + 1)
    if by is None:
        return ""
    where, index = by
    moment = view.moment(where, index) if reshards(where.body[index]) else None
    cost = f" in {show_seconds(moment.seconds)}" if moment is not None else ", without communication"
    is_unknown = moment is None and reshards(where.body[index])
    return f"placed so by {_statement(view, function, by)}{'' if is_unknown else cost}"


def _pending(view: View, function: Function, name: str, made: int | None) -> str:
    """Where the sums began that are pending in a value, and the collectives that end them."""
    found = type_of(view.value(function.name, name))
    said: list[str] = []
    for place in found.places if isinstance(found, TensorType) else ():
        if not isinstance(place, PendingAlong):
            continue
        since = None if made is None else pending_since(view, function, name, made + 1, place)
        began = "as it is given" if since is None else f"since {_statement(view, function, since)}"
        ends = ended_by(view, function, name, made, place)
        ended = "" if ends is None else f", ended by {_statement(view, function, ends)}"
        said.append(f"a pending {NOUNS[place.how]} over {code(place.axis)} {began}{ended}")
    return " · ".join(said)


def _statement(view: View, function: Function, found: Found) -> str:
    there, index = found
    where = "" if there.name == function.name else f" of {code('@' + there.name)}"
    return f"{statement_in_words(view, there, index)}{where}"


# ---- the mesh as a grid


def _grid(found: TensorType, mesh: Mesh) -> list[str]:
    """The parts that the devices hold, as rows and columns of the one or two axes along which it is not whole."""
    axes = [(axis, size) for axis, size in mesh if along(found.places, axis) is not None]
    sizes = [size for _, size in axes if isinstance(size, int)]
    if not 0 < len(axes) <= 2 or len(sizes) < len(axes) or not _is_even(found):
        return []
    (row_axis, rows), (axis, columns) = [("", 1), *axes][-2:]
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    table = [["", *(f"{axis} {_number(j)}" for j in _some(columns))]]
    for i in _some(rows):
        head = f"{row_axis} {_number(i)}" if row_axis else ""
        table.append([head, *(_cell(found, dict(axes), {row_axis: i, axis: j}) for j in _some(columns))])
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _is_even(found: TensorType) -> bool:
    """Whether parts are a few ranges of numbers: no dimension has a name, or is split in blocks."""
    is_plain = all(not (isinstance(place, SplitAlong) and place.blocks) for place in found.places)
    return found.shape is not None and is_plain and all(isinstance(dim, int) for dim in found.shape)


def _some(size: int) -> Sequence[int]:
    """The numbers of the devices along an axis that are shown; -1 for those that are left out."""
    return range(size) if size <= MOST_SHOWN else (0, 1, -1, size - 1)


def _number(number: int) -> str:
    return "…" if number < 0 else str(number)


def _cell(found: TensorType, sizes: dict[str, int | dims.SymbolicDim], at: dict[str, int]) -> str:
    """What the device at a place of the mesh holds: of each dimension which part, of a sum which term."""
    if min(at.values()) < 0:
        return "…"
    assert found.shape is not None
    if any(isinstance(place, OwnedAlong) and place.number != at[place.axis] + 1 for place in found.places):
        return "none"
    parts: list[str] = []
    for number, dim in enumerate(found.shape):
        assert isinstance(dim, int)
        held = [range(dim)]
        for cut in cuts_of(found.places, number):
            size = sizes[cut.axis]
            assert isinstance(size, int)
            held = _part(held, at[cut.axis], size, cut.zigzag)
        parts.append(" and ".join(f"{r.start}:{r.stop}" for r in held) if held != [range(dim)] else ":")
    terms = [_term(place, at) for place in found.places if isinstance(place, PendingAlong)]
    return " ".join([f"[{', '.join(parts)}]", *terms])


def _part(held: Sequence[range], place: int, size: int, zigzag: bool) -> list[range]:
    """What a device at a place along an axis has of these numbers."""
    run = sum(map(len, held)) // (2 * size if zigzag else size)
    found: list[range] = []
    for part in (place, 2 * size - 1 - place) if zigzag else (place,):
        first = part * run
        for each in held:
            own = each[max(0, first) : max(0, first + run)]
            first -= len(each)
            if own and found and found[-1].stop == own.start:
                found[-1] = range(found[-1].start, own.stop)
            elif own:
                found.append(own)
    return found


def _term(place: Place, at: dict[str, int]) -> str:
    return f"term {at[place.axis]}"
