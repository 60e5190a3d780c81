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


class Changing(nn.Module):
    def forward(self, x):
        return x.add_(1)


class ChangingView(nn.Module):
    def forward(self, x):
        x.view(-1)[2:3].mul_(2); return x * 1  # fmt: skip  # noqa: E702


class ChangingCopy(nn.Module):
    def forward(self, x):
        y = x.to(torch.float64)
        y[1:].mul_(2)
        return y


class Doubled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        return x.double() @ self.weight


def line_of(cls):
    return f"{os.path.basename(__file__)}, line {cls.forward.__code__.co_firstlineno + 1}: `"


@pytest.mark.parametrize("cls", [Changing, ChangingView])
def test_an_input_that_is_changed_in_place(cls):
    with pytest.raises(ImportRefused) as caught:
        distir.import_torch(nn.Sequential(nn.Identity(), cls()), (X,))
    assert f"`Sequential` changes its input `input` in place (in `1`, a {cls.__name__}; " in caught.value.message
    assert line_of(cls) in caught.value.message
    assert "`input.clone()`" in caught.value.help
    np.testing.assert_array_equal(X, 1)


def test_a_training_step_that_changes_its_input():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

        def forward(self, x):
            x += 1
            return self.norm(self.linear(x)).square().sum()

    with pytest.raises(ImportRefused, match="`Net` changes its input `x` in place"):
        distir.import_torch(Net(), (X.clone(),), training=True)


def test_a_copy_may_be_changed():
    module = distir.import_torch(ChangingCopy(), (X,))
    (found,) = distir.run(module, {"x": X.numpy()}).values()
    np.testing.assert_array_equal(found, [[1] * 4, [2] * 4, [2] * 4])


def test_a_wrong_element_type_is_reported_by_the_line_of_python():
    with pytest.raises(ImportRefused) as caught:
        distir.import_torch(nn.Sequential(nn.Identity(), Doubled()), (X,))
    assert "different element types" in caught.value.message
    assert f"{line_of(Doubled)}return x.double() @ self.weight`" in caught.value.message
    assert "in `1`, a Doubled" in caught.value.message


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
