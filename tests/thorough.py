"""Which tests run with DISTIR_TEST_ALL=1 alone: those that say of further models and commands what others say already.

`pytest.mark.thorough` leaves out a test, `*also("Llama", "Bert")` among the values of `parametrize` some of its cases.
"""

import os

import pytest

ALL = os.environ.get("DISTIR_TEST_ALL") == "1"


def also(*values):
    """Values for `parametrize`, which are tried with DISTIR_TEST_ALL=1."""
    return [pytest.param(value, marks=pytest.mark.thorough) for value in values]


def also_together(*sets):
    """The same, of several arguments each."""
    return [pytest.param(*values, marks=pytest.mark.thorough) for values in sets]
