"""Stated placements: a file that says what parameters and results are of the sequential program's.

    [parameters]
    x_1 = "x[0:4]"                        # rows 0 to 3
    w_2 = "w[:, 3:6]"
    g_1 = "1 of 2 addends of g"           # what is added to the other addend to make `%g`
    "state_1.0" = "state.0"               # an item of a tuple

    [results]
    p_1 = "p[0:2|6:8]"                    # rows 0, 1, 6 and 7

What is not named is all of what has its name in the sequential program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import cast

from distir.diagnostics import Diagnostic, Report, Source, Span, nearest
from distir.diagnostics.codes import proofs as codes
from distir.files.reading import SETTINGS, read_text
from distir.files.toml import Key, Toml, TomlError, parse
from distir.ir import Function, TensorType, TupleType, Type
from distir.ir.errors import DistirError
from distir.ops import type_of
from distir.prove import runs as places
from distir.prove.comparing import Failure, Proof, Reference, failure, is_same
from distir.prove.history import Related
from distir.prove.pieces import TermPiece
from distir.prove.runs import Runs

TABLES = ("parameters", "results")

_PLACEMENT = re.compile(r"(?:(\d+) of (\d+) addends of )?%?([A-Za-z0-9_.\-]+)\s*(?:\[([^\]]*)\])?")
_RUN = re.compile(r"(\d*):(\d*)")


class StatedError(DistirError, ValueError):
    """Placements that cannot be used; `report` says why, with the places in the file."""

    def __init__(self, report: Report) -> None:
        super().__init__("\n".join(diagnostic.message for diagnostic in report.diagnostics))
        self.report = report


@dataclass(frozen=True, slots=True)
class Stated:
    """The placements of a file, as they are written; `[parameters]` and `[results]`, by name."""

    source: Source
    toml: Toml

    def parameters(self, against: Reference, main: Function) -> tuple[Related, ...]:
        """The parameters of a distributed program. Raises StatedError."""
        given = dict(zip([p.name for p in against.entry.params], against.given, strict=True))
        self._check("parameters", [p.name for p in main.params])
        return tuple([self._value("parameters", p.name, p.type, given, against) for p in main.params])

    def proof(self, against: Reference, main: Function, found: Sequence[Related]) -> Proof:
        """Whether results are the parts of the sequential program's that are stated, which must be all of these.

        Raises StatedError.
        """
        names = [arg if isinstance(arg, str) else "" for arg in main.returned]
        self._check("results", names)
        wanted = dict(zip(against.results, against.expected, strict=True))
        failures: list[Failure] = []
        covered: dict[str, list[TermPiece]] = {}
        for number, (name, value) in enumerate(zip(names, found, strict=True)):
            for path, piece in _leaves(name, value):
                due, of = self._piece("results", path, wanted, against)
                covered.setdefault(of, []).append(due)
                if not is_same(replace(due, value=piece.value), piece):
                    failures.append(failure(against, of, number, due, piece))
        words = against.words
        for name, value in wanted.items():
            for path, whole in _leaves(name, value):
                if not _covers(covered.get(path, ()), whole):
                    failures.append(Failure(path, None, f"nothing is stated to be all of {words.of(whole)}"))
        return Proof(against.results, tuple(failures), tuple(against.algebra.laws))

    def _value(self, table: str, name: str, stated: Type, whole: Mapping[str, Related], against: Reference) -> Related:
        """What a parameter is: of a tuple, all of one, or item by item."""
        if isinstance(stated, TupleType) and not isinstance(whole.get(self._text(table, name) or name), tuple):
            items = enumerate(stated.items)
            return tuple([self._value(table, f"{name}.{k}", item, whole, against) for k, item in items])
        if isinstance(stated, TupleType):
            return _on(whole[self._text(table, name) or name], stated)
        piece, _ = self._piece(table, name, whole, against)
        return _on(piece, stated)

    def _piece(self, table: str, name: str, wholes: Mapping[str, Related], against: Reference) -> tuple[TermPiece, str]:
        """The piece that is stated for a name, and of what it is one. Raises StatedError."""
        text = self._text(table, name)
        found = _PLACEMENT.fullmatch((text or name).strip())
        if found is None:
            raise self._error((table, name), f"`{text}` is no placement", 'write for example `"x[0:4, :]"`')
        addend, count, of, slices = found.groups()
        whole = _at(wholes, of)
        if not isinstance(whole, TermPiece):
            what = "parameter" if table == "parameters" else "result"
            closest = nearest(of, wholes)
            missing = f"the sequential program has no {what} `%{of}`"
            if text is None:
                missing = f"nothing says what `%{name}` is: {missing}"
            hint = f"did you mean `{closest}`?" if closest else None
            raise self._error((table, name) if text else (table,), missing, hint or f'state it: `{name} = "…"`')
        piece = whole if slices is None else self._cut((table, name), whole, slices)
        if addend is None:
            return piece, of
        if table == "results" or not 1 <= int(addend) <= int(count):
            raise self._error((table, name), f"`{text}`: a parameter may be an addend, from 1 to how many there are")
        number = against.algebra.sum_number(("stated", of, int(count)), int(count))
        at = ((number, ((int(addend) - 1, int(addend)),)),)
        terms = tuple([(atom, c, (*addends, *at)) for atom, c, addends in piece.terms])
        return replace(piece, terms=against.algebra.totalled(terms)), of

    def _cut(self, key: Key, whole: TermPiece, slices: str) -> TermPiece:
        """Some places of each dimension; of those not named, all."""
        written = [part.strip() for part in slices.split(",")] if slices.strip() else []
        if len(written) > len(whole.whole):
            raise self._error(key, f"there are {len(whole.whole)} dimensions, found places of {len(written)}")
        runs = list(whole.runs)
        for axis, part in enumerate(written):
            size, own = whole.whole[axis], list[Runs]()
            for run in part.split("|"):
                bounds = _RUN.fullmatch(run.strip())
                start, stop = (int(bounds[1] or 0), int(bounds[2] or size)) if bounds else (0, 0)
                if not 0 <= start < stop <= size:
                    raise self._error(key, f"`{part}`: expected places `from:to` of {size}, found `{run.strip()}`")
                own.append(((start, stop),))
            if places.union(own) is None:
                raise self._error(key, f"`{part}` has a place twice")
            runs[axis] = places.joined(own)
        return replace(whole, runs=tuple(runs))

    def _text(self, table: str, name: str) -> str | None:
        """What is written of a name; of an item of a tuple, the item of what is written of the tuple."""
        written = cast("Mapping[str, Mapping[str, str]]", self.toml.table).get(table, {})
        if name in written:
            return written[name]
        outer, _, number = name.rpartition(".")
        of = self._text(table, outer) if outer and number.isdigit() else None
        return None if of is None else f"{of}.{number}"

    def _check(self, table: str, names: Sequence[str]) -> None:
        """Raises StatedError for a name that the distributed program does not have."""
        for name in cast("Mapping[str, Mapping[str, str]]", self.toml.table).get(table, {}):
            if name not in names and name.split(".")[0] not in names and not _is_item(name, names):
                closest = nearest(name, names)
                hint = f"did you mean `{closest}`?" if closest else None
                raise self._error((table, name), f"the program has no {table[:-1]} `%{name}`", hint, at_key=True)

    def _error(self, key: Key, message: str, help: str | None = None, at_key: bool = False) -> StatedError:
        return _error(self.source, self.toml, key, message, help, at_key)


def read_stated(path: str) -> Stated:
    """The placements in a TOML file. Raises OSError, and StatedError for what is not as it must be."""
    source = Source(path, read_text(path, SETTINGS, "replace").removeprefix("\ufeff"))
    try:
        toml = parse(source.text)
    except TomlError as error:
        raise _refused(source, error.span, f"broken TOML: {error.message}") from None
    for name, table in toml.table.items():
        if name not in TABLES or not isinstance(table, dict):
            known = " and ".join(f"`[{t}]`" for t in TABLES)
            raise _error(source, toml, (name,), f"expected the tables {known}, found `{name}`", at_key=True)
        for key, value in cast("dict[str, object]", table).items():
            if not isinstance(value, str):
                raise _error(source, toml, (name, key), 'expected a placement as text, such as `"x[0:4]"`')
    return Stated(source, toml)


def _error(
    source: Source, toml: Toml, key: Key, message: str, help: str | None = None, at_key: bool = False
) -> StatedError:
    place = toml.places.get(key)
    return _refused(source, place and (place.key if at_key else place.value), message, help)


def _refused(source: Source, span: Span | None, message: str, help: str | None = None) -> StatedError:
    return StatedError(Report(source, (Diagnostic(codes.STATED_PLACEMENT, span, message, help=help),)))


def _is_item(name: str, names: Sequence[str]) -> bool:
    """Whether a name is that of an item of a tuple: `state.0` of `state`."""
    return any(name.startswith(f"{outer}.") for outer in names)


def _at(wholes: Mapping[str, Related], path: str) -> Related:
    """A value, or an item of a tuple, by its path: `state.0`."""
    if path in wholes:
        return wholes[path]
    outer, _, number = path.rpartition(".")
    found = _at(wholes, outer) if outer and number.isdigit() else None
    items = cast("tuple[Related, ...]", found) if isinstance(found, tuple) else ()
    return items[int(number)] if number.isdigit() and int(number) < len(items) else None


def _on(v: Related, stated: Type) -> Related:
    """The value on the device that a parameter states."""
    if isinstance(v, tuple):
        items = cast("tuple[Related, ...]", v)
        inner = stated.items if isinstance(stated, TupleType) and len(stated.items) == len(items) else None
        return items if inner is None else tuple(map(_on, items, inner))
    own = type_of(v.value)
    if not (isinstance(own, TensorType) and isinstance(stated, TensorType)):
        return v
    device, offloaded = (own.device, own.offloaded) if stated.device is None else (stated.device, stated.offloaded)
    return replace(v, value=TensorType(own.dtype, v.shape, device, offloaded))


def _leaves(path: str, v: Related) -> Iterator[tuple[str, TermPiece]]:
    """The parts of a value with their paths."""
    if isinstance(v, tuple):
        for k, item in enumerate(cast("tuple[Related, ...]", v)):
            yield from _leaves(f"{path}.{k}", item)
    else:
        yield path, v


def _covers(pieces: Sequence[TermPiece], whole: TermPiece) -> bool:
    """Whether each element of a whole is in one of the pieces: decided for the boxes that their bounds cut it into."""
    bounds: list[list[int]] = []
    for axis, size in enumerate(whole.whole):
        cuts = {0, size, *(end for piece in pieces for run in piece.runs[axis] for end in run)}
        bounds.append(sorted(cuts))
    return all(
        any(
            all(any(a <= start < b for a, b in own) for (start, _), own in zip(box, piece.runs, strict=True))
            for piece in pieces
        )
        for box in product(*map(pairwise, bounds))
    )
