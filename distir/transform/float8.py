"""Products in 8-bit floats: dense layers take quantised activations and weights.

Runs before `grad`: the gradient rules of the new ops quantise incoming gradients to Float8E5M2.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from distir.analysis import Analysis, State
from distir.analysis.kinds import WEIGHTS, kinds_of
from distir.analysis.provenance import with_parameters_named
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    DTYPES,
    HOST,
    UNKNOWN,
    Apply,
    Arg,
    Attributes,
    Call,
    Constant,
    Dim,
    Function,
    Module,
    Param,
    Part,
    Site,
    Statement,
    TensorType,
    Type,
    dims,
    results,
    types,
)
from distir.ir import names as names_of
from distir.ir.calls import called_by, callees_first
from distir.ir.rewrite import Rewriter
from distir.ops import type_of
from distir.ops.float8 import scale_shape
from distir.transform.checking import checked
from distir.transform.entry import entry_of, refused
from distir.transform.float8_histories import EXPECTED, with_history
from distir.transform.inline import inline
from distir.transform.instances import first_instances
from distir.transform.order import DISTRIBUTED
from distir.transform.pipeline import count_of
from distir.transform.pipeline.batch import batch_axes
from distir.transform.sharding.batch import Places, tokens
from distir.transform.sharding.classes import Place
from distir.transform.steps import StepError, step

SCALINGS: Mapping[str, int] = {"tensor": 0, "block": 128, "mx": 32, "delayed": 0}
"""By name: the usual size of blocks, each of which has a scale; 0 where a tensor has one."""

HISTORY = 1024
"""The length of the amax history, in steps, in Transformer Engine's recipe for delayed scaling, which Megatron uses."""

EXPERTS_PRODUCT = "RaggedMatMul"

WIDE = ("Float32", "BFloat16", "Float16", "Float64")


@step(after=("cse", "seeded"), before=(DISTRIBUTED,), choices={"value": SCALINGS}, changes_results=True)
def fp8(
    module: Module,
    value: str = "block",
    *,
    block: int | None = None,
    history: int = HISTORY,
    micro_batch: int = 0,
    experts: bool = False,
) -> Module:
    """Products with weights in 8-bit floats: `fp8=tensor`, `block`, `mx` or `delayed`. Apply it before `grad`.

    Activations and weights are quantised to Float8E4M3FN before each product, gradients to Float8E5M2 in the backward
    pass; sums are Float32, results have the element type that they had. `tensor`: one scale per tensor, its greatest
    magnitude by the largest number of the type. `block`: scales of 1 x 128 activations and 128 x 128 weights, as in
    DeepSeek-V3; `block` states another size. `mx`: a scale for each 32 terms of a product's sums, as MXFP8 in
    the OCP Microscaling specification, where scales are powers of two in a byte; here they are Float32. `delayed`: one
    scale per tensor, by the greatest magnitude that it had in the last 1024 or `history` steps, which buffers of
    the training step keep, as in Transformer Engine: ZeRO does not partition them.

    Weights are quantised once in a step, by the entry function, and kept for all microbatches and the backward pass: a
    byte for each element, beside the weights. With `zero=3`, each use quantises the weight that it gathers. Activations
    and gradients are quantised where they are multiplied.

    Changed is each `MatMul`, and each `Gemm` without factors, of an activation and a matrix of weights in a function
    that is called, such as a layer, and with `experts=true` each `RaggedMatMul` of rows that are counted and weights.
    Products of the entry function itself stay, those of first layers and heads; where it calls no function, all but the
    first and the last are changed.

    With `tensor`, a scale is that of the whole batch: devices find the greatest over all of them before the product,
    and microbatches are refused, as the first would need the last. `micro_batch=4` is what frameworks do: each 4
    examples have a scale of their own, as a microbatch of one replica has. The program on one device means that then,
    and microbatches and replicas of as many examples, or a multiple, give the same; shards find the greatest over all.
    Scales of blocks are the same for shards, replicas, microbatches and parts of sequences of whole blocks: each device
    quantises its tokens, also for gradients of weights, whose blocks are of tokens, and shards gather them in 8 bits.
    Microbatches that cut such blocks, or may where the batch has a name, are joined before they are quantised for them.
    So are delayed ones: what was greatest is added up at the end of a step.

    Raises ProgramError where there is no such product.
    """
    if value not in SCALINGS:
        raise StepError(f"`fp8` expected one of {', '.join(SCALINGS)}, found `{value}`")
    if block is not None and block < 1:
        raise StepError(f"`block` expected 1 or more, found {block}")
    if block is not None and not SCALINGS[value]:
        raise StepError("`block` is an option of `fp8=block` and `fp8=mx`: other scales are of whole tensors")
    if history < 1:
        raise StepError(f"`history` expected 1 step or more, found {history}")
    if value != "delayed" and history != HISTORY:
        raise StepError("`history` is an option of `fp8=delayed`: other scales are of one step")
    if value != "tensor" and micro_batch:
        raise StepError("`micro_batch` is an option of `fp8=tensor`: other scales do not depend on microbatches")
    size = SCALINGS[value] if block is None else block
    left = (1, size) if size else ()
    right = (size, 1) if value == "mx" else (size, size) if size else ()
    entry, analysis = entry_of(module), checked(module)
    if micro_batch != 1:  # one example fits into a batch of any size
        micro_batch *= count_of(module, 1, micro_batch) > 1
    batch: Mapping[str, Places] = tokens(analysis, entry) if micro_batch else {}
    examples = _batch_size(entry) if micro_batch else None
    weights = _weights(analysis, entry)
    found = {name: [*_products(module.functions[name], own, experts)] for name, (own, _) in weights.items()}
    if any(found[name] for name in found if name != entry.name):
        found[entry.name] = []
    else:
        found[entry.name] = found[entry.name][1:-1]
    if not any(found.values()):
        message = f"no function that `@{entry.name}` calls has a product of an activation and a matrix of weights"
        hint = "mark weights `{param}`, and let layers be functions (`distir transform outline`)"
        raise refused(entry, codes.NOTHING_IN_FLOAT8, message, hint)
    delayed = value == "delayed"
    if delayed:
        deep = called_by(f for f in module if f.name != entry.name)
        if shared := sorted(name for name in deep if found.get(name)):
            return fp8(inline(module, tuple(shared)), value, history=history, experts=experts)
    whole = _Whole(module, entry, history if delayed else None)
    for function in callees_first(module):
        if function.name in weights:
            own, state = weights[function.name]
            own_batch = batch.get(function.name, {})
            lefts = {
                i: _of_examples(function, i, state, own_batch, micro_batch, examples) or left
                for i in found[function.name]
            }
            changes = _Changes(state, lefts, right, own, whole)
            whole.made[function.name] = changes.made(function)
    return module.replacing(*(made.function for made in whole.made.values()))


def _weights(analysis: Analysis, entry: Function) -> dict[str, tuple[set[str], State]]:
    """By function that is run: those of its parameters that are weights in every call, and its state."""
    kinds, run = kinds_of(analysis.module, entry), first_instances(analysis, entry)
    functions = ((instance.function, instance.state) for instance in run)
    return {
        f.name: ({p.name for p in f.params if kinds.of(f.name, p.name) == WEIGHTS}, state) for f, state in functions
    }


def _products(function: Function, weights: set[str], experts: bool) -> Iterator[int]:
    """The statements that multiply an activation by a weight matrix; `experts`: or rows by those of experts."""
    of_weights = set(weights)
    for index, statement in enumerate(function.body):
        if not isinstance(statement, Apply):
            continue
        mentioned = {*names_of(statement.args)}
        if mentioned and mentioned <= of_weights:
            of_weights.update(results(statement))
        elif (statement.op in ("MatMul", "Gemm") and _is_dense(statement, of_weights)) or (
            experts and statement.op == EXPERTS_PRODUCT and _has_counts(statement) and statement.args[1] in of_weights
        ):
            yield index


def _batch_size(entry: Function) -> Dim:
    """The examples in the batch of the first parameter that has one."""
    for name, axis in batch_axes(entry).items():
        given = next(p.type for p in entry.params if p.name == name)
        return given.shape[axis] if isinstance(given, TensorType) and given.shape is not None else None
    return None


def _of_examples(
    function: Function, index: int, state: State, batch: Container[Place], micro_batch: int, examples: Dim
) -> tuple[int, ...]:
    """The block of an activation operand if each `micro_batch` of the `examples` has its own scale.

    Empty if the operand does not depend on the batch. Raises ProgramError if examples of a group are not contiguous.
    """
    statement = function.body[index]
    assert isinstance(statement, Apply)
    x = statement.args[0]
    assert isinstance(x, str)
    found = type_of(state[x])
    shape = found.shape if isinstance(found, TensorType) else None
    axes = [axis for axis in range(len(shape or ())) if (x, (), axis) in batch]
    if not micro_batch or shape is None or not axes:
        return ()
    (axis, *_), size = axes, shape[axes[0]]
    with suppress(dims.DimensionError):
        rows = dims.divide(dims.multiply(size, micro_batch), examples)
        if not axis and isinstance(rows, int):
            return (rows, *[0] * (len(shape) - 1))
    message = f"`%{x}` is `{found}`, in which the examples of a microbatch are not the first rows"
    site = Site(function.name, index, Part("arg", 0))
    hint = "let the batch be the first dimension, or choose `fp8=block` or `fp8=delayed`"
    raise ProgramError([Diagnostic(codes.NOT_IN_MICROBATCHES, site, message, (), hint)])


def _is_dense(statement: Apply, weights: set[str]) -> bool:
    factors = all(statement.attrs.get(name, 1) == 1 for name in ("alpha", "beta"))
    first, second = statement.args[:2]
    return factors and not statement.attrs.get("transA") and first not in weights and second in weights


def _has_counts(statement: Apply) -> bool:
    """Whether experts have as many rows as data says."""
    return len(statement.args) > 2 and statement.args[2] != DISCARD


@dataclass(frozen=True)
class _Quantised:
    """A parameter that a function now takes quantised: its former index, its block, its slot."""

    param: int
    block: tuple[int, ...]
    slot: int


@dataclass(frozen=True)
class _Made:
    """A function with its products in 8-bit floats.

    After its other parameters it takes the expected amax values, if there are `slots`, and for each item of `quantised`
    the elements and scales of a weight. Parameters in `dropped` are removed.
    """

    function: Function
    quantised: tuple[_Quantised, ...] = ()
    dropped: frozenset[int] = frozenset()
    slots: int = 0


@dataclass
class _Whole:
    """The module with the functions converted so far. `history`: the steps of a history, with delayed scaling."""

    module: Module
    entry: Function
    history: int | None
    made: dict[str, _Made] = field(default_factory=dict[str, _Made])

    @property
    def device(self) -> int:
        """The device of amax histories: that of the entry's first parameter."""
        return next((d for p in self.entry.params for d in types.devices(p.type) if d != HOST), 1)


class _Changes:
    """Converts the products of one function that are `chosen`.

    `chosen` maps each statement to its activation's block; `right` is the block of weights.

    Weights that are parameters are quantised by the callers, ultimately by the entry function: once per step, whatever
    the number of microbatches. `own`: the function's values that are weights.
    """

    def __init__(
        self,
        state: State,
        chosen: Mapping[int, tuple[int, ...]],
        right: tuple[int, ...],
        own: set[str],
        whole: _Whole,
    ) -> None:
        self.state, self.chosen, self.right, self.own, self.whole = state, chosen, right, own, whole
        self.slots = 0
        self.quantised: dict[tuple[str, tuple[int, ...]], tuple[str, str]] = {}
        self.taken: list[_Quantised] = []
        self.histories: list[Param] = []
        self.expected = ""

    def made(self, function: Function) -> _Made:
        """The converted function."""
        edit = Rewriter(function)
        self.f = edit.builder
        self.is_entry = function.name == self.whole.entry.name
        self.params = {p.name: number for number, p in enumerate(function.params)}
        delayed = self.whole.history is not None
        self.expected = self.f.fresh(EXPECTED) if delayed and self.chosen else ""
        for index, statement in edit:
            if isinstance(statement, Call) and statement.function in self.whole.made:
                self._call(statement)
            elif index in self.chosen and _fits(statement, self.state):
                assert isinstance(statement, Apply)
                self._product(statement, self.chosen[index])
            if written := edit.written():
                edit.before(index, *written[:-1])
                edit.replace(index, written[-1])
        params = list(function.params)
        if self.slots and self.is_entry:
            edit.behind(-1, self._with_history(function.name, self.slots, self.expected))
        elif self.slots:
            params.append(Param(self.expected, UNKNOWN))
        for taken in self.taken:
            weight = function.params[taken.param]
            pair = self.quantised[weight.name, taken.block]
            params += [Param(name, t) for name, t in zip(pair, _types(weight.type, taken.block), strict=True)]
        gone = frozenset(taken.param for taken in self.taken if not edit.users(function.params[taken.param].name))
        kept = (p for number, p in enumerate(params) if number not in gone)
        copies = {name: pair[0] for (name, _), pair in self.quantised.items()}
        changed = with_parameters_named(edit.done(params=(*kept, *self.histories)), copies)
        return _Made(changed, tuple(self.taken), gone, 0 if self.is_entry else self.slots)

    def _with_history(self, hint: str, slots: int, expected: str) -> Statement:
        assert self.whole.history is not None
        param, found = with_history(self.f, hint, slots, self.whole.history, self.whole.device, expected)
        self.histories.append(param)
        return found

    def _call(self, call: Call) -> None:
        """A call of a converted function, with quantised weights and expected amax values as arguments."""
        made = self.whole.made[call.function]
        more: list[Arg] = []
        expected = ""
        if made.slots:
            hint = next(filter(None, call.results), call.function)
            expected = self.f.fresh(f"{hint}.{EXPECTED}")
            self.f.body.append(self._with_history(hint, made.slots, expected))
            more.append(expected)
        for taken in made.quantised:
            weight = call.args[taken.param]
            assert isinstance(weight, str)
            if expected:  # each call has its own history
                more += self._scaled(weight, expected, taken.slot)
            else:
                more += self._pair(weight, taken.block)
        kept = (arg for number, arg in enumerate(call.args) if number not in made.dropped)
        self.f.body.append(replace(call, args=(*kept, *more)))

    def _pair(self, arg: str, block: tuple[int, ...]) -> tuple[str, str]:
        """The quantised value and its scales: computed once, or parameters if callers quantise the weight."""
        if (arg, block) not in self.quantised:
            slot = self._slot() if self.expected else 0
            if arg in self.own and arg in self.params and not self.is_entry:
                pair = self._names(arg)
                self.taken.append(_Quantised(self.params[arg], block, slot))
            elif self.expected:
                pair = self._scaled(arg, self.expected, slot)
            else:
                pair = self._names(arg)
                self.f.body.append(Apply(pair, "QuantizeFloat8", (arg,), Attributes({"block": block})))
            self.quantised[arg, block] = pair
        return self.quantised[arg, block]

    def _names(self, arg: str) -> tuple[str, str]:
        return self.f.fresh(f"{arg}.fp8"), self.f.fresh(f"{arg}.scale")

    def _scaled(self, arg: str, expected: str, slot: int) -> tuple[str, str]:
        pair = self._names(arg)
        self.f.body.append(Apply((*pair, DISCARD), "ScaleToFloat8", (arg, expected), Attributes({"slot": slot})))
        return pair

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _product(self, statement: Apply, left: tuple[int, ...]) -> None:
        (a, b), more = statement.args[:2], statement.args[2:]
        assert isinstance(a, str)
        assert isinstance(b, str)
        (x, x_scale), (w, w_scale) = self._pair(a, left), self._pair(b, self.right)
        made = type_of(self.state[statement.results[0]])
        assert isinstance(made, TensorType)
        of_experts = statement.op == EXPERTS_PRODUCT
        attrs: dict[str, Constant] = {**statement.attrs} if of_experts else {}
        attrs["to"] = made.dtype or DTYPES["Float32"]
        attrs |= zip(("block_x", "block_w") if of_experts else ("block_a", "block_b"), (left, self.right), strict=True)
        if statement.attrs.get("transB"):
            attrs["transB"] = True
        if self.expected:
            attrs["slot"] = self._slot()
        counts = more[:1] if of_experts else ()
        factors = (x, w, *counts, x_scale, w_scale, *((self.expected,) if self.expected else ()))
        if of_experts:
            self.f.body.append(replace(statement, op="ScaledRaggedMatMul", args=factors, attrs=Attributes(attrs)))
            return
        bias = [arg for arg in more if arg != ""]
        result = (self.f.fresh(f"{statement.results[0]}.product"),) if bias else statement.results
        claims = () if bias else statement.claims
        stream = statement.stream
        self.f.body.append(Apply(result, "ScaledMatMul", factors, Attributes(attrs), claims, stream))
        if bias:
            args = (result[0], bias[0])
            self.f.body.append(Apply(statement.results, "Add", args, claims=statement.claims, stream=stream))


def _types(weight: Type, block: tuple[int, ...]) -> tuple[Type, Type]:
    """The types of the elements and scales of a quantised weight, as far as its type is known."""
    if not isinstance(weight, TensorType):
        return UNKNOWN, UNKNOWN
    scales = TensorType(DTYPES["Float32"], scale_shape(weight.shape, block), weight.device)
    return replace(weight, dtype=DTYPES["Float8E4M3FN"]), scales


def _fits(statement: Statement, state: State) -> bool:
    """Whether the operands of a product are a tensor and a matrix, or one for each expert, that can be quantised."""
    assert isinstance(statement, Apply)
    kinds: Sequence[object] = [type_of(state[name]) for name in names_of(statement.args[:2])]
    shapes = [t.shape for t in kinds if isinstance(t, TensorType) and t.dtype and t.dtype.name in WIDE and t.shape]
    rank = 3 if statement.op == EXPERTS_PRODUCT else 2
    return len(shapes) == 2 and len(shapes[0]) >= 2 and len(shapes[1]) == rank
