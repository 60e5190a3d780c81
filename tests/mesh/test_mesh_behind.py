"""Steps behind `mesh`: the program stays on it, means what it meant, and takes the time that it takes after them."""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from each_device import as_each_device

import distir
from distir.diagnostics import ProgramError
from distir.ir import Apply, Call, ops_in
from distir.models import gpt2, named
from distir.ops.mesh import COLLECTIVES
from distir.prove import prove
from distir.simulate.simulation import simulate
from distir.syntax import print_module
from distir.transform.mesh import erase, expand
from distir.transform.verification import verify

SMALL = {"layers": 2, "batch": 4, "sequence": 8, "width": 32, "heads": 4, "vocabulary": 64, "dtype": "Float32"}
MODELS = {
    "gpt2": lambda: gpt2(**SMALL, positions=8),
    "llama": lambda: named("llama3-8b", **SMALL, kv_heads=2, head_size=8, ffn=64),
    "mixtral": lambda: named("mixtral-8x7b", **SMALL, kv_heads=2, head_size=8, experts=4, expert_ffn=32),
}
PIPELINE = ("pp=2", "microbatches=2")
TODAY = {
    "mesh dp=2 tp=2": "dtp=2,2,1",
    "mesh dp=2 zero=3": "dp=2 zero=3 partition=split",
    "mesh dp=2 tp=2 zero=3": "dtp=2,2,1 zero=3 partition=split",
    "pp=2 microbatches=2 mesh tp=2": "dtp=1,2,2 microbatches=2",
    "mesh dp=2 ep=2": "ep=2 dp=2",
}
"""The steps of each device that are the same strategy."""

CASES = [
    ("llama", "mesh dp=2 zero=3", "overlap=weights prefetch=2"),
    ("llama", "mesh dp=2 zero=3", "overlap fuse"),
    ("llama", "mesh dp=2 tp=2 zero=3", "overlap fuse"),
    ("llama", "mesh dp=2 tp=2 zero=3", "offload=optimizer"),
    ("llama", "mesh dp=2 tp=2", "fuse"),
    ("gpt2", "mesh dp=2 tp=2", "overlap=gradients bucket_bytes=8kB first_bucket_bytes=2kB"),
    ("gpt2", "mesh dp=2 tp=2", "overlap=products chunks=1"),
    ("llama", "pp=2 microbatches=2 mesh tp=2", "overlap=transfers"),
    ("mixtral", "mesh dp=2 ep=2", "overlap=experts"),
]


@cache
def step(model):
    return distir.transform(MODELS[model](), "grad", "optimizer=adam")


@cache
def placed(model, strategy):
    return distir.transform(step(model), *strategy.split())


@cache
def behind(model, strategy, steps):
    return distir.transform(placed(model, strategy), *steps.split())


def statements(module):
    return Counter(replace(s, facts=type(s.facts)()) for f in module for s in f.body if isinstance(s, (Apply, Call)))


@pytest.mark.parametrize(("model", "strategy", "steps"), CASES)
def test_it_takes_the_time_of_the_steps_of_each_device(model, strategy, steps):
    before = distir.transform(step(model), *TODAY[strategy].split(), *steps.split())
    found = behind(model, strategy, steps)
    assert found.mesh
    assert distir.simulate(found, "dgx-h100").latency_s == simulate(before, "dgx-h100").latency_s


@pytest.mark.by_turns
@pytest.mark.parametrize(("model", "strategy", "steps"), CASES)
def test_it_takes_the_time_and_memory_of_its_expansion_and_gives_the_same_on_every_device(model, strategy, steps):
    found = behind(model, strategy, steps)
    assert distir.parse(print_module(found)) == found
    as_each_device(found, "dgx-h100")
    compared = verify(step(model), found)
    assert compared.equal, [row for row in compared.results if not row.equal]
    assert not compared.unclaimed


@pytest.mark.parametrize(("model", "strategy", "steps"), [case for case in CASES if "fuse" in case[2]])
def test_it_is_proved_by_its_types_and_its_erasure(model, strategy, steps):
    found = prove(behind(model, strategy, steps), step(model))
    assert found.proved
    assert found.meshes


@pytest.mark.parametrize("strategy", ["mesh dp=2 zero=3", "mesh dp=2 tp=2"])
def test_streams_waits_and_messages_of_several_values_are_no_part_of_what_it_means(strategy):
    found = behind("llama", strategy, "overlap=gradients,weights" if "zero" in strategy else "overlap")
    assert any(s.stream for f in found for s in ops_in(f))
    assert any(ops_in(found.entry(), "MakeTuple"))
    assert statements(erase(found)) == statements(erase(placed("llama", strategy)))


def test_one_statement_is_one_collective_of_all_devices():
    found = behind("llama", "mesh dp=2 tp=2 zero=3", "overlap fuse")
    sizes = {s.results[0]: len(s.args) for s in ops_in(found.entry(), "MakeTuple")}
    messages = [sizes.get(s.args[0], 1) for s in ops_in(found.entry(), "AllGather") if s.stream == "gather"]
    assert sorted(messages) == [1, 1, 1, 1, 1, 9, 9, 9, 9]  # of each layer one, forward and backward
    assert {s.stream for s in ops_in(found.entry(), "ReduceScatter")} == {"reduce"}
    assert not any(s.op.startswith(("MPI", "Group")) for f in found for s in ops_in(f))


def test_buckets_are_as_large_as_what_a_device_has():
    parts = behind("gpt2", "mesh dp=2 tp=2", "overlap=gradients bucket_bytes=8kB first_bucket_bytes=2kB")
    sizes = [s for s in ops_in(parts.entry(), "AllReduce") if s.stream == "reduce"]
    whole = distir.transform(placed("gpt2", "mesh dp=2 tp=2"), "overlap=gradients", "bucket_bytes=0")
    assert 2 < len(sizes) < len([s for s in ops_in(whole.entry(), "AllReduce") if s.stream == "reduce"])


def test_a_loss_of_parts_of_the_vocabulary_is_several_kernels_on_each_device():
    found = behind("llama", "mesh dp=2 tp=2", "fuse")
    losses = [f for f in found if f.kernel and any(ops_in(f, "SoftmaxCrossEntropyLoss"))]
    assert len(losses) == 1
    each = expand(found)
    assert not each.functions[losses[0].name].kernel
    assert any(isinstance(s, Call) and each.functions[s.function].kernel for s in each.functions[losses[0].name].body)


@pytest.mark.parametrize("steps", ["inline", "fold", "dce", "cse", "outline"])
def test_smaller_steps_keep_the_mesh_and_what_it_means(steps):
    found = behind("gpt2", "mesh dp=2 tp=2", steps)
    assert found.mesh
    assert {s.op for f in found for s in ops_in(f, *COLLECTIVES)} == {
        s.op for f in placed("gpt2", "mesh dp=2 tp=2") for s in ops_in(f, *COLLECTIVES)
    }
    assert prove(found, step("gpt2")).proved


def test_attention_around_a_ring_communicates_on_its_stream():
    around = placed("llama", "mesh cp=2 cp_kind=ring")
    found = behind("llama", "mesh cp=2 cp_kind=ring", "overlap=context")
    assert {s.stream for f in found for s in ops_in(f, "Attention", "AttentionGrad")} == {"context"}
    each = expand(found)
    assert {s.stream for f in each for s in ops_in(f, "MPIShift")} == {"context"}
    assert {s.stream for f in each for s in ops_in(f, "Attention", "AttentionGrad")} == {""}
    assert distir.simulate(found, "dgx-h100").latency_s < distir.simulate(around, "dgx-h100").latency_s
    assert erase(found) == erase(around)
    assert prove(found, step("llama")).proved  # the kind of attention says how, not what


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("offload=activations", "the order is `offload=activations`, then `mesh`"),
        ("checkpoint", "the order is `checkpoint`, then `mesh`"),
        ("zero=1", "`distir expand` gives the program of every device"),
    ],
)
def test_other_steps_say_where_they_come(steps, said):
    with pytest.raises(ProgramError, match="each device of this program represents a mesh") as error:
        distir.transform(placed("gpt2", "mesh dp=2 tp=2"), steps)
    assert said in str(error.value)


SUMS = """
func @main(
  %x: Tensor[Float32, (8@dp, 4), 1] {{batch = 0}},
  %dy: Tensor[Float32, (8@dp, 4), 1],
  %w: Tensor[Float32, (4, 4), 1] {{param}},
  %b: Tensor[Float32, (4, 4), 1]
) mesh (dp = 2) {{
  %first = Gemm[transA = true](%x, %dy)
  %dw = Gemm[transA = true]({operands})
  %dw_sum = AllReduce[axis = "dp"](%dw)
  %w_new = SGD(%w, %dw_sum)
  return %w_new
}}
"""


def test_a_product_is_added_to_a_pending_sum():
    found = distir.parse(SUMS.format(operands="%x, %dy, %first"))
    assert not distir.check(found)
    compared = verify(erase(found), found)
    assert compared.equal
    assert "beta" not in print_module(expand(found))


def test_a_whole_product_is_not():
    errors = distir.check(distir.parse(SUMS.format(operands="%b, %w, %first")))
    assert "pending sum" in errors[0].message


TUPLE = """
func @main(
  %a: Tensor[Float32, (8@tp[4, 4], 4@dp), 1],
  %b: Tensor[Float32, (8, 6@dp), 1],
  %x: Tensor[Float32, (4@dp, 8), 1]
) mesh (dp = 2, tp = 2) {{
  %soon = Relu(%x)
  %both = MakeTuple(%a, %b)
  %a_next = After(%a, %both, %soon)
  %packed = MakeTuple(%a_next, %b)
  %whole = AllGather[axis = "{axis}", dim = {dim}](%packed) on gather
  %a_whole, %b_whole = UnpackTuple(%whole)
  return %a_whole, %b_whole
}}
"""


def test_parts_in_blocks_along_another_axis_are_gathered_in_one_message():
    found = distir.parse(TUPLE.format(axis="dp", dim=1))
    assert not [d for d in distir.check(found) if d.severity.name == "ERROR"]
    assert verify(erase(found), found).equal
    assert [s.op for s in ops_in(erase(found).entry())] == ["Relu", "MakeTuple"]


def test_parts_in_blocks_along_its_axis_are_not():
    errors = distir.check(distir.parse(TUPLE.format(axis="tp", dim=0)))
    assert any("or of parts in blocks or zig-zag, takes no tuple" in error.message for error in errors)
