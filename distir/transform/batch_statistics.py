"""Batch normalisation in training mode: normalises by statistics of the batch, and updates running statistics.

Each `BatchNormalization` in training mode becomes the same op in inference mode, which takes the statistics as
operands, and ops that compute these. So gradients flow through them; and if the batch is split over replicas, the
statistics are summed over all of them, as with PyTorch's `SyncBatchNorm`. Functions return the new running statistics
to the entry function as further results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from distir.analysis import Analysis, State
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    Apply,
    Attributes,
    Call,
    Function,
    Module,
    Part,
    Site,
    TensorType,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import Rewriter, bottom_up
from distir.ops import OPS, type_of
from distir.ops.attributes import bind
from distir.transform.dead_code import with_results
from distir.transform.instances import first_instances

NORMALIZATION = "BatchNormalization"


def with_batch_statistics(analysis: Analysis, entry: Function, everywhere: bool) -> tuple[Module, Mapping[str, str]]:
    """Expand batch normalisations: those in training mode, or (`everywhere`) all. Returns the module and the updates.

    The updates map each parameter of the entry function that holds a running statistic to the name of its new value. As
    in PyTorch, the running variance averages unbiased variances; if the program itself uses the new statistic, ONNX's
    definition holds, which averages biased ones.
    """
    states = {i.function.name: i.state for i in first_instances(analysis, entry)}
    found = _Statistics(analysis.module, entry, states, everywhere)
    return bottom_up(analysis.module, found.rewritten), found.updated[entry.name]


@dataclass
class _Statistics:
    module: Module
    entry: Function
    states: Mapping[str, State]
    everywhere: bool
    updated: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """By function: its parameters that hold running statistics, and the names of their new values."""

    def rewritten(self, function: Function) -> Function:
        """The function, which returns the new statistics, if it is not the entry function."""
        edit = Rewriter(function)
        f = edit.builder
        now: dict[str, str] = {}
        """By running statistic: the name of its latest value. A statistic that is used twice is updated twice."""
        for index, statement in edit:
            if isinstance(statement, Apply) and self._is_trained(function, statement):
                self._normalisation(f, Site(function.name, index), statement, now)
                edit.replace(index, *edit.written())
            elif isinstance(statement, Call) and self.updated.get(statement.function):
                edit.replace(index, self._called(f, statement, now))
        params = [p.name for p in function.params]
        self.updated[function.name] = updated = {name: now[name] for name in params if name in now}
        if not updated:
            return function
        if function.name == self.entry.name:
            return edit.done()
        edit.returns((*function.returned, *updated.values()))
        return edit.done(result_types=None)

    def _is_trained(self, function: Function, statement: Apply) -> bool:
        if statement.op != NORMALIZATION or function.name not in self.states:
            return False
        return self.everywhere or bool(bind(OPS[NORMALIZATION], statement.attrs)["training_mode"])

    def _normalisation(self, f: FunctionBuilder, site: Site, statement: Apply, now: dict[str, str]) -> None:
        x, scale, bias, running_mean, running_variance = statement.args
        attrs = bind(OPS[NORMALIZATION], statement.attrs)
        y, *named = (*statement.results, DISCARD, DISCARD)[:3]
        stated = type_of(self.states[site.function](statement.args)[0])
        if not (isinstance(x, str) and isinstance(stated, TensorType) and stated.shape is not None and stated.dtype):
            message = f"`{NORMALIZATION}` in training mode: expected a tensor of known rank, found `{stated}`"
            raise ProgramError(
                [Diagnostic(codes.NOT_DIFFERENTIABLE, Site(site.function, site.index, Part("operand", 0)), message)]
            )
        others = (0, *range(2, len(stated.shape)))
        (mean,) = f.apply("ReduceMean", x, others, keepdims=False, results=(f"{y}.mean",))
        (aligned,) = f.apply("Unsqueeze", mean, others, results=(f"{y}.mean",))
        (centred,) = f.apply("Sub", x, aligned, results=(f"{y}.centred",))
        (squares,) = f.apply("Mul", centred, centred, results=(f"{y}.squares",))
        (variance,) = f.apply("ReduceMean", squares, others, keepdims=False, results=(f"{y}.variance",))
        normal = Attributes({"epsilon": attrs["epsilon"]})
        f.body.append(Apply((y,), NORMALIZATION, (x, scale, bias, mean, variance), normal, statement.claims[:1]))
        # ONNX's momentum is the weight of the old statistic.
        follows = Attributes({"momentum": round(1.0 - cast("float", attrs["momentum"]), 9)})
        if named[1] == DISCARD:
            variance = _unbiased(f, x, mean, variance, stated)
        for running, found, name in zip((running_mean, running_variance), (mean, variance), named, strict=True):
            if isinstance(running, str):
                new = f.fresh(f"{running}_new") if name == DISCARD else name
                f.body.append(Apply((new,), "MovingAverage", (now.get(running, running), found), follows))
                now[running] = new

    def _called(self, f: FunctionBuilder, call: Call, now: dict[str, str]) -> Call | Apply:
        params = [p.name for p in self.module.functions[call.function].params]
        args = list(call.args)
        new: list[str] = []
        for param in self.updated[call.function]:
            i = params.index(param)
            given = args[i]
            if not isinstance(given, str):
                new.append(DISCARD)
                continue
            args[i] = now.get(given, given)
            new.append(f.fresh(f"{given}_new"))
            now[given] = new[-1]
        return with_results(replace(call, args=tuple(args)), (*call.results, *new))


def _unbiased(f: FunctionBuilder, x: str, mean: str, variance: str, stated: TensorType) -> str:
    """The variance of n elements per channel, times n / (n - 1)."""
    assert stated.shape is not None
    assert stated.dtype is not None
    count = stated.elements if isinstance(stated.elements, int) else None
    channels = stated.shape[1]
    hint = (f"{variance}.unbiased",)
    if count is not None and isinstance(channels, int) and channels:
        n = count // channels
        return f.apply("Mul", variance, n / max(n - 1, 1), results=hint)[0]
    (elements,) = f.apply("Size", x, results=("elements",))
    (per,) = f.apply("Div", elements, f.apply("Size", mean, results=("channels",))[0], results=("count",))
    (number,) = f.apply("Cast", per, to=stated.dtype, results=("count",))
    (ratio,) = f.apply("Div", number, f.apply("Sub", number, 1.0)[0], results=("ratio",))
    return f.apply("Mul", variance, ratio, results=hint)[0]
