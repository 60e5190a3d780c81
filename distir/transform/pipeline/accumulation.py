"""Passes that add what they compute for a microbatch to the sums over those before: gradients, and losses.

Each tensor is added to its sum as soon as it is there, in the memory of the sum, as `AccumulateGrad` of PyTorch and the
`main_grad` of Megatron do it. So a stage holds its gradients once, and those of one layer beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from distir.ir import Apply, Call, Function, Return, Statement, Type, names, results
from distir.ir.builder import FunctionBuilder, namer
from distir.transform.dead_code import live
from distir.transform.pipeline.outlining import Outlined, bindable


@dataclass(frozen=True)
class Accumulating:
    """A pass that takes sums so far behind its other operands, and gives the new ones behind its other results."""

    function: Function
    gives: tuple[str, ...]
    """What it gives of its microbatch alone."""
    sums: tuple[str, ...]
    """The values of which it takes and gives sums."""


def accumulating(
    name: str, of: Outlined, summed: Collection[str], used: Collection[str], type_of: Callable[[str], Type]
) -> Accumulating:
    """The pass with all of its values that are `summed` added up: at least one of those that it gives.

    Terms of sums that are `used` by other passes too are given as well. `name`: the function's.
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
    return Accumulating(Function(name, bindable(f.params), (*body, Return(returned))), gives, sums)


class _Writer:
    """Writes additions behind the statements that make the terms."""

    def __init__(self, f: FunctionBuilder, makers: Mapping[str, Statement]) -> None:
        self.f, self.makers = f, makers
        self.waiting: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        """By value: the sums so far that it is to be added to, and what they are called then."""
        self.packing: list[Statement] = []

    def total(self, term: str, so_far: str) -> str:
        """What the sum of `term` is called with the microbatch's; `so_far`: the sum before."""
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
        """Add values to their sums, now that they are there."""
        for name in made:
            for so_far, total in self.waiting.pop(name, ()):
                self.f.body.append(Apply((total,), "Sum", (so_far, name)))
