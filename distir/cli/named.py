"""Models by name, with the options that override their sizes: what commands that take a model's name share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

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


Layers = Annotated[int | None, size("The number of layers.", default="as published; mlp 2, gpt2 12")]
Width = Annotated[int | None, size("The hidden dimension.", default="as published; mlp 512, gpt2 768")]
Heads = Annotated[int | None, size("Attention heads.", default="as published; gpt2 12")]
KvHeads = Annotated[int | None, size("Heads of keys and values, shared by the others (GQA).")]
HeadSize = Annotated[int | None, size("The size of a head.", default="as published, or width / heads")]
Ffn = Annotated[int | None, size("The inner width of the MLP.")]
Vocabulary = Annotated[int | None, size("The vocabulary size.", default="as published; gpt2 50257")]
Window = Annotated[int | None, size("The sliding window of attention, in tokens.")]
Experts = Annotated[int | None, size("Experts of a layer.")]
TopK = Annotated[int | None, size("Experts for each token.")]
ExpertFfn = Annotated[int | None, size("The inner width of an expert.")]
SharedExperts = Annotated[int | None, size("Experts for all tokens.")]
DenseLayers = Annotated[int | None, size("How many of the first layers have no experts.")]
Image = Annotated[int | None, size("Pixels of an image's side.", default="224")]
Patch = Annotated[int | None, size("Pixels of a patch's side.")]
Classes = Annotated[int | None, size("Classes of images.", default="1000")]
Sequence = Annotated[
    int | None,
    size("The sequence length in tokens.", "--sequence", "--seq", default="the published context; gpt2 8"),
]
Phase = Annotated[
    str | None,
    typer.Option(metavar="PHASE", help="Serving: `prefill` of prompts, or `decode`, a token of each sequence."),
]
Context = Annotated[int | None, size("Tokens that the caches have place for.", default="the published context")]
ElementType = Annotated[
    str | None,
    typer.Option(
        metavar="DTYPE",
        help="Element type. [default: BFloat16; mlp, gpt2 and the paper's Float16]",
        show_default=False,
    ),
]


def sizes(given: dict[str, Any]) -> dict[str, int]:
    """Of a command's parameters, the sizes of a model that were given."""
    from distir.models import SIZES

    return {name: given[name] for name in (*SIZES, "sequence") if given[name] is not None}


def made(
    name: str,
    given: dict[str, int],
    batch: int | None,
    dtype: str | None,
    training: bool,
    serving: dict[str, Any],
) -> Module:
    """The program of a model. Raises Refused for an unknown name, with the nearest, and for sizes that it lacks."""
    from distir.models import ModelError

    try:
        return _made(name, dict(given), batch, dtype, training, serving)
    except ModelError as error:
        message, _, hint = _as_options(str(error)).partition("; ")
        raise Refused(message, hint or None) from None


def _made(
    name: str,
    given: dict[str, int],
    batch: int | None,
    dtype: str | None,
    training: bool,
    serving: dict[str, Any],
) -> Module:
    from distir import models

    trained = ["training"] if training else []
    if name not in models.PUBLISHED:
        trained += [option for option, value in serving.items() if value is not None]
    if name == "mlp":
        _refuse(name, [*given, *trained], [*DEFAULTS[name], "training"])
        sizes = DEFAULTS[name] | given
        return models.mlp(sizes["layers"], sizes["width"], batch, dtype or "Float16", training=training)
    if name == "gpt2":
        _refuse(name, [*given, *trained], DEFAULTS[name])
        sizes = DEFAULTS[name] | given
        shape = (sizes["layers"], sizes["width"], sizes["heads"], sizes["sequence"])
        return models.gpt2(*shape, batch, sizes["vocabulary"], dtype or "Float16")
    if name in models.NAMED:
        _refuse(name, [*given, *(["dtype"] if dtype else []), *trained], [])
        return models.named(name, batch)
    if name in models.PUBLISHED:
        _refuse(name, [*given, *trained], models.sizes_of(models.PUBLISHED[name]))
        sequence = given.pop("sequence", None)
        return models.named(name, batch, sequence, dtype, serving["phase"], serving["context"], **given)
    from distir.diagnostics.spelling import nearest

    near = nearest(name, [*models.NAMED, *models.PUBLISHED]) or nearest(name, DEFAULTS)
    hint = f"did you mean `{near}`?" if near else "`distir model --list` names the models"
    raise Refused(f"there is no model `{name}`", hint)


def _refuse(name: str, given: Any, known: Any) -> None:
    """Raises Refused for options that the model does not take."""
    wrong = [option for option in given if option not in known]
    if wrong:
        listed = ", ".join(f"`--{option.replace('_', '-')}`" for option in known)
        hint = f"it has {listed}" if known else "its sizes are fixed; published models, `mlp` and `gpt2` have options"
        raise Refused(f"the model `{name}` has no option `--{wrong[0].replace('_', '-')}`", hint)


def _as_options(message: str) -> str:
    """What a ModelError says, with sizes as options are spelled."""
    return re.sub(r"`(\w+_\w+)`", lambda found: f"`{found[1].replace('_', '-')}`", message)
