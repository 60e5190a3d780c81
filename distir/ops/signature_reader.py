"""The parser of signatures. Their notation is a subset of Python's expressions, so Python's parser does most of it."""

from __future__ import annotations

import ast

from distir.ir import DTYPES, DType
from distir.ops.signature import (
    DTYPE_CLASSES,
    AnyDim,
    AnyPattern,
    Arithmetic,
    Broadcast,
    DimTerm,
    DimVar,
    DTypeVar,
    OperandPattern,
    Segment,
    ShapeTerm,
    Signature,
    Sum,
    TensorPattern,
)


def parse_signature(text: str) -> Signature:
    """Parse a signature. Raises ValueError for a malformed one: an error in the op's definition."""
    left, arrow, right = text.partition("->")
    if not arrow:
        raise ValueError(f"signature without `->`: {text}")
    return Signature(" ".join(text.split()), _patterns(left), _patterns(right))


def _patterns(text: str) -> tuple[OperandPattern, ...]:
    try:
        tree = ast.parse(f"({text.strip()},)" if text.strip() else "()", mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"malformed signature: {error.msg}: {text.strip()}") from None
    if isinstance(tree, ast.Tuple):
        return tuple(map(_operand, tree.elts))
    raise ValueError(f"malformed signature: {text.strip()}")


def _operand(tree: ast.expr) -> OperandPattern:
    match tree:
        case ast.Starred(value):
            return OperandPattern(_pattern(value), variadic=True)
        case ast.Subscript(ast.Name("Optional"), inner):
            return OperandPattern(_pattern(inner), optional=True)
        case _:
            return OperandPattern(_pattern(tree))


def _pattern(tree: ast.expr) -> TensorPattern | AnyPattern:
    match tree:
        case ast.Subscript(ast.Name("Tensor"), ast.Tuple([dtype, shape, ast.Name(device)])):
            return TensorPattern(_dtype(dtype), _shape(shape), device)
        case ast.Subscript(ast.Name("Tensor"), ast.Tuple([dtype, shape, ast.Name(device), ast.Name(memory)])):
            return TensorPattern(_dtype(dtype), _shape(shape), device, memory)
        case ast.Subscript(ast.Name(name), ast.Name(device)):
            return AnyPattern(name, device)
        case ast.Name(name):
            return AnyPattern(name)
        case _:
            raise ValueError(f"not a type pattern: {ast.unparse(tree)}")


def _dtype(tree: ast.expr) -> DType | DTypeVar | None:
    match tree:
        case ast.Name("_"):
            return None
        case ast.Name(name):
            return DTYPES.get(name) or DTypeVar(name)
        case ast.Slice(ast.Name(name), ast.Name(allowed)) if allowed in DTYPE_CLASSES:
            return DTypeVar(name, allowed)
        case _:
            raise ValueError(f"not an element type: {ast.unparse(tree)}")


def _shape(tree: ast.expr) -> ShapeTerm:
    match tree:
        case ast.Name("_"):
            return None
        case ast.Name(name):
            return (Segment(name),)
        case ast.Tuple(dims):
            return tuple(map(_dim, dims))
        case ast.Constant(value) if value is ...:
            return (Broadcast(),)
        case _:
            return (_dim(tree),)


def _dim(tree: ast.expr) -> DimTerm | Segment | Broadcast:
    match tree:
        case ast.Starred(ast.Name(name)):
            return Segment(name)
        case ast.Constant(value) if value is ...:
            return Broadcast()
        case _:
            return _scalar_dim(tree)


_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def _scalar_dim(tree: ast.expr) -> DimTerm:
    match tree:
        case ast.Constant(int(value)):
            return value
        case ast.Name("_"):
            return AnyDim()
        case ast.Name(name):
            return DimVar(name)
        case ast.BinOp(ast.Name(name), ast.MatMult(), ast.Name(axis)):
            return DimVar(name, axis)
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            return Arithmetic(_OPERATORS[type(operator)], _scalar_dim(left), _scalar_dim(right))
        case ast.Call(ast.Name("sum"), [ast.Name(name)]):
            return Sum(DimVar(name))
        case _:
            raise ValueError(f"not a dimension: {ast.unparse(tree)}")
