"""A canonical form of the entry function: every gradient is summed by itself, and weights are not packed.

Data parallelism may join sums into buckets, a gradient may have uses besides its update, and a pipeline packs a stage's
weights into a tuple at the start. The result computes the same without these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from distir.ir import Apply, Function
from distir.ir.dataflow import maker, uses
from distir.ir.rewrite import Rewriter
from distir.transform.dead_code import pruned
from distir.transform.steps import tell
from distir.transform.zero.groups import SUMS, takes_norm, updated_by


def without_buckets(entry: Function) -> Function:
    """The function with sums of tuples that were packed for the sum replaced by sums of their items."""
    edit = Rewriter(entry)
    for index, statement in edit:
        opened = _opened(entry, statement) if isinstance(statement, Apply) else None
        if opened is not None:
            sums, unpacking = opened
            edit.replace(index, *sums)
            edit.erase(*unpacking)
    changed = edit.done()
    return entry if changed is entry else pruned(changed)


def _opened(entry: Function, reduce: Apply) -> tuple[list[Apply], set[int]] | None:
    """The sums of a bucket's items, and the statements that unpacked the bucket."""
    if reduce.op not in SUMS:
        return None
    made = [maker(entry, arg) for arg in reduce.args]
    packing = [s for s in made if isinstance(s, Apply) and s.op == "MakeTuple"]
    places = [uses(entry).get(name, ()) for name in reduce.results]
    unpacking = [entry.body[p[0]] for p in places if len(p) == 1]
    taken = [s for s in unpacking if isinstance(s, Apply) and s.op == "UnpackTuple"]
    if len(packing) != len(reduce.args) or len(taken) != len(reduce.args):
        return None
    columns = zip(
        zip(*(s.args for s in packing), strict=True), zip(*(s.results for s in taken), strict=True), strict=True
    )
    return [replace(reduce, results=results, args=args, claims=()) for args, results in columns], {p[0] for p in places}


def with_sums_for_updates(entry: Function, weights: Iterable[str]) -> Function:
    """The function with a sum for updates alone, which takes parts, for each gradient that has other uses, too."""
    wanted, edit = set(weights), Rewriter(entry)
    for index, statement in edit:
        if not isinstance(statement, Apply) or statement.op not in SUMS:
            continue
        users = [uses(entry).get(name, []) for name in statement.results]
        updating = [
            [i for i in places if updated_by(entry, i, name) in wanted or takes_norm(entry, i)]
            for name, places in zip(statement.results, users, strict=True)
        ]
        if not all(updating) or updating == users:
            continue
        if all(takes_norm(entry, i) for places in updating for i in places):  # its update is no op any more
            continue
        own = tuple(edit.fresh(f"{name}_to_update") for name in statement.results)
        edit.behind(index, replace(statement, results=own))
        for name, new, places in zip(statement.results, own, updating, strict=True):
            edit.rename({name: new}, places)
        tell(f"`%{statement.results[0]}` is needed whole beside its update: the gradient is summed twice")
    return edit.done()
