"""Runs of statements as functions: calls mean what the runs meant, whatever values the runs have in common."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distir
from distir.analysis import random_inputs
from distir.importers.outlining import repeats_outlined
from distir.ir import Module
from distir.transform import transform

PARAMS = ("w", "a", "b")


def unrolled(rows):
    """A program of equal runs, each of which adds two of its parameters, or of what the one before it gave."""
    body, last = [], "w"
    for i, (first, second) in enumerate(rows):
        first, second = (last if name == "last" else name for name in (first, second))
        body += [f"%p{i} = MatMul(%{last}, %w)", f"%q{i} = Relu(%p{i})", f"%r{i} = Add(%{first}, %{second})"]
        body += [f"%s{i} = Tanh(%r{i})", f"%t{i} = Mul(%q{i}, %s{i})", f"%u{i} = Sigmoid(%t{i})"]
        last = f"u{i}"
    params = ", ".join(f"%{name}: Tensor[Float64, (2, 2), 1]" for name in PARAMS)
    return distir.parse("\n".join([f"func @main({params}) {{", *body, f"return %{last}", "}"]))


def by_the_step(module):
    return transform(module, "outline")


def by_the_importers(module):
    blocks, main = repeats_outlined(module.entry())
    return Module((*blocks, main))


@pytest.mark.parametrize("outlined", [by_the_step, by_the_importers])
@given(rows=st.lists(st.tuples(*[st.sampled_from([*PARAMS, "last"])] * 2), min_size=3, max_size=4))
def test_calls_mean_what_the_runs_meant(outlined, rows):
    module = unrolled(rows)
    found = outlined(module)
    assert len(found.functions) > 1
    inputs = random_inputs(module, 0, {})
    ours, theirs = (distir.run(program, inputs).values() for program in (found, module))
    np.testing.assert_array_equal(*map(list, (ours, theirs)))
