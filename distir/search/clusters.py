"""Clusters that evaluate a search, reached by address: Dask and Ray, each by its own tasks.

Independent of searching: runs a function over items and yields results as they come. Both packages are imported on
first use.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from distir.search.space import SpaceError

TIMEOUT_S = 10
"""How long a cluster may take to answer."""

CHECKED_S = 5
"""After how long without a result it is seen whether there are workers."""

ALONE_S = 30
"""How long a cluster may be without workers before they are taken for gone: a nanny starts one again in a few."""


def scheme_of(backend: str) -> str:
    """`dask` or `ray`. Raises SpaceError for another."""
    scheme = urlsplit(_url(backend)).scheme
    if scheme not in ("dask", "ray"):
        known = "`processes`, `dask://host:port` or `ray://host:port`"
        raise SpaceError(f"there is no backend `{backend}`; expected {known}")
    return scheme


@contextmanager
def _client(backend: str) -> Generator[Any]:
    """A client of a Dask cluster; without an address, of one that is started here. Raises SpaceError."""
    with _said(backend):
        distributed: Any = import_module("distributed")
        address = urlsplit(_url(backend)).netloc
        if address:
            client = distributed.Client(f"tcp://{address}", timeout=f"{TIMEOUT_S}s")
        else:  # workers log when they are ended, which is expected
            with interrupts_ignored():
                client = distributed.Client(silence_logs=logging.CRITICAL, dashboard_address=None)
            client.run(_hush)
    try:
        yield client
    except BaseException:  # Dask would log every task that it drops
        for name in ("distributed", "asyncio", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        raise
    finally:
        client.close()


Work = Callable[[Any, Any], Any]


def dask(backend: str, work: Work, shared: object, items: Callable[[int], Iterable[object]]) -> Generator[Any]:
    """`work(shared, item)` of all items on a Dask cluster, as they come; closing the generator cancels what is left.

    `items`: given the number of workers' threads. What a worker that ended was at is done by another one, which Dask
    tries a few times. Raises SpaceError if the cluster cannot be reached, its scheduler ends, or it has had no workers
    for some seconds.
    """
    with _client(backend) as client:
        distributed: Any = import_module("distributed")
        threads = sum(client.nthreads().values())
        waiting = set(client.map(partial(work, shared), list(items(max(threads, 1))), pure=False))
        heard = time.monotonic()
        try:
            while waiting:
                done: set[Any] = set()
                with _reached(backend), suppress(TimeoutError):
                    done = distributed.wait(waiting, timeout=CHECKED_S, return_when="FIRST_COMPLETED").done
                for future in done:
                    with suppress(TimeoutError):  # its worker may end before the result is fetched: it is done again
                        rows = _result(backend, distributed, future)
                        waiting.discard(future)
                        yield rows
                now = time.monotonic()
                with _reached(backend):
                    heard = now if client.nthreads() else heard
                if now - heard >= ALONE_S:
                    raise SpaceError(
                        f"`{backend}` has no workers left: perhaps they ran out of memory; start others, with"
                        " less to do at once, and continue with `--resume`"
                    )
        finally:
            with suppress(Exception):  # the cluster may be gone
                client.cancel(list(waiting))


def _result(backend: str, distributed: Any, future: Any) -> Any:
    """What a task gave. Raises TimeoutError, or SpaceError if workers end at it, or the scheduler ends."""
    if future.status in ("cancelled", "lost"):  # as all are once the scheduler has ended
        raise _gone(backend)
    try:
        return future.result(timeout=CHECKED_S)
    except CancelledError:
        raise _gone(backend) from None
    except distributed.scheduler.KilledWorker as error:
        ended = f"{error.allowed_failures + 1} workers of `{backend}` ended at the same plan"
        raise SpaceError(f"{ended}: perhaps they ran out of memory; see their logs") from None


@contextmanager
def _reached(backend: str) -> Generator[None]:
    """Report that a scheduler does not answer any more as SpaceError."""
    try:
        yield
    except (CancelledError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise _gone(backend) from None


def _gone(backend: str) -> SpaceError:
    return SpaceError(
        f"`{backend}` has ended, or cannot be reached any more; start it again and continue with `--resume`"
    )


def ray(backend: str, work: Work, shared: object, items: Iterable[object]) -> Generator[Any]:
    """`work(shared, item)` of all items on a Ray cluster, as they come; closing the generator cancels what is left.

    Joblib's Ray backend returns results only when all of them are done. Raises SpaceError.
    """
    with _said(backend):
        ray: Any = import_module("ray")
        address = urlsplit(_url(backend)).netloc
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
        with interrupts_ignored(), warnings.catch_warnings():  # errors are reported once, below
            warnings.simplefilter("ignore")
            ray.init(
                f"ray://{address}" if address else None,
                logging_level=logging.ERROR,
                **({} if address else {"include_dashboard": False, "log_to_driver": False}),
            )
    waiting: list[Any] = []
    try:
        task, handed = ray.remote(work), ray.put(shared)
        waiting = [task.remote(handed, item) for item in items]
        while waiting:
            done, waiting = ray.wait(waiting)
            for reference in done:
                yield ray.get(reference)
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)
        ray.shutdown()


def _hush() -> None:
    """In a worker: hide an error that is printed when Dask's client is destroyed after its event loop."""
    sys.unraisablehook = partial(_unraisable, sys.unraisablehook)


def _unraisable(before: Callable[[Any], object], raised: Any) -> None:
    if "IOLoop is closed" not in str(raised.exc_value):
        before(raised)


@contextmanager
def interrupts_ignored() -> Generator[None]:
    """Processes started in the block ignore Ctrl-C, which a terminal sends to all of them; the parent ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _said(backend: str) -> Generator[None]:
    """Report failures to reach a cluster as SpaceError."""
    try:
        yield
    except ImportError as error:
        extra = "ray" if scheme_of(backend) == "ray" else "cluster"
        raise SpaceError(
            f"the backend `{backend}` needs the package `{error.name}`; install `distir[{extra}]`"
        ) from None
    except (OSError, RuntimeError, ValueError) as error:
        text = " ".join(str(error).split())
        raise SpaceError(f"cannot reach `{backend}`: {text or 'no answer'}") from None


def _url(backend: str) -> str:
    return backend if "://" in backend else f"{backend}://"
