"""Which tests run with DISTIR_TEST_ALL=1 alone: those that say of further models and commands what others say already.

`pytest.mark.thorough` leaves out a test, `*also("Llama", "Bert")` among the values of `parametrize` some of its cases.
Where several `parametrize` multiply, `pytest.mark.each_once` leaves as many cases as have each value of each in one. Of
a law tried with many strategies, `pytest.mark.by_turns` leaves a third, with each change of the code another one.
Laws are tried with `most_examples(60)`, those over random programs with `most_programs(60)`: by default a fifth.
"""

import os
from collections import defaultdict

import pytest

from distir.validate.origin import code_digest

ALL = os.environ.get("DISTIR_TEST_ALL") == "1"


def most_examples(count):
    """How many examples a law is tried with: `count` with DISTIR_TEST_ALL=1, by default a fifth."""
    return count if ALL else max(count // 5, min(count, 10))


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
    for mark, some in (("each_once", covering), ("by_turns", of_this_turn)):
        cases = defaultdict(list)
        for item in kept:
            if item.get_closest_marker(mark):
                cases[item.nodeid.partition("[")[0]].append(item)
        left_out = {item for group in cases.values() for item in set(group) - set(some(group))}
        kept = [item for item in kept if item not in left_out]
    return kept


def of_this_turn(items):
    """Every third case of a test, from one that the digest of the code says."""
    return items[int(code_digest(), 16) % min(len(items), 3) :: 3]


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
