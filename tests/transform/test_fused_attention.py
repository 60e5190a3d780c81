"""Attention as one kernel, forward and backward: what a training step keeps, how it is split, and it written out."""

import math
import re

import numpy as np
import pytest
from dtp_samples import LLAMA, LLAMA_WEIGHTS, layered
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import most_examples

import distir
from distir.analysis import check, random_inputs
from distir.diagnostics import ProgramError
from distir.ir import DTYPES, Attributes, TensorType, types
from distir.models import named
from distir.ops import OPS, infer_types, type_of, work
from distir.transform import transform, verify
from distir.transform.steps import StepError

FORM = """func @main(
  %q: Tensor[Float64, {q}, 1] {{param}}, %k: Tensor[Float64, {k}, 1] {{param}}, %v: Tensor[Float64, {v}, 1] {{param}},
  %bias: Tensor[Float64, {mask}, 1]{trained}, %s: Tensor[Float64, ({heads},), 1] {{param}},
  %seen: Tensor[Bool, {mask}, 1]
) {{
  %y{lse} = Attention[{attrs}](%q, %k, %v, {operands})
  %squares = Mul(%y, %y)
  %total = ReduceSum[keepdims = false](%squares)
  return %total
}}
"""


@st.composite
def attentions(draw):
    """Programs of one attention of any form."""
    b, g, group, e, v = (draw(st.integers(1, 3)) for _ in range(5))
    q, k = (draw(st.integers(1, 5)) for _ in range(2))
    h, flat = g * group, draw(st.booleans())
    shapes = ((b, q, h * e), (b, k, g * e), (b, k, g * v)) if flat else ((b, h, q, e), (b, g, k, e), (b, g, k, v))
    attrs = [f"q_num_heads = {h}", f"kv_num_heads = {g}"] if flat else []
    causal = draw(st.booleans())
    attrs.append(f"is_causal = {str(causal).lower()}")
    if causal and draw(st.booleans()):
        attrs.append(f"window = {draw(st.integers(max(1, q - k + 1), 5))}")
    attrs += draw(st.sampled_from([[], ["scale = 0.3"]])) + draw(st.sampled_from([[], ["softcap = 1.5"]]))
    mask = draw(st.sampled_from(["_", "%seen", "%bias"]))
    operands = [mask, *draw(st.sampled_from([[], ["%s"]]))]
    of_mask = draw(st.sampled_from([(q, k), (b, 1, q, k), (h, 1, k), (k,)]))
    trained = draw(st.sampled_from(["", " {param}"])) if mask == "%bias" else ""
    return FORM.format(
        **dict(zip("qkv", shapes, strict=True)),
        heads=h,
        mask=of_mask,
        trained=trained,
        attrs=", ".join(attrs),
        operands=", ".join(operands),
        lse=draw(st.sampled_from(["", ", %lse"])),
    )


def results(module, inputs):
    return list(distir.run(module, inputs).values())


@settings(deadline=None, max_examples=most_examples(60))
@given(attentions(), st.integers(0, 100))
def test_values_and_gradients_are_those_of_attention_written_out(text, seed):
    module = distir.parse(text)
    inputs = random_inputs(module, seed, {})
    fused = transform(module, "grad", "loss=none", "optimizer=none")
    written = transform(module, "attention=written", "grad", "loss=none", "optimizer=none")
    assert "Attention" not in distir.format(written)
    biased = re.search(r"%bias: [^%]*\{param\}", text) is not None
    assert ("AttentionGrad" in distir.format(fused)) != biased
    for a, b in zip(results(fused, inputs), results(written, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def largest(module):
    """The most elements that a value of the program has, its parameters left out."""
    analysis = check(module)
    found = 0
    for function in module:
        given = {p.name for p in function.params}
        for name, value in analysis.states[function.name].items():
            for leaf in types.leaves(type_of(value)) if name and name not in given else ():
                if isinstance(leaf, TensorType) and isinstance(leaf.elements, int):
                    found = max(found, leaf.elements)
    return found


LONG = """func @main(
  %wqkv: Tensor[Float32, (16, 32), 1] {param}, %wo: Tensor[Float32, (16, 16), 1] {param},
  %x: Tensor[Float32, (2, 512, 16), 1] {batch = 0}
) {
  %qkv = MatMul(%x, %wqkv)
  %q, %k, %v = Split[axis = -1](%qkv, [16, 8, 8])
  %a = Attention[q_num_heads = 4, kv_num_heads = 2, is_causal = true](%q, %k, %v)
  %y = MatMul(%a, %wo)
  return %y
}
"""


def test_a_training_step_holds_no_value_of_the_size_of_the_scores():
    module = distir.parse(LONG)
    step, written = transform(module, "grad"), transform(module, "attention=written", "grad")
    scores = 2 * 4 * 512 * 512
    assert largest(step) == 2 * 512 * 32
    assert largest(written) >= scores
    assert re.search(
        r"%a, %(\S+) = Attention.*AttentionGrad\S*.*\(%da, %q, %k, %v, %a, %\1\)", distir.format(step), re.S
    )
    fused, whole = (distir.simulate(m, "dgx-h100").devices[1].peak_memory_bytes for m in (step, written))
    assert fused < 2**21 < 4 * scores < whole


def test_the_log_sum_exp_is_given_only_where_it_is_used():
    assert ", %" not in distir.format(distir.parse(LONG)).partition(" = Attention")[0].splitlines()[-1]
    text = LONG.replace("is_causal = true](%q, %k, %v)", "is_causal = true](%q, %k, %v, %bias)")
    text = text.replace("  %x:", "  %bias: Tensor[Float32, (512, 512), 1] {param},\n  %x:")
    step = distir.format(transform(distir.parse(text), "grad"))
    assert "  %a = Attention" in step  # the gradient of a bias is that of attention written out
    assert "AttentionGrad" not in step


STEPS = [
    "dp=2",
    "tp=2",
    "tp=4",
    "tp=8",
    "tp=2 sequence=true",
    "dp=2 tp=2",
    "pp=2 microbatches=2",
    "dp=2 zero=3",
    "checkpoint=block",
    "checkpoint=block dp=2 tp=2",
    "dtp=2,2,2 microbatches=2",
]


@pytest.fixture(scope="module")
def decoder():
    """The training step of two blocks with 16 heads of queries and 8 of keys and values."""
    text = LLAMA.replace("(B, 3, 8)", "(B, 4, 8)").replace("(64, 3)", "(16, 4)")
    return transform(layered(text, LLAMA_WEIGHTS, 2), "grad", "loss=cross_entropy")


@pytest.mark.by_turns
@pytest.mark.parametrize("words", STEPS)
def test_a_decoder_is_distributed_in_every_way(decoder, words):
    made = transform(decoder, *words.split())
    assert "AttentionGrad" in distir.format(made)
    assert verify(decoder, made).equal


@pytest.mark.parametrize(("devices", "heads"), [(2, (8, 4)), (8, (2, 1))])
def test_each_device_has_its_heads(decoder, devices, heads):
    text = distir.format(transform(decoder, f"tp={devices}"))
    found = set(re.findall(r"Attention(?:Grad)?\[is_causal = true, q_num_heads = (\d+), kv_num_heads = (\d+)\]", text))
    assert found == {tuple(map(str, heads))}


ONE_KEY_HEAD = """func @main(
  %x: Tensor[Float64, (4, 6, 16), 1] {batch = 0},
  %wq: Tensor[Float64, (16, 16), 1] {param}, %wk: Tensor[Float64, (16, 4), 1] {param},
  %wv: Tensor[Float64, (16, 4), 1] {param}, %wo: Tensor[Float64, (16, 16), 1] {param},
  %sinks: Tensor[Float64, (4,), 1] {param}
) {
  %q = MatMul(%x, %wq)
  %k = MatMul(%x, %wk)
  %v = MatMul(%x, %wv)
  %a = Attention[is_causal = true, q_num_heads = 4, kv_num_heads = 1](%q, %k, %v, _, %sinks)
  %y = MatMul(%a, %wo)
  return %y
}
"""


@pytest.mark.parametrize("words", ["tp=2", "dp=2", "dp=2 tp=4"])
def test_a_head_that_all_queries_share_is_replicated_and_its_gradients_are_summed(words):
    step = transform(distir.parse(ONE_KEY_HEAD), "grad")
    made = transform(step, *words.split())
    assert "q_num_heads = 4, kv_num_heads = 1](%dout" not in distir.format(made)
    assert verify(step, made).equal


def test_attention_written_out_has_the_traffic_of_its_scores():
    module = distir.parse(LONG)
    written = transform(module, "attention=written")
    assert verify(module, written).equal
    busy = [distir.simulate(m, "dgx-h100").devices[1].busy_s for m in (module, written)]
    assert busy[1] > busy[0]


def test_functions_that_are_called_with_several_sizes_are_written_out_once():
    text = """
    func @main(%x: Tensor[Float64, (2, 4, 3, 8), 1], %y: Tensor[Float64, (2, 4, 5, 8), 1]) {
      %a = @mix(%x, %y)
      %b = @mix(%y, %x)
      return %a, %b
    }
    func @mix(%x, %y) {
      %z = Attention[is_causal = true](%x, %y, %y)
      return %z
    }
    """
    module = distir.parse(text)
    written = transform(module, "attention=written")
    assert len(written.functions) == 2
    assert verify(module, written).equal


def test_attention_over_a_cache_is_written_out_too():
    text = """
    func @main(%q: Tensor[Float64, (2, 4, 2, 8), 1], %k: Tensor[Float64, (2, 2, 9, 8), 1], %n: Tensor[Int64, (2,), 1]) {
      %a = Attention[is_causal = true, window = 3](%q, %k, %k, _, _, 5)
      %least = Clip(%n, 2, 9)
      %b, %lse = Attention[is_causal = true](%q, %k, %k, _, _, %least)
      return %a, %b, %lse
    }
    """
    module = distir.parse(text)
    assert verify(module, transform(module, "attention=written")).equal


def test_what_cannot_be_written_out_says_why():
    with pytest.raises(StepError, match="expected `written`, found `writen`"):
        transform(distir.parse(LONG), "attention=writen")
    text = "func @main(%q: Tensor[Float32, (2, H, 3, 8), 1]) {\n  %y = Attention(%q, %q, %q)\n  return %y\n}\n"
    with pytest.raises(distir.ProgramError, match="number and the size of its heads"):
        transform(distir.parse(text), "attention=written")


def test_gradients_of_the_log_sum_exp_itself():
    """As where parts of the keys are attended to apart, and put together by it."""
    text = """
    func @main(%q: Tensor[Float64, (2, 2, 3, 4), 1] {param}, %k: Tensor[Float64, (2, 2, 5, 4), 1] {param}) {
      %y, %lse = Attention(%q, %k, %k)
      %total = ReduceSum[keepdims = false](%lse)
      return %total
    }
    """
    module = distir.parse(text)
    inputs = random_inputs(module, 0, {})
    _, dq, _ = results(transform(module, "grad", "loss=none", "optimizer=none"), inputs)
    q, k = inputs.values()
    weights = np.exp(q @ k.swapaxes(-1, -2) / 2)
    expected = weights / weights.sum(-1, keepdims=True) @ k / 2
    np.testing.assert_allclose(dq, expected, rtol=1e-9)
    assert math.isfinite(dq.sum())


@pytest.mark.parametrize(("heads", "shared", "width"), [(4, 4, 8), (6, 2, 8), (4, 1, 5)])
@pytest.mark.parametrize("masked", ["none", "causal", "bool", "float"])
def test_gradients_are_those_of_torch(heads, shared, width, masked):
    """Of its own `scaled_dot_product_attention`, with grouped heads and values of another width."""
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(heads)
    shapes = {"q": (2, heads, 7, 8), "k": (2, shared, 7, 8), "v": (2, shared, 7, width), "w": (2, heads, 7, width)}
    given = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
    mask = torch.randn(2, 1, 7, 7, generator=generator, dtype=torch.float64)
    mask = (mask > -1) | torch.eye(7, dtype=torch.bool) if masked == "bool" else mask
    operand = ", %mask" if masked in ("bool", "float") else ""
    text = f"""func @main({", ".join(f"%{n}: Tensor[Float64, {s}, 1] {{param}}" for n, s in shapes.items())},
      %mask: Tensor[{"Bool" if masked == "bool" else "Float64"}, (2, 1, 7, 7), 1]
    ) {{
      %y = Attention[is_causal = {str(masked == "causal").lower()}](%q, %k, %v{operand})
      %z = Mul(%y, %w)
      %total = ReduceSum[keepdims = false](%z)
      return %total
    }}"""
    step = transform(distir.parse(text), "grad", "loss=none", "optimizer=none")
    found = results(step, {**{n: x.numpy() for n, x in given.items()}, "mask": mask.numpy()})
    leaves = {n: x.requires_grad_() for n, x in given.items()}
    y = torch.nn.functional.scaled_dot_product_attention(
        leaves["q"],
        leaves["k"],
        leaves["v"],
        attn_mask=mask if masked in ("bool", "float") else None,
        is_causal=masked == "causal",
        enable_gqa=True,
    )
    (y * leaves["w"]).sum().backward()
    for gradient, leaf in zip(found[1:], leaves.values(), strict=True):
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-9, atol=1e-11)


# Dropout of the weights.


def dropping(words=(), batch=8, **sizes):
    """A training step of a small Llama whose attention drops a fourth of its weights."""
    chosen = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "ffn": 16, "vocabulary": 32, "sequence": 8} | sizes
    text = distir.format(named("llama3-8b", batch=batch, dtype="Float32", **chosen))
    module = distir.parse(text.replace("= Attention[", "= Attention[dropout = 0.25, "))
    return transform(module, "seeded", *words, "grad", "optimizer=adam", "loss=cross_entropy", "clip=1.0")


DROPPING = FORM.replace("{{param}}, %k", "{{param, batch = 0}}, %k").replace(
    "%seen: Tensor[Bool, {mask}, 1]", "%key: Int64, %seen: Tensor[Bool, {mask}, 1]"
)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("attrs", ["is_causal = true, window = 2", "softcap = 1.5"])
@pytest.mark.parametrize("operands", ["_", "%seen", "%seen, %s"])
def test_what_is_dropped_is_what_dropout_drops_of_attention_written_out(operands, attrs, flat):
    shapes = ((2, 3, 8), (2, 3, 4), (2, 3, 6)) if flat else ((2, 4, 3, 2), (2, 2, 3, 2), (2, 2, 3, 3))
    attrs += ", dropout = 0.4" + (", q_num_heads = 4, kv_num_heads = 2" if flat else "")
    filled = ", ".join([operands, *["_"] * (3 - len(operands.split(", "))), "%key"])
    text = DROPPING.format(
        **dict(zip("qkv", shapes, strict=True)), heads=4, mask=(3, 3), trained="", attrs=attrs, operands=filled, lse=""
    )
    module = distir.parse(text.replace("{param, batch = 0}", "{param}"))
    inputs = random_inputs(module, 0, {}) | {"key": np.int64(7)}
    fused, written = (
        transform(module, *first, "grad", "loss=none", "optimizer=none") for first in ([], ["attention=written"])
    )
    for found, expected in zip(results(fused, inputs), results(written, inputs), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    without = distir.parse(distir.format(module).replace("dropout = 0.4", "dropout = 0.0"))
    assert not np.allclose(results(without, inputs)[0], results(module, inputs)[0])


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "words",
    [
        "dp=2",
        "tp=2",
        "pp=2 microbatches=4",
        "accumulate=4",
        "checkpoint=full",
        "dtp=2,2,1 sequence=true",
        "dtp=2,2,2 microbatches=2 zero=2 fuse",
    ],
)
def test_devices_drop_the_weights_that_the_sequential_program_drops(words):
    step = dropping()
    assert verify(step, transform(step, *words.split())).equal


def test_heads_that_are_split_know_which_they_are():
    found = transform(dropping(), "tp=2")
    text = distir.format(found)
    for op in ("Attention", "AttentionGrad"):
        starts = set(re.findall(rf"= {op}\[.*(%start\w*)\)", text))
        assert starts, op
    assert not re.findall(r"%start", distir.format(transform(dropping(), "dp=1")))


def test_no_mask_of_dropout_is_in_memory():
    """Twice as many tokens take twice as much; written out, the shares and their masks take four times as much."""
    peaks = {}
    for words in ((), ("attention=written",)):
        few, many = (
            distir.simulate(dropping(words, batch=1, sequence=tokens)).devices[1].peak_memory_bytes
            for tokens in (1024, 2048)
        )
        peaks[words] = many / few
    assert peaks[()] < 2.2
    assert peaks["attention=written",] > 3.5


def test_each_score_takes_the_numbers_of_dropout_in_both_passes():
    scores = 2 * 64 * 64
    x = TensorType(DTYPES["Float32"], (1, 2, 64, 16), 1)
    rows = TensorType(DTYPES["Float32"], (1, 2, 64), 1)
    for op, operands in (("Attention", [x] * 3), ("AttentionGrad", [*[x] * 5, rows])):
        flops = []
        for attrs in (Attributes({}), Attributes({"dropout": 0.1})):
            found = infer_types(OPS[op], operands, attrs, 3 if op == "AttentionGrad" else 1)
            flops.append(work(OPS[op], operands, found, attrs).flops)
        assert flops[1] - flops[0] == 27 * scores, op


@pytest.mark.parametrize(
    ("attrs", "operands", "message"),
    [
        ("dropout = 1.5", "", "`Attention` expected `dropout` to be from 0 to 1, found 1.5"),
        ("dropout = 0.5", ", _, _, _, 7, %rows", "`Attention` expected a number of rows that divides the batch of 2"),
        ("dropout = 0.5", ", _, _, _, 7, _, [0, 1]", "`Attention` expected a start for each of 4 dimensions, found 2"),
    ],
)
def test_dropout_that_cannot_be_is_refused(attrs, operands, message):
    text = f"""func @main(%q: Tensor[Float32, (2, 2, 3, 4), 1], %rows: Tensor[Int64, (3,), 1]) {{
  %y = Attention[{attrs}](%q, %q, %q{operands})
  return %y
}}"""
    assert message in str(check(distir.parse(text)).errors[0])


def test_attention_that_drops_without_a_key_does_not_run():
    parameter, attention = "%q: Tensor[Float32, (2, 2, 3, 4), 1]", "Attention[dropout = 0.5](%q, %q, %q)"
    module = distir.parse(f"func @main({parameter}) {{\n  %y = {attention}\n  return %y\n}}")
    with pytest.raises(ProgramError, match="needs a key of random numbers; the step `seeded` gives it one"):
        distir.run(module, random_inputs(module, 0, {}))
