"""The step `grad`: the training step of a forward program.

It consists of the forward program in the chosen precision, its loss, the backward pass, the processing of gradients,
and the updates; each is a module of this package.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from distir.analysis import Analysis, check
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.spelling import nearest
from distir.ir import (
    Arg,
    Attributes,
    Constant,
    DType,
    Facts,
    Function,
    Module,
    Param,
    Return,
    Statement,
    names,
    operands,
    ops_in,
)
from distir.ir.builder import namer
from distir.ir.rewrite import state_since, stating
from distir.ir.roles import is_trained
from distir.ops import type_of
from distir.ops.optimizer import OPTIMIZERS, RATES, SCHEDULES, OptimizerRule
from distir.ops.purpose import is_gradient
from distir.transform.backward_pass import is_differentiable
from distir.transform.batch_statistics import with_batch_statistics
from distir.transform.dead_code import live
from distir.transform.entry import entry_of, refused
from distir.transform.float8_histories import recorded
from distir.transform.gradient import Differentiation
from distir.transform.order import DIFFERENTIATED, DISTRIBUTED, SCATTERED
from distir.transform.steps import StepError, step
from distir.transform.training import scaling
from distir.transform.training.hidden import hidden_matrices
from distir.transform.training.loss import (
    LOSSES,
    REDUCTIONS,
    bad_loss,
    batch_axis,
    chosen_loss,
    with_further,
    written_loss,
)
from distir.transform.training.precision import (
    GRADIENTS,
    MASTERS,
    PRECISIONS,
    Precision,
    with_only_masters,
    with_weights_in,
)
from distir.transform.training.router_losses import with_router_losses
from distir.transform.training.scaling import FIRST_SCALE, LossScaling
from distir.transform.training.updates import Chosen, ChosenRate, Updates, device_of, updates, zeros

MODES = ("eval", "train")
NO_DECAY = ("none", "1d")
NO_OPTIMIZER = "none"


class _Optimizers(Collection[str]):
    """The names of optimizers, including those of plugins, and the word for none."""

    def __contains__(self, name: object) -> bool:
        return name == NO_OPTIMIZER or name in OPTIMIZERS

    def __iter__(self) -> Iterator[str]:
        yield from (*OPTIMIZERS, NO_OPTIMIZER)

    def __len__(self) -> int:
        return len(OPTIMIZERS) + 1


CHOICES: Mapping[str, Collection[str]] = {
    "loss": LOSSES,
    "optimizer": _Optimizers(),
    "reduction": REDUCTIONS,
    "mode": MODES,
    "precision": PRECISIONS,
    "gradients": GRADIENTS,
    "master": MASTERS,
    "no_decay": NO_DECAY,
    "adjust_lr": RATES,
    "lr_schedule": SCHEDULES,
}


@step(after=("cse",), before=(SCATTERED,), makes=(DIFFERENTIATED,), choices=CHOICES, changes_results=True)
def grad(
    module: Module,
    *,
    loss: str = "auto",
    optimizer: str = "sgd",
    lr: float | str | None = None,
    reduction: str = "mean",
    mode: str = "eval",
    precision: str = "keep",
    gradients: str = "auto",
    master: str = "beside",
    clip: float | None = None,
    loss_scale: float | str | None = None,
    aux_loss: float = 0.0,
    z_loss: float = 0.0,
    weight_decay: float | None = None,
    no_decay: str = "none",
    momentum: float | None = None,
    nesterov: bool | None = None,
    beta1: float | None = None,
    beta2: float | None = None,
    epsilon: float | None = None,
    ns_steps: int | None = None,
    adjust_lr: str | None = None,
    lr_others: float | None = None,
    lr_schedule: str = "constant",
    warmup: int = 0,
    steps: int | None = None,
    lr_min: float = 0.0,
) -> Module:
    """Derive the training step of a forward program: loss, gradients, and new weights.

    The weights are the parameters marked `{param}`, but not `{param, frozen}`; if none is marked, all floating-point
    parameters. `loss` is `mse`, `cross_entropy` (logits along the last dimension, integer labels) or `none` (the first
    result is the loss); the default is `none` for a scalar, `cross_entropy` for integer inputs, else `mse`.

    `optimizer` is `sgd`, `momentum`, `adam`, `adamw`, `lion`, `adafactor`, `muon` or `none`, which returns gradients.
    Its options are those of its op (`distir ops Adam`): `weight_decay`, `momentum`, `nesterov`, `beta1`, `beta2`,
    `epsilon`, `ns_steps`, `adjust_lr`. `no_decay=1d` exempts biases and scales of normalisations from weight decay.

    `muon` updates hidden matrices: those that products take, but for embeddings and the output layer, which `adamw`
    updates, as it does all weights that are no matrices. It has the options of both; `lr_others` is the learning rate
    of `adamw`, where it is another one.

    `lr` is the learning rate, or `input`: then the step takes it as a parameter. `warmup` is a number of steps in which
    it rises, and `lr_schedule` says how it falls from there to `lr_min` in step number `steps`: `constant`, `linear` or
    `cosine`.

    `precision`: `keep` computes in the element types of the program, `fp32` in Float32, `bf16` in BFloat16 throughout,
    but for the optimizer's state. `mixed` is Megatron's mixed precision: weights and computation in BFloat16, master
    weights in Float32 as optimizer state, gradients added up in Float32. `fp16` is the same in Float16, with loss
    scaling. `gradients=fp32` or `gradients=bf16` states the element type in which gradients of microbatches and
    replicas are added up. With `master=only` the master weights are the weights, as with FSDP2 and autocast: the
    parameters are in Float32, and each step casts them (with `zero=3` before they are gathered). Normalisations,
    softmax and losses compute in Float32 in any precision.

    `clip` is the greatest norm of all gradients together, beyond which they are scaled down. `loss_scale` is a number,
    or `dynamic`, which `fp16` implies: it begins with 65536, is halved where gradients are not finite, and doubled
    after 2000 steps in which they are. A step whose gradients are not finite changes no weights.

    `aux_loss` and `z_loss` are coefficients of the losses of routers, which are added to the loss: for an even load of
    experts, of each sequence as Megatron's `seq_aux_loss`, and against large logits.

    The training step takes a target and the optimizer's state as further parameters, and returns the loss, the new
    weights (or gradients) and the new state, in the order of the parameters; last, the histories of `fp8=delayed`.

    `mode`: with `train`, each `BatchNormalization` uses batch statistics, and the step returns the updated running
    statistics last, as after `model.train()` in PyTorch; with `eval`, only those already in training mode do.
    """
    given = {"loss": loss, "optimizer": optimizer, "reduction": reduction, "mode": mode, "precision": precision}
    given |= {"gradients": gradients, "master": master, "no_decay": no_decay}
    given |= {"lr_schedule": lr_schedule}
    for option, word in given.items():
        _one_of(option, word, CHOICES[option])
    decided = PRECISIONS[precision]
    if master == "only" and not decided.masters:
        having = ", ".join(f"`{name}`" for name, found in PRECISIONS.items() if found.masters)
        raise StepError(f"`master=only` needs a precision with master weights ({having}), found `{precision}`")
    attributes = {
        "weight_decay": weight_decay,
        "momentum": momentum,
        "nesterov": nesterov,
        "beta1": beta1,
        "beta2": beta2,
        "epsilon": epsilon,
        "ns_steps": ns_steps,
        "adjust_lr": adjust_lr,
    }
    for name, coefficient in (("aux_loss", aux_loss), ("z_loss", z_loss)):
        if not (coefficient >= 0 and math.isfinite(coefficient)):
            raise StepError(f"`{name}` expected a number of 0 or more, found {coefficient:g}")
    scaled = _loss_scaling(loss_scale, decided)
    rate = _rate(lr, lr_schedule, warmup, steps, lr_min)
    chosen = _chosen(
        optimizer, {k: v for k, v in attributes.items() if v is not None}, rate, lr_others, decided, no_decay
    )
    if clip is not None and not (clip > 0 and math.isfinite(clip)):
        raise StepError(f"`clip` expected a number above 0, found {clip:g}")
    if chosen is None and (clip is not None or loss_scale is not None):
        word = "clip" if clip is not None else "loss_scale"
        raise StepError(f"`{word}` needs an optimizer: with `optimizer=none` the step returns gradients as they are")
    scaled = None if chosen is None else scaled
    if chosen is not None:
        changes = rate.is_input or rate.schedule is not None
        for rule in chosen.rules:
            _check_takes(rule, optimizer, "rate", "a learning rate that changes" if changes else "")
            _check_takes(rule, optimizer, "factor", "clipping or loss scaling" if clip or scaled else "")
    entry = entry_of(module)
    _check_forward(entry)
    analysis = _checked(module)
    if decided.weights is not None:
        known = [p.name for p in entry.params if "param" in p.roles] or [p.name for p in _weights(entry)]
        module = with_weights_in(analysis, entry, known, decided.weights)
        analysis, entry = _checked(module), entry_of(module)
    further: tuple[str, DType] | None = None
    if aux_loss or z_loss:
        module, name, dtype = with_router_losses(analysis, entry, aux_loss, z_loss, reduction)
        further = name, dtype
        analysis, entry = _checked(module), entry_of(module)
    module, statistics = with_batch_statistics(analysis, entry, mode == "train")
    if statistics:
        analysis, entry = _checked(module), entry_of(module)
    casts: dict[str, str] = {}
    if master == "only":
        module, casts = with_only_masters(module, entry, [w.name for w in _weights(entry)])
        analysis, entry = _checked(module), entry_of(module)
    state = analysis.states[entry.name]
    weights = _weights(entry)
    scored = entry.returned[0] if entry.returned else None
    if not isinstance(scored, str):
        raise bad_loss(entry, "the entry function returns no value to compute a loss from")
    computed = {w.name: casts.get(w.name, w.name) for w in weights}  # what the loss is differentiated by
    if chosen is not None and chosen.others is not None:
        chosen = chosen.of(hidden_matrices(module, entry, weights, scored))
    held_in = {w.name: type_of(state[computed[w.name]]) for w in weights}
    found = Differentiation(analysis)
    builder = namer(entry)
    kind = chosen_loss(loss, entry, type_of(state[scored]))
    if (scaled or clip) and (several := DISTRIBUTED.evidence(module)):
        option = "loss_scale" if scaled else "clip"
        message = f"`{option}` is for gradients on one device; {several[1]}"
        raise ProgramError([Diagnostic(codes.WRONG_ORDER, several[0], message, (), "apply `grad` before it is")])
    held = None if scaled is None else scaling.scale_state(builder, scaled, device_of(weights))
    scale = None if held is None else held.scale
    slope = written_loss(builder, entry, scored, type_of(state[scored]), kind, reduction, scale)
    seeds, total = {scored: slope.seed}, slope.loss
    begun = next((i for i, s in enumerate(builder.body) if is_gradient(s)), None)
    if begun is not None:
        state_since(builder.body, begun, Facts("backward"))
    if further is not None:
        total, seeds[further[0]] = with_further(builder, slope.loss, *further, type_of(state[scored]), scale)
    state_since(builder.body, 0, Facts("forward"))
    derived = found.gradients(entry, builder, seeds, list(computed.values()))
    dws = {w: derived[x] if x in derived else zeros(builder, x, held_in[w]) for w, x in computed.items()}
    summed_in = GRADIENTS[gradients] or decided.gradients
    dws = scaling.added_up_in(builder, dws, held_in, summed_in)
    if chosen is None:
        updated = Updates(tuple(dws.values()), ())
    else:
        factor = None
        if clip is not None or scale is not None:
            factor = scaling.gradient_factor(builder, [(dws[w.name], w.type) for w in weights], clip, scale)
        updated = updates(builder, weights, dws, chosen, factor, skips=scale is not None)
        if held is not None and factor is not None:
            after = scaling.next_scale(builder, held, factor)
            updated = Updates((*updated.results, *after), (*updated.params, *held.params))
    returned: list[Arg] = [total, *updated.results, *statistics.values()]
    tail = live(builder.body, names(returned))
    axis = batch_axis(analysis, entry, scored)
    targets = [replace(p, roles=Attributes({"batch": axis})) if "batch" in p.roles else p for p in slope.params]
    whole = _whole(entry, found, tail, returned, [*targets, *updated.params])
    return recorded(found.module_with(whole), whole)


# Options.


def _chosen(
    optimizer: str,
    options: Mapping[str, Constant],
    rate: ChosenRate,
    lr_others: float | None,
    precision: Precision,
    no_decay: str,
) -> Chosen | None:
    """The optimizer with its options; None if gradients are returned. Raises StepError for options that it lacks."""
    rule: OptimizerRule | None = OPTIMIZERS[optimizer] if optimizer != NO_OPTIMIZER else None
    others = OPTIMIZERS[rule.others] if rule is not None and rule.others is not None else None
    rules = [known for known in (rule, others) if known is not None]
    has = [*dict.fromkeys(name for known in rules for name in known.options)]
    for name in options:
        if name not in has:
            hint = f"it has {', '.join(f'`{own}`' for own in has)}" if has else "it returns gradients"
            having = ", ".join(f"`optimizer={word}`" for word, other in OPTIMIZERS.items() if name in other.options)
            raise StepError(
                f"`optimizer={optimizer}` has no option `{name}`: {hint}"
                + (f"; for `{name}`: {having}" if having else "")
            )
    if rule is None:
        if rate != ChosenRate() or lr_others is not None:
            raise StepError("`optimizer=none` has no learning rate: it returns gradients")
        return None
    if lr_others is not None and others is None:
        known = ", ".join(f"`optimizer={word}`" for word, other in OPTIMIZERS.items() if other.others is not None)
        raise StepError(
            f"`lr_others` is of weights that `{optimizer}` leaves to another optimizer; it goes with {known}"
        )
    if lr_others is not None and rate.is_input:
        raise StepError("`lr=input` takes one learning rate from outside, for all weights: leave out `lr_others`")
    for name, low, high in (
        ("beta1", 0, 1),
        ("beta2", 0, 1),
        ("momentum", 0, math.inf),
        ("epsilon", 0, math.inf),
        ("ns_steps", 0, 100),
    ):
        value = options.get(name)
        if isinstance(value, (int, float)) and not low <= value < high:
            expected = f"from {low} to below {high}" if high < math.inf else f"of {low} or more"
            raise StepError(f"`{name}` expected a number {expected}, found {value:g}")
    if "adjust_lr" in options:
        _one_of("adjust_lr", str(options["adjust_lr"]), RATES)

    def chosen(rule: OptimizerRule, rate: ChosenRate, others: Chosen | None = None) -> Chosen:
        own = {name: value for name, value in options.items() if name in rule.options}
        return Chosen(rule, own, rate, precision.masters, no_decay == "1d", others)

    if others is None:
        return chosen(rule, rate)
    return chosen(rule, rate, chosen(others, rate if lr_others is None else replace(rate, given=lr_others)))


def _check_takes(rule: OptimizerRule, optimizer: str, operand: str, use: str) -> None:
    """Raise StepError if `use` names an optional operand's purpose and the optimizer lacks that operand."""
    if use and all(known.name != operand for known in rule.op.operands):
        raise StepError(
            f"`optimizer={optimizer}` cannot be used with {use}: `{rule.op.name}` has no operand `{operand}`"
        )


def _rate(lr: float | str | None, schedule: str, warmup: int, steps: int | None, least: float) -> ChosenRate:
    if isinstance(lr, str) and lr != "input":
        raise StepError(f"`lr` expected a number or `input`, found `{lr}`")
    if warmup < 0:
        raise StepError(f"`warmup` expected 0 steps or more, found {warmup}")
    if schedule == "constant" and (steps is not None or least):
        word = "steps" if steps is not None else "lr_min"
        raise StepError(f"`{word}` says where the learning rate falls to: choose `lr_schedule=linear` or `cosine`")
    if schedule == "constant" and not warmup:
        return ChosenRate(None, is_input=True) if isinstance(lr, str) else ChosenRate(lr)
    if isinstance(lr, str):
        raise StepError("`lr=input` takes the learning rate from outside: leave out `lr_schedule` and `warmup`")
    if schedule != "constant" and (steps is None or steps <= warmup):
        shown = "none" if steps is None else str(steps)
        raise StepError(f"`lr_schedule={schedule}` needs `steps`, a number above `warmup` ({warmup}), found {shown}")
    found: dict[str, Constant] = {"warmup": warmup} if warmup else {}
    if schedule != "constant":
        found |= {"schedule": schedule, "steps": steps or 0} | ({"least": least} if least else {})
    return ChosenRate(lr, schedule=found)


def _loss_scaling(given: float | str | None, precision: Precision) -> LossScaling | None:
    if given == "dynamic" or (given is None and precision.scaled):
        return LossScaling(FIRST_SCALE, dynamic=True)
    if given is None:
        return None
    if isinstance(given, str) or not (given > 0 and math.isfinite(given)):
        raise StepError(f"`loss_scale` expected a number above 0 or `dynamic`, found `{given}`")
    return LossScaling(given, dynamic=False)


# Programs.


def _checked(module: Module) -> Analysis:
    analysis = check(module)
    if analysis.errors:
        raise ProgramError(analysis.errors)
    return analysis


def _check_forward(entry: Function) -> None:
    """Raise StepError for a program that already updates its weights."""
    ops = {rule.op.name for rule in OPTIMIZERS.values()}
    weights = {p.name for p in entry.params if "param" in p.roles or "state" in p.roles}
    for statement in ops_in(entry, *ops):
        if statement.args[0] in weights:
            raise StepError(
                f"`grad` expected a forward program: `@{entry.name}` is a training step already, in which"
                f" `{statement.op}` updates `%{statement.args[0]}`"
            )


def _whole(
    entry: Function, found: Differentiation, tail: list[Statement], returned: list[Arg], params: list[Param]
) -> Function:
    """The entry function: the forward program, then the statements written after it."""
    used = {name for s in tail for name in names(operands(s))} | set(names(returned))
    forward = stating(Facts("forward"), found.kept.forward(entry.name, used)[:-1])
    body = live([*forward, *tail], names(returned))
    return Function(entry.name, (*entry.params, *params), (*body, Return(tuple(returned))))


def _weights(entry: Function) -> list[Param]:
    marked = [p for p in entry.params if is_trained(p)]
    if not marked and not any(p.roles for p in entry.params):
        marked = [p for p in entry.params if is_differentiable(p.type)]
    marked = [p for p in marked if is_differentiable(p.type)]
    if not marked:
        message = f"`@{entry.name}` has no parameter to train"
        frozen = any("frozen" in p.roles for p in entry.params)
        hint = "its weights are all `frozen`" if frozen else "mark the weights `{param}`"
        raise refused(entry, codes.NO_WEIGHTS, message, hint)
    return marked


def _one_of(option: str, found: str, choices: Collection[str]) -> None:
    if found not in choices:
        allowed = tuple(choices)
        near = nearest(found, allowed)
        hint = f"; did you mean `{near}`?" if near else ""
        if option == "precision" and ("fp8" in found or "float8" in found):
            hint = "; products in 8-bit floats are the step `fp8`, before `grad`"
        raise StepError(f"`{option}` expected one of {', '.join(allowed)}, found `{found}`{hint}")
