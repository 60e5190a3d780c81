"""docs/reference/models.md says what is so: a part of its cells is tried again, all of them with DISTIR_TEST_ALL.

A cell that has become better, or worse, is for `make zoo` to write down; what is worse is to be mended first.
"""

from itertools import cycle

import pytest
from thorough import ALL

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxscript")

from cells import COLUMNS, CRASH, FAULTS, GOOD, WRONG, Cell, Column, Family, agree, cell, cells
from families import FAMILIES
from page import PAGE, stated, text

import distir
from distir.diagnostics.explain import all_codes
from distir.transform import transform

QUICK = ("llama", "resnet", "lstm")
FEW = {"resnet": ("run", "grad", "dp")}
"""Columns that are tried of families with ops of their own: further ones split and repeat them as those do, or as of
others."""
LAUNCHED = ("resnet", "training", "launch dp")
"""Of the cells that start processes, which are many seconds each, the one that updates running statistics."""

STATED = stated(PAGE.read_text(encoding="utf-8"))


def is_tried(family, table, column):
    if ALL or (family, table, column.name) == LAUNCHED:
        return True
    return not column.launched and column.name in FEW.get(family, [column.name])


@pytest.mark.parametrize("family", FAMILIES if ALL else QUICK)
def test_cells_are_what_the_page_says(family):
    found = cells(family, lambda table, column: is_tried(family, table, column))
    changed = {
        f"{c.table} {c.column}: the page says {STATED[c.family, c.table, c.column]}, found {c.mark} {c.reason}"
        for c in found
        if STATED[c.family, c.table, c.column] != c.mark
    }
    assert not changed, "run `make zoo` if this is meant"


def test_the_page_has_every_family_and_column():
    wanted = [(f, table, c.name) for table, columns in COLUMNS.items() for f in FAMILIES for c in columns]
    assert list(STATED) == wanted, "run `make zoo`"


def test_no_cell_is_a_fault_and_codes_are_known():
    assert not [place for place, mark in STATED.items() if mark in FAULTS]
    assert {mark for mark in STATED.values() if mark != GOOD} <= all_codes().keys()


def test_what_a_page_states_is_read_as_it_was_written():
    marks = cycle([GOOD, "DIR641", WRONG, "DIR623"])
    every = [
        Cell(family, table, column.name, mark, "" if mark == GOOD else "it | says so")
        for family in FAMILIES
        for (table, columns) in COLUMNS.items()
        for column, mark in zip(columns, marks, strict=False)
    ]
    assert stated(text(every)) == {(c.family, c.table, c.column): c.mark for c in every}


def differs(family):
    """The original, and a program that gives something else of the same parameters."""
    wrong = distir.parse(distir.format(family.forward).replace("= Add(", "= Sub("))
    agree(family.forward, wrong)


def fails(family):
    raise KeyError(family.name)


def is_refused(family):
    transform(family.forward, "tp=7")


@pytest.mark.parametrize(("check", "mark"), [(differs, WRONG), (fails, CRASH), (is_refused, "DIR623")])
def test_a_wrong_result_and_an_error_without_a_diagnostic_are_faults(check, mark):
    tried = cell(Family("lstm"), "inference", Column("x", "", check))
    assert (tried.mark, tried.is_fault) == (mark, mark in FAULTS)
    assert tried.reason
