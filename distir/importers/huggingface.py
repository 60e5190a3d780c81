"""Models of `transformers` while they are exported: their attention and their experts as ops of ours.

`transformers` lets a program register what computes attention, masks and experts. What is registered here writes one
op in the place of each, as the exporter's symbolic ops; so there are no products that merge batch and heads, and no
masks where the op itself says who sees whom. `transformers` itself is needed only for such models.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from distir.importers.core import ImportRefused
from distir.importers.expert_layers import expert_layers, experts, forget_groups, note_groups, sparse
from distir.importers.scans import scans_as_ops
from distir.importers.symbolic import NAME, op, ops

IMPLIED = "_distir_masks_are_implied"
"""Set in configurations of models that need no mask where attention says itself who sees whom: as flash kernels do."""

ADDED = "_distir_masks_are_added"
"""Set in configurations of models that know eager attention alone, and so masks that are added to its scores."""

WITHOUT_EFFECT = frozenset(
    ("use_cache", "logits_to_keep", "position_ids", "cache_position", "num_items_in_batch", "deterministic")
)
"""Keywords that models hand down to attention, which `transformers`' own attention of PyTorch's ops leaves alone.

So do those that ask for more results: `output_…`, `return_…`.
"""


@contextmanager
def as_ops(nn_module: Any, given: Iterable[str], *, cache: bool = False, training: bool = False) -> Generator[None]:
    """A module whose parts of `transformers` compute attention and experts by ops of ours; afterwards as it was.

    `given`: the names of the inputs. `cache`: whether keys and values are results. In `training`, of which gradients
    are traced, attention stays what PyTorch differentiates.
    """
    models = list(_models(nn_module))
    if not models:
        yield
        return
    _register()
    masks = _package("transformers.masking_utils")
    was: list[tuple[Any, dict[str, Any]]] = [(config, {**vars(config)}) for config in _configs(models)]
    flags = {
        id(part.config): part._supports_flash_attn for model in models for part in model.modules() if is_model(part)
    }
    eager = {id(part.config) for model in models for part in model.modules() if is_model(part) and _is_eager(part)}
    packed = masks.find_packed_sequence_indices
    hooks = [model.register_forward_hook(_with_plain_cache) for model in models if cache]
    hooks += [layer.register_forward_pre_hook(note_groups, with_kwargs=True) for layer in expert_layers(models)]
    try:
        for model in models:
            _switch(model, training)
        for config, _ in was:
            if hasattr(config, "use_cache"):
                config.use_cache = cache
            setattr(config, IMPLIED, flags.get(id(config), all(flags.values())))
            setattr(config, ADDED, id(config) in eager)
        if "position_ids" not in given:  # positions that a model counts itself begin no second sequence
            masks.find_packed_sequence_indices = _not_packed
        exported = () if training else models
        with scans_as_ops(exported), sparse(expert_layers(exported)):
            yield
    finally:
        for hook in hooks:
            hook.remove()
        forget_groups()
        masks.find_packed_sequence_indices = packed
        for config, state in was:
            config.__dict__ = state


@contextmanager
def as_it_is(nn_module: Any, *, cache: bool = False) -> Generator[None]:
    """A module that gives what it gives in `as_ops`, computed by `transformers` itself; afterwards as it was."""
    models = list(_models(nn_module))
    configs = [config for config in _configs(models) if hasattr(config, "use_cache")]
    was = [config.use_cache for config in configs]
    hooks = [model.register_forward_hook(_with_plain_cache) for model in models if cache]
    try:
        for config in configs:
            config.use_cache = cache
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for config, before in zip(configs, was, strict=True):
            config.use_cache = before


def is_model(value: object) -> bool:
    """Whether a value is a model of `transformers`. Does not load it."""
    loaded = sys.modules.get("transformers.modeling_utils")
    return loaded is not None and isinstance(value, loaded.PreTrainedModel)


def _is_eager(model: Any) -> bool:
    """Whether a model of `transformers` knows no other attention than its own, of PyTorch's ops."""
    return not (model._supports_flash_attn or model._supports_sdpa or model._supports_flex_attn)


def _models(nn_module: Any) -> Iterator[Any]:
    """The outermost models of `transformers` in a module."""
    if is_model(nn_module):
        yield nn_module
        return
    for child in nn_module.children():
        yield from _models(child)


def _configs(models: Iterable[Any]) -> list[Any]:
    """The configurations of models and of all models in them, each once."""
    found = {id(part.config): part.config for model in models for part in model.modules() if is_model(part)}
    pending = list(found.values())
    for config in pending:  # grows while it is walked
        for key in config.sub_configs:
            inner = getattr(config, key, None)
            if inner is not None and id(inner) not in found:
                found[id(inner)] = inner
                pending.append(inner)
    return list(found.values())


def _switch(model: Any, training: bool) -> None:
    """Let a model use what is registered, where it asks for what is registered at all."""
    if model._can_set_experts_implementation():
        model.set_experts_implementation(NAME)
    if not training and model._can_set_attn_implementation():
        model.set_attn_implementation(NAME)


def _register() -> None:
    transformers = _package("transformers")
    transformers.AttentionInterface.register(NAME, _attention)
    transformers.AttentionMaskInterface.register(NAME, _mask)
    _package("transformers.integrations.moe").ExpertsInterface.register(NAME, experts)


def _with_plain_cache(model: Any, args: Any, found: Any) -> Any:
    """What a model gives, with pairs of keys and values by layer in the place of its cache."""
    if not isinstance(found, Mapping):
        return found
    given = cast("Mapping[str, Any]", found)
    return {name: _plain_cache(value) for name, value in given.items()}


def _plain_cache(value: Any) -> Any:
    """The keys and values of each layer, of a cache; any other value as it is. Releases name caches differently."""
    layers: list[Any] | None = getattr(value, "layers", None)
    return value if layers is None else [(layer.keys, layer.values) for layer in layers]


def _not_packed(position_ids: Any) -> None:
    return None


def _mask(
    batch_size: Any,
    q_length: Any,
    kv_length: Any,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Any = None,
    **settings: Any,
) -> Any:
    """Which query attends to which key, as Booleans, or as numbers to add; None where `_attention` states it itself."""
    masks = _package("transformers.masking_utils")
    function = masks.causal_mask_function if mask_function is None else mask_function
    chunk = _chunk(masks, function) if attention_mask is None else None
    if chunk is not None:  # without padding chunks are those of every sequence
        batch_size, start = 1, _package("torch").zeros(1, dtype=int)
        function = masks.causal_mask_function
        if chunk < kv_length:
            function = masks.chunked_causal_mask_function(chunk, start)
    plain = function in (masks.causal_mask_function, masks.bidirectional_mask_function) or _is_window(masks, function)
    implied = getattr(settings.get("config"), IMPLIED, False)
    if attention_mask is None and implied and plain and q_length == kv_length and not settings.get("use_vmap"):
        return None
    settings = {**settings, "allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    build = masks.eager_mask if getattr(settings.get("config"), ADDED, False) else masks.sdpa_mask
    return build(
        batch_size, q_length, kv_length, q_offset, kv_offset, function, attention_mask=attention_mask, **settings
    )


def _is_window(masks: Any, function: Any) -> bool:
    """Whether a mask function is a sliding window over what comes before, and no more."""
    like = masks.sliding_window_causal_mask_function(1)
    if getattr(function, "__code__", None) is not like.__code__:
        return False
    return [*_names(function)] == [*_names(like)]


def _chunk(masks: Any, function: Any) -> int | None:
    """The size of the chunks of a sequence that a mask function keeps apart, and does no more than that."""
    like = masks.chunked_causal_mask_function(1, None)
    if getattr(function, "__code__", None) is not like.__code__ or [*_names(function)] != [*_names(like)]:
        return None
    pending: list[Any] = [function]
    for held in pending:  # grows while it is walked
        free: dict[str, Any] = dict(zip(held.__code__.co_freevars, held.__closure__ or (), strict=True))
        if "chunk_size" in free:
            return int(free["chunk_size"].cell_contents)
        for cell in free.values():
            pending += cell.cell_contents
    return None


def _names(function: Any) -> Iterator[str]:
    """The functions that a function holds in its closure."""
    for cell in function.__closure__ or ():
        held: Any = cell.cell_contents
        inside = cast("tuple[Any, ...]", held) if isinstance(held, tuple) else (held,)
        for value in inside:
            yield getattr(value, "__qualname__", "")


def _attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Any = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    s_aux: Any = None,
    sinks: Any = None,
    indices: Any = None,
    block_indices: Any = None,
    **settings: Any,
) -> tuple[Any, None]:
    """Attention as one op: (batch, heads, sequence, size) in, (batch, sequence, heads, size) out.

    `s_aux` holds a sink for each head, `sinks` one for each query, (batch, heads, sequence, 1). `indices` are the keys
    that each query attends to, (batch, sequence, count), `block_indices` the blocks of keys, (batch, groups of heads,
    sequence, count), with -1 for none. Raises ImportRefused for a setting that is not known here.
    """
    block_size: Any = getattr(getattr(module, "indexer", None), "block_size", None)
    _check_known(module, settings if block_size else {**settings, "block_indices": block_indices})
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    causal = causal and attention_mask is None and query.shape[2] != 1
    chosen = _chosen(indices, key.shape[2])
    if block_indices is not None:
        chosen = _chosen_blocks(block_indices, block_size, query.shape[1], key.shape[2])
    mask = _with_bias(position_bias, _masked_by(chosen, attention_mask))
    attrs: dict[str, Any] = {"is_causal": int(causal)}
    if scaling is not None:
        attrs["scale"] = float(scaling)
    if softcap:
        attrs["softcap"] = float(softcap)
    if dropout:
        attrs["dropout"] = float(dropout)
    if causal and sliding_window is not None and sliding_window < key.shape[2]:
        attrs["window"] = int(sliding_window)
    shape = (*query.shape[:3], value.shape[3])
    if sinks is None:
        mixed = op("Attention", (query, key, value, mask, s_aux), attrs, shape)
    else:
        mixed = _with_sinks((query, key, value, mask, s_aux), attrs, shape, sinks)
    return mixed.transpose(1, 2).contiguous(), None


def _check_known(module: Any, settings: Mapping[str, Any]) -> None:
    """Raises ImportRefused for a keyword of attention that might change what it computes."""
    given = [name for name, value in settings.items() if value is not None and value is not False]
    unknown = [name for name in given if name not in WITHOUT_EFFECT and not name.startswith(("output_", "return_"))]
    if unknown:
        listed = ", ".join(f"`{name}`" for name in unknown)
        raise ImportRefused(
            f"`{type(module).__name__}` calls attention with {listed}, which is not known here",
            "without it the program would be another model: let the module compute attention by ops of PyTorch",
        )


def _chosen(indices: Any, keys: Any) -> Any:
    """Which keys each query attends to, Booleans: those of these indices, (batch, sequence, count)."""
    if indices is None:
        return None
    torch = _package("torch")
    none = torch.zeros((*indices.shape[:-1], keys), dtype=torch.bool, device=indices.device)
    return none.scatter(-1, indices.long(), True).unsqueeze(1)


def _chosen_blocks(indices: Any, size: int, heads: int, keys: int) -> Any:
    """The same where each group of heads chooses blocks of `size` keys."""
    torch = _package("torch")
    blocks = -(-keys // size)
    places = torch.where(indices < 0, blocks, indices)  # one behind the last, for none
    none = torch.zeros((*indices.shape[:-1], blocks + 1), dtype=torch.bool, device=indices.device)
    chosen = none.scatter(-1, places.long(), True)[..., :blocks]
    of_keys = chosen.repeat_interleave(size, -1)[..., :keys]
    return of_keys.repeat_interleave(heads // indices.shape[1], 1)


def _masked_by(chosen: Any, mask: Any) -> Any:
    """A mask, of what is chosen alone."""
    if chosen is None or mask is None:
        return mask if chosen is None else chosen
    torch = _package("torch")
    if mask.dtype == torch.bool:
        return mask & chosen
    return mask.masked_fill(~chosen, torch.finfo(mask.dtype).min)


def _with_sinks(operands: tuple[Any, ...], attrs: dict[str, Any], shape: Any, sinks: Any) -> Any:
    """Attention with a score for each query that takes part in its softmax like a key without a value.

    That is the attention without it, times the share of the softmax that is left to the keys.
    """
    torch = _package("torch")
    query = operands[0]
    mixed, total = ops("Attention", operands, attrs, [(query.dtype, shape), (torch.float32, shape[:3])])
    return mixed * torch.sigmoid(total.unsqueeze(-1) - sinks.float()).to(mixed.dtype)


def _with_bias(bias: Any, mask: Any) -> Any:
    """A bias that is added to the scores, and a mask, as one operand."""
    torch = _package("torch")
    if bias is None or mask is None:
        return bias if mask is None else mask
    if mask.dtype != torch.bool:
        return bias + mask
    return torch.where(mask, bias, torch.finfo(bias.dtype).min)


def _package(name: str) -> Any:
    """A module of PyTorch or transformers, as what is untyped for us."""
    return importlib.import_module(name)
