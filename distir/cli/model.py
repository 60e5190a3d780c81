"""`distir model`."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from distir.cli import named, options, output
from distir.cli.endings import Refused
from distir.cli.files import put


@named.takes_model_options
def model(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="mlp, gpt2, or a published model, such as llama3-70b.")
    ] = None,
    batch: Annotated[
        int | None, named.size("The batch size.", "--batch", "--micro-batch", default="the named dimension B")
    ] = None,
    *,
    of: named.ModelOptions,
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
    from distir.syntax import print_rolled

    text = print_rolled(named.made(name, of, batch, training))
    put(text, out)
    return 0


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
