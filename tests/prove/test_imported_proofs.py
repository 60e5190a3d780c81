"""What exporters of models write: zeros in the place of what is cut off again, and shapes that count with -1."""

import pytest

import distir
from distir.prove import prove
from distir.transform import verify

PADDED = """
func @main(%x: Tensor[Float32, (4, 3), 1] {batch = 0}, %w: Tensor[Float32, (3, 6), 1] {param}) {
  %h = MatMul(%x, %w)
  %n = Shape[start = 0, end = 1](%x)
  %s = Concat[axis = 0](%n, [2])
  %z = Expand([[0.0]], %s)
  %c = Concat[axis = 1](%h, %z)
  %p = Relu(%c)
  return %p
}
"""

REGROUPED = """
func @main(%x: Tensor[Float32, (4, 4, 2, 3), 1], %u: Tensor[Float32, (4, 4, 1), 1]) {
  %h = Reshape(%x, [4, 4, 6])
  %c = Concat[axis = 2](%h, %u)
  %p = Relu(%c)
  return %p
}
"""

REGROUPED_PARTS = """
func @main(
  %x_1: Tensor[Float32, (4, 2, 2, 3), 1], %x_2: Tensor[Float32, (4, 2, 2, 3), 2],
  %u_1: Tensor[Float32, (4, 2, 1), 1], %u_2: Tensor[Float32, (4, 2, 1), 2]
) {
  %h_1 = Reshape(%x_1, [-1, 2, 6])
  %h_2 = Reshape(%x_2, [-1, 2, 6])
  %c_1 = Concat[axis = 2](%h_1, %u_1)
  %c_2 = Concat[axis = 2](%h_2, %u_2)
  %p_1 = Relu(%c_1)
  %p_2 = Relu(%c_2)
  return %p_1, %p_2
}

func @main.scatter(%x: Tensor[Float32, (4, 4, 2, 3), 1], %u: Tensor[Float32, (4, 4, 1), 1]) {
  %x_1, %x_2 = MPIScatter[devices = [1, 2], axis = 1](%x)
  %u_1, %u_2 = MPIScatter[devices = [1, 2], axis = 1](%u)
  return %x_1, %x_2, %u_1, %u_2
}

func @main.gather(%p_1: Tensor[Float32, (4, 2, 7), 1], %p_2: Tensor[Float32, (4, 2, 7), 2]) {
  %p = MPIGather[axis = 1, root = 1](%p_1, %p_2)
  return %p
}
"""


def is_proved(text, sequential, *change):
    if change:
        assert change[0] in text
        text = text.replace(*change, 1)
    return prove(distir.parse(text), distir.parse(sequential)).proved


@pytest.mark.parametrize("words", ["dp=2", "dp=4"])
def test_zeros_beside_a_part_are_those_beside_the_whole(words):
    sequential = distir.parse(PADDED)
    found = distir.transform(sequential, *words.split())
    assert prove(found, sequential).failures == ()


@pytest.mark.parametrize(
    "change",
    [
        ("[[0.0]]", "[[1.0]]"),
        ("(%h_1, %z_part_1)", "(%z_part_1, %h_1)"),
        ("%h_2 = MatMul(%x_2, %w_2)", "%g_2 = MatMul(%x_2, %w_2)\n  %h_2 = Neg(%g_2)"),
    ],
)
def test_other_zeros_are_not_proved(change):
    text = distir.format(distir.transform(distir.parse(PADDED), "dp=2"))
    assert is_proved(text, PADDED)
    assert not is_proved(text, PADDED, *change)


def test_a_reshaped_part_is_of_the_shape_that_the_sequential_program_has():
    assert is_proved(REGROUPED_PARTS, REGROUPED)


@pytest.mark.parametrize(
    "change",
    [
        ("%u_1, %u_2 = MPIScatter[devices = [1, 2]", "%u_2, %u_1 = MPIScatter[devices = [2, 1]"),
        ("(%p_1, %p_2)\n", "(%p_2, %p_1)\n"),
    ],
)
def test_other_parts_are_not_proved(change):
    assert not is_proved(REGROUPED_PARTS, REGROUPED, *change)


ROTATED = """
func @main(
  %x: Tensor[Float32, (4, 8, 8), 1] {batch = 0}, %frequencies: Tensor[Float32, (2,), 1] {param},
  %qkv: Tensor[Float32, (24, 8), 1] {param}, %out: Tensor[Float32, (8, 8), 1] {param},
  %norm: Tensor[Float32, (8,), 1] {param}, %up: Tensor[Float32, (8, 16), 1] {param},
  %down: Tensor[Float32, (16, 8), 1] {param}
) {
  %angles = Mul([[[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]]], %frequencies)
  %h = MatMul(%x, %up)
  %a = Relu(%h)
  %e = MatMul(%a, %down)
  %n = RMSNormalization(%e, %norm)
  %turned = Transpose[perm = [1, 0]](%qkv)
  %linear = MatMul(%n, %turned)
  %q = Slice(%linear, [0], [8], [2], [1])
  %k = Slice(%linear, [8], [16], [2], [1])
  %v = Slice(%linear, [16], [24], [2], [1])
  %q_view = Reshape(%q, [-1, 8, 2, 4])
  %q_heads = Transpose[perm = [0, 2, 1, 3]](%q_view)
  %k_view = Reshape(%k, [-1, 8, 2, 4])
  %k_heads = Transpose[perm = [0, 2, 1, 3]](%k_view)
  %v_view = Reshape(%v, [-1, 8, 2, 4])
  %v_heads = Transpose[perm = [0, 2, 1, 3]](%v_view)
  %cos = Cos(%angles)
  %sin = Sin(%angles)
  %q_rotated = RotaryEmbedding(%q_heads, %cos, %sin)
  %k_rotated = RotaryEmbedding(%k_heads, %cos, %sin)
  %mixed = Attention[is_causal = true](%q_rotated, %k_rotated, %v_heads)
  %turned_back = Transpose[perm = [0, 2, 1, 3]](%mixed)
  %together = Reshape(%turned_back, [-1, 8, 8])
  %o = MatMul(%together, %out)
  %y = Add(%e, %o)
  return %y
}
"""


@pytest.mark.parametrize("steps", [["tp=2", "sequence=true"], ["grad", "tp=2", "sequence=true"], ["grad", "dp=2"]])
def test_angles_that_the_program_computes_are_cut_with_the_sequence(steps):
    sequential = distir.parse(ROTATED)
    if steps[0] == "grad":
        sequential, steps = distir.transform(sequential, "grad", "loss=mse"), steps[1:]
    made = distir.transform(sequential, *steps)
    assert prove(made, sequential).failures == ()
    if "sequence=true" in steps:
        text = distir.format(made)
        old = next(line for line in text.splitlines() if "_part_2 = Split" in line and ("cos" in line or "sin" in line))
        name = old.split("%")[1].split(" ")[0]
        first = f"  %{name}, _ = Split{old.split('Split')[1]}"
        assert not prove(distir.parse(text.replace(old, first, 1)), sequential).proved


CONVOLUTIONS = """
func @main(
  %x: Tensor[Float32, (4, 3, 8), 1] {batch = 0},
  %w: Tensor[Float32, (8, 3, 3), 1] {param}, %b: Tensor[Float32, (8,), 1] {param},
  %v: Tensor[Float32, (4, 8, 3), 1] {param}, %c: Tensor[Float32, (4,), 1] {param}
) {
  %h = Conv[pads = [1, 1]](%x, %w, %b)
  %a = Relu(%h)
  %y = Conv[pads = [1, 1], strides = [2]](%a, %v, %c)
  %p = Relu(%y)
  return %p
}
"""


def refuted(module, sequential, *change):
    """Whether a change gives other values, by the executor, and is not proved."""
    text = distir.format(module)
    assert change[0] in text
    changed = distir.parse(text.replace(*change, 1))
    return not verify(sequential, changed).equal and not prove(changed, sequential).proved


def test_each_device_adds_its_share_of_the_bias_of_a_convolution():
    sequential = distir.parse(CONVOLUTIONS)
    made = distir.transform(sequential, "tp=2", "shard=w:0,v:1")
    assert "%c_mean_1 = Mul(%c_1, 0.5)" in distir.format(made)
    assert prove(made, sequential).failures == ()
    assert refuted(made, sequential, "%c_mean_1 = Mul(%c_1, 0.5)", "%c_mean_1 = Mul(%c_1, 1.0)")
    assert refuted(made, sequential, "%v_1, %c_mean_1)", "%v_1)")
    assert refuted(made, sequential, "(%a_1, %v_1", "(%h_1, %v_1")
    step = distir.transform(sequential, "grad", "loss=mse")
    for words in ("tp=2 shard=w:0,v:1", "dp=2", "tp=2 dp=2"):
        assert prove(distir.transform(step, *words.split()), step).failures == ()


BY_DISTANCE = """
func @layer(
  %x: Tensor[Float32, (B, 3, 3, 2)], %table: Tensor[Float32, (5, 2)], %w: Tensor[Float32, (2, 2)]
) {
  %bias = Gather[axis = 0](%table, [[0, 1, 2], [3, 0, 1], [4, 3, 0]])
  %s = Add(%x, %bias)
  %h = MatMul(%s, %w)
  %y = Relu(%h)
  return %y
}

func @main(
  %x: Tensor[Float32, (4, 3, 3, 2), 1] {batch = 0}, %table: Tensor[Float32, (5, 2), 1] {param},
  %w: Tensor[Float32, (2, 2), 1] {param}, %v: Tensor[Float32, (2, 2), 1] {param}
) {
  %h = @layer(%x, %table, %w)
  %y = @layer(%h, %table, %v)
  return %y
}
"""


@pytest.mark.parametrize("words", ["dp=2", "pp=2 microbatches=2", "dtp=2,1,2 microbatches=2"])
def test_the_gradient_of_a_table_that_all_sequences_share_is_added_up(words):
    step = distir.transform(distir.parse(BY_DISTANCE), "grad", "loss=mse")
    made = distir.transform(step, *words.split())
    assert prove(made, step).failures == ()
    text = distir.format(made)
    line = next(line for line in text.splitlines() if " = GatherGrad[axis = 0](" in line)
    assert refuted(made, step, line, line.replace("[3, 0, 1]", "[3, 1, 1]"))
    table = line.split("%")[1].split(" ")[0]
    assert refuted(made, step, line, f"{line.replace(table, 'once', 1)}\n  %{table} = Add(%once, %once)")


BY_CHANNEL = """
func @main(%x: Tensor[Float32, (2, 8, 5), 1], %w: Tensor[Float32, (8, 1, 3), 1], %v: Tensor[Float32, (8, 5), 1]) {
  %h = Conv[group = 8](%x, %w)
  %t = Transpose[perm = [0, 2, 1]](%h)
  %y = MatMul(%t, %v)
  return %y
}
"""

SOME_CHANNELS = """
func @main(
  %x_1: Tensor[Float32, (2, 4, 5), 1], %w_1: Tensor[Float32, (4, 1, 3), 1], %v_1: Tensor[Float32, (4, 5), 1],
  %x_2: Tensor[Float32, (2, 4, 5), 2], %w_2: Tensor[Float32, (4, 1, 3), 2], %v_2: Tensor[Float32, (4, 5), 2]
) {
  %h_1 = Conv[group = 4](%x_1, %w_1)
  %h_2 = Conv[group = 4](%x_2, %w_2)
  %t_1 = Transpose[perm = [0, 2, 1]](%h_1)
  %t_2 = Transpose[perm = [0, 2, 1]](%h_2)
  %y_1 = MatMul(%t_1, %v_1)
  %y_2 = MatMul(%t_2, %v_2)
  %y, %_ = MPIAllreduce(%y_1, %y_2)
  return %y
}

func @main.scatter(
  %x: Tensor[Float32, (2, 8, 5), 1], %w: Tensor[Float32, (8, 1, 3), 1], %v: Tensor[Float32, (8, 5), 1]
) {
  %xa, %xb, %xc, %xd = Split[axis = 1, num_outputs = 4](%x)
  %wa, %wb, %wc, %wd = Split[axis = 0, num_outputs = 4](%w)
  %va, %vb, %vc, %vd = Split[axis = 0, num_outputs = 4](%v)
  %x_1 = Concat[axis = 1](%xa, %xc)
  %w_1 = Concat[axis = 0](%wa, %wc)
  %v_1 = Concat[axis = 0](%va, %vc)
  %x_o = Concat[axis = 1](%xb, %xd)
  %w_o = Concat[axis = 0](%wb, %wd)
  %v_o = Concat[axis = 0](%vb, %vd)
  %x_2 = Send[device = 2](%x_o)
  %w_2 = Send[device = 2](%w_o)
  %v_2 = Send[device = 2](%v_o)
  return %x_1, %w_1, %v_1, %x_2, %w_2, %v_2
}

func @main.gather(%y: Tensor[Float32, (2, 3, 5), 1]) {
  return %y
}
"""


def test_a_device_may_have_any_channels_that_are_convolved_by_themselves():
    sequential, made = distir.parse(BY_CHANNEL), distir.parse(SOME_CHANNELS)
    assert prove(made, sequential).failures == ()
    assert refuted(made, sequential, "%w_1 = Concat[axis = 0](%wa, %wc)", "%w_1 = Concat[axis = 0](%wa, %wb)")
    assert refuted(made, sequential, "%v_o = Concat[axis = 0](%vb, %vd)", "%v_o = Concat[axis = 0](%vd, %vb)")


def test_parts_of_groups_of_channels_are_not_convolved_by_themselves():
    """Four groups of two channels: each device has one channel of each, as two groups of two."""
    pairs = [BY_CHANNEL.replace("group = 8", "group = 4"), SOME_CHANNELS.replace("group = 4", "group = 2")]
    sequential, made = [
        distir.parse(text.replace("(8, 1, 3)", "(8, 2, 3)").replace("(4, 1, 3)", "(4, 2, 3)")) for text in pairs
    ]
    for name, axis in (("x", 1), ("w", 0), ("v", 0)):
        pieces = f"%{name}a, %{name}b, %{name}c, %{name}d = Split[axis = {axis}, num_outputs = 4](%{name})"
        text = distir.format(made)
        halves = [f"%{name}{k}{h}" for k in "abcd" for h in "12"]
        split = f"{', '.join(halves)} = Split[axis = {axis}, num_outputs = 8](%{name})\n"
        split += "".join(
            f"  %{name}{k} = Concat[axis = {axis}](%{name}{first}, %{name}{second})\n"
            for k, first, second in (("a", "a1", "b1"), ("b", "a2", "b2"), ("c", "c1", "d1"), ("d", "c2", "d2"))
        )
        made = distir.parse(text.replace(pieces, split, 1))
    assert not verify(sequential, made).equal
    assert not prove(made, sequential).proved
