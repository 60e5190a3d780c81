"""The names of a function's body: defined where, used how often. Kept from one version of a function to the next.

Knows no types and no ops.
"""

from __future__ import annotations

from dataclasses import dataclass

from distir.analysis.revision import Change, change
from distir.ir import DISCARD, Broken, Call, Function, Return, Statement, names, results


@dataclass(slots=True)
class Names:
    """What a function defines, uses and calls. By name, so that moving statements changes little."""

    function: Function
    defined: dict[str, int]
    """The statement that defines a name (the last, of several); -1 for parameters."""
    uses: dict[str, int]
    """How often statements mention a name; none is mentioned 0 times."""
    calls: dict[str, int]
    """How many calls there are of a function, by its name."""
    unused: set[str]
    """The results that no statement mentions."""
    undefined: set[str]
    """The names mentioned that nothing defines."""
    broken: int
    """How many statements could not be read."""
    returns: int
    discards: int
    """How many statements discard a result."""
    ordered: bool
    """Every name is defined once, before its uses; only `undefined` ones are not defined at all."""

    @property
    def is_plain(self) -> bool:
        """Values are told by names alone: the final state says what a statement in the middle was given."""
        return self.ordered and self.returns <= 1


def gather(function: Function) -> Names:
    """Read a whole function."""
    defined: dict[str, int] = {param.name: -1 for param in function.params}
    found = Names(function, defined, {}, {}, set(), set(), 0, 0, 0, len(defined) == len(function.params))
    uses = found.uses
    early: set[str] = set()
    for index, statement in enumerate(function.body):
        for name in mentioned(statement):
            uses[name] = uses.get(name, 0) + 1
            if name not in defined:
                early.add(name)
        for name in results(statement):
            if name in defined:
                found.ordered = False
            elif name != DISCARD:
                defined[name] = index
        _count(found, statement, 1)
    found.undefined = early - defined.keys()
    found.ordered = found.ordered and len(found.undefined) == len(early)
    found.unused = {name for name, index in defined.items() if index >= 0 and name not in uses}
    return found


def revised(old: Names, function: Function) -> Names:
    """The names of the next version of a function."""
    if function is old.function:
        return old
    if not old.ordered or function.params != old.function.params:
        return gather(function)
    edit = change(old.function.body, function.body)
    return _revised(old, function, edit) or gather(function)


def _revised(old: Names, function: Function, edit: Change) -> Names | None:
    """None where names are not in order around the edit."""
    before = old.function.body[edit.first : edit.old_end]
    after = function.body[edit.first : edit.new_end]
    gone = {name for statement in before for name in results(statement) if name != DISCARD}
    defined, uses = old.defined.copy(), old.uses.copy()
    found = Names(
        function,
        defined,
        uses,
        old.calls.copy(),
        old.unused.copy(),
        set(),
        old.broken,
        old.returns,
        old.discards,
        ordered=True,
    )
    for statement in before:
        _count(found, statement, -1)
        for name in mentioned(statement):
            uses[name] -= 1
            if not uses[name]:
                del uses[name]
    for name in gone:
        del defined[name]
    touched = set(gone)
    fresh: set[str] = set()
    missing: set[str] = set()
    for index, statement in enumerate(after, edit.first):
        _count(found, statement, 1)
        for name in mentioned(statement):
            touched.add(name)
            uses[name] = uses.get(name, 0) + 1
            if name not in defined:
                missing.add(name)
            elif defined[name] >= edit.first and name not in fresh:
                return None  # defined after the edit
        for name in results(statement):
            if name == DISCARD:
                continue
            if name in defined or name in missing or name in old.undefined:
                return None  # defined twice, or perhaps used before
            defined[name] = index
            fresh.add(name)
    touched |= fresh
    if edit.moved:
        for index in range(edit.new_end, len(function.body)):
            for name in results(function.body[index]):
                if name != DISCARD:
                    defined[name] = index
    for statement in before:
        touched.update(mentioned(statement))
    found.unused -= touched
    found.unused |= {name for name in touched if name not in uses and defined.get(name, -1) >= 0}
    found.undefined = {name for name in old.undefined | touched if name in uses and name not in defined}
    return found


def mentioned(statement: Statement) -> list[str]:
    """The values that a statement's operands name, with repetitions."""
    if isinstance(statement, Broken):
        return []
    found: list[str] = []
    for arg in statement.args:
        if isinstance(arg, str):
            found.append(arg)
        elif isinstance(arg, tuple):
            found += names(arg)
    return [name for name in found if name != DISCARD] if DISCARD in found else found


def _count(found: Names, statement: Statement, by: int) -> None:
    if DISCARD in results(statement):
        found.discards += by
    if isinstance(statement, Call):
        count = found.calls.get(statement.function, 0) + by
        if count:
            found.calls[statement.function] = count
        else:
            del found.calls[statement.function]
    elif isinstance(statement, Return):
        found.returns += by
    elif isinstance(statement, Broken):
        found.broken += by
