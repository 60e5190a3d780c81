"""Modules that cannot come in: said in one line, with the place in the user's Python and what to do."""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import distir  # noqa: E402
from distir.importers import ImportRefused  # noqa: E402

nn = torch.nn


class Of(nn.Module):
    """A module that does what a function says."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Sum(nn.Module):
    def forward(self, x, y):
        return x + y


def branching(x):
    return x if x.sum() > 0 else -x


def halving(x):
    while x.abs().max() > 1:
        x = x / 2
    return x


def counting(x):
    return x[: int(x.sum().item())]


def raising(x):
    raise ValueError("no such thing")


X = torch.ones(3, 4)


@pytest.mark.parametrize("function", [branching, halving, counting, raising], ids=lambda f: f.__name__)
def test_the_module_and_the_line_are_named(function, capfd):
    with pytest.raises(ImportRefused) as caught:
        distir.import_torch(nn.Sequential(nn.Linear(4, 4), Of(function)), (X,))
    assert "`1`, a Of" in caught.value.message
    assert f"{os.path.basename(__file__)}, line {function.__code__.co_firstlineno + 1}" in caught.value.message
    assert caught.value.help
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""  # PyTorch prints its graph


@pytest.mark.parametrize(
    ("net", "inputs", "given", "said"),
    [
        (Sum(), (X,), {}, "`Sum` needs `y`, which is not given"),
        (Sum(), (X, X, X), {}, "`Sum` takes 2 inputs, 3 are given; it takes x, y"),
        (Sum(), (X,), {"z": X}, "`Sum` takes no input `z`; it takes x, y"),
        (Of(abs), (np.ones(3),), {}, "`torch.from_numpy`"),
        (Of(abs), (torch.complex(X, X),), {}, "complex elements"),
        (Of(lambda x: torch.complex(x, x)), (X,), {}, "complex elements"),
        (Of(lambda x: None), (X,), {}, "to be tensors, found none"),
        (Of(lambda x: {"a": x, "b": "text"}), (X,), {}, "to be tensors, found 'text'"),
        (nn.Linear(4, 4), (X.double(),), {}, "element types"),
        (nn.Embedding(9, 4), (X,), {}, "indices"),
    ],
)
def test_what_is_wrong_with_inputs_and_results(net, inputs, given, said):
    for dynamic in (False, True):
        with pytest.raises(ImportRefused) as caught:
            distir.import_torch(net, inputs, kwargs=given, dynamic_batch=dynamic)
        assert said in str(caught.value)
        assert caught.value.help


def test_inputs_by_name():
    module = distir.import_torch(Sum(), kwargs={"x": X, "y": X}, dynamic_batch=True)
    (found,) = distir.run(module, {"x": X.numpy(), "y": X.numpy()}).values()
    np.testing.assert_array_equal(found, 2 * X)


def test_inputs_that_have_no_parameter_of_their_own():
    class Rest(nn.Module):
        def forward(self, x, **others):
            return x + others["y"]

    module = distir.import_torch(Rest(), kwargs={"x": X, "y": X}, dynamic_batch=True)
    (found,) = distir.run(module, {"x": X.numpy(), "y": X.numpy()}).values()
    np.testing.assert_array_equal(found, 2 * X)


def test_a_module_that_counts_the_batch_has_its_size_freed():
    class Fixed(nn.Module):
        def forward(self, x):
            return x.reshape(int(x.shape[0]) * 2 if x.shape[0] == 3 else 0, 2)

    module = distir.import_torch(Fixed(), (X,), dynamic_batch=True)
    (found,) = distir.run(module, {"x": np.ones((5, 4), np.float32)}).values()
    assert found.shape == (10, 2)
