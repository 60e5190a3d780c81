"""Carrying out configurations, here or on several processes or machines through joblib; rows come as they are found.

A unit of work is a plan with its batch sizes, since they share the transform. A worker is handed the subject once per
unit; programs are small, because transforms emit calls.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from distir.ir.collection import paused_collection
from distir.search.evaluate import Subject, evaluate
from distir.search.rows import Row
from distir.search.space import Plan, SpaceError

SMALL = 200
"""Up to this many configurations, starting processes takes longer than doing without."""

Unit = tuple[Plan, tuple[int | None, ...]]


@dataclass(frozen=True, slots=True)
class Workers:
    """Who does the work. `jobs`: processes, 0 for as many as there are cores (one for small searches).

    `backend`: `processes`, or a cluster that joblib reaches: `dask://host:port` or `ray://host:port`, without an
    address for one that is started here.
    """

    jobs: int = 0
    backend: str = "processes"

    def many(self, configurations: int) -> bool:
        """Whether to start any."""
        if self.backend != "processes":
            return True
        return self.jobs > 1 or (self.jobs == 0 and configurations > SMALL)


def carry_out(subject: Subject, units: Sequence[Unit], workers: Workers) -> Generator[Row]:
    """The rows of all units, in no certain order. Closing the generator, or Ctrl-C, ends the workers.

    Raises SpaceError for a backend that is not there.
    """
    count = sum(len(sizes) for _, sizes in units)
    if not workers.many(count):
        for plan, sizes in units:
            with paused_collection():
                yield from evaluate(subject, plan, sizes)
        return
    joblib: Any = import_module("joblib")
    with _reached(workers.backend):
        parallel = joblib.Parallel(
            n_jobs=workers.jobs or -1, return_as="generator_unordered", pre_dispatch="3*n_jobs", max_nbytes=None
        )
        found: Generator[list[Row]] = parallel(joblib.delayed(_unit)(subject, unit) for unit in units)
        try:
            for rows in found:
                yield from rows
        except BaseException:
            found.close()
            _end(workers.backend)
            raise


def _unit(subject: Subject, unit: Unit) -> list[Row]:
    plan, sizes = unit
    with paused_collection():
        return list(evaluate(subject, plan, sizes))


def _reached(backend: str) -> AbstractContextManager[Any]:
    """Joblib told where to work. Raises SpaceError."""
    if backend == "processes":
        return nullcontext()
    joblib: Any = import_module("joblib")
    parts = urlsplit(backend if "://" in backend else f"{backend}://")
    try:
        if parts.scheme == "dask":
            distributed: Any = import_module("distributed")
            address = f"tcp://{parts.netloc}"
            client = distributed.Client(address, timeout="10s") if parts.netloc else distributed.Client()
            return _Cluster(client, joblib.parallel_config(backend="dask"))
        if parts.scheme == "ray":
            ray: Any = import_module("ray")
            ray.init(address=f"ray://{parts.netloc}" if parts.netloc else None, ignore_reinit_error=True)
            import_module("ray.util.joblib").register_ray()
            return joblib.parallel_config(backend="ray")
    except ImportError as error:
        package = f"`{error.name}`; install `distir[cluster]`"
        raise SpaceError(f"the backend `{backend}` needs the package {package}") from None
    except OSError as error:
        raise SpaceError(f"cannot reach `{backend}`: {error or 'no answer'}") from None
    raise SpaceError(f"there is no backend `{backend}`; expected `processes`, `dask://host:port` or `ray://host:port`")


class _Cluster:
    """A cluster's client and joblib's use of it, left in turn."""

    def __init__(self, client: Any, config: AbstractContextManager[Any]) -> None:
        self.client, self.config = client, config

    def __enter__(self) -> None:
        self.config.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.config.__exit__(*error)
        self.client.close()


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
