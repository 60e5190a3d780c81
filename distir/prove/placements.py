"""What each value of a program is of the sequential program's, in words: for hover, hints and repairs of editors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from distir.analysis.interpreter import State, interpret
from distir.analysis.parameters import parameters
from distir.ir import Apply, Call, Module, TensorType, types
from distir.ops import Reject, type_of
from distir.prove import runs as places
from distir.prove.domain import value_of, valued
from distir.prove.history import Related, of_first
from distir.prove.pieces import TermPiece
from distir.prove.proving import FollowedProgram
from distir.prove.runs import Runs
from distir.prove.terms import Atom, Unproved

MOST_ITEMS = 4
"""Of a tuple so many items are described."""

CallSite = tuple[str, int]
"""A statement that calls a function: the caller, and which statement of its body."""


class Placements:
    """What the values of one version of a program are, by function and name.

    Of a function that is called several times, those of one call: that of `shown`, else the first.
    """

    def __init__(self, followed: FollowedProgram, shown: Mapping[str, CallSite]) -> None:
        self.followed = followed
        self.states = _states(followed, shown)
        self._numbered: dict[str, dict[str, int]] = {}
        self._alikes: dict[tuple[str, bool], dict[Any, list[str]]] = {}

    def piece(self, function: str, name: str) -> Related:
        """What a value is; None where nothing is known of it."""
        state = self.states.get(function)
        return of_first(state[name]) if state is not None and name in state else None

    def of(self, function: str, name: str) -> str | None:
        """A value in words: `rows 0–511 of %h, microbatch 2`. None where there is nothing to say."""
        found = self.piece(function, name)
        if isinstance(found, tuple):
            values = cast("tuple[Related, ...]", found)
            items = [self._said(function, name, item) for item in values[:MOST_ITEMS] if isinstance(item, TermPiece)]
            more = f", and {len(values) - MOST_ITEMS} more" if len(values) > MOST_ITEMS else ""
            return "; ".join(items) + more if items else None
        return None if found is None else self._said(function, name, found)

    def group(self, function: str, name: str, axis: int | None, among: Collection[str] | None = None) -> list[str]:
        """Values that together are a whole, each on a device of its own; `name` is one of them. Empty where some lack.

        `axis`: a dimension of which they have the places, and are in the order of these; None: they are addends.
        """
        piece = self.piece(function, name)
        if not isinstance(piece, TermPiece):
            return []
        own = _addends(piece) if axis is None else None
        if axis is None and own is None:
            return []
        number = None if own is None else own[0]
        parts = self._alike(function, piece, name, number, -1 if axis is None else axis)
        places_of = self._numbers(function)
        near = sorted(parts, key=lambda other: abs(places_of[other] - places_of[name]))
        chosen = {other: parts[other] for other in near if among is None or other == name or other in among}
        devices = {other: _device(self.piece(function, other)) for other in chosen}
        size = piece.whole[axis] if axis is not None else self.followed.reference.algebra.sizes[number or 0]
        return _chosen(chosen, size, devices)

    def together(self, function: str, name: str, group: Sequence[str], axis: int | None) -> TermPiece:
        """What a group is together: its sum, or joined along a dimension."""
        piece, algebra = self.piece(function, name), self.followed.reference.algebra
        if axis is not None:
            runs = (*piece.runs[:axis], places.full(piece.whole[axis]), *piece.runs[axis + 1 :])
            return replace(piece, runs=runs)
        terms = [term for other in group for term in self.piece(function, other).terms]
        return replace(piece, terms=algebra.totalled(terms))

    def mends(self, function: str, statement: Apply | Call, name: str, instead: TermPiece) -> bool:
        """Whether a statement is related to the sequential program where one of its operands is another piece."""
        domain, state = self.followed.domain, self.states[function]
        given = [instead if arg == name else v for arg, v in zip(statement.args, state(statement.args), strict=True)]
        try:
            if isinstance(statement, Apply):
                found = domain.apply(statement, tuple(given))
            else:
                args, _ = parameters(self.followed.module.functions[statement.function], tuple(map(value_of, given)))
                found = domain.call(statement, tuple(map(valued, given, args)))
        except (Reject, Unproved):
            return False
        return not any(self._root(leaf) for v in found for leaf in _leaves(v))

    def equal(self, function: str, name: str, wanted: TermPiece, among: Iterable[str]) -> str | None:
        """A value on the same device that is this piece."""
        device = _device(self.piece(function, name))
        for other in among:
            found = self.piece(function, other)
            if not isinstance(found, TermPiece) or _device(found) != device:
                continue
            if (found.whole, found.runs, found.terms) == (wanted.whole, wanted.runs, wanted.terms):
                return other
        return None

    def _alike(self, function: str, piece: TermPiece, name: str, number: int | None, axis: int) -> dict[str, Runs]:
        """Values that differ from a piece in the addends of one sum alone, or in the places of one dimension."""
        found: dict[str, Runs] = {}
        for other_name in (name, *self._same(function, number is not None).get(_key(piece, number is not None), ())):
            other = self.piece(function, other_name)
            if any(k != axis and a != b for k, (a, b) in enumerate(zip(piece.runs, other.runs, strict=True))):
                continue
            if number is None and other.terms == piece.terms:
                found[other_name] = other.runs[axis]
            elif number is not None and (own := _addends(other)) is not None and own[0] == number:
                found[other_name] = own[1]
        return found

    def _numbers(self, function: str) -> Mapping[str, int]:
        """Which value of a function each one is, in program order."""
        known = self._numbered.get(function)
        if known is None:
            known = self._numbered[function] = {name: number for number, name in enumerate(self.states[function])}
        return known

    def _same(self, function: str, partial: bool) -> Mapping[Any, list[str]]:
        """The values of a function by what they are parts, or partial sums, of."""
        known = self._alikes.get((function, partial))
        if known is None:
            known = self._alikes[function, partial] = {}
            for name, piece in self.states[function].items():
                if name and isinstance(piece, TermPiece) and (piece.is_partial or not partial):
                    known.setdefault(_key(piece, partial), []).append(name)
        return known

    def _said(self, function: str, name: str, piece: TermPiece) -> str:
        algebra = self.followed.reference.algebra
        words, batches = self.followed.reference.words, self.followed.reference.batches
        for atom, _, _ in piece.terms:
            if atom.kind == "unknown":
                return f"not related to the sequential program: {atom.reason}"
        unknown = self._root(piece)
        if unknown is not None:
            return unknown
        of, devices, own = batches.of_piece(piece), list[int](), _addends(piece)
        if own is not None:
            number, runs = own
            of = of or batches.of_addends(algebra.sizes[number], runs)
            found = [_device(self.piece(function, other)) for other in self.group(function, name, None)]
            devices = sorted(device for device in found if device is not None)
        said = words.of(piece, devices)
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


def _states(followed: FollowedProgram, shown: Mapping[str, CallSite]) -> dict[str, State]:
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


def _called(followed: FollowedProgram, module: Module, caller: State, site: CallSite) -> State | None:
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


def _leaves(v: Related) -> Iterator[TermPiece]:
    if isinstance(v, tuple):
        for item in cast("tuple[Related, ...]", v):
            yield from _leaves(item)
    elif v is not None:
        yield v


def _addends(piece: TermPiece) -> tuple[int, Runs] | None:
    """Of which sum a piece has which addends, if it is of one."""
    found = {addends for _, _, addends in piece.terms}
    if len(found) != 1:
        return None
    (addends,) = found
    return addends[0] if len(addends) == 1 else None


def _key(piece: TermPiece, partial: bool) -> Any:
    """What values have in common that are parts of one value, or partial sums of it."""
    return (piece.whole, piece.form) if partial else (piece.whole, piece.terms)


def _device(v: Related) -> int | None:
    found = type_of(v.value) if isinstance(v, TermPiece) else None
    device = types.device_of(found) if isinstance(found, TensorType) else None
    return device if isinstance(device, int) else None


def _chosen(parts: Mapping[str, Runs], size: int, devices: Mapping[str, int | None]) -> list[str]:
    """Of values with these places, some that together have each place once, each on a device of its own; else none."""
    found: dict[Runs, str] = {}
    for name, runs in parts.items():
        taken = {devices[other] for other in found.values()}
        if runs not in found and devices[name] is not None and devices[name] not in taken:
            found[runs] = name
    if places.union(list(found)) != places.full(size):
        return []
    return [found[runs] for runs in sorted(found)]
