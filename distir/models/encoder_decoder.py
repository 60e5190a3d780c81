"""Encoder-decoders: T5, which turns a sequence into another (Raffel et al., arXiv:1910.10683).

As Hugging Face's `T5ForConditionalGeneration` computes it, with the names of its weights. Weights of linear layers are
(inputs, outputs). There is no dropout. See `decoder.py` for the arrangement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from distir.ir import DTYPES, Function, Module, TensorType
from distir.models.block import Block
from distir.models.sizes import BATCH, DEVICE, batch_dimension, check_model_sizes, float_type

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

    def module(self, sequence: int | None = None, batch: int | None = None, dtype: str = "BFloat16") -> Module:
        """The forward pass over the tokens `%input_ids` and `%decoder_input_ids`, both (batch, sequence).

        Returns the logits of the decoder's tokens. Raises ModelError.
        """
        sequence = self.context if sequence is None else sequence
        check_model_sizes(self, sequence=sequence)
        f = Block("main", float_type(dtype), DEVICE)
        ids = TensorType(DTYPES["Int64"], (batch_dimension(batch), sequence), DEVICE)
        source, target = (f.param(name, ids, batch=0) for name in ("input_ids", "decoder_input_ids"))
        words = f.weight("shared.weight", self.vocabulary, self.width)
        position = f.op("Range", 0, sequence, 1, result="position")
        column = f.op("Unsqueeze", position, (1,), result="query")
        distance = f.op("Sub", position, column, result="distance")
        functions: list[Function] = []
        memory: tuple[str, ...] = ()
        for stack, tokens in (("encoder", source), ("decoder", target)):
            x = f.op("Gather", words, tokens, axis=0, result=f"{stack}_embedded")
            bias = self._bias(f, distance, stack)
            layer = Block(f"T5{stack.capitalize()}Block", f.dtype)
            functions.append(self._layer(layer, sequence, stack))
            for i in range(self.layers):
                name = f"{stack}_x{i + 1}"
                (x,) = f.layer(layer, f"{stack}.block.{i}.", x, bias, *memory, results=(name,))
            memory = (f.rms_norm(x, f"{stack}.final_layer_norm", self.width, EPSILON),)
        hidden = f.op("Mul", memory[0], self.width**-0.5, result="hidden")
        return Module([*functions, f.returns(f.tied_logits(hidden, words, sequence, self.width, self.vocabulary))])

    def _bias(self, f: Block, distance: str, stack: str) -> str:
        """What is added to the scores of attention, (1, heads, sequence, sequence): learned, for buckets of distances.

        Half of the buckets are for one distance each, the others for ranges that grow with the distance.
        """

        def op(name: str, *operands: str | float, result: str, **attrs: object) -> str:
            return f.apply(name, *operands, results=(f"{stack}_{result}",), **attrs)[0]  # type: ignore[arg-type]

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

    def _layer(self, f: Block, sequence: int, stack: str) -> Function:
        """Self-attention, in the decoder attention to the encoder's result, and an MLP."""
        activation = TensorType(f.dtype, (BATCH, sequence, self.width))
        x = f.param("x", activation)
        f.param("bias", TensorType(f.dtype, (1, self.heads, sequence, sequence)))
        if stack == "decoder":
            f.param("memory", activation)
        x = self._attention(f, x, "layer.0", "SelfAttention", causal=stack == "decoder")
        if stack == "decoder":
            x = self._attention(f, x, "layer.1", "EncDecAttention", causal=False)
        at = "layer.2" if stack == "decoder" else "layer.1"
        normal = f.rms_norm(x, f"{at}.layer_norm", self.width, EPSILON)
        inner = f.activation(f.linear(normal, f"{at}.DenseReluDense.wi", self.width, self.ffn), "relu")
        changed = f.linear(inner, f"{at}.DenseReluDense.wo", self.ffn, self.width)
        return f.returns(f.op("Add", x, changed, result="y"))

    def _attention(self, f: Block, x: str, at: str, kind: str, *, causal: bool) -> str:
        """Attention without a scale, added to what came in: to the sequence itself, or to the encoder's result."""
        inner, itself = self.heads * self.head_size, kind == "SelfAttention"
        normal = f.rms_norm(x, f"{at}.layer_norm", self.width, EPSILON)
        source = normal if itself else "memory"
        q = f.linear(normal, f"{at}.{kind}.q", self.width, inner)
        k, v = (f.linear(source, f"{at}.{kind}.{name}", self.width, inner) for name in ("k", "v"))
        attrs: dict[str, float] = {"q_num_heads": self.heads, "kv_num_heads": self.heads, "scale": 1.0}
        if causal:
            attrs["is_causal"] = True
        mixed = f.op("Attention", q, k, v, *(("bias",) if itself else ()), **attrs, result="mixed")
        return f.op("Add", x, f.linear(mixed, f"{at}.{kind}.o", inner, self.width), result="attended")
