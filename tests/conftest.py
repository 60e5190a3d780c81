"""Lets every test import `strategies`: pytest puts this folder on the path because this file stands in it."""

import signal

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)  # how long an example takes is no matter of correctness
settings.load_profile("unhurried")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Processes that a shell starts in the background inherit this, and so would those that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--bless", action="store_true", help="write golden files anew from what is found")
