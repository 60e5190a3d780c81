"""Patterns: what a value may be made of. Written as the formula that they match, matched from its last op back.

    x = value("x")
    square = op.Pow(x, number(2)) | op.Mul(x, x)

A value that occurs in a pattern twice is the same both times. Operands of sums and products may be in either order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from distir.importers.recognition.rewriting import MatchedFunction
from distir.ir import Apply

COMMUTATIVE = ("Add", "Mul", "Max")


@dataclass(frozen=True, slots=True)
class Match:
    """What names in a pattern are bound to, and the results between the values of the pattern and its last op."""

    found: Mapping[str, Any] = field(default_factory=dict[str, Any])
    between: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Any:
        return self.found[name]

    def get(self, name: str) -> Any:
        """What a name is bound to, None where the pattern matched without it."""
        return self.found.get(name)

    def bound(self, name: str, what: Any) -> Match | None:
        """With a name for something; None where it is bound to something else already."""
        if name in self.found:
            return self if self.found[name] == what else None
        return replace(self, found={**self.found, name: what})


class Pattern:
    """What a value may be."""

    def ways(self, program: MatchedFunction, name: str, so_far: Match) -> Iterator[Match]:
        """All ways in which a value is what the pattern says."""
        raise NotImplementedError

    def __or__(self, other: Pattern) -> Pattern:
        return _Either((self, other))

    def of(self, program: MatchedFunction, root: Apply) -> Match | None:
        """How the result of a statement is what the pattern says, where nothing in between is needed elsewhere."""
        found = self.ways(program, root.results[0], Match())
        return next((m for m in found if program.inner(root, m.between)), None)


@dataclass(frozen=True, slots=True)
class _Either(Pattern):
    patterns: tuple[Pattern, ...]

    def ways(self, program: MatchedFunction, name: str, so_far: Match) -> Iterator[Match]:
        for pattern in self.patterns:
            yield from pattern.ways(program, name, so_far)


@dataclass(frozen=True, slots=True)
class _Value(Pattern):
    name: str

    def ways(self, program: MatchedFunction, name: str, so_far: Match) -> Iterator[Match]:
        found = so_far.bound(self.name, name)
        if found is not None and program.number(name) is None:
            yield found


@dataclass(frozen=True, slots=True)
class _Number(Pattern):
    expected: float | str

    def ways(self, program: MatchedFunction, name: str, so_far: Match) -> Iterator[Match]:
        number = program.number(name)
        if number is None:
            return
        if not isinstance(self.expected, str):
            if math.isclose(number, self.expected, rel_tol=1e-6):
                yield so_far
            return
        found = so_far.bound(self.expected, number)
        if found is not None:
            yield found


@dataclass(frozen=True, slots=True)
class _Op(Pattern):
    op: str
    operands: tuple[Pattern, ...]

    def ways(self, program: MatchedFunction, name: str, so_far: Match) -> Iterator[Match]:
        made = program.maker(name)
        if made is None or made.op != self.op or len(made.args) != len(self.operands):
            return
        here = replace(so_far, between=so_far.between | {name})
        orders = (made.args, made.args[::-1]) if self.op in COMMUTATIVE else (made.args,)
        for args in orders:
            yield from _all(program, list(zip(self.operands, args, strict=True)), here)


def _all(program: MatchedFunction, pairs: list[tuple[Pattern, Any]], so_far: Match) -> Iterator[Match]:
    if not pairs:
        yield so_far
        return
    (pattern, arg), *rest = pairs
    if isinstance(arg, str):
        for found in pattern.ways(program, arg, so_far):
            yield from _all(program, rest, found)


@dataclass(frozen=True, slots=True)
class _Mean(Pattern):
    """The mean along the last dimensions, which stay as 1; `axis` is the first of these, counted from the end."""

    operand: Pattern

    def ways(self, program: MatchedFunction, name: str, so_far: Match) -> Iterator[Match]:
        made, shape = program.maker(name), program.shape(name)
        if made is not None and made.op == "Reshape" and shape is not None and shape[-1:] == (1,):
            inner = program.maker(made.args[0])  # a mean without its dimension, which is restored
            if inner is not None and inner.op == "ReduceMean" and program.shape(made.args[0]) == shape[:-1]:
                so_far, made = replace(so_far, between=so_far.between | {name}), inner
        if made is None or made.op != "ReduceMean":
            return
        source, axes = program.shape(made.args[0]), program.listed(made)
        if source is None or not axes:
            return
        behind = sorted(axis % len(source) - len(source) for axis in axes)
        kept = made.attrs.get("keepdims", True) or len(program.shape(name) or ()) == len(source)
        found = so_far.bound("axis", behind[0])
        if behind != list(range(behind[0], 0)) or not kept or found is None:
            return
        here = replace(found, between=found.between | set(made.results))
        yield from self.operand.ways(program, str(made.args[0]), here)


class _Ops:
    """Ops as patterns, by their names: `op.Add(x, y)`."""

    def __getattr__(self, name: str) -> Any:
        def pattern(*operands: Any) -> _Op:
            return _Op(name, operands)

        return pattern


op: Any = _Ops()


def value(name: str) -> Pattern:
    """Any value that is no known number."""
    return _Value(name)


def number(expected: float | str) -> Pattern:
    """A known number: this one, or any, which the name is then bound to."""
    return _Number(expected)


def mean(operand: Pattern) -> Pattern:
    """The mean along the last dimensions, which stay as 1; `axis` is the first of these, counted from the end."""
    return _Mean(operand)
