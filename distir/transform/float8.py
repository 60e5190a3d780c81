"""Products in 8-bit floats: dense layers take quantised activations and weights.

Before gradients: those of the new ops quantise what comes back, to Float8E5M2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distir.analysis import Analysis, State
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    DISCARD,
    DTYPES,
    HOST,
    UNKNOWN,
    Apply,
    Attributes,
    Call,
    Constant,
    Function,
    Module,
    Param,
    Part,
    Site,
    Statement,
    TensorType,
    operands,
    results,
    types,
)
from distir.ir import names as names_of
from distir.ir.builder import namer
from distir.ops import type_of
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.float8_histories import with_history
from distir.transform.inline import inline
from distir.transform.operands import with_operands
from distir.transform.steps import StepError, step

SCALINGS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "tensor": ((), ()),
    "block": ((1, 128), (128, 128)),
    "delayed": ((), ()),
}
"""By name: the blocks of activations and of weights."""

HISTORY = 1024
"""Steps that Transformer Engine's recipe for delayed scaling follows, as Megatron does."""

WIDE = ("Float32", "BFloat16", "Float16", "Float64")


@step(after=("cse", "seeded"), choices={"value": SCALINGS})
def fp8(module: Module, value: str = "block", *, block: int = 128, history: int = HISTORY) -> Module:
    """Products with weights in 8-bit floats: `fp8=tensor`, `fp8=block` or `fp8=delayed`. Apply it before `grad`.

    Activations and weights are quantised to Float8E4M3FN before each product, gradients to Float8E5M2 in the backward
    pass; sums are Float32, results have the element type that they had. `tensor`: one scale per tensor, its greatest
    magnitude by the largest number of the type. `block`: scales of 1 x 128 activations and 128 x 128 weights, as in
    DeepSeek-V3; `block` states another size than 128. `delayed`: one scale per tensor, by the greatest magnitude that
    it had in the last 1024 or `history` steps, which is state of the training step, as Transformer Engine keeps it.

    Changed is each `MatMul`, and each `Gemm` without factors, of an activation and a matrix of weights in a function
    that is called, such as a layer. Products of the entry function itself stay, those of first layers and heads; where
    it calls no function, all but the first and the last are changed.

    With `tensor`, a scale is that of the whole batch: the greatest over devices is found for it before the product, and
    microbatches are refused, as the first would need the last. Scales of blocks are the same for shards, replicas and
    microbatches of whole blocks, and so are delayed ones: what was greatest is added up at the end of a step.

    Raises ProgramError where there is no such product.
    """
    if value not in SCALINGS:
        raise StepError(f"`fp8` expected one of {', '.join(SCALINGS)}, found `{value}`")
    if block < 1:
        raise StepError(f"`block` expected 1 or more, found {block}")
    if history < 1:
        raise StepError(f"`history` expected 1 step or more, found {history}")
    if value != "delayed" and history != HISTORY:
        raise StepError("`history` is an option of `fp8=delayed`: other scales are of one step")
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
    if value == "delayed":
        deep = {s.function for f in module if f.name != entry.name for s in f.body if isinstance(s, Call)}
        if shared := sorted(name for name in deep if found.get(name)):
            return fp8(inline(module, tuple(shared)), value, history=history)
        return _delayed(
            module, entry, {f: _Changes(weights[f][1], {*of}, (), (), True) for f, of in found.items() if of}, history
        )
    changes = {f: _Changes(weights[f][1], {*of}, left, right) for f, of in found.items() if of}
    return Module(changes[f.name].made(f) if f.name in changes else f for f in module)


def _delayed(module: Module, entry: Function, changes: Mapping[str, _Changes], steps: int) -> Module:
    """The module whose products take scales by histories, which are parameters of the entry function."""
    made = {name: changes[name].made(module.functions[name]) for name in changes}
    f = namer(entry)
    (device, *_) = {d for p in entry.params for d in types.devices(p.type) if d != HOST} or {1}
    params: list[Param] = []
    body: list[Statement] = []
    changed = made.get(entry.name, entry)
    if entry.name in made:
        param, found, expected = with_history(f, entry.name, changes[entry.name].slots, steps, device)
        params.append(param)
        body.append(found)
        taken = changed.params[-1].name
        changed = replace(
            changed, params=changed.params[:-1], body=tuple(_renamed(s, taken, expected) for s in changed.body)
        )
    for statement in changed.body:
        if isinstance(statement, Call) and statement.function in made:
            hint = next(filter(None, statement.results), statement.function)
            param, found, expected = with_history(f, hint, changes[statement.function].slots, steps, device)
            params.append(param)
            body.append(found)
            statement = replace(statement, args=(*statement.args, expected))
        body.append(statement)
    made[entry.name] = replace(changed, params=(*entry.params, *params), body=tuple(body))
    return Module(made.get(f.name, f) for f in module)


def _renamed(statement: Statement, old: str, new: str) -> Statement:
    return with_operands(statement, {old: new}) if old in names_of(operands(statement)) else statement


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


@dataclass
class _Changes:
    """The products of a function that are changed, and how: `left` and `right` are the blocks of their operands.

    Where scaling is `delayed`, the function takes one parameter more, the greatest magnitudes expected, in `slots`.
    """

    state: State
    chosen: set[int]
    left: tuple[int, ...]
    right: tuple[int, ...]
    delayed: bool = False
    slots: int = 0

    def made(self, function: Function) -> Function:
        """The function, changed."""
        f = namer(function)
        quantised: dict[tuple[object, tuple[int, ...]], tuple[str, str]] = {}
        expected = f.fresh("greatest") if self.delayed else ""
        body: list[Statement] = []

        def pair(arg: str, block: tuple[int, ...]) -> tuple[str, str]:
            """The quantised value and its scales, made once."""
            if (arg, block) not in quantised:
                quantised[arg, block] = made = f.fresh(f"{arg}.fp8"), f.fresh(f"{arg}.scale")
                if self.delayed:
                    attrs = Attributes({"slot": self._slot()})
                    body.append(Apply((*made, DISCARD), "ScaleToFloat8", (arg, expected), attrs))
                else:
                    body.append(Apply(made, "QuantizeFloat8", (arg,), Attributes({"block": block})))
            return quantised[arg, block]

        for index, statement in enumerate(function.body):
            if index not in self.chosen or not _fits(statement, self.state):
                body.append(statement)
                continue
            assert isinstance(statement, Apply)
            (a, b), more = statement.args[:2], statement.args[2:]
            assert isinstance(a, str)
            assert isinstance(b, str)
            (x, x_scale), (w, w_scale) = pair(a, self.left), pair(b, self.right)
            made = type_of(self.state[statement.results[0]])
            assert isinstance(made, TensorType)
            attrs: dict[str, Constant] = {"to": made.dtype or DTYPES["Float32"]}
            attrs |= {"block_a": self.left, "block_b": self.right}
            if statement.attrs.get("transB"):
                attrs["transB"] = True
            if self.delayed:
                attrs["slot"] = self._slot()
            bias = [arg for arg in more if arg != ""]
            result = (f.fresh(f"{statement.results[0]}.product"),) if bias else statement.results
            claims = () if bias else statement.claims
            factors = (x, w, x_scale, w_scale, *((expected,) if self.delayed else ()))
            stream = statement.stream
            body.append(Apply(result, "ScaledMatMul", factors, Attributes(attrs), claims, stream))
            if bias:
                args = (result[0], bias[0])
                body.append(Apply(statement.results, "Add", args, claims=statement.claims, stream=stream))
        params = (*function.params, *((Param(expected, UNKNOWN),) if self.delayed else ()))
        return replace(function, params=params, body=tuple(body))

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1


def _fits(statement: Statement, state: State) -> bool:
    """Whether the operands of a product are a tensor of rows and a matrix, of types that can be quantised."""
    assert isinstance(statement, Apply)
    kinds: Sequence[object] = [type_of(state[name]) for name in names_of(statement.args[:2])]
    shapes = [t.shape for t in kinds if isinstance(t, TensorType) and t.dtype and t.dtype.name in WIDE and t.shape]
    return len(shapes) == 2 and len(shapes[0]) >= 2 and len(shapes[1]) == 2
