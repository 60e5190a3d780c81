"""Products over merged batches and heads come in over both, so that attention can be split by heads."""

from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from onnx_models import FLOAT, assert_agrees, imported, model, node, weight  # noqa: E402

import distir  # noqa: E402
from distir.diagnostics import Severity  # noqa: E402
from distir.ir import Apply  # noqa: E402
from distir.transform import reference, transform, verify  # noqa: E402

nn = torch.nn
HEADS, GROUPS, SIZE = 4, 2, 8


class Attending(nn.Module):
    """Attention of grouped queries, written as `how` says."""

    def __init__(self, how):
        super().__init__()
        self.how, width = how, HEADS * SIZE
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, GROUPS * SIZE, bias=False) for _ in range(2))

    def forward(self, x):
        b, s, width = x.shape
        q, k, v = (f(x).view(b, s, -1, SIZE).transpose(1, 2) for f in (self.q, self.k, self.v))
        if self.how == "expanded":
            k, v = (t[:, :, None].expand(b, GROUPS, 2, s, SIZE).reshape(b, HEADS, s, SIZE) for t in (k, v))
        else:
            k, v = (t.repeat_interleave(HEADS // GROUPS, dim=1) for t in (k, v))
        if self.how == "fused":
            y = nn.functional.scaled_dot_product_attention(q, k, v)
        elif self.how == "merged":
            q, k, v = (t.reshape(b * HEADS, s, SIZE) for t in (q, k, v))
            y = torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) / SIZE**0.5, -1), v).view(b, HEADS, s, SIZE)
        else:
            y = torch.softmax(q @ k.transpose(-1, -2) / SIZE**0.5, -1) @ v
        return self.o(y.transpose(1, 2).reshape(b, s, width))


@cache
def attention(how):
    torch.manual_seed(0)
    module = Attending(how)
    x = torch.randn(4, 6, HEADS * SIZE)
    return module, x, distir.import_torch(module, (x,), dynamic_batch=True)


@pytest.mark.parametrize("how", ["interleaved", "expanded", "fused", "merged"])
def test_attention_is_split_by_heads(how):
    net, x, module = attention(how)
    (y,) = distir.run(module, {**module.weights, "x": x.numpy()}).values()
    np.testing.assert_allclose(y, net(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    split = transform(module, "tp=2")
    entry = split.entry()
    of_weights = {p.name: p.type.shape for p in entry.params if "param" in p.roles}
    assert len(of_weights) == 8
    assert set(of_weights.values()) == {(16, 32), (8, 32), (32, 16)}
    ops = [s.op for s in entry.body if isinstance(s, Apply) and s.op.startswith("MPI")]
    assert ops == ["MPIAllreduce"]


@pytest.mark.each_once
@pytest.mark.parametrize("words", [["tp=2"], ["dp=2"], ["dtp=2,2,1"], ["grad", "dtp=2,2,1"]], ids=" ".join)
@pytest.mark.parametrize("how", ["interleaved", "expanded", "fused", "merged"])
def test_it_gives_the_same_on_several_devices(how, words):
    _, _, module = attention(how)
    made = transform(module, *words)
    assert not [d for d in distir.check(made) if d.severity is Severity.ERROR]
    assert verify(reference(module, words), made, bind={"B": 4}).equal


def chain(*middle, inputs=(), width=5):
    """A model that merges the first two dimensions of `x`, does something, and parts them again."""
    return model(
        [node("Reshape", "x merging", "m"), *middle, node("Reshape", "last parting", "p"), node("Relu", "p", "y")],
        {"x": (FLOAT, [2, 3, 4, width]), **dict(inputs)},
        {"y": (FLOAT, None)},
        {
            "merging": np.array([6, 4, width]),
            "parting": np.array([2, 3, 4, -1]),
            "w": weight(width, 7),
            "mask": weight(1, 4, 1),
        },
    )


@pytest.mark.parametrize(
    ("middle", "kept"),
    [
        ([node("MatMul", "m w", "last")], False),
        ([node("Transpose", "m", "t", perm=[0, 2, 1]), node("MatMul", "m t", "last")], False),
        ([node("Add", "m mask", "a"), node("Softmax", "a", "last", axis=2)], False),
        ([node("Softmax", "m", "last", axis=0)], True),
        ([node("Transpose", "m", "t", perm=[1, 0, 2]), node("Transpose", "t", "last", perm=[1, 0, 2])], True),
    ],
    ids=["a matrix", "two batches", "broadcast", "along the merged one", "moved"],
)
def test_what_acts_on_the_last_dimensions_needs_no_merging(tmp_path, middle, kept):
    proto = chain(*middle)
    module = imported(tmp_path, proto)
    assert_agrees(module, proto, {"x": weight(2, 3, 4, 5, seed=3)})
    assert ("Reshape" in [s.op for f in module for s in f.body if isinstance(s, Apply)]) == kept
