"""From statements over names to a function's body: constants where they are used, and nothing that is not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from distir.importers.sizes import Sizes
from distir.ir import (
    DISCARD,
    Apply,
    Arg,
    Call,
    Constant,
    Dense,
    Function,
    Literal,
    Statement,
    names,
    results,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import mapped, with_names
from distir.ops import OPS, Reject, Value, dense, strengthen, to_array


def settle(
    builder: FunctionBuilder,
    statements: Sequence[Apply | Call],
    values: Mapping[str, Value],
    returned: Sequence[str],
    small: int,
) -> Function:
    """The builder's function with what is needed of the statements for what it returns."""
    made = {name for statement in statements for name in statement.results}
    sizes = Sizes(builder)

    def constant(name: str) -> bool:
        value = values.get(name)
        return isinstance(value, Dense) and not value.symbolic and (len(value.values) <= small or name not in made)

    def size(name: str) -> bool:
        return sizes.covers(values.get(name))

    needed = {name for name in returned if not constant(name)}
    kept: list[Apply | Call] = []
    for statement in reversed(statements):
        if all(name not in needed or size(name) for name in statement.results):
            continue
        kept.append(statement)
        needed.update(name for name in names(statement.args) if not constant(name))
    body: list[Statement] = []
    stated: set[str] = set()

    def state(name: str) -> str:
        """Let a constant be a value of its own."""
        if name not in stated:
            stated.add(name)
            body.append(_constant(name, cast("Dense", values[name])))
        return name

    for name in [*(n for s in reversed(kept) for n in names(s.args)), *returned]:
        if name in needed and size(name):
            sizes.state(cast("Dense", values[name]))
    body += sizes.body
    sized = {name: sizes.named[cast("Dense", values[name])] for name in needed if size(name)}
    values = {**values, **{given: values[name] for name, given in sized.items()}}
    for statement in reversed(kept):
        held = {name for name in names(statement.args) if constant(name)}
        args = tuple(sized.get(a, a) if isinstance(a, str) else a for a in statement.args)
        if held:
            large = {name for name in held if len(cast("Dense", values[name]).values) > small}
            if isinstance(statement, Apply) and statement.op in OPS and OPS[statement.op].variadic is not None:
                large = held  # a literal behind them would be taken for an attribute
            for name in sorted(large, key=list(names(args)).index):
                state(name)
            args = _with_literals(replace(statement, args=args), values, held - large)
        wanted = tuple(name if name in needed else DISCARD for name in statement.results)
        body.append(replace(statement, results=wanted, args=args, claims=()))
    for name in returned:
        if constant(name):
            state(name)
    builder.body = body
    return builder.returns(*(sized.get(name, name) for name in returned))


def with_result_names(function: Function, wanted: Sequence[str]) -> tuple[Function, dict[str, str]]:
    """The function with its results called as `wanted`, where these names are free, and what was renamed.

    Parameters keep their names.
    """
    taken = {param.name for param in function.params} | {name for s in function.body for name in results(s)}
    fixed = {param.name for param in function.params} | set(wanted)
    renamed: dict[str, str] = {}
    for old, new in zip(function.returned, wanted, strict=True):
        if isinstance(old, str) and old not in fixed and old not in renamed and new not in taken:
            renamed[old] = new
            taken.add(new)
    if not renamed:
        return function, {}
    return mapped(function, lambda statement: with_names(statement, renamed)), renamed


def _constant(name: str, value: Dense) -> Statement:
    from distir.ir import Attributes

    return Apply((name,), "Constant", (), Attributes({"value": _written(value)}))


def _written(value: Dense) -> Constant:
    """A constant in its shortest spelling that means the same tensor."""
    if not value.values:  # `(1000000000, 0)` has as many lists
        return value
    short = _plain(value)
    return short if _same(dense(short), value) else value


def _with_literals(statement: Apply | Call, values: Mapping[str, Value], held: set[str]) -> tuple[Arg, ...]:
    """The operands with literals for constants: plain numbers where their place gives them the right element type."""
    exact: list[Arg] = [_exact(arg, values) if arg in held else arg for arg in statement.args]
    if isinstance(statement, Call) or statement.op not in OPS:
        return tuple(exact)
    op, plain = OPS[statement.op], list(exact)
    for i, arg in enumerate(statement.args):
        value = values.get(arg) if isinstance(arg, str) and arg in held else None
        if isinstance(value, Dense) and value.values:
            plain[i] = Literal(_plain(value))
    try:
        vs = [arg if isinstance(arg, Literal) else values.get(cast(str, arg)) for arg in plain]
        strong = strengthen(op, vs, statement.attrs)
    except Reject:
        return tuple(exact)
    pairs = zip(plain, exact, strong, strict=True)
    return tuple(
        p if not isinstance(p, Literal) or p is e or _same(s, cast("Dense", cast("Literal", e).value)) else e
        for p, e, s in pairs
    )


def _exact(arg: Any, values: Mapping[str, Value]) -> Literal:
    return Literal(cast("Dense", values[arg]))


def _plain(value: Dense) -> Constant:
    """A tensor as numbers, or lists of numbers; floats with as few digits as their element type needs."""
    array = to_array(value)
    if value.dtype.name == "Float32":
        import numpy as np

        shortened = [float(str(np.float32(v))) for v in array.reshape(-1)]
        return _nested(tuple(shortened), value.shape)
    return _nested(cast("tuple[Any, ...]", value.values), value.shape)


def _nested(values: tuple[Any, ...], shape: tuple[int, ...]) -> Constant:
    if not shape:
        return values[0]
    if len(shape) == 1:
        return values
    stride = len(values) // shape[0] if shape[0] else 0
    return tuple(_nested(values[i * stride : (i + 1) * stride], shape[1:]) for i in range(shape[0]))


def _same(found: Value, wanted: Dense) -> bool:
    import numpy as np

    if not isinstance(found, Dense) or found.dtype is not wanted.dtype or found.shape != wanted.shape:
        return False
    return to_array(found).tobytes() == to_array(wanted).tobytes() or bool(
        np.array_equal(to_array(found), to_array(wanted), equal_nan=found.dtype.kind == "float")
    )
