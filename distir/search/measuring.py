"""Measured beside simulated: runs the best rows on this machine, one process per device, as `distir launch` does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from distir.analysis import Load
from distir.cost import show_bytes
from distir.diagnostics import ProgramError
from distir.files.scratch import scratch_folder
from distir.lower import EntryPoint, Launch, LaunchError, launch, lower
from distir.lower.launching import PROCESS_BYTES
from distir.search.distributed import program
from distir.search.rows import NOT_MEASURED, Row
from distir.search.subject import Subject, batch_dimension
from distir.simulate import arguments


@dataclass(frozen=True, slots=True)
class Measuring:
    """How rows are run. `repeat`: timed runs of each, after one for warm-up; `timeout_s`: for each row.

    `load` reads constants from files beside the program. `most_bytes`: what the processes of a row may take together;
    None for any.
    """

    backend: str = "gloo"
    repeat: int = 3
    timeout_s: float = 600.0
    load: Load | None = None
    most_bytes: int | None = None


def measured(subject: Subject, rows: Iterable[Row], how: Measuring) -> Iterator[Row]:
    """The rows with their median measured time in seconds, and the bytes of tensors on the device with most.

    A row that cannot be run, fails, or takes longer than it may, gives its reason instead. Experts have room for all
    tokens, whatever `skew` the row was simulated with: how a router divides tokens is not known before it runs. Needs
    torch.
    """
    for row in rows:
        try:
            latency, memory = _measured(subject, row, how)
            yield replace(row, measured_latency_s=latency, measured_memory_bytes=memory)
        except (LaunchError, ProgramError, OSError) as error:
            text = error.diagnostics[0].message if isinstance(error, ProgramError) else str(error)
            yield replace(row, reason=f"{NOT_MEASURED}{' '.join(text.split())}")


def _measured(subject: Subject, row: Row, how: Measuring) -> tuple[float, int]:
    module = program(subject, replace(row.plan, skew=0.0), row.batch_size)
    entry = module.entry(subject.entry.name)
    assert entry is not None
    dimension = None if row.plan.chunks else batch_dimension(subject.entry)
    sizes = {} if dimension is None or row.batch_size is None else {dimension: row.batch_size}
    args = arguments(entry, dict(subject.bind) | sizes)
    lowered = lower([EntryPoint(entry.name, module, entry, args)], subject.model)
    needed = len(lowered.ranks) * ((row.peak_memory_bytes or 0) + PROCESS_BYTES)
    if how.most_bytes is not None and needed > how.most_bytes:
        ranks = f"{len(lowered.ranks)} processes need up to {show_bytes(needed)} of memory"
        raise LaunchError(f"{ranks}, {show_bytes(how.most_bytes)} are free")
    with scratch_folder("measured") as folder:
        lowered.write(folder, how.load)
        words = ["--repeat", str(how.repeat), "--warmup", "1", "--observe"]
        report = launch(Launch(folder, lowered.ranks, how.backend, how.timeout_s, words))
    memory = max(int(rank["observed"]["peak_memory_bytes"]) for rank in report["ranks"].values())
    return report["latency_s"], memory
