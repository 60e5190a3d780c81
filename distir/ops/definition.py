"""`@op` for other packages: whether the parts of a definition fit each other, its signatures and its body.

The tests hold built-in ops to it, whose signatures are read only when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from distir.ir import AnyType, TensorType, TupleType, Type
from distir.ir.registry import DefinitionError
from distir.ops import core
from distir.ops.core import Op
from distir.ops.signature import (
    Arithmetic,
    Broadcast,
    DimTerm,
    DimVar,
    DTypeVar,
    OperandPattern,
    Segment,
    Signature,
    Sum,
    TensorPattern,
)

FREE = frozenset({"host", "N", "_", "devices_i"})
"""Letters of results that no operand has to bind."""


def op(*signatures: str, name: str | None = None, **meanings: Any) -> Callable[[Callable[..., Any]], Op]:
    """Register the decorated function as an op. `meanings`: fields of `Op`. See the docstring of `distir.ops.core`.

    Raises ValueError for a signature that is malformed, or that does not fit the function.
    """

    def register(body: Callable[..., Any]) -> Op:
        check_definition(Op(name or body.__name__, signatures, body, **meanings))
        return core.op(*signatures, name=name, **meanings)(body)

    return register


def is_built_in(op: Op) -> bool:
    """Whether the tests hold the op to its definition."""
    return op.body.__module__.partition(".")[0] == "distir"


def check_results(op: Op, stated: Sequence[Type], found: Sequence[Type]) -> None:
    """Raises DefinitionError where the body gave other element types or sizes than signature and rules state."""
    if len(stated) != len(found):
        raise DefinitionError(f"{_where(op)} gives {len(found)} results, expected {len(stated)}")
    for number, (one, other) in enumerate(zip(stated, found, strict=True)):
        if not _fits(one, other):
            which = "" if len(stated) == 1 else f" as result {number}"
            raise DefinitionError(f"{_where(op)} gives {other}{which}, where its signature says {one}")


def _where(op: Op) -> str:
    code = getattr(op.body, "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}: " if code else ""
    return f"{place}the body of the op `{op.name}`"


def _fits(stated: Type, found: Type) -> bool:
    match stated, found:
        case TupleType(), TupleType():
            return len(stated.items) == len(found.items) and all(map(_fits, stated.items, found.items))
        case TensorType(), TensorType():
            if stated.dtype not in (None, found.dtype):
                return False
            if stated.shape is None or found.shape is None:
                return True
            sizes = zip(stated.shape, found.shape, strict=False)
            return len(stated.shape) == len(found.shape) and all(
                not isinstance(size, int) or size == given for size, given in sizes
            )
        case _:
            return isinstance(stated, AnyType)


def check_definition(op: Op) -> None:
    """Raises ValueError where a signature is malformed, or does not fit the body or itself."""
    for signature in op.signatures:
        _check_operands(op, signature)
        bound = {*_letters(signature.operands), *op.attributes, *FREE}
        if unbound := [letter for letter in _letters(signature.results) if letter not in bound]:
            raise ValueError(
                f"`{op.name}`: no operand and no attribute says what `{unbound[0]}` is, in the results of `{signature}`"
            )


def _check_operands(op: Op, signature: Signature) -> None:
    patterns, operands = signature.operands, op.operands
    if len(patterns) > len(operands) or not all(operand.optional for operand in operands[len(patterns) :]):
        body = ", ".join(operand.name for operand in operands) or "none"
        count = f"{len(patterns)} operand{'s' * (len(patterns) != 1)}"
        raise ValueError(f"`{op.name}`: `{signature}` has {count}, and the body's positional parameters are {body}")
    for pattern, operand in zip(patterns, operands, strict=False):
        if pattern.variadic != operand.variadic:
            raise ValueError(f"`{op.name}`: `{operand.name}` is starred in one of signature and body, in the other not")
        if pattern.optional != operand.optional:
            raise ValueError(
                f"`{op.name}`: `{operand.name}` needs both `Optional[…]` in the signature and a default in the body"
            )


def _letters(patterns: Iterable[OperandPattern]) -> Iterator[str]:
    """What patterns call element types, dimensions and devices; types as a whole are left out (`Op.types`)."""
    for pattern in (one.pattern for one in patterns):
        if not isinstance(pattern, TensorPattern):
            if pattern.device:
                yield pattern.device
            continue
        if isinstance(pattern.dtype, DTypeVar):
            yield pattern.dtype.name
        for term in pattern.shape or ():
            yield from _of_term(term)
        yield pattern.device


def _of_term(term: DimTerm | Segment | Broadcast) -> Iterator[str]:
    match term:
        case DimVar(name) | Segment(name) | Sum(DimVar(name)):
            yield name
        case Broadcast():
            yield "..."
        case Arithmetic(_, left, right):
            yield from _of_term(left)
            yield from _of_term(right)
        case _:
            pass
