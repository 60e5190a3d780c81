"""`fuse`: the kernels that compiled PyTorch makes of a Llama layer, with the values of the program that it is given."""

from collections import Counter

import numpy as np
import pytest
from fusion_samples import llama
from oracle import oracle, same

from distir.analysis import check, execute
from distir.analysis.executor import random_inputs
from distir.cost import load
from distir.ir import Apply, Call
from distir.models import gpt2, mlp, named
from distir.simulate import simulate
from distir.syntax import parse, print_module
from distir.transform import transform, verify

H100 = load("dgx-h100")


def module_of(text):
    syntax = parse(text)
    assert not syntax.diagnostics
    assert not check(syntax.module).errors
    return syntax.module


def small():
    return module_of(llama(layers=2, batch=2, sequence=8, width=16, heads=4, groups=2, hidden=24, dtype="Float32"))


def statements(module, name):
    return module.functions[name].body[:-1]


def launches(module, name):
    """What the statements of a function launch: kernels and ops that take time, by what they are."""
    free = {"Reshape", "Flatten", "Unsqueeze", "Squeeze", "Range", "TransposeView"}
    found = Counter(s.function if isinstance(s, Call) else s.op for s in statements(module, name))
    return {what: count for what, count in found.items() if what not in free}


PROGRAMS = {
    "llama": (small, {}),
    "llama-step": (lambda: transform(small(), "grad", "loss=mse", "optimizer=adam"), {}),
    "llama-inline": (lambda: transform(small(), "grad", "loss=mse", "optimizer=adam", "inline"), {}),
    "gpt2": (lambda: gpt2(layers=2, width=16, heads=2, sequence=4, vocabulary=32), {"B": 2}),
    "mlp": (lambda: mlp(3, 16, training=True), {"B": 8}),
    "mlp-pp": (lambda: transform(mlp(4, 16, training=True), "pp=2", "microbatches=4"), {"B": 8}),
    "mlp-dp-zero": (lambda: transform(mlp(4, 16, training=True), "dp=2", "zero=2"), {"B": 8}),
    "llama-tp": (lambda: transform(small(), "grad", "loss=mse", "optimizer=adam", "dp=2"), {}),
}


@pytest.mark.by_turns
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("options", [(), ("epilogues=true",)], ids=["", "epilogues"])
def test_values_stay_and_the_time_falls(name, options):
    make, bind = PROGRAMS[name]
    module = make()
    fused = transform(module, "fuse", *options)
    inputs = random_inputs(module, 0, bind)
    for before, after in zip(execute(module, inputs), execute(fused, inputs), strict=True):
        assert (before.name, before.type) == (after.name, after.type)
        np.testing.assert_array_equal(before.value, after.value)
    found, plain = simulate(fused, H100, bind=bind), simulate(module, H100, bind=bind)
    same(found, oracle(fused, H100, bind))
    assert found.latency_s < plain.latency_s
    assert len(found.timeline()) < len(plain.timeline())
    for memory, peak in found.peaks.items():
        assert peak <= plain.peaks[memory]
    assert parse(print_module(fused)).module == fused
    assert options or transform(fused, "fuse") == fused
    assert transform(fused, "inline", "fuse", *options)


def test_a_llama_layer_has_the_kernels_of_compiled_torch():
    """Forward: residual and RMSNorm; rotary embedding of q and of k; residual and RMSNorm; SwiGLU."""
    fused = transform(small(), "grad", "loss=mse", "fuse")
    inside = {"MatMul": 7, "RotaryEmbedding": 2, "Attention": 1, "fused_swish_mul": 1}
    assert launches(fused, "layer") == {**inside, "RMSNormalization": 1, "fused_add_rmsnorm": 1}
    assert launches(fused, "layer_add") == {**inside, "fused_add_rmsnorm": 2}
    assert not any(s.op == "Transpose" for s in statements(fused, "layer") if isinstance(s, Apply))
    backward = launches(fused, "layerGrad")
    assert backward["fused_mul_swish_grad"] == 1
    assert sum(count for what, count in backward.items() if "rmsnorm_grad" in what) == 2
    assert sum(count for what, count in backward.items() if "rotary" in what) == 2
    elementwise = {"Add", "Sum", "Mul", "Swish", "Neg", "Transpose", "Cast"}
    assert elementwise.isdisjoint(backward)


def test_the_residual_sum_of_a_layer_is_in_the_norm_of_the_next_one():
    """However many layers: two functions, one for the first and one for the others, as one function that is inlined."""
    sizes = {"batch": 2, "sequence": 8, "width": 16, "heads": 4, "groups": 2, "hidden": 24, "dtype": "Float32"}
    for steps in ((), ("grad", "loss=mse"), ("grad", "loss=mse", "checkpoint=full")):
        found = []
        for layers in (3, 6):
            module = transform(module_of(llama(layers=layers, **sizes)), *steps)
            fused = transform(module, "fuse")
            calls = Counter(s.function for s in statements(fused, "main") if isinstance(s, Call))
            again = layers if "checkpoint=full" in steps else 0
            assert (calls["layer"], calls["layer_add"]) == (1 + again, layers - 1)
            inputs = random_inputs(module, 0, {})
            for before, after in zip(execute(module, inputs), execute(fused, inputs), strict=True):
                np.testing.assert_array_equal(before.value, after.value)
            if not again:
                assert simulate(fused, H100).ops == simulate(transform(module, "inline", "fuse"), H100).ops
            assert simulate(fused, H100).peaks[0] <= simulate(module, H100).peaks[0]
            found.append(sum(len(f.body) for f in fused if f.name != "main"))
        assert found[0] == found[1]


def test_what_moves_out_of_a_function_moves_on_or_stays_in_the_caller():
    module = module_of(
        """
func @sum(%x, %y) {
  %n = Softmax(%x)
  %p = MatMul(%n, %y)
  %r = Add(%p, %n)
  %s = Tanh(%r)
  return %p, %s
}

func @several(%x, %y) {
  %p, %a = @sum(%x, %y)
  %q, %b = @sum(%a, %y)
  _, %c = @sum(%b, %q)
  return %c, %p
}

func @main(%x: Tensor[Float32, (8, 8), 1], %y: Tensor[Float32, (8, 8), 1]) {
  %b, %p = @several(%x, %y)
  %n = Softmax(%b)
  %c, _ = @several(%n, %b)
  %m = Softmax(%c)
  return %m, %p, %b
}
"""
    )
    fused = transform(module, "fuse")
    inputs = random_inputs(module, 0, {})
    for before, after in zip(execute(module, inputs), execute(fused, inputs), strict=True):
        np.testing.assert_array_equal(before.value, after.value)
    assert sum(what.startswith("fused_add_tanh_softmax") for what in launches(fused, "main")) == 2
    assert launches(fused, "several")["sum_add_tanh"] == 2
    assert simulate(fused, H100).ops < simulate(module, H100).ops
    same(simulate(fused, H100), oracle(fused, H100))
    assert transform(fused, "fuse") == fused


@pytest.mark.parametrize("steps", [("accumulate=2",), ("pp=2", "microbatches=2", "sums=layer")], ids=["", "pp"])
def test_weight_gradients_of_microbatches_are_added_up_by_the_products(steps):
    """As Megatron's gradient accumulation fusion: from BFloat16 into a Float32 sum, inside the function of a layer."""
    sizes = {"layers": 4, "width": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "vocabulary": 32}
    model = named("llama3-8b", 2, 8, **sizes)
    module = transform(model, "grad", "loss=cross_entropy", "precision=mixed", *steps)
    fused = transform(module, "fuse")
    products = launches(fused, "LlamaDecoderLayerGrad_sum")["fused_gemm_cast_add"]
    assert products == 7
    kernel = fused.functions["fused_gemm_cast_add"]
    assert [s.op for s in kernel.body[:-1]] == ["Gemm", "CastGradient", "Sum"]
    inputs = random_inputs(module, 0, {})
    for before, after in zip(execute(module, inputs), execute(fused, inputs), strict=True):
        np.testing.assert_array_equal(before.value, after.value)
    found = simulate(fused, H100)
    same(found, oracle(fused, H100))
    for memory, peak in simulate(module, H100).peaks.items():
        assert found.peaks[memory] <= peak


def test_products_in_8_bit_floats_add_up_weight_gradients_of_microbatches_too():
    """As Transformer Engine's do with `fuse_wgrad_accumulation`."""
    sizes = {"layers": 4, "width": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "vocabulary": 32}
    model = named("llama3-8b", 2, 8, **sizes)
    module = transform(model, "fp8=delayed", "grad", "loss=cross_entropy", "precision=mixed", "accumulate=2")
    fused = transform(module, "fuse")
    (name,) = [f.name for f in fused if f.kernel and f.body[0].op == "ScaledMatMul"]
    assert [s.op for s in fused.functions[name].body[:-1]] == ["ScaledMatMul", "CastGradient", "Sum"]
    assert launches(fused, "LlamaDecoderLayerGrad_sum")[name] == 7
    inputs = random_inputs(module, 0, {})
    for before, after in zip(execute(module, inputs), execute(fused, inputs), strict=True):
        np.testing.assert_array_equal(before.value, after.value)
    same(simulate(fused, H100), oracle(fused, H100))


def test_a_product_that_adds_to_a_wider_sum_moves_its_operands_and_the_sum():
    module = module_of("""
func @main(%x: Tensor[BFloat16, (64, 32), 1], %dy: Tensor[BFloat16, (64, 16), 1], %z: Tensor[Float32, (32, 16), 1]) {
  %a = Neg(%z)
  %dw = Gemm[transA = true](%x, %dy)
  %wide = CastGradient[to = Float32](%dw)
  %sum = Sum(%a, %wide)
  return %sum
}
""")
    fused = transform(module, "fuse")
    found, plain = simulate(fused, H100), simulate(module, H100)
    same(found, oracle(fused, H100))
    total = 4 * 32 * 16
    work = found.timeline().event(1).effect.work
    assert (work.flops, work.bytes) == (2 * 64 * 32 * 16, 2 * (64 * 32 + 64 * 16) + 2 * total)
    assert str(work.dtype) == "BFloat16"
    assert plain.peaks[0] - found.peaks[0] == total + total // 2


def test_a_kernel_of_one_form_is_written_once():
    fused = transform(small(), "inline", "fuse")
    names = [f.name for f in fused if f.kernel]
    calls = Counter(s.function for s in statements(fused, "main") if isinstance(s, Call))
    assert calls["fused_swish_mul"] == 2
    assert len(names) == len(set(names)) == len(calls)


def test_nothing_waits_for_itself_and_nothing_is_computed_twice():
    module = module_of("""
func @main(%x: Tensor[Float32, (64, 64), 1], %w: Tensor[Float32, (64, 64), 1]) {
  %a = Relu(%x)
  %b = MatMul(%a, %w)
  %c = Add(%a, %b)
  %d = Tanh(%c)
  %e = Exp(%c)
  return %d, %e
}
""")
    fused = transform(module, "fuse")
    assert launches(fused, "main") == {"Relu": 1, "MatMul": 1, "fused_add_tanh_exp": 1}
    written = Counter(s.op for f in fused for s in f.body if isinstance(s, Apply))
    assert written == Counter(s.op for s in statements(module, "main"))


def test_what_needs_all_rows_is_in_another_kernel():
    module = module_of("""
func @main(%x: Tensor[Float32, (64, 32), 1], %y: Tensor[Float32, (64, 32), 2]) {
  %a = Relu(%x)
  %s = ReduceSum[keepdims = true](%a, [0])
  %b = Div(%a, %s)
  %t = ReduceSum[keepdims = true](%b, [1])
  %c = Div(%b, %t)
  %z = Neg(%y)
  %v = Exp(%z)
  return %c, %v
}
""")
    fused = transform(module, "fuse")
    assert launches(fused, "main") == {"fused_relu_sum": 1, "fused_div_sum_div": 1, "fused_neg_exp": 1}


def test_products_take_epilogues_only_where_asked():
    module = module_of("""
func @main(%x: Tensor[Float32, (64, 64), 1], %w: Tensor[Float32, (64, 64), 1]) {
  %b = MatMul(%x, %w)
  %c = Gelu(%b)
  %d = Add(%c, %x)
  return %d
}
""")
    assert launches(transform(module, "fuse"), "main") == {"MatMul": 1, "fused_gelu_add": 1}
    assert launches(transform(module, "fuse", "epilogues=true"), "main") == {"fused_matmul_gelu_add": 1}


def test_a_weight_gradient_is_accumulated_in_its_own_memory():
    module = module_of("""
func @main(%x: Tensor[Float32, (64, 32), 1], %dy: Tensor[Float32, (64, 16), 1], %z: Tensor[Float32, (32, 16), 1]) {
  %a = Neg(%z)
  %dw = Gemm[transA = true](%x, %dy)
  %sum = Add(%a, %dw)
  return %sum
}
""")
    fused = transform(module, "fuse")
    (_, product) = statements(fused, "main")
    assert (product.op, product.args, product.results) == ("Gemm", ("x", "dy", "a"), ("sum",))
    found, plain = simulate(fused, H100), simulate(module, H100)
    same(found, oracle(fused, H100))
    size = 4 * 32 * 16
    assert plain.peaks[0] - found.peaks[0] == 2 * size
    assert found.timeline().event(1).effect.work.bytes == 4 * (64 * 32 + 64 * 16) + 2 * size


def test_a_transpose_for_consumers_that_take_strides_is_a_view():
    module = module_of("""
func @scores(%q, %k) {
  %s = MatMul(%q, %k)
  return %s
}

func @main(%q: Tensor[Float32, (2, 8, 4, 16), 1], %k: Tensor[Float32, (2, 8, 4, 16), 1]) {
  %qt = Transpose[perm = [0, 2, 1, 3]](%q)
  %kt = Transpose[perm = [0, 2, 3, 1]](%k)
  %s = @scores(%qt, %kt)
  %t = Transpose[perm = [0, 2, 1, 3]](%s)
  %u = Reshape(%t, [2, 8, 32])
  %v = Transpose(%u)
  return %u, %v
}
""")
    fused = transform(module, "fuse")
    ops = [s.op if isinstance(s, Apply) else s.function for s in statements(fused, "main")]
    assert ops == ["TransposeView", "TransposeView", "scores", "Transpose", "Reshape", "Transpose"]
    assert len(simulate(fused, H100).timeline()) == 3
    same(simulate(fused, H100), oracle(fused, H100))


def test_dropout_is_fused_with_its_neighbours():
    module = module_of("""
func @main(%x: Tensor[Float32, (64, 64), 1], %y: Tensor[Float32, (64, 64), 1], %w: Tensor[Float32, (64,), 1]) {
  %a = Dropout[seed = 3](%x, 0.1, true)
  %r = Add(%a, %y)
  %n = RMSNormalization(%r, %w)
  return %r, %n
}
""")
    assert launches(transform(module, "fuse"), "main") == {"fused_dropout_add_rmsnorm": 1}


COUNTED = {
    "llama3-8b": ({"width": 64, "heads": 4, "kv_heads": 2, "ffn": 96}, 5, 10),
    "qwen3-30b-a3b": (
        {"width": 64, "heads": 4, "kv_heads": 2, "head_size": 16, "experts": 4, "expert_ffn": 32, "top_k": 2},
        5,
        11,
    ),
}


@pytest.mark.parametrize("model", COUNTED)
def test_kernels_of_one_more_layer_are_those_that_the_page_counts(model):
    """Against Inductor's: see `docs/how-to/fusion.md`, which says what differs."""
    sizes, forward, both = COUNTED[model]
    others = {"MatMul", "Gemm", "Attention", "AttentionGrad", "SGD", "Route", "RouteGrad", "Dispatch"}
    others |= {"Permute", "Unpermute", "UnpermuteGrad", "RaggedMatMul", "RaggedMatMulGrad"}
    for steps, expected in (((), forward), (("grad", "loss=cross_entropy"), both)):
        counts = []
        for layers in (3, 4):
            module = transform(named(model, 2, 16, layers=layers, vocabulary=128, **sizes), *steps, "fuse")
            counts.append(sum(event.op not in others for event in simulate(module, H100).timeline().events()))
        assert counts[1] - counts[0] == expected, steps


TRANSPOSED = """
    func @layer(%x, %w) {{
      %v = Transpose[perm = [1, 0]](%w)
      %y = {product}(%x, %v)
      return %y
    }}
    func @main(%x: Tensor[Float32, (8, 6), 1] {{batch = 0}}, %w: Tensor[Float32, (4, 6), 1] {{param}}) {{
      %y = @layer(%x, %w)
      return %y
    }}"""


@pytest.mark.parametrize("product", ["MatMul", "Gemm", "Gemm[transA = false]"])
@pytest.mark.parametrize("kernels", ["compiled", "eager"])
def test_gradients_of_transposed_weights_are_written_transposed(product, kernels):
    """As in PyTorch, whose linear layers hold weights so: no copy, and microbatches are added by the product."""
    step = transform(module_of(TRANSPOSED.format(product=product)), "grad", "loss=mse")
    for steps in ((), ("accumulate=4",)):
        program = transform(step, *steps)
        fused = transform(program, "fuse", f"kernels={kernels}")
        assert verify(program, fused).equal
        ops = [s for f in fused for s in f.body if isinstance(s, Apply)]
        assert not [s for s in ops if s.op == "Transpose"]
        if steps and kernels == "compiled":
            assert [s for s in ops if s.op == "Gemm" and len(s.args) == 3]


def test_a_sum_of_two_products_accumulates_one_of_them():
    given = module_of(
        """func @main(%x: Tensor[Float32, (8, 4), 1], %dy: Tensor[Float32, (8, 2), 1], %z: Tensor[Float32, (8, 4), 1]) {
  %a = Gemm[transA = true](%x, %dy)
  %b = Gemm[transA = true](%z, %dy)
  %s = Sum(%a, %b)
  return %s
}
"""
    )
    made = transform(given, "fuse")
    assert not check(made).errors
    assert verify(given, made).equal
