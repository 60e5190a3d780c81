"""Conditions of a shell script: whether one holds, as far as variables say it.

A variable that nothing sets is empty, as to a shell; an argument of the script that is not given is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from distir.configurations.shell.words import COMPUTED, NAME, UNRESOLVED, Value, replaced, result, unquoted

_COMPARED = re.compile(r"(?P<left>.+?)\s+(?P<how>=|==|!=|-eq|-ne|-gt|-lt|-ge|-le)\s+(?P<right>.+)", re.DOTALL)
_TESTED = re.compile(r"(?P<how>-[nzv])\s+(?P<value>.+)", re.DOTALL)
_BRACKETS = (("[[", "]]"), ("[", "]"), ("((", "))"))
_PART = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|\[\[?(?=\s)|(?<=\s)\]\]?|[()]|\|\||&&|.", re.DOTALL)


def holds(condition: str, variables: Mapping[str, Value], depth: int = 0) -> bool | None:
    """Whether a condition holds; None for one that is not known."""
    condition = condition.strip().rstrip(";").strip()
    if depth > 20 or not condition:
        return None
    for mark, decides in (("||", True), ("&&", False)):
        parts = _parts(condition, mark)
        if len(parts) > 1:
            found = [holds(part, variables, depth + 1) for part in parts]
            return decides if decides in found else None if None in found else not decides
    if condition.startswith("!"):
        inner = holds(condition[1:], variables, depth + 1)
        return None if inner is None else not inner
    for opens, closes in _BRACKETS:
        if condition.startswith(opens) and condition.endswith(closes):
            inside = condition[len(opens) : -len(closes)]
            return _sum(inside, variables) if opens == "((" else _tested(inside, variables, depth)
    if condition.startswith("test "):
        return _tested(condition[5:], variables, depth)
    return {"true": True, ":": True, "false": False}.get(condition)


def _parts(condition: str, mark: str) -> list[str]:
    """What a mark divides outside of quotes and brackets."""
    found, depth = [""], 0
    for piece in _PART.finditer(condition):
        depth += (piece[0] in ("[", "[[", "(")) - (piece[0] in ("]", "]]", ")"))
        if piece[0] == mark and depth <= 0:
            found.append("")
        else:
            found[-1] += piece[0]
    return found


def _sum(text: str, variables: Mapping[str, Value]) -> bool | None:
    found = result(text, variables)
    return None if found is None else found != 0


def known(raw: str, variables: Mapping[str, Value]) -> str | None:
    """The value of a side of a comparison; None where an argument or a command decides it."""
    value = unquoted(replaced(raw, variables))
    if COMPUTED.search(value) or any(
        (name["plain"] or name["braced"]).isdecimal() for name in UNRESOLVED.finditer(value)
    ):
        return None
    value = re.sub(rf"\$(?:\{{{NAME}[^}}]*\}}|{NAME})", "", value)
    return None if "$" in value else value


def _tested(inside: str, variables: Mapping[str, Value], depth: int) -> bool | None:
    inside = inside.strip()
    for mark, decides in (("||", True), (" -o ", True), ("&&", False), (" -a ", False)):
        if mark in inside:
            found = [_tested(part, variables, depth + 1) for part in inside.split(mark)] if depth < 20 else [None]
            return decides if decides in found else None if None in found else not decides
    if inside.startswith("! "):
        inner = _tested(inside[2:], variables, depth + 1) if depth < 20 else None
        return None if inner is None else not inner
    if (tested := _TESTED.fullmatch(inside)) is not None:
        if tested["how"] == "-v":
            return tested["value"] in variables
        value = known(tested["value"], variables)
        return None if value is None else bool(value) == (tested["how"] == "-n")
    compared = _COMPARED.fullmatch(inside)
    if compared is None:
        value = known(inside, variables) if re.fullmatch(r"\S+|\"[^\"]*\"", inside) and inside[:1] != "-" else None
        return None if value is None else bool(value)
    left, right = known(compared["left"], variables), known(compared["right"], variables)
    if left is None or right is None:
        return None
    return _related(left, compared["how"], right)


def _related(left: str, how: str, right: str) -> bool | None:
    if how in ("=", "==", "!="):
        return (left == right or fnmatchcase(left, right)) == (how != "!=")
    one, other = result(left or "0", {}), result(right or "0", {})
    if one is None or other is None:
        return None
    return {"-eq": one == other, "-ne": one != other, "-gt": one > other, "-lt": one < other}.get(
        how, one >= other if how == "-ge" else one <= other
    )
