"""Products of 8-bit floats with scales: per tensor, or per block of rows and columns.

A quantised tensor is its elements in an 8-bit type and scales in Float32: an element is worth its value times the
scale of its block. Blocks are over the last two dimensions, or over as many as `block` has sizes, where 0 is the whole
of a dimension; `block = []` is one scale for the whole tensor. The scale is the greatest magnitude of a block divided
by the largest number of the type (448 for Float8E4M3FN, 57344 for Float8E5M2), 1 for a block of zeros, as in torchao
and Transformer Engine ("current scaling"). DeepSeek-V3 (arXiv:2412.19437, section 3.3) has blocks of 1 x 128 for
activations and gradients, 128 x 128 for weights. Current scaling in a step of microbatches and replicas, each of which
has a scale of its own, is `block = [4, 0, 0]`: one for each 4 examples of (example, place, feature).

With delayed scaling (Micikevicius et al., arXiv:2209.05433; Transformer Engine) the scale of a tensor follows from the
greatest magnitudes that it had in the last steps, its history, a buffer of the training step: `ScaleToFloat8`
takes it, and gives the greatest magnitudes of this step, which `RecordGreatest` keeps for the next ones.
"""

# isort: off
# `distir ops` and the reference show ops in this order.
from distir.ops.float8.scales import E4M3, E5M2, LARGEST, MEASURES, scale_shape
from distir.ops.float8.quantizing import DequantizeFloat8, GreatestOfBlocks, QuantizeFloat8
from distir.ops.float8.delayed import Greatest, NextHistory, RecordGreatest, ScaleToFloat8
from distir.ops.float8.product import ScaledMatMul
from distir.ops.float8.ragged import ScaledRaggedMatMul, ScaledRaggedMatMulGrad
# isort: on

__all__ = [
    "E4M3",
    "E5M2",
    "LARGEST",
    "MEASURES",
    "DequantizeFloat8",
    "Greatest",
    "GreatestOfBlocks",
    "NextHistory",
    "QuantizeFloat8",
    "RecordGreatest",
    "ScaleToFloat8",
    "ScaledMatMul",
    "ScaledRaggedMatMul",
    "ScaledRaggedMatMulGrad",
    "scale_shape",
]
