"""Evaluates configurations in this process, on several processes, or on a cluster; yields rows as they are found.

A unit of work is a plan with its batch sizes, which share the transform. Units that differ only in the number of
microbatches also share most of their work, so one worker gets all of such a family, unless there are too few families
to keep every worker busy.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from itertools import groupby
from multiprocessing.reduction import ForkingPickler
from typing import Any

from distir.files.scratch import ended_on_termination
from distir.ir.collection import paused_collection
from distir.search import clusters
from distir.search.evaluate import evaluate
from distir.search.plan import Plan
from distir.search.subject import Subject

SMALL = 50_000
"""Configurations times statements of the program: below this, starting processes costs more time than it saves."""

ORPHANED_S = 30
"""How long an idle worker waits for work before it exits, for instance after its parent was killed (`kill -9`)."""

FAMILIES = 2
"""Families per worker that are enough for the load to balance."""

Unit = tuple[Plan, tuple[int | None, ...]]


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers. `jobs`: processes, 0 for as many as there are cores (one for small searches).

    `backend`: `processes`, or a cluster: `dask://host:port` or `ray://host:port`; `dask` or `ray` for one that is
    started here.
    """

    jobs: int = 0
    backend: str = "processes"

    def settled(self, configurations: int, statements: int) -> Workers:
        """The same with the number of processes for this much work in all, where it comes a few at a time."""
        if self.backend != "processes" or self.jobs:
            return self
        return replace(self, jobs=(os.cpu_count() or 1) if self.many(configurations, statements) else 1)

    def many(self, configurations: int, statements: int) -> bool:
        """Whether it is worth starting processes for this many configurations of a program of this many statements."""
        if self.backend != "processes":
            return True
        return self.jobs > 1 or (self.jobs == 0 and configurations * statements > SMALL)


Work = Callable[[Subject, Plan, Sequence[int | None]], Iterator[Any]]
"""The function applied to a unit: module-level, so that other processes can import it."""


def carry_out(subject: Subject, units: Sequence[Unit], workers: Workers, work: Work = evaluate) -> Generator[Any]:
    """The rows of all units, or what else `work` finds, in any order. Closing the generator, or Ctrl-C, ends workers.

    Raises SpaceError for an unknown or unreachable backend.
    """
    configurations = sum(len(sizes) for _, sizes in units)
    if not workers.many(configurations, len(subject.entry.body)):
        for some in families(units, 1):
            with paused_collection():
                for plan, sizes in some:
                    yield from work(subject, plan, sizes)
        return
    scheme = None if workers.backend == "processes" else clusters.scheme_of(workers.backend)
    with ended_on_termination():
        if scheme == "ray":
            alone = [[unit] for unit in units]
            with closing(clusters.ray(workers.backend, _found, (work, Handed.of(subject)), alone)) as found:
                for rows in found:
                    yield from rows
            return
        with clusters.dask(workers.backend) if scheme == "dask" else nullcontext():
            yield from _by_joblib(subject, units, workers, work)


def _by_joblib(subject: Subject, units: Sequence[Unit], workers: Workers, work: Work) -> Generator[Any]:
    """On local processes, or on the backend that joblib is configured for."""
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
    found: Generator[list[Any]] = parallel(joblib.delayed(_found)((work, handed), some) for some in together)
    with _loky_races_silenced():
        try:
            for rows in found:
                yield from rows
        except BaseException:
            with warnings.catch_warnings():  # closing cancels tasks, and joblib warns of that
                warnings.simplefilter("ignore")
                found.close()
            _end(workers.backend)
            raise


def _leave_interrupts() -> None:
    """A terminal sends Ctrl-C to all processes; the parent ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _loky_races_silenced() -> Generator[None]:
    """Hide a KeyError that loky's feeder thread raises when workers are killed: it looks up tasks it has cancelled."""
    before = threading.excepthook

    def hook(failure: threading.ExceptHookArgs) -> None:
        thread = failure.thread.name if failure.thread is not None else ""
        if (thread, failure.exc_type) != ("ExecutorManagerThread", KeyError):
            before(failure)

    threading.excepthook = hook
    # Workers that waited too long for work end while the next comes; others are started in their place.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given to the executor")
    try:
        yield
    finally:
        threading.excepthook = before


@dataclass(frozen=True, slots=True)
class Handed:
    """What workers receive with each task: a subject, packed once. Compared by name and digest, not by the program."""

    model: str
    digest: str
    packed: bytes = field(compare=False)

    @classmethod
    def of(cls, subject: Subject) -> Handed:
        """The subject with its digest."""
        return _handed(subject)


@lru_cache(maxsize=2)
def _handed(subject: Subject) -> Handed:
    return Handed(subject.model, subject.digest(""), bytes(ForkingPickler.dumps(subject)))


def _found(shared: tuple[Work, Handed], units: Sequence[Unit]) -> list[Any]:
    """In a worker: what is found of some units."""
    work, handed = shared
    subject, found = _first(handed), list[Any]()
    for plan, sizes in units:
        with paused_collection():
            found += work(subject, plan, sizes)
    return found


@lru_cache(maxsize=1)
def _first(handed: Handed) -> Subject:
    """The object that came with the first task of a search: memos between tasks are attached to it."""
    return ForkingPickler.loads(handed.packed)  # type: ignore[attr-defined]  # its stub leaves it out


def families(units: Sequence[Unit], workers: int) -> list[list[Unit]]:
    """Units grouped so that those of a group differ only in microbatches; one per group if workers would idle."""
    found = [list(group) for _, group in groupby(units, key=lambda unit: replace(unit[0], microbatches=0))]
    return found if len(found) >= FAMILIES * workers else [[unit] for unit in units]


def _end(backend: str) -> None:
    """End joblib's processes at once: their results are no longer needed."""
    if backend == "processes":
        loky: Any = import_module("joblib.externals.loky")
        loky.get_reusable_executor().shutdown(wait=True, kill_workers=True)


def units(plans: Iterable[Plan], sizes: Sequence[int | None], done: set[tuple[int | None, Plan]]) -> list[Unit]:
    """The plans with the batch sizes that are not `done`."""
    found: list[Unit] = []
    for plan in plans:
        left = tuple(size for size in sizes if (size, plan) not in done)
        if left:
            found.append((plan, left))
    return found
