"""Training steps of imported models: the loss, and the gradient of every parameter, are PyTorch's own."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxscript")

from families import FAMILIES, example  # noqa: E402

import distir  # noqa: E402
from distir.analysis import execute  # noqa: E402
from distir.importers import import_torch  # noqa: E402

F = torch.nn.functional


def first_result(module, inputs):
    found = module(**inputs)
    return found if isinstance(found, torch.Tensor) else found[0]


def torch_loss(y, classes):
    """The mean loss with a target that is drawn, and the target."""
    generator = torch.Generator().manual_seed(1)
    if classes:
        target = torch.randint(0, y.shape[-1], y.shape[:-1], generator=generator)
        return F.cross_entropy(y.flatten(0, -2), target.flatten()), target
    target = torch.randn(y.shape, generator=generator, dtype=y.dtype)
    return F.mse_loss(y, target), target


def names_of(module, parameter):
    """All names of a parameter: several where weights are tied, of which a program has one."""
    return {name for name, held in module.named_parameters(remove_duplicate=False) if held is parameter}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_training_step_has_the_loss_and_the_gradients_of_torch(name):
    """To Float32's digits; what is zero but for rounding is so beside the greatest gradient of all."""
    module, inputs = example(name)
    forward = import_torch(module, kwargs=inputs, dynamic_batch=True)
    step = distir.transform(forward, "grad", optimizer="none")
    assert not [d for d in distir.check(step) if d.severity == "error"]
    (target_type,) = (p.type for p in step.entry().params if p.name == "target")
    loss, target = torch_loss(first_result(module, inputs), classes=target_type.dtype.kind == "int")
    loss.backward()
    given = {key: value.numpy() for key, value in {**inputs, "target": target}.items()}
    found, *gradients = (output.value for output in execute(step, {**forward.weights, **given}))
    np.testing.assert_allclose(found, loss.item(), rtol=2e-6)
    trained = [p.name for p in forward.entry().params if "param" in p.roles and "frozen" not in p.roles]
    by_name = dict(zip(trained, gradients, strict=True))
    wanted = [(names_of(module, p), p.grad.numpy()) for p in module.parameters() if p.grad is not None]
    greatest = max(np.abs(gradient).max() for _, gradient in wanted)
    for names, gradient in wanted:
        (name,) = names & by_name.keys()
        tolerance = 1e-5 * np.abs(gradient).max() + 1e-7 * greatest
        np.testing.assert_allclose(by_name[name], gradient, rtol=0, atol=tolerance, err_msg=name)
