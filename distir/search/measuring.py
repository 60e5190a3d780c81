"""Measured beside simulated: runs the best rows on this machine, one process per device, as `distir launch` does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from distir.analysis import Load
from distir.diagnostics import ProgramError
from distir.files.scratch import scratch_folder
from distir.lower import EntryPoint, Launch, LaunchError, launch, lower
from distir.search.rows import Row
from distir.search.subject import Subject, batch_dimension
from distir.simulate import arguments
from distir.transform.all_steps import transform


@dataclass(frozen=True, slots=True)
class Measuring:
    """How rows are run. `repeat`: timed runs of each, after one for warm-up; `timeout_s`: for each row.

    `load` reads constants from files beside the program.
    """

    backend: str = "gloo"
    repeat: int = 3
    timeout_s: float = 600.0
    load: Load | None = None


def measured(subject: Subject, rows: Iterable[Row], how: Measuring) -> Iterator[Row]:
    """The rows with their median measured time in seconds; a row that cannot be run gives its reason.

    Needs torch.
    """
    for row in rows:
        try:
            yield replace(row, measured_latency_s=_measured(subject, row, how))
        except (LaunchError, ProgramError) as error:
            text = error.diagnostics[0].message if isinstance(error, ProgramError) else str(error)
            yield replace(row, reason=f"not measured: {' '.join(text.split())}")


def _measured(subject: Subject, row: Row, how: Measuring) -> float:
    module = transform(subject.module, *row.plan.steps())
    entry = module.entry(subject.entry.name)
    assert entry is not None
    dimension = batch_dimension(subject.entry)
    sizes = {} if dimension is None or row.batch_size is None else {dimension: row.batch_size}
    args = arguments(entry, dict(subject.bind) | sizes)
    lowered = lower([EntryPoint(entry.name, module, entry, args)], subject.model)
    with scratch_folder("measured") as folder:
        lowered.write(folder, how.load)
        words = ["--repeat", str(how.repeat), "--warmup", "1"]
        return launch(Launch(folder, lowered.ranks, how.backend, how.timeout_s, words))["latency_s"]
