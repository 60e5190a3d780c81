"""Products in 8-bit floats: dense layers take quantised activations and weights.

Before gradients: those of the new ops quantise what comes back, to Float8E5M2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distir.analysis import Analysis, State
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DTYPES,
    Apply,
    Attributes,
    Call,
    Constant,
    Function,
    Module,
    Part,
    Site,
    Statement,
    TensorType,
    results,
)
from distir.ir import names as names_of
from distir.ir.builder import namer
from distir.ops import type_of
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.steps import StepError, step

SCALINGS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {"tensor": ((), ()), "block": ((1, 128), (128, 128))}
"""By name: the blocks of activations and of weights."""

WIDE = ("Float32", "BFloat16", "Float16", "Float64")


@step(after=("cse", "seeded"), choices={"value": SCALINGS})
def fp8(module: Module, value: str = "block", *, block: int = 128) -> Module:
    """Products with weights in 8-bit floats: `fp8=tensor` or `fp8=block`. Apply it before `grad`.

    Activations and weights are quantised to Float8E4M3FN before each product, gradients to Float8E5M2 in the backward
    pass; sums are Float32, results have the element type that they had. `tensor`: one scale per tensor, its greatest
    magnitude by the largest number of the type. `block`: scales of 1 x 128 activations and 128 x 128 weights, as in
    DeepSeek-V3; `block` states another size than 128.

    Changed is each `MatMul`, and each `Gemm` without factors, of an activation and a matrix of weights in a function
    that is called, such as a layer. Products of the entry function itself stay, those of first layers and heads; where
    it calls no function, all but the first and the last are changed.

    One scale per tensor is of the whole batch: activations are gathered over devices for it, and microbatches are
    refused. Scales of blocks are the same for shards, replicas and microbatches of whole blocks.

    Raises ProgramError where there is no such product.
    """
    if value not in SCALINGS:
        raise StepError(f"`fp8` expected one of {', '.join(SCALINGS)}, found `{value}`")
    if block < 1:
        raise StepError(f"`block` expected 1 or more, found {block}")
    left, right = ((1, block), (block, block)) if value == "block" else SCALINGS[value]
    entry, analysis = entry_of(module), checked(module)
    weights = _weights(analysis, entry)
    found = {name: [*_products(module.functions[name], own)] for name, (own, _) in weights.items()}
    if any(found[name] for name in found if name != entry.name):
        found[entry.name] = []
    else:
        found[entry.name] = found[entry.name][1:-1]
    if not any(found.values()):
        message = f"no function that `@{entry.name}` calls has a product of an activation and a matrix of weights"
        hint = "mark weights `{param}`, and let layers be functions (`distir transform outline`)"
        site = Site(entry.name, None, Part("name"))
        raise ProgramError([Diagnostic(codes.NOTHING_IN_FLOAT8, site, message, (), hint)])
    return Module(
        _changed(f, weights[f.name][1], {*found[f.name]}, left, right) if found.get(f.name) else f for f in module
    )


def _weights(analysis: Analysis, entry: Function) -> dict[str, tuple[set[str], State]]:
    """By function that is called: its values that are weights in every call, and what is known of its values."""
    found = {entry.name: ({p.name for p in entry.params if "param" in p.roles}, analysis.states[entry.name])}
    waiting = [entry]
    while waiting:
        caller = waiting.pop()
        own, state = found[caller.name]
        for statement in caller.body:
            if not isinstance(statement, Call):
                continue
            inner = analysis.domain.instance(statement.function, state(statement.args))
            pairs = zip(inner.function.params, statement.args, strict=True)
            given = {p.name for p, arg in pairs if isinstance(arg, str) and arg in own}
            before = found.get(statement.function)
            now = given if before is None else given & before[0]
            if before is None or now != before[0]:
                found[statement.function] = (now, inner.state)
                waiting.append(inner.function)
    return found


def _products(function: Function, weights: set[str]) -> Iterator[int]:
    """The statements that multiply an activation and a matrix of weights."""
    of_weights = set(weights)
    for index, statement in enumerate(function.body):
        if not isinstance(statement, Apply):
            continue
        mentioned = {*names_of(statement.args)}
        if mentioned and mentioned <= of_weights:
            of_weights.update(results(statement))
        elif statement.op in ("MatMul", "Gemm") and _is_dense(statement, of_weights):
            yield index


def _is_dense(statement: Apply, weights: set[str]) -> bool:
    factors = all(statement.attrs.get(name, 1) == 1 for name in ("alpha", "beta"))
    first, second = statement.args[:2]
    return factors and not statement.attrs.get("transA") and first not in weights and second in weights


def _changed(
    function: Function, state: State, chosen: set[int], left: tuple[int, ...], right: tuple[int, ...]
) -> Function:
    fresh = namer(function).fresh
    quantised: dict[tuple[object, tuple[int, ...]], tuple[str, str]] = {}

    def pair(body: list[Statement], arg: str, block: tuple[int, ...]) -> tuple[str, str]:
        """The quantised value and its scales, made once."""
        if (arg, block) not in quantised:
            quantised[arg, block] = made = fresh(f"{arg}.fp8"), fresh(f"{arg}.scale")
            body.append(Apply(made, "QuantizeFloat8", (arg,), Attributes({"block": block})))
        return quantised[arg, block]

    body: list[Statement] = []
    for index, statement in enumerate(function.body):
        if index not in chosen or not _fits(statement, state):
            body.append(statement)
            continue
        assert isinstance(statement, Apply)
        (a, b), more = statement.args[:2], statement.args[2:]
        assert isinstance(a, str)
        assert isinstance(b, str)
        (x, x_scale), (w, w_scale) = pair(body, a, left), pair(body, b, right)
        made = type_of(state[statement.results[0]])
        assert isinstance(made, TensorType)
        attrs: dict[str, Constant] = {"to": made.dtype or DTYPES["Float32"], "block_a": left, "block_b": right}
        if statement.attrs.get("transB"):
            attrs["transB"] = True
        bias = [arg for arg in more if arg != ""]
        result = (fresh(f"{statement.results[0]}.product"),) if bias else statement.results
        claims = () if bias else statement.claims
        stream = statement.stream
        body.append(Apply(result, "ScaledMatMul", (x, w, x_scale, w_scale), Attributes(attrs), claims, stream))
        if bias:
            args = (result[0], bias[0])
            body.append(Apply(statement.results, "Add", args, claims=statement.claims, stream=stream))
    return Function(function.name, function.params, tuple(body), function.result_types)


def _fits(statement: Statement, state: State) -> bool:
    """Whether the operands of a product are a tensor of rows and a matrix, of types that can be quantised."""
    assert isinstance(statement, Apply)
    kinds: Sequence[object] = [type_of(state[name]) for name in names_of(statement.args[:2])]
    shapes = [t.shape for t in kinds if isinstance(t, TensorType) and t.dtype and t.dtype.name in WIDE and t.shape]
    return len(shapes) == 2 and len(shapes[0]) >= 2 and len(shapes[1]) == 2
