"""The arithmetic operations of bridged ops, counted from shapes and attributes. Does not import onnx.

The arguments are those of `Op.flops`; `shapes` are those of the operands that are present. As for built-in ops, a
multiplication, an addition, a comparison and an elementary function count one each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from distir.ops.resources import MatrixProduct

Shapes = list[tuple[int, ...]]


def each_operand(operations: int) -> Callable[..., int]:
    """A constant number of operations for each element of the operands."""

    def flops(inputs: int, **_: Any) -> int:
        return operations * inputs

    return flops


def sorting(inputs: int, **_: Any) -> int:
    """N log2 N comparisons."""
    return inputs * max(inputs, 1).bit_length()


def convolution(shapes: Shapes, elements: int, **_: Any) -> int:
    """Every element of the result is a sum over a filter: the weights' shape without its first dimension."""
    return 2 * elements * math.prod(shapes[1][1:])


def convolution_product(shapes: Shapes, elements: int, group: int = 1, **_: Any) -> MatrixProduct:
    """The implicit product: a row for each position of each example, a column for each filter."""
    channels = shapes[1][0]
    return MatrixProduct(elements // channels, channels // group, math.prod(shapes[1][1:]), group)


def quantized_convolution(shapes: Shapes, elements: int, **_: Any) -> int:
    """As `convolution`, with the weights as the fourth operand; the sums are scaled, rounded and clamped."""
    return 2 * elements * math.prod(shapes[3][1:]) + 3 * elements


def transposed_convolution(shapes: Shapes, **_: Any) -> int:
    """Every element of the operand is multiplied with a filter."""
    return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])


def deformable_convolution(shapes: Shapes, elements: int, **_: Any) -> int:
    """A convolution over samples that are interpolated between four neighbours each."""
    samples = elements // max(shapes[1][0], 1) * math.prod(shapes[1][2:]) * shapes[0][1]
    return 2 * elements * math.prod(shapes[1][1:]) + BILINEAR * samples


def causal_convolution(shapes: Shapes, activation: str = "none", **_: Any) -> int:
    per_element = 2 * shapes[1][2] + (0 if activation == "none" else 5)
    return per_element * math.prod(shapes[0])


def pooling(elements: int, kernel_shape: tuple[int, ...], **_: Any) -> int:
    """One operation for each element of a window."""
    return elements * math.prod(kernel_shape)


def norm_pooling(elements: int, kernel_shape: tuple[int, ...], **_: Any) -> int:
    """A power and a sum for each element of a window, and a root."""
    return elements * (2 * math.prod(kernel_shape) + 1)


def batch_normalization(shapes: Shapes, training_mode: bool = False, **_: Any) -> int:
    """Scale and shift; in training the statistics too."""
    return (8 if training_mode else 4) * math.prod(shapes[0])


def local_response(shapes: Shapes, size: int, **_: Any) -> int:
    return (2 * size + 4) * math.prod(shapes[0])


def integer_matmul(shapes: Shapes, elements: int, **_: Any) -> int:
    return 2 * elements * shapes[0][-1]


def quantized_matmul(shapes: Shapes, elements: int, **_: Any) -> int:
    return 2 * elements * shapes[0][-1] + 3 * elements


def recurrence(gate_flops: int) -> Callable[..., int]:
    """A recurrent network: a step multiplies with `W` and `R` and does `gate_flops` for each hidden element."""

    def flops(shapes: Shapes, **_: Any) -> int:
        x, w, r = shapes[:3]
        steps_and_batch = x[0] * x[1]
        return steps_and_batch * (2 * math.prod(w) + 2 * math.prod(r) + gate_flops * r[0] * r[2])

    return flops


def linear_attention(shapes: Shapes, q_num_heads: int, kv_num_heads: int, update_rule: str = "linear", **_: Any) -> int:
    """A token updates each head's state matrix (an outer product), and queries it (a product with it)."""
    batch, tokens, width = shapes[0]
    state = (width // q_num_heads) * (shapes[2][2] // kv_num_heads)
    update = 2 + ("gated" in update_rule) + 4 * ("delta" in update_rule)
    return batch * tokens * state * (2 * q_num_heads + update * kv_num_heads)


def fourier(shapes: Shapes, elements: int, **_: Any) -> int:
    """A fast transform: 5 N log2 N for N complex numbers (Cooley and Tukey 1965), N taken as the longest dimension."""
    longest = max(shapes[0], default=1)
    return 5 * (elements // 2) * max(longest, 2).bit_length()


def determinant(shapes: Shapes, **_: Any) -> int:
    """By LU decomposition."""
    n = shapes[0][-1]
    return 2 * math.prod(shapes[0]) * n // 3


def resizing(shapes: Shapes, elements: int, mode: str = "nearest", **_: Any) -> int:
    """The neighbours that an element is interpolated from, a weight and a sum each: 2 or 4 along each dimension."""
    neighbours = {"nearest": 0, "linear": 2, "cubic": 4}.get(mode, 0)
    return 2 * elements * neighbours ** max(len(shapes[0]) - 2, 1)


def grid_sampling(shapes: Shapes, elements: int, mode: str = "linear", **_: Any) -> int:
    return resizing(shapes, elements, {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))


def region_alignment(elements: int, sampling_ratio: int = 0, **_: Any) -> int:
    """`sampling_ratio` squared samples for each element of the result; 4 where ONNX leaves the number to the data."""
    return elements * BILINEAR * (sampling_ratio**2 or 4)


def suppression(shapes: Shapes, **_: Any) -> int:
    """At worst every pair of boxes is compared, for each class."""
    batch, classes, boxes = shapes[1]
    return 12 * batch * classes * boxes * (boxes - 1) // 2


BILINEAR = 8
"""Operations that an interpolation between four neighbours takes."""
