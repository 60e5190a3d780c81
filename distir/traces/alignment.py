"""Aligns the measured ops of a trace ("pieces") with the statements of a simulated program, device by device.

A piece matches a statement if its name is torch's name for the statement's op, or if both are products, attention or
the same pattern of communication. Matches are made in three passes: equal phase and size, in order; equal size in any
phase; similar sizes, in order. Where the two sides have different numbers of candidates, a sequence alignment keeps the
order and prefers equal names of modules and functions, and similar positions in the step. Unmatched pieces and
statements are counted. Times are in seconds. Phases are looked up; the rest is asked of ops and sizes, as traces
have no facts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from distir.traces.activity import BACKWARD, FORWARD, UPDATES, Piece, StepActivity
from distir.traces.statements import DeviceProgram, SimulatedOp

LARGEST = 4_000_000
"""The most pairs that an alignment of equal names compares; beyond that, the first ones are matched in order."""

SIMILAR = 4.0
"""The ratio up to which sizes are similar, in the last pass."""

_WORD = re.compile(r"[a-z]{3,}")


@dataclass(slots=True)
class AlignedOp:
    """A statement and the piece that is it; `fused`: further statements that the piece does, too."""

    statement: SimulatedOp
    piece: Piece
    fused: list[SimulatedOp] = field(default_factory=list["SimulatedOp"])

    @property
    def simulated(self) -> float:
        """Seconds of the statements."""
        return self.statement.seconds + sum(op.seconds for op in self.fused)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Statements and pieces that do the same in all, but divide it otherwise: an optimizer's step, buckets."""

    kind: str
    statements: tuple[SimulatedOp, ...]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Aligned:
    """One step of a rank beside its device's program."""

    device: int
    step: StepActivity
    matches: tuple[AlignedOp, ...]
    bundles: tuple[Bundle, ...]
    only_simulated: tuple[SimulatedOp, ...]
    only_measured: tuple[Piece, ...]


def align(program: DeviceProgram, step: StepActivity, world: int) -> Aligned:
    """A step beside a device's program. `world`: ranks of the run, for collectives that do not state their group."""
    statements, pieces = _Pending(program.ops), _Pending(step.pieces)
    bundles = _bundled(statements, pieces, [UPDATES])
    found: list[tuple[int, int]] = []
    for same in (_equal_in_phase, _equal):
        found += _by_size(statements, pieces, same, world)
    bundles += _bundled(statements, pieces, sorted({op.pattern for op in statements.left() if op.pattern}))
    found += _by_order(statements, pieces, world)
    matches = [AlignedOp(program.ops[a], step.pieces[b]) for a, b in sorted(found)]
    _fuse(matches, statements)
    left = tuple(statements.left()), tuple(pieces.left())
    return Aligned(program.device, step, tuple(matches), tuple(bundles), *left)


def payload(piece: Piece, world: int) -> int | None:
    """The bytes of a communication as `Communication.nbytes` counts them; None where they are not stated."""
    found = piece.collective
    if found is None or found.nbytes is None:
        return None
    if found.pattern in ("allgather", "gather"):
        return found.received or found.nbytes * (found.size or world)
    return max(found.nbytes, found.received or 0) if found.pattern in ("reducescatter", "send") else found.nbytes


T = TypeVar("T")


class _Pending(Generic[T]):
    """Statements or pieces in order, and which of them are not lined up yet."""

    def __init__(self, items: Sequence[T]) -> None:
        self.items = items
        self.open = dict.fromkeys(range(len(items)))

    def left(self) -> list[T]:
        return [self.items[index] for index in self.open]

    def take(self, indices: Iterable[int]) -> tuple[T, ...]:
        found = list(indices)
        for index in found:
            del self.open[index]
        return tuple(self.items[index] for index in found)

    def place(self, index: int) -> float:
        """How far along an item is, from 0 to 1."""
        return index / max(1, len(self.items) - 1)


def _bundled(statements: _Pending[SimulatedOp], pieces: _Pending[Piece], kinds: Sequence[str]) -> list[Bundle]:
    """What is open of these kinds, where both sides have some."""
    found: list[Bundle] = []
    for kind in kinds:
        ours = [index for index in statements.open if statements.items[index].kind == kind]
        theirs = [index for index in pieces.open if pieces.items[index].kind == kind]
        if ours and theirs:
            found.append(Bundle(kind, statements.take(ours), pieces.take(theirs)))
    return found


_Key = tuple[object, ...]


def _equal_in_phase(size: object, item: SimulatedOp | Piece) -> _Key:
    return size, _phase(item)


def _equal(size: object, item: SimulatedOp | Piece) -> _Key:
    """Without the phase; but of products, only those of the forward pass may run in the backward pass, once more."""
    if not isinstance(size, tuple) or "elements" in size:
        return (cast("object", size),)
    return cast("object", size), FORWARD if isinstance(item, Piece) and item.phase == BACKWARD else item.phase


def _tags(item: SimulatedOp | Piece, world: int) -> tuple[frozenset[str], object]:
    """What an item may be called, and its size. Of products and attention, and of communication, the size says it."""
    if isinstance(item, SimulatedOp):
        if item.work.communication is not None:
            return frozenset([f"{item.pattern}"]), item.work.communication.nbytes
        if item.size is not None and item.size[0] != "elements":
            return frozenset([str(item.size[0])]), item.size
        return item.names, item.size
    if item.collective is not None:
        return frozenset([item.collective.pattern]), payload(item, world)
    if item.size is not None and item.size[0] != "elements":
        return frozenset([str(item.size[0])]), item.size
    return frozenset(item.names), item.size


def _by_size(
    statements: _Pending[SimulatedOp],
    pieces: _Pending[Piece],
    same: Callable[[object, SimulatedOp | Piece], _Key],
    world: int,
) -> list[tuple[int, int]]:
    """Pairs of equal sizes and names. Statements with the fewest names choose first: theirs say the most."""
    there: dict[tuple[str, _Key], list[int]] = {}
    for index in pieces.open:
        names, size = _tags(pieces.items[index], world)
        if size is not None:
            key = same(size, pieces.items[index])
            for name in names:
                there.setdefault((name, key), []).append(index)
    groups: dict[tuple[frozenset[str], _Key], list[int]] = {}
    for index in statements.open:
        names, size = _tags(statements.items[index], world)
        if size is not None:
            groups.setdefault((names, same(size, statements.items[index])), []).append(index)
    found: list[tuple[int, int]] = []
    for (names, key), own in sorted(groups.items(), key=lambda group: len(group[0][0])):
        candidates = {index for name in names for index in there.get((name, key), ()) if index in pieces.open}
        found += _paired(statements, pieces, own, sorted(candidates))
    return found


def _phase(item: SimulatedOp | Piece) -> str:
    """Communication has none: torch runs it beside all phases."""
    communicates = item.pattern if isinstance(item, SimulatedOp) else item.collective
    return "" if communicates else item.phase


def _by_order(statements: _Pending[SimulatedOp], pieces: _Pending[Piece], world: int) -> list[tuple[int, int]]:
    """Pairs of what is left over, of equal names and similar or unknown sizes, in order."""
    groups: dict[tuple[frozenset[str], str], list[int]] = {}
    for index in statements.open:
        item = statements.items[index]
        groups.setdefault((_tags(item, world)[0], _phase(item)), []).append(index)
    there: dict[str, list[int]] = {}
    for index in pieces.open:
        there.setdefault(_phase(pieces.items[index]), []).append(index)
    found: list[tuple[int, int]] = []
    for (names, phase), own in sorted(groups.items(), key=lambda group: len(group[0][0])):
        left = [index for index in there.get(phase, ()) if index in pieces.open]
        candidates = [index for index in left if _tags(pieces.items[index], world)[0] & names]
        unsized = [index for index in candidates if _tags(pieces.items[index], world)[1] is None]
        found += _paired(statements, pieces, own, unsized)
        others = [index for index in own if index in statements.open]
        sized = [index for index in candidates if index in pieces.open]

        def similar(a: int, b: int) -> bool:
            sizes = (_tags(statements.items[a], world)[1], _tags(pieces.items[b], world)[1])
            one, other = map(_volume, sizes)
            return max(one, other) <= SIMILAR * min(one, other)

        found += _paired(statements, pieces, others, sized, similar)
    return found


def _volume(size: object) -> float:
    """About how large something is: bytes, elements, products."""
    if isinstance(size, tuple):
        parts = cast("tuple[object, ...]", size)
        return float(math.prod(part for part in parts if isinstance(part, int) and not isinstance(part, bool)))
    return float(size) if isinstance(size, int) else 0.0


def _paired(
    statements: _Pending[SimulatedOp],
    pieces: _Pending[Piece],
    own: Sequence[int],
    theirs: Sequence[int],
    allowed: Callable[[int, int], bool] | None = None,
) -> list[tuple[int, int]]:
    """Pairs in order, as many as there can be; all of them are taken."""
    if allowed is None and (len(own) == len(theirs) or len(own) * len(theirs) > LARGEST):
        pairs = list(zip(own, theirs, strict=False))
    elif len(own) * len(theirs) > LARGEST:
        pairs = [pair for pair in zip(own, theirs, strict=False) if allowed is None or allowed(*pair)]
    else:
        words = {a: _words(statements.items[a].path) for a in own}
        modules = {b: _words(pieces.items[b].modules) for b in theirs}

        def score(a: int, b: int) -> float:
            if allowed is not None and not allowed(a, b):
                return 0.0
            shared = len(words[a] & modules[b]) / max(1, len(words[a] | modules[b]))
            return 1.0 + shared + 0.5 * (1 - abs(statements.place(a) - pieces.place(b)))

        pairs = _best(own, theirs, score)
    for a, b in pairs:
        del statements.open[a]
        del pieces.open[b]
    return pairs


def _best(own: Sequence[int], theirs: Sequence[int], score: Callable[[int, int], float]) -> list[tuple[int, int]]:
    """The pairs in order with the highest sum of scores (Needleman and Wunsch, 1970, without a cost of gaps)."""
    if not own or not theirs:
        return []
    rows: list[list[float]] = [[0.0] * (len(theirs) + 1)]
    gains = [[score(a, b) for b in theirs] for a in own]
    for gain in gains:
        above, row = rows[-1], [0.0]
        for j, value in enumerate(gain):
            row.append(max(above[j + 1], row[j], above[j] + value))
        rows.append(row)
    found: list[tuple[int, int]] = []
    i, j = len(own), len(theirs)
    while i and j:
        if gains[i - 1][j - 1] > 0 and rows[i][j] == rows[i - 1][j - 1] + gains[i - 1][j - 1]:
            i, j = i - 1, j - 1
            found.append((own[i], theirs[j]))
        elif rows[i][j] == rows[i - 1][j]:
            i -= 1
        else:
            j -= 1
    return found[::-1]


def _words(names: Iterable[str]) -> frozenset[str]:
    return frozenset(word for name in names for word in _WORD.findall(name.lower()))


def _fuse(matches: Sequence[AlignedOp], statements: _Pending[SimulatedOp]) -> None:
    """Match further statements with a fused piece: users of its statement's result that the kernel computes as well.

    Such as the bias of `addmm`, and the ops of a kernel of `torch.compile`.
    """
    maker: dict[tuple[int, str], AlignedOp] = {value: match for match in matches for value in match.statement.makes}
    for index in list(statements.open):
        op = statements.items[index]
        match = next((maker[value] for value in op.uses if value in maker), None)
        if match is None or op.pattern is not None:
            continue
        does = {"add"} if "addmm" in match.piece.names or "baddbmm" in match.piece.names else set[str]()
        if match.piece.label.startswith("triton_"):
            does = set(match.piece.names)
        done = len(match.fused) if does == {"add"} else 0
        if op.names & does and not done:
            match.fused.append(op)
            maker.update(dict.fromkeys(op.makes, match))
            del statements.open[index]


@dataclass(frozen=True, slots=True)
class KindRow:
    """Steps of all devices, by what ops do: how often and how long, per step and device, simulated and measured.

    `side`: `both`, or which of the two has it alone; `steps`: how many steps are the mean's; `difference`: measured
    less simulated.
    """

    kind: str
    side: str
    simulated_n: float
    measured_n: float
    simulated: float
    measured: float
    steps: int

    @property
    def difference(self) -> float:
        """Measured less simulated."""
        return self.measured - self.simulated

    @property
    def ratio(self) -> float | None:
        """Measured over simulated; None where either is missing, and of what is no op."""
        return self.measured / self.simulated if self.is_op and self.simulated and self.measured else None

    @property
    def is_op(self) -> bool:
        """Whether it is about ops, and not about what is left of a step."""
        return self.kind not in (IDLE, OVERLAP)


BOTH, SIMULATED, MEASURED = "both", "simulated", "measured"


def by_kind(found: Sequence[Aligned]) -> list[KindRow]:
    """Totals per step and device, the largest difference first."""
    totals: dict[tuple[str, str], list[float]] = {}

    def add(kind: str, side: str, *numbers: float) -> None:
        own = totals.setdefault((kind, side), [0.0] * 4)
        for index, number in enumerate(numbers):
            own[index] += number

    for aligned in found:
        for match in aligned.matches:
            add(match.statement.kind, BOTH, 1, 1, match.simulated, match.piece.seconds)
        for bundle in aligned.bundles:
            add(bundle.kind, BOTH, len(bundle.statements), 0, sum(op.seconds for op in bundle.statements), 0.0)
            add(bundle.kind, BOTH, 0, len(bundle.pieces), 0.0, sum(piece.seconds for piece in bundle.pieces))
        for op in aligned.only_simulated:
            add(op.kind, SIMULATED, 1, 0, op.seconds, 0.0)
        for piece in aligned.only_measured:
            add(piece.kind, MEASURED, 0, 1, 0.0, piece.seconds)
    count = max(1, len(found))
    rows = [
        KindRow(kind, side, own[0] / count, own[1] / count, own[2] / count, own[3] / count, len(found))
        for (kind, side), own in totals.items()
    ]
    return sorted(rows, key=lambda row: (-abs(row.difference), row.kind, row.side))


IDLE, OVERLAP = "idle or waiting", "overlap"


def rest_of(found: Sequence[Aligned], programs: Mapping[int, DeviceProgram], latency: float) -> list[KindRow]:
    """What is left of a step beside its ops: idle, waiting for other ranks or in Python; and, less, what overlaps."""
    count = max(1, len(found))
    idle, overlap = [0.0, 0.0], [0.0, 0.0]
    for aligned in found:
        program, step = programs[aligned.device], aligned.step
        waited = sum(piece.waited for piece in step.pieces)
        idle[0] += latency - program.busy
        idle[1] += step.idle + waited
        overlap[0] += sum(op.seconds for op in program.ops) - program.busy
        overlap[1] += sum(piece.seconds for piece in step.pieces) + waited - step.busy
    rows = [KindRow(IDLE, BOTH, 0, 0, _clean(idle[0] / count), _clean(idle[1] / count), len(found))]
    ours, theirs = (_clean(seconds / count) for seconds in overlap)
    return [*rows, KindRow(OVERLAP, BOTH, 0, 0, -ours, -theirs, len(found))] if ours or theirs else rows


def _clean(seconds: float) -> float:
    """Without what sums of floating-point numbers leave."""
    return seconds if abs(seconds) > 1e-12 else 0.0
