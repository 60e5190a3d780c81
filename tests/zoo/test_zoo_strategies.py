"""Every family through every strategy: the same results as the sequential program, or a refusal that says why.

A few families by default; all with DISTIR_TEST_ALL (`make zoo`).
"""

import os

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from families import FAMILIES, example

from distir.diagnostics import ProgramError
from distir.importers import import_torch
from distir.transform import tensor_shares, transform, verify

STRATEGIES = {
    "dp": ("dp=2",),
    "tp": ("tp=2",),
    "pp": ("pp=2", "microbatches=2"),
    "dtp": ("dtp=2,2,2", "microbatches=2"),
}

REFUSED: dict[tuple[str, str], str] = {}
"""What does not go yet, with the diagnostic that says so. What goes better is to be taken out."""

MOST = {"lstm": 1, "convnext": 0.67, "vit": 0.6}
"""How much of FLOPs and weights each of two devices has at most, where it is more than is usual.

An LSTM's gates need their whole state at each step. In small models, what lies between a norm and a residual sum is
much: the patches of a vision transformer, the depthwise convolutions of a ConvNeXt.
"""

QUICK = ("llama", "mixtral", "gpt_oss", "vit", "resnet")
CHOSEN = tuple(FAMILIES) if os.environ.get("DISTIR_TEST_ALL") else QUICK


@pytest.mark.parametrize("family", CHOSEN)
def test_a_family_goes_through_every_strategy_or_is_refused(family):
    module, inputs = example(family)
    program = import_torch(module, (), kwargs=inputs, dynamic_batch=True)
    for name, steps in STRATEGIES.items():
        code = REFUSED.get((family, name))
        if code is None:
            assert verify(program, transform(program, *steps), bind={"B": 4}).equal, name
            continue
        with pytest.raises(ProgramError) as caught:
            transform(program, *steps)
        assert [d.code.number for d in caught.value.diagnostics] == [code], name


@pytest.mark.parametrize("family", CHOSEN)
def test_tensor_parallelism_splits_every_family_in_inference_and_training(family):
    module, inputs = example(family)
    forward = import_torch(module, (), kwargs=inputs, dynamic_batch=True)
    training = transform(forward, "grad", "optimizer=adam")
    for program in (forward, training):
        shares = tensor_shares(program, 2)
        assert shares.flops is not None
        assert max(shares.flops, shares.weights) <= MOST.get(family, 0.56), shares.lines
        heavy = [whole for whole in shares.whole if whole.largest >= 0.01]
        assert all(whole.why for whole in heavy)
    assert verify(training, transform(training, "tp=2"), bind={"B": 4}).equal
