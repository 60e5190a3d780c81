"""The step `fuse`: the kernels that a compiler such as torch.compile makes of a program."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from distir.analysis import Analysis, Instance
from distir.ir import Call, Function, Module, Statement
from distir.ir.builder import namer
from distir.ops import OPS
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.fusion.accumulation import accumulated
from distir.transform.fusion.calls import with_ends_moved, with_sums_inside
from distir.transform.fusion.casts import with_own_casts
from distir.transform.fusion.groups import Grouping
from distir.transform.fusion.kernels import Kernels
from distir.transform.fusion.strides import with_transposed_products, with_views
from distir.transform.instances import first_instances
from distir.transform.order import IN_KERNELS
from distir.transform.steps import StepError, always, step

AFTER = (
    "grad",
    "dp",
    "tp",
    "dtp",
    "pp",
    "zero",
    "mesh",
    "overlap",
    "inline",
    "fold",
    "cse",
    "dce",
    "outline",
    "reschedule",
)

DEEPEST = 8
"""The greatest depth of nested calls through which the end of a function moves out."""


KERNELS = ("compiled", "blocks", "eager")
OPS_APART = ("SoftmaxCrossEntropyLoss,SoftmaxCrossEntropyLossGrad",)
OPS_AROUND = ("RMSNormalization,LayerNormalization",)
"""Examples of ops that have kernels written by hand."""


@step(
    after=AFTER,
    makes=(IN_KERNELS,),
    on_mesh=True,
    choices={"kernels": KERNELS},
    examples={"apart": OPS_APART, "around": OPS_AROUND},
    tries=always("fuse", "fuse epilogues=true"),
)
def fuse(
    module: Module,
    *,
    epilogues: bool = False,
    kernels: str = "compiled",
    apart: tuple[str, ...] = (),
    around: tuple[str, ...] = (),
) -> Module:
    """Fuse elementwise ops with their reductions into kernels, as torch.compile does; transposes become views.

    Each kernel is a function marked `kernel`: one launch, and the traffic of its operands and results. Matrix products
    stay ops of their own, or with `epilogues=true` take what is done with each element of their results; attention and
    communication stay ops. A product that is added to an accumulator is written into its memory.

    `apart` names ops that read their operands from memory, as kernels written by hand do: what makes these is in other
    kernels. So `apart=SoftmaxCrossEntropyLoss,SoftmaxCrossEntropyLossGrad` has a copy of the logits in Float32.

    With `kernels=eager` each op stays a kernel of its own, as in PyTorch without a compiler: transposes become views,
    and a product in the sum's element type is added to it. `around` names ops that have kernels written by hand all the
    same, which take in the casts before and behind them, each its own. With `kernels=blocks` that is so in functions
    that call others; those that call none, layers as a rule, are compiled, each by itself.
    """
    if kernels not in KERNELS:
        raise StepError(f"`kernels` expected one of {', '.join(KERNELS)}, found `{kernels}`")
    for option, ops in (("apart", apart), ("around", around)):
        for op in ops:
            if op not in OPS:
                raise StepError(f"`{option}` expected names of ops, found `{op}`")
    if around and kernels != "eager":
        raise StepError(f"`around` expected `kernels=eager`, found `kernels={kernels}`, which forms other kernels, too")
    module = with_transposed_products(module)
    entry = entry_of(module)
    if kernels == "eager" and not around:
        states = {i.function.name: i.state for i in first_instances(checked(module), entry)}
        return with_views(accumulated(module, states), entry, states)
    if kernels == "compiled":
        module = _with_ends_moved(with_sums_inside(module), entry)
    if around:
        module = Module(with_own_casts(function, around) for function in module)
    entry = module.functions[entry.name]
    states = {i.function.name: i.state for i in first_instances(checked(module), entry)}
    module = with_views(accumulated(module, states), entry, states)
    chosen = {f.name for f in module if kernels != "blocks" or not any(isinstance(s, Call) for s in f.body)}
    return with_kernels(module, chosen, epilogues, frozenset(apart), frozenset(around) or None)


def with_kernels(
    module: Module,
    functions: Collection[str],
    epilogues: bool = False,
    apart: frozenset[str] = frozenset(),
    around: frozenset[str] | None = None,
) -> Module:
    """The module with kernels in certain functions, as far as its entry function runs them."""
    analysis, made = checked(module), Kernels(namer(module))
    written: list[Function] = []
    found = {instance.function.name: instance for instance in first_instances(analysis, entry_of(module))}
    for function in module:
        instance = found.get(function.name)
        known = len(made.known)
        if instance is not None and not function.kernel and function.name in functions:
            function = _fused(analysis, instance, made, epilogues, apart, around)
        written += [*list(made.known.values())[known:], function]
    return Module(written)


def _with_ends_moved(module: Module, entry: Function) -> Module:
    """The module with ends of functions moved to the first use of their results: of callees, then of their callers."""
    for _ in range(DEEPEST):
        analysis = checked(module)
        moved = with_ends_moved(analysis, [*first_instances(analysis, module.functions[entry.name])])
        if moved is module:
            break
        module = moved
    return module


def _fused(
    analysis: Analysis,
    instance: Instance,
    kernels: Kernels,
    epilogues: bool,
    apart: frozenset[str],
    around: frozenset[str] | None,
) -> Function:
    """The function with calls of kernels."""
    function = instance.function
    grouping = Grouping(function, analysis.domain, instance.state, epilogues, apart, around)
    if not grouping.groups:
        return function
    body: list[Statement] = []
    for what in grouping.order():
        body.append(function.body[what] if isinstance(what, int) else kernels.call(grouping, what))
    return replace(function, body=tuple(body))
