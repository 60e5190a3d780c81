"""Removal of functions that a transform leaves without a caller, whose names go to what was written in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from distir.ir import Call, Function, Module, Statement
from distir.ir.calls import called_by, reachable
from distir.ir.rewrite import mapped
from distir.transform.entry import entry_names

NOTHING: Mapping[str, str] = MappingProxyType({})


def without_orphans(given: Module, functions: Iterable[Function], variants: Mapping[str, str] = NOTHING) -> Module:
    """The module of these functions, in their order, without those that nothing calls any more.

    A function stays if one that nothing called in the `given` module calls it, directly or not; such as the entry
    function, which has the name that it had.

    `variants`: by the name of a function, that of the one from which it was written. Where the latter goes, the first
    of its variants takes its name.
    """
    by_name = {f.name: f for f in functions}
    roots = {*entry_names(given), *(given.functions.keys() - called_by(given))} & by_name.keys()
    called = roots.union(reachable(by_name, [by_name[name] for name in roots]))
    heirs: dict[str, str] = {}
    for name in by_name:
        origin = variants.get(name)
        if name in called and origin is not None and origin not in called:
            heirs.setdefault(origin, name)
    renamed = {name: origin for origin, name in heirs.items()}

    def written(statement: Statement) -> Statement:
        if isinstance(statement, Call) and statement.function in renamed:
            return replace(statement, function=renamed[statement.function])
        return statement

    found = (f for f in by_name.values() if f.name in called)
    if not renamed:
        return Module(found)
    return Module(replace(mapped(f, written), name=renamed.get(f.name, f.name)) for f in found)
