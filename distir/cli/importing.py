"""`distir import`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import configurations, options, output
from distir.cli.endings import Refused
from distir.cli.files import SUFFIX, replace_file, replacing
from distir.diagnostics.spelling import nearest
from distir.files.reading import advice, why_not

if TYPE_CHECKING:
    from distir.importers import Imported

MODELS = ("onnx", "torch", "hf", "stablehlo")
"""Formats of models."""


def import_(
    kind: Annotated[str, typer.Argument(metavar="FORMAT", help="onnx, torch, hf, stablehlo, trace, or a framework's.")],
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A file; of torch a Python module:function; of hf a config or a family."),
    ],
    out: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="OUT.dir", help="Write the program here, and its weights beside it."),
    ] = None,
    no_weights: Annotated[
        bool, typer.Option("--no-weights", help="Import only the types of weights, not their data.")
    ] = False,
    batch: Annotated[
        list[str] | None,
        typer.Option(metavar="INPUT=AXIS", help="The batch dimension of an input; its size becomes symbolic."),
    ] = None,
    bind: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SIZE", help="The size of a named dimension of the model.")
    ] = None,
    no_outline: Annotated[
        bool, typer.Option("--no-outline", help="Do not outline repeated blocks as functions.")
    ] = False,
    training: Annotated[
        bool, typer.Option("--training", help="torch: also import the loss and the gradients.")
    ] = False,
    dropout: Annotated[bool, typer.Option("--dropout", help="torch: keep dropout, from the parameter %seed.")] = False,
    layers: Annotated[int | None, typer.Option(metavar="N", min=1, help="hf: the number of layers.")] = None,
    sequence: Annotated[
        int | None,
        typer.Option("--seq", metavar="TOKENS", min=1, help="hf, frameworks: the tokens of a sequence. [default: 128]"),
    ] = None,
    dtype: Annotated[
        str, typer.Option(metavar="TYPE", help="hf: the element type of weights, such as bfloat16.")
    ] = "float32",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="hf, nemo, megatron-bridge: override a setting. megatron, trainer: a variable of the script; 1 is "
            "$1, @ all arguments. torchtitan-python: the function, config=llama3_8b.",
        ),
    ] = None,
    mask: Annotated[bool, typer.Option("--mask", help="hf: add a padding mask as an input.")] = False,
    labels: Annotated[bool, typer.Option("--labels", help="hf: add labels as an input, and return the loss.")] = False,
    no_compare: Annotated[
        bool, typer.Option("--no-compare", help="torch, hf: do not compare the program with PyTorch.")
    ] = False,
    hardware: options.HardwareName = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="frameworks: how many GPUs, if the job does not say.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="frameworks: the model, if the job does not say.")
    ] = None,
    micro_batch: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="frameworks: sequences of a replica's micro batch, if the job does not say (auto)."
        ),
    ] = None,
    global_batch: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="frameworks: sequences of a whole step, if the job does not say (auto)."),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="FILE",
            help="trainer, accelerate: the configuration of accelerate (YAML) or DeepSpeed (JSON) that it runs with."
            " torchtitan: the Python file that defines its flavors.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="frameworks: refuse a job of which anything is not simulated, or assumed.")
    ] = False,
    params: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="stablehlo: arguments that are weights, such as 'state.params.*'."),
    ] = None,
    one_device: Annotated[
        bool, typer.Option("--one-device", help="stablehlo: leave annotations of shardings out.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="stablehlo: compare the distributed program with that on one device.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="trace: write one JSON document instead of text.")] = False,
) -> int:
    """Import a model, the job of a training framework, or a profile.

    Weights become {param} parameters. Their data is written beside the program, as OUT.safetensors; give it to run with
    --inputs. Without --output the program goes to standard output, without weights.

    For a PyTorch model, name a function in an importable module that returns the nn.Module and a tuple of example
    inputs; it is called. --no-weights allocates no memory for the model's tensors.

    For a model of transformers (hf), name its config.json, or its family (llama) for the default configuration; its
    weights are random, or missing with --no-weights. Nothing is downloaded.

    For a job of torchtitan (TOML), megatron (a script or its arguments), megatron-bridge or nemo (YAML), deepspeed
    (JSON), accelerate (YAML), trainer (a script on Hugging Face's Trainer, or its arguments as YAML or JSON) or fsdp2
    (as `distir export` writes it), one line says whether it fits on --hardware, and how fast it is; what is not
    simulated follows. What the file does not say is given beside it: --model, --seq, --gpus, --micro-batch,
    --global-batch; --with adds what distributes a training loop, or the sizes of a fork's model. --output writes its
    program.

    A trace is a file that torch.profiler has written (.json, .json.gz), or a folder with one for each rank. Shows the
    time of steps, what is busy and idle, communication, and the longest ops; with --output OUT.csv, writes each op.
    `distir compare` puts it beside a simulated program.

    For example:

        distir import torchtitan job.toml --hardware dgx-h100 --gpus 64

        distir import accelerate fsdp.yaml --model llama3-8b --seq 4096 --gpus 8 --micro-batch 1

        distir import trainer sft.yaml --with fsdp.yaml --gpus 8

        distir import onnx gpt2.onnx -o gpt2.dir

        distir run gpt2.dir --inputs gpt2.safetensors --input input_ids=ids.npy

        distir import onnx model.onnx --batch x=0 --no-weights

        distir import torch my_models:small_gpt2 -o gpt2.dir

        distir import hf config.json --layers 4 --seq 4096 --no-weights

        distir import stablehlo step.mlir --verify -o step.dir

        distir import trace traces/
    """
    of_jax = {"--params": params, "--one-device": one_device, "--verify": verify}
    if kind != "stablehlo" and (unfit := next((flag for flag, given in of_jax.items() if given), None)):
        raise Refused(f"`{unfit}` is for StableHLO", "write `distir import stablehlo FILE.mlir`")
    if kind == "trace":
        from distir.cli.tracing import show_trace

        return show_trace(source, out, as_json)
    if as_json:
        raise Refused("`--json` is for traces", "without `--output`, the program goes to standard output")
    if kind in configurations.NAMES:
        given = {
            "gpus": gpus,
            "model": model,
            "seq": sequence,
            "micro_batch": micro_batch,
            "global_batch": global_batch,
            "beside": beside,
        }
        if beside is not None and kind not in configurations.BESIDE:
            listed = ", ".join(configurations.BESIDE)
            raise Refused(f"`--with` is for {listed}", "of others one file says all, or options do")
        if settings and kind not in ("megatron", "megatron-bridge", "nemo", "trainer", "torchtitan-python"):
            raise Refused("`--set` is for variables of scripts, and for models of transformers", "change the file")
        return configurations.import_job(kind, source, hardware, {**given, "variables": settings or ()}, out, strict)
    if kind not in MODELS:
        near = nearest(kind, (*MODELS, "trace", *configurations.NAMES))
        ways = "`distir import onnx FILE`, `distir import torch m:f` or `distir import torchtitan JOB.toml`"
        raise Refused(f"there is no importer for `{kind}`", f"did you mean `{near}`?" if near else ways)
    of_jobs = {"--hardware": hardware, "--gpus": gpus, "--model": model, "--strict": strict or None}
    of_jobs |= {"--micro-batch": micro_batch, "--global-batch": global_batch, "--with": beside}
    if unfit := next((flag for flag, given in of_jobs.items() if given is not None), None):
        raise Refused(f"`{unfit}` is for jobs of training frameworks", "give the program it to `distir simulate`")
    weights = out is not None and not no_weights
    original = None
    with output.progress(f"importing {source}"):
        if kind == "hf":
            of_torch = {"--batch": batch, "--bind": bind, "--training": training, "--dropout": dropout}
            unfit = next((flag for flag, given in of_torch.items() if given), None)
            if unfit is not None:
                raise Refused(f"`{unfit}` is not for models of transformers", "their batch is `B`; see `--labels`")
            shape = (sequence or 128, layers, _settings(settings), dtype, mask, labels)
            imported = _told(kind, lambda: _of_configuration(source, weights, shape, not no_outline, not no_compare))
        elif kind == "stablehlo":
            other = {
                "--bind": bind,
                "--training": training,
                "--dropout": dropout,
                "--layers": layers,
                "--set": settings,
                "--mask": mask,
                "--labels": labels,
            }
            unfit = next((flag for flag, given in other.items() if given), None)
            if unfit is not None:
                raise Refused(f"`{unfit}` is not for StableHLO", "its sizes and ops are those of the file")
            axes = _numbers("batch", batch)
            imported = _told(kind, lambda: _of_jax(source, params, axes, not no_outline, not one_device))
            if verify:
                original = _told(kind, lambda: _of_jax(source, params, axes, not no_outline, False))
        else:
            sizes = (_numbers("batch", batch), _numbers("bind", bind))
            stated = (no_outline, training, dropout, not no_compare)
            imported = _told(kind, lambda: _imported(kind, source, weights, *sizes, *stated))
        _write(imported, out, weights, os.path.basename(source) if kind in ("onnx", "stablehlo") else source)
    for note in imported.notes:
        output.complain("warning", note)
    if imported.comparison:
        output.tell(imported.comparison)
    return 0 if original is None else _verified(original, imported)


def _verified(original: Imported, imported: Imported) -> int:
    from distir.cli import memory
    from distir.cli.verifying import verified

    entry, most = original.entry(), memory.allowed(None)
    assert entry is not None
    memory.refuse_inputs(entry.params, {}, most)
    with output.progress("running both programs"), memory.within(most):
        return verified(original, imported, 0, {}, most)


def _of_jax(source: str, params: list[str] | None, batch: dict[str, int], outline: bool, distribute: bool) -> Imported:
    from distir.importers import import_stablehlo

    return import_stablehlo(source, params=params or (), batch=batch, outline=outline, distribute=distribute)


def _imported(
    kind: str,
    source: str,
    weights: bool,
    batch: dict[str, int],
    bind: dict[str, int],
    no_outline: bool,
    training: bool,
    dropout: bool,
    compare: bool,
) -> Imported:
    from distir import importers

    if kind == "onnx":
        if training:
            raise Refused("`--training` is for PyTorch models", "export the training step to ONNX instead")
        if dropout:
            raise Refused(
                "`--dropout` is for PyTorch models", "export it in training mode, and apply the step `seeded`"
            )
        return importers.import_onnx(source, weights, batch=batch, bind=bind, outline=not no_outline)
    if bind:
        raise Refused("`--bind` is for ONNX models", "give the sizes in the example inputs")
    return importers.import_torch_function(
        source,
        weights,
        training=training,
        batch=batch,
        outline=not no_outline,
        folder=os.getcwd(),
        dropout=dropout,
        compare=compare,
    )


def _of_configuration(source: str, weights: bool, shape: tuple[Any, ...], outline: bool, compare: bool) -> Imported:
    from distir.importers import import_hf
    from distir.importers.configurations import Shape

    return import_hf(source, weights, Shape(*shape), outline=outline, compare=compare)


def _told(kind: str, make: Callable[[], Imported]) -> Imported:
    """The result of an import; errors become messages."""
    from distir.importers import ImportRefused

    try:
        with output.visible_logs():
            return make()
    except ImportRefused as refused:
        raise Refused(refused.message, refused.help) from None
    except IsADirectoryError as error:
        raise Refused(f"expected a file, found the folder `{error.filename}`") from None
    except OSError as error:
        raise Refused(f"cannot read `{error.filename}`: {why_not(error)}", advice(error)) from None
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("onnx", "torch", "onnxscript", "transformers"):
            raise
        raise Refused(f"`distir import {kind}` needs `{missing}`", f"install `distir[{kind}]`") from None


def _settings(given: list[str] | None) -> dict[str, Any]:
    """Settings of a configuration: JSON, or else text."""
    import json

    found: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (equals and name):
            raise Refused(f"`--set {text}`: expected a name and a value", "write for example `--set hidden_size=4096`")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


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
    """Write the weights, then the program beside them, so that no program exists without its weights."""
    from distir.importers import ImportRefused, weights_file
    from distir.syntax import print_rolled

    text = print_rolled(imported)
    if out is None:
        output.write(text)
        return
    head = f"// Imported from {_one_line(origin)}."
    if weights and imported.weights:
        beside = (out.removesuffix(SUFFIX) if out.endswith(SUFFIX) else out) + ".safetensors"
        name = os.path.basename(beside)
        if not weights_file.is_ours(beside):
            raise Refused(f"`{beside}` already exists, and was not written by DistIR", "choose another name with `-o`")
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
