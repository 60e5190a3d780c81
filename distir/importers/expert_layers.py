"""The experts of models of `transformers`, while they are exported or a training step is traced: as ops of ours.

The tokens of each sequence are sorted by the experts that the router named, and products are grouped. PyTorch
differentiates them by the ops that are our gradients of these.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Generator, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import cache, partial
from inspect import signature
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from distir.importers.symbolic import op, ops

_groups: MutableMapping[Any, Any] = WeakKeyDictionary()
"""By experts, the sizes of the tokens that their layer is given, (batch, sequence), before it joins them."""


def expert_layers(models: Iterable[Any]) -> Iterator[Any]:
    """The modules that have experts."""
    for model in models:
        yield from (module for module in model.modules() if "experts" in module._modules)


def note_groups(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A hook that runs before a layer with experts: it notes the sizes of its tokens."""
    given: Any = args[0] if args else kwargs.get("hidden_states")
    if given is not None:
        _groups[layer.experts] = given.shape[:-1]


def forget_groups() -> None:
    """Forget what was noted."""
    _groups.clear()


def _groups_of(experts: Any, tokens: Any) -> tuple[Any, ...]:
    """The sizes of the tokens, which devices may share, where they are known; else all of them together."""
    found = tuple(_groups.get(experts, ()))
    same = importlib.import_module("torch.fx.experimental.symbolic_shapes").statically_known_true(
        math.prod(found) == tokens
    )
    return found if found and same else (tokens,)


@contextmanager
def sparse(layers: Iterable[Any]) -> Generator[None]:
    """Layers that give every token to every expert (Llama 4) give it to those that the router chose; then as before."""
    dense = [layer for layer in layers if _is_dense(layer)]
    for layer in dense:
        layer.forward = partial(_of_weighted_inputs, layer)
    try:
        yield
    finally:
        for layer in dense:
            del layer.forward


def _is_dense(layer: Any) -> bool:
    """Whether the experts get no choices of tokens: each gets all tokens, times scores that may be 0."""
    return {"router", "shared_expert"} <= set(layer._modules) and len(signature(layer.experts.forward).parameters) == 1


def _of_weighted_inputs(layer: Any, hidden_states: Any) -> tuple[Any, Any]:
    """A layer of experts that are given tokens times their scores, sigmoids of logits, and a shared expert."""
    torch = _torch()
    own, router = layer.experts, layer.router
    tokens = hidden_states.reshape(-1, hidden_states.shape[-1])
    logits = torch.nn.functional.linear(tokens, router.weight)
    attrs = {"top_k": router.top_k, "score": "sigmoid", "normalize": 0}
    chosen = (*logits.shape[:-1], router.top_k)
    weights, index = ops("Route", (logits,), attrs, [(logits.dtype, chosen), (torch.int64, chosen)])
    x, places, counts, weights = _dispatched(own, tokens, index, weights)
    rows = op("Permute", (x, places, weights), {}, _rows(x, places))
    gate, up = _product(rows, own.gate_up_proj, counts, False, router.top_k).chunk(2, dim=-1)
    result = _product(up * own.act_fn(gate), own.down_proj, counts, False, router.top_k)
    mixed = op("Unpermute", (result, places), {}, x.shape).reshape(tokens.shape)
    return layer.shared_expert(tokens) + mixed, logits


def _dispatched(own: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> tuple[Any, Any, Any, Any]:
    """The tokens of each sequence, where they go, how many each expert has, and the weights of choices."""
    *outer, tokens = _groups_of(own, hidden_states.shape[0])
    x, index, weights = (a.reshape(*outer, tokens, a.shape[-1]) for a in (hidden_states, top_k_index, top_k_weights))
    count, int64 = own.down_proj.shape[0], _torch().int64
    dispatched = [(int64, index.shape), (int64, (*index.shape[:-2], count))]
    places, counts = ops("Dispatch", (index,), {"num_experts": count}, dispatched)
    return x, places, counts, weights


def experts(self: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
    """The experts of a layer: (tokens, width), (tokens, k), (tokens, k) in, (tokens, width) out."""
    choices = top_k_index.shape[-1]
    x, places, counts, weights = _dispatched(self, hidden_states, top_k_index, top_k_weights)
    rows = _differentiable().permute(x, places)
    up = "gate_up_proj" if self.has_gate else "up_proj"
    hidden = _by_expert(self, rows, up, counts, choices)
    hidden = self._apply_gate(hidden) if self.has_gate else self.act_fn(hidden)
    result = _by_expert(self, hidden, "down_proj", counts, choices)
    if self.has_post_expert_norm:
        result = self.post_expert_norm(result)
    return _differentiable().unpermute(result, places, weights).reshape(hidden_states.shape)


def _by_expert(self: Any, rows: Any, name: str, counts: Any, choices: int) -> Any:
    product = _differentiable().product(rows, getattr(self, name), counts, not self.is_transposed, choices)
    if not self.has_bias:
        return product
    return product + _differentiable().expand(getattr(self, f"{name}_bias"), counts, rows.shape[-2])


@cache
def _differentiable() -> SimpleNamespace:
    """The ops with their gradients, as functions of PyTorch."""
    function: Any = _torch().autograd.Function

    class Permute(function):
        @staticmethod
        def forward(ctx: Any, x: Any, places: Any) -> Any:
            ctx.save_for_backward(places)
            return op("Permute", (x, places), {}, _rows(x, places))

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            (places,) = ctx.saved_tensors
            return op("Unpermute", (dy, places), {}, (*places.shape[:-1], dy.shape[-1])), None

    class Unpermute(function):
        @staticmethod
        def forward(ctx: Any, rows: Any, places: Any, weights: Any) -> Any:
            ctx.save_for_backward(rows, places, weights)
            return op("Unpermute", (rows, places, weights), {}, (*places.shape[:-1], rows.shape[-1]))

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            rows, places, weights = ctx.saved_tensors
            drows = op("Permute", (dy, places, weights), {}, rows.shape)
            return drows, None, op("UnpermuteGrad", (dy, rows, places, weights), {}, weights.shape, like=weights)

    class GroupedProduct(function):
        @staticmethod
        def forward(ctx: Any, rows: Any, w: Any, counts: Any, flipped: bool, choices: int) -> Any:
            ctx.save_for_backward(rows, w, counts)
            ctx.flipped, ctx.choices = flipped, choices
            return _product(rows, w, counts, flipped, choices)

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            rows, w, counts = ctx.saved_tensors
            attrs = {"transW": int(ctx.flipped), "top_k": ctx.choices}
            drows = _product(dy, w, counts, not ctx.flipped, ctx.choices)
            return drows, op("RaggedMatMulGrad", (dy, rows, counts), attrs, w.shape), None, None, None

    class Expand(function):
        @staticmethod
        def forward(ctx: Any, x: Any, counts: Any, rows: Any) -> Any:
            ctx.save_for_backward(counts)
            count = _torch().tensor(rows, device="cpu")  # a number, also where a model on the meta device has none
            return op("RaggedExpand", (x, counts, count), {}, (*counts.shape[:-1], rows, x.shape[-1]))

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            (counts,) = ctx.saved_tensors
            return op("RaggedSum", (dy, counts), {}, (counts.shape[-1], dy.shape[-1])), None, None

    return SimpleNamespace(
        permute=Permute.apply, unpermute=Unpermute.apply, product=GroupedProduct.apply, expand=Expand.apply
    )


def _rows(x: Any, places: Any) -> tuple[Any, ...]:
    return (*x.shape[:-2], places.shape[-2] * places.shape[-1], x.shape[-1])


def _product(rows: Any, w: Any, counts: Any, flipped: bool, choices: int) -> Any:
    shape = (*rows.shape[:-1], w.shape[1] if flipped else w.shape[2])
    return op("RaggedMatMul", (rows, w, counts), {"transW": int(flipped), "top_k": choices}, shape)


def _torch() -> Any:
    return importlib.import_module("torch")
