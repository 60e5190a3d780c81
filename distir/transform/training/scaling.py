"""Processing of gradients before the update: accumulation in an element type, clipping, unscaling.

Clipping and loss scaling yield one factor by which the optimizer multiplies each gradient. It is computed from one
scalar, the sum of squares of all gradients, which transforms reduce over shards, stages and partitions, counting
replicated values once. If the sum is not finite, loss scaling skips the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distir.ir import (
    DTYPES,
    Arg,
    Attributes,
    Device,
    DType,
    Param,
    Statement,
    TensorType,
    TupleType,
    Type,
    results,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import facts_of, stating

FLOAT32, FLOAT64, INT64 = DTYPES["Float32"], DTYPES["Float64"], DTYPES["Int64"]

FIRST_SCALE = 65536.0
"""The loss scale that dynamic scaling begins with, as in PyTorch."""


@dataclass(frozen=True, slots=True)
class LossScaling:
    """The initial scale; `dynamic`: whether it adapts to the gradients."""

    first: float
    dynamic: bool


@dataclass(frozen=True, slots=True)
class ScaleState:
    """The parameters that hold the loss scale, and the number of steps since gradients were last not finite."""

    params: tuple[Param, ...]

    @property
    def scale(self) -> str:
        """The parameter with the scale."""
        return self.params[0].name


def scale_state(f: FunctionBuilder, scaling: LossScaling, device: Device) -> ScaleState:
    """The parameters for a loss scale. A fixed scale is a parameter too, so that it is on the device."""

    def state(hint: str, dtype: DType, initial: float) -> Param:
        roles = Attributes({"state": True, "initial": initial})
        return Param(f.fresh(hint), TensorType(dtype, (), device), roles)

    scale = state("loss_scale", FLOAT32, scaling.first)
    return ScaleState((scale, state("finite_steps", INT64, 0)) if scaling.dynamic else (scale,))


def next_scale(f: FunctionBuilder, state: ScaleState, factor: str) -> tuple[Arg, ...]:
    """Write the update of the loss scale for the next step."""
    names = [p.name for p in state.params]
    if len(names) == 1:
        return (names[0],)
    return f.apply("LossScale", *names, factor, results=tuple(f"{name}_new" for name in names))


def added_up_in(
    f: FunctionBuilder, gradients: Mapping[str, Arg], stated: Mapping[str, Type], dtype: DType | None
) -> dict[str, Arg]:
    """Write casts of the gradients to the element type in which they are accumulated; None: no casts.

    Each is cast as soon as it is computed, so that the narrow one is freed.
    """
    if dtype is None:
        return dict(gradients)
    found, casts = dict(gradients), dict[str, list[Statement]]()
    for name, gradient in gradients.items():
        leaves = [leaf for leaf in types.leaves(stated[name]) if isinstance(leaf, TensorType)]
        if isinstance(gradient, str) and any(leaf.dtype is not dtype for leaf in leaves):
            (found[name],) = f.apply("CastGradient", gradient, to=dtype, results=(f"d{name}_{dtype.compact}",))
            casts.setdefault(gradient, []).append(f.body.pop())
    body: list[Statement] = []
    for statement in f.body:
        body.append(statement)
        for name in results(statement):
            body += stating(replace(facts_of(statement), of=""), casts.pop(name, ()))
    f.body[:] = body
    return found


def gradient_factor(
    f: FunctionBuilder, gradients: Sequence[tuple[Arg, Type]], clip: float | None, scale: str | None
) -> str:
    """Write the factor of all gradients. Gradients are given with the types of their weights."""
    wide = any(isinstance(leaf, TensorType) and leaf.dtype is FLOAT64 for _, t in gradients for leaf in types.leaves(t))
    attrs = {"to": FLOAT64} if wide else {}
    squares = [
        f.apply("SquaredNorm", leaf, results=(f"{leaf}_squared" if isinstance(leaf, str) else "squared",), **attrs)[0]
        for gradient, stated in gradients
        for leaf in _leaves(f, gradient, stated)
    ]
    (total,) = f.apply("Sum", *squares, results=("squared_norm",))
    if scale is not None and wide:
        (scale,) = f.apply("Cast", scale, to=FLOAT64)
    operands = (total,) if scale is None else (total, scale)
    limit = {} if clip is None else {"max_norm": clip}
    return f.apply("GradientFactor", *operands, results=("gradient_factor",), **limit)[0]


def _leaves(f: FunctionBuilder, gradient: Arg, stated: Type) -> Iterator[Arg]:
    if not isinstance(stated, TupleType):
        yield gradient
        return
    hint = gradient if isinstance(gradient, str) else "gradient"
    for item, inner in zip(
        f.apply("UnpackTuple", gradient, results=(hint,) * len(stated.items)), stated.items, strict=True
    ):
        yield from _leaves(f, item, inner)
