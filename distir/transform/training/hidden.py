"""Which weights are hidden matrices: what optimizers of matrices update, as Muon, and others leave.

By data flow, as it is asked what ops compute, which no fact says: a hidden matrix is a factor of matrix products, no
row of it is looked up, and it is not the output layer, from whose product alone the scores come. Stacked matrices, as
of experts, are so many hidden matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from distir.ir import Apply, Arg, Call, Function, Module, Param, TensorType, TupleType
from distir.ir.deep import Deep, finish
from distir.ops.tuples import TUPLING
from distir.transform.steps import StepError

SINGLE = frozenset({"MatMul", "Gemm", "Einsum", "ScaledMatMul"})
"""Products with a matrix."""

STACKED = frozenset({"MatMul", "GroupedMatMul", "RaggedMatMul", "ScaledRaggedMatMul"})
"""Products with stacked matrices, whose rows and columns are the last two dimensions."""

LOOKUPS = frozenset({"Gather", "GatherElements", "GatherND"})
"""Ops that look up rows of their first operand."""

SAME = frozenset(
    {
        *("Cast", "Identity", "Transpose", "TransposeView", "Reshape", "Squeeze", "Unsqueeze", "Flatten"),
        *("QuantizeFloat8", "ScaleToFloat8", "DequantizeFloat8", "Expand", "ExpandView"),
    }
)
"""Ops whose first result is their first operand in another form."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a value is and comes from, in numbers of parameters.

    `weights`: those it is, in some form; `heads`: those whose products it comes from, with no other weight's product in
    between; `inputs`: the other parameters that it comes from likewise.
    """

    weights: frozenset[int] = frozenset()
    heads: frozenset[int] = frozenset()
    inputs: frozenset[int] = frozenset()


_NOTHING = _Origin()


@dataclass(slots=True)
class _Uses:
    """How a function uses those of its parameters that are weights."""

    single: set[int] = field(default_factory=set[int])
    stacked: set[int] = field(default_factory=set[int])
    looked_up: set[int] = field(default_factory=set[int])
    results: tuple[_Origin, ...] = ()


def hidden_matrices(module: Module, entry: Function, weights: Sequence[Param], scored: str) -> frozenset[str]:
    """The names of the weights that are hidden matrices. `scored`: the result that the loss takes, or the loss.

    Raises StepError for a weight whose dimensions are not known, or that is a tuple.
    """
    ranks = {w.name: _rank(w) for w in weights}
    numbers = {p.name: i for i, p in enumerate(entry.params)}
    used = finish(_Flow(module).uses(entry, tuple(p.name in ranks for p in entry.params)))
    place = entry.returned.index(scored)
    heads = used.results[place].heads
    output = heads if len(heads) == 1 else frozenset[int]()
    left = used.looked_up | output
    return frozenset(
        name
        for name, rank in ranks.items()
        if numbers[name] in (used.single if rank == 2 else used.stacked if rank > 2 else ())
        and numbers[name] not in left
    )


def _rank(w: Param) -> int:
    if isinstance(w.type, TensorType) and w.type.shape is not None:
        return len(w.type.shape)
    what = "a tuple" if isinstance(w.type, TupleType) else f"`{w.type}`"
    raise StepError(
        f"an optimizer of matrices needs each weight as a tensor of known dimensions, but `%{w.name}` is {what}"
    )


@dataclass(slots=True)
class _Flow:
    module: Module
    known: dict[tuple[str, tuple[bool, ...]], _Uses] = field(
        default_factory=dict[tuple[str, "tuple[bool, ...]"], _Uses]
    )

    def uses(self, function: Function, are_weights: tuple[bool, ...]) -> Deep[_Uses]:
        """How a function uses its parameters, of which some are weights."""
        key = (function.name, are_weights)
        if key in self.known:
            return self.known[key]
        made = _Uses()
        state: dict[str, _Origin] = {}
        for i, (param, is_weight) in enumerate(zip(function.params, are_weights, strict=True)):
            one = frozenset({i})
            state[param.name] = _Origin(weights=one) if is_weight else _Origin(inputs=one)
        for statement in function.body:
            if isinstance(statement, Call):
                yield self._call(statement, state, made)
            elif isinstance(statement, Apply):
                _apply(statement, state, made)
        made.results = tuple(_of(arg, state) for arg in function.returned)
        self.known[key] = made
        return made

    def _call(self, statement: Call, state: dict[str, _Origin], made: _Uses) -> Deep[None]:
        args = [_of(arg, state) for arg in statement.args]
        callee = self.module.functions[statement.function]
        used: _Uses = yield self.uses(callee, tuple(bool(arg.weights) for arg in args))

        def weights(numbers: frozenset[int] | set[int]) -> frozenset[int]:
            return frozenset(w for i in numbers for w in args[i].weights)

        made.single |= weights(used.single)
        made.stacked |= weights(used.stacked)
        made.looked_up |= weights(used.looked_up)
        for name, result in zip(statement.results, used.results, strict=True):
            passed = [args[i] for i in sorted(result.inputs)]
            state[name] = _Origin(
                weights(result.weights),
                weights(result.heads).union(*(arg.heads for arg in passed)),
                frozenset[int]().union(*(arg.inputs for arg in passed)),
            )


def _apply(statement: Apply, state: dict[str, _Origin], made: _Uses) -> None:
    args = [_of(arg, state) for arg in statement.args]
    own = frozenset[int]().union(*(arg.weights for arg in args))
    if statement.op in SINGLE | STACKED and own:
        factors = frozenset[int]().union(*(arg.weights for arg in args[:2])) if statement.op != "Einsum" else own
        made.single |= factors if statement.op in SINGLE else frozenset()
        made.stacked |= factors if statement.op in STACKED else frozenset()
        found = _Origin(heads=factors)
    else:
        if statement.op in LOOKUPS:
            made.looked_up |= args[0].weights
        found = _Origin(
            own if statement.op in TUPLING else args[0].weights if statement.op in SAME and args else frozenset(),
            frozenset[int]().union(*(arg.heads for arg in args)),
            frozenset[int]().union(*(arg.inputs for arg in args)),
        )
    state.update(dict.fromkeys(statement.results, found))


def _of(arg: Arg, state: Mapping[str, _Origin]) -> _Origin:
    return state.get(arg, _NOTHING) if isinstance(arg, str) else _NOTHING
