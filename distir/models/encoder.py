"""Encoders: BERT, which predicts masked tokens, and vision transformers, which classify images.

As Hugging Face's `BertForMaskedLM` and `ViTForImageClassification` compute them, with the names of their weights.
Weights of linear layers are (inputs, outputs). See `decoder.py` for the arrangement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distir.ir import DTYPES, Function, Literal, Module, TensorType
from distir.models.block import ModelFunction
from distir.models.sizes import BATCH, DEVICE, ModelError, batch_dimension, check_divides, check_model_sizes, float_type

EPSILON = 1e-12
"""What layer normalisation adds to the variance, in both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bert:
    """BERT (Devlin et al., arXiv:1810.04805): normalisation behind each sum, and a head for masked tokens."""

    layers: int
    width: int
    heads: int
    ffn: int
    vocabulary: int = 30522
    context: int = 512
    """The number of positions."""
    dropout: float = 0.0
    """The share that is dropped in training: of embeddings, of attention's weights, and of what layers add."""

    def module(self, sequence: int | None = None, batch: int | None = None, dtype: str = "BFloat16") -> Module:
        """The forward pass over whole sequences of tokens `%input_ids: (batch, sequence)`; returns the logits.

        Raises ModelError.
        """
        sequence = self.context if sequence is None else sequence
        check_model_sizes(self, sequence=sequence)
        check_divides("heads", self.heads, "the width", self.width)
        if sequence > self.context:
            raise ModelError(
                f"expected `sequence` to be at most {self.context}, as many as positions, found {sequence}"
            )
        f = ModelFunction("main", float_type(dtype), DEVICE, self.dropout)
        shape = (batch_dimension(batch), sequence)
        tokens = f.param("input_ids", TensorType(DTYPES["Int64"], shape, DEVICE), batch=0)
        at = "bert.embeddings."
        words = f.weight(f"{at}word_embeddings.weight", self.vocabulary, self.width)
        embedded = f.op("Gather", words, tokens, axis=0, result="embedded")
        segments = f.weight(f"{at}token_type_embeddings.weight", 2, self.width)
        segment = f.op("Gather", segments, 0, axis=0, result="segment")
        x = f.op("Add", embedded, segment, result="segmented")
        positions = f.weight(f"{at}position_embeddings.weight", self.context, self.width)
        position = f.op("Range", 0, sequence, 1, result="position")
        x = f.op("Add", x, f.op("Gather", positions, position, axis=0, result="placed"), result="summed")
        x = f.dropped(f.layer_norm(x, f"{at}LayerNorm", self.width, EPSILON))
        layer = f.block("BertLayer")
        function = self._layer(layer, sequence)
        for i in range(self.layers):
            (x,) = f.layer(i + 1, layer, f"bert.encoder.layer.{i}.", x, results=(f"x{i + 1}",))
        head = "cls.predictions."
        x = f.activation(f.linear(x, f"{head}transform.dense", self.width, self.width, bias=True), "gelu")
        x = f.layer_norm(x, f"{head}transform.LayerNorm", self.width, EPSILON)
        bias = f.weight(f"{head}bias", self.vocabulary)
        return Module([function, f.returns(f.tied_logits(x, words, sequence, self.width, self.vocabulary, bias))])

    def _layer(self, f: ModelFunction, sequence: int) -> Function:
        x = f.param("x", TensorType(f.dtype, (BATCH, sequence, self.width)))
        names = {"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value"}
        mixed = attention(f, x, self.width, self.heads, {**names, "out": "attention.output.dense"})
        x = f.layer_norm(
            f.op("Add", f.dropped(mixed), x, result="attended"), "attention.output.LayerNorm", self.width, EPSILON
        )
        inner = f.activation(f.linear(x, "intermediate.dense", self.width, self.ffn, bias=True), "gelu")
        changed = f.linear(inner, "output.dense", self.ffn, self.width, bias=True)
        y = f.layer_norm(f.op("Add", f.dropped(changed), x, result="sum"), "output.LayerNorm", self.width, EPSILON)
        return f.returns(y)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vit:
    """A vision transformer (Dosovitskiy et al., arXiv:2010.11929): patches of an image as tokens, and a class token."""

    layers: int
    width: int
    heads: int
    ffn: int
    patch: int
    """Pixels of a patch's side."""
    image: int = 224
    """Pixels of an image's side."""
    classes: int = 1000
    dropout: float = 0.0
    """The share that is dropped in training: of embeddings, of attention's weights, and of what layers add."""

    @property
    def context(self) -> int:
        """Tokens: the patches of an image, and the class token."""
        return (self.image // self.patch) ** 2 + 1

    def module(self, sequence: int | None = None, batch: int | None = None, dtype: str = "BFloat16") -> Module:
        """The forward pass over images `%pixel_values: (batch, 3, image, image)`; returns the logits of classes.

        Raises ModelError, also for a `sequence`: how many tokens there are follows from the image.
        """
        if sequence is not None:
            raise ModelError("expected no `sequence`: the tokens are the patches of an image; give `image`")
        check_model_sizes(self)
        check_divides("heads", self.heads, "the width", self.width)
        check_divides("patch", self.patch, "the side of an image", self.image)
        f = ModelFunction("main", float_type(dtype), DEVICE, self.dropout)
        shape = (batch_dimension(batch), 3, self.image, self.image)
        pixels = f.param("pixel_values", TensorType(f.dtype, shape, DEVICE), batch=0)
        at = "vit.embeddings."
        first = f.weight(f"{at}cls_token", 1, 1, self.width)
        kernel = f.weight(f"{at}patch_embeddings.projection.weight", self.width, 3, self.patch, self.patch)
        bias = f.weight(f"{at}patch_embeddings.projection.bias", self.width)
        side = (self.patch, self.patch)
        patches = f.op("Conv", pixels, kernel, bias, kernel_shape=side, strides=side, result="patches")
        rows = f.op("Reshape", patches, Literal((0, 0, -1)), result="rows")
        tokens = f.op("Transpose", rows, perm=(0, 2, 1), result="tokens")
        images = f.op("Shape", pixels, start=0, end=1, result="images")
        sizes = f.op("Concat", images, Literal((1, 1)), axis=0, result="sizes")
        each = f.op("Expand", first, sizes, result="class_token")
        whole = f.op("Concat", each, tokens, axis=1, result="embedded")
        x = f.op("Add", whole, f.weight(f"{at}position_embeddings", 1, self.context, self.width), result="x0")
        x = f.dropped(x)
        layer = f.block("ViTLayer")
        function = self._layer(layer)
        for i in range(self.layers):
            (x,) = f.layer(i + 1, layer, f"vit.layers.{i}.", x, results=(f"x{i + 1}",))
        hidden = f.layer_norm(x, "vit.layernorm", self.width, EPSILON)
        chosen = f.op("Gather", hidden, 0, axis=1, result="chosen")
        return Module([function, f.returns(f.linear(chosen, "classifier", self.width, self.classes, bias=True))])

    def _layer(self, f: ModelFunction) -> Function:
        x = f.param("x", TensorType(f.dtype, (BATCH, self.context, self.width)))
        normal = f.layer_norm(x, "layernorm_before", self.width, EPSILON)
        names = {name: f"attention.{name}_proj" for name in ("q", "k", "v")}
        mixed = attention(f, normal, self.width, self.heads, {**names, "out": "attention.o_proj"})
        x = f.op("Add", x, f.dropped(mixed), result="attended")
        normal = f.layer_norm(x, "layernorm_after", self.width, EPSILON)
        inner = f.activation(f.linear(normal, "mlp.fc1", self.width, self.ffn, bias=True), "gelu")
        changed = f.linear(inner, "mlp.fc2", self.ffn, self.width, bias=True)
        return f.returns(f.op("Add", x, f.dropped(changed), result="y"))


def attention(f: ModelFunction, x: str, width: int, heads: int, names: Mapping[str, str]) -> str:
    """Attention of each token to all, with biases, and the linear layer behind it."""
    q, k, v = (f.linear(x, names[name], width, width, bias=True) for name in ("q", "k", "v"))
    mixed = f.attention(q, k, v, q_num_heads=heads, kv_num_heads=heads)
    return f.linear(mixed, names["out"], width, width, bias=True)
