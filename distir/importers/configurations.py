"""Models of `transformers` from their configurations alone: of any size, with random weights or with none.

A configuration is a file (`config.json`), its folder, or the name of a family (`llama`) for that family's defaults.
Nothing is fetched.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from errno import ENOENT
from typing import Any, cast

from distir.diagnostics import nearest
from distir.files.reading import SETTINGS, read_text
from distir.importers.core import Imported, ImportRefused
from distir.importers.pytorch import import_torch

TASKS = ("ForCausalLM", "ForSeq2SeqLM", "ForMaskedLM", "ForImageClassification", "ForSpeechSeq2Seq", "")
"""What a configuration without an architecture is taken for, the first that its family has: as in `AutoModelFor…`."""

DEPTHS = ("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "n_layer")
"""What configurations call the number of their layers."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the model is to be exported with: sizes of its inputs, and what is changed in its configuration."""

    sequence: int = 128
    """Tokens of a sequence."""
    layers: int | None = None
    """How many layers, where not as many as configured."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Other settings of the configuration, by name."""
    dtype: str = "float32"
    """The elements of weights, as PyTorch calls them (`bfloat16`)."""
    mask: bool = False
    """Whether the program takes a mask of padding."""
    labels: bool = False
    """Whether the program takes labels, and gives the loss."""


def import_hf(source: str, weights: bool = True, shape: Shape | None = None, *, outline: bool = True) -> Imported:
    """The program of a model of `transformers`, named by a configuration; its batch is called `B`.

    `source`: a `config.json`, a folder that holds one, or a family's name. Without `weights` the model is made on the
    meta device and takes no memory; else its weights are random. Raises ImportRefused, OSError for a file that cannot
    be read, ImportError where `transformers` is not installed.
    """
    shape = shape or Shape()
    transformers = _package("transformers")
    torch = _package("torch")
    config = _configured(transformers, source, shape)
    maker = _maker(transformers, config)
    dtype = getattr(torch, shape.dtype, None)
    if dtype is None or not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ImportRefused(f"there are no floats called `{shape.dtype}`", "for example float32, bfloat16 or float16")
    with nullcontext() if weights else torch.device("meta"):
        try:
            model = maker(config, dtype=dtype).eval()
        except Exception as error:  # each family makes its modules in its own way
            kind = type(config).__name__
            raise ImportRefused(f"transformers makes no model of this {kind}: {_reason(error)}") from error
        inputs = _inputs(torch, model, config, shape)
    return import_torch(model, (), weights, kwargs=inputs, dynamic_batch=True, outline=outline)


def _configured(transformers: Any, source: str, shape: Shape) -> Any:
    """The configuration, with what is to be changed in it."""
    path = os.path.join(source, "config.json") if os.path.isdir(source) else source
    families: Any = _package("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    if os.path.exists(path):
        stated, kind = _read(path), ""
        kind = stated.get("model_type", "")
        if not kind:
            raise ImportRefused(f"`{path}` has no `model_type`: it is no configuration of transformers")
    else:
        stated, kind = {}, source
    if kind not in families:
        likely = nearest(kind, sorted(families))
        what = f"the `model_type` of `{path}`, `{kind}`," if stated else f"`{source}`"
        hint = f"did you mean `{likely}`?" if likely else "give a config.json, or a family as `llama`"
        if source.endswith(".json") and not stated:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), source)
        if "/" in source and not stated:
            hint = "nothing is fetched: download its config.json, and give that"
        raise ImportRefused(f"{what} is no family that transformers knows", hint)
    stated = _changed(dict(stated), _default(families[kind]), shape)
    stated.pop("model_type", None)
    try:
        config = families[kind].from_dict(stated)
    except Exception as error:  # each family checks its settings in its own way
        raise ImportRefused(f"transformers takes no such configuration: {_reason(error)}") from error
    config.use_cache = False
    return config


def _default(family: Any) -> Any:
    """A family's own defaults. Raises ImportRefused for a family that has none."""
    try:
        return family()
    except Exception as error:  # each family checks its settings in its own way
        raise ImportRefused(f"`{family.__name__}` is nothing without settings: {_reason(error)}") from error


def _changed(stated: dict[str, Any], default: Any, shape: Shape) -> dict[str, Any]:
    """What a configuration states, with other settings and with fewer or more layers."""
    known = {*default.to_dict(), *default.attribute_map}
    for name, value in shape.settings.items():
        if name not in known and name not in stated:
            likely = nearest(name, sorted(known))
            hint = f"did you mean `{likely}`?" if likely else None
            raise ImportRefused(f"`{type(default).__name__}` has no setting `{name}`", hint)
        stated[name] = value
    if shape.layers is None:
        return stated
    depths = [name for name in DEPTHS if name in known]
    if not depths and "text_config" in known:
        inner = default.get_text_config()
        within = stated.get("text_config") or {"model_type": inner.model_type}
        return {**stated, "text_config": _changed(within, inner, replace(shape, settings={}))}
    if not depths:
        raise ImportRefused(
            f"`{type(default).__name__}` does not say how many layers there are: `--layers` is of no use"
        )
    before = next((stated[name] for name in depths if name in stated), getattr(default, depths[0]))
    for name in depths:
        stated[name] = shape.layers
    for name, value in {**default.to_dict(), **stated}.items():
        said = cast("list[Any]", value) if isinstance(value, list) else []
        if said and len(said) == before:  # one for each layer
            stated[name] = (said * -(-shape.layers // len(said)))[: shape.layers]
    return stated


def _read(path: str) -> dict[str, Any]:
    try:
        found = json.loads(read_text(path, SETTINGS))
    except ValueError as error:
        raise ImportRefused(f"`{path}` is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ImportRefused(f"`{path}` is no configuration: expected an object")
    return cast("dict[str, Any]", found)


def _maker(transformers: Any, config: Any) -> Any:
    """What makes the model: the class that the configuration names, else the family's for a task."""
    for name in config.architectures or ():
        if hasattr(transformers, name):
            return getattr(transformers, name)._from_config
    for task in TASKS:
        auto = getattr(transformers, f"AutoModel{task}")
        if type(config) in auto._model_mapping:
            return auto.from_config
    raise ImportRefused(f"transformers has no model for `{type(config).__name__}`")


def _inputs(torch: Any, model: Any, config: Any, shape: Shape) -> dict[str, Any]:
    """Example inputs by name, of a batch of 2."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    tokens = torch.zeros(2, shape.sequence, dtype=torch.int64)
    made: dict[str, Any] = {}
    for name in _taken(model, config):
        if name in ("input_ids", "decoder_input_ids"):
            made[name] = tokens
        elif name == "pixel_values":
            vision = getattr(config, "vision_config", config)
            size: Any = vision.image_size
            sides = (size, size) if isinstance(size, int) else tuple(size)
            made[name] = torch.zeros(2, vision.num_channels, *sides, dtype=model.dtype)
        elif name == "input_features":
            made[name] = torch.zeros(2, config.num_mel_bins, 2 * config.max_source_positions, dtype=model.dtype)
        else:
            kind = type(model).__name__
            hint = "write a function that gives the model and its inputs, for `distir import torch`"
            raise ImportRefused(f"`{kind}` takes `{name}`, of which no example is known", hint)
    if shape.mask:
        made["attention_mask"] = torch.ones(2, shape.sequence, dtype=torch.int64)
    if shape.labels:
        made["labels"] = tokens
    limit = getattr(text, "max_position_embeddings", None)
    if "input_ids" in made and isinstance(limit, int) and shape.sequence > limit:
        raise ImportRefused(f"the model has {limit} positions, {shape.sequence} tokens are asked for")
    return made


def _taken(model: Any, config: Any) -> list[str]:
    """The inputs that a model cannot do without."""
    names = [model.main_input_name]
    if hasattr(config, "vision_config") and "input_ids" in names:
        names.append("pixel_values")
    if getattr(config, "is_encoder_decoder", False):
        names.append("decoder_input_ids")
    return names


def _reason(error: BaseException) -> str:
    """The last thing that an error says: what it begins with is who says it."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)


def _package(name: str) -> Any:
    return importlib.import_module(name)
