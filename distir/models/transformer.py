"""GPT-2 of any size, as Hugging Face's `GPT2LMHeadModel` computes it, with the names and shapes of its weights.

Radford et al., *Language Models are Unsupervised Multitask Learners*, 2019: a decoder with normalisation before each
block, learned positions, the tanh form of Gelu, and logits from the token embedding. Dropout, which does nothing in
inference, is there on request: of the embeddings, of the shares of attention, and of what each block adds.

The arrangement is one that can be split. Activations are (batch, sequence, width) throughout, a dense layer is a
`MatMul` over the width and an `Add`, and no constant names the batch or the number of heads: reshaping by the size of a
head leaves the count of heads to what is there.
"""

from __future__ import annotations

import math

from distir.ir import DTYPES, HOST, NO_FACTS, DType, Facts, Function, Literal, Module, TensorType
from distir.ir.builder import FunctionBuilder
from distir.models.sizes import (
    BATCH,
    DEVICE,
    ModelError,
    add_weights,
    batch_dimension,
    check_divides,
    check_dropout,
    check_sizes,
    float_type,
)

EPSILON = 1e-5
"""What layer normalisation adds to the variance."""

SEED = TensorType(DTYPES["Int64"], (), HOST)
"""The seed of what is dropped."""

POSITIONS = 1024
"""How many positions GPT-2 has an embedding for."""

VOCABULARY = 50257
"""How many tokens GPT-2 knows: 256 bytes, 50,000 merges, and the end of a text."""


def gpt2(
    layers: int,
    width: int,
    heads: int,
    sequence: int,
    batch: int | None = None,
    vocabulary: int = VOCABULARY,
    dtype: str = "Float16",
    *,
    positions: int | None = None,
    head: bool = True,
    dropout: float = 0.0,
) -> Module:
    """The forward pass of a GPT-2: `layers` layers, `width` wide, with `heads` heads of attention each.

    `@main` takes the weights, named as in Hugging Face's state dict (`%wte.weight`, `%h.0.attn.c_attn.weight`, ...; a
    weight of the layers is (inputs, outputs)), and the tokens `%input_ids: (batch, sequence)`, Int64. It returns the
    logits `(batch, sequence, vocabulary)`; without `head`, the last hidden state `(batch, sequence, width)`. Without
    `batch` that dimension is called `B`. There are embeddings for `positions` positions: 1024, or as many as the
    sequence is long where it is longer.

    The causal mask is a host value of `sequence * sequence` Booleans, made once for all layers.

    With `dropout`, the share that is dropped, the last parameter is `%seed`, a host integer: each training step takes
    another one. What is dropped follows from it, from the layer, and from the position of an element in the whole
    batch (`distir ops Dropout`).

    Raises ModelError, for one where `heads` does not divide `width`.
    """
    check_sizes(layers=layers, width=width, heads=heads, sequence=sequence, vocabulary=vocabulary)
    check_divides("heads", heads, "the width", width)
    held = max(POSITIONS, sequence) if positions is None else positions
    if held < sequence:
        raise ModelError(f"expected `positions` to be {sequence} or more, as long as the sequence, found {held}")
    check_dropout(dropout)
    t = float_type(dtype)
    vector = TensorType(t, (width,))
    embeddings = {"wte.weight": TensorType(t, (vocabulary, width)), "wpe.weight": TensorType(t, (held, width))}
    per_layer = _layer_weights(width, t)
    f = FunctionBuilder("main")
    wte, wpe = add_weights(f, embeddings, device=DEVICE)
    blocks = [add_weights(f, per_layer, f"h.{i}.", DEVICE) for i in range(layers)]
    last = add_weights(f, {"ln_f.weight": vector, "ln_f.bias": vector}, device=DEVICE)
    tokens = f.param("input_ids", TensorType(DTYPES["Int64"], (batch_dimension(batch), sequence), DEVICE), batch=0)
    dropping = None
    if dropout:
        (rows,) = f.apply("Positions", tokens, results=("rows",))
        dropping = _Dropping(f, dropout, f.param("seed", SEED), rows)

    (position,) = f.apply("Range", 0, sequence, 1, results=("position",))
    (query,) = f.apply("Unsqueeze", position, Literal((1,)), results=("query",))
    (mask,) = f.apply("LessOrEqual", position, query, results=("mask",))
    (embedded,) = f.apply("Gather", wte, tokens, axis=0, results=("embedded",))
    (placed,) = f.apply("Gather", wpe, position, axis=0, results=("placed",))
    (x,) = f.apply("Add", embedded, placed, results=("x0",))
    if dropping:
        x = dropping(x, 0, "x0_kept")
    for i, weights in enumerate(blocks, 1):
        given = (dropping.rows, dropping.key(i, f"seed_{i}")) if dropping else ()
        f.facts = Facts(layer=i)
        (x,) = f.call("layer", x, mask, *weights, *given, results=(f"x{i}",))
    f.facts = NO_FACTS
    (hidden,) = f.apply("LayerNormalization", x, *last, epsilon=EPSILON, results=("hidden",))
    if not head:
        return Module([_layer(width, heads, sequence, t, dropout), f.returns(hidden)])
    # `Gemm` reads the embedding transposed; a `Transpose` would copy it.
    (rows,) = f.apply("Reshape", hidden, Literal((-1, width)), results=("rows",))
    (scores,) = f.apply("Gemm", rows, wte, transB=True, results=("scores",))
    (logits,) = f.apply("Reshape", scores, Literal((-1, sequence, vocabulary)), results=("logits",))
    return Module([_layer(width, heads, sequence, t, dropout), f.returns(logits)])


def _layer_weights(width: int, dtype: DType) -> dict[str, TensorType]:
    """The weights of a layer by name, without a device. `c_attn` holds those of queries, keys and values."""
    shapes = {
        "ln_1.weight": (width,),
        "ln_1.bias": (width,),
        "attn.c_attn.weight": (width, 3 * width),
        "attn.c_attn.bias": (3 * width,),
        "attn.c_proj.weight": (width, width),
        "attn.c_proj.bias": (width,),
        "ln_2.weight": (width,),
        "ln_2.bias": (width,),
        "mlp.c_fc.weight": (width, 4 * width),
        "mlp.c_fc.bias": (4 * width,),
        "mlp.c_proj.weight": (4 * width, width),
        "mlp.c_proj.bias": (width,),
    }
    return {name: TensorType(dtype, shape) for name, shape in shapes.items()}


class _Dropping:
    """Writes dropout: each time with another key, of the seed that a function is given."""

    def __init__(self, f: FunctionBuilder, ratio: float, seed: str, rows: str) -> None:
        self.f, self.ratio, self.seed, self.rows = f, ratio, seed, rows

    def key(self, number: int, result: str) -> str:
        """A key of its own for a layer, or a statement."""
        return self.f.apply("FoldIn", self.seed, number, results=(result,))[0]

    def __call__(self, x: str, number: int, result: str) -> str:
        """What is kept of `x`; the mask of it is saved for the gradient."""
        key = self.key(number, f"{result}_key")
        return self.f.apply("Dropout", x, self.ratio, True, key, self.rows, results=(result, f"{result}_mask"))[0]


def _layer(width: int, heads: int, sequence: int, dtype: DType, dropout: float) -> Function:
    """`@layer`: attention, then an MLP, each normalised before and added to what came in."""
    f = FunctionBuilder("layer")
    x = f.param("x", TensorType(dtype, (BATCH, sequence, width)))
    mask = f.param("mask", TensorType(DTYPES["Bool"], (sequence, sequence), HOST))
    names = add_weights(f, _layer_weights(width, dtype))
    dropping = None
    if dropout:
        rows = f.param("rows", TensorType(DTYPES["Int64"], (BATCH,)))
        dropping = _Dropping(f, dropout, f.param("seed", SEED), rows)
    attention, perceptron = names[:6], names[6:]
    (mixed,) = _attention(f, x, mask, attention, width // heads, dropping)
    if dropping:
        mixed = dropping(mixed, 1, "mixed_kept")
    (attended,) = f.apply("Add", x, mixed, results=("attended",))
    (changed,) = _perceptron(f, attended, perceptron)
    if dropping:
        changed = dropping(changed, 2, "changed_kept")
    (y,) = f.apply("Add", attended, changed, results=("y",))
    return f.returns(y)


def _attention(
    f: FunctionBuilder, x: str, mask: str, weights: list[str], size: int, dropping: _Dropping | None
) -> tuple[str, ...]:
    """Causal self-attention with heads of `size`."""
    scale, shift, w_qkv, b_qkv, w_out, b_out = weights
    (normal,) = f.apply("LayerNormalization", x, scale, shift, epsilon=EPSILON, results=("normal_1",))
    (qkv,) = _dense(f, normal, w_qkv, b_qkv, "qkv")
    q, k, v = f.apply("Split", qkv, axis=-1, num_outputs=3, results=("q", "k", "v"))
    # (batch, heads, sequence, size); the keys transposed once more, for the product with them
    queries = _by_head(f, q, size, (0, 2, 1, 3), "queries")
    keys = _by_head(f, k, size, (0, 2, 3, 1), "keys")
    values = _by_head(f, v, size, (0, 2, 1, 3), "values")
    (products,) = f.apply("MatMul", queries, keys, results=("products",))
    (scores,) = f.apply("Mul", products, 1 / math.sqrt(size), results=("scores",))
    (causal,) = f.apply("Where", mask, scores, -math.inf, results=("causal",))
    (shares,) = f.apply("Softmax", causal, axis=-1, results=("shares",))
    if dropping:
        shares = dropping(shares, 0, "shares_kept")
    (by_head,) = f.apply("MatMul", shares, values, results=("by_head",))
    (by_token,) = f.apply("Transpose", by_head, perm=(0, 2, 1, 3), results=("by_token",))
    (joined,) = f.apply("Reshape", by_token, Literal((0, 0, -1)), results=("joined",))
    return _dense(f, joined, w_out, b_out, "mixed")


def _perceptron(f: FunctionBuilder, x: str, weights: list[str]) -> tuple[str, ...]:
    """Two dense layers, four times as wide between them."""
    scale, shift, w_in, b_in, w_out, b_out = weights
    (normal,) = f.apply("LayerNormalization", x, scale, shift, epsilon=EPSILON, results=("normal_2",))
    (inner,) = _dense(f, normal, w_in, b_in, "inner")
    (active,) = f.apply("Gelu", inner, approximate="tanh", results=("active",))
    return _dense(f, active, w_out, b_out, "changed")


def _dense(f: FunctionBuilder, x: str, w: str, b: str, result: str) -> tuple[str, ...]:
    (product,) = f.apply("MatMul", x, w, results=(f"{result}_product",))
    return f.apply("Add", product, b, results=(result,))


def _by_head(f: FunctionBuilder, x: str, size: int, perm: tuple[int, ...], result: str) -> str:
    (split,) = f.apply("Reshape", x, Literal((0, 0, -1, size)), results=(f"{x}_heads",))
    return f.apply("Transpose", split, perm=perm, results=(result,))[0]
