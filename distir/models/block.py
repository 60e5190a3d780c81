"""Functions of layers under construction: their weights are declared where they are used.

A weight of a linear layer is (inputs, outputs), which `MatMul` reads without a transposition: the transpose of what
PyTorch's `Linear` holds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal as OneOf

from distir.ir import NO_ATTRIBUTES, Attributes, Constant, DType, Facts, Function, Literal, Param, TensorType
from distir.ir.builder import FunctionBuilder, Operand

Activation = OneOf["silu", "silu_1.702", "gelu", "gelu_tanh", "relu", "relu_squared"]

ACTIVATIONS: dict[Activation, tuple[str, dict[str, str | float]]] = {
    "silu": ("Swish", {}),
    "silu_1.702": ("Swish", {"alpha": 1.702}),
    "gelu": ("Gelu", {}),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
    "relu": ("Relu", {}),
    "relu_squared": ("Relu", {}),
}
"""The op of each activation function, and its attributes. What is `squared` is multiplied with itself then."""

PARAM, BUFFER = Attributes({"param": True}), Attributes({"buffer": True})
"""The roles of weights."""


class ModelFunction(FunctionBuilder):
    """A function whose weights are parameters: of a layer after its inputs, of the entry function before them.

    The entry function is on a `device`, and marks its weights `{param}`.
    """

    def __init__(
        self,
        name: str,
        dtype: DType,
        device: int | None = None,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
    ) -> None:
        super().__init__(name)
        self.dtype, self.device, self.dropout = dtype, device, dropout
        self.attention_dropout = dropout if attention_dropout is None else attention_dropout
        self.weights: dict[str, TensorType] = {}
        """The types of weights by name, without a device, in order of use."""
        self.buffers: set[str] = set()
        """Those of them that are not trained."""

    def weight(self, name: str, *shape: int, buffer: bool = False) -> str:
        """A weight, which is declared where it is used first."""
        if name not in self.weights:
            self.weights[self.fresh(name)] = TensorType(self.dtype, shape)
        if buffer:
            self.buffers.add(name)
        return name

    def returns(self, *operands: Operand) -> Function:
        """Close the function and give it."""
        weights = [Param(n, replace(t, device=self.device), self._roles(n)) for n, t in self.weights.items()]
        self.params = [*self.params, *weights] if self.device is None else [*weights, *self.params]
        return super().returns(*operands)

    def _roles(self, weight: str) -> Attributes:
        if self.device is None:
            return NO_ATTRIBUTES
        return BUFFER if weight in self.buffers else PARAM

    def block(self, name: str) -> ModelFunction:
        """The function of a layer, without weights so far."""
        return ModelFunction(name, self.dtype, dropout=self.dropout, attention_dropout=self.attention_dropout)

    def dropped(self, x: str) -> str:
        """What dropout leaves of a value in training, where there is any. The step `seeded` gives it keys."""
        return self.op("Dropout", x, self.dropout, True, result=f"{x}_kept") if self.dropout else x

    def attention(self, *operands: Operand, **attrs: Constant) -> str:
        """The op, with dropout of its weights."""
        if self.attention_dropout:
            attrs["dropout"] = self.attention_dropout
        return self.op("Attention", *operands, **attrs, result="mixed")

    def layer(
        self, number: int, block: ModelFunction, weights: str, *operands: Operand, results: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Call the function of layer `number`, from 1, with its weights, named `weights` (`layers.3.`) and more."""
        for name, t in block.weights.items():
            self.weights[self.fresh(f"{weights}{name}")] = t
        self.buffers |= {f"{weights}{name}" for name in block.buffers}
        found, self.facts = self.facts, Facts(layer=number)
        made = self.call(block.name, *operands, *(f"{weights}{name}" for name in block.weights), results=results)
        self.facts = found
        return made

    def op(self, name: str, *operands: Operand, result: str, **attrs: Constant) -> str:
        """An op with one result."""
        return self.apply(name, *operands, results=(result,), **attrs)[0]

    def linear(self, x: str, name: str, inputs: int, outputs: int, *, bias: bool = False) -> str:
        """A dense layer. Its result is named after the module, such as `q_proj`."""
        result = name.rpartition(".")[2]
        weight = self.weight(f"{name}.weight", inputs, outputs)
        if not bias:
            return self.op("MatMul", x, weight, result=result)
        product = self.op("MatMul", x, weight, result=f"{result}_product")
        return self.op("Add", product, self.weight(f"{name}.bias", outputs), result=result)

    def activation(self, x: str, kind: Activation, result: str = "active") -> str:
        """An activation function."""
        op, attrs = ACTIVATIONS[kind]
        if not kind.endswith("_squared"):
            return self.op(op, x, result=result, **attrs)
        root = self.op(op, x, result=f"{result}_root", **attrs)
        return self.op("Mul", root, root, result=result)

    def layer_norm(self, x: str, name: str, width: int, epsilon: float, *, bias: bool = True) -> str:
        """`LayerNormalization` over the last dimension."""
        weights = [self.weight(f"{name}.weight", width), *([self.weight(f"{name}.bias", width)] if bias else [])]
        return self.op("LayerNormalization", x, *weights, epsilon=epsilon, result=name.rpartition(".")[2])

    def rms_norm(self, x: str, name: str, width: int, epsilon: float, *, offset: bool = False) -> str:
        """`RMSNormalization` over the last dimension; with `offset`, the scale is one more than the weight."""
        result, scale = name.rpartition(".")[2], self.weight(f"{name}.weight", width)
        if offset:
            scale = self.op("Add", scale, 1.0, result=f"{result}_scale")
        return self.op("RMSNormalization", x, scale, epsilon=epsilon, result=result)

    def tied_logits(self, x: str, embedding: str, sequence: int, width: int, vocabulary: int, *bias: str) -> str:
        """Logits from the token embedding (vocabulary, width), which `Gemm` reads transposed, without a copy."""
        rows = self.op("Reshape", x, Literal((-1, width)), result="rows")
        scores = self.op("Gemm", rows, embedding, *bias, transB=True, result="scores")
        return self.op("Reshape", scores, Literal((-1, sequence, vocabulary)), result="logits")
