"""The loss of a forward program, and its gradient with respect to the program's result.

The loss is a scaled sum over the batch: so losses and gradients of parts of the batch, on several devices or in several
microbatches, add up to those of the whole batch. It is computed in at least Float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from distir.analysis import Analysis, check
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DTYPES,
    NO_ATTRIBUTES,
    AnyType,
    Arg,
    Attributes,
    Dense,
    DType,
    Function,
    Literal,
    Param,
    Site,
    TensorType,
    TupleType,
    Type,
    dims,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ops import type_of
from distir.transform.backward_pass import is_differentiable

LOSSES = ("auto", "mse", "cross_entropy", "none")
REDUCTIONS = ("mean", "sum")
BATCH = Attributes({"batch": 0})
INT64, FLOAT32 = DTYPES["Int64"], DTYPES["Float32"]


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss, its gradient with respect to the program's result, and the parameters that it takes."""

    loss: Arg
    seed: Arg
    params: tuple[Param, ...]


def batch_axis(analysis: Analysis, entry: Function, scored: str) -> int:
    """The batch dimension of a result: the one whose size grows with the batch; the first if that is unknown."""
    before = type_of(analysis.states[entry.name][scored])
    wide: list[Param] = []
    sizes: set[object] = set()
    for param in entry.params:
        axis, stated = param.roles.get("batch"), param.type
        if isinstance(axis, int) and isinstance(stated, TensorType) and stated.shape and axis < len(stated.shape):
            sizes.add(stated.shape[axis])
            grown = dims.multiply(stated.shape[axis], 2)
            shape = (*stated.shape[:axis], grown, *stated.shape[axis + 1 :])
            param = replace(param, type=replace(stated, shape=shape))
        wide.append(param)
    leading = all(param.roles.get("batch", 0) == 0 for param in entry.params)
    if leading and isinstance(before, TensorType) and before.shape and sizes == {before.shape[0]}:
        return 0  # the usual case, without a search
    larger = replace(entry, params=tuple(wide))
    found = check(analysis.module.replacing(larger))
    if found.errors:
        return 0
    after = type_of(found.states[entry.name][scored])
    shapes = [t.shape for t in (before, after) if isinstance(t, TensorType) and t.shape is not None]
    if len(shapes) < 2 or len(shapes[0]) != len(shapes[1]):
        return 0
    grown_axes = [i for i, (a, b) in enumerate(zip(*shapes, strict=True)) if b is not None and a != b]
    return grown_axes[0] if len(grown_axes) == 1 else 0


def chosen_loss(loss: str, entry: Function, scored: Type) -> str:
    """The loss, with `auto` resolved by the program's inputs and result."""
    if loss != "auto":
        return loss
    if isinstance(scored, TensorType) and scored.shape == ():
        return "none"
    inputs = [p.type for p in entry.params if "batch" in p.roles]
    tokens = any(isinstance(t, TensorType) and t.dtype is not None and t.dtype.kind in ("int", "uint") for t in inputs)
    return "cross_entropy" if tokens else "mse"


def written_loss(
    f: FunctionBuilder, entry: Function, scored: str, type: Type, loss: str, reduction: str, loss_scale: str | None
) -> Loss:
    """Write the loss of the value `scored`. `loss_scale`: a factor of its gradient. Raises ProgramError."""
    if isinstance(type, TupleType):
        raise bad_loss(entry, f"expected one tensor for the loss, found `{type}`")
    if loss == "none":
        if not (isinstance(type, TensorType) and type.shape == () and is_differentiable(type)):
            raise bad_loss(entry, f"expected a scalar of floating-point numbers as the loss, found `{type}`")
        if loss_scale is None:
            return Loss(scored, _number(1.0, type.dtype), ())
        given = loss_scale if type.dtype in (None, FLOAT32) else f.apply("Cast", loss_scale, to=type.dtype)[0]
        return Loss(scored, given, ())
    dtype = type.dtype if isinstance(type, TensorType) else None
    narrow = dtype is not None and dtype.bytes < FLOAT32.bytes
    # A sum over the batch may overflow a narrow element type.
    compared = f.apply("Cast", scored, to=FLOAT32, results=(f"{scored}_wide",))[0] if narrow else scored
    made = _mse if loss == "mse" else _cross_entropy
    found = made(f, entry, compared, FLOAT32 if narrow else dtype, type, reduction, loss_scale)
    if not narrow or dtype is None:
        return found
    (seed,) = f.apply("Cast", found.seed, to=dtype, results=(f"d{scored}",))
    return Loss(found.loss, seed, found.params)


def _mse(
    f: FunctionBuilder,
    entry: Function,
    p: str,
    dtype: DType | None,
    type: Type,
    reduction: str,
    loss_scale: str | None,
) -> Loss:
    shape = type.shape if isinstance(type, TensorType) else None
    device = types.device_of(type)
    stated = AnyType(device) if dtype is None and shape is None else TensorType(dtype, shape, device)
    target = f.fresh("target")
    (total,) = f.apply("MSELoss", p, target, reduction="sum", results=("loss",))
    loss, scale = scaled(f, total, target, type, dtype, reduction)  # the target is not split
    scale = _times(f, scale, loss_scale, dtype)
    (seed,) = f.apply("MSELossGrad", scale, p, target, reduction="sum", results=(f"d{p}",))
    return Loss(loss, seed, (Param(target, stated, NO_ATTRIBUTES if shape == () else BATCH),))


def _cross_entropy(
    f: FunctionBuilder,
    entry: Function,
    scores: str,
    dtype: DType | None,
    type: Type,
    reduction: str,
    loss_scale: str | None,
) -> Loss:
    shape = type.shape if isinstance(type, TensorType) else None
    if shape is None or len(shape) < 2:
        message = f"`loss=cross_entropy` expected logits with two dimensions or more, found `{type}`"
        raise bad_loss(entry, message)
    target = f.fresh("target")
    rows, labels = scores, target
    if len(shape) > 2:  # the op expects classes in dimension 1
        (rows,) = f.apply("Flatten", scores, axis=len(shape) - 1, results=(f"{scores}_rows",))
        (labels,) = f.apply("Reshape", target, Literal((-1,)), results=("labels",))
    (total,) = f.apply("SoftmaxCrossEntropyLoss", rows, labels, reduction="sum", results=("loss",))
    loss, scale = scaled(f, total, target, TensorType(INT64, shape[:-1]), dtype, reduction)
    scale = _times(f, scale, loss_scale, dtype)
    (seed,) = f.apply("SoftmaxCrossEntropyLossGrad", scale, rows, labels, reduction="sum", results=(f"d{rows}",))
    if rows != scores:
        rest = tuple(dim for dim in shape[1:] if isinstance(dim, int))
        known = len(rest) == len(shape) - 1
        again: Arg = Literal((-1, *rest)) if known else f.apply("Shape", scores)[0]
        (seed,) = f.apply("Reshape", seed, again, results=(f"d{scores}",))
    return Loss(loss, seed, (Param(target, TensorType(INT64, shape[:-1], types.device_of(type)), BATCH),))


def scaled(
    f: FunctionBuilder, total: str, counted: str, type: Type, dtype: DType | None, reduction: str
) -> tuple[Arg, Arg]:
    """The loss, and its gradient with respect to the sum `total`: one over the number of elements of `counted`."""
    if reduction == "sum":
        return total, Literal(1.0)
    elements = type.elements if isinstance(type, TensorType) else None
    if isinstance(elements, int):
        scale: Arg = Literal(1.0 / max(1, elements))
    else:
        (size,) = f.apply("Size", counted, results=("count",))
        (number,) = f.apply("Cast", size, to=dtype or FLOAT32, results=("divisor",))
        (scale,) = f.apply("Reciprocal", number, results=("scale",))
    (loss,) = f.apply("Mul", total, scale, results=("mean_loss",))
    return loss, scale


def with_further(
    f: FunctionBuilder, loss: Arg, further: str, dtype: DType, scored: Type, loss_scale: str | None
) -> tuple[Arg, Arg]:
    """The loss of a value of the type `scored`, plus a further scalar in `dtype`, and the gradient of that scalar."""
    if isinstance(scored, TensorType) and scored.shape == () and scored.dtype is not dtype:  # the result is the loss
        (loss,) = f.apply("Cast", loss, to=dtype)
    (total,) = f.apply("Add", loss, further, results=("total_loss",))
    return total, _times(f, _number(1.0, dtype), loss_scale, dtype)


def _number(value: float, dtype: DType | None) -> Literal:
    return Literal(value if dtype is None or dtype is FLOAT32 else Dense(dtype, (), (value,)))


def _times(f: FunctionBuilder, scale: Arg, loss_scale: str | None, dtype: DType | None) -> Arg:
    if loss_scale is None:
        return scale
    given = loss_scale if dtype in (None, FLOAT32) else f.apply("Cast", loss_scale, to=dtype)[0]
    return f.apply("Mul", given, scale, results=("scaled",))[0]


def bad_loss(entry: Function, message: str) -> ProgramError:
    """The error for a loss that does not fit the model."""
    hint = "`loss=` takes mse, cross_entropy or none"
    return ProgramError([Diagnostic(codes.BAD_LOSS, Site(entry.name, len(entry.body) - 1), message, (), hint)])
