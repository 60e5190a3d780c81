"""The names of a function's body: defined where, used how often. Kept from one version of a function to the next.

Names of which something is wrong are few: for those alone the body is walked again. Knows no types and no ops.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

from distir.analysis.revision import Change, change
from distir.ir import DISCARD, Broken, Call, Function, Return, Statement, names, results

LEAST_TOUCHED = 1_000
"""From so many changed statements on, an eighth of a body or more, reading all of it is cheaper than revising."""


@dataclass(slots=True)
class FunctionNames:
    """What a function defines, uses and calls. By name, so that moving statements changes little."""

    function: Function
    defined: dict[str, int]
    """The statement that defines a name (the first, of several); -1 for parameters."""
    uses: dict[str, int]
    """How often statements mention a name; none is mentioned 0 times."""
    calls: dict[str, int]
    """How many calls there are of a function, by its name."""
    streams: dict[str, int]
    """How many statements name a stream, by its name."""
    unused: set[str]
    """The results that no statement mentions."""
    undefined: set[str]
    """The names mentioned that nothing defines."""
    broken: int = 0
    """How many statements could not be read."""
    returns: int = 0
    discards: int = 0
    """How many statements discard a result."""
    repeated: set[str] = field(default_factory=set[str])
    """The names that are defined more than once."""
    early: set[str] = field(default_factory=set[str])
    """The names mentioned before they are defined."""
    hints: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """For undefined names: the one that may have been meant. Kept while names are defined in the same order."""

    @property
    def is_plain(self) -> bool:
        """Names alone determine values, except those of `unsure` names."""
        if self.repeated or self.early:
            return not self.returns or (self.returns == 1 and isinstance(self.function.body[-1], Return))
        return self.returns <= 1

    @property
    def unsure(self) -> frozenset[str]:
        """The names of which the final state does not say what a statement in the middle was given."""
        return frozenset(self.repeated | self.early)

    @property
    def wrong(self) -> set[str]:
        """All names of which something is wrong."""
        return self.repeated | self.early | self.undefined


def gather(function: Function) -> FunctionNames:
    """Read a whole function."""
    defined: dict[str, int] = {}
    uses: dict[str, int] = {}
    found = FunctionNames(function, defined, uses, {}, {}, set(), set())
    for param in function.params:
        if param.name in defined:
            found.repeated.add(param.name)
        defined[param.name] = -1
    early: set[str] = set()
    for index, statement in enumerate(function.body):
        for name in mentioned(statement):
            if name in uses:
                uses[name] += 1
                continue
            uses[name] = 1
            if name not in defined:
                early.add(name)
        for name in results(statement):
            if name in defined:
                found.repeated.add(name)
            elif name != DISCARD:
                defined[name] = index
        _count(found, statement, 1)
    found.undefined = early - defined.keys()
    found.early = early - found.undefined
    found.unused = {name for name, index in defined.items() if index >= 0 and name not in uses}
    found.unused |= found.repeated - uses.keys()
    return found


def revised(old: FunctionNames, function: Function) -> FunctionNames:
    """The names of the next version of a function."""
    if function is old.function:
        return old
    if function.params != old.function.params:
        return gather(function)
    edit = change(old.function.body, function.body)
    touched = sum(hunk.end - hunk.first + hunk.new_end - hunk.new_first for hunk in edit.hunks)
    if touched > max(LEAST_TOUCHED, edit.new_size // 8):
        return gather(function)
    return _Revision(old, function, edit).names()


def mentioned(statement: Statement) -> list[str]:
    """The values that a statement's operands name, with repetitions."""
    return [] if isinstance(statement, Broken) else names(statement.args)


def mention(statement: Statement, wanted: Set[str]) -> bool:
    """Whether a statement's operands name one of these values."""
    if isinstance(statement, Broken):
        return False
    for arg in statement.args:
        if isinstance(arg, str):
            if arg in wanted:
                return True
        elif isinstance(arg, tuple) and not wanted.isdisjoint(names(arg)):
            return True
    return False


def mentioning(body: Sequence[Statement], wanted: Set[str], first: int, end: int) -> Iterator[int]:
    """The statements from `first` to before `end` whose operands name one of these values.

    `wanted` may change meanwhile: it holds for the statements that follow.
    """
    for index in range(first, end):
        statement = body[index]
        if mention(statement, wanted):
            yield index


def defining(body: Sequence[Statement], wanted: Set[str]) -> Iterator[int]:
    """The statements that define one of these values."""
    for index, statement in enumerate(body):
        if not isinstance(statement, Return) and not wanted.isdisjoint(statement.results):
            yield index


class _Revision:
    """Makes the names of the next version from those of the one before."""

    def __init__(self, old: FunctionNames, function: Function, edit: Change) -> None:
        self.old, self.edit = old, edit
        self.before = [old.function.body[index] for index in edit.gone()]
        self.after = [function.body[index] for index in edit.fresh()]
        self.found = FunctionNames(
            function,
            old.defined.copy(),
            old.uses.copy(),
            old.calls.copy(),
            old.streams.copy(),
            old.unused.copy(),
            old.undefined.copy(),
            old.broken,
            old.returns,
            old.discards,
            old.repeated.copy(),
            old.early.copy(),
            old.hints.copy(),
        )

    def names(self) -> FunctionNames:
        old, found = self.old, self.found
        gone, fresh = _defined(self.before), _defined(self.after)
        touched = {*gone, *fresh}
        for statement in self.before:
            touched.update(self._count(statement, -1))
        for statement in self.after:
            touched.update(self._count(statement, 1))
        if self.edit.moves:
            found.defined = _renumbered(found.defined, self.edit)
        doubtful = self._place(touched, gone, fresh)
        if doubtful:
            self._walk(doubtful)
        for name in touched:
            is_result = found.defined.get(name, -1) >= 0 or name in found.repeated
            _put(found.unused, name, is_result and name not in found.uses)
        if gone == fresh and self._defines_in_order():
            found.hints = {name: near for name, near in old.hints.items() if name not in touched}
        else:
            found.hints = {}
        return found

    def _count(self, statement: Statement, by: int) -> list[str]:
        """Count what a statement mentions; gives the names."""
        uses, found = self.found.uses, mentioned(statement)
        _count(self.found, statement, by)
        for name in found:
            _add(uses, name, by)
        return found

    def _place(self, touched: set[str], gone: Sequence[str], fresh: Sequence[str]) -> set[str]:
        """Note where names are defined now. Returns those for which that takes a walk over the body."""
        old, found, edit = self.old, self.found, self.edit
        left, come = set(gone), set(fresh)
        doubtful = touched & old.wrong
        doubtful |= {name for name in come if name in old.defined and name not in left}
        doubtful |= {name for name in left - come if name in found.uses}
        if len(edit.hunks) > 1:  # what lies between two hunks may use what went from one to the other
            doubtful |= {name for name in left & come if name in found.uses} - self._in_place()
        for name in left:
            found.defined.pop(name, None)
        seen: set[str] = set()
        for index, statement in zip(edit.fresh(), self.after, strict=True):
            for name in mentioned(statement):
                is_known = name in seen if name in come else name not in left and name in old.defined
                if not is_known or (name not in come and self._is_defined_after(name, index)):
                    doubtful.add(name)
            for name in results(statement):
                if name in seen:
                    doubtful.add(name)
                elif name != DISCARD:
                    seen.add(name)
                    found.defined[name] = index
        return doubtful

    def _is_defined_after(self, name: str, index: int) -> bool:
        """Whether what defines a name, and is still there, comes after a statement of the new body."""
        place = self.edit.new_index(self.old.defined[name])
        return place is None or place >= index

    def _defines_in_order(self) -> bool:
        """Whether each hunk defines the same names in the same order as what it replaces."""
        before, after = self.old.function.body, self.found.function.body
        return all(
            _defined(before[hunk.first : hunk.end]) == _defined(after[hunk.new_first : hunk.new_end])
            for hunk in self.edit.hunks
        )

    def _in_place(self) -> set[str]:
        """The names that the same hunk took away and brought back."""
        before, after = self.old.function.body, self.found.function.body
        found: set[str] = set()
        for hunk in self.edit.hunks:
            found.update({*_defined(before[hunk.first : hunk.end])} & {*_defined(after[hunk.new_first : hunk.new_end])})
        return found

    def _walk(self, wanted: Set[str]) -> None:
        """Look through the whole body for these names."""
        found, body = self.found, self.found.function.body
        for known in (found.repeated, found.early, found.undefined):
            known -= wanted
        for name in wanted:
            found.defined.pop(name, None)
        for param in found.function.params:
            if param.name in wanted:
                _put(found.repeated, param.name, param.name in found.defined)
                found.defined[param.name] = -1
        missing: set[str] = set()
        for index, statement in enumerate(body):
            if mention(statement, wanted):
                missing.update(n for n in mentioned(statement) if n in wanted and n not in found.defined)
            if not isinstance(statement, Return) and not wanted.isdisjoint(statement.results):
                for name in statement.results:
                    if name in wanted and name in found.defined:
                        found.repeated.add(name)
                    elif name in wanted:
                        found.defined[name] = index
        found.early |= {name for name in missing if name in found.defined}
        found.undefined |= {name for name in missing if name not in found.defined}


def _renumbered(defined: dict[str, int], edit: Change) -> dict[str, int]:
    """Where names are defined, with the new numbers of these statements; those that are gone keep theirs."""
    if len(edit.hunks) == 1:
        end, by = edit.hunks[0].end, edit.hunks[0].moved
        return {name: index if index < end else index + by for name, index in defined.items()}
    places = edit.renumbered(array("q", defined.values()))
    return dict(zip(defined, places, strict=True))


def _defined(statements: Sequence[Statement]) -> list[str]:
    return [name for statement in statements for name in results(statement) if name != DISCARD]


def _put(into: set[str], name: str, is_in: bool) -> None:
    if is_in:
        into.add(name)
    else:
        into.discard(name)


def _add(counts: dict[str, int], name: str, by: int) -> None:
    count = counts.get(name, 0) + by
    if count:
        counts[name] = count
    else:
        del counts[name]


def _count(found: FunctionNames, statement: Statement, by: int) -> None:
    if isinstance(statement, Return):
        found.returns += by
        return
    if DISCARD in statement.results:
        found.discards += by
    if isinstance(statement, Broken):
        found.broken += by
        return
    if statement.stream:
        _add(found.streams, statement.stream, by)
    if isinstance(statement, Call):
        _add(found.calls, statement.function, by)
