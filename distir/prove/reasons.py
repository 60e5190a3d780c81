"""Why a statement is not what is due, in the words of who wrote it: microbatches, replicas, how often something counts.

No proof rests on any of this: it looks at the operands of a statement that is not proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import gcd

from distir.ir import Apply, Call, Dense, Function, Literal
from distir.ops.experts.of_pieces import OF_EXPERTS
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.batches import Batches, Microbatch, batch_rows
from distir.prove.history import SUMS, Frame, MadeBy, PastStatements, Related, device_of, of_first, pieces
from distir.prove.pieces import TermPiece, Through
from distir.prove.runs import Runs

MOST_TRACED = 20
"""So many statements back the factors of a value are looked for."""


def of_microbatches(batches: Batches, place: MadeBy) -> tuple[str, Frame | None] | None:
    """What to say where operands are of different microbatches, or replicas, and of which call they are, if of one."""
    for frame in place.calls:
        said = _mixed(batches, frame[1], frame[2])
        if said is not None:
            return said, frame
    said = _mixed(batches, place.statement, place.given)
    return None if said is None else (said, None)


@dataclass(frozen=True, slots=True)
class MissingAddends:
    """Says of partial sums over what they are: microbatches, replicas, or shards."""

    algebra: Algebra
    batches: Batches
    history: PastStatements

    def of_addends(self, place: MadeBy) -> str | None:
        """What to say of an operand that lacks, or has twice, a microbatch of a replica."""
        for arg, v in zip(place.statement.args, place.given, strict=True):
            for piece in pieces(v):
                said = self.counted(piece)
                if said is not None:
                    name = f"%{arg}" if isinstance(arg, str) else "an operand"
                    return f"`{name}` is {said}"
        return None

    def counted(self, piece: TermPiece) -> str | None:
        """Which microbatches a partial sum lacks, or has more than once, of the replicas that it is of.

        None of other values, and where the program has no microbatches.
        """
        sums: dict[int, list[tuple[float, Runs]]] = {}
        for _, c, addends in piece.terms:
            for number, runs in addends:
                sums.setdefault(number, []).append((abs(c), runs))
        if not sums or not self._has_microbatches():
            return None
        for axis, size, parts in self.batches.given:
            for number, over in sums.items():
                if not self._is_over_batch(number, axis):
                    continue
                rows = [(c, batch_rows(runs, self.algebra.sizes[number], size)) for c, runs in over]
                for part in parts:
                    said = list(_times(self.batches, axis, size, part, [(c, own) for c, own in rows if own]))
                    if said:
                        return f"a sum over microbatches, of which {' and '.join(said)}"
        return None

    def over(self, piece: TermPiece) -> str:
        """Over how many replicas, or shards, a partial sum is; nothing of one whose devices have unequal parts."""
        addends = next((own for _, _, own in piece.terms if own), ())
        count, kinds = Fraction(1), set[str]()
        for number, runs in addends:
            count *= Fraction(self.algebra.sizes[number], places.length(runs))
            of_replicas = any(
                len(parts) > 1 and self._is_over_batch(number, axis) for axis, _, parts in self.batches.given
            )
            kinds.add("replicas" if of_replicas else "shards")
        if count.denominator != 1 or count == 1:
            return ""
        return f" over {count} {kinds.pop() if len(kinds) == 1 else 'devices'}"

    def _has_microbatches(self) -> bool:
        """Whether a device computes with less of the batch than it is given."""
        own = (self.batches.of_piece(of_first(piece)) for piece in self.history.inputs(self.batches.inputs))
        return any(each is not None and each.count > 1 for each in own)

    def _is_over_batch(self, number: int, axis: int) -> bool:
        """Whether a sum is over rows of the batch: along that dimension of what an input leads to.

        Not over those of experts, however many tokens of the batch they are of.
        """
        name, size = self.algebra.names[number], self.algebra.sizes[number]
        while isinstance(name, Through):
            number, name = name.number, self.algebra.names[name.number]
        if isinstance(name[1], str) and name[1].startswith(OF_EXPERTS):
            return False
        along = self.history.dimensions(number, size)
        return any(k == axis and any(self.batches.leads_to(a) for a, _, _ in piece.terms) for piece, k in along)


def _times(batches: Batches, axis: int, size: int, part: Runs, over: Sequence[tuple[float, Runs]]) -> Iterator[str]:
    """Which microbatches of a replica's part some addends lack, or have more than once; `over`: factors and rows."""
    of_part = [row for start, stop in part for row in range(start, stop)]
    bounds = {len(of_part)}
    for _, rows in over:
        inside = [any(start <= row < stop for start, stop in rows) for row in of_part]
        bounds.update(k for k in range(1, len(inside)) if inside[k] != inside[k - 1])
    width = gcd(*bounds)
    if width == len(of_part):
        return
    once = min(c for c, _ in over)
    counts: Counter[int] = Counter()
    for c, rows in over:
        counts.update({row: round(c / once) for start, stop in rows for row in range(start, stop)})
    for k in range(0, len(of_part), width):
        times = {counts[row] for row in of_part[k : k + width]}
        which = batches.of(axis, size, places.taken(part, k, k + width))
        if times == {0}:
            yield f"{which} is missing"
        elif min(times) > 1:
            yield f"{which} counts {min(times)} times"


def of_factors(function: Function, statement: Apply) -> str | None:
    """How operands were scaled: over how many devices they were added up, and by what they were divided."""
    for arg in statement.args:
        said = _scaled(function, arg) if isinstance(arg, str) else None
        if said:
            return f"`%{arg}` is {said}"
    return None


def of_sum(statement: Apply, times: float) -> str:
    """What to say of a collective whose result has something so many times, as each device has it."""
    if statement.op not in SUMS or times != len(statement.args):
        return ""
    return f": each of {len(statement.args)} devices has it before the sum"


def _scaled(function: Function, name: str) -> str:
    made = {result: s for s in function.body if isinstance(s, Apply) for result in s.results if result}
    said: list[str] = []
    for _ in range(MOST_TRACED):
        statement = made.get(name)
        if statement is None or not statement.args or not isinstance(statement.args[0], str):
            break
        first, number = statement.args[0], _number(statement)
        if statement.op in SUMS:
            said.append(f"summed over {len(statement.args)} devices")
        elif statement.op == "Div" and number is not None:
            said.append(f"divided by {number:g}")
        elif statement.op == "Mul" and number:
            said.append(f"divided by {1 / number:g}" if abs(number) < 1 else f"multiplied by {number:g}")
        elif statement.op not in ("Send", "Identity", "Cast", "After"):
            break
        name = first
    counts = [(words, len(list(equal))) for words, equal in groupby(reversed(said))]
    return " and ".join(words if times == 1 else f"{words}, {times} times" for words, times in counts)


def _number(statement: Apply) -> float | None:
    """The number that a statement multiplies or divides by."""
    second = statement.args[1] if len(statement.args) > 1 else None
    value = second.value if isinstance(second, Literal) else None
    held = value.values[0] if isinstance(value, Dense) and len(value.values) == 1 else value
    return float(held) if isinstance(held, (int, float)) and not isinstance(held, bool) else None


def _mixed(batches: Batches, statement: Apply | Call, vs: Sequence[Related]) -> str | None:
    """What to say of a statement whose operands are of different microbatches."""
    found: list[tuple[str, Microbatch, int | None]] = []
    for arg, v in zip(statement.args, vs, strict=True):
        for piece in pieces(v):
            own = None if piece.is_partial else batches.of_piece(piece)
            if own is not None and isinstance(arg, str):
                found.append((arg, own, device_of(piece)))
    counts = Counter(own for _, own, _ in {(arg, own, None) for arg, own, _ in found})
    if len(counts) < 2:
        return None
    (due, most), (_, second), *_ = counts.most_common()
    if most > second:
        arg, own, device = next(each for each in found if each[1] != due)
        where = "" if device is None else f"device {device} uses "
        return f"{where}{own} where {due} is due: `%{arg}`"
    (first, own, _), (other, another, _) = found[0], next(each for each in found if each[1] != found[0][1])
    return f"`%{first}` is of {own}, and `%{other}` of {another}"
