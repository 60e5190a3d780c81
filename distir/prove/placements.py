"""What each value of a program is of the sequential program's, in words: for hover, hints and repairs of editors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from distir.analysis.interpreter import State, interpret
from distir.analysis.parameters import parameters
from distir.ir import Call, Module, TensorType, types
from distir.ops import Reject, type_of
from distir.prove import runs as places
from distir.prove.domain import Related, value_of, valued
from distir.prove.pieces import TermPiece, Unproved
from distir.prove.proving import Followed
from distir.prove.terms import Atom
from distir.prove.words import Wording

MOST_ITEMS = 4
"""Of a tuple so many items are described."""

CallSite = tuple[str, int]
"""A statement that calls a function: the caller, and which statement of its body."""


class Placements:
    """What the values of one version of a program are, by function and name.

    Of a function that is called several times, those of one call: that of `shown`, else the first.
    """

    def __init__(self, followed: Followed, shown: Mapping[str, CallSite]) -> None:
        self.followed = followed
        self.states = _states(followed, shown)

    def piece(self, function: str, name: str) -> Related:
        """What a value is; None where nothing is known of it."""
        state = self.states.get(function)
        return state[name] if state is not None and name in state else None

    def of(self, function: str, name: str) -> str | None:
        """A value in words: `rows 0–511 of %h, microbatch 2`. None where there is nothing to say."""
        found = self.piece(function, name)
        if isinstance(found, tuple):
            values = cast("tuple[Related, ...]", found)
            items = [self._said(function, name, item) for item in values[:MOST_ITEMS] if isinstance(item, TermPiece)]
            more = f", and {len(values) - MOST_ITEMS} more" if len(values) > MOST_ITEMS else ""
            return "; ".join(items) + more if items else None
        return None if found is None else self._said(function, name, found)

    def addends(self, function: str, name: str, among: Iterable[str]) -> list[str]:
        """A partial sum and those that hold the other addends, each on a device of its own; empty where some lack."""
        piece = self.piece(function, name)
        own = _addends(piece) if isinstance(piece, TermPiece) else None
        if own is None:
            return []
        number, _ = own
        parts = dict(self._alike(function, piece, (name, *among), number, -1))
        return _chosen(parts, self.followed.reference.algebra.sizes[number], self._devices(function, parts))

    def parts(self, function: str, name: str, axis: int, among: Iterable[str]) -> list[str]:
        """A value and those that hold the other places of a dimension, each on a device of its own; in their order."""
        piece = self.piece(function, name)
        if not isinstance(piece, TermPiece) or piece.runs[axis] == places.full(piece.whole[axis]):
            return []
        parts = dict(self._alike(function, piece, (name, *among), None, axis))
        return _chosen(parts, piece.whole[axis], self._devices(function, parts))

    def _devices(self, function: str, names: Mapping[str, object]) -> Mapping[str, int | None]:
        return {name: _device(self.piece(function, name)) for name in names}

    def _alike(
        self, function: str, piece: TermPiece, names: Iterable[str], number: int | None, axis: int
    ) -> Iterator[tuple[str, places.Runs]]:
        """Values that differ from a piece in the addends of one sum alone, or in the places of one dimension."""
        for name in names:
            other = self.piece(function, name)
            if not isinstance(other, TermPiece) or other.whole != piece.whole:
                continue
            if any(k != axis and a != b for k, (a, b) in enumerate(zip(piece.runs, other.runs, strict=True))):
                continue
            if number is None and other.terms == piece.terms:
                yield name, other.runs[axis]
            elif number is not None and other.form == piece.form:
                found = _addends(other)
                if found is not None and found[0] == number:
                    yield name, found[1]

    def _said(self, function: str, name: str, piece: TermPiece) -> str:
        algebra = self.followed.reference.algebra
        words, batches = Wording(algebra), self.followed.reference.batches
        for atom, _, _ in piece.terms:
            if atom.kind == "unknown":
                return f"not related to the sequential program: {atom.reason}"
        unknown = self._root(piece)
        if unknown is not None:
            return unknown
        said, of = words.of(piece), batches.of_piece(piece)
        own = _addends(piece)
        if own is not None:
            number, runs = own
            of = of or batches.of_addends(algebra.sizes[number], runs)
            group = self.addends(function, name, self.states[function])
            devices = sorted(d for d in (_device(self.piece(function, name)) for name in group) if d is not None)
            if len(devices) > 1:
                said = f"{said}, over devices {', '.join(map(str, devices))}"
        return f"{said}, {of}" if of is not None and str(of) else said

    def _root(self, piece: TermPiece) -> str | None:
        """The statement that a value rests on of which nothing is known, in words."""
        seen: set[Atom] = set()
        stack = [atom for atom, _, _ in piece.terms]
        while stack:
            atom = stack.pop()
            if atom in seen or atom.origin is None or atom.origin.sequential:
                continue  # what the sequential program makes is known
            seen.add(atom)
            if atom.kind == "unknown":
                made = self.followed.domain.maker(atom)
                name = made.statement.results[0] if made is not None and made.statement.results else "?"
                return f"not related to the sequential program, as it rests on `%{name}`"
            stack += [inner for form in atom.operands for inner, _ in form]
        return None


def _states(followed: Followed, shown: Mapping[str, CallSite]) -> dict[str, State]:
    """The values of each function that is reached, in one call of it; of callers first."""
    module, found = followed.module, dict(followed.states)
    sites: dict[str, CallSite] = {}
    order: list[str] = []
    reached = list(found)
    for name in reached:  # grows meanwhile: breadth first, in program order
        for index, statement in enumerate(module.functions[name].body):
            if isinstance(statement, Call) and statement.function in module.functions:
                callee = statement.function
                if callee not in sites and callee not in found:
                    sites[callee] = name, index
                    order.append(callee)
                    reached.append(callee)
    for callee in order:
        for site in (shown.get(callee), sites[callee]):
            state = None if site is None or site[0] not in found else _called(followed, module, found[site[0]], site)
            if state is not None:
                found[callee] = state
                break
    return found


def _called(followed: Followed, module: Module, caller: State, site: CallSite) -> State | None:
    """The values of a function in one call of it."""
    body = module.functions[site[0]].body
    statement = body[site[1]] if site[1] < len(body) else None
    if not isinstance(statement, Call):
        return None
    function = module.functions[statement.function]
    try:
        given = caller(statement.args)
        args, _ = parameters(function, tuple(map(value_of, given)))
        return interpret(function, tuple(map(valued, given, args)), followed.domain)
    except (Reject, Unproved):
        return None


def _addends(piece: TermPiece) -> tuple[int, places.Runs] | None:
    """Of which sum a piece has which addends, if it is of one."""
    found = {addends for _, _, addends in piece.terms}
    if len(found) != 1:
        return None
    (addends,) = found
    return addends[0] if len(addends) == 1 else None


def _device(v: Related) -> int | None:
    found = type_of(v.value) if isinstance(v, TermPiece) else None
    device = types.device_of(found) if isinstance(found, TensorType) else None
    return device if isinstance(device, int) else None


def _chosen(parts: Mapping[str, places.Runs], size: int, devices: Mapping[str, int | None]) -> list[str]:
    """Of values with these places, some that together have each place once, each on a device of its own; else none."""
    found: dict[places.Runs, str] = {}
    for name, runs in parts.items():
        taken = {devices[other] for other in found.values()}
        if runs not in found and devices[name] is not None and devices[name] not in taken:
            found[runs] = name
    if places.union(list(found)) != places.full(size):
        return []
    return [found[runs] for runs in sorted(found)]
