"""Differences between texts: right whatever the texts are, and for long ones in time."""

import difflib
import subprocess
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distir.cli.line_diff import matching, unified

TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "{\n", "}\n"]) | st.integers(0, 20).map(lambda n: f"{n}\n"))


@given(TEXTS, TEXTS)
def test_what_is_matched_is_equal_and_in_order(first, second):
    blocks = matching(first, second)
    for i, j, size in blocks:
        assert first[i : i + size] == second[j : j + size]
    for (i, j, size), (next_i, next_j, _) in pairwise(blocks):
        assert i + size <= next_i
        assert j + size <= next_j


@given(TEXTS, TEXTS)
def test_a_difference_leads_from_one_text_to_the_other(first, second):
    shown = list(unified(first, second, "a", "b"))
    assert bool(shown) == (first != second)
    old, new, at = [], [], 0
    for line in shown[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1].lstrip("-").split(",")[0])
            start -= not line.split()[1].endswith(",0")
            old += first[at:start]
            new += first[at:start]
            at = start
        else:
            old += [line[1:]] * (line[0] in " -")
            new += [line[1:]] * (line[0] in " +")
            at += line[0] in " -"
    assert old + first[at:] == first
    assert new + first[at:] == second


@given(TEXTS)
def test_short_texts_differ_as_difflib_says(first):
    second = [line for line in first if line != "a\n"]
    if len(set(first)) == len(first):
        assert list(unified(first, second, "a", "b")) == list(difflib.unified_diff(first, second, "a", "b"))


def test_patch_takes_it(tmp_path):
    first = [f"line {n}\n" for n in range(400)]
    second = [f"changed {n}\n" if n % 2 else f"line {n}\n" for n in range(420) if n % 31]
    (tmp_path / "a").write_text("".join(first))
    try:
        done = subprocess.run(["patch", "a"], input="".join(unified(first, second, "a", "a")), cwd=tmp_path, text=True)
    except FileNotFoundError:
        pytest.skip("the system has no `patch`")
    assert done.returncode == 0
    assert (tmp_path / "a").read_text() == "".join(second)


def test_a_long_text_of_which_every_second_line_changes():
    """`difflib` takes minutes for it; there is no assertion on time."""
    first = [f"line {n}\n" for n in range(200_000)]
    second = [f"changed {n}\n" if n % 2 else line for n, line in enumerate(first)]
    assert sum(line.startswith("+") for line in unified(first, second, "a", "b")) == 100_001
