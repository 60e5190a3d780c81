"""`distir model`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import options, output
from distir.cli.endings import Refused
from distir.cli.files import replace_file

if TYPE_CHECKING:
    from distir.ir import Module

DEFAULTS = {
    "mlp": {"layers": 2, "width": 512},
    "gpt2": {"layers": 12, "width": 768, "heads": 12, "sequence": 8, "vocabulary": 50257},
}
"""Sizes of the models that have no published ones."""


def _size(help: str, *names: str, default: str | None = None) -> Any:
    given = f"{help} [default: {default}]" if default else help
    return typer.Option(*names, metavar="N", help=given, show_default=False)


def model(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="mlp, gpt2, or a published model, such as llama3-70b.")
    ] = None,
    layers: Annotated[int | None, _size("The number of layers.", default="as published; mlp 2, gpt2 12")] = None,
    width: Annotated[int | None, _size("The hidden dimension.", default="as published; mlp 512, gpt2 768")] = None,
    heads: Annotated[int | None, _size("Attention heads.", default="as published; gpt2 12")] = None,
    kv_heads: Annotated[int | None, _size("Heads of keys and values, shared by the others (GQA).")] = None,
    head_size: Annotated[int | None, _size("The size of a head.", default="as published, or width / heads")] = None,
    ffn: Annotated[int | None, _size("The inner width of the MLP.")] = None,
    vocabulary: Annotated[int | None, _size("The vocabulary size.", default="as published; gpt2 50257")] = None,
    window: Annotated[int | None, _size("The sliding window of attention, in tokens.")] = None,
    experts: Annotated[int | None, _size("Experts of a layer.")] = None,
    top_k: Annotated[int | None, _size("Experts for each token.")] = None,
    expert_ffn: Annotated[int | None, _size("The inner width of an expert.")] = None,
    shared_experts: Annotated[int | None, _size("Experts for all tokens.")] = None,
    dense_layers: Annotated[int | None, _size("How many of the first layers have no experts.")] = None,
    image: Annotated[int | None, _size("Pixels of an image's side.", default="224")] = None,
    patch: Annotated[int | None, _size("Pixels of a patch's side.")] = None,
    classes: Annotated[int | None, _size("Classes of images.", default="1000")] = None,
    sequence: Annotated[
        int | None,
        _size("The sequence length in tokens.", "--sequence", "--seq", default="the published context; gpt2 8"),
    ] = None,
    batch: Annotated[
        int | None, _size("The batch size.", "--batch", "--micro-batch", default="the named dimension B")
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option(metavar="PHASE", help="Serving: `prefill` of prompts, or `decode`, a token of each sequence."),
    ] = None,
    context: Annotated[
        int | None, _size("Tokens that the caches have place for.", default="the published context")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="DTYPE",
            help="Element type. [default: BFloat16; mlp, gpt2 and the paper's Float16]",
            show_default=False,
        ),
    ] = None,
    training: Annotated[bool, typer.Option("--training", help="mlp: write a training step.")] = False,
    out: Annotated[
        str | None, typer.Option("--output", "-o", metavar="OUT.dir", help="Write the program here.")
    ] = None,
    list_models: Annotated[
        bool, typer.Option("--list", help="List the models, with parameters and FLOPs per token.")
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Write a published model, or an MLP or GPT-2 of a given size.

    Writes a sequential program, with the types of its weights but no data. Any size of a published model may be
    overridden. The models of the paper are mlp-1b, mlp-17b, mlp-103b (a training step) and gpt2-1.6b, gpt2-13b,
    gpt2-175b (inference on 8 tokens), all in Float16; their sizes are fixed.

    For example:

        distir model --list

        distir model llama3-70b --seq 8192 --micro-batch 1 -o model.dir

        distir model llama3-8b --layers 2 --vocabulary 32000

        distir model llama3-70b --phase decode --context 8192 --batch 16

        distir model mlp --layers 8 --width 4096 --training

        distir model gpt2 --layers 24 --width 1024 --heads 16 --sequence 1024 --batch 4
    """
    if list_models:
        return _list(as_json)
    if name is None:
        raise Refused("expected the name of a model", "`distir model --list` names them")
    if as_json:
        raise Refused("`--json` is for `--list`", "a program is written as text")
    from distir.models import ModelError
    from distir.syntax import print_module

    sizes = {
        "layers": layers,
        "width": width,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_size": head_size,
        "ffn": ffn,
        "vocabulary": vocabulary,
        "window": window,
        "experts": experts,
        "top_k": top_k,
        "expert_ffn": expert_ffn,
        "shared_experts": shared_experts,
        "dense_layers": dense_layers,
        "image": image,
        "patch": patch,
        "classes": classes,
        "sequence": sequence,
    }
    given = {key: size for key, size in sizes.items() if size is not None}
    serving = {"phase": phase, "context": context}
    try:
        text = print_module(_made(name, given, batch, dtype, training, serving))
    except ModelError as error:
        message, _, hint = _as_options(str(error)).partition("; ")
        raise Refused(message, hint or None) from None
    if out is None:
        output.write(text)
    else:
        replace_file(out, text.encode())
        output.tell_terminal(f"wrote {out}")
    return 0


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

    near = nearest(name, ["mlp", "gpt2", *models.NAMED, *models.PUBLISHED])
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


def _list(as_json: bool) -> int:
    from distir.models import NAMED, PUBLISHED
    from distir.models.figures import figures

    found = [figures(name) for name in (*PUBLISHED, *NAMED)]
    if as_json:
        output.write_json(
            [
                {
                    "name": f.name,
                    "parameters": f.parameters,
                    "active_parameters": f.active,
                    "flops_per_token": f.flops_per_token,
                    "attention_share": f.attention_share,
                    "tokens": f.tokens,
                }
                for f in found
            ]
        )
        return 0
    from rich.text import Text

    columns = ("model", "parameters", "active", "FLOPs per token", "of which attention", "sequence")
    listed = output.table(*columns, right="12345")
    for f in found:
        share = "" if f.attention_share is None else f"{100 * f.attention_share:.1f} %"
        active = f"{f.active:,}" if f.active < f.parameters else ""
        listed.add_row(f.name, f"{f.parameters:,}", active, _giga(f.flops_per_token), share, str(f.tokens))
    note = "FLOPs are those of all ops of the forward pass over a sequence of that length, attention included;"
    output.lay_out(listed, "", Text(f"{note} a training step has about three times as many."))
    return 0


def _giga(flops: float) -> str:
    giga = flops / 1e9
    return f"{giga:,.{max(0, 2 - math.floor(math.log10(giga)))}f} G"
