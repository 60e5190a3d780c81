"""The tensor leaves of a statement's operands and results, and the op's layout of their dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from distir.ir import DISCARD, Apply, Arg, Literal, TensorType, TupleType, Type
from distir.ops import Value, item_of, type_of
from distir.ops.layout import Layout, Letters
from distir.ops.tuples import TUPLING
from distir.placement.along import is_host

Leaf = tuple[Value, tuple[int, ...]]
"""An operand, or a leaf of a tuple operand, and the path to it."""

Related = tuple[Sequence[Leaf], Sequence[Leaf], "Layout | None"]
"""Corresponding leaves of operands and results, and the op's layout for them."""


def leafwise(values: Sequence[Leaf]) -> Iterable[Sequence[Leaf]]:
    """The operands and results of an op over tuples, leaf by leaf; tensors are repeated for each leaf."""
    sizes = [len(t.items) for v, _ in values if isinstance(t := type_of(v), TupleType)]
    if not sizes:
        yield values
    for k in range(sizes[0] if sizes else 0):
        tuples = (isinstance(type_of(v), TupleType) for v, _ in values)
        pairs = zip(values, tuples, strict=True)
        yield from leafwise([(item_of(v, k), (*path, k)) if inside else (v, path) for (v, path), inside in pairs])


def makes_no_dimension(statement: Apply, leaves: Sequence[Related]) -> bool:
    """Whether every dimension of the results is one of the operands', and none is contracted.

    Another such op on the same dimensions adds no information about them.
    """
    if statement.op in TUPLING:
        return all(isinstance(arg, str) for arg in statement.args)
    for operands, _, found in leaves:
        if found is None or found.others or found.result_blocks or any(is_host(v) for v, _ in operands):
            return False
        taken = {letter for letters in found.operands for letter in letters}
        if taken != {letter for letters in found.results for letter in letters}:
            return False
    return bool(leaves)


def changes_no_dimension(statement: Apply, leaves: Sequence[Related]) -> bool:
    """Whether the single result has the distinct dimensions of the first operand."""
    if len(statement.results) != 1 or DISCARD in (*statement.results, statement.args[0]) or not leaves:
        return False
    if not isinstance(statement.args[0], str):
        return False
    for operands, results, found in leaves:
        assert found is not None
        (first, *_), (result,) = found.operands, found.results
        if first != result or not _are_distinct(first) or found.operand_blocks or operands[0][1] != results[0][1]:
            return False
    return True


def have_one_form(statement: Apply, leaves: Sequence[Related]) -> bool:
    """Whether all results have the same dimensions, like parts of one value."""
    if len(statement.results) < 2 or DISCARD in statement.results or len(leaves) != 1:
        return False
    ((_, results, found),) = leaves
    assert found is not None
    alike = len({type_of(v) for v, _ in results}) == len(set(found.results)) == 1
    return alike and _are_distinct(found.results[0])


def _are_distinct(letters: Letters) -> bool:
    return None not in letters and len(set(letters)) == len(letters)


def flat(args: Iterable[Arg]) -> Iterator[str | Literal]:
    """The arguments with nested tuples flattened."""
    for arg in args:
        if isinstance(arg, tuple):
            yield from flat(arg)
        else:
            yield arg


def is_int(type: Type) -> bool:
    """Whether the elements are integers."""
    return isinstance(type, TensorType) and type.dtype is not None and type.dtype.kind in ("int", "uint")


def dimensions(type: Type, unknown: bool = False, path: tuple[int, ...] = ()) -> Iterable[tuple[tuple[int, ...], int]]:
    """The dimensions of a type: the path to the leaf, and the axis. With `unknown` those of no known size alone."""
    if isinstance(type, TupleType):
        for k, item in enumerate(type.items):
            if not unknown or has_unknown(item):
                yield from dimensions(item, unknown, (*path, k))
    elif isinstance(type, TensorType):
        for axis, dim in enumerate(type.shape or ()):
            if not (unknown and isinstance(dim, int)):
                yield path, axis


@lru_cache(maxsize=1 << 14)  # large tuples are passed from call to call
def has_unknown(type: Type) -> bool:
    """Whether some dimension is of no known size: it is named, or depends on values."""
    if isinstance(type, TupleType):
        return any(map(has_unknown, type.items))
    return not isinstance(type, TensorType) or type.shape is None or not all(isinstance(dim, int) for dim in type.shape)
