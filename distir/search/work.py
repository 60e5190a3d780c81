"""Carrying out configurations, here or on several processes or machines; rows come as they are found.

A unit of work is a plan with its batch sizes, since they share the transform. Units that differ in the number of
microbatches alone share much, too: a worker is handed them together, unless there are too few such families for all.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from itertools import groupby
from typing import Any

from distir.ir.collection import paused_collection
from distir.search import clusters
from distir.search.evaluate import evaluate
from distir.search.rows import Row
from distir.search.space import Plan
from distir.search.subject import Subject

SMALL = 50_000
"""Up to this many configurations, times statements of the program, starting processes takes longer than doing without.
"""

ORPHANED_S = 30
"""How long a process that has nothing to do waits for more, as where the one that started it was killed (`kill -9`)."""

FAMILIES = 2
"""So many for each worker even out that some take longer than others."""

Unit = tuple[Plan, tuple[int | None, ...]]


@dataclass(frozen=True, slots=True)
class Workers:
    """Who does the work. `jobs`: processes, 0 for as many as there are cores (one for small searches).

    `backend`: `processes`, or a cluster: `dask://host:port` or `ray://host:port`; `dask` or `ray` for one that is
    started here.
    """

    jobs: int = 0
    backend: str = "processes"

    def many(self, configurations: int, statements: int) -> bool:
        """Whether to start any for so many configurations of a program that is so long."""
        if self.backend != "processes":
            return True
        return self.jobs > 1 or (self.jobs == 0 and configurations * statements > SMALL)


def carry_out(subject: Subject, units: Sequence[Unit], workers: Workers) -> Generator[Row]:
    """The rows of all units, in no certain order. Closing the generator, or Ctrl-C, ends the workers.

    Raises SpaceError for a backend that is not there.
    """
    configurations = sum(len(sizes) for _, sizes in units)
    if not workers.many(configurations, len(subject.entry.body)):
        for some in families(units, 1):
            with paused_collection():
                for plan, sizes in some:
                    yield from evaluate(subject, plan, sizes)
        return
    scheme = None if workers.backend == "processes" else clusters.scheme_of(workers.backend)
    with ended_on_termination():
        if scheme == "ray":
            alone = [[unit] for unit in units]
            with closing(clusters.ray(workers.backend, _rows, Handed.of(subject), alone)) as found:
                for rows in found:
                    yield from rows
            return
        with clusters.dask(workers.backend) if scheme == "dask" else nullcontext():
            yield from _by_joblib(subject, units, workers)


def _by_joblib(subject: Subject, units: Sequence[Unit], workers: Workers) -> Generator[Row]:
    """On processes here, or what joblib is told to use."""
    joblib: Any = import_module("joblib")
    own = {"max_nbytes": None, "idle_worker_timeout": ORPHANED_S, "initializer": _leave_interrupts}
    parallel = joblib.Parallel(
        n_jobs=workers.jobs or -1,
        return_as="generator_unordered",
        pre_dispatch="3*n_jobs",
        **(own if workers.backend == "processes" else {}),
    )
    handed = Handed.of(subject)
    together = families(units, joblib.effective_n_jobs(workers.jobs or -1))
    found: Generator[list[Row]] = parallel(joblib.delayed(_rows)(handed, some) for some in together)
    with _told_of_no_stumble():
        try:
            for rows in found:
                yield from rows
        except BaseException:
            with warnings.catch_warnings():  # that tasks are cancelled is what closing is for
                warnings.simplefilter("ignore")
                found.close()
            _end(workers.backend)
            raise


def _leave_interrupts() -> None:
    """A terminal sends Ctrl-C to all processes; the one that started the others ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _told_of_no_stumble() -> Generator[None]:
    """When workers are killed, loky's thread that feeds them looks for tasks that it has just taken back."""
    before = threading.excepthook

    def hook(failure: threading.ExceptHookArgs) -> None:
        thread = failure.thread.name if failure.thread is not None else ""
        if (thread, failure.exc_type) != ("ExecutorManagerThread", KeyError):
            before(failure)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before


@dataclass(frozen=True, slots=True)
class Handed:
    """What workers are handed with each task. Two are the same thing if names and digests are."""

    model: str
    digest: str
    subject: Subject = field(compare=False)

    @classmethod
    def of(cls, subject: Subject) -> Handed:
        """A subject as it is handed on."""
        return cls(subject.model, subject.digest(""), subject)


def _rows(handed: Handed, units: Sequence[Unit]) -> list[Row]:
    """In a worker: the rows of some units."""
    subject, found = _first(handed), list[Row]()
    for plan, sizes in units:
        with paused_collection():
            found += evaluate(subject, plan, sizes)
    return found


@lru_cache(maxsize=1)
def _first(handed: Handed) -> Subject:
    """The subject as it came first: what is known of it from one task to the next is known of this very object."""
    return handed.subject


def families(units: Sequence[Unit], workers: int) -> list[list[Unit]]:
    """Units that differ in the number of microbatches together; each by itself if workers had nothing to do else."""
    found = [list(group) for _, group in groupby(units, key=lambda unit: replace(unit[0], microbatches=0))]
    return found if len(found) >= FAMILIES * workers else [[unit] for unit in units]


@contextmanager
def ended_on_termination() -> Generator[None]:
    """SIGTERM ends the block as an exception does, so that processes are ended and folders removed, too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _end(backend: str) -> None:
    """End joblib's processes at once: what they work on is wanted by nobody."""
    if backend == "processes":
        loky: Any = import_module("joblib.externals.loky")
        loky.get_reusable_executor().shutdown(wait=True, kill_workers=True)


def units(plans: Iterable[Plan], sizes: Sequence[int | None], done: set[tuple[int | None, Plan]]) -> list[Unit]:
    """What is left to do."""
    found: list[Unit] = []
    for plan in plans:
        left = tuple(size for size in sizes if (size, plan) not in done)
        if left:
            found.append((plan, left))
    return found
