"""Lets every test import `strategies`: pytest puts this folder on the path because this file stands in it."""

import gc
import os
import signal
import sys

import pytest
from command_line import distir
from hypothesis import HealthCheck, settings
from thorough import ALL, chosen, most_examples
from worker_pool import Ranks

__all__ = ["distir"]  # a fixture of all tests

# Commands that tests start, some thousands, find compiled sources as a user's do, whatever the environment says.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# The tests share the cores, and so do the threads of linear algebra, which cost more than small tensors do.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes to make or to run is no matter of correctness.
settings.register_profile(
    "unhurried", max_examples=most_examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Processes that a shell starts in the background inherit this, and so would those that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def ranks():
    """Processes that run programs of up to four devices."""
    found = Ranks()
    yield found
    found.close()


def pytest_addoption(parser):
    parser.addoption("--bless", action="store_true", help="write golden files anew from what is found")


def pytest_generate_tests(metafunc):
    """Tests in the order of a set differ from process to process, and workers then refuse to begin."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if isinstance(mark.args[1], set | frozenset):
            raise pytest.UsageError(f"{metafunc.function.__qualname__}: sort what `parametrize` takes, it is a set")


def pytest_collection_modifyitems(config, items):
    if not ALL:
        kept = chosen(items)
        config.hook.pytest_deselected(items=[*{*items} - {*kept}])
        items[:] = kept


MOST_UNSEEN = 3_000_000
"""So many objects tests may make before the collector walks them."""


def pytest_collection_finish():
    """What is loaded stays: a walk over it, and over torch, takes seconds and finds nothing."""
    gc.freeze()
    gc.disable()


def pytest_runtest_teardown():
    if gc.get_count()[0] > MOST_UNSEEN:
        gc.collect()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config):
    """A worker that takes 5 s to clean up, its results long sent, is interrupted by execnet: in vain."""
    if hasattr(config, "workerinput"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable():
    """Failures are told in UTF-8: a lone surrogate in one would end pytest-xdist's worker, and its tests with it."""
    return encodable((yield))


def encodable(value):
    """Plain data, with lone surrogates in its strings as escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(encodable, value))
    return value
