"""The optimizer's updates: new weights and state, from gradients.

Weights narrower than Float32 may have master weights: optimizer state in Float32 that is updated, and then rounded to
the weights. The op of an optimizer defines its state (`distir.ops.optimizer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from distir.ir import (
    DTYPES,
    HOST,
    NO_ATTRIBUTES,
    Arg,
    Attributes,
    Constant,
    Device,
    Facts,
    Param,
    TensorType,
    TupleType,
    Type,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ops.optimizer import OptimizerRule
from distir.transform.steps import StepError
from distir.transform.training.precision import needs_master, widened

FLOAT32, INT64 = DTYPES["Float32"], DTYPES["Int64"]
STATE = Attributes({"state": True})


@dataclass(frozen=True, slots=True)
class ChosenRate:
    """The learning rate. `given`: the number, or None for the op's own; `schedule`: attributes of `LearningRate`."""

    given: float | None = None
    is_input: bool = False
    schedule: Mapping[str, Constant] | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """An optimizer and its options. `no_decay`: whether weights with less than two dimensions are exempt from decay.

    `others`: the optimizer of all weights but those named in `own`.
    """

    rule: OptimizerRule
    options: Mapping[str, Constant]
    rate: ChosenRate
    masters: bool
    no_decay: bool
    others: Chosen | None = None
    own: frozenset[str] = frozenset()

    @property
    def all(self) -> tuple[Chosen, ...]:
        """The optimizer, and those of other weights."""
        return (self,) if self.others is None else (self, *self.others.all)

    @property
    def rules(self) -> tuple[OptimizerRule, ...]:
        """Those of all."""
        return tuple(chosen.rule for chosen in self.all)

    @property
    def greatest(self) -> float:
        """The learning rate that is stated, or else the op's own."""
        given = self.rate.given if self.rate.given is not None else self.rule.op.attributes["lr"].default
        assert isinstance(given, float)
        return given

    def of(self, own: frozenset[str]) -> Chosen:
        """The same for these weights, and the other optimizer for others."""
        return replace(self, own=own)

    def on(self, weight: str) -> Chosen:
        """The optimizer of a weight."""
        return self if self.others is None or weight in self.own else self.others.on(weight)


@dataclass(frozen=True, slots=True)
class Updates:
    """The values that the step returns besides the loss, and the parameters that it takes: the state, then others."""

    results: tuple[Arg, ...]
    params: tuple[Param, ...]


def updates(
    f: FunctionBuilder,
    weights: Sequence[Param],
    gradients: Mapping[str, Arg],
    chosen: Chosen,
    factor: str | None,
    skips: bool,
) -> Updates:
    """Write the updates of weights.

    `factor`: the factor of gradients; `skips`: whether it may be 0, in which case the step is not counted.
    """
    masters = {w.name: _master(f, w) for w in weights if chosen.masters and needs_master(w.type)}
    kinds = dict.fromkeys(kind for rule in chosen.rules for kind in rule.state)
    having = [(w, k) for k in kinds for w in weights if k in chosen.on(w.name).rule.state]
    state = {(w.name, k): _state(f, w, k, chosen.on(w.name).rule) for w, k in having}
    counts = any(chosen.on(w.name).rule.counts for w in weights) or chosen.rate.schedule is not None
    device: Device = device_of(weights) if skips else HOST
    step = Param(f.fresh("step"), TensorType(INT64, (), device), STATE) if counts else None
    f.facts = Facts("optimizer")
    rates, inputs = _rates(f, chosen, step)
    new: dict[object, Arg] = {}
    for w in weights:
        f.facts = Facts("optimizer", of=w.name)
        own = chosen.on(w.name)
        rule, rate = own.rule, rates.get(own.rule.op.name)
        held = [state[w.name, k] for k in rule.state]
        master = masters.get(w.name)
        updated = master or w
        operands = [updated.name, gradients[w.name], *(p.name for p in held)]
        operands += [step.name] if rule.counts and step is not None else []
        operands += [rate or "", factor or ""] if factor is not None else [rate] if rate is not None else []
        hints = (f"{updated.name}_new", *(f"{p.name}_new" for p in held))
        attrs = _options(own, w)
        results = f.apply(rule.op.name, *operands, results=hints, **attrs)
        new.update(zip([updated.name, *(p.name for p in held)], results, strict=True))
        if master is not None:
            (new[w.name],) = f.apply("Assign", w.name, results[0], results=(f"{w.name}_new",))
    f.facts = Facts("optimizer")
    kept = [*masters.values(), *state.values()]
    ordered = [new[p.name] for p in [*weights, *kept]]
    if step is not None:
        ordered.append(_counted(f, step, factor if skips else None))
    return Updates(tuple(ordered), (*kept, *(() if step is None else (step,)), *inputs))


def zeros(f: FunctionBuilder, name: str, type: Type) -> Arg:
    """The gradient of a weight on which the loss does not depend."""
    if isinstance(type, TupleType):
        items = f.apply("UnpackTuple", name, results=len(type.items))
        parts = [zeros(f, item, t) for item, t in zip(items, type.items, strict=True)]
        return f.apply("MakeTuple", *parts, results=(f"d{name}",))[0]
    return f.apply("Where", False, name, 0.0, results=(f"d{name}",))[0]


def _master(f: FunctionBuilder, w: Param) -> Param:
    return Param(f.fresh(f"{w.name}.master"), widened(w.type), Attributes({"state": True, "initial": w.name}))


def _state(f: FunctionBuilder, w: Param, kind: str, rule: OptimizerRule) -> Param:
    found = widened(w.type)
    if rule.shapes is not None:
        found = _reshaped(found, kind, rule)
    return Param(f.fresh(f"{w.name}.{kind}"), found, STATE)


def _reshaped(found: Type, kind: str, rule: OptimizerRule) -> Type:
    if isinstance(found, TupleType):
        return TupleType(tuple(_reshaped(item, kind, rule) for item in found.items))
    if isinstance(found, TensorType) and found.shape is not None and rule.shapes is not None:
        return TensorType(found.dtype, rule.shapes(found.shape).get(kind, found.shape), found.device)
    return found


def device_of(weights: Sequence[Param]) -> Device:
    """The device of the weights, and so of the scalars used with them."""
    return types.device_of(weights[0].type)


def _rates(f: FunctionBuilder, chosen: Chosen, step: Param | None) -> tuple[Mapping[str, str], tuple[Param, ...]]:
    """By optimizer's op: the value that holds the learning rate, if any; and their parameter."""
    if chosen.rate.is_input:
        param = Param(f.fresh("lr"), TensorType(FLOAT32, (), HOST), NO_ATTRIBUTES)
        return {rule.op.name: param.name for rule in chosen.rules}, (param,)
    if chosen.rate.schedule is None or step is None:
        return {}, ()
    if chosen.others is None or chosen.others.greatest == chosen.greatest:
        return dict.fromkeys((rule.op.name for rule in chosen.rules), _scheduled(f, chosen, step)), ()
    return {own.rule.op.name: _scheduled(f, own, step) for own in chosen.all}, ()


def _scheduled(f: FunctionBuilder, chosen: Chosen, step: Param) -> str:
    return f.apply("LearningRate", step.name, lr=chosen.greatest, results=("lr",), **(chosen.rate.schedule or {}))[0]


def _options(chosen: Chosen, w: Param) -> dict[str, Constant]:
    """The attributes of a weight's update, without those equal to the op's defaults."""
    found = {**chosen.rule.fixed, **chosen.options}
    if chosen.rate.given is not None and chosen.rate.schedule is None:
        found["lr"] = chosen.rate.given
    if chosen.no_decay and _is_flat(w):
        found.pop("weight_decay", None)
    if not found.get("weight_decay"):
        found.pop("decoupled", None)  # weight decay
    return found


def _is_flat(w: Param) -> bool:
    """Whether a weight has one dimension or none, as biases and scales of normalisations have."""
    if isinstance(w.type, TensorType) and w.type.shape is not None:
        return len(w.type.shape) < 2
    raise StepError(f"`no_decay=1d` needs the number of dimensions of `%{w.name}`, found `{w.type}`")


def _counted(f: FunctionBuilder, step: Param, factor: str | None) -> Arg:
    """The number of the next step; a skipped step is not counted."""
    if factor is None:
        return f.apply("Add", step.name, 1, results=(f"{step.name}_new",))[0]
    (taken,) = f.apply("Greater", factor, 0.0, results=("taken",))
    (one,) = f.apply("Cast", taken, to=INT64, results=("taken_once",))
    return f.apply("Add", step.name, one, results=(f"{step.name}_new",))[0]
