"""Updates of weights that are tuples, item by item: each has a gradient, and parts or an owner, of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from distir.analysis import Analysis
from distir.ir import Apply, Arg, Function, Module, Statement, TupleType
from distir.ir.builder import namer
from distir.ops import type_of
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.mesh.wanted import is_update


def with_updates_of_items(module: Module) -> Module:
    """The module whose entry function updates the items of tuples, also of nested ones."""
    while (changed := _opened(checked(module), entry_of(module))) is not None:
        module = module.replacing(changed)
    return module


def _opened(analysis: Analysis, entry: Function) -> Function | None:
    """The function with updates of tuples as those of their items; None where it has none."""
    instance = analysis.domain.instance(entry.name, tuple(p.type for p in entry.params))
    fresh = namer(entry).fresh
    body = list[Statement]()
    opened = False
    for statement in entry.body:
        types = [type_of(v) for v in instance.state(statement.args)] if isinstance(statement, Apply) else []
        if not isinstance(statement, Apply) or not is_update(statement) or not isinstance(types[0], TupleType):
            body.append(statement)
            continue
        opened = True
        of = statement.facts.of or str(statement.args[0])
        statement = replace(statement, facts=replace(statement.facts, of=of))
        count = len(types[0].items)
        columns: list[Sequence[Arg]] = []
        for arg, found in zip(statement.args, types, strict=True):
            columns.append([arg] * count)
            if isinstance(found, TupleType):
                items = tuple(fresh(f"{arg}_{i}") for i in range(count))
                columns[-1] = items
                body.append(Apply(items, "UnpackTuple", (arg,), facts=statement.facts))
        made = [[fresh(f"{name}_{i}") for i in range(count)] for name in statement.results]
        for args, names in zip(zip(*columns, strict=True), zip(*made, strict=True), strict=True):
            body.append(replace(statement, args=args, results=names, claims=()))
        body += [
            Apply((name,), "MakeTuple", tuple(items), facts=statement.facts)
            for name, items in zip(statement.results, made, strict=True)
        ]
    return replace(entry, body=tuple(body)) if opened else None
