"""`distir launch`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import lowering, memory, options, output
from distir.cli.endings import Refused, judged
from distir.cli.files import replace_file, shown
from distir.cli.programs import folder_of, sound_program

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.ir import Constant, Function
    from distir.lower import Lowered


def launch(
    file: options.File,
    backend: Annotated[str, typer.Option(metavar="gloo|nccl", help="gloo: CPUs; nccl: a GPU per rank.")] = "gloo",
    repeat: Annotated[int, typer.Option(min=1, help="How often it is timed.")] = 1,
    warmup: Annotated[int, typer.Option(min=0, help="How often it runs before that.")] = 1,
    verify: Annotated[bool, typer.Option("--verify", help="Compare with the reference executor.")] = False,
    trace: Annotated[
        str | None, typer.Option(metavar="OUT.json", help="Write what was measured as a Chrome trace, for Perfetto.")
    ] = None,
    input: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE.npy", help="A parameter's value; may be given several times.")
    ] = None,
    inputs: Annotated[
        str | None, typer.Option(metavar="FILE", help="An .npz or .safetensors file with values by parameter.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For the random values of all other parameters.")] = 0,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="The most that all of it may take, as in 90s.")] = "300s",
    compile: Annotated[
        bool, typer.Option("--compile", help="torch.compile for functions that do not communicate.")
    ] = False,
    cuda_graphs: Annotated[
        bool, typer.Option("--cuda-graphs", help="nccl: replay ranks without communication as CUDA graphs.")
    ] = False,
    function: options.FunctionName = None,
    bind: options.Bindings = None,
    as_json: options.AsJson = False,
) -> int:
    """Lower the program and run it here: one process per device.

    Prints the median time of the runs, and for each rank how long it was busy and its peak memory. When a rank fails,
    its error is shown and the others are ended. With --verify, the results are compared with those of the reference
    executor on the same inputs, and a difference ends with exit code 1.

    For instance:

        distir launch program.dir --verify

        distir launch program.dir --repeat 10 --trace measured.json --bind B=64
    """
    from distir.lower import LaunchError

    limit = seconds_of(timeout)
    check_torch(backend)
    program = sound_program(file)
    entry, bound = lowering.bound_entry(program, file, function, bind)
    found = lowering.lowered(program, entry, bound)
    if backend == "gloo":  # all ranks share the memory of this machine
        sizes = {name: value for name, value in bound.items() if isinstance(value, int)}
        memory.refuse_inputs(entry.params, sizes, memory.available_bytes())
    with tempfile.TemporaryDirectory(prefix="distir-lowered-") as scratch, judged(program):
        folder = Path(scratch)
        lowering.write(found, folder, file)
        words = ["--repeat", str(repeat), "--warmup", str(warmup), "--seed", str(seed), "--observe"]
        words += ["--compile"] * compile + ["--cuda-graphs"] * cuda_graphs
        values = None
        if verify or input or inputs:
            values = _values(entry, input or (), inputs, bound, seed)
            words += ["--inputs", str(_written(values, entry, folder / "inputs.safetensors"))]
        if verify:
            words += ["--output", str(folder / "results")]
        try:
            with output.progress(f"running {shown(file)} on {len(found.ranks)} ranks"):
                report = _run(found, folder, backend, limit, words)
        except LaunchError as error:
            raise Refused(str(error), error.help) from None
        compared = None
        if verify and values is not None:
            with output.progress("running the reference executor"):
                compared = _compared(program, entry, values, folder / "results", folder_of(file))
    document = _document(found, entry, report, compared)
    if trace is not None:
        replace_file(trace, _trace(found, entry, report).encode())
        output.tell_terminal(f"wrote {trace}")
    if as_json:
        output.write_json(document)
    else:
        _print(document, compared)
    return 1 if compared is not None and not document["verified"] else 0


def seconds_of(text: str) -> float:
    """A time-out in seconds. Raises Refused."""
    from distir.cost import UnitError, parse_seconds

    try:
        return parse_seconds(text)
    except UnitError as error:
        raise Refused(f"`--timeout`: {error}", error.help) from None


def check_torch(backend: str) -> None:
    """Raises Refused for an unknown backend, and without torch."""
    from importlib.util import find_spec

    if backend not in ("gloo", "nccl"):
        raise Refused(f"expected gloo or nccl as backend, found `{backend}`")
    if find_spec("torch") is None:
        raise Refused("launching needs torch, which is not installed", "install `distir[torch]`")


def _run(found: Lowered, folder: Path, backend: str, timeout_s: float, words: Sequence[str]) -> dict[str, Any]:
    from distir.lower import Launch, launch

    return launch(Launch(folder, found.ranks, backend, timeout_s, words))


def _values(
    entry: Function, files: Sequence[str], archive: str | None, bound: Mapping[str, Constant], seed: int
) -> dict[str, Any]:
    """A value for every parameter, as `distir run` finds them. Raises Refused."""
    from distir.cli.run import inputs_of
    from distir.cli.tensors import given_inputs

    return inputs_of(entry, given_inputs(entry.params, files, archive), bound, seed, memory.available_bytes())


def _written(values: Mapping[str, Any], entry: Function, path: Path) -> Path:
    from distir.lower import tensorfile

    tensorfile.write(path, lowering.array_files(values, entry))
    return path


def _compared(
    program: Program, entry: Function, values: Mapping[str, Any], results: Path, home: Path
) -> list[tuple[str, float, bool]]:
    """By result: its name, the largest difference from the reference executor, and whether that is allowed."""
    from distir.analysis import InputError, execute
    from distir.cli.tensors import flattened, loader
    from distir.lower import tensorfile
    from distir.transform.verification import largest_difference

    measured: dict[str, Any] = {}
    for path in sorted(results.glob("results.*.safetensors")):
        measured |= tensorfile.read(path)
    compared: list[tuple[str, float, bool]] = []
    try:
        expected_results = execute(program.module, values, entry.name, loader(home), memory.available_bytes())
    except InputError as error:
        raise Refused(str(error)) from None
    for result in expected_results:
        for name, _, expected in flattened(result.name, result.type, result.value):
            error, allowed = largest_difference(expected, measured[name])
            compared.append((name, error, error <= allowed))
    return compared


def _document(
    found: Lowered, entry: Function, report: Mapping[str, Any], compared: list[tuple[str, float, bool]] | None
) -> dict[str, Any]:
    from distir.lower.tracing import busy

    times = busy(_slices(found, entry, report))
    ranks = {
        device: times.get(int(device), {"busy_s": 0.0, "comm_s": 0.0})
        | {"peak_memory_bytes": own["observed"]["peak_memory_bytes"], "latencies_s": own["seconds"]}
        for device, own in report["ranks"].items()
    }
    document: dict[str, Any] = {
        "function": entry.name,
        "latency_s": report["latency_s"],
        "latencies_s": report["latencies_s"],
        "ranks": ranks,
        "verified": None,
        "max_abs_error": None,
    }
    if compared is not None:
        document["verified"] = all(equal for _, _, equal in compared)
        document["max_abs_error"] = max((error for _, error, _ in compared), default=0.0)
    return document


def _slices(found: Lowered, entry: Function, report: Mapping[str, Any]) -> Any:
    from distir.lower.tracing import slices

    observed = {int(device): own["observed"] for device, own in report["ranks"].items()}
    return slices(found.manifest, observed, found.communications[entry.name])


def _trace(found: Lowered, entry: Function, report: Mapping[str, Any]) -> str:
    from distir.lower.tracing import chrome_trace

    return chrome_trace(_slices(found, entry, report), f"@{entry.name} measured")


def _print(document: Mapping[str, Any], compared: list[tuple[str, float, bool]] | None) -> None:
    from distir.cost import show_bytes, show_seconds

    runs = len(document["latencies_s"])
    output.write(f"@{document['function']}: {show_seconds(document['latency_s'])}, the median of {runs}\n")
    listed = output.table("rank", "busy", "communicating", "peak memory", right="0123")
    for device, own in document["ranks"].items():
        memory = show_bytes(own["peak_memory_bytes"])
        listed.add_row(device, show_seconds(own["busy_s"]), show_seconds(own["comm_s"]), memory)
    output.lay_out(listed)
    for name, error, equal in compared or ():
        output.tell(f"{'same' if equal else 'DIFFERENT'}: %{name}, largest difference {error:.1e}")
    if compared is None:
        return
    if document["verified"]:
        output.tell("verified: the results are those of the reference executor")
    else:
        output.complain("error", "the results differ from those of the reference executor")
