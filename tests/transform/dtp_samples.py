"""Models to distribute in every way: eight layers each, and sizes that divide by eight. Float64 throughout."""

import re
from functools import cache

import distir
from distir.models import gpt2, mlp

LAYERS = 8
"""How many layers there are if nothing else is said."""
BATCH = 64

LLAMA = """
func @block(
  %x: Tensor[Float64, (B, 3, 8)],
  %n1: Tensor[Float64, (8,)], %wq: Tensor[Float64, (8, 32)], %wk: Tensor[Float64, (8, 16)],
  %wv: Tensor[Float64, (8, 16)], %wo: Tensor[Float64, (32, 8)],
  %n2: Tensor[Float64, (8,)], %wg: Tensor[Float64, (8, 16)], %wu: Tensor[Float64, (8, 16)],
  %wd: Tensor[Float64, (16, 8)]
) {
  %a = RMSNormalization(%x, %n1)
  %q = MatMul(%a, %wq)
  %k = MatMul(%a, %wk)
  %v = MatMul(%a, %wv)
  %mixed = Attention[is_causal = true, q_num_heads = 16, kv_num_heads = 8](%q, %k, %v)
  %out = MatMul(%mixed, %wo)
  %y = Add(%x, %out)
  %b = RMSNormalization(%y, %n2)
  %gate = MatMul(%b, %wg)
  %active = Swish(%gate)
  %up = MatMul(%b, %wu)
  %inner = Mul(%active, %up)
  %down = MatMul(%inner, %wd)
  %z = Add(%y, %down)
  return %z
}

func @main(
  %table: Tensor[Float64, (24, 8), 1] {param},
  PARAMS
  %nf: Tensor[Float64, (8,), 1] {param},
  %head: Tensor[Float64, (8, 24), 1] {param},
  %ids: Tensor[Int64, (64, 3), 1] {batch = 0}
) {
  %x0 = Gather[axis = 0](%table, %ids)
  CALLS
  %hidden = RMSNormalization(%x8, %nf)
  %logits = MatMul(%hidden, %head)
  return %logits
}
"""
"""Gated blocks with grouped queries, and embeddings that are not tied."""

LLAMA_WEIGHTS = {
    "n1": "(8,)", "wq": "(8, 32)", "wk": "(8, 16)", "wv": "(8, 16)", "wo": "(32, 8)",
    "n2": "(8,)", "wg": "(8, 16)", "wu": "(8, 16)", "wd": "(16, 8)",
}  # fmt: skip

VIT = """
func @block(
  %x: Tensor[Float64, (B, 5, 16)],
  %s1: Tensor[Float64, (16,)], %t1: Tensor[Float64, (16,)],
  %wqkv: Tensor[Float64, (16, 48)], %bqkv: Tensor[Float64, (48,)],
  %wo: Tensor[Float64, (16, 16)], %bo: Tensor[Float64, (16,)],
  %s2: Tensor[Float64, (16,)], %t2: Tensor[Float64, (16,)],
  %w1: Tensor[Float64, (16, 24)], %b1: Tensor[Float64, (24,)],
  %w2: Tensor[Float64, (24, 16)], %b2: Tensor[Float64, (16,)]
) {
  %n1 = LayerNormalization(%x, %s1, %t1)
  %product = MatMul(%n1, %wqkv)
  %qkv = Add(%product, %bqkv)
  %q, %k, %v = Split[axis = -1, num_outputs = 3](%qkv)
  %q_heads = Reshape(%q, [0, 0, 8, 2])
  %k_heads = Reshape(%k, [0, 0, 8, 2])
  %v_heads = Reshape(%v, [0, 0, 8, 2])
  %qs = Transpose[perm = [0, 2, 1, 3]](%q_heads)
  %ks = Transpose[perm = [0, 2, 3, 1]](%k_heads)
  %vs = Transpose[perm = [0, 2, 1, 3]](%v_heads)
  %scores = MatMul(%qs, %ks)
  %scaled = Mul(%scores, 0.7071067811865476)
  %shares = Softmax(%scaled)
  %mixed = MatMul(%shares, %vs)
  %tokens = Transpose[perm = [0, 2, 1, 3]](%mixed)
  %joined = Reshape(%tokens, [0, 0, 16])
  %out_0 = MatMul(%joined, %wo)
  %out = Add(%out_0, %bo)
  %y = Add(%x, %out)
  %n2 = LayerNormalization(%y, %s2, %t2)
  %h_0 = MatMul(%n2, %w1)
  %h_1 = Add(%h_0, %b1)
  %h_2 = Gelu(%h_1)
  %h_3 = MatMul(%h_2, %w2)
  %h_4 = Add(%h_3, %b2)
  %z = Add(%y, %h_4)
  return %z
}

func @embed(
  %image: Tensor[Float64, (B, 3, 4, 4)], %patch: Tensor[Float64, (12, 16)], %class: Tensor[Float64, (1, 1, 16)],
  %place: Tensor[Float64, (5, 16)]
) {
  %rows = Reshape(%image, [0, 3, 2, 2, 2, 2])
  %patches = Transpose[perm = [0, 2, 4, 3, 5, 1]](%rows)
  %flat = Reshape(%patches, [0, 4, 12])
  %embedded = MatMul(%flat, %patch)
  %first = Slice(%embedded, [0], [1], [1])
  %nothing = Mul(%first, 0.0)
  %classes = Add(%nothing, %class)
  %tokens = Concat[axis = 1](%classes, %embedded)
  %x = Add(%tokens, %place)
  return %x
}

func @classify(%x: Tensor[Float64, (B, 5, 16)], %head: Tensor[Float64, (16, 8)]) {
  %pooled = ReduceMean[keepdims = false](%x, [1])
  %logits = MatMul(%pooled, %head)
  return %logits
}

func @main(
  %patch: Tensor[Float64, (12, 16), 1] {param}, %class: Tensor[Float64, (1, 1, 16), 1] {param},
  %place: Tensor[Float64, (5, 16), 1] {param},
  PARAMS
  %head: Tensor[Float64, (16, 8), 1] {param},
  %image: Tensor[Float64, (64, 3, 4, 4), 1] {batch = 0}
) {
  %x0 = @embed(%image, %patch, %class, %place)
  CALLS
  %logits = @classify(%x8, %head)
  return %logits
}
"""
"""A vision transformer: patches, a class token, biases, attention written out."""

VIT_WEIGHTS = {
    "s1": "(16,)", "t1": "(16,)", "wqkv": "(16, 48)", "bqkv": "(48,)", "wo": "(16, 16)", "bo": "(16,)",
    "s2": "(16,)", "t2": "(16,)", "w1": "(16, 24)", "b1": "(24,)", "w2": "(24, 16)", "b2": "(16,)",
}  # fmt: skip


def layered(text, weights, layers):
    """The program with so many layers in the place of PARAMS and CALLS."""
    numbers = range(1, layers + 1)
    params = [f"%{n}_{i}: Tensor[Float64, {s}, 1] {{param}}," for i in numbers for n, s in weights.items()]
    calls = [f"%x{i} = @block(%x{i - 1}, {', '.join(f'%{n}_{i}' for n in weights)})" for i in numbers]
    written = text.replace("PARAMS", "\n".join(params)).replace("CALLS", "\n".join(calls))
    return distir.parse(re.sub(r"%x8\b", f"%x{layers}", written))


def small_gpt2(layers=LAYERS):
    return gpt2(layers, 16, 8, 3, batch=BATCH, dtype="Float64", vocabulary=16, positions=4)


def llama(layers=LAYERS):
    return layered(LLAMA, LLAMA_WEIGHTS, layers)


def vit(layers=LAYERS):
    return layered(VIT, VIT_WEIGHTS, layers)


def trained(model, *words):
    """Makes the training step of what a function of the number of layers makes."""
    return lambda layers=LAYERS: distir.transform(model(layers), "grad", "lr=0.1", *words)


MODELS = {
    "mlp training": cache(lambda layers=LAYERS: mlp(layers, 8, BATCH, "Float64", training=True, learning_rate=0.1)),
    "gpt-2 inference": cache(small_gpt2),
    "gpt-2 training": cache(trained(small_gpt2, "loss=cross_entropy", "optimizer=adam")),
    "llama inference": cache(llama),
    "llama training": cache(trained(llama, "loss=cross_entropy")),
    "vit inference": cache(vit),
    "vit training": cache(trained(vit, "loss=mse", "optimizer=momentum")),
}
"""By name: functions that make a model of so many layers."""
