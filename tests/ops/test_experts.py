"""Mixtures of experts: routers, the order of tokens by expert, grouped products, against torch and `transformers`."""

import math

import numpy as np
import pytest
from op_samples import apply, rejects

import distir
from distir.analysis import execute
from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Attributes, TensorType
from distir.ops import OPS, Reject, bind, infer_types, run, work
from distir.transform import transform

WIDTH, INNER, EXPERTS, TOKENS = 8, 10, 8, 6

LAYER = """func @main(
  %x: Tensor[Float64, (2, {tokens}, {width}), 1] {{batch = 0}},
  %router: Tensor[Float64, ({experts}, {width}), 1] {{param}},{bias}
  %gate: Tensor[Float64, ({experts}, {inner}, {width}), 1] {{param}},
  %up: Tensor[Float64, ({experts}, {inner}, {width}), 1] {{param}},
  %down: Tensor[Float64, ({experts}, {width}, {inner}), 1] {{param}}
) {{
  %flipped = Transpose[perm = [1, 0]](%router)
  %logits = MatMul(%x, %flipped)
  %weights, %experts = Route[{route}](%logits{choice})
  %places, %counts = Dispatch[num_experts = {experts}](%experts)
  %rows = Permute(%x, %places)
  %g = RaggedMatMul[transW = true](%rows, %gate, %counts)
  %u = RaggedMatMul[transW = true](%rows, %up, %counts)
  %s = Swish(%g)
  %h = Mul(%s, %u)
  %o = RaggedMatMul[transW = true](%h, %down, %counts)
  %y = Unpermute(%o, %places, %weights)
  return %y
}}
"""
"""A layer of experts with gates, of torch's layout of weights."""


def layer(route, *, bias=False):
    stated = f"\n  %bias: Tensor[Float64, ({EXPERTS},), 1]," if bias else ""
    sizes = {"tokens": TOKENS, "width": WIDTH, "inner": INNER, "experts": EXPERTS}
    return distir.parse(LAYER.format(route=route, bias=stated, choice=", %bias" if bias else "", **sizes))


def inputs_of(module, seed=0):
    rng = np.random.default_rng(seed)
    return {p.name: rng.normal(size=p.type.shape) for p in module.entry().params}


def values(module, inputs):
    return {out.name: out.value for out in execute(module, inputs)}


def gradients(module, inputs, target):
    """The gradients of the parameters, of the mean of squares."""
    made = transform(module, "grad", "optimizer=none")
    return values(made, {**inputs, "target": target})


ROUTES = {
    "Mixtral, gpt-oss": ("top_k = 2", False),
    "Qwen without normalisation": ("top_k = 3, normalize = false", False),
    "DeepSeek-V3": ('top_k = 3, score = "sigmoid", scale = 2.5, n_group = 4, topk_group = 2', True),
    "sigmoid": ('top_k = 1, score = "sigmoid", normalize = false', True),
}


@pytest.mark.parametrize("name", ROUTES)
def test_a_layer_and_its_gradients_are_those_of_torch(name):
    """Against experts applied one after the other to the tokens that chose them, and automatic differentiation."""
    torch = pytest.importorskip("torch")
    route, bias = ROUTES[name]
    module = layer(route, bias=bias)
    inputs = inputs_of(module)
    target = np.random.default_rng(1).normal(size=inputs["x"].shape)
    given = {name: torch.tensor(value, requires_grad=name != "bias") for name, value in inputs.items()}
    flat = given["x"].reshape(-1, WIDTH)
    logits = flat @ given["router"].T
    scores = logits.sigmoid() if "sigmoid" in route else logits.softmax(-1)
    choice = scores.detach() + (given["bias"] if bias else 0)
    if "n_group" in route:
        groups = choice.view(-1, 4, 2)
        best = groups.sum(-1).topk(2).indices
        hidden = torch.ones(len(flat), 4, dtype=torch.bool).scatter(1, best, False)
        choice = groups.masked_fill(hidden.unsqueeze(-1), -math.inf).flatten(1)
    chosen = choice.topk(module.entry().body[2].attrs["top_k"]).indices
    weights = scores.gather(1, chosen)
    if "normalize = false" not in route:
        weights = weights / weights.sum(-1, keepdim=True)
    weights = weights * (2.5 if "scale" in route else 1)
    total = torch.zeros_like(flat)
    for expert in range(EXPERTS):
        token, slot = torch.where(chosen == expert)
        rows = flat[token]
        hidden = torch.nn.functional.silu(rows @ given["gate"][expert].T) * (rows @ given["up"][expert].T)
        total = total.index_add(0, token, (hidden @ given["down"][expert].T) * weights[token, slot].unsqueeze(-1))
    y = total.reshape(given["x"].shape)
    (y - torch.tensor(target)).square().mean().backward()
    np.testing.assert_allclose(values(module, inputs)["y"], y.detach(), rtol=1e-12, atol=1e-14)
    found = gradients(module, inputs, target)
    for name in ("router", "gate", "up", "down"):
        np.testing.assert_allclose(found[f"d{name}"], given[name].grad, rtol=1e-9, atol=1e-14)


SIZES = {"hidden_size": WIDTH, "num_experts_per_tok": 3, "num_attention_heads": 2}

BLOCKS = {
    "Mixtral": ("mixtral", "SparseMoeBlock", {"intermediate_size": INNER, "num_local_experts": EXPERTS}),
    "Qwen2Moe": (
        "qwen2_moe",
        "SparseMoeBlock",
        {
            "moe_intermediate_size": INNER,
            "num_experts": EXPERTS,
            "shared_expert_intermediate_size": 12,
            "norm_topk_prob": False,
        },
    ),
    "DeepseekV3": (
        "deepseek_v3",
        "MoE",
        {
            "moe_intermediate_size": INNER,
            "n_routed_experts": EXPERTS,
            "n_group": 4,
            "topk_group": 2,
            "n_shared_experts": 2,
            "routed_scaling_factor": 2.5,
        },
    ),
    "GptOss": ("gpt_oss", "MLP", {"intermediate_size": INNER, "num_local_experts": EXPERTS}),
}

BLOCK_ROUTES = {
    "Mixtral": "top_k = 3",
    "Qwen2Moe": "top_k = 3, normalize = false",
    "DeepseekV3": 'top_k = 3, score = "sigmoid", scale = 2.5, n_group = 4, topk_group = 2',
    "GptOss": "top_k = 3",
}

SHARED = """
  %shared_gate_t = Transpose[perm = [1, 0]](%shared_gate)
  %shared_up_t = Transpose[perm = [1, 0]](%shared_up)
  %shared_down_t = Transpose[perm = [1, 0]](%shared_down)
  %sg = MatMul(%x, %shared_gate_t)
  %su = MatMul(%x, %shared_up_t)
  %ss = Swish(%sg)
  %sh = Mul(%ss, %su)
  %shared = MatMul(%sh, %shared_down_t)
"""
"""Shared experts are a dense layer beside the others."""

GATED = """
  %scale_t = Transpose[perm = [1, 0]](%scale)
  %scale_logit = MatMul(%x, %scale_t)
  %scale_weight = Sigmoid(%scale_logit)
  %scaled = Mul(%shared, %scale_weight)
  %all = Add(%y, %scaled)
  return %all
"""

ADDED = """
  %all = Add(%y, %shared)
  return %all
"""

GPT_OSS = """func @main(
  %x: Tensor[Float64, (2, 6, 8), 1] {batch = 0},
  %router: Tensor[Float64, (8, 8), 1] {param}, %router_bias: Tensor[Float64, (8,), 1] {param},
  %gate_up: Tensor[Float64, (8, 8, 20), 1] {param}, %gate_up_bias: Tensor[Float64, (8, 20), 1] {param},
  %down: Tensor[Float64, (8, 10, 8), 1] {param}, %down_bias: Tensor[Float64, (8, 8), 1] {param}
) {
  %flipped = Transpose[perm = [1, 0]](%router)
  %product = MatMul(%x, %flipped)
  %logits = Add(%product, %router_bias)
  %weights, %experts = Route[top_k = 3](%logits)
  %places, %counts = Dispatch[num_experts = 8](%experts)
  %rows = Permute(%x, %places)
  %both = RaggedMatMul(%rows, %gate_up, %counts)
  %both_bias = RaggedExpand(%gate_up_bias, %counts, 18)
  %biased = Add(%both, %both_bias)
  %gate = Slice(%biased, [0], [100], [-1], [2])
  %up = Slice(%biased, [1], [100], [-1], [2])
  %low = Clip(%gate, _, 7.0)
  %mid = Clip(%up, -7.0, 7.0)
  %swish = Swish[alpha = 1.702](%low)
  %one = Add(%mid, 1.0)
  %h = Mul(%one, %swish)
  %o = RaggedMatMul(%h, %down, %counts)
  %o_bias = RaggedExpand(%down_bias, %counts, 18)
  %out = Add(%o, %o_bias)
  %y = Unpermute(%out, %places, %weights)
  return %y
}
"""


def with_shared(module, name):
    """The layer with the shared experts of a model beside it."""
    params, end = "", ADDED
    for weight, shape in (("gate", (12, 8)), ("up", (12, 8)), ("down", (8, 12))):
        rows, columns = shape if name == "Qwen2Moe" else tuple(20 if n == 12 else n for n in shape)
        params += f"  %shared_{weight}: Tensor[Float64, ({rows}, {columns}), 1] {{param}},\n"
    if name == "Qwen2Moe":
        params, end = params + "  %scale: Tensor[Float64, (1, 8), 1] {param},\n", GATED
    text = distir.format(module).replace("  return %y\n", SHARED + end)
    return distir.parse(text.replace("  %router:", params + "  %router:"))


@pytest.mark.parametrize("name", BLOCKS)
def test_a_layer_is_that_of_transformers(name):
    """Values and gradients. Routers there compute in Float32."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import importlib

    folder, kind, settings = BLOCKS[name]
    found = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **settings)
    config._experts_implementation = "eager"
    block = getattr(found, f"{name}{kind}")(config).double()
    for parameter in [*block.parameters(), *block.buffers()]:
        torch.nn.init.normal_(parameter, std=0.5)
    gate = block.router if name == "GptOss" else block.gate
    experts = block.experts
    if name == "GptOss":
        module = distir.parse(GPT_OSS)
        held = {
            "router": gate.weight,
            "router_bias": gate.bias,
            "gate_up": experts.gate_up_proj,
            "gate_up_bias": experts.gate_up_proj_bias,
            "down": experts.down_proj,
            "down_bias": experts.down_proj_bias,
        }
    else:
        module = layer(BLOCK_ROUTES[name], bias=name == "DeepseekV3")
        held = {
            "router": gate.weight,
            "gate": (experts.gate_up_proj, slice(None, INNER)),
            "up": (experts.gate_up_proj, slice(INNER, None)),
            "down": experts.down_proj,
        }
    if name == "DeepseekV3":
        held["bias"] = gate.e_score_correction_bias
    if name in ("Qwen2Moe", "DeepseekV3"):
        module = with_shared(module, name)
        shared = block.shared_expert if name == "Qwen2Moe" else block.shared_experts
        held |= {f"shared_{part}": getattr(shared, f"{part}_proj").weight for part in ("gate", "up", "down")}
    if name == "Qwen2Moe":
        held["scale"] = block.shared_expert_gate.weight
    x = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    target = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    expected = block(x)
    expected = expected[0] if isinstance(expected, tuple) else expected
    (expected - target).square().mean().backward()

    def part(tensor):
        return tensor if not isinstance(tensor, tuple) else tensor[0][:, tensor[1]]

    def slope(tensor):
        return tensor.grad if not isinstance(tensor, tuple) else tensor[0].grad[:, tensor[1]]

    inputs = {"x": x.numpy()} | {key: part(tensor).detach().numpy() for key, tensor in held.items()}
    (y,) = values(module, inputs).values()
    np.testing.assert_allclose(y, expected.detach(), rtol=1e-5, atol=1e-6)
    slopes = gradients(module, inputs, target.numpy())
    for key, tensor in held.items():
        if key != "bias":
            np.testing.assert_allclose(slopes[f"d{key}"], slope(tensor), rtol=1e-4, atol=1e-6, err_msg=key)


AUXILIARY = """func @main(%logits: Tensor[Float64, (2, 6, 8), 1] {batch = 0}) {
  %weights, %experts = Route[top_k = 3](%logits)
  %places, %counts = Dispatch[num_experts = 8](%experts)
  %tokens = CastLike(%counts, %logits)
  %mean = ReduceMean[keepdims = false](%tokens, [0])
  %fraction = Mul(%mean, 0.16666666666666666)
  %scores = Softmax[axis = -1](%logits)
  %probability = ReduceMean[keepdims = false](%scores, [0, 1])
  %products = Mul(%fraction, %probability)
  %sum = ReduceSum[keepdims = false](%products)
  %balance = Mul(%sum, 8.0)
  %z = ReduceLogSumExp[keepdims = false](%logits, [-1])
  %squares = Mul(%z, %z)
  %z_loss = ReduceMean[keepdims = false](%squares)
  return %balance, %z_loss
}
"""
"""Of two sequences of 6 tokens: Switch's loss for balance, and the router's z-loss."""


def test_auxiliary_losses_are_compositions():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    logits = np.random.default_rng(0).normal(size=(2, 6, 8))
    found = values(distir.parse(AUXILIARY), {"logits": logits})
    given = torch.tensor(logits, requires_grad=True)
    balance = load_balancing_loss_func((given.reshape(12, 8),), 8, 3)
    np.testing.assert_allclose(found["balance"], balance.item(), rtol=1e-6)
    np.testing.assert_allclose(found["z_loss"], torch.logsumexp(given, -1).square().mean().item(), rtol=1e-12)


@pytest.mark.parametrize("loss", ["balance", "z_loss"])
def test_auxiliary_losses_have_gradients(loss):
    """Of the probabilities; how many tokens an expert has is no differentiable function."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    text = AUXILIARY.replace("return %balance, %z_loss", f"return %{loss}")
    text = text.replace(
        "%logits: Tensor[Float64, (2, 6, 8), 1] {batch = 0}", "%logits: Tensor[Float64, (2, 6, 8), 1] {param}"
    )
    logits = np.random.default_rng(0).normal(size=(2, 6, 8))
    made = transform(distir.parse(text), "grad", "optimizer=none")
    given = torch.tensor(logits, requires_grad=True)
    flat = given.reshape(12, 8)
    expected = (
        load_balancing_loss_func((flat,), 8, 3) if loss == "balance" else torch.logsumexp(flat, -1).square().mean()
    )
    expected.backward()
    _, slope = values(made, {"logits": logits}).values()
    np.testing.assert_allclose(slope, given.grad, rtol=1e-5, atol=1e-8)


def test_places_are_sorted_by_expert_and_then_by_token():
    experts = np.array([[[1, 0], [1, 2], [0, 1]]])
    places, counts = apply("Dispatch", experts, count=2, num_experts=4)
    assert counts.tolist() == [[2, 3, 1, 0]]
    assert places.tolist() == [[[2, 0], [3, 5], [1, 4]]]


def test_choices_beyond_a_capacity_are_dropped_in_token_order():
    experts = np.array([[1, 0], [1, 2], [0, 1]])
    places, counts = apply("Dispatch", experts, count=2, num_experts=3, capacity=2)
    assert counts.tolist() == [2, 3, 1]  # those dropped are counted
    assert places.tolist() == [[2, 0], [3, 4], [1, -1]]
    x = np.arange(1.0, 7.0).reshape(3, 2)
    (rows,) = run(OPS["Permute"], [x, places, None, np.array(6)], {}, 1)
    np.testing.assert_array_equal(rows, [x[0], x[2], x[0], x[1], x[1], 0 * x[0]])
    weights = np.array([[0.5, 0.25], [1.0, 2.0], [3.0, 4.0]])
    back = apply("Unpermute", rows, places, weights)
    np.testing.assert_allclose(back, [0.75 * x[0], 3 * x[1], 3 * x[2]])


CAPACITY = """func @main(
  %x: Tensor[Float64, (2, 6, 8), 1] {batch = 0},
  %router: Tensor[Float64, (8, 4), 1] {param},
  %up: Tensor[Float64, (4, 8, 10), 1] {param},
  %down: Tensor[Float64, (4, 10, 8), 1] {param}
) {
  %logits = MatMul(%x, %router)
  %weights, %experts = Route[top_k = 2](%logits)
  %places, %counts = Dispatch[num_experts = 4, capacity = CAP](%experts)
  %rows = Permute(%x, %places, _, ROWS)
  %u = RaggedMatMul(%rows, %up)
  %h = Gelu(%u)
  %o = RaggedMatMul(%h, %down)
  %y = Unpermute(%o, %places, %weights)
  return %y
}
"""


def capacity(size):
    return distir.parse(CAPACITY.replace("CAP", str(size)).replace("ROWS", str(4 * size)))


def test_with_room_for_all_a_capacity_changes_nothing():
    text = distir.format(capacity(12)).replace(", capacity = 12", "").replace("%places, _, 48", "%places")
    plain = distir.parse(text.replace("%up)", "%up, %counts)").replace("%down)", "%down, %counts)"))
    inputs = inputs_of(plain)
    np.testing.assert_allclose(values(capacity(12), inputs)["y"], values(plain, inputs)["y"], rtol=1e-12)
    target = inputs["x"][::-1]
    found, expected = gradients(capacity(12), inputs, target), gradients(plain, inputs, target)
    for name in ("drouter", "dup", "ddown"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-15)


def test_what_is_dropped_has_no_gradient():
    module = capacity(1)
    inputs = inputs_of(module)
    target = np.zeros((2, 6, 8))
    step = 1e-6
    found = gradients(module, inputs, target)["drouter"]
    for index in [(0, 0), (3, 2), (7, 1)]:
        sides = []
        for sign in (1, -1):
            moved = {**inputs, "router": inputs["router"].copy()}
            moved["router"][index] += sign * step
            sides.append(np.mean(np.square(values(module, moved)["y"])))
        np.testing.assert_allclose(found[index], (sides[0] - sides[1]) / (2 * step), rtol=1e-5, atol=1e-9)


def tensor(*shape, dtype="Float32"):
    return TensorType(DTYPES[dtype], shape, 1)


def cost(name, *operands, **attrs):
    op, given = OPS[name], Attributes(attrs)
    return work(op, operands, infer_types(op, operands, given, 1), given)


def product(rows, **attrs):
    return cost("RaggedMatMul", tensor(rows, 16), tensor(64, 16, 32), tensor(64, dtype="Int64"), **attrs)


def test_each_row_is_multiplied_once_and_moved_once():
    rows, weights, counts = 1 << 20, 64 * 16 * 32 * 4, 64 * 8
    done = product(rows)
    assert done.flops == 2 * rows * 16 * 32
    assert done.bytes == rows * (16 + 32) * 4 + weights + counts


def test_few_tokens_read_the_weights_of_few_experts():
    """One token of k experts reads k of them; of n tokens, each expert misses all with probability (1 - k / E)ⁿ."""
    expert, row = 16 * 32 * 4, (16 + 32) * 4
    assert product(8, top_k=8).bytes == 8 * row + 8 * expert + 512
    assert product(16, top_k=8).bytes == 16 * row + 15 * expert + 512
    experts = 64 * (1 - (1 - 1 / 64) ** 32)
    assert product(32).bytes == pytest.approx(32 * row + experts * expert + 512, abs=1)


@pytest.mark.parametrize("tokens", [1, 3, 1000])
def test_products_in_token_order_are_the_work_of_sorted_rows(tokens):
    grouped = cost("GroupedMatMul", tensor(tokens, 8, 16), tensor(64, 16, 32), tensor(tokens, 8, dtype="Int64"))
    sorted_rows = product(tokens * 8, top_k=8)
    assert grouped.flops == sorted_rows.flops
    assert grouped.bytes - tokens * 8 * 8 == pytest.approx(sorted_rows.bytes - 64 * 8, abs=1)


def test_an_expert_is_a_product_of_its_rows_in_all_groups():
    groups, one = (
        cost("RaggedMatMul", tensor(*rows, 16), tensor(64, 16, 32), tensor(*rows[:-1], 64, dtype="Int64"))
        for rows in ((4, 1 << 10), (1 << 12,))
    )
    assert groups.contractions == one.contractions
    assert groups.products_of_experts == 64


def test_hosts_may_wait_for_the_counts_of_a_dispatch_alone():
    assert cost("Dispatch", tensor(6, 2, dtype="Int64"), num_experts=4).counts
    assert not product(8).counts


def test_with_a_capacity_empty_rows_are_computed_too():
    done = cost("RaggedMatMul", tensor(2, 64, 16), tensor(64, 16, 32))
    assert done.flops == 2 * 128 * 16 * 32
    assert done.bytes == 4 * (128 * (16 + 32) + 64 * 16 * 32)


def test_a_load_multiplies_the_work_of_rows_and_not_that_of_weights():
    even, busy, fixed = product(1 << 20), product(1 << 20, load=1.3), 64 * 16 * 32 * 4 + 512
    assert busy.flops == pytest.approx(1.3 * even.flops)
    assert busy.bytes - fixed == pytest.approx(1.3 * (even.bytes - fixed))
    x, w, counts = np.ones((3, 2)), np.ones((2, 2, 4)), np.array([1, 2])
    np.testing.assert_array_equal(apply("RaggedMatMul", x, w, counts, load=0.5), apply("RaggedMatMul", x, w, counts))


def test_a_load_is_that_of_the_gradients_too():
    text = distir.format(layer("top_k = 2")).replace("transW = true", "transW = true, load = 1.5, top_k = 2")
    step = transform(distir.parse(text), "grad")
    found = [s for s in step.entry().body if getattr(s, "op", "").startswith("RaggedMatMul")]
    assert len(found) == 3 + 1 + 3  # what is before the first two asks for no gradient
    assert {(s.attrs["load"], s.attrs["top_k"]) for s in found} == {(1.5, 2)}


def test_rows_after_those_of_experts_give_zeros():
    x, w = np.ones((4, 2)), np.ones((2, 2, 3))
    y = apply("RaggedMatMul", x, w, np.array([1, 2]))
    np.testing.assert_array_equal(y, [[2.0] * 3] * 3 + [[0.0] * 3])


def test_of_equal_scores_the_first_experts_are_chosen():
    weights, experts = apply("Route", np.zeros((2, 6), np.float32), count=2, top_k=3)
    assert experts.tolist() == [[0, 1, 2]] * 2
    np.testing.assert_allclose(weights, 1 / 3, rtol=1e-6)


def test_a_bias_changes_the_choice_and_not_the_weights():
    logits = np.array([[3.0, 2.0, 1.0]])
    _, experts = apply("Route", logits, np.array([-9.0, 0.0, 0.0]), count=2, top_k=2, score="sigmoid")
    assert experts.tolist() == [[1, 2]]
    weights, _ = apply("Route", logits, np.array([-9.0, 0.0, 0.0]), count=2, top_k=2, score="sigmoid", normalize=False)
    np.testing.assert_allclose(weights, 1 / (1 + np.exp([[-2.0, -1.0]])))


LOGITS, CHOICES = np.zeros((5, 8), np.float32), np.zeros((5, 2), np.int64)


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "said"),
    [
        ("Route", [LOGITS], {"top_k": 9}, "`Route` expected `top_k` from 1 to 8 experts, found 9"),
        ("Route", [LOGITS], {"top_k": 0}, "`Route` expected `top_k` from 1 to 8 experts, found 0"),
        (
            "Route",
            [LOGITS],
            {"top_k": 5, "n_group": 4, "topk_group": 2},
            "`Route` expected `top_k` from 1 to 4 experts, those of 2 of 4 groups, found 5",
        ),
        (
            "Route",
            [LOGITS],
            {"top_k": 2, "n_group": 3},
            "`Route` expected groups of equal size, found 8 experts in 3 groups",
        ),
        ("Route", [LOGITS], {"top_k": 2, "n_group": 0}, "`Route` expected at least 1 group, found 0"),
        (
            "Route",
            [LOGITS],
            {"top_k": 2, "n_group": 4, "topk_group": 5},
            "`Route` expected from 1 to 4 groups to choose from, found 5",
        ),
        (
            "Route",
            [LOGITS],
            {"top_k": 2, "n_group": 8},
            "`Route` expected from 1 to 1 experts to count a group by, found 2",
        ),
        ("Route", [LOGITS], {"top_k": 2, "score": "tanh"}, '`Route` expected "softmax" or "sigmoid", found "tanh"'),
        ("Dispatch", [CHOICES], {"num_experts": 0}, "`Dispatch` expected at least 1 expert, found 0"),
        (
            "Dispatch",
            [CHOICES],
            {"num_experts": 8, "capacity": 0},
            "`Dispatch` expected a capacity of at least 1, found 0",
        ),
        ("Permute", [LOGITS, CHOICES], {"rows": -1}, "`Permute` expected a number of rows from 0, found -1"),
        (
            "RaggedMatMul",
            [LOGITS, np.zeros((3, 8, 4), np.float32), np.zeros(3, np.int64)],
            {"load": 0},
            "`RaggedMatMul` expected a load above 0, found 0.0",
        ),
        (
            "RaggedMatMul",
            [LOGITS, np.zeros((3, 8, 4), np.float32), np.zeros(3, np.int64)],
            {"top_k": 0},
            "`RaggedMatMul` expected at least 1 row for a token, found 0",
        ),
    ],
)
def test_bad_attributes_are_refused(op, operands, attrs, said):
    rows = attrs.pop("rows", None)
    given = operands if rows is None else [*operands, None, rows]
    count = 2 if op in ("Route", "Dispatch") else 1
    assert rejects(op, *given, count=count, **attrs) == (codes.BAD_VALUE, said)


def test_bad_operands_are_refused():
    assert rejects("Dispatch", LOGITS, count=2, num_experts=8)[0] is codes.DTYPE_MISMATCH
    assert rejects("Route", LOGITS, count=2)[0] is name_codes.MISSING_ATTRIBUTE
    assert rejects("Unpermute", LOGITS, LOGITS)[0] is codes.DTYPE_MISMATCH
    weights, counts = np.zeros((3, 7, 4), np.float32), np.zeros(3, np.int64)
    assert rejects("RaggedMatMul", LOGITS, weights, counts) == (
        codes.SHAPE_MISMATCH,
        "`RaggedMatMul` operands disagree on dimension `k`: expected 8, found 7",
    )
    assert rejects("RaggedMatMul", LOGITS, np.zeros((4, 8, 4), np.float32), counts)[0] is codes.SHAPE_MISMATCH
    assert rejects("RaggedMatMul", LOGITS, np.zeros((3, 8, 4), np.float32)) == (
        codes.SHAPE_MISMATCH,
        "`RaggedMatMul` without `counts` expected equally many rows for each of 3 experts, found 5",
    )
    assert rejects("RaggedMatMulGrad", LOGITS, LOGITS) == (
        codes.BAD_VALUE,
        "`RaggedMatMulGrad` expected either `counts` or `experts`, found neither",
    )


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "said"),
    [
        ("Dispatch", [CHOICES + 8], {"num_experts": 8}, "`Dispatch` expected experts from 0 to 7, found 8 to 8"),
        ("Permute", [LOGITS, CHOICES + 10], {}, "`Permute` expected rows from -1 to 9, found 10 to 10"),
        ("Unpermute", [LOGITS, CHOICES - 2], {}, "`Unpermute` expected rows from -1 to 4, found -2 to -2"),
        (
            "RaggedMatMul",
            [LOGITS, np.zeros((2, 8, 4), np.float32), np.array([3, 3])],
            {},
            "`RaggedMatMul` expected counts whose sum is at most 5 rows, found 6",
        ),
    ],
)
def test_bad_values_are_refused_where_they_are_computed(op, operands, attrs, said):
    with pytest.raises(Reject) as caught:
        run(OPS[op], operands, bind(OPS[op], Attributes(attrs)), 1)
    assert caught.value.message == said
