"""The signature and work of every bridged op, by family. Does not import onnx.

The letters determine the layouts (`sharding`): a letter of an operand and of every result may be split, and a letter in
`summed`, over which the results are sums. Every other dimension is replicated. A letter of a result only (`*o`) is
filled in by shape inference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from distir.ops.bridge import flops
from distir.ops.core import Amount
from distir.ops.resources import Contraction


class Meaning(NamedTuple):
    """The signature, work and layout of a bridged op. Everything else comes from ONNX."""

    signatures: tuple[str, ...]
    flops: Amount
    foldable: bool = True
    summed: tuple[str, ...] = ()
    linear: tuple[str, ...] = ()
    contraction: Callable[..., Contraction | None] | None = None
    family: str = "onnx"


def _ops(
    names: str,
    *signatures: str,
    flops: Amount = 0,
    foldable: bool = True,
    summed: tuple[str, ...] = (),
    linear: tuple[str, ...] = (),
    contraction: Callable[..., Contraction | None] | None = None,
) -> dict[str, Meaning]:
    return dict.fromkeys(names.split(), Meaning(signatures, flops, foldable, summed, linear, contraction))


ELEMENTWISE = {
    **_ops("Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Tan", "Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1),
    **_ops("Softsign ThresholdedRelu", "Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=3),
    **_ops("Celu Selu Mish", "Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=5),
    **_ops("Shrink", "Tensor[t:number, s, d] -> Tensor[t, s, d]", flops=4),
    **_ops("PRelu", "Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=2),
    **_ops("SwiGLU", "Tensor[t:float, s, d], Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=7),
    **_ops("IsInf IsNaN", "Tensor[t:float, s, d] -> Tensor[Bool, s, d]", flops=1),
    **_ops("BitwiseNot", "Tensor[t:int, s, d] -> Tensor[t, s, d]", flops=1),
    **_ops(
        "BitShift BitwiseAnd BitwiseOr BitwiseXor",
        "Tensor[t:int, (...), d], Tensor[t:int, (...), d] -> Tensor[t, (...), d]",
        flops=1,
    ),
    **_ops("Xor", "Tensor[Bool, (...), d], Tensor[Bool, (...), d] -> Tensor[Bool, (...), d]", flops=1),
    **_ops("BitCast", "Tensor[t, s, d] -> Tensor[to, s, d]"),
    **_ops("CastLike", "Tensor[t, s, d], Tensor[u, _, d] -> Tensor[u, s, d]"),
}

CONVOLUTION = {
    **_ops(
        "Conv",  # the second signature is for groups; `sharding` defines how channels are split
        "Tensor[t:float, (b, c, *s), d], Tensor[t:float, (m, c, *k), d], Optional[Tensor[t:float, (m,), d]]"
        " -> Tensor[t, (b, m, *o), d]",
        "Tensor[t:float, (b, c, *s), d], Tensor[t:float, (_, c / group, *k), d], Optional[Tensor[t:float, (_,), d]]"
        " -> Tensor[t, (b, _, *o), d]",
        flops=flops.convolution,
        contraction=flops.convolution_product,
    ),
    **_ops(
        "ConvInteger",
        "Tensor[t:int, (b, c, *s), d], Tensor[u:int, (m, c, *k), d], Optional[Tensor[t:int, _, d]],"
        " Optional[Tensor[u:int, _, d]] -> Tensor[Int32, (b, _, *o), d]",
        "Tensor[t:int, (b, c, *s), d], Tensor[u:int, (_, c / group, *k), d], Optional[Tensor[t:int, _, d]],"
        " Optional[Tensor[u:int, _, d]] -> Tensor[Int32, (b, _, *o), d]",
        flops=flops.convolution,
    ),
    **_ops(
        "QLinearConv",
        "Tensor[t:int, (b, c, *s), d], Tensor[Float32, _, d], Tensor[t:int, _, d],"
        " Tensor[u:int, (_, c / group, *k), d], Tensor[Float32, _, d], Tensor[u:int, _, d],"
        " Tensor[Float32, _, d], Tensor[v:int, _, d], Optional[Tensor[Int32, (_,), d]] -> Tensor[v, (b, _, *o), d]",
        flops=flops.quantized_convolution,
    ),
    **_ops(
        "ConvTranspose",
        "Tensor[t:float, (b, c, *s), d], Tensor[t:float, (c, _, *k), d], Optional[Tensor[t:float, (_,), d]]"
        " -> Tensor[t, (b, _, *o), d]",
        flops=flops.transposed_convolution,
    ),
    **_ops(
        "DeformConv",
        "Tensor[t:float, (b, _, _, _), d], Tensor[t:float, (_, _, _, _), d], Tensor[t:float, (b, _, *p), d],"
        " Optional[Tensor[t:float, (_,), d]], Optional[Tensor[t:float, (b, _, *p), d]] -> Tensor[t, (b, _, *o), d]",
        flops=flops.deformable_convolution,
    ),
    **_ops(
        "CausalConvWithState",
        "Tensor[t:float, (b, c, _), d], Tensor[t:float, (c, 1, _), d], Optional[Tensor[t:float, (c,), d]],"
        " Optional[Tensor[t:float, (b, c, _), d]] -> Tensor[t, (b, c, _), d], Tensor[t, (b, c, _), d]",
        flops=flops.causal_convolution,
    ),
    **_ops(
        "Col2Im",
        "Tensor[t, (b, _, _), d], Tensor[Int64, (_,), host], Tensor[Int64, (_,), host] -> Tensor[t, (b, *o), d]",
        flops=flops.each_operand(1),
    ),
}

POOLING = {
    **_ops(
        "AveragePool", "Tensor[t:float, (b, c, *s), d] -> Tensor[t, (b, c, *o), d]", flops=flops.pooling, linear=("X",)
    ),
    **_ops("LpPool", "Tensor[t:float, (b, c, *s), d] -> Tensor[t, (b, c, *o), d]", flops=flops.norm_pooling),
    **_ops(
        "MaxPool",  # its indices refer to the whole operand, so they cannot be split
        "Tensor[t:number, (b, c, *s), d] -> Tensor[t, (b, c, *o), d], *Tensor[Int64, _, d]",
        flops=flops.pooling,
    ),
    **_ops(
        "GlobalAveragePool GlobalMaxPool",
        "Tensor[t:float, (b, c, *s), d] -> Tensor[t, (b, c, *o), d]",
        flops=flops.each_operand(1),
    ),
    **_ops(
        "GlobalLpPool",
        "Tensor[t:float, (b, c, *s), d] -> Tensor[t, (b, c, *o), d]",
        flops=flops.each_operand(2),
    ),
    **_ops(
        "MaxRoiPool",
        "Tensor[t:float, (_, c, _, _), d], Tensor[t:float, (r, 5), d] -> Tensor[t, (r, c, *o), d]",
        flops=flops.each_operand(1),
    ),
    **_ops(
        "RoiAlign",
        "Tensor[t:float, (_, c, _, _), d], Tensor[t:float, (r, 4), d], Tensor[Int64, (r,), d]"
        " -> Tensor[t, (r, c, *o), d]",
        flops=flops.region_alignment,
    ),
    **_ops(
        "MaxUnpool",
        "Tensor[t:float, _, d], Tensor[Int64, _, d], Optional[Tensor[Int64, (_,), host]] -> Tensor[t, _, d]",
    ),
}

NORMALIZATION = {
    **_ops(
        "BatchNormalization",  # in training `b` may not be split, for the statistics are over it: see `sharding`
        "Tensor[t:float, (b, c, *s), d], Tensor[u:float, (c,), d], Tensor[u:float, (c,), d],"
        " Tensor[v:float, (c,), d], Tensor[v:float, (c,), d] -> Tensor[t, (b, c, *s), d], *Tensor[v, (c,), d]",
        "Tensor[t:float, (b,), d], Tensor[u:float, (1,), d], Tensor[u:float, (1,), d],"
        " Tensor[v:float, (1,), d], Tensor[v:float, (1,), d] -> Tensor[t, (b,), d], *Tensor[v, (1,), d]",
        flops=flops.batch_normalization,
    ),
    **_ops(
        "InstanceNormalization",
        "Tensor[t:float, (b, c, *s), d], Tensor[t:float, (c,), d], Tensor[t:float, (c,), d]"
        " -> Tensor[t, (b, c, *o), d]",
        flops=8,
    ),
    **_ops(
        "GroupNormalization",
        "Tensor[t:float, (b, _, *s), d], Tensor[t:float, (_,), d], Tensor[t:float, (_,), d]"
        " -> Tensor[t, (b, _, *o), d]",
        flops=8,
    ),
    **_ops("LRN", "Tensor[t:float, (b, _, *s), d] -> Tensor[t, (b, _, *s), d]", flops=flops.local_response),
    **_ops("MeanVarianceNormalization", "Tensor[t:float, s, d] -> Tensor[t, o, d]", flops=6),
    **_ops("LpNormalization", "Tensor[t:float, (*a, n@axis, *b), d] -> Tensor[t, (*a, n, *b), d]", flops=3),
    **_ops("Hardmax", "Tensor[t:float, (*a, n@axis, *b), d] -> Tensor[t, (*a, n, *b), d]", flops=2),
}

_RECURRENT = (
    "Tensor[t:float, (_, _, i), d], Tensor[t:float, (n, g, i), d], Tensor[t:float, (n, g, _), d],"
    " Optional[Tensor[t:float, (_, _), d]], Optional[Tensor[Int32, (_,), d]], Optional[Tensor[t:float, (_, _, _), d]]"
)

RECURRENT = {
    **_ops("RNN", f"{_RECURRENT} -> Tensor[t, _, d], *Tensor[t, _, d]", flops=flops.recurrence(2)),
    **_ops("GRU", f"{_RECURRENT} -> Tensor[t, _, d], *Tensor[t, _, d]", flops=flops.recurrence(13)),
    **_ops(
        "LSTM",
        f"{_RECURRENT}, Optional[Tensor[t:float, (_, _, _), d]], Optional[Tensor[t:float, (_, _), d]]"
        " -> Tensor[t, _, d], *Tensor[t, _, d]",
        flops=flops.recurrence(18),
    ),
    **_ops(
        "LinearAttention",
        "Tensor[t:float, (b, n, _), d], Tensor[t:float, (b, _, _), d], Tensor[t:float, (b, _, _), d],"
        " Optional[Tensor[u:float, (b, _, _, _), d]], Optional[Tensor[t:float, (b, _, _), d]],"
        " Optional[Tensor[t:float, (b, _, _), d]] -> Tensor[t, (b, _, _), d], Tensor[_, (b, _, _, _), d]",
        flops=flops.linear_attention,
    ),
}

QUANTIZATION = {
    **_ops(
        "QuantizeLinear",  # the second signature: a scale for each channel or block, so that these may not be split
        "Tensor[t, s, d], Tensor[u, (), d], Optional[Tensor[v, (), d]] -> Tensor[v, s, d]",
        "Tensor[t, s, d], Tensor[u, _, d], Optional[Tensor[v, _, d]] -> Tensor[v, o, d]",
        flops=3,
    ),
    **_ops(
        "DequantizeLinear",
        "Tensor[t, s, d], Tensor[u, (), d], Optional[Tensor[t, (), d]] -> Tensor[u, s, d]",
        "Tensor[t, s, d], Tensor[u, _, d], Optional[Tensor[t, _, d]] -> Tensor[u, o, d]",
        flops=2,
    ),
    **_ops(
        "DynamicQuantizeLinear",
        "Tensor[Float32, s, d] -> Tensor[UInt8, o, d], Tensor[Float32, (), d], Tensor[UInt8, (), d]",
        flops=flops.each_operand(5),
    ),
    **_ops(
        "MatMulInteger",
        "Tensor[t:int, (..., m, k), d], Tensor[u:int, (..., k, n), d], Optional[Tensor[t:int, _, d]],"
        " Optional[Tensor[u:int, _, d]] -> Tensor[Int32, (..., m, n), d]",
        "Tensor[t:int, _, d], Tensor[u:int, _, d], Optional[Tensor[t:int, _, d]],"
        " Optional[Tensor[u:int, _, d]] -> Tensor[Int32, _, d]",
        flops=flops.integer_matmul,
        summed=("k",),
    ),
    **_ops(
        "QLinearMatMul",
        "Tensor[t, (..., m, _), d], Tensor[s, _, d], Tensor[t, _, d], Tensor[u, (..., _, n), d],"
        " Tensor[s, _, d], Tensor[u, _, d], Tensor[s, _, d], Tensor[v, _, d] -> Tensor[v, (..., m, n), d]",
        "Tensor[t, _, d], Tensor[s, _, d], Tensor[t, _, d], Tensor[u, _, d],"
        " Tensor[s, _, d], Tensor[u, _, d], Tensor[s, _, d], Tensor[v, _, d] -> Tensor[v, _, d]",
        flops=flops.quantized_matmul,
    ),
}

IMAGE = {
    **_ops("DepthToSpace SpaceToDepth", "Tensor[t, (b, _, _, _), d] -> Tensor[t, (b, _, _, _), d]", linear=("input",)),
    **_ops(
        "Resize",
        "Tensor[t, s, d], Optional[Tensor[u:float, (_,), host]], Optional[Tensor[Float32, (_,), host]],"
        " Optional[Tensor[Int64, (_,), host]] -> Tensor[t, _, d]",
        flops=flops.resizing,
    ),
    **_ops(
        "GridSample",
        "Tensor[t, (b, c, *s), d], Tensor[u:float, (b, *g), d] -> Tensor[t, (b, c, *o), d]",
        flops=flops.grid_sampling,
    ),
    **_ops("AffineGrid", "Tensor[t:float, (_, _, _), d], Tensor[Int64, (_,), host] -> Tensor[t, _, d]", flops=6),
    **_ops("CenterCropPad", "Tensor[t, s, d], Tensor[i:int, (_,), host] -> Tensor[t, _, d]"),
    **_ops(
        "NonMaxSuppression",
        "Tensor[Float32, (_, _, 4), d], Tensor[Float32, (_, _, _), d], Optional[Tensor[Int64, _, d]],"
        " Optional[Tensor[Float32, _, d]], Optional[Tensor[Float32, _, d]] -> Tensor[Int64, (_, 3), d]",
        flops=flops.suppression,
    ),
}

SELECTION = {
    **_ops("Compress", "Tensor[t, s, d], Tensor[Bool, (_,), d] -> Tensor[t, _, d]"),
    **_ops("NonZero", "Tensor[t, s, d] -> Tensor[Int64, (_, _), d]", flops=flops.each_operand(1)),
    **_ops(
        "Unique",
        "Tensor[t, s, d] -> Tensor[t, _, d], *Tensor[Int64, (_,), d]",
        flops=flops.sorting,
    ),
    **_ops("ReverseSequence", "Tensor[t, s, d], Tensor[Int64, (_,), d] -> Tensor[t, o, d]"),
    **_ops("TfIdfVectorizer", "Tensor[t:int, _, d] -> Tensor[Float32, _, d]", flops=flops.each_operand(1)),
}

REDUCTION = {
    **_ops(
        "ReduceL1 ReduceLogSum",
        "Tensor[t:number, s, d], Optional[Tensor[Int64, (r,), host]] -> Tensor[t, _, d]",
        flops=flops.each_operand(2),
    ),
    **_ops("CumProd", "Tensor[t:number, s, d], Tensor[i:int, _, host] -> Tensor[t, s, d]", flops=1),
    **_ops("Det", "Tensor[t:float, (*s, _, _), d] -> Tensor[t, s, d]", flops=flops.determinant),
}

SIGNAL = {
    **_ops(
        "DFT",
        "Tensor[t:float, s, d], Optional[Tensor[i:int, (), host]], Optional[Tensor[Int64, (), host]]"
        " -> Tensor[t, _, d]",
        flops=flops.fourier,
    ),
    **_ops(
        "STFT",
        "Tensor[t:float, (b, *s), d], Tensor[i:int, (), host], Optional[Tensor[t:float, (_,), d]],"
        " Optional[Tensor[i:int, (), host]] -> Tensor[t, (b, _, _, 2), d]",
        flops=flops.fourier,
    ),
    **_ops("BlackmanWindow HammingWindow HannWindow", "Tensor[i:int, (), host] -> Tensor[_, (_,), host]"),
    **_ops(
        "MelWeightMatrix",
        "Tensor[i:int, (), host], Tensor[i:int, (), host], Tensor[i:int, (), host], Tensor[f:float, (), host],"
        " Tensor[f:float, (), host] -> Tensor[_, (_, _), host]",
    ),
}

RANDOM = {
    **_ops("RandomNormal RandomUniform", "-> Tensor[_, _, host]", foldable=False),
    **_ops(
        "Bernoulli RandomNormalLike RandomUniformLike", "Tensor[t, s, d] -> Tensor[_, o, d]", flops=8, foldable=False
    ),
    **_ops("Multinomial", "Tensor[t:float, (b, _), d] -> Tensor[_, (_, _), d]", flops=8, foldable=False),
}

FAMILIES: dict[str, Meaning] = {
    name: meaning._replace(family=f"onnx {family}")
    for family, ops in (
        ("elementwise", ELEMENTWISE),
        ("convolution", CONVOLUTION),
        ("pooling", POOLING),
        ("normalization", NORMALIZATION),
        ("recurrent", RECURRENT),
        ("quantization", QUANTIZATION),
        ("image", IMAGE),
        ("selection", SELECTION),
        ("reduction", REDUCTION),
        ("signal", SIGNAL),
        ("random", RANDOM),
    )
    for name, meaning in ops.items()
}
"""By ONNX name."""

NAMES = tuple(FAMILIES)
"""The names of the bridged ops, which need onnx."""
