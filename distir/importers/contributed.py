"""Ops that ONNX Runtime adds, `com.microsoft`, by nodes of ONNX: files that its optimiser or its quantiser has written.

`DynamicQuantizeLSTM` rounds its state in each step, which no op of ONNX does: it is an op of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

DOMAIN = "com.microsoft"

OURS = "distir"
"""The domain of nodes that represent our ops."""

Nodes = list[Any]


def expansion(node: onnx.NodeProto) -> Nodes | None:
    """Nodes of ONNX that give what a node does; None for an op that is not known here."""
    theirs = node.domain == DOMAIN or node.op_type == "SimplifiedLayerNormalization"  # which is in ONNX's own domain
    rule = _RULES.get(node.op_type) if theirs else None
    return (rule(_Writer(node)) or None) if rule is not None else None


class _Writer:
    """The nodes of an expansion, while they are written."""

    def __init__(self, node: onnx.NodeProto) -> None:
        from onnx import helper

        self.attrs: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self.inputs = [*node.input, *[""] * (12 - len(node.input))]
        self.outputs = [*node.output, *[""] * (4 - len(node.output))]
        self.nodes: Nodes = []

    def apply(self, op: str, *operands: str, to: str | Sequence[str] = "", domain: str = "", **attrs: Any) -> str:
        """Append a node; its first result, called `to` if given."""
        from onnx import helper

        given = list(operands)
        while given and not given[-1]:
            given.pop()
        results = [to] if isinstance(to, str) else list(to)
        results[0] = results[0] or f"{self.outputs[0]}.{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, given, results, domain=domain, **attrs))
        return results[0]

    def number(self, value: float, like: str) -> str:
        """A number of the element type of `like`."""
        made = self.apply("Constant", value_float=value)
        return self.apply("CastLike", made, like)


def _product(w: _Writer) -> Nodes:
    a, b = w.inputs[:2]
    if w.attrs.get("transBatchA") or w.attrs.get("transBatchB"):
        return []
    if w.attrs.get("transA"):
        a = _turned(w, a)
    if w.attrs.get("transB"):
        b = _turned(w, b)
    alpha = w.attrs.get("alpha", 1.0)
    if alpha == 1:
        w.apply("MatMul", a, b, to=w.outputs[0])
    else:
        product = w.apply("MatMul", a, b)
        w.apply("Mul", product, w.number(alpha, product), to=w.outputs[0])
    return w.nodes


def _turned(w: _Writer, x: str) -> str:
    """The last two dimensions exchanged, whatever the rank."""
    return w.apply("Einsum", x, equation="...mn->...nm")


def _bias_gelu(w: _Writer) -> Nodes:
    w.apply("Gelu", w.apply("Add", *w.inputs[:2]), to=w.outputs[0])
    return w.nodes


def _fast_gelu(w: _Writer) -> Nodes:
    x, bias = w.inputs[:2]
    w.apply("Gelu", w.apply("Add", x, bias) if bias else x, to=w.outputs[0], approximate="tanh")
    return w.nodes


def _gelu(w: _Writer) -> Nodes:
    w.apply("Gelu", w.inputs[0], to=w.outputs[0])
    return w.nodes


def _quick_gelu(w: _Writer) -> Nodes:
    x = w.inputs[0]
    w.apply("Mul", x, w.apply("Sigmoid", w.apply("Mul", x, w.number(w.attrs.get("alpha", 1.702), x))), to=w.outputs[0])
    return w.nodes


def _skip_norm(op: str) -> Callable[[_Writer], Nodes]:
    def rule(w: _Writer) -> Nodes:
        x, skip, scale, *others = w.inputs
        shift, bias = others[:2] if op == "LayerNormalization" else ("", others[0])
        total = w.apply("Add", w.apply("Add", x, skip), bias, to=w.outputs[3]) if bias else ""
        total = total or w.apply("Add", x, skip, to=w.outputs[3])
        w.apply(op, total, scale, shift, to=w.outputs[0], epsilon=w.attrs.get("epsilon", 1e-12), axis=-1)
        return w.nodes

    return rule


def _simplified_norm(w: _Writer) -> Nodes:
    given = {key: value for key, value in w.attrs.items() if key in ("axis", "epsilon")}
    w.apply("RMSNormalization", *w.inputs[:2], to=w.outputs[0], **given)
    return w.nodes


def _dynamic_product(w: _Writer) -> Nodes:
    x, b, scale, zero, bias = w.inputs[:5]
    names = [f"{w.outputs[0]}.{part}" for part in ("rounded", "step", "zero")]
    w.apply("DynamicQuantizeLinear", x, to=names)
    return _scaled(w, w.apply("MatMulInteger", names[0], b, names[2], zero), names[1], scale, bias)


def _integer_product(w: _Writer) -> Nodes:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = w.inputs[:7]
    return _scaled(w, w.apply("MatMulInteger", a, b, a_zero, b_zero), a_scale, b_scale, bias)


def _quantized_lstm(w: _Writer) -> Nodes:
    x, weights, recurrences, bias, lengths, hidden, cell, peepholes, w_scale, w_zero, r_scale, r_zero = w.inputs[:12]
    usual = {
        "activations": [b"Sigmoid", b"Tanh", b"Tanh"] * (2 if w.attrs.get("direction") == b"bidirectional" else 1),
        "input_forget": 0,
        "clip": 0.0,
    }
    attrs = {name: value for name, value in w.attrs.items() if name != "hidden_size" and usual.get(name) != value}
    if lengths or peepholes or attrs.keys() - {"direction"}:
        return []
    operands = (x, weights, w_scale, w_zero, recurrences, r_scale, r_zero, bias, hidden, cell)
    w.apply("DynamicQuantizeLSTM", *operands, to=w.outputs[:3], domain=OURS, **attrs)
    return w.nodes


def _scaled(w: _Writer, product: str, first: str, second: str, bias: str) -> Nodes:
    scaled = w.apply("CastLike", product, first)
    scale = w.apply("Mul", first, second)
    if bias:
        w.apply("Add", w.apply("Mul", scaled, scale), bias, to=w.outputs[0])
    else:
        w.apply("Mul", scaled, scale, to=w.outputs[0])
    return w.nodes


_RULES: dict[str, Callable[[_Writer], Nodes]] = {
    "BiasGelu": _bias_gelu,
    "DynamicQuantizeLSTM": _quantized_lstm,
    "DynamicQuantizeMatMul": _dynamic_product,
    "FastGelu": _fast_gelu,
    "FusedMatMul": _product,
    "Gelu": _gelu,
    "MatMulIntegerToFloat": _integer_product,
    "QuickGelu": _quick_gelu,
    "SimplifiedLayerNormalization": _simplified_norm,
    "SkipLayerNormalization": _skip_norm("LayerNormalization"),
    "SkipSimplifiedLayerNormalization": _skip_norm("RMSNormalization"),
}
