"""What tensor parallelism splits within a layer, of any family: channels, inner widths, experts, heads.

Each program is small, and what it is made of is what importers give for models of its kind.
"""

import pytest

import distir
from distir.analysis import check
from distir.diagnostics import Severity
from distir.transform import tensor_shares, transform, verify

CONVOLUTIONS = """func @main(
  %x: Tensor[Float64, (B, 3, 6, 6), 1] {batch = 0},
  %w1: Tensor[Float64, (8, 3, 3, 3), 1] {param}, %b1: Tensor[Float64, (8,), 1] {param},
  %scale: Tensor[Float64, (8,), 1] {param}, %shift: Tensor[Float64, (8,), 1] {param},
  %w2: Tensor[Float64, (3, 8, 3, 3), 1] {param}, %b2: Tensor[Float64, (3,), 1] {param}
) {
  %a = Conv[pads = [1, 1, 1, 1], kernel_shape = [3, 3]](%x, %w1, %b1)
  %n = GroupNormalization[num_groups = 4](%a, %scale, %shift)
  %r = Relu(%n)
  %p = MaxPool[kernel_shape = [2, 2], strides = [2, 2]](%r)
  %u = Resize[mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"](%p, _, [1.0, 1.0, 2.0, 2.0])
  %y = Conv[pads = [1, 1, 1, 1], kernel_shape = [3, 3]](%u, %w2, %b2)
  return %y
}
"""  # noqa: E501 - a program's statements are lines

DEPTHWISE = """func @main(
  %x: Tensor[Float64, (B, 3, 6, 6), 1] {batch = 0},
  %w1: Tensor[Float64, (8, 3, 1, 1), 1] {param},
  %w2: Tensor[Float64, (8, 1, 3, 3), 1] {param}, %b2: Tensor[Float64, (8,), 1] {param},
  %s: Tensor[Float64, (8,), 1] {param}, %b: Tensor[Float64, (8,), 1] {param},
  %mean: Tensor[Float64, (8,), 1] {buffer}, %variance: Tensor[Float64, (8,), 1] {buffer},
  %w3: Tensor[Float64, (3, 8, 1, 1), 1] {param}
) {
  %wide = Conv[kernel_shape = [1, 1]](%x, %w1)
  %each = Conv[group = 8, pads = [1, 1, 1, 1], kernel_shape = [3, 3]](%wide, %w2, %b2)
  %positive = Abs(%variance)
  %n = BatchNormalization(%each, %s, %b, %mean, %positive)
  %c = Clip(%n, 0.0, 6.0)
  %y = Conv[kernel_shape = [1, 1]](%c, %w3)
  return %y
}
"""

GROUPS = """func @main(
  %x: Tensor[Float64, (B, 3, 6), 1] {batch = 0},
  %w1: Tensor[Float64, (8, 3, 1), 1] {param},
  %w2: Tensor[Float64, (12, 2, 3), 1] {param}, %b2: Tensor[Float64, (12,), 1] {param},
  %w3: Tensor[Float64, (12, 3, 2), 1] {param}
) {
  %wide = Conv[kernel_shape = [1]](%x, %w1)
  %grouped = Conv[group = 4, pads = [1, 1], kernel_shape = [3]](%wide, %w2, %b2)
  %r = Relu(%grouped)
  %y = ConvTranspose[strides = [2], kernel_shape = [2]](%r, %w3)
  return %y
}
"""

UPWARDS = """func @main(
  %x: Tensor[Float64, (B, 3, 4), 1] {batch = 0},
  %w1: Tensor[Float64, (3, 8, 2), 1] {param}, %b1: Tensor[Float64, (8,), 1] {param},
  %w2: Tensor[Float64, (8, 2, 2), 1] {param}, %b2: Tensor[Float64, (8,), 1] {param},
  %w3: Tensor[Float64, (8, 3, 2), 1] {param}, %b3: Tensor[Float64, (3,), 1] {param}
) {
  %up = ConvTranspose[strides = [2], kernel_shape = [2]](%x, %w1, %b1)
  %further = ConvTranspose[group = 4, strides = [2], kernel_shape = [2]](%up, %w2, %b2)
  %t = Tanh(%further)
  %y = ConvTranspose[kernel_shape = [2]](%t, %w3, %b3)
  return %y
}
"""

SKIPPED = """func @main(
  %x: Tensor[Float64, (B, 3, 4, 4), 1] {batch = 0},
  %w1: Tensor[Float64, (8, 3, 1, 1), 1] {param}, %w2: Tensor[Float64, (4, 3, 3, 3), 1] {param},
  %w3: Tensor[Float64, (3, 12, 1, 1), 1] {param}
) {
  %a = Conv[kernel_shape = [1, 1]](%x, %w1)
  %b = Conv[pads = [1, 1, 1, 1], kernel_shape = [3, 3]](%x, %w2)
  %joined = Concat[axis = 1](%a, %b)
  %s = Sigmoid(%joined)
  %y = Conv[kernel_shape = [1, 1]](%s, %w3)
  return %y
}
"""

MERGED = """func @main(
  %x: Tensor[Float64, (B, 6, 16), 1] {batch = 0},
  %wq: Tensor[Float64, (16, 16), 1] {param}, %wo: Tensor[Float64, (16, 16), 1] {param}
) {
  %q = MatMul(%x, %wq)
  %q4 = Reshape(%q, [0, 0, 4, 4])
  %qt = Transpose[perm = [0, 2, 1, 3]](%q4)
  %m = Reshape(%qt, [-1, 6, 4])
  %mt = Transpose[perm = [0, 2, 1]](%m)
  %s = MatMul(%m, %mt)
  %p = Softmax[axis = -1](%s)
  %a = MatMul(%p, %m)
  %a4 = Reshape(%a, [-1, 4, 6, 4])
  %at = Transpose[perm = [0, 2, 1, 3]](%a4)
  %h = Reshape(%at, [0, 0, 16])
  %y = MatMul(%h, %wo)
  return %y
}
"""

SEQUENCE_FIRST = """func @main(
  %x: Tensor[Float64, (6, B, 16), 1] {batch = 1},
  %wq: Tensor[Float64, (16, 16), 1] {param}, %wk: Tensor[Float64, (16, 16), 1] {param},
  %wo: Tensor[Float64, (16, 16), 1] {param}, %bias: Tensor[Float64, (4, 6, 6), 1] {param}
) {
  %q = MatMul(%x, %wq)
  %q3 = Reshape(%q, [6, -1, 4])
  %qt = Transpose[perm = [1, 0, 2]](%q3)
  %k = MatMul(%x, %wk)
  %k3 = Reshape(%k, [6, -1, 4])
  %kt = Transpose[perm = [1, 2, 0]](%k3)
  %s = MatMul(%qt, %kt)
  %s4 = Reshape(%s, [-1, 4, 6, 6])
  %biased = Add(%s4, %bias)
  %p = Softmax[axis = -1](%biased)
  %p3 = Reshape(%p, [-1, 6, 6])
  %a = MatMul(%p3, %qt)
  %at = Transpose[perm = [1, 0, 2]](%a)
  %h = Reshape(%at, [6, -1, 16])
  %y = MatMul(%h, %wo)
  return %y
}
"""

ONE_KEY_HEAD = """func @main(
  %x: Tensor[Float64, (B, 6, 16), 1] {batch = 0},
  %wqkv: Tensor[Float64, (16, 24), 1] {param}, %b: Tensor[Float64, (24,), 1] {param},
  %wo: Tensor[Float64, (16, 16), 1] {param}
) {
  %product = MatMul(%x, %wqkv)
  %qkv = Add(%product, %b)
  %q, %k, %v = Split[axis = 2](%qkv, [16, 4, 4])
  %q4 = Reshape(%q, [0, 0, 4, 4])
  %qt = Transpose[perm = [0, 2, 1, 3]](%q4)
  %k4 = Unsqueeze(%k, [1])
  %v4 = Unsqueeze(%v, [1])
  %a = Attention[is_causal = true](%qt, %k4, %v4)
  %at = Transpose[perm = [0, 2, 1, 3]](%a)
  %h = Reshape(%at, [0, 0, 16])
  %y = MatMul(%h, %wo)
  return %y
}
"""

INTERLEAVED_EXPERTS = """func @main(
  %x: Tensor[Float64, (B, 16), 1] {batch = 0},
  %router: Tensor[Float64, (16, 3), 1] {param},
  %gate_up: Tensor[Float64, (3, 16, 16), 1] {param}, %gate_up_bias: Tensor[Float64, (3, 16), 1] {param},
  %down: Tensor[Float64, (3, 8, 16), 1] {param}, %down_bias: Tensor[Float64, (3, 16), 1] {param}
) {
  %scores = MatMul(%x, %router)
  %most, %experts = TopK[axis = -1](%scores, [2])
  %shares = Softmax[axis = 1](%most)
  %both = GroupedMatMul(%x, %gate_up, %experts)
  %rows = Unsqueeze(%experts, [-1])
  %bias = GatherND(%gate_up_bias, %rows)
  %biased = Add(%both, %bias)
  %gate = Slice(%biased, [0], [9223372036854775807], [2], [2])
  %up = Slice(%biased, [1], [9223372036854775807], [2], [2])
  %act = Swish(%gate)
  %inner = Mul(%act, %up)
  %back = GroupedMatMul(%inner, %down, %experts)
  %last = GatherND(%down_bias, %rows)
  %each = Add(%back, %last)
  %factors = Unsqueeze(%shares, [-1])
  %weighted = Mul(%each, %factors)
  %y = ReduceSum[keepdims = false](%weighted, [1])
  return %y
}
"""

STATE_SPACE = """func @main(
  %x: Tensor[Float64, (B, 6, 8), 1] {batch = 0},
  %in: Tensor[Float64, (8, 42), 1] {param},
  %conv: Tensor[Float64, (22, 1, 4), 1] {param}, %conv_bias: Tensor[Float64, (22,), 1] {param},
  %rate: Tensor[Float64, (4,), 1] {param}, %scale: Tensor[Float64, (16,), 1] {param},
  %out: Tensor[Float64, (16, 8), 1] {param}
) {
  %all = MatMul(%x, %in)
  %z, %mixed, %dt = Split[axis = 2](%all, [16, 22, 4])
  %turned = Transpose[perm = [0, 2, 1]](%mixed)
  %c = Conv[group = 22, pads = [3, 0], kernel_shape = [4]](%turned, %conv, %conv_bias)
  %s = Swish(%c)
  %back = Transpose[perm = [0, 2, 1]](%s)
  %u, %b, %k = Split[axis = 2](%back, [16, 3, 3])
  %heads = Reshape(%u, [0, 0, 4, 4])
  %decay = Mul(%dt, %rate)
  %b4 = Unsqueeze(%b, [2])
  %be = Expand(%b4, [1, 1, 4, 1])
  %states = Einsum[equation = "blhn,blhp,blh->bhpn"](%be, %heads, %decay)
  %zeros = ConstantOfShape[value = dense<Float64, [0.0]>]([1, 4, 4, 3])
  %kept = Add(%states, %zeros)
  %read = Einsum[equation = "bln,bhpn->blhp"](%k, %kept)
  %flat = Reshape(%read, [0, 0, 16])
  %gate = Swish(%z)
  %gated = Mul(%flat, %gate)
  %square = Mul(%gated, %gated)
  %mean = ReduceMean(%square, [-1])
  %root = Sqrt(%mean)
  %one = Add(%root, 1.0)
  %even = Div(%gated, %one)
  %scaled = Mul(%even, %scale)
  %y = MatMul(%scaled, %out)
  return %y
}
"""

PROGRAMS = {
    "convolutions": (CONVOLUTIONS, 2 * 216 + 3 * 8, 3),
    "one channel in each group": (DEPTHWISE, 8 * 3 + 8 * 9 + 3 * 8 + 3 * 8, 0),
    "groups": (GROUPS, 8 * 3 + 12 * 6 + 12 + 12 * 6, 0),
    "transposed convolutions": (UPWARDS, 3 * 16 + 8 + 8 * 4 + 8 + 8 * 6, 3),
    "joined channels": (SKIPPED, 8 * 3 + 4 * 27 + 12 * 3, 0),
    "batches and heads in one dimension": (MERGED, 2 * 256, 0),
    "batches and heads in one dimension, sequences first": (SEQUENCE_FIRST, 3 * 256 + 4 * 36, 0),
    "one head of keys and values": (ONE_KEY_HEAD, 17 * 16 + 256, 17 * 8),
    "experts with gates between": (INTERLEAVED_EXPERTS, 3 * (16 * 16 + 16 + 8 * 16 + 16), 16 * 3),
    "a state-space layer": (STATE_SPACE, 8 * 36 + 16 * 5 + 4 + 16 + 16 * 8, 8 * 6 + 6 * 5),
}
"""By what is split: a program, how many numbers of its weights are to be split, and how many stay whole."""

programs = pytest.mark.parametrize("name", PROGRAMS)


@programs
def test_weights_are_split_but_those_of_what_all_share(name):
    text, split, whole = PROGRAMS[name]
    shares = tensor_shares(distir.parse(text), 2)
    assert shares.weights == pytest.approx((split / 2 + whole) / (split + whole))
    assert shares.flops == pytest.approx(0.5, abs=0.1)


@pytest.mark.by_turns
@programs
@pytest.mark.parametrize("words", [["tp=2"], ["tp=2", "dp=2"], ["grad", "tp=2"], ["grad", "optimizer=adam", "tp=2"]])
def test_results_stay(name, words):
    module = distir.parse(PROGRAMS[name][0])
    found = transform(module, *words)
    assert not [d for d in check(found).diagnostics if d.severity is Severity.ERROR]
    assert distir.parse(distir.format(found)) == found
    original = transform(module, *words[:-1]) if "grad" in words else module
    compared = verify(original, found, bind={"B": 4})
    assert compared.equal, compared.results


@pytest.mark.parametrize(
    "name", ["convolutions", "one channel in each group", "joined channels", "a state-space layer"]
)
def test_one_sum_of_what_is_as_large_as_the_result(name):
    """Split by columns, then by rows: partial sums are met at the end alone; statistics are summed on their way."""
    text = distir.format(transform(distir.parse(PROGRAMS[name][0]), "tp=2"))
    assert text.count("MPIAllreduce") == 1 + (name == "a state-space layer")
    assert "MPIAllgather" not in text
    assert "MPIReduceScatter" not in text


def test_a_bias_of_a_partial_sum_is_added_once():
    text = distir.format(transform(distir.parse(CONVOLUTIONS), "tp=4"))
    assert "Mul(%b2_1, 0.25)" in text


def test_groups_across_joined_channels_are_normalised_whole():
    """The groups of 6 channels lie across the joint of 8 and 4; then nothing but the results stay."""
    text = SKIPPED.replace("%s = Sigmoid(%joined)", "%s = GroupNormalization[num_groups = 2](%joined, %one, %one)")
    text = text.replace("%x: Tensor", "%one: Tensor[Float64, (12,), 1] {param}, %x: Tensor")
    module = distir.parse(text)
    made = transform(module, "tp=2", "shard=w1:0,w2:0")
    assert verify(module, made, bind={"B": 4}).equal


def test_what_is_shared_is_held_by_every_device_and_named():
    module = distir.parse(ONE_KEY_HEAD)
    made = transform(module, "tp=2")
    shapes = {p.name: p.type.shape for p in made.entry().params}
    assert shapes["wqkv_1"] == shapes["wqkv_2"] == (16, 16 // 2 + 4 + 4)
    assert shapes["wo_1"] == (8, 16)
    first, second = tensor_shares(module, 2).whole
    assert (first.names, second.names) == (("wqkv",), ("b",))
    assert first.why.startswith("8 of 24 in dimension 1: `Attention` needs it whole")
    assert first.share == pytest.approx(16 * 8 / (16 * 24 + 24 + 256))


BOTTLENECK = """func @main(
  %x: Tensor[Float64, (B, 3, 4, 4), 1] {batch = 0},
  %w0: Tensor[Float64, (16, 3, 1, 1), 1] {param},
  %w1: Tensor[Float64, (4, 16, 1, 1), 1] {param}, %w2: Tensor[Float64, (4, 4, 3, 3), 1] {param},
  %w3: Tensor[Float64, (16, 4, 1, 1), 1] {param}, %w4: Tensor[Float64, (3, 16, 1, 1), 1] {param}
) {
  %a = Conv[kernel_shape = [1, 1]](%x, %w0)
  %b = Conv[kernel_shape = [1, 1]](%a, %w1)
  %r = Relu(%b)
  %c = Conv[pads = [1, 1, 1, 1], kernel_shape = [3, 3]](%r, %w2)
  %s = Relu(%c)
  %d = Conv[kernel_shape = [1, 1]](%s, %w3)
  %e = Add(%a, %d)
  %f = Relu(%e)
  %y = Conv[kernel_shape = [1, 1]](%f, %w4)
  return %y
}
"""


@pytest.mark.parametrize("words", [(), ("grad", "optimizer=adam")])
def test_three_convolutions_in_a_ring_are_split_all(words):
    """Of the channels before, within and behind, any two meet in a weight: no two alone would split all three."""
    module = distir.parse(BOTTLENECK)
    module = transform(module, *words) if words else module
    shares = tensor_shares(module, 2)
    assert shares.weights == pytest.approx(0.5)
    assert shares.flops == pytest.approx(0.5, abs=0.01)
    assert verify(module, transform(module, "tp=2"), bind={"B": 4}).equal
    if not words:
        text = distir.format(transform(module, "tp=2"))
        collectives = {op: text.count(op) for op in ("MPIAllreduce", "MPIReduceScatter", "MPIAllgather", "MPIAlltoall")}
        assert sum(collectives.values()) <= 4, collectives
        assert collectives["MPIAlltoall"] == 0  # no weight is moved


def test_host_values_that_several_layers_share_join_none_of_them():
    """Zeros for a bias, as exporters write them once."""
    text = BOTTLENECK.replace(
        "{\n  %a =", "{\n  %zeros = Expand(0.0, [4])\n  %none = Cast[to = Float64](%zeros)\n  %a ="
    )
    text = text.replace("(%a, %w1)", "(%a, %w1, %none)").replace("(%r, %w2)", "(%r, %w2, %none)")
    module = distir.parse(text)
    assert "%none)" in text
    assert tensor_shares(module, 2).weights == pytest.approx(0.5)
    assert verify(module, transform(module, "tp=2"), bind={"B": 4}).equal
