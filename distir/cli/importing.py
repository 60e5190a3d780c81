"""`distir import`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import output
from distir.cli.endings import Refused
from distir.cli.files import SUFFIX, replace_file, replacing
from distir.files.reading import advice, why_not

if TYPE_CHECKING:
    from distir.importers import Imported


def import_(
    kind: Annotated[str, typer.Argument(metavar="onnx|torch", help="Where the model comes from.")],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="An ONNX file, or a Python module:function.")],
    out: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="OUT.dir", help="Write the program here, and its weights beside it."),
    ] = None,
    no_weights: Annotated[bool, typer.Option("--no-weights", help="Keep the types of the weights only.")] = False,
    batch: Annotated[
        list[str] | None,
        typer.Option(metavar="INPUT=AXIS", help="Where an input carries the batch; a fixed size is freed."),
    ] = None,
    bind: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SIZE", help="The size of a named dimension of the model.")
    ] = None,
    no_outline: Annotated[bool, typer.Option("--no-outline", help="Leave repeated blocks as they are.")] = False,
    training: Annotated[bool, typer.Option("--training", help="torch: the loss and the gradients.")] = False,
) -> int:
    """Make a program of a model in ONNX or PyTorch.

    Weights become {param} parameters. Their data is written beside the program, as OUT.safetensors, and is read when
    the program is run. Without --output the program goes to standard output, without weights.

    A PyTorch model is named by a function of a module that can be imported from here; it is called, and gives the
    nn.Module and a tuple of example inputs. With --no-weights no memory is taken for its tensors.

    For instance:

        distir import onnx gpt2.onnx -o gpt2.dir

        distir run gpt2.dir --inputs gpt2.safetensors --input input_ids=ids.npy

        distir import onnx model.onnx --batch x=0 --no-weights

        distir import torch my_models:small_gpt2 -o gpt2.dir
    """
    if kind not in ("onnx", "torch"):
        raise Refused(f"there is no importer for `{kind}`", "`distir import onnx FILE` or `distir import torch m:f`")
    weights = out is not None and not no_weights
    with output.progress(f"importing {source}"):
        imported = _imported(
            kind, source, weights, _numbers("batch", batch), _numbers("bind", bind), no_outline, training
        )
        _write(imported, out, weights, os.path.basename(source) if kind == "onnx" else source)
    for note in imported.notes:
        output.complain("warning", note)
    return 0


def _imported(
    kind: str,
    source: str,
    weights: bool,
    batch: dict[str, int],
    bind: dict[str, int],
    no_outline: bool,
    training: bool,
) -> Imported:
    from distir import importers

    try:
        if kind == "onnx":
            if training:
                raise Refused("`--training` is for PyTorch models", "export the training step to ONNX instead")
            return importers.import_onnx(source, weights, batch=batch, bind=bind, outline=not no_outline)
        if bind:
            raise Refused("`--bind` is for ONNX models", "give the sizes in the example inputs")
        return importers.import_torch_function(
            source, weights, training=training, batch=batch, outline=not no_outline, folder=os.getcwd()
        )
    except importers.ImportRefused as refused:
        raise Refused(refused.message, refused.help) from None
    except IsADirectoryError:
        raise Refused(f"expected a file, found the folder `{source}`") from None
    except OSError as error:
        raise Refused(f"cannot read `{source}`: {why_not(error)}", advice(error)) from None
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("onnx", "torch", "onnxscript"):
            raise
        raise Refused(f"`distir import {kind}` needs `{missing}`", f"install `distir[{kind}]`") from None


def _numbers(flag: str, given: list[str] | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in given or ():
        name, equals, number = text.rpartition("=")
        try:
            found[name] = int(number)
        except ValueError:
            equals = ""
        if not (equals and name):
            raise Refused(f"`--{flag} {text}`: expected a name and a number", f"write for example `--{flag} x=0`")
    return found


def _write(imported: Imported, out: str | None, weights: bool, origin: str) -> None:
    """The program, and its weights beside it: these first, so that no program stands there without them."""
    from distir.importers import ImportRefused, weights_file
    from distir.syntax import print_module

    text = print_module(imported)
    if out is None:
        output.write(text)
        return
    head = f"// Imported from {_one_line(origin)}."
    if weights and imported.weights:
        beside = (out.removesuffix(SUFFIX) if out.endswith(SUFFIX) else out) + ".safetensors"
        name = os.path.basename(beside)
        if not weights_file.is_ours(beside):
            raise Refused(
                f"`{beside}` is there already, and was not written by DistIR", "choose another name with `-o`"
            )
        try:
            with replacing(beside) as temporary, open(temporary, "wb") as file:
                weights_file.write(file, imported.weights.entries)
        except ImportRefused as refused:
            raise Refused(refused.message, refused.help) from None
        head += f" Its weights are in {_one_line(name)}: give them to `distir run` with `--inputs`."
    replace_file(out, f"{head}\n\n{text}".encode())
    _tell(out, imported)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _tell(out: str, imported: Any) -> None:
    blocks = ", ".join(f"@{function.name}" for function in imported)
    output.tell_terminal(f"wrote {out}: {blocks}")
