"""Products that accumulate: `C + A·B` as one product that writes into the memory of C.

Megatron calls this gradient accumulation fusion: the product itself adds a microbatch's weight gradient, which saves
the traffic of a separate sum. If the sum has another element type than the product, product, cast and sum become one
kernel (`groups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from distir.analysis import State
from distir.ir import DISCARD, Apply, Function, Module, Statement, TensorType, results
from distir.ir.dataflow import uses
from distir.ir.rewrite import Rewriter
from distir.ops import type_of
from distir.ops.experts.operands import RAGGED_GRADIENTS

CASTS = frozenset({"Cast", "CastGradient"})
TOTALS = frozenset({"Add", "Sum"})


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The statements `chain` that add a term to a sum; the last one defines the new sum."""

    chain: Sequence[int]
    so_far: str
    """The sum before."""


def makes_a_weight_gradient(statement: Statement) -> bool:
    """Whether this is a weight gradient: the product of a layer's transposed input and its output's gradient."""
    if not isinstance(statement, Apply) or len(statement.results) != 1 or DISCARD in statement.results:
        return False
    if statement.op == "Gemm":
        return bool(statement.attrs.get("transA")) and len(statement.args) == 2
    if statement.op == "ScaledMatMul":  # Transformer Engine's products in 8-bit floats accumulate, too
        return bool(statement.attrs.get("transA"))
    return statement.op in RAGGED_GRADIENTS


def accumulation_of(
    term: str, stream: str, body: Sequence[Statement], used: Mapping[str, Sequence[int]]
) -> Accumulation | None:
    """How a value is added to another on a stream, possibly in another element type; None if it has other uses."""
    chain: list[int] = []
    while True:
        users = used.get(term, ())
        statement = body[users[0]] if len(users) == 1 else None
        if not isinstance(statement, Apply) or statement.stream != stream or DISCARD in statement.results:
            return None
        chain.append(users[0])
        if statement.op in TOTALS:
            others = [arg for arg in statement.args if arg != term]
            fits = len(statement.args) == 2 and len(others) == 1
            return Accumulation(chain, others[0]) if fits and isinstance(others[0], str) else None
        if statement.op not in CASTS or len(chain) > 1:
            return None
        (term,) = statement.results


def accumulated(module: Module, states: Mapping[str, State]) -> Module:
    """The module with products that accumulate. `states`: those of the functions to rewrite."""
    functions = (f for f in module if f.name in states and not f.kernel)
    return module.replacing(*(_accumulated(f, states[f.name]) for f in functions))


def _accumulated(function: Function, state: State) -> Function:
    edit, used = Rewriter(function), uses(function)
    joined: set[int] = set()
    """The sums that products have become."""
    for index, statement in edit:
        if not isinstance(statement, Apply) or statement.op != "Gemm" or not makes_a_weight_gradient(statement):
            continue
        (term,) = results(statement)
        found = accumulation_of(term, statement.stream, function.body, used)
        if found is None or len(found.chain) > 1 or found.chain[0] in joined:
            continue
        at = found.chain[0]
        total = edit[at]
        if isinstance(total, Apply) and _alike(state, found.so_far, term):
            args = (*statement.args, found.so_far)
            product = replace(statement, results=total.results, args=args, claims=total.claims)
            edit.behind(at, product, facts=statement.facts)
            edit.erase(index, at)
            joined.add(at)
    return edit.done()


def _alike(state: State, a: str, b: str) -> bool:
    first, second = type_of(state[a]), type_of(state[b])
    return isinstance(first, TensorType) and first == second
