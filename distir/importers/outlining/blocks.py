"""The names of functions that are made of blocks, which occur in a program several times, or once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from distir.importers.names import value_name
from distir.ir import Call, Function, Statement, Type, results
from distir.ir.outlining import Windows

Scopes = Mapping[str, tuple[tuple[str, str], ...]]
"""For results: the modules that they were computed in, from the outermost, as names and classes."""


def replaced(block: Windows, name: str, stated: Mapping[str, Type], prefix: str = "") -> tuple[Function, Function]:
    """The function with its calls of a block, and the function of the block.

    `prefix`: what names in the first occurrence begin with that the function's names are to lack.
    """
    return block.outlined(name, stated, _shortening([*map(block.at, block.starts)], prefix))


def with_layers(function: Function, layers: Iterable[Function]) -> Function:
    """The function, whose calls of `layers` state which layer each of them is, in their order."""
    names, number = {layer.name for layer in layers}, count(1)
    body = (
        replace(s, facts=replace(s.facts, layer=next(number))) if isinstance(s, Call) and s.function in names else s
        for s in function.body
    )
    return replace(function, body=tuple(body))


def _shortening(occurrences: Sequence[Sequence[Statement]], prefix: str) -> Callable[[Sequence[str]], str]:
    """From names to names without what tells one occurrence from another: `h.0.attn.Add` is `attn.Add`."""
    prefix = prefix or _common_prefix(occurrences)

    def short(used: Sequence[str]) -> str:
        name = used[0]
        if prefix and name.startswith(prefix):
            return name[len(prefix) :] or name
        if len(set(used)) > 1:
            parts = [name.split(".") for name in used[:2]]
            i = _difference(*parts)
            if i is not None and i + 1 < len(parts[0]):
                return value_name(".".join(parts[0][i + 1 :]))
        return name.rpartition(".")[2] if prefix else name

    return short


def _common_prefix(occurrences: Sequence[Sequence[Statement]]) -> str:
    """What most names in the first occurrence begin with, up to the number in which the second differs."""
    if len(occurrences) < 2:
        return ""
    firsts, seconds = ([n for s in o for n in results(s)] for o in occurrences[:2])
    numbers = Counter(
        tuple(a.split(".")[: i + 1])
        for a, b in zip(firsts, seconds, strict=True)
        if (i := _difference(a.split("."), b.split("."))) is not None
    )
    return ".".join(numbers.most_common(1)[0][0]) + "." if numbers else ""


def _difference(a: list[str], b: list[str]) -> int | None:
    """The first number among the parts in which two dotted names differ."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if x != y and x.isdigit() and y.isdigit()), None)
