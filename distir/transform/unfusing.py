"""Replaces fused ops by their decompositions, to study what a fused kernel saves.

Gradients, sharding and simulation then see what a framework without the kernel runs: for attention products, masks and
a softmax, with the scores in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from distir.analysis import Analysis, analysed
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.spelling import nearest
from distir.ir import (
    DISCARD,
    Apply,
    Function,
    Module,
    Part,
    Site,
    Statement,
    TensorType,
    TupleType,
    Type,
    ops_in,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import Rewriter, substituted
from distir.ops import OPS, type_of
from distir.transform.entry import entry_of
from distir.transform.instances import instances
from distir.transform.order import DIFFERENTIATED
from distir.transform.steps import StepError, step, tell

if TYPE_CHECKING:  # decompositions are loaded only where something is written out
    from distir.ops.backward import Tape

FORMS = ("written",)


@step(before=(DIFFERENTIATED,), choices={"form": FORMS})
def attention(module: Module, form: str) -> Module:
    """Attention written out (`attention=written`): each `Attention` becomes products, masks and a softmax.

    The scores are in memory then, in the gradient too, as where no flash kernel is used.
    """
    if form not in FORMS:
        message = f"`attention` expected `written`, found `{form}`; without this step, `Attention` is one kernel"
        raise StepError(message)
    return decomposed(module, "Attention")


@step(examples={"value": ("SoftmaxCrossEntropyLoss", "Attention")})
def decompose(module: Module, value: tuple[str, ...]) -> Module:
    """Ops written out as others (`decompose=SoftmaxCrossEntropyLoss`): what runs where there is no kernel for them.

    A cross entropy becomes a log softmax and a likelihood, which is what PyTorch runs without a compiler. Its gradient,
    `SoftmaxCrossEntropyLossGrad`, takes the same log softmax where both are named.

    Raises ProgramError where an op has no decomposition.
    """
    for op in value:
        if op not in OPS:
            near = nearest(op, OPS)
            raise StepError(f"there is no op `{op}`{f'; did you mean `{near}`?' if near else ''}")
        if "decomposition" not in OPS[op].rules:
            known = ", ".join(sorted(name for name, found in OPS.items() if "decomposition" in found.rules))
            raise StepError(f"`{op}` is not made of other ops; `decompose` takes {known}")
    return decomposed(module, *value)


def decomposed(module: Module, *ops: str) -> Module:
    """The module with ops replaced by their decompositions. Raises ProgramError, DIR690, where one has none there."""
    found = [function.name for function in module if any(ops_in(function, *ops))]
    if not found:
        tell(f"no `{'`, no `'.join(ops)}` in the program")
        return module
    analysis = analysed(module)
    if analysis.errors:
        raise ProgramError(analysis.errors)
    known = _known_types(analysis, found)
    return module.replacing(*(_written(module.functions[name], ops, known[name]) for name in found))


def _written(function: Function, ops: Collection[str], known: Mapping[str, Type]) -> Function:
    from distir.ops.backward import NotDifferentiable, Rewrite, Tape

    edit, tape = Rewriter(function), Tape(dict(known))
    there: dict[object, tuple[str, ...]] = {}
    for index, statement in edit:
        if not isinstance(statement, Apply) or statement.op not in ops:
            continue
        try:
            results = OPS[statement.op].rule("decomposition")(Rewrite(statement, tape))
        except NotDifferentiable as reason:
            site = Site(function.name, index, Part("callee"))
            hint = reason.help or "annotate the parameters with their types"
            raise ProgramError([Diagnostic(codes.NOT_WRITTEN_OUT, site, str(reason), (), hint)]) from None
        edit.replace(index, *_named(tape, edit.builder, statement, results, there))
    return edit.done(kernel=False)


def _named(
    tape: Tape, builder: FunctionBuilder, statement: Apply, results: Iterable[str], there: dict[object, tuple[str, ...]]
) -> Iterable[Statement]:
    """The statements of a decomposition, renamed, without those already in `there` from earlier ones."""
    lasting = {r: name for r, name in zip(results, statement.results, strict=True) if name != DISCARD}
    for each in tape.take(lasting):
        args = substituted(each.args, lasting)
        key = each.op, args, each.attrs, statement.stream
        if key in there and lasting.keys().isdisjoint(each.results):
            lasting.update(zip(each.results, there[key], strict=True))
            continue
        for name in each.results:
            if name != DISCARD and name not in lasting:
                lasting[name] = builder.fresh(f"{statement.results[0]}.{each.op.lower()}")
        there[key] = tuple(lasting.get(name, name) for name in each.results)
        yield Apply(there[key], each.op, args, each.attrs)


# Types that hold in every call of a function.


def _known_types(analysis: Analysis, wanted: Iterable[str]) -> Mapping[str, Mapping[str, Type]]:
    """By function: the types of its values, by what its parameters state, and else as far as all calls agree."""
    found: dict[str, dict[str, Type]] = {}
    for instance in instances(analysis, entry_of(analysis.module)):
        given = {name: type_of(value) for name, value in instance.state.items() if name != DISCARD}
        before = found.setdefault(instance.function.name, given)
        found[instance.function.name] = {name: _common(before[name], stated) for name, stated in given.items()}
    for name in wanted:
        own = {n: type_of(v) for n, v in analysis.states[name].items() if n != DISCARD}
        found[name] = {n: _stated(t, found.get(name, {}).get(n, t)) for n, t in own.items()}
    return {name: found[name] for name in wanted}


def _stated(own: Type, given: Type) -> Type:
    """The type of a value in its function alone, with what only calls know: a batch that has a name fits any size."""
    if isinstance(own, TupleType) and isinstance(given, TupleType) and len(own.items) == len(given.items):
        return TupleType(tuple(_stated(x, y) for x, y in zip(own.items, given.items, strict=True)))
    if not (isinstance(own, TensorType) and isinstance(given, TensorType)):
        return given if own == types.UNKNOWN else own
    if own.shape is None or given.shape is None or len(own.shape) != len(given.shape):
        shape = given.shape if own.shape is None else own.shape
    else:
        shape = tuple(n if m is None else m for m, n in zip(own.shape, given.shape, strict=True))
    return TensorType(own.dtype or given.dtype, shape, given.device if own.device is None else own.device)


def _common(a: Type, b: Type) -> Type:
    """The most specific type that covers both."""
    if a == b:
        return a
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.items) == len(b.items):
        return TupleType(tuple(_common(x, y) for x, y in zip(a.items, b.items, strict=True)))
    if not (isinstance(a, TensorType) and isinstance(b, TensorType)):
        return types.UNKNOWN
    shape = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(m if m == n else None for m, n in zip(a.shape, b.shape, strict=True))
    return TensorType(a.dtype if a.dtype is b.dtype else None, shape, a.device)
