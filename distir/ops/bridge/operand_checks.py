"""What ONNX's shape inference lets pass, though its definitions, and all implementations, do not: sizes of operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

from distir.diagnostics.codes import types as codes
from distir.ir import Attributes, Dim, Shape, dims, types
from distir.ops.host import Operand, known_ints
from distir.ops.unify import Reject
from distir.ops.windows import window_count

Operands = Sequence[Operand | None]


def check_sizes(name: str, operands: Operands, attrs: Attributes) -> None:
    """Raises Reject for operands whose known sizes do not fit together, or do not fit the attributes."""
    rule = _RULES.get(name)
    if rule is not None:
        rule(_Given(name, operands, attrs))


class _Given:
    """The operands and attributes of an op, and what is expected of them."""

    def __init__(self, name: str, operands: Operands, attrs: Attributes) -> None:
        self.name, self.attrs = name, attrs
        self.operands = [*operands, *[None] * (8 - len(operands))]
        self.shapes: list[Shape | None] = [None if o is None else o.shape for o in self.operands]

    def size(self, operand: int, axis: int) -> Dim:
        """A size, None if it is not known."""
        shape = self.shapes[operand]
        return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None

    def number(self, attribute: str, default: int) -> int:
        value = self.attrs.get(attribute)
        return value if isinstance(value, int) else default

    def movement(self, count: int) -> list[tuple[int, ...]]:
        """Strides, dilations and pads of windows of so many dimensions."""
        usual = {"strides": (1,) * count, "dilations": (1,) * count, "pads": (0,) * 2 * count}
        given = ((self.attrs.get(key), default) for key, default in usual.items())
        return [cast("tuple[int, ...]", value or default) for value, default in given]

    def rank(self, operand: int, *ranks: int, least: int = 0) -> None:
        """Raises Reject where an operand has none of these ranks, nor any from `least` on."""
        shape = self.shapes[operand]
        if shape is None or len(shape) in ranks or (least and len(shape) >= least):
            return
        expected = " or ".join(map(str, ranks)) or f"at least {least}"
        self.reject(operand, f"{expected} dimensions", types.show_shape(shape))

    def shape(self, operand: int, *expected: Dim) -> None:
        """Raises Reject where an operand is known to have another shape; None expects nothing."""
        found = self.shapes[operand]
        if found is None:
            return
        pairs = zip(found, expected, strict=False)
        differ = any(isinstance(n, int) and isinstance(m, int) and n != m for n, m in pairs)
        if len(found) != len(expected) or differ:
            self.reject(operand, f"the shape {types.show_shape(tuple(expected))}", types.show_shape(found))

    def multiple(self, operand: int, axis: int, of: int, why: str) -> None:
        """Raises Reject where a size is known not to be a multiple."""
        size = self.size(operand, axis)
        if isinstance(size, int) and (of < 1 or size % of):
            self.reject(operand, f"a multiple of {of}, {why}, as dimension {axis}", str(size))

    def reject(self, operand: int, expected: str, found: str) -> None:
        from distir.ops.bridge.schema import operand_specs

        called = operand_specs(self.name)[operand].name
        raise Reject(codes.SHAPE_MISMATCH, f"`{self.name}` expected {expected} of `{called}`, found {found}", called)


def _times(size: Dim, *factors: int) -> Dim:
    return math.prod(factors) * size if isinstance(size, int) else None


def _convolution(given: _Given) -> None:
    groups = given.number("group", 1)
    given.multiple(0, 1, groups, "the groups")
    given.multiple(1, 0, groups, "the groups")
    rest = (given.shapes[1] or ())[2:]
    given.shape(1, given.size(1, 0), dims.divide(given.size(0, 1), groups), *rest)
    given.shape(2, given.size(1, 0))


def _transposed_convolution(given: _Given) -> None:
    groups = given.number("group", 1)
    given.multiple(1, 0, groups, "the groups")
    given.shape(2, _times(given.size(1, 1), groups))


def _deformable_convolution(given: _Given) -> None:
    batch, channels, *_ = given.shapes[0] or (None, None)
    groups, of_offsets = given.number("group", 1), given.number("offset_group", 1)
    given.multiple(0, 1, math.lcm(groups, max(of_offsets, 1)), "the groups")
    given.multiple(1, 0, groups, "the groups")
    kernel = [size for size in (given.shapes[1] or ())[2:] if isinstance(size, int)]
    given.shape(1, given.size(1, 0), dims.divide(channels, groups), *(given.shapes[1] or ())[2:])
    if len(kernel) == 2:
        places, (strides, dilations, pads) = of_offsets * math.prod(kernel), given.movement(2)
        around = zip((given.shapes[0] or ())[2:], kernel, strides, dilations, pads, pads[2:], strict=False)
        windows = [window_count(n, k, s, d, a + b) if isinstance(n, int) else None for n, k, s, d, a, b in around]
        if len(windows) == 2:
            given.shape(2, batch, 2 * places, *windows)
            given.shape(4, batch, places, *windows)
    given.shape(3, given.size(1, 0))


def _batch_normalization(given: _Given) -> None:
    if given.attrs.get("training_mode"):
        given.rank(0, least=2)


def _recurrent(gates: int) -> Callable[[_Given], None]:
    def rule(given: _Given) -> None:
        hidden: Dim = given.number("hidden_size", 0) or given.size(2, 2)
        count = 2 if given.attrs.get("direction") == "bidirectional" else 1
        first = given.number("layout", 0) == 1
        batch = given.size(0, 0 if first else 1)
        state = (batch, count, hidden) if first else (count, batch, hidden)
        given.shape(1, count, _times(hidden, gates), given.size(0, 2))
        given.shape(2, count, _times(hidden, gates), hidden)
        given.shape(3, count, _times(hidden, 2, gates))
        given.shape(4, batch)
        given.shape(5, *state)
        given.shape(6, *state)
        given.shape(7, count, _times(hidden, 3))

    return rule


def _integer_product(given: _Given) -> None:
    given.rank(0, least=1)
    given.rank(1, least=1)
    rows, columns = (
        1 if len(given.shapes[i] or (None, None)) < 2 else given.size(i, axis) for i, axis in ((0, -2), (1, -1))
    )
    for operand, size, axis in ((2, rows, -2), (3, columns, -1)):
        shape = given.shapes[operand] or ()
        if len(shape) == 1 and shape[0] != 1:
            given.shape(operand, size)
        elif len(shape) > 1:  # one for each row, or for each column
            each = (size, 1) if axis == -2 else (1, size)
            given.shape(operand, *shape[:-2], *(1 if n == 1 else m for n, m in zip(shape[-2:], each, strict=True)))


def _fourier(given: _Given) -> None:
    last = given.size(0, -1)
    given.rank(0, least=2)
    if isinstance(last, int) and last not in (1, 2):
        given.reject(0, "1 or 2, a number's parts, as the last dimension", str(last))


def _short_time_fourier(given: _Given) -> None:
    given.rank(0, 3)
    _fourier(given)


def _blocks_to_space(given: _Given) -> None:
    given.multiple(0, 1, given.number("blocksize", 1) ** 2, "the elements of a block")


def _space_to_blocks(given: _Given) -> None:
    for axis in (2, 3):
        given.multiple(0, axis, given.number("blocksize", 1), "the size of a block")


def _affine_grid(given: _Given) -> None:
    sizes = known_ints(given.operands[1]) if given.operands[1] is not None else None
    if sizes is None:
        return
    if len(sizes) not in (4, 5):
        given.reject(1, "4 or 5 sizes", str(len(sizes)))
    given.shape(0, sizes[0], len(sizes) - 2, len(sizes) - 1)


def _columns(given: _Given) -> None:
    block = known_ints(given.operands[2]) if given.operands[2] is not None else None
    image = known_ints(given.operands[1]) if given.operands[1] is not None else None
    if block is None or image is None:
        return
    if len(block) != len(image):
        given.reject(2, f"{len(image)} sizes", str(len(block)))
    given.multiple(0, 1, math.prod(block), "the elements of a block")
    strides, dilations, pads = given.movement(len(block))
    around = zip(image, block, strides, dilations, pads, pads[len(block) :], strict=False)
    places = [window_count(n, k, s, d, before + after) for n, k, s, d, before, after in around]
    given.shape(0, given.size(0, 0), given.size(0, 1), math.prod(places))


def _reversed_sequences(given: _Given) -> None:
    given.rank(0, least=2)
    given.shape(1, given.size(0, given.number("batch_axis", 1)))


def _centred(given: _Given) -> None:
    axes = cast("tuple[int, ...]", given.attrs.get("axes") or (0, 2, 3))
    given.rank(0, least=1 + max(axes))


_RULES: dict[str, Callable[[_Given], None]] = {
    "AffineGrid": _affine_grid,
    "BatchNormalization": _batch_normalization,
    "Col2Im": _columns,
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "DFT": _fourier,
    "DeformConv": _deformable_convolution,
    "DepthToSpace": _blocks_to_space,
    "GRU": _recurrent(3),
    "LSTM": _recurrent(4),
    "MatMulInteger": _integer_product,
    "MeanVarianceNormalization": _centred,
    "RNN": _recurrent(1),
    "ReverseSequence": _reversed_sequences,
    "STFT": _short_time_fourier,
    "SpaceToDepth": _space_to_blocks,
}
