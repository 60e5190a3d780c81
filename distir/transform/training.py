"""The training step of a forward program: its loss, the gradients of its weights, and the optimizer's updates.

The loss is a sum over the batch, scaled: so the losses and gradients of the parts of a batch, on other devices or in
other microbatches, add up to those of the whole, whatever the parts are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from distir.analysis import Analysis, check
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.spelling import nearest
from distir.ir import (
    DTYPES,
    HOST,
    NO_ATTRIBUTES,
    AnyType,
    Arg,
    Attributes,
    Dense,
    DType,
    Function,
    Literal,
    Module,
    Param,
    Part,
    Return,
    Site,
    Statement,
    TensorType,
    TupleType,
    Type,
    dims,
    names,
    operands,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.roles import is_trained
from distir.ops import type_of
from distir.transform.batch_statistics import with_batch_statistics
from distir.transform.dead_code import live
from distir.transform.entry import ROLES, entry_of
from distir.transform.gradient import Differentiation
from distir.transform.kept import namer
from distir.transform.steps import StepError, step
from distir.transform.way_back import is_differentiable

LOSSES = ("auto", "mse", "cross_entropy", "none")
OPTIMIZERS = {"sgd": ("SGD", ()), "momentum": ("Momentum", ("m",)), "adam": ("Adam", ("m", "v")), "none": ("", ())}
"""By name: the op, and what it keeps of each weight between steps."""
REDUCTIONS = ("mean", "sum")
MODES = ("eval", "train")
BATCH, STATE = Attributes({"batch": 0}), Attributes({"state": True})
INT64, FLOAT32 = DTYPES["Int64"], DTYPES["Float32"]


@step(
    after=("cse", "seeded"), choices={"loss": LOSSES, "optimizer": OPTIMIZERS, "reduction": REDUCTIONS, "mode": MODES}
)
def grad(
    module: Module,
    *,
    loss: str = "auto",
    optimizer: str = "sgd",
    lr: float | None = None,
    reduction: str = "mean",
    mode: str = "eval",
) -> Module:
    """Derive the training step of a forward program: loss, gradients, and new weights.

    The weights are the parameters marked `{param}`, but not `{param, frozen}`; if none is marked, all floating-point
    parameters. `loss` is `mse`, `cross_entropy` (logits along the last dimension, integer labels) or `none` (the first
    result is the loss); the default is `none` for a scalar, `cross_entropy` for integer inputs, else `mse`. `optimizer`
    is `sgd`, `momentum`, `adam` or `none`, which returns gradients. The training step takes a target and the optimizer
    state as further parameters, and returns the loss, the new weights (or gradients) and the new state, in the order of
    the parameters.

    `mode`: with `train`, each `BatchNormalization` uses batch statistics, and the step returns the updated running
    statistics last, as after `model.train()` in PyTorch; with `eval`, only those already in training mode do.
    """
    _one_of("loss", loss, LOSSES)
    _one_of("optimizer", optimizer, tuple(OPTIMIZERS))
    _one_of("reduction", reduction, REDUCTIONS)
    _one_of("mode", mode, MODES)
    entry = entry_of(module)
    for role in ROLES:
        if f"{entry.name}.{role}" in module.functions:
            site = Site(f"{entry.name}.{role}", None, Part("name"))
            message = f"`@{entry.name}` is distributed already: its parameters come from `@{entry.name}.{role}`"
            raise ProgramError([Diagnostic(codes.ALREADY_DISTRIBUTED, site, message, (), "take the gradient first")])
    analysis = _checked(module)
    module, statistics = with_batch_statistics(analysis, entry, mode == "train")
    if statistics:
        analysis, entry = _checked(module), entry_of(module)
    state = analysis.states[entry.name]
    weights = _weights(entry)
    found = Differentiation(analysis)
    builder = namer(entry)
    scored = entry.returned[0] if entry.returned else None
    if not isinstance(scored, str):
        raise _bad_loss(entry, "the entry function returns no value to compute a loss from")
    chosen = _chosen_loss(loss, entry, type_of(state[scored]))
    slope = _loss(builder, entry, scored, type_of(state[scored]), chosen, reduction)
    gradients = found.gradients(entry, builder, {scored: slope.seed}, [w.name for w in weights])
    updated = _updates(builder, weights, gradients, optimizer, lr)
    returned: list[Arg] = [slope.loss, *updated.results, *statistics.values()]
    tail = live(builder.body, names(returned))
    axis = _batch_axis(analysis, entry, scored)
    targets = [replace(p, roles=Attributes({"batch": axis})) if "batch" in p.roles else p for p in slope.params]
    return found.module_with(_whole(entry, found, tail, returned, [*targets, *updated.params]))


def _checked(module: Module) -> Analysis:
    analysis = check(module)
    if analysis.errors:
        raise ProgramError(analysis.errors)
    return analysis


@dataclass(frozen=True, slots=True)
class _Loss:
    """The loss, the gradient of what it is computed from, and the parameters that it takes."""

    loss: Arg
    seed: Arg
    params: tuple[Param, ...]


@dataclass(frozen=True, slots=True)
class _Updates:
    """What the step returns besides the loss, and the state that it takes."""

    results: tuple[Arg, ...]
    params: tuple[Param, ...]


def _whole(
    entry: Function, found: Differentiation, tail: list[Statement], returned: list[Arg], params: list[Param]
) -> Function:
    """The entry function: the forward program, then what was written behind it."""
    used = {name for s in tail for name in names(operands(s))} | set(names(returned))
    forward = found.kept.forward(entry.name, used)[:-1]
    body = live([*forward, *tail], names(returned))
    return Function(entry.name, (*entry.params, *params), (*body, Return(tuple(returned))))


def _weights(entry: Function) -> list[Param]:
    marked = [p for p in entry.params if is_trained(p)]
    if not marked and not any(p.roles for p in entry.params):
        marked = [p for p in entry.params if is_differentiable(p.type)]
    marked = [p for p in marked if is_differentiable(p.type)]
    if not marked:
        site = Site(entry.name, None, Part("name"))
        message = f"`@{entry.name}` has no parameter to train"
        frozen = any("frozen" in p.roles for p in entry.params)
        hint = "its weights are all `frozen`" if frozen else "mark the weights `{param}`"
        raise ProgramError([Diagnostic(codes.NO_WEIGHTS, site, message, (), hint)])
    return marked


# The loss.


def _batch_axis(analysis: Analysis, entry: Function, scored: str) -> int:
    """Along which dimension a result has the batch: the one that grows with it; the first where none tells."""
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
        return 0  # as nearly always: it need not be looked for
    larger = replace(entry, params=tuple(wide))
    found = check(Module(larger if f is entry else f for f in analysis.module))
    if found.errors:
        return 0
    after = type_of(found.states[entry.name][scored])
    shapes = [t.shape for t in (before, after) if isinstance(t, TensorType) and t.shape is not None]
    if len(shapes) < 2 or len(shapes[0]) != len(shapes[1]):
        return 0
    grown_axes = [i for i, (a, b) in enumerate(zip(*shapes, strict=True)) if b is not None and a != b]
    return grown_axes[0] if len(grown_axes) == 1 else 0


def _chosen_loss(loss: str, entry: Function, scored: Type) -> str:
    if loss != "auto":
        return loss
    if isinstance(scored, TensorType) and scored.shape == ():
        return "none"
    inputs = [p.type for p in entry.params if "batch" in p.roles]
    tokens = any(isinstance(t, TensorType) and t.dtype is not None and t.dtype.kind in ("int", "uint") for t in inputs)
    return "cross_entropy" if tokens else "mse"


def _loss(f: FunctionBuilder, entry: Function, scored: str, type: Type, loss: str, reduction: str) -> _Loss:
    if isinstance(type, TupleType):
        raise _bad_loss(entry, f"expected one tensor for the loss, found `{type}`")
    if loss == "none":
        if not (isinstance(type, TensorType) and type.shape == () and is_differentiable(type)):
            raise _bad_loss(entry, f"expected a scalar of floating-point numbers as the loss, found `{type}`")
        return _Loss(scored, _number(1.0, type.dtype), ())
    dtype = type.dtype if isinstance(type, TensorType) else None
    narrow = dtype is not None and dtype.bytes < FLOAT32.bytes
    # The sum over a batch is more than a narrow element type can hold.
    compared = f.apply("Cast", scored, to=FLOAT32, results=(f"{scored}_wide",))[0] if narrow else scored
    made = _mse if loss == "mse" else _cross_entropy
    found = made(f, entry, compared, FLOAT32 if narrow else dtype, type, reduction)
    if not narrow or dtype is None:
        return found
    (seed,) = f.apply("Cast", found.seed, to=dtype, results=(f"d{scored}",))
    return _Loss(found.loss, seed, found.params)


def _mse(f: FunctionBuilder, entry: Function, p: str, dtype: DType | None, type: Type, reduction: str) -> _Loss:
    shape = type.shape if isinstance(type, TensorType) else None
    device = types.device_of(type)
    stated = AnyType(device) if dtype is None and shape is None else TensorType(dtype, shape, device)
    target = f.fresh("target")
    (total,) = f.apply("MSELoss", p, target, reduction="sum", results=("loss",))
    loss, scale = _scaled(f, total, target, type, dtype, reduction)  # the target is whole from the start
    (seed,) = f.apply("MSELossGrad", scale, p, target, reduction="sum", results=(f"d{p}",))
    return _Loss(loss, seed, (Param(target, stated, NO_ATTRIBUTES if shape == () else BATCH),))


def _cross_entropy(
    f: FunctionBuilder, entry: Function, scores: str, dtype: DType | None, type: Type, reduction: str
) -> _Loss:
    shape = type.shape if isinstance(type, TensorType) else None
    if shape is None or len(shape) < 2:
        message = f"`loss=cross_entropy` expected logits with two dimensions or more, found `{type}`"
        raise _bad_loss(entry, message)
    target = f.fresh("target")
    rows, labels = scores, target
    if len(shape) > 2:  # the classes are expected behind the first dimension
        (rows,) = f.apply("Flatten", scores, axis=len(shape) - 1, results=(f"{scores}_rows",))
        (labels,) = f.apply("Reshape", target, Literal((-1,)), results=("labels",))
    (total,) = f.apply("SoftmaxCrossEntropyLoss", rows, labels, reduction="sum", results=("loss",))
    loss, scale = _scaled(f, total, target, TensorType(INT64, shape[:-1]), dtype, reduction)
    (seed,) = f.apply("SoftmaxCrossEntropyLossGrad", scale, rows, labels, reduction="sum", results=(f"d{rows}",))
    if rows != scores:
        rest = tuple(dim for dim in shape[1:] if isinstance(dim, int))
        known = len(rest) == len(shape) - 1
        again: Arg = Literal((-1, *rest)) if known else f.apply("Shape", scores)[0]
        (seed,) = f.apply("Reshape", seed, again, results=(f"d{scores}",))
    return _Loss(loss, seed, (Param(target, TensorType(INT64, shape[:-1], types.device_of(type)), BATCH),))


def _scaled(
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


def _number(value: float, dtype: DType | None) -> Literal:
    return Literal(value if dtype is None or dtype is FLOAT32 else Dense(dtype, (), (value,)))


# The updates.


def _updates(
    f: FunctionBuilder, weights: list[Param], gradients: dict[str, Arg], optimizer: str, lr: float | None
) -> _Updates:
    op, kept = OPTIMIZERS[optimizer]
    dws = [gradients[w.name] if w.name in gradients else _zeros(f, w.name, w.type) for w in weights]
    if not op:
        return _Updates(tuple(dws), ())
    states = {(w.name, k): Param(f.fresh(f"{w.name}.{k}"), _state_type(w.type), STATE) for k in kept for w in weights}
    count = [Param(f.fresh("step"), TensorType(INT64, (), HOST), STATE)] if optimizer == "adam" else []
    rate = {} if lr is None else {"lr": lr}
    new: dict[object, Arg] = {}
    for w, dw in zip(weights, dws, strict=True):
        held = [states[w.name, k].name for k in kept]
        hints = (f"{w.name}_new", *(f"{name}_new" for name in held))
        results = f.apply(op, w.name, dw, *held, *(p.name for p in count), results=hints, **rate)
        new.update(zip([w.name, *((w.name, k) for k in kept)], results, strict=True))
    ordered = [new[w.name] for w in weights] + [new[key] for key in states]
    for param in count:
        ordered += f.apply("Add", param.name, 1, results=(f"{param.name}_new",))
    return _Updates(tuple(ordered), (*states.values(), *count))


def _zeros(f: FunctionBuilder, name: str, type: Type) -> Arg:
    """The gradient of a weight that the loss does not hang on."""
    if isinstance(type, TupleType):
        items = f.apply("UnpackTuple", name, results=len(type.items))
        parts = [_zeros(f, item, t) for item, t in zip(items, type.items, strict=True)]
        return f.apply("MakeTuple", *parts, results=(f"d{name}",))[0]
    return f.apply("Where", False, name, 0.0, results=(f"d{name}",))[0]


def _state_type(type: Type) -> Type:
    """The type of what is kept of a weight: as wide as Float32 at least."""
    if isinstance(type, TupleType):
        return TupleType(tuple(map(_state_type, type.items)))
    if isinstance(type, TensorType) and type.dtype is not None and type.dtype.bytes < FLOAT32.bytes:
        return TensorType(FLOAT32, type.shape, type.device)
    return type


def _bad_loss(entry: Function, message: str) -> ProgramError:
    hint = "`loss=` takes mse, cross_entropy or none"
    return ProgramError([Diagnostic(codes.BAD_LOSS, Site(entry.name, len(entry.body) - 1), message, (), hint)])


def _one_of(option: str, found: str, allowed: tuple[str, ...]) -> None:
    if found not in allowed:
        near = nearest(found, allowed)
        hint = f"; did you mean `{near}`?" if near else ""
        raise StepError(f"`{option}` expected one of {', '.join(allowed)}, found `{found}`{hint}")
