"""The parts of a transformer layer that can be recomputed by name, as with Megatron Core's `recompute_modules`.

Parts are recognised by the ops of the layer's function, not by names: what is recomputed is a matter of what ops
compute, of which facts say nothing. Terms and extents are those of
`recompute_modules` in megatron/core/transformer/transformer_config.py (core 0.16), but for two: `context` is a name of
praxis (layers/checkpoint_policy.py), and `gates` what hand-fused kernels recompute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from distir.analysis import State
from distir.diagnostics.spelling import nearest
from distir.ir import DISCARD, Apply, Call, Function, Statement, names
from distir.ops.experts.operands import RAGGED_PRODUCTS
from distir.transform.checkpoint.selective import attention_core
from distir.transform.steps import StepError

NORMS: Final = ("LayerNormalization", "RMSNormalization")
RAGGED: Final = (*RAGGED_PRODUCTS, "GroupedMatMul")
DENSE: Final = ("MatMul", "Gemm", "ScaledMatMul")
LAYOUTS: Final = ("Transpose", "Reshape", "Flatten")
ACTIVATIONS: Final = ("Swish", "Gelu", "Sigmoid", "Relu")


def attention(function: Function, state: State) -> set[str]:
    """The attention core; if attention is one op, what it saves beside its result, so that it runs again."""
    found = set(attention_core(function, state))
    for statement in _applies(function):
        if statement.op == "Attention":
            found.update(statement.results[1:])
    return found


def context(function: Function, state: State) -> set[str]:
    """The attention core with its result in all layouts, so that queries, keys and values alone are saved."""
    found, given = set(attention_core(function, state)), set[str]()
    for statement in _applies(function):
        mixes = statement.op == "Attention" or (statement.op in DENSE and statement.args[0] in found)
        if mixes or (statement.op in LAYOUTS and statement.args[0] in given):
            given.update(statement.results)
    return found | given


def gates(function: Function, state: State) -> set[str]:
    """Of gated feed-forward layers, experts too: the gate's activation, which is multiplied with another product.

    Kernels that compute both save the products alone: NVIDIA/Megatron-LM, core/fusions/fused_bias_swiglu.py.
    """
    taken = {name for s in _applies(function) if s.op == "Mul" for name in names(s.args)}
    params = {p.name for p in function.params}
    return {s.results[0] for s in _applies(function) if s.op in ACTIVATIONS and s.results[0] in taken - params}


def norms(function: Function, state: State) -> set[str]:
    """Normalised inputs of attention, of dense and of expert layers."""
    return {norm.results[0] for norm, _ in _branches(function)}


def dense(function: Function, state: State) -> set[str]:
    """The inner values of a dense feed-forward layer, from its normalised input on."""
    return {name for _, inside in _branches(function) if not inside & _heads(function) for name in inside}


def experts(function: Function, state: State) -> set[str]:
    """The inner values of an expert layer, from its normalised input on: router, exchange, experts, shared experts."""
    return {name for _, inside in _branches(function) if _has(function, inside, ("Route",)) for name in inside}


def shared(function: Function, state: State) -> set[str]:
    """The inner values of shared experts: in an expert layer, those that do not depend on routing nor lead to it."""
    inside = experts(function, state)
    chosen = {name for s in _applies(function) if s.op == "Route" for name in s.results}
    return inside - _leading_to(function, chosen) - _following(function, chosen)


def activations(function: Function, state: State) -> set[str]:
    """The activation functions of experts: the values between their products, which include experts' biases.

    What is saved is a product with its bias, from which no product is computed again: core/transformer/moe/experts.py,
    `linear_fc1` with `skip_bias_add=False`.
    """
    products = [s for s in _applies(function) if s.op in RAGGED]
    made = {name for s in products for name in s.results}
    biases = {name for s in _applies(function) if s.op == "RaggedExpand" for name in s.results}
    sums = (s for s in _applies(function) if s.op == "Add" and not biases.isdisjoint(names(s.args)))
    made |= {name for s in sums if not made.isdisjoint(names(s.args)) for name in s.results}
    taken = {name for s in products for name in names(s.args[:1])}
    after = _following(function, made, lambda s: isinstance(s, Apply) and s.op in (*RAGGED, "Unpermute"))
    return (after - made) & _leading_to(function, taken)


def latents(function: Function, state: State) -> set[str]:
    """In multi-head latent attention: rotated queries, keys and values, from the normalised latents on."""
    ends = {name for norm, _ in _branches(function) for name in norm.results}
    params = {p.name for p in function.params}
    inner = (s for s in _applies(function) if s.op in NORMS and s.args[0] not in params)
    low = with_copies(function, {s.results[0] for s in inner if ends.isdisjoint(s.results)})
    ups = (s for s in _applies(function) if s.op in DENSE and s.args[0] in low and s.args[1] in params)
    made = {name for s in ups for name in s.results}
    return _following(function, made, lambda s: not isinstance(s, Apply) or s.op == "Attention" or _is_core(s, params))


MEGATRONS: Final[Mapping[str, Callable[[Function, State], set[str]]]] = {
    "core_attn": attention,
    "layernorm": norms,
    "mlp": dense,
    "moe": experts,
    "shared_experts": shared,
    "moe_act": activations,
    "mla_up_proj": latents,
}
"""By the name that Megatron Core has for it: finds the values of a layer's function to recompute."""

MODULES: Final = {**MEGATRONS, "context": context, "gates": gates}
"""By name, the same of all parts."""


def modules_of(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list. Raises StepError for an unknown one."""
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    for name in found:
        if name not in MODULES:
            near = nearest(name, MODULES)
            hint = f"did you mean `{near}`?" if near else f"there are {', '.join(MODULES)}"
            raise StepError(f"there is no part `{name}` of a layer; {hint}")
    return found


def with_copies(function: Function, values: set[str]) -> set[str]:
    """Values with their 8-bit copies, which are saved instead of them."""
    copies = (s for s in _applies(function) if s.op in ("QuantizeFloat8", "ScaleToFloat8") and s.args[0] in values)
    return values | {name for s in copies for name in s.results[:2]}


def _applies(function: Function) -> Iterator[Apply]:
    return (s for s in function.body if isinstance(s, Apply))


def _branches(function: Function) -> Iterator[tuple[Apply, set[str]]]:
    """The branches of residual sums: each a normalisation, and the values computed from it up to the sum."""
    for norm in _applies(function):
        if norm.op in NORMS:
            joins = [s for s in _applies(function) if s.op in ("Add", "Sum") and norm.args[0] in s.args]
            inside = _following(function, norm.results[:1], joins.__contains__)
            if any(not inside.isdisjoint(names(s.args)) for s in joins):
                yield norm, inside - {*norm.results}


def _following(
    function: Function, start: Iterable[str], ends: Callable[[Statement], bool] = lambda statement: False
) -> set[str]:
    """Values and those computed from them, up to statements for which `ends` holds."""
    found = {*start}
    for statement in function.body:
        if isinstance(statement, (Apply, Call)) and not found.isdisjoint(names(statement.args)) and not ends(statement):
            found.update(name for name in statement.results if name != DISCARD)
    return found


def _leading_to(function: Function, end: Iterable[str]) -> set[str]:
    """Values and those from which they are computed."""
    found = {*end}
    for statement in reversed(function.body):
        if isinstance(statement, (Apply, Call)) and not found.isdisjoint(statement.results):
            found.update(names(statement.args))
    return found


def _has(function: Function, values: Collection[str], ops: Collection[str]) -> bool:
    return any(s.op in ops and not {*values}.isdisjoint(s.results) for s in _applies(function))


def _heads(function: Function) -> set[str]:
    """Values that mark a branch as no dense feed-forward layer: results of attention and of routing."""
    params = {p.name for p in function.params}
    return {
        name for s in _applies(function) if s.op in ("Attention", "Route") or _is_core(s, params) for name in s.results
    }


def _is_core(statement: Apply, params: Collection[str]) -> bool:
    """Whether both operands of a product are activations."""
    return statement.op in ("MatMul", "Einsum") and all(a not in params for a in statement.args if isinstance(a, str))
