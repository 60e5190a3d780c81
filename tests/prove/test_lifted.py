"""What is said of an op on parts of its operands is so in numbers: for each op, by its own examples."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "ops"))

from op_samples import random_value

from distir.ir import Apply, Attributes, Literal, Module, TensorType
from distir.ops import OPS, Reject, bind, canonical, infer_types, run, strengthen, to_array
from distir.ops.layout import Layout
from distir.ops.splitting import layout
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.domain import Relations
from distir.prove.pieces import TermPiece
from distir.prove.terms import Terms, Unproved
from distir.syntax import parse_example

OURS = {n: op for n, op in OPS.items() if op.body.__module__.startswith("distir.") and op.communication is None}
EXAMPLES = [pytest.param(op, text, id=f"{name}-{i}") for name, op in OURS.items() for i, text in enumerate(op.examples)]

NEVER_SPLIT = {"MakeTuple", "UnpackTuple"}

CLAIMS = {"part": 0, "partial": 0}
"""How often a part, or a partial sum, was compared."""


def operands_of(text):
    params, apply = parse_example(text, canonical)
    assert isinstance(apply, Apply)
    known = {param.name: param.type for param in params}
    return [known[a] if isinstance(a, str) and a else a or None for a in apply.args], apply


def cuts(size):
    """Parts of a dimension: unequal ones, halves, and every other place."""
    yield [((0, 1),), ((1, size),)]
    if size % 2 == 0:
        yield [((0, size // 2),), ((size // 2, size),)]
    if size > 3:
        yield [((0, 1), (2, size)), ((1, 2),)]


def piece_of(algebra, i, type, at):
    """A part of an operand; `at`: which places of its dimensions."""
    shape = tuple(map(places.length, at))
    atom = algebra.terms.atom("parameter", type.shape, details=i)
    return TermPiece(replace(type, shape=shape), type.shape, at, ((atom, 1.0, ()),))


def divided(found: Layout, attrs, letter, share):
    """The attributes for a part of a dimension, as sharding divides them."""
    names = found.divided.get(letter, ())
    if any(not isinstance(attrs.get(n), int) or attrs[n] * share[0] % share[1] for n in names):
        return None
    return Attributes({**attrs, **{n: attrs[n] * share[0] // share[1] for n in names}})


def at_places(array, at):
    return array[np.ix_(*[[k for a, b in own for k in range(a, b)] for own in at])] if at else array


@pytest.mark.parametrize(("op", "text"), EXAMPLES)
def test_parts_are_what_they_are_said_to_be(op, text):
    args, apply = operands_of(text.replace("Float32", "Float64"))
    if op.name in NEVER_SPLIT or not all(a is None or isinstance(a, (TensorType, Literal)) for a in args):
        return
    count, attrs = len(apply.results), bind(op, apply.attrs)
    try:
        types = infer_types(op, args, apply.attrs, count)
        found = layout(op, args, types, attrs)
    except Reject:
        return  # the example is of a narrower type on purpose
    strong = strengthen(op, args, apply.attrs)
    values = [
        to_array(s) if isinstance(a, Literal) else None if a is None else random_value(a, i, low=0, high=1)
        for i, (a, s) in enumerate(zip(args, strong, strict=True))
    ]
    wholes = run(op, values, attrs, count)
    letters = {x for own in (found.operands if found else ()) for x in own if x}
    for letter in sorted(letters):
        sizes = {a.shape[k] for a, own in zip(args, found.operands, strict=True) if isinstance(a, TensorType)
                 for k, x in enumerate(own) if x == letter}  # fmt: skip
        for parts in [cut for size in sizes if size > 1 for cut in cuts(size)] if len(sizes) == 1 else ():
            check(op, attrs, args, values, wholes, found, letter, parts, sizes.copy().pop())


def check(op, attrs, args, values, wholes, found, letter, parts, size):
    algebra = Algebra(Terms())
    domain = Relations(Module(()), algebra)
    full = [tuple(map(places.full, a.shape)) if isinstance(a, TensorType) else None for a in args]
    whole = [algebra.of_value(a) if isinstance(a, Literal) else None if a is None else piece_of(algebra, i, a, full[i])
             for i, a in enumerate(args)]  # fmt: skip
    expected = domain.of_op(op, attrs, tuple(whole), len(wholes))
    algebra.sequential = False
    said, local = [], []
    for at in parts:
        own_attrs = divided(found, attrs, letter, (places.length(at), size))
        if own_attrs is None:
            return
        own = [
            None if f is None else tuple(at if x == letter else r for x, r in zip(own, f, strict=True))
            for f, own in zip(full, found.operands, strict=True)
        ]
        given = tuple(piece_of(algebra, i, a, own[i]) if isinstance(a, TensorType) else whole[i]
                      for i, a in enumerate(args))  # fmt: skip
        numbers = [v if own[i] is None else at_places(v, own[i]) for i, v in enumerate(values)]
        try:
            said.append(domain.of_op(op, own_attrs, given, len(wholes)))
            local.append(run(op, numbers, own_attrs, len(wholes)))
        except (Reject, Unproved, ValueError, IndexError):
            return  # the op does not take such parts
    for j, piece in enumerate(expected):
        mine = [results[j] for results in said]
        total = algebra.totalled([term for x in mine for term in x.terms])
        if any(x.is_partial for x in mine) and total == piece.terms:
            CLAIMS["partial"] += 1
            np.testing.assert_allclose(sum(results[j] for results in local), wholes[j], atol=1e-9)
        for x, results in zip(mine, local, strict=True):
            if x.terms == piece.terms and x.whole == piece.whole:
                CLAIMS["part"] += 1
                np.testing.assert_allclose(results[j], at_places(wholes[j], x.runs), atol=1e-9)


def test_parts_were_compared():
    if CLAIMS["part"]:  # another process has the others
        assert CLAIMS["part"] > 20
