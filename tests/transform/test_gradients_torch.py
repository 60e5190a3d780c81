"""Every op's gradient is the one that PyTorch's automatic differentiation finds of its form in torch."""

import numpy as np
import pytest
from gradient_samples import MORE, is_float, prepared, rule_gradients
from lowering_samples import DEVICE, entry, lowered_program, one_op

from distir.ops import OPS
from distir.ops.backward import NotDifferentiable

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # threads that wait for each other cost more than small tensors do

OURS = [op for op in OPS.values() if op.body.__module__.startswith("distir.") and "grad" in op.rules]
TEXTS = [
    text.replace("Float32", "Float64")
    for text in [*(text for op in OURS if not op.communication for text in op.examples), *MORE]
    if "MPI" not in text and "Send" not in text and "%v: Float64" not in text  # what is padded with is written down
]

FLAT = ("ArgMax", "ArgMin", "EyeLike")
"""Ops through which nothing flows: their results are positions, or no numbers of their operand."""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """One program with an entry for each text."""
    return lowered_program([entry(one_op(text), text) for text in TEXTS], tmp_path_factory.mktemp("gradients"))


@pytest.mark.parametrize("text", TEXTS)
def test_torch_finds_the_same_gradient(program, text):
    params, statement, values, dys = prepared(text)
    if not dys or not any(is_float(p.type) for p in params):
        pytest.skip("nothing here is a number to be moved a little")
    try:
        found = rule_gradients(params, statement, values, dys)
    except NotDifferentiable:
        pytest.skip("a use without a gradient, which test_gradient_rules names")
    inputs = {p.name: tensors(values[p.name]) for p in params}
    results = dict(zip(statement.results, program.call(text, list(inputs.values())), strict=True))
    ways = [(y, dy) for name in dys for y, dy in zip(leaves(results[name]), leaves(dys[name]), strict=True)]
    ways = [(y, torch.tensor(np.asarray(dy), device=DEVICE)) for y, dy in ways if y.requires_grad]
    assert ways or statement.op in FLAT
    torch.autograd.backward([y for y, _ in ways], [dy for _, dy in ways])
    for name, given in inputs.items():
        expected = [gradient_of(x) for x in leaves(given) if x.requires_grad]
        gradients = [np.zeros(x.shape) for x in expected] if found.get(name) is None else leaves(found[name])
        for gradient, x in zip(gradients, expected, strict=bool(expected)):
            np.testing.assert_allclose(gradient, x, rtol=1e-9, atol=1e-11)


def tensors(value):
    if isinstance(value, tuple):
        return tuple(map(tensors, value))
    return torch.tensor(value, device=DEVICE, requires_grad=value.dtype.kind == "f")


def leaves(value):
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple) else [value]


def gradient_of(x):
    return np.zeros(x.shape) if x.grad is None else x.grad.cpu().numpy()
