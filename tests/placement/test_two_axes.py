"""The rules of ops on parts along two axes at once: what `check` accepts `expand` writes, and it computes the same."""

import itertools
import random
from dataclasses import replace

import pytest
from test_typings import OURS, case_of, grown, of_example

from distir.analysis import check
from distir.ir import (
    Apply,
    Attributes,
    Function,
    Mesh,
    Module,
    Param,
    PendingAlong,
    Return,
    SplitAlong,
    TensorType,
)
from distir.ir.places import places
from distir.ops import type_of
from distir.ops.splitting import layout
from distir.placement.along import is_host
from distir.transform.mesh import erase, expand
from distir.transform.verification import verify

MESH: Mesh = (("a", 2), ("b", 2))
DRAWN = 1
"""How many plans of an example are drawn with both axes on one dimension, and on two."""
ROUNDING = {"Muon": 1e-2, "Adafactor": 1e-6}
"""Ops that round to fewer bits on the way: by how much sums in another order differ."""
RANDOM_OPERANDS = {"Dispatch"}
"""Ops that refuse operands that are drawn at random."""
WRITTEN_FOR_ONE = ("Adafactor", "Muon", "QuantizeFloat8")
"""Ops whose rules write others for a dimension, and not for two."""


def examples():
    """Ops with operands, attributes and types of results: of examples, each dimension four times as large."""
    for name, op in OURS.items():
        for k, text in enumerate(op.examples):
            args, apply = of_example(text)
            case = case_of(op, grown(grown(args)), apply.attrs, len(apply.results))
            if case is not None:
                yield pytest.param(*case, id=f"{name} {k}")


def plans(op, args, attrs, types):
    """Placements of operands, split along two letters of the op or twice along one, by whether it is one."""
    found = {True: [], False: []}
    main = layout(op, args, types, attrs)
    for one in () if main is None else (main, *main.others):
        letters = sorted({x for own in one.operands for x in own if x is not None})
        for pair in itertools.product(letters, letters):
            for order in (("a", "b"), ("b", "a")):
                cuts = [*zip(pair, order, strict=True)]
                found[pair[0] == pair[1]].append([_cut(one, i, cuts) for i in range(len(args))])
    return found


def _cut(one, index, cuts):
    own = one.operands[index]
    placed = [(own.index(letter), axis) for letter, axis in cuts if letter in own]
    return places(SplitAlong(dim, axis, one.operand_blocks.get((index, dim), ())) for dim, axis in placed)


def statement_of(op, args, attrs, types, plan, body=(), returned=None):
    """A program of the op alone on operands that are placed so, and of what follows it."""
    given = tuple(f"x{i}" if isinstance(a, TensorType) else "_" if a is None else a for i, a in enumerate(args))
    params = tuple(
        Param(f"x{i}", replace(a, places=() if is_host(a) else placed))
        for i, (a, placed) in enumerate(zip(args, plan, strict=True))
        if isinstance(a, TensorType)
    )
    made = tuple(f"y{k}" for k in range(len(types)))
    statements = (Apply(made, op.name, given, attrs), *body, Return(tuple(returned or made)))
    return Module([Function("main", params, statements, mesh=MESH)])


def errors_of(*case):
    """What is wrong with the op on operands that are placed so; that its results are pending is not."""
    return [error for error in check(statement_of(*case)).errors if error.code.number != "DIR426"]


def program(*case):
    """The op on operands that are placed so, with what is pending ended."""
    body, returned = [], []
    for k, v in enumerate(check(statement_of(*case)).states["main"].returned):
        pending = [p for p in getattr(type_of(v), "places", ()) if isinstance(p, PendingAlong)]
        returned.append(f"z{k}" if pending else f"y{k}")
        if pending:
            attrs = Attributes({"axis": tuple(p.axis for p in pending), "op": pending[0].how})
            body.append(Apply((f"z{k}",), "AllReduce", (f"y{k}",), attrs))
    return statement_of(*case, body, returned)


@pytest.mark.parametrize(("op", "args", "attrs", "types"), [*examples()])
def test_what_is_accepted_is_written_and_computes_the_same(op, args, attrs, types):
    rng = random.Random(op.name)
    for each in plans(op, args, attrs, types).values():
        for plan in rng.sample(each, min(len(each), DRAWN)):
            if errors_of(op, args, attrs, types, plan):
                continue
            placed = program(op, args, attrs, types, plan)
            expanded = expand(placed)
            if op.name in RANDOM_OPERANDS:
                continue
            for row in verify(erase(placed), expanded).results:
                assert row.max_abs_error <= row.tolerance + ROUNDING.get(op.name, 0), plan


@pytest.mark.parametrize("name", WRITTEN_FOR_ONE)
def test_an_op_whose_rule_writes_others_for_one_dimension_is_refused_for_two(name):
    cases = [case.values for case in examples() if case.values[0].name == name]
    refused = [errors_of(*case, plan) for case in cases for plan in plans(*case)[False]]
    wanted = f"`{name}` takes parts of one dimension, and is given parts along `a` and `b`"
    assert any(errors and errors[0].message == wanted for errors in refused)
