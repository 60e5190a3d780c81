"""Products that are added to something: `C + A·B` as one product that accumulates, in the memory of C.

What Megatron calls gradient accumulation fusion: a weight gradient of one more microbatch is written by the product
itself, where a product and a sum would write and read it twice more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distir.analysis import State
from distir.ir import Apply, Function, Module, Statement, TensorType, names, operands
from distir.ops import type_of


def accumulated(module: Module, states: Mapping[str, State]) -> Module:
    """The module with products that accumulate. `states`: of the functions in which to look for some."""
    return Module(_accumulated(f, states[f.name]) if f.name in states and not f.kernel else f for f in module)


def _accumulated(function: Function, state: State) -> Function:
    uses: dict[str, list[int]] = {}
    for index, statement in enumerate(function.body):
        for name in names(operands(statement)):
            uses.setdefault(name, []).append(index)
    body: list[Statement | None] = list(function.body)
    for index, statement in enumerate(function.body):
        if not isinstance(statement, Apply) or not _is_weight_gradient(statement, state):
            continue
        users = uses.get(statement.results[0], list[int]())
        joined = _joined(statement, function.body[users[0]], state) if len(users) == 1 else None
        if joined is not None and body[users[0]] is function.body[users[0]]:
            body[index], body[users[0]] = None, joined
    return function if None not in body else replace(function, body=tuple(s for s in body if s is not None))


def _is_weight_gradient(statement: Apply, state: State) -> bool:
    """Whether this is the product of what goes into a layer, transposed, and of the gradient of what comes out."""
    if statement.op != "Gemm" or not statement.attrs.get("transA") or not statement.results[0]:
        return False
    found = type_of(state[statement.results[0]])
    return isinstance(found, TensorType) and len(statement.args) == 2


def _joined(product: Apply, total: Statement, state: State) -> Apply | None:
    """The product with what it is added to; None where it is not added to one thing of its own type."""
    if not isinstance(total, Apply) or total.op not in ("Add", "Sum"):
        return None
    if total.stream != product.stream:
        return None
    others = [arg for arg in total.args if arg != product.results[0]]
    if len(total.args) != 2 or len(others) != 1 or not isinstance(others[0], str):
        return None
    types = [type_of(state[name]) for name in (others[0], product.results[0])]
    if types[0] != types[1]:
        return None
    return replace(product, results=total.results, args=(*product.args, others[0]), claims=total.claims)
