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
from inspect import Parameter, signature
from typing import Any, cast

from distir.diagnostics import nearest
from distir.files import limits
from distir.files.reading import FileKind, read_text
from distir.importers.comparison import Differs
from distir.importers.core import Imported, ImportRefused
from distir.importers.pytorch import import_torch
from distir.importers.repeating import thinned
from distir.importers.small_copies import SEQUENCE, small

TASKS = (
    "ForCausalLM",
    "ForSeq2SeqLM",
    "ForMaskedLM",
    "ForImageClassification",
    "ForSpeechSeq2Seq",
    "ForImageTextToText",
    "",
)
"""What a configuration without an architecture is taken for, the first that its family has: as in `AutoModelFor…`."""

DEPTHS = ("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "n_layer")
"""What configurations call the number of their layers."""

WIDTHS = ("hidden_size", "d_model", "n_embd", "dim")
"""What they call the width of a layer."""

IMAGE_TOKENS = ("image_token_id", "image_token_index", "media_placeholder_token_id", "image_patch_id")
"""What configurations call the token in the place of which an image stands."""

IMAGE = 224
"""Pixels of an image's side, where the configuration does not say: those of ImageNet."""

FRAMES = 16
"""Frames of a film, where the configuration does not say."""

CONFIGURATION = FileKind("a configuration", 16 << 20, "leave out how its weights are quantised")
"""One may list every weight that is not quantised."""

SAMPLES = 16000
"""Samples of a sound: a second, at the rate that is usual for speech."""

SMALL_MODEL = 1 << 21
"""A model of so many weights at most is compared with PyTorch as it is, a larger one as a small copy."""

SMALL_SEQUENCE = 64
"""The same for its sequence."""

NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


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


def import_hf(
    source: str, weights: bool = True, shape: Shape | None = None, *, outline: bool = True, compare: bool = True
) -> Imported:
    """The program of a model of `transformers`, named by a configuration; its batch is called `B`.

    `source`: a `config.json`, a folder that holds one, or a family's name. Without `weights` the model is made on the
    meta device and takes no memory; else its weights are random. With `compare` it is compared with PyTorch, a large
    model as a small copy (`importers.small_copies`). Raises ImportRefused, OSError for a file that cannot
    be read, ImportError where `transformers` is not installed.
    """
    shape = shape or Shape()
    transformers = _package("transformers")
    torch = _package("torch")
    dtype = getattr(torch, shape.dtype, None)
    if dtype is None or not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ImportRefused(f"there are no floats called `{shape.dtype}`", "for example float32, bfloat16 or float16")
    config, remarks = _configured(transformers, source, shape)
    text: Any = None if shape.labels else _text_alone(transformers, config)
    tries: list[Any] = [config] if text is None else [text, config] if _embeds_images(config) else [config, text]
    refused: ImportRefused | None = None
    for one in tries:
        try:
            found = _imported(transformers, one, dtype, shape, weights, outline, compare)
        except Differs:
            raise
        except ImportRefused as error:
            refused = refused or error
            continue
        if one is text:
            kind = (config.architectures or [type(config).__name__])[0]
            remarks.append(
                f"`{kind}` is imported without images or sound: as `{one.architectures[0]}`, its model of text"
            )
        return Imported(found, found.weights.entries, (*remarks, *found.notes), found.comparison)
    assert refused is not None
    raise refused


def _imported(
    transformers: Any, config: Any, dtype: Any, shape: Shape, weights: bool, outline: bool, compare: bool
) -> Imported:
    """The program of the model of a configuration. Raises ImportRefused."""
    torch = _package("torch")
    maker = _maker(transformers, config)
    model = _made(torch, maker, config, dtype, weights)
    itself = compare and dtype == torch.float32 and _is_small(model, shape)
    if itself and not weights:
        model = _made(torch, maker, config, dtype, True)
    with nullcontext() if weights or itself else torch.device("meta"):
        inputs, remarks = _inputs(torch, model, config, shape)
    stated: dict[str, Any] = {"kwargs": inputs, "dynamic_batch": True}
    try:
        found = import_torch(model, (), weights, **stated, outline=outline, compare=itself)
    except ImportRefused as refused:
        hint = _to_state(config) if "NoneType" in str(refused) else None
        raise ImportRefused(refused.message, hint or refused.help) from refused
    if itself or not compare:
        said = found.comparison
    else:
        with torch.random.fork_rng(devices=()):
            said = _copy_compared(torch, maker, model, config, shape)
    return Imported(found, found.weights.entries, (*remarks, *found.notes), said)


GENERATES = ("ForConditionalGeneration", "ForCausalLM", "ForImageTextToText")
"""What the classes of models are called that give the next token."""


def _text_alone(transformers: Any, config: Any) -> Any:
    """The configuration of the model of text in one that takes images or sound, too, and gives the next token."""
    text = _text_of(config)
    causal = transformers.AutoModelForCausalLM._model_mapping
    other = [name for name in config.architectures or () if not name.endswith(GENERATES)]
    if text is config or other or getattr(config, "is_encoder_decoder", False) or type(text) not in causal:
        return None
    text.architectures = [causal[type(text)].__name__]
    text.tie_word_embeddings = config.tie_word_embeddings
    return text


def _embeds_images(config: Any) -> bool:
    """Whether a model embeds images among its tokens, and so does without any."""
    images = any(getattr(config, name, None) is not None for name in IMAGE_TOKENS)
    return _setting(config, "vision_config") is not None and images


def _made(torch: Any, maker: Any, config: Any, dtype: Any, weights: bool) -> Any:
    """The model, without `weights` on the meta device. Raises ImportRefused."""
    with nullcontext() if weights else torch.device("meta"):
        try:
            return _without_padding(maker(config, dtype=dtype).eval())
        except Exception as error:  # each family makes its modules in its own way
            kind = type(config).__name__
            message = f"transformers makes no model of this {kind}: {_reason(error)}"
            raise ImportRefused(message, _to_state(config)) from error


def _without_padding(model: Any) -> Any:
    """A model that takes several sequences though its configuration names no padding: no token is it.

    Those that classify sequences look for the last token before it.
    """
    text = _text_of(model.config)
    if type(model).__name__.endswith("ForSequenceClassification") and _lacks(text, "pad_token_id"):
        text.pad_token_id = -1
    return model


def _is_small(model: Any, shape: Shape) -> bool:
    """Whether a model is compared as it is."""
    return shape.sequence <= SMALL_SEQUENCE and sum(p.numel() for p in model.parameters()) <= SMALL_MODEL


def _copy_compared(torch: Any, maker: Any, model: Any, config: Any, shape: Shape) -> str:
    """What a comparison of a small copy of a model with PyTorch has found. Raises Differs."""
    try:
        copied, fewer = copied_configuration(model, config, shape)
        copy = _made(torch, maker, copied, torch.float32, True)
        inputs, _ = _inputs(torch, copy, copied, fewer)
        said = import_torch(copy, (), False, kwargs=inputs, dynamic_batch=True).comparison
    except Differs:
        raise
    except Exception as error:  # each family checks its settings in its own way
        return f"not compared with PyTorch: a small copy of it does not come in: {_reason(error)}"
    if not said.startswith("equal"):
        return said
    depth, width = (_setting(_text_of(copied), *names) for names in (DEPTHS, WIDTHS))
    return f"{said}, on a copy with {depth} layers of width {width}"


def copied_configuration(model: Any, config: Any, shape: Shape) -> tuple[Any, Shape]:
    """The configuration of a small copy of a model, with layers of each kind that the model has, and its shape."""
    with thinned(model) as stacks:
        layers = max((stack.distinct for stack in stacks), default=None)
    fewer = replace(shape, sequence=SEQUENCE, layers=layers, settings={}, dtype="float32")
    stated = small(_changed(config.to_dict(), config, fewer))
    family = cast("Any", type(config))
    copied: Any = family.from_dict({name: value for name, value in stated.items() if name != "model_type"})
    copied.use_cache = False
    return copied, fewer


ELSEWHERE: Mapping[str, str] = {
    "peft_type": "an adapter of PEFT, whose model is another file's",
    "_class_name": "a configuration of diffusers",
    "architecture": "a configuration of timm",
    "n_kv_heads": "of parameters as Meta and Mistral write them (`params.json`)",
    "bos_token_id": "a configuration of generation (`generation_config.json`), or one cut short",
}
"""What JSON without `model_type` is that has this key, unless an earlier one is there."""


def _no_configuration(path: str, stated: Mapping[str, Any]) -> ImportRefused:
    """Why a file without `model_type` is not read."""
    found = "it is no configuration of transformers"
    if stated.get("architectures"):
        said = ", ".join(f"`{name}`" for name in stated["architectures"])
        advice = f"name the family of {said}, as `--set model_type=llama`"
        return ImportRefused(f"`{path}` has no `model_type`", advice)
    known = next((said for key, said in ELSEWHERE.items() if key in stated), None)
    found = found if known is None else f"{found}, but {known}"
    return ImportRefused(f"`{path}` has no `model_type`: {found}", "name a `config.json` of transformers")


def _quantized(stated: Mapping[str, Any]) -> list[str]:
    """What is to be said where the weights of a model are published in fewer bits."""
    given = stated.get("quantization_config")
    if not isinstance(given, dict):
        return []
    said = cast("dict[str, Any]", given)
    method = str(said.get("quant_method") or "an unnamed method")
    bits = f" in {said['bits']} bits" if isinstance(said.get("bits"), int) else ""
    return [f"weights are published quantised{bits} (`{method}`): the program has them, and computes, in `--dtype`"]


def _configured(transformers: Any, source: str, shape: Shape) -> tuple[Any, list[str]]:
    """The configuration, with what is to be changed in it, and what is to be said of it. Raises ImportRefused."""
    path = os.path.join(source, "config.json") if os.path.isdir(source) else source
    families: Any = _package("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    if os.path.exists(path):
        stated = _read(path)
        kind = shape.settings.get("model_type", stated.get("model_type", ""))
        if not kind or not isinstance(kind, str):
            raise _no_configuration(path, stated)
    else:
        stated, kind = {}, source
    remarks: list[str] = _quantized(stated)
    if kind not in families:
        if source.endswith(".json") and not stated:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), source)
        known = _of_architecture(transformers, stated)
        if known is None:
            raise _unknown_family(transformers, source, kind, stated, sorted(families))
        named, family = known
        remarks.append(f"`{kind}` is no family that transformers knows: its `{named}` is read as one of `{family}`")
        kind = family
    if isinstance(inner := stated.get("text_config"), dict):
        inner = cast("dict[str, Any]", inner)
        known = _of_architecture(transformers, inner)
        if "model_type" in inner and inner["model_type"] not in families and known is not None:
            stated["text_config"] = {**inner, "model_type": known[1]}
    settings = {name: value for name, value in shape.settings.items() if name != "model_type"}
    if isinstance(named := settings.get("architectures"), str):
        settings["architectures"] = [named]
    stated = _changed(dict(stated), _default(families[kind]), replace(shape, settings=settings))
    stated.pop("model_type", None)
    _must_be_finite(stated)
    try:
        config = families[kind].from_dict(stated)
    except Exception as error:  # each family checks its settings in its own way
        raise ImportRefused(f"transformers takes no such configuration: {_reason(error)}") from error
    config.use_cache = False
    text = _text_of(config)
    _must_have_effect(stated, config, text)
    # What these mean without a value is the same in all families, though not each of them fills it in.
    if _lacks(text, "num_key_value_heads"):
        text.num_key_value_heads = text.num_attention_heads
    if _lacks(text, "head_dim"):
        text.head_dim = text.hidden_size // text.num_attention_heads
    return config, remarks


def _must_be_finite(stated: Mapping[str, Any]) -> None:
    """Raises ImportRefused for more layers than are made."""
    tables = [stated, *(cast("dict[str, Any]", value) for value in stated.values() if isinstance(value, dict))]
    for table in tables:
        for name in DEPTHS:
            if isinstance(layers := table.get(name), int) and layers > limits.LAYERS:
                raise ImportRefused(f"`{name}` is {layers:,}: expected at most {limits.LAYERS:,}")


def _must_have_effect(stated: Mapping[str, Any], config: Any, text: Any) -> None:
    """Raises ImportRefused for sizes that the model of text has another value of than the configuration states."""
    if text is config:
        return
    known = {*type(config)().to_dict(), *config.attribute_map}
    lost = [name for name in (*DEPTHS, *WIDTHS) if name in stated and name not in known and hasattr(text, name)]
    lost = [name for name in lost if getattr(text, name) != stated[name]]
    if lost:
        listed = ", ".join(f"`{name}`" for name in lost)
        message = f"{listed} has no effect beside `text_config`, where `{type(config).__name__}` reads it"
        raise ImportRefused(message, "state the sizes in `text_config`")


def _text_of(config: Any) -> Any:
    """What a configuration says of its model of text; the configuration itself where it is one, or has several."""
    try:
        return config.get_text_config()
    except (AttributeError, ValueError):
        return config


def _lacks(config: Any, name: str) -> bool:
    """Whether a configuration has a setting, but no value for it; what each layer has of its own is a value."""
    try:
        return getattr(config, name, 0) is None
    except RuntimeError:
        return False


def _of_architecture(transformers: Any, stated: Mapping[str, Any]) -> tuple[str, str] | None:
    """The class of the model that a configuration names, where transformers knows it, and its family."""
    for name in cast("list[Any]", stated.get("architectures") or []):
        known = getattr(getattr(transformers, str(name), None), "config_class", None)
        if known is not None:
            return str(name), known.model_type
    return None


def _unknown_family(
    transformers: Any, source: str, kind: str, stated: Mapping[str, Any], families: list[str]
) -> ImportRefused:
    if not stated:
        likely = nearest(kind, families)
        hint = f"did you mean `{likely}`?" if likely else "give a config.json, or a family as `llama`"
        if "/" in source:
            hint = "nothing is fetched: download its config.json, and give that"
        return ImportRefused(f"`{source}` is no family that transformers knows", hint)
    names = ", ".join(f"`{name}`" for name in cast("list[Any]", stated.get("architectures") or []))
    what = f"transformers {transformers.__version__} has no model of the family `{kind}`{names and f': {names}'}"
    spelt = [family for family in families if _letters(family) == _letters(kind)]
    near = f"; if it is one of `{spelt[0]}`, `--set model_type={spelt[0]}`" if spelt else ""
    own = "its code comes with its weights" if stated.get("auto_map") else "another version of transformers may"
    return ImportRefused(what, f"{own}: {OWN_CODE}{near}")


OWN_CODE = "write a function that gives the model and its inputs, for `distir import torch`"
"""What to do where transformers has no code of a model."""


def _letters(family: str) -> str:
    """A name without what separates its parts."""
    return "".join(filter(str.isalnum, family.lower()))


def _to_state(config: Any) -> str | None:
    """What may help where a model needs a number that its configuration leaves open: those that it leaves open."""
    text = _text_of(config)
    kinds: dict[str, Any] = {}
    for family in reversed(type(text).__mro__):
        kinds |= vars(family).get("__annotations__", {})
    numbers = (name for name, kind in kinds.items() if "int" in str(kind) and not name.endswith("token_id"))
    unset = sorted(name for name in numbers if _lacks(text, name))
    listed = ", ".join(f"`{name}`" for name in unset)
    return f"state what the model needs of {listed}, which have no value, as `--set {unset[0]}=2`" if unset else None


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
    depths = [name for name in DEPTHS if hasattr(default, name) and (name in known or _follows(default, name))]
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
    for name, value in {**_unadapted(default, depths, shape.layers), **stated}.items():
        each = isinstance(value, list) or (isinstance(value, str) and "pattern" in name)
        said = cast("list[Any] | str", value) if each else []
        if said and len(said) == before:  # one for each layer
            stated[name] = (said * -(-shape.layers // len(said)))[: shape.layers]
        if name.startswith("per_layer") and isinstance(value, Mapping):  # of some layers, by number
            of_layers = cast("Mapping[Any, Any]", value)
            stated[name] = {number: own for number, own in of_layers.items() if int(number) < shape.layers}
    return stated


def _unadapted(default: Any, depths: list[str], layers: int) -> dict[str, Any]:
    """A family's own settings, less the lists that it makes for as many layers as there are."""
    family = cast("Any", type(default))
    settings: dict[str, Any] = default.to_dict()
    try:
        made = family.from_dict(dict.fromkeys(depths, layers))
    except Exception:  # each family checks its settings in its own way
        return settings
    own = cast("dict[str, Any]", vars(made))
    lists = {name: cast("list[Any]", value) for name, value in own.items() if isinstance(value, list)}
    return {name: value for name, value in settings.items() if len(lists.get(name, ())) != layers}


def _follows(config: Any, name: str) -> bool:
    """Whether a setting follows from others, as the number of layers from a list of their kinds."""
    family = cast("Any", type(config))
    return isinstance(getattr(family, name, None), property)


def _read(path: str) -> dict[str, Any]:
    try:
        found = json.loads(read_text(path, CONFIGURATION))
    except ValueError as error:
        raise ImportRefused(f"`{path}` is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ImportRefused(f"`{path}` is no configuration: expected an object")
    return cast("dict[str, Any]", found)


def _maker(transformers: Any, config: Any) -> Any:
    """What makes the model: the class that the configuration names; where it names none, the family's for a task.

    Raises ImportRefused where there is none.
    """
    named = [str(name) for name in config.architectures or ()]
    for name in named:
        if hasattr(transformers, name):
            return getattr(transformers, name)._from_config
    one = _for_task(transformers, config)
    if one is None:
        raise ImportRefused(f"transformers has no model for `{type(config).__name__}`")
    if named and one.__name__.lower() not in map(str.lower, named):
        what = f"transformers {transformers.__version__} has no `{named[0]}`, which `architectures` names"
        other = f"`--set architectures={one.__name__}` imports the class of its family, without what sets that apart"
        raise ImportRefused(what, f"{other}; {OWN_CODE}")
    return one._from_config


def _for_task(transformers: Any, config: Any) -> Any:
    """The family's class for the first task that it has one for."""
    both, decoder = (getattr(config, f"is_{kind}", False) for kind in ("encoder_decoder", "decoder"))
    first = ("ForSeq2SeqLM", "ForSpeechSeq2Seq") if both else () if decoder else ("ForMaskedLM",)
    for task in dict.fromkeys((*first, *TASKS)):  # encoders, and those with both, are there as decoders too
        auto = getattr(transformers, f"AutoModel{task}")
        if type(config) in auto._model_mapping:
            found: Any = auto._model_mapping[type(config)]
            return cast("tuple[Any, ...]", found)[0] if isinstance(found, tuple) else found
    return None


def _inputs(torch: Any, model: Any, config: Any, shape: Shape) -> tuple[dict[str, Any], list[str]]:
    """Example inputs by name, of a batch of 2, and remarks. Raises ImportRefused for one that is not known."""
    text = _text_of(config)
    names, remarks = _taken(model, config)
    made: dict[str, Any] = {}
    for name in names:
        sizes = _sizes(name, config, shape)
        if sizes is None:
            raise _unknown_inputs(model, [name])
        dtype = torch.int64 if name.endswith("input_ids") else model.dtype
        made[name] = torch.zeros(2, *sizes, dtype=dtype)
    if shape.mask:
        made["attention_mask"] = torch.ones(2, shape.sequence, dtype=torch.int64)
        made["attention_mask"][-1, -1] = 0
    if shape.labels:
        made["labels"] = torch.arange(2 * shape.sequence).reshape(2, shape.sequence) % 3
    needed = [p.name for p in signature(model.forward).parameters.values() if p.default is p.empty and p.kind in NAMED]
    missing = [name for name in needed if name not in made]
    if missing:
        raise _unknown_inputs(model, missing)
    limit = getattr(text, "max_position_embeddings", None)
    if "input_ids" in made and isinstance(limit, int) and shape.sequence > limit > 0:
        raise ImportRefused(f"the model has {limit} positions, {shape.sequence} tokens are asked for")
    return made, remarks


def _unknown_inputs(model: Any, names: list[str]) -> ImportRefused:
    listed = ", ".join(f"`{name}`" for name in names)
    return ImportRefused(
        f"`{type(model).__name__}` takes {listed}, of which no example is known",
        "write a function that gives the model and its inputs, for `distir import torch`",
    )


def _taken(model: Any, config: Any) -> tuple[list[str], list[str]]:
    """The inputs that a model cannot do without, and what is to be said of the others."""
    main: Any = model.main_input_name
    names = [main] if isinstance(main, str) else [*main]
    remarks: list[str] = []
    if _setting(config, "vision_config") is not None and "input_ids" in names:
        if _embeds_images(config):
            remarks.append(f"`{type(model).__name__}` is imported without images, which it embeds among its tokens")
        else:
            names.append("pixel_values")
    elif _setting(config, "vision_config") is not None and "input_ids" in signature(model.forward).parameters:
        names.append("input_ids")
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in signature(model.forward).parameters:
        names.append("decoder_input_ids")
    return list(dict.fromkeys(names)), remarks


def _sizes(name: str, config: Any, shape: Shape) -> tuple[int, ...] | None:
    """The sizes of an input of a model behind its batch; None where they are not known."""
    sound = _setting(config, "audio_config") or _setting(config, "encoder_config") or config
    vision = _setting(config, "vision_config") or config
    if name in ("input_ids", "decoder_input_ids"):
        return (shape.sequence,)
    if name in ("pixel_values", "pixel_values_videos"):
        size: Any = _setting(vision, "image_size", "img_size", "input_size") or IMAGE
        if isinstance(size, Mapping):
            stated = cast("Mapping[str, int]", size)
            size = (stated.get("height", IMAGE), stated.get("width", IMAGE))
        sides: tuple[int, ...] = (int(size), int(size)) if isinstance(size, (int, float)) else tuple(size)
        frames = (_setting(vision, "num_frames", "frames_per_clip") or FRAMES,) if name.endswith("videos") else ()
        channels: Any = _setting(vision, "num_channels", "in_channels", "in_chans", "num_input_channels")
        return (*frames, channels if isinstance(channels, int) else 3, *sides)
    bins = _setting(sound, "num_mel_bins", "input_feat_per_channel", "feature_size", "mel_bins", "n_mels", "input_dim")
    if name == "input_features" and bins is not None:
        places = _setting(sound, "max_source_positions")
        if places is not None and _setting(sound, "num_mel_bins") is not None and not _setting(sound, "conv_channels"):
            return (bins, 2 * places)
        return (4 * shape.sequence, bins)
    if name == "input_values" and bins is not None and _setting(config, "max_length") is not None:
        return (_setting(config, "max_length"), bins)
    if name == "input_values":
        channels = _setting(config, "audio_channels")
        codec = channels is not None or _setting(config, "hop_length", "upsampling_ratios") is not None
        return (channels or 1, SAMPLES) if codec else (SAMPLES,)
    if name == "past_values" and _setting(config, "context_length") is not None:
        return (_setting(config, "context_length"), _setting(config, "num_input_channels") or 1)
    return None


def _setting(config: Any, *names: str) -> Any:
    """The first of these settings that a configuration has."""
    found = (getattr(config, name, None) for name in names)
    return next((value for value in found if value is not None), None)


def _reason(error: BaseException) -> str:
    """The last thing that an error says: what it begins with is who says it."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)


def _package(name: str) -> Any:
    return importlib.import_module(name)
