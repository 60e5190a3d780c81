"""Normalisations by the mean and the variance, and by the root mean square, however they are spelled.

Each is built up: first without a scale, then with one, then with an addend; so every order of these is covered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from distir.importers.onnx_nodes import shortest
from distir.importers.recognition.patterns import Match, Pattern, mean, number, op, value
from distir.importers.recognition.rewriting import MatchedFunction, rule
from distir.ir import Apply, Attributes, Constant

x, w = value("x"), value("w")


def _square(of: Pattern) -> Pattern:
    return op.Pow(of, number(2)) | op.Mul(of, of)


def _over_root(dividend: Pattern, variance: Pattern) -> Pattern:
    """`dividend / sqrt(variance + epsilon)`."""
    shifted = op.Add(variance, number("epsilon"))
    root = op.Sqrt(shifted) | op.Pow(shifted, number(0.5))
    inverse = op.Reciprocal(root) | op.Div(number(1), root) | op.Pow(shifted, number(-0.5))
    return op.Mul(dividend, inverse) | op.Div(dividend, root) | op.Mul(dividend, op.Mul(inverse, w))


ROOT_MEAN_SQUARE = _over_root(x, mean(_square(x))) | op.Div(
    op.Mul(x, w), op.Sqrt(op.Add(mean(_square(x)), number("epsilon")))
)
CENTRED = op.Sub(x, mean(x))
MEAN_OF_SQUARES = op.Sub(mean(_square(x)), _square(mean(x)))
"""A variance in one pass over the elements, as flax computes it, where rounding may make it negative."""

VARIANCE = _over_root(CENTRED, mean(_square(CENTRED)) | MEAN_OF_SQUARES | op.Max(MEAN_OF_SQUARES, number(0)))


@rule("Div")
def averaged(program: MatchedFunction, root: Apply) -> str | None:
    """A sum over as many elements as it is divided by."""
    by, name = program.number(root.args[1]), str(root.args[0])
    made = program.maker(name)
    if made is None or made.op != "ReduceSum" or not made.attrs.get("keepdims", True):
        return None
    axes, shape = program.axes(made), program.shape(made.args[0])
    if axes is None or shape is None or not program.inner(root, {name}):
        return None
    sizes = [size for axis in axes if isinstance(size := shape[axis], int)]
    if len(sizes) != len(axes) or by != math.prod(sizes):
        return None
    source = str(made.args[0])
    return program.apply("ReduceMean", source, program.sizes(axes, source), like=source)


@rule("Mul", "Div")
def root_mean_square(program: MatchedFunction, root: Apply) -> str | None:
    """`x / sqrt(mean(x * x) + epsilon)`."""
    return _normalised(program, "RMSNormalization", ROOT_MEAN_SQUARE.of(program, root))


@rule("Mul", "Div")
def mean_and_variance(program: MatchedFunction, root: Apply) -> str | None:
    """`(x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon)`."""
    return _normalised(program, "LayerNormalization", VARIANCE.of(program, root))


def _normalised(program: MatchedFunction, name: str, found: Match | None) -> str | None:
    shape = program.shape(found["x"]) if found else None
    if not found or shape is None or found["axis"] < -len(shape):
        return None
    width = tuple(size for size in shape[found["axis"] :] if isinstance(size, int))
    if len(width) != -found["axis"]:
        return None
    scale = found.get("w") or _ones(program, width, found["x"])
    if program.shape(scale) != width:
        return None
    attrs: dict[str, Constant] = {"axis": found["axis"], "epsilon": shortest(found["epsilon"])}
    return program.apply(name, found["x"], scale, like=found["x"], **attrs)


def _ones(program: MatchedFunction, shape: tuple[int, ...], like: str) -> str:
    one = program.constant(1.0, program.dtype(like), like)
    return program.apply("Expand", one, program.sizes(shape, like), like=like)


@dataclass(frozen=True, slots=True)
class _Normalisation:
    """What an op normalises, by a scale and without an addend."""

    op: str
    x: str
    scale: str
    attrs: Attributes


def _normalisation(program: MatchedFunction, name: object) -> _Normalisation | None:
    made = program.maker(name)
    if made is None or made.op not in ("RMSNormalization", "LayerNormalization") or len(made.args) != 2:
        return None
    x, scale = made.args
    return _Normalisation(made.op, str(x), str(scale), made.attrs)


@rule("Mul")
def scaled(program: MatchedFunction, root: Apply) -> str | None:
    """A normalisation without a scale, times one."""
    for name, scale in (root.args, root.args[::-1]):
        made = _normalisation(program, name)
        if made is None or not _is_one(program, made.scale):
            continue
        fits = program.shape(scale) == program.shape(made.scale) and program.number(scale) is None
        if fits and program.inner(root, {str(name)}):
            return program.apply(made.op, made.x, str(scale), like=str(name), **made.attrs)
    return None


@rule("Add")
def shifted(program: MatchedFunction, root: Apply) -> str | None:
    """A normalisation by mean and variance, with an addend."""
    for name, addend in (root.args, root.args[::-1]):
        made = _normalisation(program, name)
        if made is None or made.op != "LayerNormalization":
            continue
        fits = program.shape(addend) == program.shape(made.scale) and program.number(addend) is None
        if fits and program.inner(root, {str(name)}):
            return program.apply(made.op, made.x, made.scale, str(addend), like=str(name), **made.attrs)
    return None


@rule("Cast")
def in_wide_elements(program: MatchedFunction, root: Apply) -> str | None:
    """Normalised in wider elements than there are before and after: the op itself does that."""
    made = _normalisation(program, root.args[0])
    before = None if made is None else program.maker(made.x)
    if made is None or before is None or before.op != "Cast" or not _is_one(program, made.scale):
        return None
    source, shape = str(before.args[0]), program.shape(made.scale)
    narrow, wide = program.dtype(source), program.dtype(made.x)
    if narrow is None or wide is None or narrow != root.attrs.get("to") or wide.name != "Float32" or shape is None:
        return None
    if not program.inner(root, {str(root.args[0])}):
        return None
    if narrow.bytes >= wide.bytes or narrow.kind != "float":
        return None
    ones = _ones(program, tuple(int(size) for size in shape if isinstance(size, int)), source)
    return program.apply(made.op, source, ones, like=source, **made.attrs)


def _is_one(program: MatchedFunction, name: object) -> bool:
    """Whether all elements of a value are known to be 1."""
    made = program.maker(name)
    if made is not None and made.op in ("Expand", "CastLike", "Cast"):
        return _is_one(program, made.args[0])
    found = program.known(name)
    return found is not None and all(value == 1 for value in found.values)


RULES = (averaged, mean_and_variance, root_mean_square, scaled, shifted, in_wide_elements)
