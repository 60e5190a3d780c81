"""Typing the next version of a module: instances of functions that did not change are kept, of others the statements.

Values are known by name and each is defined once, so the final state of an instance has what every statement was
given. A statement whose operands have their old values gives its old results; the others are typed again, in order.
Where names are wrong (defined twice, used too early), all statements that mention or define them are typed again.
A test compares what this gives with what checking the module alone gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import InitVar, dataclass, field
from typing import Any

from distir.analysis.checker import Checker
from distir.analysis.domains import Instance
from distir.analysis.interpreter import State
from distir.analysis.revision import Change, Hunk, affected, change, moved
from distir.analysis.revision_names import mention, mentioning
from distir.diagnostics import Diagnostic
from distir.ir import DISCARD, UNKNOWN, Apply, Call, Function, Return, Site, Statement, results
from distir.ir.deep import Deep
from distir.ops import Value

Key = tuple[str, tuple[Value, ...]]

VALUES_KEPT = 1_000
"""While nothing is simulated, what versions before the last one found is kept: this many values, or twice as many as
the last version has."""
MEMO_KEPT = 50_000
"""How many answers of rules are kept from version to version."""


@dataclass(frozen=True, slots=True)
class EarlierInstance:
    """An instance of an earlier version."""

    instance: Instance
    problems: list[Diagnostic]
    is_plain: bool
    unsure: frozenset[str]
    """Names of which the state does not say what statements in the middle were given."""
    affected: frozenset[str]
    """The functions that have come to mean something else since."""


@dataclass
class Revised(Checker):
    """The checker of a new version of a module, which knows what those of earlier versions found."""

    before: InitVar[Checker] = field(kw_only=True)
    """Of the version before."""
    earlier: dict[Key, EarlierInstance] = field(default_factory=dict[Key, EarlierInstance])
    """Released as soon as the new version has been typed as far as the old one was."""

    def __post_init__(self, before: Checker) -> None:
        if before.module.meshes != self.module.meshes:
            return  # values are placed otherwise
        if len(before.memo) <= MEMO_KEPT:
            self.memo = before.memo
        recursive = before.structure.recursive ^ self.structure.recursive
        calls = {name: facts.calls for name, facts in self.structure.names.items()}
        changed = affected(before.module, self.module, calls, recursive)
        older = before.earlier if isinstance(before, Revised) else {}
        waiting = [(key, k) for key, k in older.items() if key not in before.instances]
        found = list(before.instances.items())  # at once: the old version may be being simulated, in another thread
        room = max(VALUES_KEPT, 2 * sum(instance.size for _, instance in found))
        for key, k in waiting:  # the oldest first: that is what was simulated
            room -= k.instance.size
            if room < 0:
                break
            self.earlier[key] = EarlierInstance(k.instance, k.problems, k.is_plain, k.unsure, k.affected | changed)
        for key, instance in found:
            if key not in before.problems:
                continue  # it is being typed
            facts = before.structure.names[key[0]]
            self.earlier[key] = EarlierInstance(instance, before.problems[key], facts.is_plain, facts.unsure, changed)

    def known(self, name: str, vs: tuple[Value, ...]) -> Instance | None:
        """An instance that need not be interpreted; what an earlier version had is not made from others."""
        return self.instances.get((name, vs)) if (name, vs) in self.earlier else super().known(name, vs)

    def made(self, name: str, vs: tuple[Value, ...]) -> Deep[Instance]:
        """An instance made from an earlier one, or anew; the report gets what is wrong in it."""
        old = self.earlier.get((name, vs))
        if old is None:
            return (yield super().made(name, vs))
        function = self.module.functions[name]
        if old.instance.function is function and name not in old.affected:
            self.report.found += old.problems
            instance = old.instance
        elif old.is_plain and self.structure.names[name].is_plain and _same_head(function, old.instance.function):
            instance = yield _Revision(self, old, function).instance()
        else:
            return (yield super().made(name, vs))
        self.instances[name, vs] = instance
        return instance

    def forget(self) -> None:
        """Let go of earlier versions."""
        self.earlier = {}


@dataclass
class _Revision:
    """Makes an instance of a new version of a function from one of the old version, for the same arguments."""

    checker: Checker
    old: EarlierInstance
    function: Function
    changed: set[str] = field(default_factory=set[str])
    unsure: frozenset[str] = frozenset()
    functions: Set[str] = frozenset()
    """The functions called that have come to mean something else."""
    looked_at: set[int] = field(default_factory=set[int])

    def instance(self) -> Deep[Instance]:
        checker, function, old = self.checker, self.function, self.old.instance
        body = function.body
        edit = change(old.function.body, body)
        rho = State((), (), checker)
        rho.update(old.state)
        names = checker.structure.names[function.name]
        unsure = self.unsure = self.old.unsure | names.unsure
        outer, checker.dims = checker.dims, old.dims
        try:
            self._drop(rho, edit)
            self.functions = names.calls.keys() & self.old.affected
            everywhere = bool(unsure or self.functions)
            for same, hunk in edit.stretches():
                if everywhere or not names.uses.keys().isdisjoint(self.changed):  # walks the smaller of the two
                    yield from self._type_users(rho, same.start, same.stop)
                if hunk is not None:
                    self.changed |= self._gone(hunk)
                    for index in range(hunk.new_first, hunk.new_end):
                        yield from self._look_at(rho, index, body[index])
            rho[DISCARD] = None
            self.changed -= {name for name in unsure if _is_same_in(rho, old.state, name)}
            checker.report.here = None
            last = body[-1] if body else None
            rho.returned = rho(last.args) if isinstance(last, Return) else _returned(rho, body)
            found = checker.report.found
            checker.report.found = []
            rho.returned = checker.claimed_results(function, rho.returned)
            checker.report.found = [*self._problems(found, edit), *checker.report.found]
        finally:
            checker.dims, checker.report.here = outer, None
        return Instance(function, old.args, old.dims, rho)

    def _drop(self, rho: State, edit: Change) -> None:
        """Forget the values that the statements which are gone defined, and all of names that are not sure."""
        for hunk in edit.hunks:
            for name in self._gone(hunk):
                rho.pop(name, None)
        for name in self.unsure:
            rho.pop(name, None)
        self.changed |= self.unsure
        for param, value in zip(self.function.params, self.old.instance.args, strict=True):
            if param.name in self.unsure:
                rho[param.name] = value

    def _gone(self, hunk: Hunk) -> set[str]:
        """The values that the statements which a hunk took away defined."""
        old = self.old.instance
        statements = old.function.body[hunk.first : hunk.end]
        return {
            name for statement in statements for name in results(statement) if name != DISCARD and name in old.state
        }

    def _type_users(self, rho: State, first: int, end: int) -> Deep[None]:
        """Type the statements that mention a changed value, define one that is not sure, or call a function."""
        body, changed, functions, unsure = self.function.body, self.changed, self.functions, self.unsure
        if not functions and not unsure:
            for index in mentioning(body, changed, first, end):
                yield from self._look_at(rho, index, body[index])
            return
        for index in range(first, end):
            statement = body[index]
            if (
                (isinstance(statement, Call) and statement.function in functions)
                or mention(statement, changed)
                or (unsure and not unsure.isdisjoint(results(statement)))
            ):
                yield from self._look_at(rho, index, statement)

    def _look_at(self, rho: State, index: int, statement: Statement) -> Deep[None]:
        checker = self.checker
        checker.report.here = index
        self.looked_at.add(index)
        if isinstance(statement, Apply):
            ws = checker.apply(statement, rho(statement.args))
        elif isinstance(statement, Call):
            ws = yield checker.called(statement, rho(statement.args))
        else:
            ws = ()
        known = self.old.instance.state
        for name, w in zip(results(statement), ws or (UNKNOWN,) * len(results(statement)), strict=True):
            if name == DISCARD:
                continue
            if ws:
                rho[name] = w
            if _same(known.get(name, UNKNOWN), w) and (name in known) == bool(ws) and name not in self.unsure:
                self.changed.discard(name)
            else:
                self.changed.add(name)

    def _problems(self, found: list[Diagnostic], edit: Change) -> Iterator[Diagnostic]:
        """What is wrong in the statements, in their order."""
        kept = (moved(d, self.function, edit) for d in self.old.problems if _index(d) is not None)
        rest = [d for d in kept if d is not None and _index(d) not in self.looked_at]
        yield from sorted([*rest, *found], key=lambda d: _index(d) or 0)


def _index(diagnostic: Diagnostic) -> int | None:
    return diagnostic.site.index if isinstance(diagnostic.site, Site) else None


def _returned(rho: State, body: tuple[Statement, ...]) -> tuple[Any, ...]:
    """What a misplaced `return` returns."""
    last = next((s for s in reversed(body) if isinstance(s, Return)), None)
    return () if last is None else rho(last.args)


def _is_same_in(a: State, b: State, name: str) -> bool:
    return (name in a) == (name in b) and _same(a[name], b[name])


def _same(a: Value, b: Value) -> bool:
    return a is b or a == b


def _same_head(new: Function, old: Function) -> bool:
    return new.params == old.params and new.kernel == old.kernel
