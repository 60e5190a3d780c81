"""How much memory the reference executor needs for a program, derived from types before anything is computed.

The executor keeps every value until its function returns, as Algorithm 1 does. What ops need while they run is not
counted, nor is what views share with their operands: a lower bound, tight where results are large.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from distir.analysis.checker import Checker
from distir.analysis.domains import Instance
from distir.analysis.known_ops import lookup
from distir.ir import Apply, Call, TensorType, types
from distir.ir.deep import Deep, finish
from distir.ops import Value, type_of


def footprint(domain: Checker, instance: Instance) -> int:
    """The most bytes of results that are held at once; the parameters' own are not counted."""
    return finish(_Footprints(domain).most(instance))


@dataclass
class _Footprints:
    domain: Checker
    known: dict[int, int] = field(default_factory=dict[int, int])
    """By the identity of an instance."""

    def most(self, instance: Instance) -> Deep[int]:
        if id(instance) in self.known:
            return self.known[id(instance)]
        held = most = 0
        for statement in instance.function.body:
            if not isinstance(statement, (Apply, Call)):
                continue
            made = sum(_nbytes(instance.state[name]) for name in statement.results)
            if isinstance(statement, Call):
                callee = self.domain.instance(statement.function, instance.state(statement.args))
                most = max(most, held + (yield self.most(callee)))
            elif lookup(statement.op).view:
                made = 0
            held += made
            most = max(most, held)
        self.known[id(instance)] = most
        return most


def _nbytes(value: Value) -> int:
    total = 0
    for leaf in types.leaves(type_of(value)):
        if isinstance(leaf, TensorType) and leaf.dtype is not None and isinstance(elements := leaf.elements, int):
            total += elements * leaf.dtype.bytes
    return total
