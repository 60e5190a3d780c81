"""What torch calls the ops of a program in a trace: read off their torch forms, so that a new op needs nothing here.

A form is an expression of functions, methods and operators; torch records an op under the name of each of them. Forms
that call a function of the templates mean the names in its body.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

from distir.ir import Apply, Dense, External, Type
from distir.lower import templates
from distir.lower.statements import lowered
from distir.ops import Reject, Value
from distir.ops.torch_form import Unlowerable

MODULES = ("torch", "F", "aten", "_C", "nn")
"""The names of torch's modules in forms."""

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.USub: "neg",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
"""How torch records Python's operators on tensors."""

RENAMED = {"concat": "cat", "cross_entropy": "cross_entropy_loss"}
"""Functions that torch records under another name."""


ALIKE = {
    "index": ("embedding", "index_select"),
    "index_add": ("embedding_dense_backward", "index_put"),
}
"""By the name of a function in forms: others of torch that models call for the same."""

MADE = frozenset(["zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like", "empty_like", "arange"])
"""Functions that make a tensor for others to fill: an op is called so only if it does nothing else."""

MOVED = frozenset(
    ["to", "float", "long", "reshape", "view", "expand", "t", "contiguous", "clone", "flatten", "dim", "size", "item"]
)
"""Methods that view, convert or measure an operand: as those."""


class _Stub:
    """A program whose definitions are names alone."""

    def kernel(self, name: str) -> str:
        """The name of a function of the templates."""
        return name

    def constant(self, value: Dense | External) -> str:
        """The expression of a constant."""
        del value
        return "constant"

    def rank(self, device: int) -> int:
        """The rank of a device."""
        return device

    def group(self, devices: Sequence[int]) -> str:
        """The expression of a process group."""
        del devices
        return "group"


@lru_cache(4096)
def torch_names(op: Apply, vs: tuple[Value, ...], ws: tuple[Type, ...], device: int) -> frozenset[str]:
    """The plain names under which torch records an op on these operands; none where it has no form.

    `vs`, `ws`: operands and types of results; `device`: where it runs.
    """
    texts = [f"x{number}" for number in range(len(vs))]
    try:
        lines = lowered(op, texts, vs, ws, _Stub(), device, lambda operand: False)
    except (Unlowerable, Reject):
        return frozenset()
    found: set[str] = set()
    for line in lines:
        tree = ast.parse(line.text, mode="eval")
        found |= _names([tree])
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in _kernels():
                found |= _kernels()[node.id]
    return frozenset(found)


def _names(trees: Iterable[ast.AST], statements: bool = False) -> set[str]:
    """The names of functions of torch and of operators; of an expression without any, those of methods.

    Of `statements`, in which operators compute sizes, too, they count only where nothing is called.
    """
    functions, methods, operators = set[str](), set[str](), set[str]()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)):
            own = node.ops if isinstance(node, ast.Compare) else [node.op]
            constant = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
            operators |= {OPERATORS[type(o)] for o in own if type(o) in OPERATORS and not constant}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr.strip("_")
            into = methods if _root(node.func.value) not in MODULES else functions
            into |= {RENAMED.get(name, name), *ALIKE.get(name, ())}
        elif isinstance(node, ast.Subscript) and any(isinstance(part, ast.Name) for part in ast.walk(node.slice)):
            methods |= set() if statements else {"index", *ALIKE["index"]}
    if statements:
        return (functions - MADE) | (methods - MOVED) or operators or functions or methods
    return ((functions | operators) - MADE) or (methods - MOVED) or functions or methods


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


@cache
def _kernels() -> dict[str, set[str]]:
    """By function of the templates: the names in its body."""
    tree = ast.parse(templates.text("kernels"))
    return {node.name: _names(node.body, statements=True) for node in tree.body if isinstance(node, ast.FunctionDef)}
