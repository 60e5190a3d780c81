"""A search of what a framework runs: rows have the figures of their export, and what it lacks is left out."""

from dataclasses import replace
from random import Random

import pytest

from distir.configurations import FORMATS, Supplied, answer, program_of, read
from distir.configurations.rows import exported_row
from distir.configurations.searched import RunBy
from distir.cost import load
from distir.models import named
from distir.search import Search, Space, Subject, Workers
from distir.search.whole import whole
from distir.transform import Strategy, transform

STEP = transform(named("llama3-8b", None, 256, layers=2), "grad", "optimizer=adamw", "precision=mixed")
SUBJECT = Subject("llama3-8b (layers=2, sequence=256) grad optimizer=adamw precision=mixed", STEP, load("dgx-h100"))


def imported(row, name):
    """What `distir import` finds in what `distir export` writes of a row."""
    written = exported_row(row, Supplied(), name)
    is_beside = "model" in written.losses or "model" in FORMATS[name].beside
    model = written.reading.job.model if is_beside else None
    given = Supplied(gpus=row.plan.devices, model=model, name=row.model if model else "", seq=256)
    reading = read(name, written.text, "job", given)
    found = program_of(reading.job, reading.framework, "h100_80gb")
    return answer(reading.job, found)


@pytest.mark.parametrize("name", ["torchtitan", "megatron", "deepspeed"])
def test_rows_have_the_figures_of_their_export(name):
    by, random, compared = RunBy(name), Random(name), 0
    plans = [*by.narrowed(whole(SUBJECT, 4, (16,)), SUBJECT)[0].for_experts(None).grid()]
    random.shuffle(plans)
    for plan in plans:
        if 16 % (plan.data * plan.microbatches) or by.lost(SUBJECT, plan, 16):
            continue
        (row,) = by.rows(SUBJECT, plan, [16])
        assert (row.framework, row.plan) == (name, plan)
        if row.latency_s is not None:
            said = imported(row, name)
            assert (row.latency_s, row.throughput) == (said.step_time_s, 16 / said.step_time_s)
            assert (row.peak_memory_bytes, row.fits) == (said.memory.needed, said.memory.fits)
            compared += 1
        if compared == 3:
            return
    raise AssertionError(f"{name} runs {compared} of the plans that were drawn")


def test_what_a_framework_lacks_is_taken_out_of_a_space():
    space, lacking = RunBy("torchtitan").narrowed(whole(SUBJECT, 8, (32,)), SUBJECT)
    assert space.zero == (0, 2, 3)
    assert space.kind == ("ring",)
    assert space.sequence == (True,)
    assert lacking["zero"].lacks == (1,)
    space, lacking = RunBy("fsdp2").narrowed(whole(SUBJECT, 8, (32,)), SUBJECT)
    assert (space.fixed["T"], space.fixed["P"], space.context) == ((1,), (1,), (1,))


def test_a_search_simulates_what_the_framework_runs_alone():
    space = Space(4, (16,), (4,), ("1f1b", "zb-h1"), zero=(0, 1), fuse=True, overlap=(True,), sequence=(True,))
    space = replace(space, fixed={"T": (1,), "P": (2,)})
    rows = [*Search(SUBJECT, space, workers=Workers(1), framework=RunBy("megatron")).rows()]
    assert {row.plan.schedule for row in rows} == {"1f1b"}
    assert all(row.framework == "megatron" and row.latency_s for row in rows)
    other = Search(SUBJECT, space, workers=Workers(1))
    assert other.digest != rows[0].search, "rows of different frameworks are not mixed"


def test_a_plan_that_a_framework_does_not_run_says_why():
    (row,) = RunBy("megatron").rows(SUBJECT, Strategy(2, 1, 2, 4, "zb-h1", fuse=True), [16])
    assert row.reason.startswith("megatron does not run it: schedule zb-h1")
    assert "megatron has 1f1b, interleaved" in row.reason


def test_each_format_that_is_written_can_be_searched():
    for name in FORMATS:
        if FORMATS[name].write:
            assert isinstance(RunBy(name).lost(SUBJECT, Strategy(4), 16), dict)
