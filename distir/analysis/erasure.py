"""A program on a mesh without its mesh and placements: the sequential program whose values its types state."""

from __future__ import annotations

from dataclasses import replace

from distir.analysis.placement_states import erased_type
from distir.ir import (
    NO_ATTRIBUTES,
    Apply,
    Attributes,
    Call,
    Function,
    Module,
    Param,
    Statement,
    Type,
    names,
    operands,
)
from distir.ir.rewrite import mapped, with_names, with_operands
from distir.ir.roles import is_donated, is_held
from distir.ops import OPS
from distir.ops.mesh import COLLECTIVES


def erased_module(module: Module) -> Module:
    """The sequential program, without the collectives over axes of the mesh. The module must check."""
    return Module(_undonated(_of_wholes(_without_collectives(function))) for function in module)


def as_identities(module: Module) -> Module:
    """The sequential program with each collective as the `Identity` that it is there, in its place.

    A program without a mesh stays as it is. One with a mesh must check.
    """
    if not module.mesh:
        return module
    return Module(mapped(_of_wholes(function), _identity) for function in module)


def _undonated(function: Function) -> Function:
    """The function without `{donated}` weights and state: without collectives updates are written where these are."""
    if not any(is_held(p) and is_donated(p) for p in function.params):
        return function
    params = (
        replace(p, roles=Attributes({n: v for n, v in p.roles.items() if n != "donated"})) if is_held(p) else p
        for p in function.params
    )
    return replace(function, params=tuple(params))


def _of_wholes(function: Function) -> Function:
    """The function with types of whole values."""
    params = tuple(Param(p.name, erased_type(p.type), p.roles) for p in function.params)
    stated = None if function.result_types is None else tuple(map(erased_type, function.result_types))
    return replace(mapped(function, _claiming_wholes), params=params, result_types=stated, mesh=(), stages=())


def _claiming_wholes(statement: Statement) -> Statement:
    if not isinstance(statement, (Apply, Call)) or not statement.claims:
        return statement
    return replace(statement, claims=tuple(map(_erased_claim, statement.claims)))


def _erased_claim(claim: Type | None) -> Type | None:
    return None if claim is None else erased_type(claim)


def _identity(statement: Statement) -> Statement:
    if not isinstance(statement, Apply) or statement.op not in COLLECTIVES:
        return statement
    return replace(statement, op="Identity", attrs=NO_ATTRIBUTES)


def _without_collectives(function: Function) -> Function:
    """The function with the operand of each collective in place of its result; results keep their names.

    Without streams, too, what waits on them, and the tuples whose items are one message.
    """
    origin: dict[str, str] = {}
    """By result of a collective, or of what waits: the value that it is."""
    packed: dict[str, Apply] = {}
    kept: list[Statement] = []
    for statement in function.body:
        if isinstance(statement, Apply) and _gives_its_operand(statement):
            operand = str(statement.args[0])
            origin[statement.results[0]] = origin.get(operand, operand)
            continue
        own = with_operands(statement, origin)
        if isinstance(own, Apply) and own.op == "UnpackTuple" and statement != own and own.args[0] in packed:
            items = packed[str(own.args[0])].args
            if all(isinstance(item, str) for item in items):
                origin |= {result: str(item) for result, item in zip(own.results, items, strict=True)}
                continue
        if isinstance(own, Apply) and own.op == "MakeTuple":
            packed[own.results[0]] = own
        kept.append(replace(own, stream="") if isinstance(own, (Apply, Call)) and own.stream else own)
    if not origin:
        return replace(function, body=tuple(kept))
    used = {name for statement in kept for name in names(operands(statement))}
    messages = {id(packed[name]) for name in {*origin.values()} if name in packed and name not in used}
    given = {param.name for param in function.params}
    named = {
        origin[arg]: arg
        for arg in function.returned
        if isinstance(arg, str) and arg in origin and origin[arg] not in given
    }
    return replace(function, body=tuple(with_names(s, named) for s in kept if id(s) not in messages))


def _gives_its_operand(statement: Apply) -> bool:
    """Whether a statement is the value of its operand, elsewhere or later."""
    is_later = statement.op in OPS and OPS[statement.op].awaits
    return (statement.op in COLLECTIVES or is_later) and isinstance(statement.args[0], str)
