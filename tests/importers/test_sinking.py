"""What depends on the batch's size alone is computed once, or broadcast: so the batch can be cut into microbatches."""

from functools import cache
from itertools import product

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from onnx_models import FLOAT, assert_agrees, imported, model, node  # noqa: E402

import distir  # noqa: E402
from distir.ir import Apply  # noqa: E402
from distir.transform import reference, transform, verify  # noqa: E402

nn = torch.nn
LENGTH, WIDTH = 6, 8


def counting(size, *axes):
    """0, 1, … along one of as many dimensions."""
    return torch.arange(size)[tuple(slice(None) if here else None for here in axes)]


def mask_by_indices(x, ids):
    b = ids.shape[0]
    seen = (ids > 3)[counting(b, 1, 0, 0), counting(LENGTH, 0, 0, 1)]
    return x * (seen & counting(LENGTH, 0, 1, 0).le(counting(LENGTH, 0, 0, 1))).any(1)[..., None]


def turned(x, ids):
    return x + ids[counting(ids.shape[0], 0, 1), counting(LENGTH, 1, 0).flip(0)].T[..., None]


def one_column(x, ids):
    return x + ids[torch.arange(ids.shape[0]), 2][:, None, None]


def picked_by_data(x, ids):
    return x[torch.arange(ids.shape[0]), ids.argmax(-1)][:, None] + x


def element_picked_by_data(x, ids):
    return x + ids[torch.arange(ids.shape[0]), ids.argmin(-1)][:, None, None]


def repeated_positions(x, ids):
    return x + torch.sin(torch.arange(LENGTH).repeat(ids.shape[0], 1) / 3.0)[..., None]


def expanded_positions(x, ids):
    positions = torch.arange(LENGTH).expand(ids.shape[0], LENGTH)
    near = (positions[:, :, None] - positions[:, None, :]).abs().view(-1, LENGTH, LENGTH)
    return (1.0 / (1 + near)) @ x


def states(x, ids):
    state = torch.zeros(ids.shape[0], WIDTH)
    steps = []
    for i in range(LENGTH):
        state = torch.tanh(state + x[:, i])
        steps.append(state)
    return torch.stack(steps, 1)


def buffer_that_is_written(x, ids):
    made = x.new_ones(ids.shape[0], LENGTH, 2 * WIDTH)
    made[:, :, :WIDTH] = x
    made[:, :, WIDTH:] = x[:, :1]
    return made[..., :WIDTH] + made[..., WIDTH:]


def everyone_is_seen(x, ids):
    seen = torch.ones(ids.shape[0], LENGTH, dtype=torch.bool)[:, None, :].expand(-1, LENGTH, LENGTH)
    return torch.where(seen, 0.25, -1.0) @ x


PATTERNS = {
    f.__name__: f
    for f in (
        *(mask_by_indices, turned, one_column, picked_by_data, element_picked_by_data, repeated_positions),
        *(expanded_positions, states, buffer_that_is_written, everyone_is_seen),
    )
}
ALONE = {"repeated_positions", "expanded_positions", "states", "buffer_that_is_written", "everyone_is_seen"}
"""Patterns in which the batch's size is all that is asked of `ids`."""


class Between(nn.Module):
    """A product, a pattern, and a product."""

    def __init__(self, pattern):
        super().__init__()
        self.pattern = pattern
        self.embedding, self.up, self.down = nn.Embedding(16, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, ids):
        return self.down(self.pattern(torch.tanh(self.up(self.embedding(ids))), ids))


@cache
def exported(name):
    torch.manual_seed(0)
    net = Between(PATTERNS[name]).eval()
    return net, distir.import_torch(net, (torch.randint(0, 16, (4, LENGTH)),), dynamic_batch=True)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_computes_what_torch_does_for_any_batch(name):
    net, module = exported(name)
    ids = torch.randint(0, 16, (5, LENGTH))
    (found,) = distir.run(module, {**module.weights, "ids": ids.numpy()}).values()
    np.testing.assert_allclose(found, net(ids).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.each_once
@pytest.mark.parametrize("words", [["pp=2"], ["dtp=2,2,2"], ["grad", "pp=2"], ["grad", "dtp=2,2,2"]], ids=" ".join)
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_goes_through_pipelines(name, words):
    _, module = exported(name)
    made = transform(module, *words, "microbatches=2")
    assert verify(reference(module, words), made, bind={"B": 8}).equal


@pytest.mark.parametrize("name", sorted(ALONE - {"buffer_that_is_written"}))
def test_nothing_is_as_large_as_the_batch_that_is_no_part_of_it(name):
    """The batch's size is not even asked for."""
    _, module = exported(name)
    assert not [s for f in module for s in f.body if isinstance(s, Apply) and s.op in ("Shape", "Range", "GatherND")]


def grid(kind, axis, size):
    """Nodes for indices of the shape (B, 5, 1): along an axis, or one number."""
    name = f"{kind}{axis}{size}"
    if kind == "number":
        return [node("Constant", "", f"{name}.one", value_ints=[3]), node("Reshape", f"{name}.one ones", f"{name}.at")]
    shape = "first" if axis == 0 else "second"
    count = "B" if size == "B" else "five"
    found = [node("Range", f"zero {count} one", f"{name}.count")]
    if kind == "back":
        found = [node("Range", "four minus minus", f"{name}.count")]
    return [*found, node("Reshape", f"{name}.count {shape}", f"{name}.at")]


KINDS = [("count", 0, "B"), ("count", 1, 5), ("back", 1, 5), ("number", 0, 0)]


@pytest.mark.parametrize(("first", "second"), list(product(KINDS, repeat=2)))
@pytest.mark.parametrize("data", ["batched", "plain"])
def test_elements_picked_by_a_grid_of_indices_are_what_onnx_says(tmp_path, first, second, data):
    """Whatever the indices count through, and wherever they stand."""
    sizes = {"zero": 0, "one": 1, "minus": -1, "four": 4, "five": 5}
    constants = {name: np.array(value, np.int64) for name, value in sizes.items()}
    vectors = {"first": [-1, 1, 1], "second": [1, -1, 1], "ones": [1, 1, 1], "tail": [5, 1], "axis": [0]}
    constants |= {name: np.array(value, np.int64) for name, value in vectors.items()}
    nodes = [
        node("Shape", "x", "size", start=0, end=1),
        node("Squeeze", "size axis", "B"),
        node("Concat", "size tail", "whole", axis=0),
    ]
    for i, kind in enumerate((first, second)):
        made = grid(*kind)
        for n in made:
            n.output[:] = [f"{i}.{name}" for name in n.output]
            n.input[:] = [f"{i}.{name}" if "." in name else name for name in n.input]
        nodes += [*made, node("Expand", f"{made[-1].output[0]} whole", f"{i}.grid")]
    picked = "x" if data == "batched" else "w"
    nodes += [node("Concat", "0.grid 1.grid", "grid", axis=-1), node("GatherND", [picked, "grid"], "y")]
    constants["w"] = np.random.default_rng(0).normal(size=(6, 7, 2)).astype(np.float32)
    proto = model(nodes, {"x": (FLOAT, ["B", 5, 2])}, {"y": (FLOAT, None)}, constants)
    module = imported(tmp_path, proto)
    if data == "batched" and first == KINDS[0] != second:
        assert not [s for s in module.entry().body if isinstance(s, Apply) and s.op == "Range"]
    x = np.random.default_rng(1).normal(size=(5, 5, 2)).astype(np.float32)
    assert_agrees(module, proto, {"x": x})
