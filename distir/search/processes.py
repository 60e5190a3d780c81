"""Work on local processes, by joblib: results as they come, and workers that end with the process that started them."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, TypeVar

ORPHANED_S = 30
"""How long an idle worker waits for work before it exits, for instance after its parent was killed (`kill -9`)."""

Given = TypeVar("Given")
Found = TypeVar("Found")


def in_processes(work: Callable[[Given], Found], tasks: Iterable[Given], jobs: int) -> Generator[Found]:
    """The results of `work`, a function of a module, for all tasks, in the order in which they are done.

    `jobs`: processes, 0 for one per core. Closing the generator, or an exception, ends them at once.
    """
    joblib: Any = import_module("joblib")
    own = {"max_nbytes": None, "idle_worker_timeout": ORPHANED_S, "initializer": _leave_interrupts}
    parallel = joblib.Parallel(n_jobs=jobs or -1, return_as="generator_unordered", pre_dispatch="3*n_jobs", **own)
    with _loky_races_silenced(), ExitStack() as starting:
        starting.enter_context(_interrupts_held_back())
        found: Generator[Found] = parallel(joblib.delayed(work)(task) for task in tasks)
        try:
            starting.close()
            for each in found:  # noqa: UP028 - `yield from` would close it itself, and warnings would be seen
                yield each
        except BaseException:
            with warnings.catch_warnings():  # closing cancels tasks, and joblib warns of that
                warnings.simplefilter("ignore")
                found.close()
            loky: Any = import_module("joblib.externals.loky")
            loky.get_reusable_executor().shutdown(wait=True, kill_workers=True)
            raise


def workers_of(jobs: int) -> int:
    """The number of processes of `jobs`, 0 for one per core."""
    joblib: Any = import_module("joblib")
    return joblib.effective_n_jobs(jobs or -1)


@contextmanager
def _interrupts_held_back() -> Generator[None]:
    """Hold back Ctrl-C within the block, for this process until its end, for those it starts as long as they live.

    A terminal sends it to all processes, and one that still loads its modules would print a traceback; the parent ends
    its workers itself. Threads that start here, which start workers in the place of others, inherit it, too. The
    resource trackers come first: Python lets interrupts through once it has started its own.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    for package in ("multiprocessing", "joblib.externals.loky.backend"):
        import_module(f"{package}.resource_tracker").ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave_interrupts() -> None:
    """In a worker, where they cannot be held back while it starts."""
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
    # Workers that waited too long for work, or hold much memory, end; others are started in their place.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given to the executor")
    try:
        yield
    finally:
        threading.excepthook = before
