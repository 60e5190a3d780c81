"""`distir model`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import output
from distir.cli.endings import Refused
from distir.cli.files import replace_file

if TYPE_CHECKING:
    from distir.ir import Module


def model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="mlp, gpt2, or a model of the paper, such as gpt2-175b.")],
    layers: Annotated[
        int | None,
        typer.Option(metavar="N", help="The number of layers. [default: mlp 2, gpt2 12]", show_default=False),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(metavar="N", help="The hidden dimension. [default: mlp 512, gpt2 768]", show_default=False),
    ] = None,
    heads: Annotated[
        int | None, typer.Option(metavar="N", help="gpt2: attention heads. [default: 12]", show_default=False)
    ] = None,
    sequence: Annotated[
        int | None,
        typer.Option(metavar="N", help="gpt2: the sequence length in tokens. [default: 8]", show_default=False),
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(metavar="N", help="gpt2: the vocabulary size. [default: 50257]", show_default=False)
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="The batch size. [default: the named dimension B]")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(metavar="DTYPE", help="Element type. [default: Float16]", show_default=False)
    ] = None,
    training: Annotated[bool, typer.Option("--training", help="mlp: write a training step.")] = False,
    out: Annotated[
        str | None, typer.Option("--output", "-o", metavar="OUT.dir", help="Write the program here.")
    ] = None,
) -> int:
    """Write an MLP or GPT-2 of a given size.

    Writes a sequential program, with the types of its weights but no data. The models of the paper are mlp-1b, mlp-17b,
    mlp-103b (a training step) and gpt2-1.6b, gpt2-13b, gpt2-175b (inference on 8 tokens), all in Float16.

    For example:

        distir model gpt2-175b -o gpt2-175b.dir

        distir model mlp --layers 8 --width 4096 --training

        distir model gpt2 --layers 24 --width 1024 --heads 16 --sequence 1024 --batch 4
    """
    from distir.models import ModelError
    from distir.syntax import print_module

    sizes = {"heads": heads, "sequence": sequence, "vocabulary": vocabulary}
    given = {key: size for key, size in {"layers": layers, "width": width, **sizes}.items() if size is not None}
    try:
        text = print_module(_made(name, given, batch, dtype, training))
    except ModelError as error:
        message, _, hint = str(error).partition("; ")
        raise Refused(message, hint or None) from None
    if out is None:
        output.write(text)
    else:
        replace_file(out, text.encode())
        output.tell_terminal(f"wrote {out}")
    return 0


def _made(name: str, given: dict[str, int], batch: int | None, dtype: str | None, training: bool) -> Module:
    from distir import models

    if name == "mlp":
        _refuse(name, [key for key in given if key not in ("layers", "width")])
        sizes = {"layers": 2, "width": 512} | given
        return models.mlp(sizes["layers"], sizes["width"], batch, dtype or "Float16", training=training)
    if name == "gpt2":
        _refuse(name, ["training"] if training else [])
        sizes = {"layers": 12, "width": 768, "heads": 12, "sequence": 8, "vocabulary": 50257} | given
        shape = (sizes["layers"], sizes["width"], sizes["heads"], sizes["sequence"])
        return models.gpt2(*shape, batch, sizes["vocabulary"], dtype or "Float16")
    if name in models.NAMED:
        _refuse(name, [*given, *(["dtype"] if dtype else []), *(["training"] if training else [])])
        return models.named(name, batch)
    from distir.diagnostics.spelling import nearest

    near = nearest(name, ["mlp", "gpt2", *models.NAMED])
    known = f"the models are mlp, gpt2, {', '.join(models.NAMED)}"
    raise Refused(f"there is no model `{name}`", f"did you mean `{near}`?" if near else known)


def _refuse(name: str, options: list[str]) -> None:
    """Raises Refused for options that the model does not take."""
    if options:
        hint = (
            "its sizes are fixed; `mlp` and `gpt2` have options for sizes"
            if "-" in name
            else f"see `distir model {name} --help`"
        )
        raise Refused(f"the model `{name}` has no option `--{options[0]}`", hint)
