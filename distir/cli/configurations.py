"""Configurations of training frameworks on the command line: what `distir import` says of one, what `export` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distir.cli import output
from distir.cli.endings import WRONG, Refused
from distir.cli.files import put, read_bytes, replace_file, shown
from distir.cli.named import published
from distir.diagnostics.spelling import nearest
from distir.files.reading import FileKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distir.configurations import Answer, Exported, Format, Job, ReadJob, Supplied
    from distir.search import Row
    from distir.validate.memory import RunMemory
    from distir.validate.programs import RunProgram

NAMES = (
    *("torchtitan", "torchtitan-python", "megatron", "megatron-bridge", "nemo", "deepspeed", "accelerate", "trainer"),
    "fsdp2",
)
"""The formats, so that help and other formats need not load them."""

READ_ALONE = ("accelerate", "trainer")
"""Those that are not written."""

BESIDE = (*READ_ALONE, "torchtitan", "torchtitan-python")
"""Those that another file may say more of."""

WRITTEN = tuple(name for name in NAMES if name not in READ_ALONE)

CONFIGURATION = FileKind("a configuration", 4 << 20, "take out what configures no training")

SEARCHED = FileKind("the CSV of a search", 1 << 30, "export another row")


def known_format(name: str, called: str = "format", names: Sequence[str] = NAMES) -> Format:
    """A format by name. Raises Refused, with the nearest of the names there are. `called`: what messages call it."""
    from distir.configurations import FORMATS

    if name not in FORMATS:
        near = nearest(name, names)
        hint = f"there are {', '.join(names)}"
        raise Refused(f"there is no {called} `{name}`", f"did you mean `{near}`? {hint}" if near else hint)
    return FORMATS[name]


def written_format(name: str, called: str = "format") -> Format:
    """A format that is written, by name. Raises Refused."""
    found = known_format(name, called, WRITTEN)
    if found.write is None:
        raise Refused(f"`{name}` is read, not written", f"there are {', '.join(WRITTEN)}")
    return found


def given_of(
    model: str | None = None,
    node: int = 8,
    variables: Sequence[str] = (),
    beside: str | None = None,
    **numbers: int | None,
) -> Supplied:
    """The options given beside a configuration; `beside`: a file, `numbers`: by field.

    Raises Refused for an unknown model.
    """
    from distir.configurations import Supplied
    from distir.configurations.jobs import BesideFile
    from distir.configurations.models import published_decoder
    from distir.models import PUBLISHED

    model = published(model) if model is not None else None
    found = published_decoder(model) if model is not None else None
    if model is not None and found is None:
        near = nearest(model, PUBLISHED)
        hint = f"did you mean `{near}`?" if near else "`distir model --list` names the models"
        raise Refused(f"there is no decoder `{model}`", hint)
    pairs = [text.partition("=") for text in variables]
    if unfit := next(("".join(pair) for pair in pairs if not (pair[0] and pair[1])), None):
        raise Refused(f"`--set {unfit}`: expected a name and a value", "write for example `--set TP=4`")
    values = {name: value for name, _, value in pairs}
    other = None if beside is None else BesideFile(shown(beside), _text_of(beside))
    return Supplied(node=node, name=model or "", model=found, variables=values, beside=other, **numbers)


def _text_of(path: str) -> str:
    """The text of a configuration. Raises Refused."""
    data = read_bytes(path, CONFIGURATION)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Refused(f"{shown(path)}:{line}: expected UTF-8 text") from None


def read_configuration(kind: str, path: str, given: Supplied) -> ReadJob:
    """The configuration in a file. Raises Refused."""
    from distir.configurations import ConfigurationError, read

    known_format(kind)
    text = _text_of(path)
    try:
        return read(kind, text, shown(path), given)
    except ConfigurationError as error:
        raise Refused(error.message, error.help) from None
    except ImportError as error:
        if error.name != "yaml":
            raise
        raise Refused(f"`distir import {kind}` needs PyYAML", "install `distir[yaml]`") from None


def import_job(
    kind: str, path: str, hardware: str | None, given: dict[str, Any], out: str | None, strict: bool = False
) -> int:
    """Whether a job fits, and how fast it is; with `out`, its program is written there. `given`: as to `given_of`.

    `strict`: refuse a job of which anything is not simulated, or assumed.
    """
    from pathlib import Path

    from distir import config
    from distir.cli import simulating
    from distir.configurations import ConfigurationError, answer, gpu_of, program_of

    machine = simulating.machine(hardware, config.find(Path())).hardware
    reading = read_configuration(kind, path, given_of(node=len(machine.kinds), **given))
    if strict and reading.notes:
        listed = "; ".join(note.shown(shown(path)) for note in reading.notes)
        raise Refused(f"not simulated, or assumed: {listed}", "leave out `--strict` to simulate the rest")
    try:
        with output.progress(f"simulating {shown(path)}"):
            found = program_of(reading.job, reading.framework, gpu_of(machine.name))
            said = answer(reading.job, found)
    except ConfigurationError as error:
        message = error.message if error.message.startswith(shown(path)) else f"{shown(path)}: {error.message}"
        raise Refused(message, error.help) from None
    for line in _told(reading, found, said, path):
        output.report(line)
    if out is not None:
        _write_program(found, out, path)
    return 0


def _told(reading: ReadJob, found: RunProgram, said: Answer, path: str) -> list[str]:
    """The answer in one line, with how sure it is, then what it is of, then what was not simulated."""
    from distir.cost import show_seconds
    from distir.cost.hardware import PUBLISHED_SHARE

    step = f"{show_seconds(said.step_time_s)} a step"
    if said.band is not None:
        low, high = map(show_seconds, said.band)
        step += f" ({low} to {high} in {PUBLISHED_SHARE:.0%} of published runs)"
    share = "" if said.mfu is None else f", MFU {100 * said.mfu:.1f} %{_of_peak(reading.job.precision)}"
    speed = f"{step}, {said.tokens_per_s:,.0f} tokens/s{share}"
    lines = [f"{_verdict(said.memory)}; {speed}", describe(reading.job, found)]
    if reading.notes:
        lines += ["", "not simulated, or assumed:", *(f"  {note.shown(shown(path))}" for note in reading.notes)]
    return lines


def _verdict(memory: RunMemory) -> str:
    """Whether it fits, as far as simulated memory is known to be right, and what a process needs."""
    from distir.cost import show_bytes

    text = f"{memory.fit}: {show_bytes(memory.needed)} of {show_bytes(memory.capacity)} on the fullest device"
    if memory.fit == "may not fit":
        text += f" ({memory.errors})"
    return text if memory.host_fits else f"{text}, and the hosts have too little memory for what is offloaded"


def _of_peak(precision: str) -> str:
    """Of which peak the share is, where it is not that of products in 16 bits."""
    from distir.validate.strategies import EIGHT_BITS

    if precision in EIGHT_BITS:
        return " of the peak in 8 bits"
    return " of the peak in float32" if precision == "fp32" else ""


def describe(job: Job, found: RunProgram) -> str:
    """Describes model, machine and parallelism in one line."""
    own = job.strategy
    degrees = {"dp": own.data, "tp": own.tensor, "pp": own.pipeline, "cp": own.context, "ep": own.expert_parallel}
    used = " ".join(f"{name}={degree}" for name, degree in degrees.items() if degree > 1) or "one device"
    zero = f" zero={own.zero}" if own.zero else ""
    batch = f"micro batch {job.micro_batch}, global batch {job.global_batch}"
    how = f"{used}{zero}" if job.precision == "bf16" else f"{used}{zero} in {job.precision}"
    return f"{job.name} on {job.gpus} x {found.gpu}: {how}, sequences of {found.step.sequence}, {batch}"


def _write_program(found: RunProgram, out: str, path: str) -> None:
    from distir.diagnostics import ProgramError
    from distir.syntax import print_rolled
    from distir.transform.steps import StepError

    try:
        text = print_rolled(found.step.module())
    except (ProgramError, StepError) as error:
        raise Refused(f"{shown(path)}: {error}") from None
    sizes = " ".join(f"--bind {name}={size}" for name, size in found.bind.items())
    head = f"// What {shown(path)} runs. `distir simulate {sizes} --hardware {found.hardware.name}`."
    replace_file(out, f"{head}\n\n{text}".encode())
    output.tell_terminal(f"wrote {out}")


def export_row(
    row: Row, kind: str, model: str | None = None, seq: int | None = None, hardware: str | None = None
) -> tuple[Exported, bool]:
    """A row of a search in a format, and whether it fits as the framework runs it. Raises Refused."""
    from distir.configurations.rows import job_of_row, title_of

    written_format(kind)
    job = job_of_row(row, given_of(model, seq=seq))
    ideal = None if row.framework else row.latency_s
    return _priced(job, kind, title_of(row), hardware or row.hardware, ideal)


def export_job(
    kind: str, path: str, number: int, gpus: int | None, model: str | None, seq: int | None, hardware: str | None
) -> tuple[Exported, bool]:
    """A row of a search's CSV, or a configuration of another format, in a format, and whether it fits as that runs it.

    Raises Refused.
    """
    from pathlib import Path

    from distir import config
    from distir.cli import simulating
    from distir.configurations import FORMATS
    from distir.configurations.rows import with_kernels_of

    written_format(kind)
    if path.endswith(".csv"):
        return export_row(_ranked(path, number), kind, model, seq, hardware)
    source = next((name for name in FORMATS if path.endswith(FORMATS[name].suffixes or ("\0",))), None)
    if source is None:
        hint = "give the CSV of a search, or a configuration: .toml, .sh, .yaml, .json, .py"
        raise Refused(f"`{shown(path)}` is neither the rows of a search nor a configuration", hint)
    machine = simulating.machine(hardware, config.find(Path())).hardware
    reading = read_configuration(source, path, given_of(model, gpus=gpus, seq=seq, node=len(machine.kinds)))
    for note in reading.notes:
        output.complain("warning", f"not carried over, or assumed: {note.shown(shown(path))}")
    job = with_kernels_of(reading.job, reading.framework)
    return _priced(job, kind, f"from {shown(path)}", machine.name)


def put_job(written: Exported, fits: bool, out: str | None) -> int:
    """Write a configuration, and say beside a file what its head says. Gives the exit code."""
    put(written.text, out)
    if out is not None:
        output.report(written.reported)
        for lost in written.lost:
            output.complain("warning", f"not carried over: {lost}")
    elif not fits:
        output.complain("warning", written.reported)
    return 0 if fits else WRONG


def _priced(job: Job, kind: str, title: str, hardware: str, ideal: float | None = None) -> tuple[Exported, bool]:
    """A job in a format, whose head says how the framework runs it, and whether it fits. `ideal`: seconds of a row."""
    from distir.configurations.rows import exported

    fits = True

    def reported(written: Exported) -> str:
        nonlocal fits
        found = _as_run(written, job.gpus, hardware)
        if isinstance(found, str):
            return f"not simulated: {found}"
        fits = found.memory.fits and found.memory.host_fits
        return f"as {kind} runs it on {hardware}: {_step(found, ideal)}; {_verdict(found.memory)}"

    with output.progress(f"simulating the job for {kind}"):
        return exported(job, kind, title, reported), fits


def _as_run(written: Exported, gpus: int, hardware: str) -> Answer | str:
    """What a step of a written configuration takes, or why that is not known."""
    from distir.configurations import ConfigurationError, answer, program_of
    from distir.configurations.answers import gpu_of_machine
    from distir.cost import HardwareError

    if written.reading is None:
        return "what is written is not read back"
    job = written.reading.job
    if job.gpus != gpus:
        return f"what is written takes {job.gpus} of {gpus} GPUs, as degrees are not carried over"
    try:
        return answer(job, program_of(job, written.reading.framework, gpu_of_machine(hardware)))
    except ConfigurationError as error:
        return f"{error.message}" + (f"; {error.help}" if error.help else "")
    except HardwareError as error:
        return f"{error}; name it with `--hardware`"


def _step(said: Answer, ideal: float | None) -> str:
    """The seconds of a step, and by how much they are more than those of a row."""
    from distir.cost import show_seconds

    if not ideal:
        return f"{show_seconds(said.step_time_s)} a step"
    more = round(100 * (said.step_time_s / ideal - 1))
    return f"{show_seconds(said.step_time_s)} a step ({more:+d}%; ideal: {show_seconds(ideal)})"


def _ranked(path: str, number: int) -> Row:
    """The row of that rank among those that fit, the fastest first, as the table of the search lists them."""
    from distir.search.log import LogError, rows_in
    from distir.search.rows import rank

    read_bytes(path, SEARCHED)
    try:
        rows = sorted((row for row in rows_in(path) if row.fits), key=rank)
    except LogError as error:
        raise Refused(str(error)) from None
    if len(rows) < number:
        raise Refused(f"there is no row {number}: {len(rows)} configurations fit in memory")
    return rows[number - 1]
