"""The program of a decoder: embedding, layers, and the logits of the next token."""

from __future__ import annotations

import math

from distir.ir import DTYPES, HOST, Function, Literal, Module, TensorType
from distir.models.block import ModelFunction
from distir.models.decoder import Decoder
from distir.models.decoder_layer import POSITION, Kind, Layer, ModelPass, norm
from distir.models.rotary import Rotary, cosines_and_sines
from distir.models.sizes import DEVICE, ModelError, batch_dimension, check_sizes, float_type


def decoder(model: Decoder, sequence: int | None = None, batch: int | None = None, dtype: str = "BFloat16") -> Module:
    """The forward pass of a decoder over sequences of `sequence` tokens, by default as many as its context.

    `@main` takes the weights, which are named as in the published checkpoint and are (inputs, outputs) in linear
    layers, and the tokens `%input_ids: (batch, sequence)`, Int64. It returns the logits
    `(batch, sequence, vocabulary)`. Without `batch` that dimension is called `B`.

    Raises ModelError.
    """
    sequence = model.context if sequence is None else sequence
    check_sizes(sequence=sequence)
    _check_positions("sequence", sequence, model)
    return _program(model, ModelPass(sequence), batch, dtype)


def prefill(
    model: Decoder,
    context: int | None = None,
    sequence: int | None = None,
    batch: int | None = None,
    dtype: str = "BFloat16",
) -> Module:
    """The first pass of serving: over prompts of `sequence` tokens, with caches that have place for `context` tokens.

    By default the prompt fills the context, and that is the model's. `@main` takes the caches of each layer, too:
    `%cache.0.keys: (batch, context, heads of keys * size)`, marked `{batch = 0, state}`, which it writes in place. It
    returns the logits of the last token, `(batch, vocabulary)`, and the caches. A layer with a sliding window keeps as
    many tokens as that; one with latent attention keeps latents.

    Raises ModelError.
    """
    context = model.context if context is None else context
    sequence = context if sequence is None else sequence
    check_sizes(context=context, sequence=sequence)
    _check_positions("context", context, model)
    if sequence > context:
        raise ModelError(f"expected `sequence` to be at most the context {context}, found {sequence}")
    return _program(model, ModelPass(sequence, "prefill", context), batch, dtype)


def decode(model: Decoder, context: int | None = None, batch: int | None = None, dtype: str = "BFloat16") -> Module:
    """A step of serving: the next token of each sequence, with caches as `prefill` has them.

    `@main` takes the tokens `%input_ids: (batch, 1)` and `%position`, a host value: how many tokens the caches hold. It
    returns the logits `(batch, vocabulary)`, and the caches with the token appended. Where the position is not known,
    time is that of a full cache.

    Raises ModelError.
    """
    context = model.context if context is None else context
    check_sizes(context=context)
    _check_positions("context", context, model)
    return _program(model, ModelPass(1, "decode", context), batch, dtype)


def _check_positions(name: str, size: int, model: Decoder) -> None:
    if model.position == "learned" and size > model.context:
        raise ModelError(f"expected `{name}` to be at most {model.context}, the positions there are, found {size}")


def _program(model: Decoder, done: ModelPass, batch: int | None, dtype: str) -> Module:
    model.check()
    names, rows = model.names, batch_dimension(batch)
    f = ModelFunction("main", float_type(dtype), DEVICE, model.dropout, model.attention_dropout)
    tokens = f.param("input_ids", TensorType(DTYPES["Int64"], (rows, done.tokens), DEVICE), batch=0)
    if done.phase == "decode":
        f.param("position", POSITION)
    embedding = f.weight(f"{names.embedding}.weight", model.vocabulary, model.width)
    x = f.op("Gather", embedding, tokens, axis=0, result="embedded")
    if model.scaled_embedding:
        x = f.op("Mul", x, math.sqrt(model.width), result="scaled")
    tables: dict[str, TensorType] = {}
    if isinstance(model.position, Rotary):
        pairs = model.rotated // 2
        cosines_and_sines(f, model.position, _positions(f, done), pairs)
        tables = dict.fromkeys(("cos", "sin"), TensorType(f.dtype, (1, done.tokens, pairs), HOST))
    elif model.position == "alibi":
        keys = done.tokens if done.phase != "decode" else done.capacity
        tables = {_alibi(f, model.heads, keys): TensorType(f.dtype, (1, model.heads, 1, keys), HOST)}
    else:
        positions = f.weight(f"{names.positions}.weight", model.context, model.width)
        x = f.op("Add", x, f.op("Gather", positions, _positions(f, done), axis=0, result="placed"), result="x0")
    x = f.dropped(x)
    if done.phase == "decode":
        tables["position"] = POSITION
    longest = done.capacity or done.tokens
    kinds = [Kind(model.layer_window(i, longest), model.is_routed(i), model.is_rotated(i)) for i in range(model.layers)]
    unrotated = {name: t for name, t in tables.items() if name not in ("cos", "sin")}
    layers: dict[Kind, ModelFunction] = {}
    functions: list[Function] = []
    kept: list[str] = []
    for i, kind in enumerate(kinds):
        own = tables if kind.rotated else unrotated
        if kind not in layers:
            layers[kind] = f.block(_name(names.layer, kind, {*kinds}))
            functions.append(Layer(model, layers[kind], kind, done).function(own))
        caches = done.caches(model, kind, f.dtype, rows, DEVICE).items()
        given = [f.param(f"cache.{i}.{name}", t, batch=0, state=True) for name, t in caches]
        results = (f"x{i + 1}", *(f"{name}.new" for name in given))
        x, *new = f.layer(i + 1, layers[kind], f"{names.layers}.{i}.", x, *own, *given, results=results)
        kept += new
    hidden = norm(model, f, x, names.last_norm)
    if done.phase != "forward":
        hidden = f.op("Gather", hidden, done.tokens - 1, axis=1, result="last")
    return Module([*functions, f.returns(_logits(model, f, hidden, embedding, done), *kept)])


def _positions(f: ModelFunction, done: ModelPass) -> str:
    """The positions of the tokens, Int64 on the host."""
    if done.phase == "decode":
        return f.op("Unsqueeze", "position", Literal((0,)), result="positions")
    return f.op("Range", 0, done.tokens, 1, result="positions")


def _logits(model: Decoder, f: ModelFunction, hidden: str, embedding: str, done: ModelPass) -> str:
    if model.tied and done.phase != "forward":
        logits = f.op("Gemm", hidden, embedding, transB=True, result="logits")
    elif model.tied:
        logits = f.tied_logits(hidden, embedding, done.tokens, model.width, model.vocabulary)
    else:
        head = f.weight(f"{model.names.head}.weight", model.width, model.vocabulary)
        logits = f.op("MatMul", hidden, head, result="logits")
    if not model.logits_softcap:
        return logits
    bounded = f.op("Tanh", f.op("Div", logits, model.logits_softcap, result="quotient"), result="bounded")
    return f.op("Mul", bounded, model.logits_softcap, result="capped")


def _name(layer: str, kind: Kind, kinds: set[Kind]) -> str:
    """The name of a kind's function: that of the class, and what sets the kind apart from others in the model."""
    sliding = "Sliding" if kind.window is not None and None in {other.window for other in kinds} else ""
    dense = "Dense" if not kind.routed and True in {other.routed for other in kinds} else ""
    unrotated = "Unrotated" if not kind.rotated and True in {other.rotated for other in kinds} else ""
    return f"{layer}{sliding}{dense}{unrotated}"


def _alibi(f: ModelFunction, heads: int, keys: int) -> str:
    """What is added to attention's scores, `slope * position` for each head's slope (Press et al., arXiv:2108.12409).

    Softmax ignores what all keys of a query have in common, so that this is as good as the distance.
    """
    power = 2 ** math.ceil(math.log2(heads))
    slopes = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    if power != heads:
        slopes = (slopes[1::2] + slopes[::2])[:heads]
    last = f.op("Range", 1 - keys, 1, 1, result="distance")
    distance = f.op("Cast", last, to=DTYPES["Float32"], result="wide_distance")
    bias = f.op("Mul", distance, tuple(((slope,),) for slope in slopes), result="wide_bias")
    row = f.op("Unsqueeze", bias, (0,), result="bias_row")
    return f.op("Cast", row, to=f.dtype, result="bias")
