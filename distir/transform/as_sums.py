"""Rewrites statements that need the whole batch into equivalent ones that parts of it can compute and accumulate.

- A weighted mean over labels (with ignored labels, for instance) is not the mean of the parts' means, whose
total weights differ. But sums are additive, and the total weight depends on the labels alone: so a loss, and its
gradient, become a sum divided by the total weight.

- A scatter-add to zeros at indices from the batch, as PyTorch writes the gradient of an embedding, becomes the gradient
of a gather.

- A product that accumulates into an operand becomes a product and an addition.
"""

from __future__ import annotations

from collections.abc import Sequence

from distir.analysis import State, analysed
from distir.ir import (
    DISCARD,
    DTYPES,
    Apply,
    Arg,
    Attributes,
    Constant,
    DType,
    Function,
    Literal,
    Module,
    TensorType,
    ops_in,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import Rewriter
from distir.ops import type_of
from distir.transform.entry import entry_of
from distir.transform.instances import first_instances

LOSSES = {"SoftmaxCrossEntropyLoss": 0, "NegativeLogLikelihoodLoss": 0} | {
    "SoftmaxCrossEntropyLossGrad": 1,
    "NegativeLogLikelihoodLossGrad": 1,
}
"""Losses over labels and their gradients, with the position of the operand that holds logits; labels follow, then
weights."""

FLOAT32 = DTYPES["Float32"]


def written_as_sums(module: Module) -> Module:
    """The module with such statements of its entry function rewritten; the same module if it has none."""
    entry = entry_of(module)
    if not any(s.op == "ScatterND" or _is_weighted_mean(s) or _adds(s) for s in ops_in(entry)):
        return module
    return module.replacing(_written(entry, analysed(module).states[entry.name]))


def with_counted_losses(module: Module) -> Module:
    """The module with weighted means over labels rewritten: then no device needs the logits of the whole batch.

    Also those of called functions: each part of a batch gives its part of the sum and of the number of labels.
    """
    if not any(map(_is_weighted_mean, ops_in(module))):
        return module
    reached = first_instances(analysed(module), entry_of(module))
    return module.replacing(*(_written(i.function, i.state, losses_alone=True) for i in reached))


def _written(function: Function, state: State, losses_alone: bool = False) -> Function:
    zeros = {s.results[0] for s in ops_in(function) if _is_zeros(s)}
    edit = Rewriter(function)
    f = edit.builder
    for index, statement in edit:
        if not isinstance(statement, Apply):
            continue
        if _is_weighted_mean(statement):
            _write_counted(f, statement, state)
        elif losses_alone:
            pass
        elif statement.op == "ScatterND" and statement.args[0] in zeros:
            _write_gathered(f, statement, state)
        elif _adds(statement):
            _write_added(f, statement, state)
        if written := edit.written():
            edit.replace(index, *written)
    return edit.done()


def _adds(statement: Apply) -> bool:
    """Whether a product accumulates into an operand, as that of a weight's gradient may."""
    plain = statement.attrs.get("beta", 1.0) == 1.0 and bool(statement.attrs.get("transA"))
    return statement.op == "Gemm" and len(statement.args) == 3 and plain and isinstance(statement.args[2], str)


def _write_added(f: FunctionBuilder, statement: Apply, state: State) -> None:
    """The product and the addition; nothing if the addend is broadcast."""
    into, made = (type_of(state((name,))[0]) for name in (statement.args[2], statement.results[0]))
    if into == made:
        product = f.fresh(statement.results[0])
        f.body.append(Apply((product,), "Gemm", statement.args[:2], statement.attrs))
        f.body.append(Apply(statement.results, "Add", (statement.args[2], product), claims=statement.claims))


def _is_zeros(statement: Apply) -> bool:
    """Whether a statement makes a tensor of zeros."""
    if statement.op == "Expand":
        return isinstance(statement.args[0], Literal) and statement.args[0].value in (0, 0.0)
    return statement.op == "ConstantOfShape" and statement.attrs.get("value") in (None, 0, 0.0)


def _write_gathered(f: FunctionBuilder, statement: Apply, state: State) -> None:
    """A scatter-add along the first dimension as the gradient of a gather; nothing for other statements."""
    stated, places = (type_of(state((arg,))[0]) for arg in statement.args[:2])
    if statement.attrs.get("reduction") != "add" or not isinstance(stated, TensorType) or stated.shape is None:
        return
    sizes = [size for size in stated.shape if isinstance(size, int)]
    one = isinstance(places, TensorType) and places.shape is not None and places.shape[-1] == 1
    if not one or len(sizes) != len(stated.shape):
        return
    (indices,) = f.apply("Squeeze", statement.args[1], (-1,))
    attrs = Attributes({"axis": 0})
    f.body.append(Apply(statement.results, "GatherGrad", (statement.args[2], indices, Literal(tuple(sizes))), attrs))


def _is_weighted_mean(statement: Apply) -> bool:
    if statement.op not in LOSSES:
        return False
    weights = statement.args[LOSSES[statement.op] + 2 :]
    weighted = any(arg != DISCARD for arg in weights) or statement.attrs.get("ignore_index") is not None
    return weighted and statement.attrs.get("reduction", "mean") == "mean"


def _write_counted(f: FunctionBuilder, statement: Apply, state: State) -> None:
    """The loss, or its gradient, from the sum of the losses; results keep their names."""
    place = LOSSES[statement.op]
    scores, labels, *weights = statement.args[place:]
    stated = type_of(state((scores,))[0])
    dtype = stated.dtype if isinstance(stated, TensorType) else None
    narrow = dtype is not None and dtype.bytes < FLOAT32.bytes  # a sum may overflow it
    wide = FLOAT32 if narrow or dtype is None else dtype

    def widened(arg: Arg) -> Arg:
        return f.apply("Cast", arg, to=wide)[0] if narrow else arg

    operands = [widened(scores), labels, *(widened(w) for w in weights if w != DISCARD)]
    count = _count(f, labels, operands[2:], statement.attrs.get("ignore_index"), wide)
    attrs = Attributes({**statement.attrs, "reduction": "sum"})
    if place:
        slope = f.apply("Div", widened(statement.args[0]), count)[0]
        made = [f.fresh(statement.results[0])] if narrow else list(statement.results)
        f.body.append(Apply(tuple(made), statement.op, (slope, *operands), attrs))
    else:
        loss, *others = statement.results
        total = f.fresh("total")
        others = [f.fresh(name) if narrow and name != DISCARD else name for name in others]
        f.body.append(Apply((total, *others), statement.op, tuple(operands), attrs))
        made = [f.fresh(loss) if narrow else loss, *others]
        f.body.append(Apply((made[0],), "Div", (total, count)))
    if narrow and dtype is not None:
        to = Attributes({"to": dtype})
        pairs = zip(statement.results, made, strict=True)
        f.body += [Apply((name,), "Cast", (value,), to) for name, value in pairs if name != DISCARD]


def _count(f: FunctionBuilder, labels: Arg, weights: Sequence[Arg], ignored: Constant | None, dtype: DType) -> str:
    """The total weight of the labels: the number of those that are not ignored, or the sum of their weights."""
    counts: list[str] = []
    if ignored is not None:
        (left_out,) = f.apply("Equal", labels, ignored)
        counts = list(f.apply("Not", left_out))
    if weights:
        classes = f.apply("Where", *counts, labels, 0)[0] if counts else labels
        (own,) = f.apply("Gather", weights[0], classes, axis=0)
        own = f.apply("Where", *counts, own, 0.0)[0] if counts else own
    else:
        (own,) = f.apply("Cast", *counts, to=dtype)
    return f.apply("ReduceSum", own, keepdims=False, results=("count",))[0]
