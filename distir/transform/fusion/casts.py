"""Casts for hand-written kernels: each gets its own copy of the cast, and so reads the operand before it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from distir.ir import NO_FACTS, Apply, Arg, Function
from distir.ir.dataflow import definitions, uses
from distir.ir.rewrite import Rewriter, with_names

VIEWS = frozenset({"Flatten", "Reshape"})


def with_own_casts(function: Function, ops: Collection[str]) -> Function:
    """The function with a copy of a shared cast, and of the views after it, for each of these ops.

    So the gradient of a loss reads the logits themselves, not a Float32 copy that the loss would have to write.
    """
    edit, made, used = Rewriter(function), definitions(function), uses(function)
    copied: set[str] = set()

    def own(index: int, arg: Arg) -> Arg:
        chain: list[Apply] = []
        name = arg
        while isinstance(name, str) and isinstance(maker := edit.maker(name), Apply) and maker.op in {"Cast", *VIEWS}:
            chain.append(maker)
            name = maker.args[0]
            if maker.op == "Cast":
                break
        if not chain or chain[-1].op != "Cast" or not isinstance(arg, str) or len(used[arg]) < 2:
            return arg
        new = {maker.results[0]: edit.fresh(maker.results[0]) for maker in reversed(chain)}
        copied.update(new)
        copies = [with_names(replace(maker, claims=()), new) for maker in reversed(chain)]
        edit.before(index, *copies, facts=NO_FACTS)
        return new[arg]

    for index, statement in edit:
        if isinstance(statement, Apply) and statement.op in ops:
            edit.replace(index, replace(statement, args=tuple([own(index, arg) for arg in statement.args])))
    for name in sorted(copied, key=made.__getitem__, reverse=True):
        if not edit.users(name):
            edit.erase(made[name])
    return edit.done() if copied else function
