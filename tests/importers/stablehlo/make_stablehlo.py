"""Writes the files beside it: functions of JAX as StableHLO, with arguments and what JAX computes of them.

    pip install jax flax
    python tests/importers/stablehlo/make_stablehlo.py [FOLDER]

They were written with jax 0.10.2 and flax 0.13 on Linux. Four devices are simulated for the annotated ones. Without
flax, its model is left out.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, HEADS, LAYERS, VOCABULARY, TOKENS, BATCH = 8, 2, 2, 16, 8, 4


def normal(key, *shape):
    return 0.3 * jax.random.normal(key, shape)


# A GPT: layers in a Python list.


def gpt_params():
    keys = iter(jax.random.split(jax.random.key(0), 100))

    def layer():
        w = {name: normal(next(keys), WIDTH, WIDTH) for name in ("wq", "wk", "wv", "wo")}
        w |= {"w1": normal(next(keys), WIDTH, 4 * WIDTH), "w2": normal(next(keys), 4 * WIDTH, WIDTH)}
        return w | {
            f"{name}{i}": getattr(jnp, of)(WIDTH) for i in (1, 2) for name, of in (("g", "ones"), ("b", "zeros"))
        }

    embeddings = {"wte": normal(next(keys), VOCABULARY, WIDTH), "wpe": normal(next(keys), TOKENS, WIDTH)}
    return {**embeddings, "layers": [layer() for _ in range(LAYERS)], "gf": jnp.ones(WIDTH), "bf": jnp.zeros(WIDTH)}


def layer_norm(x, weight, bias):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * weight + bias


def attention(p, x):
    batch, tokens, width = x.shape
    q, k, v = ((x @ p[n]).reshape(batch, tokens, HEADS, -1).transpose(0, 2, 1, 3) for n in ("wq", "wk", "wv"))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(width // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)
    return mixed.transpose(0, 2, 1, 3).reshape(batch, tokens, width) @ p["wo"]


def gpt_layer(p, x):
    x = x + attention(p, layer_norm(x, p["g1"], p["b1"]))
    return x + jax.nn.gelu(layer_norm(x, p["g2"], p["b2"]) @ p["w1"]) @ p["w2"]


def gpt(params, tokens, between=lambda x: x):
    x = params["wte"][tokens] + params["wpe"][jnp.arange(tokens.shape[1])]
    for p in params["layers"]:
        x = between(gpt_layer(p, x))
    return layer_norm(x, params["gf"], params["bf"]) @ params["wte"].T


def loss_of(model):
    def loss(params, tokens, labels):
        likelihoods = jax.nn.log_softmax(model(params, tokens).astype(jnp.float32))
        return -jnp.take_along_axis(likelihoods, labels[..., None], -1).mean()

    return loss


def step_of(model):
    def step(params, tokens, labels):
        loss, gradients = jax.value_and_grad(loss_of(model))(params, tokens, labels)
        return loss, jax.tree.map(lambda p, g: (p - 0.1 * g).astype(p.dtype), params, gradients)

    return step


# A Llama: layers in arrays of one more dimension, run by `lax.scan`, computed again in the backward pass.


def llama_params(dtype=jnp.float32):
    keys = iter(jax.random.split(jax.random.key(1), 100))
    half = WIDTH // 2
    shapes = {"wq": (WIDTH, WIDTH), "wk": (WIDTH, half), "wv": (WIDTH, half), "wo": (WIDTH, WIDTH)}
    shapes |= {"w1": (WIDTH, 2 * WIDTH), "w3": (WIDTH, 2 * WIDTH), "w2": (2 * WIDTH, WIDTH)}
    layers = {name: normal(next(keys), LAYERS, *shape).astype(dtype) for name, shape in shapes.items()}
    layers |= {name: jnp.ones((LAYERS, WIDTH), dtype) for name in ("g1", "g2")}
    ends = {"embed": normal(next(keys), VOCABULARY, WIDTH), "head": normal(next(keys), WIDTH, VOCABULARY)}
    return {"layers": layers, "norm": jnp.ones(WIDTH, dtype), **{name: w.astype(dtype) for name, w in ends.items()}}


def rms_norm(x, weight):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(x.dtype) * weight


def rotated(x):
    """The two halves of each head turned by the token's place."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 10_000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[:, None].astype(x.dtype), jnp.sin(angles)[:, None].astype(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


def llama_layer(x, p):
    batch, tokens, width = x.shape
    own = rms_norm(x, p["g1"])
    q, k, v = ((own @ p[n]).reshape(batch, tokens, -1, width // HEADS) for n in ("wq", "wk", "wv"))
    mixed = jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
    x = x + mixed.reshape(batch, tokens, width) @ p["wo"]
    own = rms_norm(x, p["g2"])
    return x + (jax.nn.silu(own @ p["w1"]) * (own @ p["w3"])) @ p["w2"], None


def llama(params, tokens):
    x, _ = jax.lax.scan(jax.checkpoint(llama_layer), params["embed"][tokens], params["layers"])
    return rms_norm(x, params["norm"]) @ params["head"]


# A model that was not written here, of flax's own layers.


def flax_model():
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.norm1, self.norm2 = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.RMSNorm(WIDTH, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
            self.up, self.down = nnx.Linear(WIDTH, 2 * WIDTH, rngs=rngs), nnx.Linear(2 * WIDTH, WIDTH, rngs=rngs)

        def __call__(self, x, mask):
            x = x + self.attention(self.norm1(x), mask=mask)
            return x + self.down(nnx.gelu(self.up(self.norm2(x)), approximate=False))

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.embed = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs)
            self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
            self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)

        def __call__(self, tokens):
            x, mask = self.embed(tokens), nnx.make_causal_mask(tokens)
            for block in self.blocks:
                x = block(x, mask)
            return self.embed.attend(self.norm(x))

    graph, state = nnx.split(Model(nnx.Rngs(0)))
    return lambda params, tokens: nnx.merge(graph, params)(tokens), state


# What transformers have beside that.


def pieces(x, tokens, start):
    """Operations that the models above do without."""
    values, places = jax.lax.top_k(x, 3)
    window = jax.lax.dynamic_slice_in_dim(x, start, 2, axis=1)
    written = jax.lax.dynamic_update_slice_in_dim(x, jnp.zeros_like(window), start, axis=1)
    halves = jax.lax.fori_loop(0, 4, lambda i, s: s + x[:, i] * i, jnp.zeros(x.shape[0]))
    return {
        "argmax": jnp.argmax(x, -1),
        "top": values,
        "places": places,
        "cumulative": jnp.cumsum(x, -1),
        "softplus": jax.nn.softplus(x),
        "flipped": jnp.flip(x, 1),
        "padded": jnp.pad(x, ((0, 1), (2, 0)), constant_values=1.5),
        "variance": jnp.var(x, 0, ddof=1),
        "every_other": jnp.concatenate([x, x], 1)[:, 1:9:2],
        "window": window,
        "written": written,
        "one_hot": jax.nn.one_hot(tokens, 5),
        "looped": halves,
        "clipped": jnp.clip(x, -0.5, 0.5),
        "counts": jnp.zeros(VOCABULARY).at[tokens].add(1.0),
        "picked": x[jnp.arange(2), jnp.array([2, 0])],
        "remainder": tokens % 3,
        "outer": jnp.einsum("ij,kl->ikjl", x[:2, :2], x[2:, :2]),
        "logsumexp": jax.nn.logsumexp(x, -1),
        "finite": jnp.isfinite(x / 0.0),
        "squares": jax.lax.map(lambda row: row * row, x),
        "either": (x > 0) ^ (x > 0.5),
        "least": jnp.min(x, 0),
        "all": jnp.all(x > -9, -1),
    }


def places(x, i, j):
    """Indices out of range: XLA clamps what is read, and leaves out what is written."""
    row = i[:, None]
    return {
        "plain": x[i],
        "pairs": x[i, j],
        "clipped": jnp.take(x, i, axis=1, mode="clip"),
        "filled": jnp.take(x, i, axis=0),
        "along": jnp.take_along_axis(x, row, 1),
        "along_clipped": jnp.take_along_axis(x, row, 1, mode="clip"),
        "unsigned": x[i.astype(jnp.uint32)],
        "bytes": x[i.astype(jnp.int8)],
        "window": jax.lax.dynamic_slice(x, (i[0], j[0]), (2, 3)),
        "in_range": x[0][jnp.argmax(x, 1)],
        "written": jax.lax.dynamic_update_slice_in_dim(x, jnp.ones((2, 6)), i[1], 0),
        "added": x.at[i].add(1.0),
        "largest": x.at[i].max(0.3),
        "multiplied": x.at[i].multiply(2.0),
        "pairs_added": x.at[i, j].add(3.0),
        "integers": jnp.arange(4).at[i].min(1),
    }


# Attention whose heads share keys and values, and rotary embeddings, as people write them.


def masked_softmax(scores):
    tokens = scores.shape[-1]
    seen = jnp.tril(jnp.ones((tokens, tokens), bool))
    return jax.nn.softmax(jnp.where(seen, scores, -1e30), -1)


def by_groups(q, k, v):
    batch, tokens, heads, size = q.shape
    q = q.reshape(batch, tokens, k.shape[2], -1, size)
    weights = masked_softmax(jnp.einsum("btkgh,bskh->bkgts", q, k) / np.sqrt(size))
    return jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(batch, tokens, heads, size)


def repeated(q, k, v):
    k, v = (jnp.repeat(x, q.shape[2] // k.shape[2], axis=2) for x in (k, v))
    weights = masked_softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def of_one_head(q, k, v):
    weights = masked_softmax(jnp.einsum("btnh,bsh->bnts", q, k[:, :, 0]) * q.shape[-1] ** -0.5)
    return jnp.einsum("bnts,bsh->btnh", weights, v[:, :, 0])


def each_of_its_own(forms, x):
    """By name: functions of `x`, which is another value for each, or they would share what they compute."""
    return {name: form(x + number) for number, (name, form) in enumerate(forms.items())}


def attentions(q, k, v, mask, bias):
    attend = jax.nn.dot_product_attention

    def narrow(q):
        return attend(*(x.astype(jnp.bfloat16) for x in (q, k, v)), is_causal=True).astype(jnp.float32)

    forms = {
        "causal": lambda q: attend(q, k, v, is_causal=True),
        "window": lambda q: attend(q, k, v, is_causal=True, local_window_size=(2, 0)),
        "masked": lambda q: attend(q, k, v, mask=mask),
        "biased": lambda q: attend(q, k, v, bias=bias),
        "one_head": lambda q: attend(q, k[:, :, :1], v[:, :, :1], is_causal=True),
        "bfloat16": narrow,
        "groups": lambda q: by_groups(q, k, v),
        "repeated": lambda q: repeated(q, k, v),
        "of_one_head": lambda q: of_one_head(q, k, v),
    }
    return each_of_its_own(forms, q)


def apart(x, cos, sin):
    left, right = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


def half_negated(x, cos, sin):
    half = x.shape[-1] // 2
    cos, sin = (jnp.concatenate([table, table], -1) for table in (cos, sin))
    return x * cos + jnp.concatenate([-x[..., half:], x[..., :half]], -1) * sin


def neighbours(x, cos, sin):
    even, odd = x[..., 0::2], x[..., 1::2]
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def rotations(x, positions):
    """Of positions that are known, and of those that are given."""
    rates = 10_000.0 ** (-jnp.arange(x.shape[-1] // 2) / (x.shape[-1] // 2))
    given = positions[..., None, None] * rates
    known = jnp.arange(x.shape[1])[:, None, None] * rates

    def turning(form, angles, dtype):
        return lambda x: form(x.astype(dtype), jnp.cos(angles), jnp.sin(angles)).astype(dtype).astype(x.dtype)

    forms = {
        f"{name}_{form.__name__}": turning(form, angles, jnp.float32)
        for name, angles in (("given", given), ("known", known))
        for form in (apart, half_negated, neighbours)
    }
    return each_of_its_own(forms | {"bfloat16": turning(apart, known, jnp.bfloat16)}, x)


# Annotated.

COLUMNS, ROWS = ("wq", "wk", "wv", "w1"), ("wo", "w2")


def meshed(columns, rows, others):
    """Shardings of the GPT's parameters over `data` and `model`, two devices each."""
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "model"))
    of = {**dict.fromkeys(COLUMNS, columns), **dict.fromkeys(ROWS, rows)}
    return mesh, lambda path, _: NamedSharding(mesh, of.get(str(path[-1].key), others))


def arguments(params, labels=False):
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, VOCABULARY, (2, BATCH, TOKENS)).astype(np.int32)
    return (params, tokens[0], tokens[1]) if labels else (params, tokens[0])


def functions():
    """By name: a function that is compiled, and its arguments."""
    made = {}
    small = gpt_params()
    made["gpt"] = jax.jit(gpt, keep_unused=True), arguments(small)
    made["gpt_step"] = jax.jit(step_of(gpt), donate_argnums=0), arguments(small, True)
    made["llama"] = jax.jit(llama), arguments(llama_params())
    made["llama_step"] = jax.jit(step_of(llama)), arguments(llama_params(), True)
    made["llama_bf16"] = jax.jit(llama), arguments(llama_params(jnp.bfloat16))
    if importlib.util.find_spec("flax"):
        model, state = flax_model()
        made["flax"] = jax.jit(model), arguments(state)
    x = jax.random.normal(jax.random.key(2), (4, 6))
    made["pieces"] = jax.jit(pieces), (x, np.arange(4, dtype=np.int32), np.int32(3))
    made["places"] = jax.jit(places), (x, np.array([-9, 5, -2, 100], np.int32), np.array([8, -100, 0, 3], np.int32))
    keys = iter(jax.random.split(jax.random.key(3), 9))
    q, k, v = (jax.random.normal(next(keys), (2, 6, heads, 8)) for heads in (4, 2, 2))
    mask = np.tril(np.ones((2, 1, 6, 6), bool))
    made["attentions"] = jax.jit(attentions), (q, k, v, mask, jax.random.normal(next(keys), (2, 4, 6, 6)))
    made["rotations"] = jax.jit(rotations), (q, np.arange(12, dtype=np.int32).reshape(2, 6))

    mesh, of = meshed(P(None, "model"), P("model", None), P())
    megatron, data = jax.tree_util.tree_map_with_path(of, small), NamedSharding(mesh, P("data", None))
    logits = NamedSharding(mesh, P("data", None, "model"))
    made["megatron"] = jax.jit(gpt, in_shardings=(megatron, data), out_shardings=logits), arguments(small)
    made["megatron_step"] = (
        jax.jit(step_of(gpt), in_shardings=(megatron, data, data), out_shardings=(None, megatron)),
        arguments(small, True),
    )
    spread = NamedSharding(mesh, P("data", "model", None))

    def constrained(params, tokens):
        return gpt(params, tokens, lambda x: jax.lax.with_sharding_constraint(x, spread))

    made["sequence"] = jax.jit(constrained, in_shardings=(megatron, data)), arguments(small)
    mesh, of = meshed(P("data", "model"), P(("data", "model"), None), P("data"))
    fsdp = jax.tree_util.tree_map_with_path(of, small)
    both = NamedSharding(mesh, P(("data", "model"), None))
    made["fsdp_step"] = (
        jax.jit(step_of(gpt), in_shardings=(fsdp, both, both), out_shardings=(NamedSharding(mesh, P()), fsdp)),
        arguments(small, True),
    )
    return made


def text_of(function, given):
    return function.lower(*given).as_text(debug_info=True)


def without_places(text):
    """The text without what operations say of Python: names of arguments stay."""
    lines = [line for line in text.splitlines() if not line.startswith("#loc")]
    kept = []
    for line in lines:
        if "func.func" not in line:
            while (at := line.rfind(" loc(")) >= 0 and line.endswith(")"):
                line = line[:at]
        kept.append(line)
    return "\n".join(kept) + "\n"


def main(folder):
    for name, (function, given) in functions().items():
        (folder / f"{name}.mlir").write_text(without_places(text_of(function, given)))
        if name in ("megatron", "megatron_step", "sequence", "fsdp_step"):
            continue  # of the same values as without shardings
        expected = jax.tree.leaves(function(*jax.tree.map(jnp.array, given)))
        values = {f"given.{i:03}": v for i, v in enumerate(jax.tree.leaves(given))}
        values |= {f"expected.{i:03}": v for i, v in enumerate(expected)}
        wide = {n: np.asarray(v, np.float32 if v.dtype == jnp.bfloat16 else None) for n, v in values.items()}
        np.savez_compressed(folder / f"{name}.npz", **wide)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent))
