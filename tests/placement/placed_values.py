"""Values in parts: cut, put together again, and an op run on every device as one of its typings says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "ops"))

from distir.analysis.domains import Mixed
from distir.analysis.interpreter import interpret
from distir.analysis.values import Values
from distir.ir import DISCARD, Apply, Attributes, Function, Literal, Module, Param, Return, TensorType, TupleType
from distir.ir.builder import FunctionBuilder
from distir.ops.layout import Repeated, Shared
from distir.placement.along import GREATEST, PARTIAL, WHOLE, Split, is_host
from distir.placement.part_types import part_of, whole_block
from distir.transform.sharding.decided import typed_where_cut
from distir.transform.sharding.items import Expansion
from distir.transform.sharding.mesh import Mesh, Order
from distir.transform.sharding.rewrite import Rewriting, restated, rewritten


def parts(value, state, size, seed=0):
    """What each device holds of a value."""
    if isinstance(value, tuple):
        items = [parts(v, s, size, seed + k) for k, (v, s) in enumerate(zip(value, state, strict=True))]
        return [tuple(own) for own in zip(*items, strict=True)]
    rng = np.random.default_rng(seed)
    if state is PARTIAL:
        return terms_of(value, size, rng)
    if state is GREATEST:
        first = rng.integers(0, size, value.shape)
        return [np.where(first == k, value, value - k - 1).astype(value.dtype) for k in range(size)]
    return [cut(value, state, size, rank) for rank in range(size)] if isinstance(state, Split) else [value] * size


def terms_of(value, size, rng):
    """Terms, one on each device, whose sum is the value: exactly so where its element type has few bits."""
    if value.dtype.kind in "biu":
        terms = [rng.integers(0, 3, value.shape) for _ in range(size - 1)]
    elif value.dtype in (np.float64, np.float32):
        terms = [rng.uniform(-2, 2, value.shape) for _ in range(size - 1)]
    else:
        return [*(value / 2 ** (k + 1) for k in range(size - 1)), value / 2 ** (size - 1)]
    terms = [np.asarray(term).astype(value.dtype) for term in terms]
    return [*terms, np.asarray(value - sum(terms)).astype(value.dtype)]


def cut(value, state, size, rank):
    """A device's part of an array."""
    return np.take(value, places(value.shape[state.axis], state, size)[rank], state.axis)


def places(length, state, size):
    """By device, the places of a dimension that it has."""
    blocks = state.blocks or (length,)
    if isinstance(blocks[0], Repeated):
        blocks = (blocks[0].size,) * (length // blocks[0].size)
    found, first = [[] for _ in range(size)], 0
    for block in blocks:
        whole = whole_block(block)
        own = Order(state.zigzag)
        for rank in range(size):
            if isinstance(block, Shared):
                found[rank] += range(first, first + whole)
                continue
            run = whole // own.parts(size)
            for part in own.of(rank, size):
                found[rank] += range(first + part * run, first + (part + 1) * run)
        first += whole
    return found


def joined_as(held, whole, state, size):
    """Whether what the devices hold of a result is what its placement says: within rounding."""
    if isinstance(whole, tuple):
        states = state if isinstance(state, tuple) else (state,) * len(whole)
        return all(joined_as([own[k] for own in held], whole[k], states[k], size) for k in range(len(whole)))
    if state is PARTIAL:
        if any(own.shape != whole.shape for own in held):
            return False
        return near(sum(own.astype(np.float64) for own in held), whole)
    if state is GREATEST:
        return all(own.shape == whole.shape for own in held) and near(np.max(np.stack(held), 0), whole)
    due = [whole if state is WHOLE else cut(whole, state, size, rank) for rank in range(size)]
    return all(near(own, one) for own, one in zip(held, due, strict=True))


def together(held, state):
    """The value of which devices hold these parts."""
    if state is PARTIAL:
        return sum(held)
    if isinstance(state, Split):
        return np.concatenate(held, state.axis)
    return np.max(np.stack(held), 0) if state is GREATEST else held[0]


def near(found, due):
    """Whether arrays are of one shape, and equal within rounding."""
    if found.shape != due.shape:
        return False
    if due.dtype.kind in "biu":
        return np.array_equal(np.asarray(found).astype(np.int64), due.astype(np.int64))
    tolerance = 1e-8 if due.dtype == np.float64 else 2e-3
    left, right = np.asarray(found).astype(np.float64), due.astype(np.float64)
    return bool(np.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True))


def run_on_parts(op, attrs, vs, values, ws, typing, size, seed=0):
    """The results of an op on each device, written as the typing says and run by the reference executor.

    `vs`: the whole operands, literals and omitted ones included; `values`: their arrays.
    """
    zigzag = any(isinstance(s, Split) and s.zigzag for s in (*typing.needed, *typing.given))
    mesh = Mesh(size, 1, 1, "innermost", order=Order(zigzag))
    plain = replace(typing, needed=tuple(map(in_order, typing.needed)), given=tuple(map(in_order, typing.given)))
    args = [v if isinstance(v, Literal) else DISCARD if v is None else f"x{i}" for i, v in enumerate(vs)]
    while args and args[-1] == DISCARD:
        args.pop()
    statement = Apply(tuple(f"y{j}" for j in range(len(ws))), op.name, tuple(args), Attributes(attrs))
    named = [i for i, v in enumerate(vs) if isinstance(v, (TensorType, TupleType))]
    taken = FunctionBuilder("parts")
    taken.take((*statement.results, *(f"x{i}" for i in named)))
    body = Rewriting(size, taken, Mixed(Module([])), mesh.order)
    held_as = [WHOLE if is_host(v) and isinstance(s, Split) else s for v, s in zip(vs, plain.needed, strict=True)]
    for i in named:
        body.define(f"x{i}", vs[i], held_as[i])
    write(body, statement, vs, ws, plain)
    expansion = Expansion(mesh, {f"x{i}" for i in named if is_host(vs[i])} | body.single, taken.taken)
    params, given = [], []
    for i in named:
        held = parts(values[i], WHOLE if held_as[i] is WHOLE else typing.needed[i], size, seed)
        for own, part in zip(expansion.names(f"x{i}"), held, strict=False):
            params.append(Param(own, part_of(vs[i], held_as[i], size)))
            given.append(part)
    for item in body.items:
        expansion.write(item)
    names = [expansion.names(result) for result in statement.results]
    function = Function("main", tuple(params), (*expansion.body, Return(tuple(n for own in names for n in own))))
    made = iter(interpret(function, tuple(given), Values(Module([function]))).returned)
    found = [[next(made) for _ in own] for own in names]
    return [own * size if len(own) == 1 else own for own in found]


def write(body, statement, vs, ws, typing):
    """Write the statement on each device's parts."""
    if all(map(is_host, ws)) and not all(map(is_host, vs)):
        restated(body, statement, vs, body.domain.answer(statement, tuple(vs)))
    elif typing.letter is None:
        body.write(statement, ws, typing.given)
    else:
        typed = zip(
            typed_where_cut(statement, vs[: len(statement.args)], typing.needed), vs, typing.needed, strict=False
        )
        args = [body.placed(arg, s) if is_host(v) and isinstance(s, Split) else arg for arg, v, s in typed]
        rewritten(body, statement, args, vs, ws, typing)


def in_order(state):
    """A state as the partitioner has it, which says of a mesh axis whether it is in zig-zag."""
    if isinstance(state, tuple):
        return tuple(map(in_order, state))
    return replace(state, zigzag=False) if isinstance(state, Split) else state
