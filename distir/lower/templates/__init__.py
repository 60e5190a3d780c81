"""The parts of lowered programs that are the same for all: Python texts, which run where DistIR is not installed.

They import torch, which nothing here may do before it is needed; so they are texts (`.py.txt`), not modules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache

from distir.files.reading import beside

FUNCTIONS = ("communication", "kernels")
"""The templates of which a program holds only the functions that it calls."""


def text(name: str) -> str:
    """A template, whole: a Python text, where the name has no other ending."""
    file = f"{name}.txt" if "." in name else f"{name}.py.txt"
    return beside(__file__, file)


def functions(wanted: Iterable[str]) -> str:
    """The definitions of functions and of what they call, in the order of the templates."""
    parts = _parts()
    found: set[str] = set()
    pending = [name for name in wanted if name in parts]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += [used for used in parts[name][1] if used in parts]
    return "\n\n\n".join(parts[name][0] for name in parts if name in found)


def function_names() -> frozenset[str]:
    """All names that the functions' templates define."""
    return frozenset(_parts())


@cache
def _parts() -> dict[str, tuple[str, frozenset[str]]]:
    """By name: the text of a definition, and the names that it uses."""
    parts: dict[str, tuple[str, frozenset[str]]] = {}
    for template in FUNCTIONS:
        source = text(template)
        lines = source.splitlines()
        for node in ast.parse(source).body:
            name = _defined(node)
            if name is not None:
                used = frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
                parts[name] = "\n".join(lines[node.lineno - 1 : node.end_lineno]), used
    return parts


def _defined(node: ast.stmt) -> str | None:
    if isinstance(node, ast.FunctionDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None
