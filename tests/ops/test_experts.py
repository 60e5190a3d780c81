"""Mixtures of experts: routers, the order of tokens by expert, grouped products, against torch and `transformers`."""

import math

import numpy as np
import pytest
from op_samples import apply

import distir
from distir.analysis import execute
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


def test_places_are_sorted_by_expert_and_then_by_token():
    experts = np.array([[[1, 0], [1, 2], [0, 1]]])
    places, counts = apply("Dispatch", experts, count=2, num_experts=4)
    assert counts.tolist() == [[2, 3, 1, 0]]
    assert places.tolist() == [[[2, 0], [3, 5], [1, 4]]]
