"""Encoder-decoders: T5, which turns a sequence into another (Raffel et al., arXiv:1910.10683).

As Hugging Face's `T5ForConditionalGeneration` computes it, with the names of its weights. Weights of linear layers are
(inputs, outputs). See `decoder.py` for the arrangement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from distir.ir import DISCARD, DTYPES, Constant, Dim, DType, Function, Literal, Module, TensorType
from distir.models.block import ModelFunction
from distir.models.decoder_layer import POSITION, ModelPass
from distir.models.sizes import BATCH, DEVICE, ModelError, batch_dimension, check_model_sizes, check_sizes, float_type

EPSILON = 1e-6
"""What normalisation adds to the mean of squares."""

BUCKETS = 32
"""Distances between tokens that have a bias of their own; far ones share."""

FARTHEST = 128
"""All distances from here on share a bias."""


@dataclass(frozen=True, slots=True, kw_only=True)
class T5:
    """T5 as published first: learned biases of distances in the place of positions, `Relu`, tied embeddings."""

    layers: int
    """Of the encoder, and again of the decoder."""
    width: int
    heads: int
    head_size: int
    ffn: int
    vocabulary: int = 32128
    context: int = 512
    dropout: float = 0.0
    """The share that is dropped in training: of embeddings, of attention's weights, and of what layers add."""

    def module(self, sequence: int | None = None, batch: int | None = None, dtype: str = "BFloat16") -> Module:
        """The forward pass over the tokens `%input_ids` and `%decoder_input_ids`, both (batch, sequence).

        Returns the logits of the decoder's tokens. Raises ModelError.
        """
        sequence = self.context if sequence is None else sequence
        return self._program(ModelPass(sequence), sequence, batch, dtype)

    def prefill(
        self,
        context: int | None = None,
        sequence: int | None = None,
        batch: int | None = None,
        dtype: str = "BFloat16",
    ) -> Module:
        """The first pass of serving: the encoder over `%input_ids: (batch, sequence)`, and the decoder's first token.

        That is `%decoder_input_ids: (batch, 1)`, the token that starts a sequence. `@main` takes the caches of the
        decoder's layers, too, with places for `context` tokens: `%cache.0.keys` and `values` of its own tokens,
        `%cache.0.cross_keys` and `cross_values` of the encoder's result, all (batch, context, heads * size) and marked
        `{batch = 0, state}`, which it writes in place. Returns the logits of the token, (batch, vocabulary), and the
        caches. By default the source fills the context, and that is the model's. Raises ModelError.
        """
        context = self.context if context is None else context
        sequence = context if sequence is None else sequence
        check_sizes(context=context, sequence=sequence)
        if sequence > context:
            raise ModelError(f"expected `sequence` to be at most the context {context}, found {sequence}")
        return self._program(ModelPass(1, "prefill", context), sequence, batch, dtype)

    def decode(self, context: int | None = None, batch: int | None = None, dtype: str = "BFloat16") -> Module:
        """A step of serving: the decoder's next token of each sequence, with caches as `prefill` has them.

        `@main` takes `%decoder_input_ids: (batch, 1)` and two host values: `%position`, how many of the decoder's own
        tokens the caches hold, and `%source_length`, how many of the encoder's. It has the weights that the step needs,
        none of the encoder. Returns the logits (batch, vocabulary), and the caches of the decoder's own tokens with the
        token appended; those of the encoder's result it only reads. Where lengths are not known, time is that of full
        caches. Raises ModelError.
        """
        context = self.context if context is None else context
        check_sizes(context=context)
        return self._program(ModelPass(1, "decode", context), context, batch, dtype)

    def _program(self, done: ModelPass, source: int, batch: int | None, dtype: str) -> Module:
        check_model_sizes(self, sequence=source)
        f = ModelFunction("main", float_type(dtype), DEVICE, self.dropout)
        rows = batch_dimension(batch)
        lengths = {"encoder": source, "decoder": done.tokens}
        stacks = ("decoder",) if done.phase == "decode" else ("encoder", "decoder")
        ids = {
            stack: f.param(name, TensorType(DTYPES["Int64"], (rows, lengths[stack]), DEVICE), batch=0)
            for stack, name in (("encoder", "input_ids"), ("decoder", "decoder_input_ids"))
            if stack in stacks
        }
        hosts = ("position", "source_length") if done.phase == "decode" else ()
        for name in hosts:
            f.param(name, POSITION)
        words = f.weight("shared.weight", self.vocabulary, self.width)
        functions: list[Function] = []
        memory: tuple[str, ...] = ()
        kept: list[str] = []
        distance = x = ""
        for before, stack in enumerate(stacks):
            if not distance or done.phase != "forward":
                distance = self._distances(f, done, lengths[stack], stack)
            x = f.op("Gather", words, ids[stack], axis=0, result=f"{stack}_embedded")
            x = f.dropped(x)
            bias = self._bias(f, distance, stack)
            layer = f.block(f"T5{stack.capitalize()}Block")
            functions.append(self._layer(layer, done, source, stack))
            for i in range(self.layers):
                caches = self._caches(done, f.dtype, rows, DEVICE).items() if stack == "decoder" else ()
                given = [f.param(f"cache.{i}.{name}", t, batch=0, state=True) for name, t in caches]
                written = given if done.phase == "prefill" else given[:2]
                results = (f"{stack}_x{i + 1}", *(f"{name}.new" for name in written))
                others = (*memory, *given, *(hosts if stack == "decoder" else ()))
                number = before * self.layers + i + 1
                x, *new = f.layer(number, layer, f"{stack}.block.{i}.", x, bias, *others, results=results)
                kept += new
            x = f.dropped(f.rms_norm(x, f"{stack}.final_layer_norm", self.width, EPSILON))
            memory = (x,)
        hidden = f.op("Mul", x, self.width**-0.5, result="hidden")
        if done.phase == "forward":
            logits = f.tied_logits(hidden, words, done.tokens, self.width, self.vocabulary)
        else:
            last = f.op("Gather", hidden, 0, axis=1, result="last")
            logits = f.op("Gemm", last, words, transB=True, result="logits")
        return Module([*functions, f.returns(logits, *kept)])

    def _caches(self, done: ModelPass, dtype: DType, batch: Dim, device: int | None = None) -> dict[str, TensorType]:
        """The types of a decoder layer's caches by name: of its own tokens, and of the encoder's result."""
        if done.phase == "forward":
            return {}
        one = TensorType(dtype, (batch, done.capacity, self.heads * self.head_size), device)
        return dict.fromkeys(("keys", "values", "cross_keys", "cross_values"), one)

    def _distances(self, f: ModelFunction, done: ModelPass, tokens: int, stack: str) -> str:
        """How far each key is behind each query, (queries, keys), on the host."""
        if done.phase == "decode":
            query = f.op("Reshape", "position", Literal((1, 1)), result="query")
            return f.op("Sub", f.op("Range", 0, done.capacity, 1, result="key"), query, result="distance")
        prefix = "" if done.phase == "forward" else f"{stack}_"
        position = f.op("Range", 0, tokens, 1, result=f"{prefix}position")
        column = f.op("Unsqueeze", position, (1,), result=f"{prefix}query")
        return f.op("Sub", position, column, result=f"{prefix}distance")

    def _bias(self, f: ModelFunction, distance: str, stack: str) -> str:
        """What is added to the scores of attention, (1, heads, queries, keys): learned, for buckets of distances.

        Half of the buckets are for one distance each, the others for ranges that grow with the distance.
        """

        def op(name: str, *operands: str | float, result: str, **attrs: Constant) -> str:
            return f.apply(name, *operands, results=(f"{stack}_{result}",), **attrs)[0]

        if stack == "encoder":
            buckets = BUCKETS // 2  # for tokens before, and as many for those after
            after = op("Cast", op("Greater", distance, 0, result="after"), to=DTYPES["Int64"], result="is_after")
            first = op("Mul", after, buckets, result="first_bucket")
            far = op("Abs", distance, result="far")
        else:
            buckets, first = BUCKETS, None
            far = op("Neg", op("Min", distance, 0, result="before"), result="far")
        exact = buckets // 2
        ratio = op(
            "Div",
            op("Cast", op("Max", far, 1, result="apart"), to=DTYPES["Float32"], result="wide"),
            float(exact),
            result="ratio",
        )
        growth = op("Div", op("Log", ratio, result="log"), math.log(FARTHEST / exact), result="growth")
        steps = op(
            "Cast", op("Mul", growth, float(buckets - exact), result="scaled"), to=DTYPES["Int64"], result="steps"
        )
        coarse = op("Min", op("Add", steps, exact, result="grown"), buckets - 1, result="coarse")
        bucket = op("Where", op("Less", far, exact, result="near"), far, coarse, result="bucket")
        if first is not None:
            bucket = op("Add", first, bucket, result="both_buckets")
        table = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        found = op("Gather", f.weight(table, BUCKETS, self.heads), bucket, axis=0, result="biases")
        by_head = op("Transpose", found, perm=(2, 0, 1), result="by_head")
        return f.op("Unsqueeze", by_head, (0,), result=f"{stack}_bias")

    def _layer(self, f: ModelFunction, done: ModelPass, source: int, stack: str) -> Function:
        """Self-attention, in the decoder attention to the encoder's result, and an MLP."""
        decoder = stack == "decoder"
        tokens = done.tokens if decoder else source
        x = f.param("x", TensorType(f.dtype, (BATCH, tokens, self.width)))
        keys = done.capacity if done.phase == "decode" else tokens
        f.param("bias", TensorType(f.dtype, (1, self.heads, tokens, keys)))
        if decoder and done.phase != "decode":
            f.param("memory", TensorType(f.dtype, (BATCH, source, self.width)))
        caches = self._caches(done, f.dtype, BATCH) if decoder else {}
        for name, t in caches.items():
            f.param(name, t)
        for name in ("position", "source_length") if done.phase == "decode" else ():
            f.param(name, POSITION)
        own = ("keys", "values") if caches else ()
        x, kept = self._attention(f, x, "layer.0", "SelfAttention", done, own, causal=decoder)
        if decoder:
            cross = ("cross_keys", "cross_values") if caches else ()
            x, written = self._attention(f, x, "layer.1", "EncDecAttention", done, cross, causal=False)
            kept += written
        at = "layer.2" if decoder else "layer.1"
        normal = f.rms_norm(x, f"{at}.layer_norm", self.width, EPSILON)
        inner = f.activation(f.linear(normal, f"{at}.DenseReluDense.wi", self.width, self.ffn), "relu")
        changed = f.linear(f.dropped(inner), f"{at}.DenseReluDense.wo", self.ffn, self.width)
        return f.returns(f.op("Add", x, f.dropped(changed), result="y"), *kept)

    def _attention(
        self, f: ModelFunction, x: str, at: str, kind: str, done: ModelPass, caches: Sequence[str], *, causal: bool
    ) -> tuple[str, list[str]]:
        """Attention without a scale, added to what came in: to the sequence itself, or to the encoder's result.

        And the caches, with what is new in them.
        """
        inner, itself, decodes = self.heads * self.head_size, kind == "SelfAttention", done.phase == "decode"
        decodes = decodes and bool(caches)
        normal = f.rms_norm(x, f"{at}.layer_norm", self.width, EPSILON)
        q = f.linear(normal, f"{at}.{kind}.q", self.width, inner)
        kept: list[str] = []
        if decodes and not itself:
            k, v = caches
        else:
            source = normal if itself else "memory"
            k, v = (f.linear(source, f"{at}.{kind}.{name}", self.width, inner) for name in ("k", "v"))
            first = "position" if decodes else 0
            kept = [
                f.op("TensorScatter", cache, new, first, axis=1, result=f"new_{cache}")
                for cache, new in zip(caches, (k, v), strict=bool(caches))
            ]
            k, v = kept if decodes else (k, v)
        attrs: dict[str, float] = {"q_num_heads": self.heads, "kv_num_heads": self.heads, "scale": 1.0}
        others = ["bias"] if itself else []
        if decodes:  # the token attends to all that the caches hold
            filled = f.op("Add", "position", 1, result="length") if itself else "source_length"
            others = [*(others or [DISCARD]), DISCARD, filled]
        elif causal:
            attrs["is_causal"] = True
        mixed = f.attention(q, k, v, *others, **attrs)
        added = f.dropped(f.linear(mixed, f"{at}.{kind}.o", inner, self.width))
        return f.op("Add", x, added, result="attended"), kept
