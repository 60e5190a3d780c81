"""Auxiliary losses of routers: for load balance among experts, and against large logits (z-loss).

Of each sequence, in each layer with E experts of which a token takes k: the loss for balance is E / k times the sum
over experts of the share of the tokens that each has, times its mean score (Fedus et al., arXiv:2101.03961). An even
load gives 1, as in Megatron and DeepSeek-V3. The z-loss is the mean of the squared logarithm of the sum of the logits'
exponentials (Zoph et al., arXiv:2202.08906). Scores are softmaxes, or sigmoids divided by their sum. Losses are
computed in at least Float32; functions return them to the entry function as further results.

Sequences are the groups of `Dispatch`, or else of `Route`: all dimensions before the last two of its operand. Routers
of `transformers` see the tokens of all sequences in one dimension, and the experts that they choose are reshaped before
`Dispatch`; so are logits here. So the losses of parts of a batch, on several devices or in several microbatches, add up
to those of the whole. Without such a dimension, all tokens are one group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from distir.analysis import Analysis, State
from distir.ir import (
    DISCARD,
    DTYPES,
    NO_FACTS,
    Apply,
    Call,
    Dim,
    DType,
    Function,
    Literal,
    Module,
    Statement,
    TensorType,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.dims import DimensionError, divide
from distir.ir.rewrite import Rewriter, bottom_up
from distir.ops import OPS, type_of
from distir.ops.attributes import bind
from distir.transform.dead_code import with_results
from distir.transform.instances import first_instances
from distir.transform.steps import StepError
from distir.transform.training.loss import scaled

FLOAT32 = DTYPES["Float32"]


def with_router_losses(
    analysis: Analysis, entry: Function, balance: float, z: float, reduction: str
) -> tuple[Module, str, DType]:
    """The module that computes the auxiliary losses of all routers, times their coefficients.

    Also the value of the entry function that is their sum over layers, and their mean or sum (`reduction`) over
    sequences, with its element type. Raises StepError where no function that the entry function reaches has a router,
    or routers differ in whether they have sequences.
    """
    found = _Routers({i.function.name: i.state for i in first_instances(analysis, entry)}, entry, balance, z)
    module = bottom_up(analysis.module, found.rewritten)
    if entry.name not in found.sums:
        raise StepError("`aux_loss` and `z_loss` are losses of routers: the program has no op `Route`")
    total, known = found.sums[entry.name]
    edit, dtype = Rewriter(module.functions[entry.name]), known.dtype or FLOAT32
    if known.shape:
        f = edit.builder
        (total,) = f.apply("ReduceSum", each := total, tuple(range(len(known.shape))), keepdims=False)
        counted = None if isinstance(known.elements, int) or reduction == "sum" else _counted(entry, known)
        if counted is not None:
            each, known = counted[0], counted[1]
            (total,) = f.apply("Mul", total, float(counted[2]), results=("router_losses",))
        given, _ = scaled(f, total, each, known, dtype, reduction)
        assert isinstance(given, str)
        total = given
        edit.before(edit.end, *edit.written())
    return module.replacing(edit.done()), total, dtype


def _counted(entry: Function, losses: TensorType) -> tuple[str, TensorType, int] | None:
    """An input that tells how many losses there are, and how many elements it has for each of them.

    A microbatch tells its own number only: that of the whole batch is the size of what is given whole.
    """
    for param in entry.params:
        if "batch" in param.roles and isinstance(param.type, TensorType):
            try:
                each = divide(param.type.elements, losses.elements)
            except DimensionError:
                continue
            if isinstance(each, int):
                return param.name, param.type, each
    return None


@dataclass
class _Routers:
    states: Mapping[str, State]
    entry: Function
    balance: float
    z: float
    sums: dict[str, tuple[str, TensorType]] = field(default_factory=dict[str, "tuple[str, TensorType]"])
    """By function with a router, directly or in callees: the name and the type of the sum of its losses."""

    def rewritten(self, function: Function) -> Function:
        """The function with its losses, which it returns, if it is not the entry function."""
        edit = Rewriter(function)
        routers = _routers(function.body) if function.name in self.states else {}
        for index, statement in edit:
            if index in routers:
                self.add(edit, *self.losses(edit.builder, self.states[function.name], routers[index]))
                edit.replace(index, statement, *edit.written())
            elif isinstance(statement, Call) and statement.function in self.sums:
                given = edit.fresh("router_loss")
                edit.replace(index, with_results(statement, (*statement.results, given)))
                self.add(edit, given, self.sums[statement.function][1])
                edit.behind(index, *edit.written(), facts=NO_FACTS)
        if function.name not in self.sums or function.name == self.entry.name:
            return edit.done()
        edit.returns((*function.returned, self.sums[function.name][0]))
        return edit.done(result_types=None)

    def add(self, edit: Rewriter, loss: str, found: TensorType) -> None:
        """Add a loss to the sum of a function."""
        name = edit.function.name
        if name in self.sums:
            total, known = self.sums[name]
            if len(known.shape or ()) != len(found.shape or ()):
                raise StepError("`aux_loss` and `z_loss` expected routers that all have sequences, or all have none")
            (loss,) = edit.builder.apply("Add", total, loss, results=("router_losses",))
            found = known
        self.sums[name] = loss, found

    def losses(self, f: FunctionBuilder, state: State, router: _Router) -> tuple[str, TensorType]:
        """Write the losses of a router, and give their sum."""
        logits = router.route.args[0]
        stated, chosen = (type_of(state((name,))[0]) for name in (logits, router.chosen))
        shape = stated.shape if isinstance(stated, TensorType) else None
        groups = (chosen.shape if isinstance(chosen, TensorType) else None) or ()
        if not isinstance(stated, TensorType) or not shape or not isinstance(logits, str) or len(groups) < 2:
            raise StepError(
                f"`aux_loss` and `z_loss` expected logits of known rank, with a dimension of tokens, found `{stated}`"
            )
        experts = shape[-1]
        if not isinstance(experts, int):
            raise StepError(f"`aux_loss` and `z_loss` expected a known number of experts, found `{stated}`")
        if router.target is not None:
            (logits,) = f.apply("Reshape", logits, (*router.target[:-1], experts), results=("router_logits",))
        dtype = stated.dtype or FLOAT32
        if dtype.bytes < FLOAT32.bytes:
            (logits,), dtype = f.apply("Cast", logits, to=FLOAT32, results=("router_logits",)), FLOAT32
        parts: list[str] = []
        if self.balance:
            parts.append(self.balanced(f, router, logits, groups[-2], experts, dtype))
        if self.z:
            (sums,) = f.apply("ReduceLogSumExp", logits, (-1,), keepdims=False, results=("log_sums",))
            (squares,) = f.apply("Mul", sums, sums, results=("squares",))
            (mean,) = f.apply("ReduceMean", squares, (-1,), keepdims=False, results=("mean_square",))
            parts += f.apply("Mul", mean, self.z, results=("z_loss",))
        total = parts[0] if len(parts) == 1 else f.apply("Add", *parts, results=("router_loss",))[0]
        return total, TensorType(dtype, groups[:-2], stated.device)

    def balanced(
        self, f: FunctionBuilder, router: _Router, logits: str, tokens: Dim, experts: int, dtype: DType
    ) -> str:
        """The loss for balance, times its coefficient."""
        attrs, counts = bind(OPS["Route"], router.route.attrs), router.counts
        if counts is None:
            _, counts = f.apply("Dispatch", router.chosen, num_experts=experts, results=(DISCARD, "counts"))
        (number,) = f.apply("Cast", counts, to=dtype, results=("choices",))
        if attrs["score"] == "softmax":
            (scores,) = f.apply("Softmax", logits, axis=-1, results=("scores",))
        else:
            (each,) = f.apply("Sigmoid", logits, results=("sigmoids",))
            (whole,) = f.apply("ReduceSum", each, (-1,), results=("sum_of_scores",))
            (scores,) = f.apply("Div", each, whole, results=("scores",))
        (mean,) = f.apply("ReduceMean", scores, (-2,), keepdims=False, results=("mean_scores",))
        (products,) = f.apply("Mul", number, mean, results=("products",))
        (total,) = f.apply("ReduceSum", products, (-1,), keepdims=False, results=("imbalance",))
        if isinstance(tokens, int):
            choices = tokens * cast(int, attrs["top_k"])
            return f.apply("Mul", total, self.balance * experts / choices, results=("balance_loss",))[0]
        (number,) = f.apply("ReduceSum", number, (-1,), keepdims=False, results=("number_of_choices",))
        (total,) = f.apply("Div", total, number, results=("imbalance",))
        return f.apply("Mul", total, self.balance * experts, results=("balance_loss",))[0]


@dataclass(frozen=True)
class _Router:
    """`chosen`: the experts of each token, in the groups of `Dispatch`, which `Reshape` makes with `target`, if any.

    `counts`: how many choices each expert has, where the program counts them.
    """

    route: Apply
    chosen: str
    target: tuple[int, ...] | None = None
    counts: str | None = None


def _routers(body: tuple[Statement, ...]) -> dict[int, _Router]:
    """By statement after which the losses are written: a router."""
    seen: dict[str, _Router] = {}
    found: dict[str, tuple[int, _Router]] = {}
    for index, statement in enumerate(body):
        if not isinstance(statement, Apply):
            continue
        router = seen.get(statement.args[0]) if statement.args and isinstance(statement.args[0], str) else None
        if statement.op == "Route":
            router = _Router(statement, statement.results[1])
            seen[router.chosen] = router
            found[router.chosen] = index, router
        elif router is not None and statement.op == "Reshape" and router.target is None:
            target, top_k = statement.args[1], router.route.attrs["top_k"]
            if isinstance(target, Literal) and isinstance(target.value, tuple) and target.value[-1:] == (top_k,):
                name = statement.results[0]
                seen[name] = replace(router, chosen=name, target=cast("tuple[int, ...]", target.value))
        elif router is not None and statement.op == "Dispatch":
            counts = statement.results[1] if len(statement.results) == 2 else DISCARD
            found[router.route.results[1]] = index, replace(router, counts=None if counts == DISCARD else counts)
    return dict(found.values())
