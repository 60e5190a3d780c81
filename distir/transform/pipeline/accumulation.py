"""Passes that accumulate: they add a microbatch's gradients and losses to the sums over earlier microbatches.

Each tensor is added to its sum as soon as it is computed, in the memory of the sum, as with PyTorch's `AccumulateGrad`
and Megatron's `main_grad`. So a stage holds its accumulated gradients, and new ones of one layer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from distir.ir import NO_FACTS, Apply, Call, Facts, Function, Return, Statement, Type, names, results
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.rewrite import facts_of
from distir.transform.dead_code import live
from distir.transform.pipeline.outlining import Outlined, bindable


@dataclass(frozen=True)
class Accumulating:
    """A pass that takes the sums so far after its other operands, and returns the new sums after its other results."""

    function: Function
    gives: tuple[str, ...]
    """The results for its microbatch alone."""
    sums: tuple[str, ...]
    """The values whose sums it takes and returns."""


def accumulating(
    name: str, of: Outlined, summed: Collection[str], used: Collection[str], type_of: Callable[[str], Type]
) -> Accumulating:
    """The pass that accumulates all of its values in `summed`, of which it returns at least one.

    Also returns terms that other passes use (`used`). `name`: the function's.
    """
    sums = tuple(term for term in of.gives if term in summed)
    f = namer(of.function)
    f.name, f.params = name, list(of.function.params)
    makers = {n: s for s in of.function.body if isinstance(s, (Apply, Call)) for n in s.results}
    writer = _Writer(f, makers)
    totals = [writer.total(term, f.param(f"{term}_sum", type_of(term))) for term in sums]
    writer.add(p.name for p in of.function.params)
    for statement in of.function.body:
        if isinstance(statement, Return):
            break
        f.body.append(statement)
        writer.add(results(statement))
    f.body += writer.packing
    gives = tuple(give for give in of.gives if give not in sums or give in used)
    returned = (*gives, *totals)
    body = live(f.body, returned)
    return Accumulating(
        replace(of.function, name=name, params=bindable(f.params), body=(*body, Return(returned))), gives, sums
    )


class _Writer:
    """Writes additions after the statements that compute the terms."""

    def __init__(self, f: FunctionBuilder, makers: Mapping[str, Statement]) -> None:
        self.f, self.makers = f, makers
        self.waiting: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        """By value: the sums to which it is added, and the names of the new sums."""
        self.packing: list[Statement] = []

    def total(self, term: str, so_far: str) -> str:
        """The name of the new sum of `term`; `so_far`: the sum before."""
        maker = self.makers.get(term)
        total = self.f.fresh(so_far)
        items = maker.args if isinstance(maker, Apply) and maker.op == "MakeTuple" else ()
        if not items or not all(isinstance(item, str) for item in items):
            self.waiting[term].append((so_far, total))
            return total
        parts = self.f.apply("UnpackTuple", so_far, results=tuple(f"{item}_sum" for item in names(items)))
        added = tuple(map(self.total, names(items), parts))
        self.packing.append(Apply((total,), "MakeTuple", added))
        return total

    def add(self, made: Iterable[str]) -> None:
        """Add values that are now defined to their sums."""
        for name in made:
            for so_far, total in self.waiting.pop(name, ()):
                layer = Facts(layer=facts_of(self.makers[name]).layer) if name in self.makers else NO_FACTS
                self.f.body.append(Apply((total,), "Sum", (so_far, name), facts=layer))
