"""`distir launch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from distir.cli import lowering, memory, options, output
from distir.cli.endings import Refused, judged
from distir.cli.files import refuse_unwritable, replace_file, shown
from distir.cli.programs import folder_of, sized_program
from distir.files.scratch import scratch_folder

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.cli.verifying import Verdict
    from distir.cost import Hardware
    from distir.ir import Constant, Function
    from distir.lower import Lowered


def launch(
    file: options.File,
    backend: Annotated[str, typer.Option(metavar="gloo|nccl", help="gloo: CPUs; nccl: a GPU per rank.")] = "gloo",
    repeat: Annotated[int, typer.Option(metavar="N", min=1, help="The number of timed runs.")] = 1,
    warmup: Annotated[int, typer.Option(metavar="N", min=0, help="The number of warm-up runs.")] = 1,
    verify: Annotated[bool, typer.Option("--verify", help="Compare with the reference executor.")] = False,
    trace: Annotated[
        str | None,
        typer.Option(metavar="OUT.json", help="Write the measured timeline as a Chrome trace, for Perfetto."),
    ] = None,
    input: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE.npy", help="A parameter's value; repeatable.")
    ] = None,
    inputs: Annotated[
        str | None, typer.Option(metavar="FILE", help="An .npz or .safetensors file with values by parameter.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The random seed for all other parameters.")] = 0,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="The time limit, such as 90s.")] = "300s",
    compile: Annotated[
        bool, typer.Option("--compile", help="torch.compile for functions that do not communicate.")
    ] = False,
    cuda_graphs: Annotated[
        bool, typer.Option("--cuda-graphs", help="nccl: replay ranks without communication as CUDA graphs.")
    ] = False,
    any_core: Annotated[bool, typer.Option("--any-core", help="gloo: do not pin ranks to cores.")] = False,
    max_memory: options.RunMemory = None,
    function: options.FunctionName = None,
    bind: options.Bindings = None,
    as_json: options.AsJson = False,
) -> int:
    """Run a program on this machine, one process per device.

    Prints the median time of the runs and, from one more run that is profiled op by op and therefore slower, each
    rank's busy time and peak memory. If a rank fails, its error is shown and the others are terminated. --verify
    compares the results with those of the reference executor on the same inputs; different results give exit code 1.

    For example:

        distir launch program.dir --verify

        distir launch program.dir --repeat 10 --trace measured.json --bind B=64
    """
    from distir.analysis.size import MOST_RUN, refuse_beyond
    from distir.ir.calls import inlined_sizes
    from distir.lower import LaunchError

    limit = seconds_of(timeout)
    check_torch(backend)
    if trace is not None:
        refuse_unwritable(trace)
    program, bind = sized_program(file, bind)
    entry, bound = lowering.bound_entry(program, file, function, bind)
    with judged(program):
        refuse_beyond(inlined_sizes(program.module)[entry.name], MOST_RUN, entry.name, "ranks run")
    found = lowering.lowered(program, entry, bound)
    check_gpus(backend, len(found.ranks))
    if backend == "gloo":  # all ranks share the memory of this machine
        sizes = {name: value for name, value in bound.items() if isinstance(value, int)}
        most = memory.allowed(max_memory)
        memory.refuse_inputs(entry.params, sizes, most)
        _refuse_ranks(program, entry, bound, found, most)
    with scratch_folder("lowered") as folder, judged(program):
        lowering.write(found, folder, file)
        words = ["--repeat", str(repeat), "--warmup", str(warmup), "--seed", str(seed), "--observe"]
        words += ["--compile"] * compile + ["--cuda-graphs"] * cuda_graphs
        words += ["--any-core"] * any_core
        values = None
        if verify or input or inputs:
            values = _values(program, entry, input or (), inputs, bound, seed)
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


def _refuse_ranks(
    program: Program, entry: Function, bound: Mapping[str, Constant], found: Lowered, most: int | None
) -> None:
    """Raises Refused where the ranks together need more than `most` bytes, as simulated; they share this memory.

    A rank needs its peak, copies of what it overwrites, for the next run, and of its first results.
    """
    from distir.cli import simulating
    from distir.cost import show_bytes
    from distir.lower.launching import PROCESS_BYTES

    machine = simulating.ChosenHardware(_large_machine(), "the largest known")
    if most is None or len(found.ranks) > machine.hardware.devices:
        return
    peaks = simulating.simulation(program, machine, entry, dict(bound)).devices
    needed: dict[int, int] = {}
    for rank, device in enumerate(found.ranks):
        nothing: dict[str, list[Any]] = {"params": [], "results": [], "overwritten": []}
        part: Mapping[str, list[Any]] = found.manifest["entries"][entry.name].get(str(rank), nothing)
        kept = [p["type"] for p in part["params"] if p["name"] in part["overwritten"]]
        copied = sum(_nbytes(stated, device) for stated in [*kept, *(r["type"] for r in part["results"])])
        needed[device] = (peaks[device].peak_memory_bytes if device in peaks else 0) + copied + PROCESS_BYTES
    total = sum(needed.values())
    if total > most:
        device = max(needed, key=lambda d: needed[d])
        ranks = "1 rank needs" if len(needed) == 1 else f"{len(needed)} ranks need"
        message = f"{ranks} about {show_bytes(total)} of memory, {show_bytes(most)} are allowed"
        message += f"; the most, {show_bytes(needed[device])}, rank {device}"
        raise Refused(message, "choose smaller sizes, or allow more with `--max-memory`")


def _large_machine() -> Hardware:
    from distir.cost import load

    return load("dgx-h100x2")


def _nbytes(stated: Any, device: int) -> int:
    """Bytes of a value, as program.json describes its type, as far as a device holds it."""
    from math import prod

    from distir.ir import DTYPES

    if isinstance(stated, list):
        return sum(_nbytes(item, device) for item in cast("list[Any]", stated))
    if stated["device"] not in (None, device):
        return 0
    sizes = {name.lower(): dtype.bytes for name, dtype in DTYPES.items()}
    return prod(stated["shape"]) * sizes.get(str(stated["dtype"]).replace("_", ""), 8)


def seconds_of(text: str, flag: str = "--timeout") -> float:
    """A time-out in seconds. Raises Refused."""
    from distir.cost import UnitError, parse_seconds

    try:
        return parse_seconds(text)
    except UnitError as error:
        raise Refused(f"`{flag}`: {error}", error.help) from None


def check_torch(backend: str, flag: str = "--backend") -> None:
    """Raises Refused for an unknown backend, and without torch."""
    from importlib.util import find_spec

    if backend not in ("gloo", "nccl"):
        raise Refused(f"`{flag}` expected gloo or nccl, found `{backend}`")
    if find_spec("torch") is None:
        raise Refused("launching needs torch, which is not installed", "install `distir[torch]`")


def check_gpus(backend: str, ranks: int, flag: str = "--backend") -> None:
    """Raises Refused where NCCL would have fewer GPUs than there are ranks on this machine."""
    from distir.lower.launching import gpus

    if backend == "nccl" and (there := gpus()) < ranks:
        raise Refused(
            f"`{flag} nccl` needs a GPU for each of {ranks} ranks, and torch finds {there or 'none'} here",
            f"`{flag} gloo` runs them on CPUs",
        )


def _run(found: Lowered, folder: Path, backend: str, timeout_s: float, words: Sequence[str]) -> dict[str, Any]:
    from distir.lower import Launch, launch

    return launch(Launch(folder, found.ranks, backend, timeout_s, words))


def _values(
    program: Program,
    entry: Function,
    files: Sequence[str],
    archive: str | None,
    bound: Mapping[str, Constant],
    seed: int,
) -> dict[str, Any]:
    """A value for every parameter, as `distir run` finds them. Raises Refused."""
    from distir.cli.run import inputs_of
    from distir.cli.tensors import given_inputs

    given = given_inputs(entry.params, files, archive)
    return inputs_of(program, entry, given, bound, seed, memory.available_bytes())


def _written(values: Mapping[str, Any], entry: Function, path: Path) -> Path:
    from distir.lower import tensorfile

    tensorfile.write(path, lowering.array_files(values, entry))
    return path


def _compared(program: Program, entry: Function, values: Mapping[str, Any], results: Path, home: Path) -> list[Verdict]:
    """The comparison of each result with the reference executor."""
    from distir.cli.verifying import verdicts
    from distir.lower import tensorfile

    measured: dict[str, Any] = {}
    for path in sorted(results.glob("results.*.safetensors")):
        measured |= tensorfile.read(path)
    return verdicts(program, entry, values, measured, home)


def _document(
    found: Lowered, entry: Function, report: Mapping[str, Any], compared: list[Verdict] | None
) -> dict[str, Any]:
    from distir.lower.tracing import busy

    pieces = _slices(found, entry, report)
    times = busy(pieces)
    ranks = {
        device: times.get(int(device), {"busy_s": 0.0, "comm_s": 0.0})
        | {"peak_memory_bytes": own["observed"]["peak_memory_bytes"], "latencies_s": own["seconds"]}
        for device, own in report["ranks"].items()
    }
    document: dict[str, Any] = {
        "function": entry.name,
        "latency_s": report["latency_s"],
        "latencies_s": report["latencies_s"],
        "observed_s": max((piece.end for piece in pieces), default=0.0),
        "ranks": ranks,
        "verified": None,
        "max_abs_error": None,
    }
    if compared is not None:
        document["verified"] = all(verdict.same for verdict in compared)
        document["max_abs_error"] = max((verdict.error for verdict in compared), default=0.0)
    return document


def _slices(found: Lowered, entry: Function, report: Mapping[str, Any]) -> Any:
    from distir.lower.tracing import slices

    observed = {int(device): own["observed"] for device, own in report["ranks"].items()}
    return slices(found.manifest, observed, found.communications[entry.name])


def _trace(found: Lowered, entry: Function, report: Mapping[str, Any]) -> str:
    from distir.lower.tracing import chrome_trace

    return chrome_trace(_slices(found, entry, report), f"@{entry.name} measured")


def _print(document: Mapping[str, Any], compared: list[Verdict] | None) -> None:
    from distir.cli.verifying import tell
    from distir.cost import show_bytes, show_seconds

    runs = len(document["latencies_s"])
    latency = f"@{document['function']}: {show_seconds(document['latency_s'])} per run"
    output.report(latency + (f", the median of {runs} runs" if runs > 1 else ""))
    output.report(f"\none more run, profiled op by op and therefore slower: {show_seconds(document['observed_s'])}")
    listed = output.table("rank", "busy", "communicating", "peak memory", right="0123")
    for device, own in document["ranks"].items():
        memory = show_bytes(own["peak_memory_bytes"])
        listed.add_row(device, show_seconds(own["busy_s"]), show_seconds(own["comm_s"]), memory)
    output.lay_out(listed)
    if compared is not None:
        agree = "the results are those of the reference executor"
        tell(compared, agree, "the results differ from those of the reference executor")
