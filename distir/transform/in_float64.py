"""A program with Float64 in the place of Float32: the same mathematics, with hardly any rounding.

What two programs differ in shows there down to ten digits, however small a gradient is beside its weight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from distir.analysis import Load
from distir.ir import (
    DTYPES,
    Apply,
    Arg,
    Attributes,
    Call,
    Constant,
    Dense,
    DType,
    External,
    Function,
    Literal,
    Module,
    Return,
    Statement,
    TensorType,
    TupleType,
    Type,
    types,
)
from distir.ops import OPS, dense

FLOAT32, FLOAT64 = DTYPES["Float32"], DTYPES["Float64"]


def in_float64(module: Module) -> Module | None:
    """The program with Float64 in the place of Float32, without what it claims of its types.

    None where it has other floating-point types: the rounding of narrower ones is part of what it computes. What is
    returned need not check: some ops give Float32 whatever they are given.
    """
    if {dtype for function in module for dtype in _dtypes(function) if dtype.kind == "float"} != {FLOAT32}:
        return None
    return Module(
        Function(
            f.name,
            tuple(replace(p, type=_type(p.type)) for p in f.params),
            tuple(map(_statement, f.body)),
            None,
            f.kernel,
        )
        for f in module
    )


def loaded_in_float64(load: Load) -> Load:
    """What gives arrays of Float64 where the program asks for them, of tensors that are kept in Float32."""

    def loaded(external: External) -> object:
        kept = replace(external, dtype=FLOAT32) if external.dtype is FLOAT64 else external
        return array_in_float64(load(kept))

    return loaded


def array_in_float64(value: Any) -> Any:
    """A value of the executor with Float64 in the place of Float32."""
    from distir.ops.numeric import np

    if isinstance(value, tuple):
        return tuple(map(array_in_float64, cast("tuple[Any, ...]", value)))
    return value.astype(np.float64) if getattr(value, "dtype", None) == np.float32 else value


def _dtypes(function: Function) -> set[DType]:
    """The element types that a function mentions."""
    stated = [leaf for p in function.params for leaf in types.leaves(p.type)]
    found = {leaf.dtype for leaf in stated if isinstance(leaf, TensorType) and leaf.dtype is not None}
    constants: list[Constant] = []
    for statement in function.body:
        if isinstance(statement, Apply):
            constants += statement.attrs.values()
        if isinstance(statement, (Apply, Call, Return)):
            constants += [literal.value for literal in _literals(statement.args)]
    for constant in constants:  # grows while it is walked
        if isinstance(constant, tuple):
            constants += constant
        elif isinstance(constant, (Dense, External)):
            found.add(constant.dtype)
        elif isinstance(constant, DType):
            found.add(constant)
    return found


def _literals(args: tuple[Arg, ...]) -> list[Literal]:
    waiting = list(args)
    for arg in waiting:  # grows while it is walked
        if isinstance(arg, tuple):
            waiting += arg
    return [arg for arg in waiting if isinstance(arg, Literal)]


def _statement(statement: Statement) -> Statement:
    if isinstance(statement, Apply):
        known = OPS[statement.op].attributes.items() if statement.op in OPS else ()
        attrs: dict[str, Constant] = {name: FLOAT64 for name, spec in known if spec.default is FLOAT32}
        attrs |= {name: _constant(value) for name, value in statement.attrs.items()}
        return replace(statement, args=_args(statement.args), attrs=Attributes(attrs), claims=())
    if isinstance(statement, Call):
        return replace(statement, args=_args(statement.args), claims=())
    return Return(_args(statement.args)) if isinstance(statement, Return) else statement


def _args(args: tuple[Arg, ...]) -> tuple[Arg, ...]:
    return tuple(map(_arg, args))


def _arg(arg: Arg) -> Arg:
    if isinstance(arg, tuple):
        return _args(arg)
    if isinstance(arg, Literal) and not isinstance(arg.value, (str, DType, External)):
        is_float = dense(arg.value).dtype is FLOAT32  # as is taken where nothing else says what it is
        return (
            Literal(_constant(arg.value if isinstance(arg.value, Dense) else dense(arg.value, FLOAT64)))
            if is_float
            else arg
        )
    return arg


def _constant(value: Constant) -> Constant:
    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    if isinstance(value, (Dense, External)):
        return replace(value, dtype=FLOAT64) if value.dtype is FLOAT32 else value
    return FLOAT64 if value is FLOAT32 else value


def _type(found: Type) -> Type:
    if isinstance(found, TupleType):
        return TupleType(tuple(map(_type, found.items)))
    if isinstance(found, TensorType) and found.dtype is FLOAT32:
        return TensorType(FLOAT64, found.shape, found.device)
    return found
