"""Evaluates configurations in this process, on several processes, or on a cluster; yields rows as they are found.

A unit of work is a plan with its batch sizes, which share the transform. Units that differ only in the number of
microbatches also share most of their work, so one worker gets all of such a family, unless there are too few families
to keep every worker busy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import groupby
from multiprocessing.reduction import ForkingPickler
from typing import Any

from distir.files.scratch import ended_on_termination
from distir.ir.collection import paused_collection
from distir.search import clusters
from distir.search.evaluate import evaluate
from distir.search.processes import in_processes, workers_of
from distir.search.subject import Subject
from distir.transform.strategy import Strategy

SMALL = 50_000
"""Configurations times statements of the program: below this, starting processes costs more time than it saves."""

FAMILIES = 2
"""Families per worker that are enough for the load to balance."""

Unit = tuple[Strategy, tuple[int | None, ...]]


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


Work = Callable[[Subject, Strategy, Sequence[int | None]], Iterator[Any]]
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
    with ended_on_termination(), closing(_by_workers(subject, units, workers, work)) as found:
        for rows in found:
            yield from rows


def _by_workers(subject: Subject, units: Sequence[Unit], workers: Workers, work: Work) -> Generator[list[Any]]:
    """What is found of the units together, on local processes or a cluster."""
    shared = work, Handed.of(subject)
    if workers.backend == "processes":
        return in_processes(partial(_found, shared), families(units, workers_of(workers.jobs)), workers.jobs)
    if clusters.scheme_of(workers.backend) == "ray":
        return clusters.ray(workers.backend, _found, shared, [[unit] for unit in units])
    return clusters.dask(workers.backend, _found, shared, partial(families, units))


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


def units(plans: Iterable[Strategy], sizes: Sequence[int | None], done: set[tuple[int | None, Strategy]]) -> list[Unit]:
    """The plans with the batch sizes that are not `done`."""
    found: list[Unit] = []
    for plan in plans:
        left = tuple(size for size in sizes if (size, plan) not in done)
        if left:
            found.append((plan, left))
    return found
