"""What the tests of sharding share: running a module before and after, and programs to split."""

from pathlib import Path

import numpy as np

import distir
from distir.analysis import execute, random_inputs
from distir.diagnostics import Severity
from distir.models import gpt2

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def flat(value):
    """The arrays of a value, tuples opened."""
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, tuple) else [value]


def run(module, values, function):
    return [output.value for output in execute(module, values, function)]


def mlp_with_tuples():
    """The training step of the paper's perceptron, small, in Float64."""
    text = (EXAMPLES / "mlp_sequential.dir").read_text().replace("Float32", "Float64")
    return distir.parse(text.replace("16384", "16").replace("1024", "8"))


def pipelined_mlp():
    """The paper's pipeline over two devices, small, in Float64."""
    text = (EXAMPLES / "mlp_pipeline.dir").read_text().replace("Float32", "Float64")
    return distir.parse(text.replace("16384", "16").replace("8192", "8").replace("1024", "8"))


def small_gpt2(layers=2, **sizes):
    return gpt2(layers, 12, 4, 5, batch=4, dtype="Float64", **{"vocabulary": 12, "positions": 7, **sizes})


def assert_same(module, distributed, seed=0, tolerance=1e-10):
    """gather(main(scatter(x))) = sequential(x); and the distributed module checks and reads back as itself."""
    problems = [d for d in distir.check(distributed) if d.severity is Severity.ERROR]
    assert not problems, f"{problems}\n{distir.format(distributed)}"
    assert distir.parse(distir.format(distributed)) == distributed
    entry = module.entry().name
    first = module.functions.get(f"{entry}.scatter", module.functions[entry])
    inputs = list(random_inputs(module, seed, {}, first.name).values())
    expected = run_through(module, inputs, entry)
    found = run_through(distributed, inputs, entry)
    assert len(expected) == len(found)
    for old, new in zip(expected, found, strict=True):
        for a, b in zip(flat(old), flat(new), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


def run_through(module, values, entry):
    """The sequential results of sequential inputs, through `.scatter` and `.gather` where the module has them."""
    if f"{entry}.scatter" in module.functions:
        values = run(module, values, f"{entry}.scatter")
    values = run(module, values, entry)
    if f"{entry}.gather" in module.functions:
        values = run(module, values, f"{entry}.gather")
    return values


def statements(module, op, function=None):
    """All applications of an op, in one function or in all but `.scatter` and `.gather`."""
    chosen = [f for f in module if function in (None, f.name) and not f.name.endswith((".scatter", ".gather"))]
    return [s for f in chosen for s in f.body if getattr(s, "op", None) == op]


LLAMA = """
func @block(
  %x: Tensor[Float64, (B, 6, 16)],
  %cos: Tensor[Float64, (6, 2)], %sin: Tensor[Float64, (6, 2)],
  %n1: Tensor[Float64, (16,)], %wq: Tensor[Float64, (16, 32)],
  %wk: Tensor[Float64, (16, 16)], %wv: Tensor[Float64, (16, 16)], %wo: Tensor[Float64, (32, 16)],
  %n2: Tensor[Float64, (16,)], %wg: Tensor[Float64, (16, 24)], %wu: Tensor[Float64, (16, 24)],
  %wd: Tensor[Float64, (24, 16)]
) {
  %shape = Shape[end = 1](%x)
  %full = Concat[axis = 0](%shape, [6, 2])
  %cosines = Expand(%cos, %full)
  %sines = Expand(%sin, %full)
  %normal = RMSNormalization(%x, %n1)
  %q = MatMul(%normal, %wq)
  %k = MatMul(%normal, %wk)
  %v = MatMul(%normal, %wv)
  %qs = Reshape(%q, [0, 6, 8, 4])
  %ks = Reshape(%k, [0, 6, 4, 4])
  %vs = Reshape(%v, [0, 6, 4, 4])
  %qh = Transpose[perm = [0, 2, 1, 3]](%qs)
  %kh = Transpose[perm = [0, 2, 1, 3]](%ks)
  %vh = Transpose[perm = [0, 2, 1, 3]](%vs)
  %qr = RotaryEmbedding(%qh, %cosines, %sines)
  %kr = RotaryEmbedding(%kh, %cosines, %sines)
  %qg = Reshape(%qr, [0, 4, 2, 6, 4])
  %ku = Unsqueeze(%kr, [2])
  %vu = Unsqueeze(%vh, [2])
  %kt = Transpose[perm = [0, 1, 2, 4, 3]](%ku)
  %scores = MatMul(%qg, %kt)
  %scaled = Mul(%scores, 0.5)
  %shares = Softmax(%scaled)
  %mixed = MatMul(%shares, %vu)
  %heads = Reshape(%mixed, [0, 8, 6, 4])
  %tokens = Transpose[perm = [0, 2, 1, 3]](%heads)
  %joined = Reshape(%tokens, [0, 6, 32])
  %out = MatMul(%joined, %wo)
  %y = Add(%x, %out)
  %normal2 = RMSNormalization(%y, %n2)
  %gate = MatMul(%normal2, %wg)
  %up = MatMul(%normal2, %wu)
  %active = Swish(%gate)
  %inner = Mul(%active, %up)
  %down = MatMul(%inner, %wd)
  %z = Add(%y, %down)
  return %z
}

func @main(
  %table: Tensor[Float64, (40, 16), 1] {param},
  PARAMS
  %nf: Tensor[Float64, (16,), 1] {param},
  %head: Tensor[Float64, (16, 40), 1] {param},
  %cos: Tensor[Float64, (6, 2), 1], %sin: Tensor[Float64, (6, 2), 1],
  %ids: Tensor[Int64, (8, 6), 1] {batch = 0}
) {
  %x0 = Gather[axis = 0](%table, %ids)
  CALLS
  %hidden = RMSNormalization(%x2, %nf)
  %logits = MatMul(%hidden, %head)
  return %logits
}
"""
"""A gated block with grouped queries, written with sizes in every reshape, and embeddings that are not tied."""

_LLAMA_WEIGHTS = {
    "n1": "(16,)", "wq": "(16, 32)", "wk": "(16, 16)", "wv": "(16, 16)", "wo": "(32, 16)",
    "n2": "(16,)", "wg": "(16, 24)", "wu": "(16, 24)", "wd": "(24, 16)",
}  # fmt: skip


def llama():
    """Two of the blocks above."""
    params = "\n".join(
        f"%{n}_{i}: Tensor[Float64, {s}, 1] {{param}}," for i in (1, 2) for n, s in _LLAMA_WEIGHTS.items()
    )
    calls = "\n".join(
        f"%x{i} = @block(%x{i - 1}, %cos, %sin, {', '.join(f'%{n}_{i}' for n in _LLAMA_WEIGHTS)})" for i in (1, 2)
    )
    return distir.parse(LLAMA.replace("PARAMS", params).replace("CALLS", calls))


VIT = """
func @main(
  %patch: Tensor[Float64, (12, 8), 1] {param}, %place: Tensor[Float64, (5, 8), 1] {param},
  %class: Tensor[Float64, (1, 1, 8), 1] {param},
  %s: Tensor[Float64, (8,), 1] {param}, %t: Tensor[Float64, (8,), 1] {param},
  %wqkv: Tensor[Float64, (8, 24), 1] {param}, %bqkv: Tensor[Float64, (24,), 1] {param},
  %wo: Tensor[Float64, (8, 8), 1] {param}, %bo: Tensor[Float64, (8,), 1] {param},
  %w1: Tensor[Float64, (8, 12), 1] {param}, %b1: Tensor[Float64, (12,), 1] {param},
  %w2: Tensor[Float64, (12, 8), 1] {param}, %b2: Tensor[Float64, (8,), 1] {param},
  %head: Tensor[Float64, (8, 6), 1] {param},
  %image: Tensor[Float64, (8, 3, 4, 4), 1] {batch = 0}
) {
  %rows = Reshape(%image, [8, 3, 2, 2, 2, 2])
  %patches = Transpose[perm = [0, 2, 4, 3, 5, 1]](%rows)
  %flat = Reshape(%patches, [8, 4, 12])
  %embedded = MatMul(%flat, %patch)
  %classes = Expand(%class, [8, 1, 8])
  %tokens = Concat[axis = 1](%classes, %embedded)
  %x = Add(%tokens, %place)
  %normal = LayerNormalization(%x, %s, %t)
  %qkv_0 = MatMul(%normal, %wqkv)
  %qkv = Add(%qkv_0, %bqkv)
  %split = Reshape(%qkv, [8, 5, 3, 2, 4])
  %turned = Transpose[perm = [2, 0, 3, 1, 4]](%split)
  %q = Gather[axis = 0](%turned, 0)
  %k = Gather[axis = 0](%turned, 1)
  %v = Gather[axis = 0](%turned, 2)
  %kt = Transpose[perm = [0, 1, 3, 2]](%k)
  %scores = MatMul(%q, %kt)
  %shares = Softmax(%scores)
  %mixed = MatMul(%shares, %v)
  %back = Transpose[perm = [0, 2, 1, 3]](%mixed)
  %joined = Reshape(%back, [8, 5, 8])
  %out_0 = MatMul(%joined, %wo)
  %out = Add(%out_0, %bo)
  %y = Add(%x, %out)
  %normal_2 = LayerNormalization(%y, %s, %t)
  %h_0 = MatMul(%normal_2, %w1)
  %h_1 = Add(%h_0, %b1)
  %h_2 = Gelu(%h_1)
  %h_3 = MatMul(%h_2, %w2)
  %h_4 = Add(%h_3, %b2)
  %z = Add(%y, %h_4)
  %pooled = ReduceMean[keepdims = false](%z, [1])
  %logits = MatMul(%pooled, %head)
  return %logits
}
"""
"""A vision transformer's block in one function, with the batch written into every shape."""
