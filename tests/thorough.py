"""Which tests run with DISTIR_TEST_ALL=1 alone: those that say of further models and commands what others say already.

`pytest.mark.thorough` leaves out a test, `*also("Llama", "Bert")` among the values of `parametrize` some of its cases.
Where several `parametrize` multiply, `pytest.mark.each_once` leaves as many cases as have each value of each in one.
Laws are tried with `most_examples(60)`, those over random programs with `most_programs(60)`: by default a third.
"""

import os
from collections import defaultdict

import pytest

ALL = os.environ.get("DISTIR_TEST_ALL") == "1"


def most_examples(count):
    """How many examples a law is tried with: `count` with DISTIR_TEST_ALL=1, by default a third."""
    return count if ALL else max(count // 3, min(count, 10))


def most_programs(count):
    """The same of laws over random programs; DISTIR_TEST_PROGRAMS states another number."""
    return int(os.environ.get("DISTIR_TEST_PROGRAMS", most_examples(count)))


def also(*values):
    """Values for `parametrize`, which are tried with DISTIR_TEST_ALL=1."""
    return [pytest.param(value, marks=pytest.mark.thorough) for value in values]


def also_together(*sets):
    """The same, of several arguments each."""
    return [pytest.param(*values, marks=pytest.mark.thorough) for values in sets]


def chosen(items):
    """The tests among `items` that are run by default, in their order."""
    kept = [item for item in items if not item.get_closest_marker("thorough")]
    cases = defaultdict(list)
    for item in kept:
        if item.get_closest_marker("each_once"):
            cases[item.nodeid.partition("[")[0]].append(item)
    left_out = {item for group in cases.values() for item in set(group) - set(covering(group))}
    return [item for item in kept if item not in left_out]


def covering(items):
    """Few cases of a test in which each value of each `parametrize` occurs: in turn the one with most new ones."""
    values = {item: {*enumerate(item.callspec._idlist)} for item in items}
    missing = set().union(*values.values())
    found = []
    while missing:
        best = max(items, key=lambda item: len(values[item] & missing))
        found.append(best)
        missing -= values[best]
    return found
