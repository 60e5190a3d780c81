"""The files and functions that all lowered programs share. They run where DistIR is not installed.

They import torch at the top, which no module of DistIR may do, so they are stored as texts (`.py.txt`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache

from distir.files.reading import beside

FUNCTIONS = ("streams", "communication", "kernels")
"""The templates from which a program includes only the functions that it calls."""


def text(name: str) -> str:
    """The text of a template: of `NAME.py` if the name has no extension."""
    file = f"{name}.txt" if "." in name else f"{name}.py.txt"
    return beside(__file__, file)


def functions(wanted: Iterable[str]) -> str:
    """The definitions of these functions and of all names that they use, in the order of the templates."""
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
    """All names that the templates in `FUNCTIONS` define."""
    return frozenset(_parts())


@cache
def _parts() -> dict[str, tuple[str, frozenset[str]]]:
    """By name: the source of its definition, and the names that it uses."""
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
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None
