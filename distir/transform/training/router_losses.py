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
    Apply,
    Call,
    Dim,
    DType,
    Function,
    Literal,
    Module,
    Return,
    Statement,
    TensorType,
)
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.calls import callees_first
from distir.ir.dims import DimensionError, divide
from distir.ir.rewrite import in_place_of
from distir.ops import OPS, type_of
from distir.ops.attributes import bind
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
    found = _Routers({i.function.name: i.state for i in first_instances(analysis, entry)}, balance, z)
    for function in callees_first(analysis.module):
        found.rewrite(function, is_entry=function.name == entry.name)
    total = found.sums.get(entry.name)
    if total is None:
        raise StepError("`aux_loss` and `z_loss` are losses of routers: the program has no op `Route`")
    known, whole = found.types[entry.name], found.functions[entry.name]
    f, dtype = namer(whole), known.dtype or FLOAT32
    if known.shape:
        (total,) = f.apply("ReduceSum", each := total, tuple(range(len(known.shape))), keepdims=False)
        counted = None if isinstance(known.elements, int) or reduction == "sum" else _counted(entry, known)
        if counted is not None:
            each, known = counted[0], counted[1]
            (total,) = f.apply("Mul", total, float(counted[2]), results=("router_losses",))
        given, _ = scaled(f, total, each, known, dtype, reduction)
        assert isinstance(given, str)
        total = given
    found.functions[entry.name] = replace(whole, body=(*whole.body[:-1], *f.body, whole.body[-1]))
    return Module(found.functions[f.name] for f in analysis.module), total, dtype


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
    balance: float
    z: float
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    sums: dict[str, str] = field(default_factory=dict[str, str])
    """By function with a router, directly or in callees: the name of the sum of its losses."""
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])

    def rewrite(self, function: Function, is_entry: bool) -> None:
        f = namer(function)
        routers = _routers(function.body) if function.name in self.states else {}
        for index, statement in enumerate(function.body):
            start = len(f.body)
            if isinstance(statement, Apply) and index in routers:
                f.body.append(statement)
                self.add(f, *self.losses(f, self.states[function.name], routers[index]))
                f.body[start:] = in_place_of(statement, f.body[start:])
            elif isinstance(statement, Call) and statement.function in self.sums:
                given = f.fresh("router_loss")
                claims = (*statement.claims, None) if statement.claims else ()
                f.body.append(replace(statement, results=(*statement.results, given), claims=claims))
                self.add(f, given, self.types[statement.function])
            elif not isinstance(statement, Return):
                f.body.append(statement)
        if function.name not in self.sums:
            self.functions[function.name] = function
            return
        returned = function.returned if is_entry else (*function.returned, self.sums[function.name])
        stated = function.result_types if is_entry else None
        self.functions[function.name] = replace(function, body=(*f.body, Return(returned)), result_types=stated)

    def add(self, f: FunctionBuilder, loss: str, found: TensorType) -> None:
        """Add a loss to the sum of the current function."""
        if f.name not in self.sums:
            self.sums[f.name], self.types[f.name] = loss, found
            return
        known = self.types[f.name]
        if len(known.shape or ()) != len(found.shape or ()):
            raise StepError("`aux_loss` and `z_loss` expected routers that all have sequences, or all have none")
        (self.sums[f.name],) = f.apply("Add", self.sums[f.name], loss, results=("router_losses",))

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
