"""Widens a program to Float64: the same mathematics with negligible rounding.

So two programs can be compared to ten digits, even in gradients much smaller than their weights. Floats of 8 bits or
fewer are not widened: their quantisation is part of the mathematics.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from distir.ir.calls import called_by
from distir.ir.rewrite import mapped
from distir.ops import OPS, dense

FLOAT32, FLOAT64 = DTYPES["Float32"], DTYPES["Float64"]
WIDENED = frozenset({DTYPES["BFloat16"], DTYPES["Float16"], FLOAT32})
"""The element types replaced by Float64."""


def float_types(module: Module) -> set[DType]:
    """The floating-point types that a program mentions."""
    return {dtype for function in module for dtype in _dtypes(function) if dtype.kind == "float"}


def in_float64(module: Module) -> Module:
    """The program with floats wider than 8 bits replaced by Float64, and without claims.

    The result may not check: some ops give Float32 for any operands. Callees accept any element type, such as scales in
    Float32.
    """
    called = called_by(module)
    return Module(
        replace(
            mapped(f, _statement),
            params=tuple(replace(p, type=_type(p.type, None if f.name in called else FLOAT64)) for p in f.params),
            result_types=None,
        )
        for f in module
    )


def loaded_in_float64(load: Load, modules: Iterable[Module]) -> Load:
    """A loader of external tensors that widens those which `modules` declare in other types to Float64."""
    kept = {_constant(e): e for module in modules for f in module for e in _constants(f) if isinstance(e, External)}
    return lambda external: array_in_float64(load(kept.get(external, external)))


def array_in_float64(value: Any) -> Any:
    """A value of the executor, with its arrays widened likewise."""
    from distir.ops import dtype_of
    from distir.ops.numeric import np

    if isinstance(value, tuple):
        return tuple(map(array_in_float64, cast("tuple[Any, ...]", value)))
    return value.astype(np.float64) if hasattr(value, "dtype") and dtype_of(value) in WIDENED else value


def _dtypes(function: Function) -> set[DType]:
    """The element types that a function mentions."""
    stated = [leaf for p in function.params for leaf in types.leaves(p.type)]
    found = {leaf.dtype for leaf in stated if isinstance(leaf, TensorType) and leaf.dtype is not None}
    for constant in _constants(function):
        if isinstance(constant, (Dense, External)):
            found.add(constant.dtype)
        elif isinstance(constant, DType):
            found.add(constant)
    return found


def _constants(function: Function) -> list[Constant]:
    """The constants in a function, and those in its tuples."""
    constants: list[Constant] = []
    for statement in function.body:
        if isinstance(statement, Apply):
            constants += statement.attrs.values()
        if isinstance(statement, (Apply, Call, Return)):
            constants += [literal.value for literal in _literals(statement.args)]
    for constant in constants:  # grows while it is walked
        if isinstance(constant, tuple):
            constants += constant
    return constants


def _literals(args: tuple[Arg, ...]) -> list[Literal]:
    waiting = list(args)
    for arg in waiting:  # grows while it is walked
        if isinstance(arg, tuple):
            waiting += arg
    return [arg for arg in waiting if isinstance(arg, Literal)]


def _statement(statement: Statement) -> Statement:
    if isinstance(statement, Apply):
        known = OPS[statement.op].attributes.items() if statement.op in OPS else ()
        attrs: dict[str, Constant] = {name: FLOAT64 for name, spec in known if spec.default in WIDENED}
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
        is_float = dense(arg.value).dtype in WIDENED  # plain numbers are Float32
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
        return replace(value, dtype=FLOAT64) if value.dtype in WIDENED else value
    return FLOAT64 if value in WIDENED else value


def _type(found: Type, wide: DType | None) -> Type:
    """The type with element types widened to `wide`."""
    if isinstance(found, TupleType):
        return TupleType(tuple(_type(item, wide) for item in found.items))
    if isinstance(found, TensorType) and found.dtype in WIDENED:
        return TensorType(wide, found.shape, found.device, found.offloaded)
    return found
