"""Runs that differ in replicas alone share a program, and take what their own would."""

from dataclasses import replace

import pytest
from run_samples import changed, row, text

from distir import parse
from distir.analysis import check
from distir.simulate.sizes import Sweep
from distir.transform.entry import entry_of
from distir.validate import plan_of
from distir.validate.memory import memory_of
from distir.validate.predictions import _checked, figures_of, predict, predict_all
from distir.validate.programs import _made, _unfused
from distir.validate.replicas import DeviceLayout, UnlikeError, with_replicas
from distir.validate.runs import parse_runs


def run(**given):
    cells = {"layers": 2, "hidden": 192, "heads": 4, "ffn": 416, "seq": 64, "vocab": 640, **given}
    degrees = [int(cells.get(axis, 1)) for axis in ("dp", "tp", "pp")]
    cells |= {"gpus": degrees[0] * degrees[1] * degrees[2], "tp": degrees[1], "pp": degrees[2]}
    cells.setdefault("global_batch", 2 * degrees[0])
    (found,) = parse_runs(text(row(**cells)), "runs.csv")
    return found


def figures(program, module):
    """Seconds, memory by device, and what is predicted of memory."""
    simulation = Sweep(check(module, late=True), entry_of(module), program.hardware).once(program.bind)
    memory = [use.peak_memory_bytes for use in simulation.memory_uses.values()]
    return simulation.latency_s, memory, memory_of(program, simulation)


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "of",
    [
        run(framework="megatron", dp=16, tp=2, pp=2, global_batch=64),
        run(framework="nemo", dp=8, tp=4, pp=2, gpu="h100_80gb", global_batch=32),
        changed(run(framework="nemo", dp=16, tp=1, pp=2, gpu="h100_80gb"), gpus=64, cp=2),
        run(framework="llm-foundry", dp=32, recompute="full"),
        run(framework="llm-foundry", dp=64, ffn=384, vocab=656),  # of which one for 32 splits the same dimensions
        changed(run(framework="torchtitan", dp=12, global_batch=24), sharding="hsdp:2"),
        changed(run(framework="torchtitan", dp=4, gpu="h100_80gb"), precision="fp8"),
        run(framework="vtrain", dp=6, pp=2, recompute="full", global_batch=24),
        run(framework="aleph", dp=8, tp=2, pp=2, global_batch=32),
        # What differs is kernels alone, which are its own:
        run(framework="nemo", dp=8, hidden=640, ffn=1280, gpu="h100_80gb"),  # rows of kernels are 2¹⁸ long at most
        run(framework="nemo", dp=8, ffn=384, gpu="h100_80gb"),  # half of an MLP's weights are as many as those of keys
    ],
    ids=lambda of: f"{of.framework}-{of.strategy.data}-{of.hidden}-{of.ffn}",
)
def test_a_program_that_serves_several_numbers_of_replicas_takes_what_its_own_takes(of):
    program = plan_of(of)
    assert figures(program, program.step.shared()) == figures(program, program.step.module())


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "of",
    [
        run(framework="aleph", dp=8, global_batch=8 * 12),
        run(framework="aleph", dp=8, tp=2, pp=2, global_batch=8 * 40),
        run(framework="vtrain", dp=8, tp=2, pp=2, global_batch=8 * 20),
        run(framework="megatron", dp=4, pp=4, layers=4, global_batch=4 * 20),
        changed(run(framework="megatron", dp=4, pp=2, layers=4, global_batch=4 * 24), virtual=2),
        run(framework="llm-foundry", dp=4, global_batch=4 * 12),  # its rounds exchange weights
    ],
    ids=lambda of: f"{of.framework}-{of.strategy.pipeline}-{of.strategy.stages_per_device}",
)
def test_more_microbatches_take_what_their_own_program_takes(of):
    program = plan_of(of)
    assert figures(program, program.step.shared()) == figures(program, program.step.module())


def test_runs_that_differ_in_replicas_and_microbatches_share_a_program():
    _made.cache_clear()
    for dp, each in ((8, 12), (8, 24), (16, 30)):
        of = run(framework="aleph", dp=dp, pp=2, global_batch=dp * each)
        plan_of(replace(of, attention="flash1")).step.shared()  # a pipeline that runs once in a step
    assert _made.cache_info().misses == 1


@pytest.mark.parametrize(("vocab", "few"), [(640, 2), (656, 32)])
def test_a_program_is_made_for_the_fewest_replicas_that_split_the_same_dimensions(vocab, few):
    step = plan_of(run(framework="llm-foundry", dp=64, ffn=384, vocab=vocab)).step
    own = plan_of(run(framework="llm-foundry", dp=few, ffn=384, vocab=vocab)).step
    _made.cache_clear()
    step.shared()
    made = _made.cache_info().misses
    own.module()
    assert _made.cache_info().misses == made


@pytest.mark.parametrize(
    "of",
    [
        run(framework="llm-foundry", dp=2),
        run(framework="llm-foundry", dp=3),
        changed(run(framework="torchtitan", dp=8), sharding="hsdp:4"),
        changed(run(framework="megatron", dp=8), experts=4, top_k=2, ep=2),
    ],
    ids=["as few", "no multiple", "in groups", "experts"],
)
def test_programs_of_another_form_are_not_shared(of):
    with pytest.raises(UnlikeError):
        plan_of(of).step.shared()


@pytest.mark.parametrize(("shards", "context"), [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 2), (8, 4)])
def test_groups_of_few_replicas_are_not_as_large_as_others(shards, context):
    few = DeviceLayout.of_few(shards, context)
    sizes = {size for size, _ in few.groups}
    assert min(sizes) > 1
    assert sizes.isdisjoint({shards, context})


def test_rows_do_not_depend_on_other_rows_nor_on_the_number_of_processes():
    runs = [
        run(id=f"r:{dp}:{batch}", framework="nemo", dp=dp, pp=2, global_batch=batch * dp, gpu=gpu)
        for dp, batch, gpu in [(2, 4, "h100_80gb"), (8, 4, "h100_80gb"), (4, 4, "h100_80gb"), (8, 8, "a100_80gb")]
    ]

    def alone(of):
        for known in (figures_of, _checked, _made, _unfused):
            known.cache_clear()
        return predict(of)

    expected = {of.id: alone(of) for of in runs}
    for some, jobs in ((runs, 1), (runs[::-1], 1), (runs[2:], 1), (runs, 2)):
        found = list(predict_all(some, jobs))
        assert {p.id: p for p in found} == {of.id: expected[of.id] for of in some}


def test_a_split_by_sizes_is_of_no_group():
    module = parse("""
        func @main(%x: Tensor[Float32, (B, 6), 1] {batch = 0}, %w: Tensor[Float32, (6, 6), 1] {param}) {
          %h = MatMul(%x, %w)
          %a, %b = Split[axis = 1](%h, [2, 4])
          %c, %d = Split[axis = 1](%h, [3, 3])
          return %a, %b, %c, %d
        }
    """)
    assert with_replicas(module, module.entry(), DeviceLayout(2, 1, 1), 4).entry().body == module.entry().body
