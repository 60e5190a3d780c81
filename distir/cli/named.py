"""Models by name, with the options that override their sizes: what commands that take a model's name share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from distir.cli import output
from distir.cli.arguments import taking
from distir.cli.endings import Refused

if TYPE_CHECKING:
    from distir.ir import Module

DEFAULTS = {
    "mlp": {"layers": 2, "width": 512},
    "gpt2": {"layers": 12, "width": 768, "heads": 12, "sequence": 8, "vocabulary": 50257},
}
"""Sizes of the models that have no published ones."""


def size(help: str, *names: str, default: str | None = None) -> Any:
    """An option that is a size of a model."""
    given = f"{help} [default: {default}]" if default else help
    return typer.Option(*names, metavar="N", help=given, show_default=False)


OPTIONS: Final[dict[str, Any]] = {
    "layers": Annotated[int | None, size("The number of layers.", default="as published; mlp 2, gpt2 12")],
    "width": Annotated[int | None, size("The hidden dimension.", default="as published; mlp 512, gpt2 768")],
    "heads": Annotated[int | None, size("Attention heads.", default="as published; gpt2 12")],
    "kv_heads": Annotated[int | None, size("Heads of keys and values, shared by the others (GQA).")],
    "head_size": Annotated[int | None, size("The size of a head.", default="as published, or width / heads")],
    "ffn": Annotated[int | None, size("The inner width of the MLP.")],
    "vocabulary": Annotated[int | None, size("The vocabulary size.", default="as published; gpt2 50257")],
    "window": Annotated[int | None, size("The sliding window of attention, in tokens.")],
    "experts": Annotated[int | None, size("Experts of a layer.")],
    "top_k": Annotated[int | None, size("Experts for each token.")],
    "expert_ffn": Annotated[int | None, size("The inner width of an expert.")],
    "shared_experts": Annotated[int | None, size("Experts for all tokens.")],
    "dense_layers": Annotated[int | None, size("How many of the first layers have no experts.")],
    "image": Annotated[int | None, size("Pixels of an image's side.", default="224")],
    "patch": Annotated[int | None, size("Pixels of a patch's side.")],
    "classes": Annotated[int | None, size("Classes of images.", default="1000")],
    "sequence": Annotated[
        int | None,
        size("The sequence length in tokens.", "--sequence", "--seq", default="the published context; gpt2 8"),
    ],
    "phase": Annotated[
        str | None,
        typer.Option(metavar="PHASE", help="Serving: `prefill` of prompts, or `decode`, a token of each sequence."),
    ],
    "context": Annotated[int | None, size("Tokens that the caches have place for.", default="the published context")],
    "dtype": Annotated[
        str | None,
        typer.Option(
            metavar="DTYPE",
            help="Element type. [default: BFloat16; mlp, gpt2 and the paper's Float16]",
            show_default=False,
        ),
    ],
    "dropout": Annotated[
        float | None,
        typer.Option(metavar="R", help="The share that is dropped in training, from the parameter %seed."),
    ],
    "capacity_factor": Annotated[
        float | None,
        typer.Option(
            metavar="R", help="An expert takes so many times an even share of a sequence's choices. [default: all]"
        ),
    ],
}
"""The options of commands that take a model's name, in their order, by the names of parameters."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The values given for `OPTIONS`."""

    sizes: Mapping[str, int]
    dtype: str | None
    phase: str | None
    context: int | None
    dropout: float | None
    capacity_factor: float | None

    @property
    def given(self) -> dict[str, int | float | str]:
        """All of them, by name."""
        others = ((name, getattr(self, name)) for name in OTHERS)
        return {**self.sizes, **{name: value for name, value in others if value is not None}}


def _given(values: dict[str, Any]) -> ModelOptions:
    sizes = {name: value for name, value in values.items() if value is not None and name not in OTHERS}
    return ModelOptions(sizes, **{name: values[name] for name in OTHERS})


takes_model_options = taking("of", OPTIONS, _given)
"""A command with all of `OPTIONS` in the place of its parameter `of`, which gets what was given of them."""

OTHERS: Final = ("dtype", "phase", "context", "dropout", "capacity_factor")
"""Those of `OPTIONS` that are no sizes of a model."""


def made(name: str, of: ModelOptions, batch: int | None, training: bool = False) -> Module:
    """The program of a model. Raises Refused for an unknown name, with the nearest, and for sizes that it lacks."""
    from distir.models import ModelError

    try:
        return _program(published(name), of, batch, training)
    except ModelError as error:
        message, _, hint = _as_options(str(error)).partition("; ")
        raise Refused(message, hint or None) from None


def published(name: str) -> str:
    """The name under which a model is published here; that of its repository is taken, and the user reads as what."""
    from distir.models import published_as

    if (found := published_as(name)) != name:
        output.tell(f"`{name}` is taken as `{found}`")
    return found


def _program(name: str, of: ModelOptions, batch: int | None, training: bool) -> Module:
    from distir import models

    given, trained = dict(of.sizes), ["training"] if training else []
    if name not in models.PUBLISHED:
        trained += [option for option in OTHERS[1:] if option in of.given]
    if name == "mlp":
        _refuse(name, [*given, *trained], [*DEFAULTS[name], "training"])
        sizes = DEFAULTS[name] | given
        return models.mlp(sizes["layers"], sizes["width"], batch, of.dtype or "Float16", training=training)
    if name == "gpt2":
        _refuse(name, [*given, *trained], [*DEFAULTS[name], "dropout"])
        sizes = DEFAULTS[name] | given
        shape = (sizes["layers"], sizes["width"], sizes["heads"], sizes["sequence"])
        return models.gpt2(*shape, batch, sizes["vocabulary"], of.dtype or "Float16", dropout=of.dropout or 0.0)
    if name in models.NAMED:
        _refuse(name, [*given, *(["dtype"] if of.dtype else []), *trained], [])
        return models.named(name, batch)
    if name in models.PUBLISHED:
        _refuse(name, [*given, *trained], models.sizes_of(models.PUBLISHED[name]))
        sequence = given.pop("sequence", None)
        options = (of.dtype, of.phase, of.context, of.dropout or 0.0, of.capacity_factor)
        return models.named(name, batch, sequence, *options, **given)
    from distir.diagnostics.spelling import nearest

    near = nearest(name, [*models.NAMED, *models.PUBLISHED]) or nearest(name, DEFAULTS)
    hint = f"did you mean `{near}`?" if near else "`distir model --list` names the models;"
    raise Refused(f"there is no model `{name}`", f"{hint} `distir import hf config.json` imports any other")


def _refuse(name: str, given: Any, known: Any) -> None:
    """Raises Refused for options that the model does not take."""
    wrong = [option for option in given if option not in known]
    if wrong:
        listed = ", ".join(f"`--{option.replace('_', '-')}`" for option in known)
        hint = f"it has {listed}" if known else "its sizes are fixed; published models, `mlp` and `gpt2` have options"
        raise Refused(f"the model `{name}` has no option `--{wrong[0].replace('_', '-')}`", hint)


def _as_options(message: str) -> str:
    """A ModelError's message, with sizes spelled as options."""
    return re.sub(r"`(\w+_\w+)`", lambda found: f"`{found[1].replace('_', '-')}`", message)
