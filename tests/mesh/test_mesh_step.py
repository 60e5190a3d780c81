"""The step `mesh`: what it writes of a program means that program, and takes the time of the steps of one axis each."""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from each_device import as_each_device
from thorough import also_together

import distir
from distir.analysis.program import read
from distir.cost import load
from distir.ir import PendingAlong, SplitAlong, TensorType, ops_in
from distir.ir.places import Shared
from distir.ir.rolling import rolled
from distir.models import gpt2, mlp, named
from distir.ops.mesh import COLLECTIVES
from distir.simulate.simulation import simulate
from distir.syntax import print_module, print_rolled
from distir.transform import STEPS, StepError
from distir.transform.entry import without_idle_ends
from distir.transform.inline import without_calls
from distir.transform.mesh import erase, expand
from distir.transform.mesh.partition import MeshPartition
from distir.transform.sharding import marked_for_context, with_owners
from distir.transform.steps import listening
from distir.transform.verification import verify

SMALL = {"layers": 2, "batch": 4, "sequence": 8, "width": 32, "heads": 4, "vocabulary": 64, "dtype": "Float32"}
LLAMA = {**SMALL, "kv_heads": 2, "head_size": 8, "ffn": 64}

MODELS = {
    "mlp": lambda: mlp(3, 16, 8, "Float32"),
    "gpt2": lambda: gpt2(**SMALL, positions=8),
    "llama": lambda: named("llama3-8b", **LLAMA),
    "gemma": lambda: named("gemma2-2b", **LLAMA),
    "mpt": lambda: named("mpt-7b", **SMALL, ffn=64),
    "mixtral": lambda: named("mixtral-8x7b", **SMALL, kv_heads=2, head_size=8, experts=4, expert_ffn=32),
    "mixtral of 4 heads": lambda: named("mixtral-8x7b", **SMALL, kv_heads=4, head_size=8, experts=4, expert_ffn=32),
    "qwen": lambda: named("qwen3-30b-a3b", **SMALL, kv_heads=2, head_size=8, experts=8, expert_ffn=24, top_k=3),
    "t5": lambda: named("t5-small", **SMALL, head_size=8, ffn=64),
    "bert": lambda: named("bert-base", **SMALL, ffn=64),
    "dropout": lambda: gpt2(**SMALL, dropout=0.1),
}

STEPS_BEFORE = {
    "forward": (),
    "step": ("grad", "optimizer=adam"),
    "clipped": ("grad", "optimizer=adam", "clip=1.0"),
    "mixed": ("grad", "optimizer=adam", "precision=mixed"),
    "checkpointed": ("grad", "optimizer=adam", "checkpoint"),
    "accumulated": ("grad", "optimizer=adam", "accumulate=2"),
    "muon": ("grad", "optimizer=muon"),
    "adafactor": ("grad", "optimizer=adafactor"),
    "fp8 tensor": ("fp8=tensor", "grad"),
    "fp8 mx": ("fp8=mx", "grad"),
}

TODAY = {
    "dp=2": ("dp=2",),
    "tp=2": ("tp=2",),
    "dp=2 tp=2": ("dtp=2,2,1",),
    "dp=2 tp=2 sequence": ("dtp=2,2,1", "sequence"),
    "ep=2": ("ep=2",),
    "dp=2 ep=2": ("ep=2", "dp=2"),
    "dp=2 ep=2 tp=2 sequence": ("dtp=4,2,1", "experts=2", "sequence"),
    "cp=2": ("cp=2",),
    "cp=2 zigzag=false": ("cp=2", "zigzag=false"),
    "cp=2 cp_kind=a2a": ("cp=2", "cp_kind=a2a"),
    "cp=2 cp_kind=ring": ("cp=2", "cp_kind=ring"),
    "dp=2 cp=2": ("cp=2", "dp=2"),
    "dp=2 cp=2 zigzag=false cp_kind=ring": ("cp=2", "zigzag=false", "cp_kind=ring", "dp=2"),
    "dp=2 cp=4 cp_kind=ring": ("cp=4", "cp_kind=ring", "dp=2"),
    "ep=2 cp=2": ("dtp=2,1,1", "experts=2", "context=2"),
    "ep=2 dispatcher=deepep": ("ep=2", "dispatcher=deepep"),
    "tp=2 etp=1": ("tp=2", "etp=1"),
    "ep=2 tp=2 etp=1 sequence": ("dtp=2,2,1", "experts=2", "etp=1", "sequence"),
    "dp=2 tp=4 etp=2": ("dtp=2,4,1", "etp=2"),
    "cp=2 cp_experts zigzag=false": ("cp=2", "cp_experts=true", "zigzag=false"),
}
"""The steps of one axis each that are the same strategy; with `zero=… partition=split`."""

FORWARD = [("forward", strategy) for strategy in ("dp=2", "tp=2", "dp=2 tp=2")]
ZERO = [("step", f"dp=2 zero={stage}") for stage in (1, 2, 3)] + [("step", "dp=2 tp=2 zero=3")]
CASES = [
    *((model, *case) for model in ("mlp", "gpt2", "llama") for case in (*FORWARD, ("step", "dp=2 tp=2"), *ZERO)),
    ("llama", "step", "dp=2"),
    ("llama", "step", "tp=2"),
    ("llama", "mixed", "dp=2 tp=2 zero=3"),
    ("llama", "accumulated", "dp=2"),
    ("llama", "accumulated", "dp=2 zero=3"),
    ("mpt", "step", "dp=2 tp=2"),
    ("gemma", "step", "dp=2 tp=2"),
    *((model, "step", "dp=2 tp=2 sequence") for model in ("gpt2", "llama")),
    ("llama", "forward", "dp=2 tp=2 sequence"),
    *(("mixtral", "step", strategy) for strategy in ("ep=2", "dp=2 ep=2 tp=2 sequence", "dp=2 ep=2 zero=3")),
    ("qwen", "forward", "dp=2 ep=2"),
    *(("llama", "step", strategy) for strategy in ("cp=2 zigzag=false", "dp=2 cp=2 zero=3", "dp=2 cp=4 cp_kind=ring")),
    ("llama", "step", "dp=2 cp=2 zigzag=false cp_kind=ring"),
    ("gemma", "step", "dp=2 cp=2"),
    ("gemma", "step", "cp=2 cp_kind=ring"),
    ("t5", "step", "cp=2"),
    ("mixtral", "step", "ep=2 cp=2"),
    *(
        ("mixtral", "step", strategy)
        for strategy in ("ep=2 dispatcher=deepep", "tp=2 etp=1", "ep=2 tp=2 etp=1 sequence")
    ),
    ("mixtral", "step", "cp=2 cp_experts zigzag=false"),
    ("mixtral of 4 heads", "step", "dp=2 tp=4 etp=2 zero=3"),
]
FURTHER = [(model, "step", "dp=2 tp=2 zero=3") for model in ("mixtral", "t5", "bert", "dropout", "gemma", "mpt")]
OTHERWISE = [
    ("llama", "clipped", "dp=2 tp=2 zero=1"),
    ("llama", "checkpointed", "dp=2 zero=3"),
    ("llama", "muon", "dp=2 tp=2 zero=1"),
    ("llama", "adafactor", "dp=2 tp=2 zero=3"),
    ("gemma", "fp8 tensor", "dp=2 tp=2"),
    ("bert", "fp8 mx", "dp=2 zero=1"),
    ("llama", "adafactor", "dp=2 zero=1"),
    ("llama", "accumulated", "dp=2 tp=2 zero=3"),
    ("llama", "checkpointed", "dp=2 tp=2 sequence zero=2"),
    ("llama", "step", "dp=2 cp=2 tp=2 sequence"),
    ("qwen", "mixed", "ep=4 zero=1"),
    ("mixtral of 4 heads", "step", "ep=2 tp=4 etp=2 sequence zero=1"),
    ("mixtral", "step", "dp=2 cp=2 cp_experts"),
    *FURTHER[:1],
]
"""What computes the same, and communicates otherwise than the steps of one axis do."""

SLICED = "a part of a weight is cut off by `Split` along an axis of a mesh, and by `Slice` in `zero`, which reads less"
BLOCKS = "the bias of a fused product, in blocks along `tp`, is not split along `dp` too, as it is by `zero`"

POSITIONS = "`zero` leaves learned positions to every replica, whose gradient is summed before it is one of a weight"

OTHER_TIMES = {
    ("mlp", "dp=2 zero=1"): SLICED,
    ("mlp", "dp=2 zero=2"): SLICED,
    ("gpt2", "dp=2 zero=1"): POSITIONS,
    ("gpt2", "dp=2 zero=2"): POSITIONS,
    ("gpt2", "dp=2 zero=3"): POSITIONS,
    ("llama", "dp=2 zero=1"): SLICED,
    ("llama", "dp=2 zero=2"): SLICED,
    ("gpt2", "dp=2 tp=2 zero=3"): BLOCKS,
}
"""Why a step does not take the same time to the tick."""


@cache
def program(model, kind):
    made = MODELS[model]()
    return distir.transform(made, *STEPS_BEFORE[kind]) if STEPS_BEFORE[kind] else made


@cache
def placed(model, kind, strategy):
    return distir.transform(program(model, kind), "mesh", *strategy.split())


def meant(model, kind, strategy):
    """The program that a strategy is of: with rows for the owners of experts, and the kind of attention stated."""
    made, words = program(model, kind), dict(word.partition("=")[::2] for word in strategy.split())
    owners = int(words.get("ep", 1)) * (int(words["tp"]) // int(words["etp"]) if "etp" in words else 1)
    owners *= int(words["cp"]) if "cp_experts" in words else 1
    made = with_owners(made, owners, 0) if owners > 1 else made
    return marked_for_context(made, words.get("cp_kind", "allgather")) if "cp" in words else made


def time_of(module):
    return simulate(module, "dgx-a100x2").latency_s


@pytest.mark.parametrize(("model", "kind", "strategy"), CASES)
def test_without_placements_and_collectives_it_is_the_program(model, kind, strategy):
    found = placed(model, kind, strategy)
    assert any(ops_in(found, *COLLECTIVES)) or (kind, strategy) == ("forward", "dp=2")
    assert without_calls(erase(found)) == without_calls(without_idle_ends(meant(model, kind, strategy)))


@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("model", "kind", "strategy"), [*CASES, *OTHERWISE, *also_together(*FURTHER[1:], ("t5", "step", "dp=2 cp=2"))]
)
def test_every_copy_on_every_device_is_that_of_the_program(model, kind, strategy):
    found = verify(program(model, kind), placed(model, kind, strategy))
    assert found.equal, [row for row in found.results if not row.equal]
    assert not found.unclaimed
    assert found.copies or kind == "forward"


@pytest.mark.by_turns
@pytest.mark.parametrize(("model", "kind", "strategy"), CASES)
def test_a_step_takes_the_time_that_it_takes_after_the_steps_of_one_axis(model, kind, strategy):
    axes, _, zero = strategy.partition(" zero=")
    if zero and kind == "forward":
        return
    steps = (*TODAY[axes], f"zero={zero}", "partition=split") if zero else TODAY[axes]
    before = time_of(distir.transform(program(model, kind), *steps))
    found = time_of(expand(placed(model, kind, strategy)))
    if (model, strategy) in OTHER_TIMES:
        assert found == pytest.approx(before, rel=0.02)
    else:
        assert found == before


def peak_of(module):
    return max(use.peak_memory_bytes for use in simulate(module, "dgx-a100").devices.values())


@pytest.mark.parametrize(("model", "strategy"), [("llama", "dp=2 zero=2"), ("gpt2", "dp=2 zero=2")])
def test_a_weight_is_not_kept_beside_the_new_one_that_is_gathered(model, strategy):
    axes, _, zero = strategy.partition(" zero=")
    before = distir.transform(program(model, "step"), *TODAY[axes], f"zero={zero}", "partition=split")
    found = placed(model, "step", strategy)
    assert peak_of(expand(found)) <= peak_of(before)
    donated = [p for p in found.entry().params if "donated" in p.roles]
    assert donated
    assert all("param" in p.roles for p in donated)
    assert not any("donated" in p.roles for p in erase(found).entry().params)


def test_new_weights_and_state_are_placed_as_the_old_ones_and_nothing_else_is_pending():
    entry = placed("llama", "step", "dp=2 tp=2 zero=3").entry()
    params = {p.name: p.type for p in entry.params}
    assert (
        params["model.layers.0.self_attn.q_proj.weight"].places
        == params["model.layers.0.self_attn.q_proj.weight.m"].places
    )
    stored = [
        p for p in entry.params if {"param", "state"} & set(p.roles) and isinstance(p.type, TensorType) and p.type.shape
    ]
    assert all("dp" in {place.axis for place in p.type.places} for p in stored)
    assert not any(isinstance(place, PendingAlong) for t in params.values() for place in getattr(t, "places", ()))


def test_weights_that_are_stored_in_parts_are_gathered_in_each_pass_and_freed_between():
    text = print_module(placed("llama", "step", "dp=2 zero=3"))
    gathers = [
        line for line in text.splitlines() if "= AllGather" in line and "(%model.layers.1.mlp.up_proj.weight)" in line
    ]
    assert ["{forward" in line for line in gathers] == [True, False]
    checkpointed = print_module(placed("llama", "checkpointed", "dp=2 zero=3"))
    assert (
        checkpointed.count("(%model.layers.1.mlp.up_proj.weight)") == 2
    )  # recomputed and differentiated with one copy


def test_gradients_are_reduced_to_what_the_update_wants_in_the_type_in_which_they_are_added_up():
    text = print_module(placed("llama", "step", "dp=2 zero=1"))
    assert "AllReduce" not in text.replace('%mean_loss = AllReduce[axis = "dp"]', "")
    assert "{optimizer, of = %lm_head.weight}" in next(
        line for line in text.splitlines() if "= ReduceScatter" in line and "dlm_head" in line
    )
    mixed = placed("llama", "mixed", "dp=2 tp=2 zero=3")
    types = distir.analysis.check(mixed).states["main"]
    assert {types[s.args[0]].dtype.name for s in ops_in(mixed.entry(), "ReduceScatter")} == {"Float32"}


def test_a_gradient_is_reduced_to_the_part_that_averages_of_its_rows_update():
    found = placed("llama", "adafactor", "dp=2 zero=1")
    assert [s.results for s in ops_in(found.entry(), "AllReduce")] == [("mean_loss",)]
    params = {p.name: p.type.places for p in found.entry().params if isinstance(p.type, TensorType)}
    assert params["lm_head.weight.rows"] == (SplitAlong(0, "dp"),)
    assert not params["lm_head.weight.columns"]  # they are of all rows
    scattered = {s.args[0]: s.attrs["dim"] for s in ops_in(found.entry(), "ReduceScatter")}
    assert scattered["dlm_head.weight"] == 0


def test_what_needs_all_parts_of_a_weight_has_them_along_one_dimension():
    params = {p.name: p.type.places for p in placed("llama", "muon", "dp=2 tp=2 zero=1").entry().params}
    weight = "model.layers.0.self_attn.q_proj.weight"
    assert params[weight] == (SplitAlong(1, "tp"),)
    assert params[f"{weight}.m"] == (SplitAlong(1, "tp"), SplitAlong(1, "dp"))


def test_gradients_of_microbatches_are_added_up_in_parts_from_zero_2_on():
    before = distir.transform(program("llama", "accumulated"), "dp=2", "zero=2", "partition=split")
    found = placed("llama", "accumulated", "dp=2 zero=2")
    assert peak_of(expand(found)) == peak_of(before)
    assert len([*ops_in(without_calls(found), "ReduceScatter")]) == len(
        [*ops_in(without_calls(before), "MPIReduceScatter")]
    )
    once = placed("llama", "accumulated", "dp=2 zero=1")
    assert peak_of(expand(once)) > peak_of(before)
    assert {f.name for f in once if any(ops_in(f, "ReduceScatter"))} == {"main"}


def test_the_gradients_of_a_weight_that_is_used_twice_are_added_up_before_they_are_reduced():
    found = placed("gemma", "step", "dp=2 tp=2 zero=3").entry()
    of_embedding = [s for s in found.body if getattr(s, "op", "") == "ReduceScatter" and "embed_tokens" in s.args[0]]
    assert [s.args for s in of_embedding] == [("dmodel.embed_tokens.weight",)]


def test_layers_share_a_function_and_are_written_once():
    six = distir.transform(
        named("llama3-8b", **{**LLAMA, "layers": 6}), "grad", "optimizer=adam", "mesh", "dp=2", "tp=2"
    )
    nine = distir.transform(
        named("llama3-8b", **{**LLAMA, "layers": 9}), "grad", "optimizer=adam", "mesh", "dp=2", "tp=2"
    )
    assert [f.name for f in six] == ["LlamaDecoderLayer", "LlamaDecoderLayerGrad", "main"]
    assert len(print_rolled(six).splitlines()) == len(print_rolled(nine).splitlines())
    again = read(print_rolled(six))
    assert not again.errors
    assert again.module == rolled(six)
    devices = read(print_rolled(expand(again.module)))
    assert not devices.errors
    assert time_of(devices.module) == time_of(expand(six))


def test_a_gradient_that_is_split_otherwise_than_its_weight_is_reduced_whole_where_it_does_not_divide():
    """A gradient in 8 shards of 8 channels is not split over 2 replicas besides."""
    module = distir.transform(
        distir.parse("""func @main(
  %c1: Tensor[Float32, (8, 3, 3, 3), 1] {param},
  %s: Tensor[Float32, (8,), 1], %b: Tensor[Float32, (8,), 1],
  %m: Tensor[Float32, (8,), 1], %v: Tensor[Float32, (8,), 1],
  %c2: Tensor[Float32, (8, 8, 3, 3), 1] {param},
  %c3: Tensor[Float32, (8, 8, 3, 3), 1] {param},
  %head: Tensor[Float32, (8, 4), 1] {param},
  %image: Tensor[Float32, (8, 3, 8, 8), 1] {batch = 0}
) {
  %x1 = Conv[pads = [1, 1, 1, 1]](%image, %c1)
  %n1 = BatchNormalization(%x1, %s, %b, %m, %v)
  %a1 = Relu(%n1)
  %x2 = Conv[pads = [1, 1, 1, 1]](%a1, %c2)
  %a2 = Relu(%x2)
  %x3 = Conv[pads = [1, 1, 1, 1], strides = [2, 2]](%a2, %c3)
  %a3 = Relu(%x3)
  %pooled = ReduceMean[keepdims = false](%a3, [2, 3])
  %logits = MatMul(%pooled, %head)
  return %logits
}
"""),
        "grad",
    )
    found = distir.transform(module, "mesh", "tp=8", "dp=2", "zero=3")
    assert not distir.check(found)
    assert verify(module, found).equal


def test_axes_of_which_each_device_is_alone_are_left_out():
    made = STEPS["mesh"].transform(program("mlp", "forward"), dp=2, tp=1)
    assert made.mesh == (("dp", 2),)


def test_a_weight_in_blocks_is_updated_with_the_blocks_of_a_whole_gradient():
    module = read("""
        func @main(%w: Tensor[Float32, (8, 20), 1] {param}, %g: Tensor[Float32, (8, 20), 1]) {
          %w_new = SGD(%w, %g)
          return %w_new
        }
    """).module
    entry = module.entry()
    blocks = (SplitAlong(1, "tp", (8, 8, Shared(4))),)
    types = [replace(entry.params[0].type, places=blocks), entry.params[1].type]
    partition = MeshPartition(distir.analysis.check(module), (("tp", 2),))
    made = partition.entry(entry, types, [frozenset()] * 2, {"w_new": blocks}, {}, early=False)
    assert 'Shard[axis = "tp", dim = 1, blocks = [8, 8, 4], whole = [2]](%g)' in print_module(made)
    assert erase(made) == module
    assert read(print_module(made)).module == made
    assert verify(module, made).equal


@pytest.mark.parametrize(("attrs", "code", "message"), [
    ("blocks = [8, 8, 4], whole = [3]", "DIR306", "`Shard` expected numbers of its 3 blocks in `whole`, found 3"),
    ("blocks = [8], whole = [0]", "DIR306", "`Shard` splits none of its blocks: all are in `whole`"),
    ("blocks = [8, 8]", "DIR422", "blocks of 16 in all do not make up dimension 1, which is 20"),
    ("blocks = [8, 9, 3]", "DIR422", "a block of 9 in dimension 1 does not split over 2 devices (tp = 2)"),
])  # fmt: skip
def test_blocks_that_are_not_those_of_a_dimension_are_refused(attrs, code, message):
    (found,) = read(f"""
        func @main(%w: Tensor[Float32, (8, 20), 1]) mesh (tp = 2) {{
          %y = Shard[axis = "tp", dim = 1, {attrs}](%w)
          return %y
        }}
    """).errors
    assert found.code.number == code
    assert message in found.message


def test_the_remedy_of_a_gradient_that_is_not_in_blocks_names_them():
    text = """
        func @main(%w: Tensor[Float32, (8, 20@tp[8, 8, whole 4]), 1] {param}, %g: Tensor[Float32, (8, 20), 1])
         mesh (tp = 2) {
          %w_new = SGD(%w, %g)
          return %w_new
        }
    """
    (found,) = read(text).errors
    assert found.help == 'insert `Shard[axis = "tp", dim = 1, blocks = [8, 8, 4], whole = [2]]` for `%g`'
    made = '%p = Shard[axis = "tp", dim = 1, blocks = [8, 8, 4], whole = [2]](%g)'
    assert not read(text.replace("%w_new = SGD(%w, %g)", f"{made}\n          %w_new = SGD(%w, %p)")).errors


def test_a_function_of_sizes_that_it_does_not_know_is_checked_where_it_is_called():
    text = """
        func @f(%x: Tensor[Float32, (?@dp, 8, 4)]) {
          %y = Flatten[axis = 2](%x)
          %z = Softmax[axis = 1](%y)
          return %z
        }

        func @main(%x: Tensor[Float32, (4@dp, 8, 4), 1]) mesh (dp = 2) {
          %y = @f(%x)
          return %y
        }
    """
    assert not read(text).errors
    assert [d.code.number for d in read(text.replace("axis = 1", "axis = 0")).errors] == ["DIR310"]


def test_a_function_of_sizes_that_it_is_given_is_checked_where_it_is_called():
    text = """
        func @f(%x: Tensor[Float32, (6@dp, 2)], %sizes: Tensor[Int64, (3,), host]) {
          %y = Reshape(%x, %sizes)
          return %y
        }

        func @main(%x: Tensor[Float32, (6@dp, 2), 1]) mesh (dp = 2) {
          %y = @f(%x, [2, 3, 2])
          return %y
        }
    """
    assert not read(text).errors
    (found,) = read(text.replace("[2, 3, 2]", "[3, 2, 2]")).errors
    assert found.code.number == "DIR310"


def test_a_function_of_values_of_unknown_rank_is_checked_where_it_is_called():
    text = """
        func @f(%x: Tensor[?, ??]) {
          %y = ReduceSum(%x, [1])
          return %y
        }

        func @main(%x: Tensor[Float32, (4, 8), 1]) mesh (dp = 2) {
          %y = @f(%x)
          return %y
        }
    """
    assert not read(text).errors
    assert [d.code.number for d in read(text.replace("[1]", "[3]")).errors] == ["DIR310"]


def test_what_a_replica_stores_whole_is_said():
    module = read("""
        func @main(%x: Tensor[Float32, (4, 3), 1] {batch = 0}, %b: Tensor[Float32, (3,), 1] {param}) {
          %y = Add(%x, %b)
          return %y
        }
    """).module
    with listening() as said:
        distir.transform(module, "mesh", "dp=2", "zero=3")
    assert said == ["each replica stores all of `%b`: no dimension divides by their number"]


@pytest.mark.parametrize(("words", "message"), [
    ("mesh", "expected an axis with 2 or more devices, as in `mesh dp=4 tp=2`"),
    ("mesh tp=2 zero=1", "`zero` partitions over replicas: give `dp`, as in `mesh dp=4 zero=3`"),
    ("mesh dp=2 sequence", "`sequence` spreads sums over shards: give `tp`, as in `mesh tp=2 sequence`"),
    ("mesh dp=2 skew=1.2", "`skew` is the room for tokens of experts: give `ep`, as in `mesh ep=4 skew=1.2`"),
    ("mesh dp=2 cp_kind=ring",
     "`cp_kind` is of devices that share sequences: give `cp`, as in `mesh cp=2 cp_kind=ring`"),
    ("mesh dp=2 zigzag", "`zigzag` is the order of parts of sequences: give `cp`, as in `mesh cp=2 zigzag=false`"),
    ("mesh dp=2 etp=1",
     "`etp` is of shards, over so many of which each expert is split: give `tp`, as in `mesh tp=4 etp=1`"),
    ("mesh tp=4 etp=3", "`etp` expected a divisor of 4 shards, over so many of which each expert is split, found 3"),
    ("mesh dp=2 cp_experts",
     "`cp_experts` is of devices that share sequences: give `cp`, as in `mesh cp=2 cp_experts`"),
    ("mesh dp=2 dispatcher=deepep",
     "`dispatcher` is of tokens that go to experts: give `ep`, as in `mesh ep=8 dispatcher=deepep`"),
    ("mesh cp=2 cp_kind=al2a", "there is no `cp_kind` `al2a`; did you mean `a2a`?"),
    ("mesh dp=2 zero=4", "`zero` expected a stage from 0 to 3, found 4"),
    ("mesh zeros=2", "there is no step or option `zeros` after `mesh`; did you mean `zero`?"),
])  # fmt: skip
def test_words_that_say_no_strategy_are_refused(words, message):
    with pytest.raises(StepError) as caught:
        distir.transform(program("mlp", "forward"), *words.split())
    assert str(caught.value) == message


def test_a_word_that_is_like_none_names_the_options_of_the_step():
    with pytest.raises(StepError, match=r"options of `mesh` are dp, ep, cp, .*; the steps are "):
        distir.transform(program("mlp", "forward"), "mesh", "zp=2")


@pytest.mark.parametrize(("model", "words", "code", "message", "remedy"), [
    ("mlp", "mesh tp=2 sequence", "DIR623", "no sum in `@main` has a sequence", "leave out `sequence`"),
    ("mlp", "mesh ep=2", "DIR623", "`@main` dispatches no tokens to experts", "leave out `ep`"),
    ("mlp", "mesh cp=2", "DIR623", "no attention that could be split along the sequence", "the op `Attention`"),
    ("llama", "mesh tp=2 dp=2 ep=2", "DIR623", "`@main` dispatches no tokens to experts", "leave out `ep`"),
    ("mixtral", "mesh ep=3", "DIR620", "4 experts do not split over 3 devices", "2, 4 would do"),
    ("mixtral", "mesh ep=2 dp=4", "DIR620", "is 4, which does not split over 8 devices", "2, 4 would do"),
    ("llama", "mesh cp=3 zigzag=false", "DIR620", "is 8, which does not split over 3 devices", "2, 4, 8 would do"),
    ("llama", "mesh cp=8", "DIR620", "which does not split into 16 parts, two for each of 8 devices",
     "2, 4 would do, or `zigzag=false`"),
    ("llama", "mesh cp=2 tp=2 cp_kind=a2a", "DIR620", "4 and 2 heads, which do not split over 4 devices", "2 would do"),
    ("mlp", "mesh dp=3", "DIR620", "which does not split over 3 devices", "2, 4, 8 would do"),
    ("mlp", "mesh tp=3", "DIR620", "16 does not split over 3 devices", "2, 4, 8, 16 would do"),
    ("mlp", "mesh dp=2 mesh dp=2", "DIR691", "represents a mesh", "`distir erase` the sequential one"),
    ("mlp", "dp=2 mesh tp=2", "DIR605", "belongs to `@main` over several devices", "apply it to the program before"),
])  # fmt: skip
def test_a_program_that_cannot_be_placed_so_is_refused_with_what_would_do(model, words, code, message, remedy):
    with pytest.raises(distir.ProgramError) as caught:
        distir.transform(program(model, "forward"), *words.split())
    (found,) = caught.value.diagnostics
    assert found.code.number == code
    assert message in found.message
    assert remedy in found.help


def test_the_command_verifies_and_proves_what_it_writes(distir, tmp_path):
    path = tmp_path / "model.dir"
    path.write_text(print_rolled(program("mlp", "step")))
    for compared, said in (("--verify", "verified"), ("--prove", "on each device of `mesh (dp = 2, tp = 2)`")):
        ended = distir("transform", "mesh", "dp=2", "tp=2", "zero=3", path, compared, "-o", tmp_path / "mesh.dir")
        assert ended.code == 0, ended.err
        assert said in ended.err
    assert distir("check", tmp_path / "mesh.dir").code == 0


LOSSES = "SoftmaxCrossEntropyLoss,SoftmaxCrossEntropyLossGrad"


@pytest.mark.parametrize(
    ("model", "option"),
    [("llama", f"whole={LOSSES}"), ("mlp", "split=w1:1,b1:0,w2:0"), ("mlp", "split=w2:1,b2:0")],
)
def test_what_is_split_or_whole_may_be_stated_as_for_tp(model, option):
    kind = "step" if model == "llama" else "forward"
    before = distir.transform(program(model, kind), "tp=2", option.replace("split=", "shard="))
    found = placed(model, kind, f"tp=2 {option}")
    assert time_of(expand(found)) == time_of(before)
    assert without_calls(erase(found)) == without_calls(program(model, kind))
    assert verify(program(model, kind), found).equal
    assert print_module(found) != print_module(placed(model, kind, "tp=2"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dp=2 split=w1:1", "`split` states what shards split: give `tp`"),
        ("dp=2 whole=Softmax", "`whole` names ops that each shard computes by itself: give `tp`"),
        ("tp=2 whole=Softmix", "`whole` expected names of ops, found `Softmix`; did you mean `Softmax`"),
    ],
)
def test_options_of_shards_need_them(words, said):
    with pytest.raises(StepError, match=said):
        distir.transform(program("mlp", "forward"), "mesh", *words.split())


@pytest.mark.parametrize("words", ["tp=2", "dp=2 tp=2 zero=3"])
def test_what_is_recomputed_is_computed_again_on_each_device(words):
    """Rows of an embedding, too, of which each shard has some."""
    base = distir.transform(program("llama", "forward"), "grad", "optimizer=adam", "checkpoint")
    made = distir.transform(base, "mesh", *words.split())
    assert verify(base, made).equal
    as_each_device(made, load("dgx-a100"))


def test_a_layer_that_is_recomputed_shares_the_weights_of_its_backward_pass():
    """They are gathered once in the backward pass, and the table again for the first layer."""
    once = placed("llama", "step", "dp=2 zero=3")
    base = distir.transform(program("llama", "forward"), "grad", "optimizer=adam", "checkpoint")
    again = distir.transform(base, "mesh", "dp=2", "zero=3")
    gathers = [Counter(str(s.args[0]) for f in made for s in ops_in(f, "AllGather")) for made in (once, again)]
    assert gathers[1] - gathers[0] == {"model.embed_tokens.weight": 1}
    assert not gathers[0] - gathers[1]


def test_weights_are_cast_for_each_gather():
    """With the 32-bit weight in parts, no 16-bit part of it waits for the backward pass, as in FSDP."""
    step = distir.transform(program("llama", "forward"), "grad", "optimizer=adam", "precision=mixed", "master=only")
    made = distir.transform(step, "mesh", "dp=2", "zero=3")
    weight = "model.layers.0.mlp.up_proj.weight"
    casts = [s for s in ops_in(made.entry(), "Cast") if s.args[0] == weight]
    gathers = [s for s in ops_in(made.entry(), "AllGather") if s.args[0] in {c.results[0] for c in casts}]
    assert len(casts) == len(gathers) == 2, "forward and backward"
    assert verify(step, made).equal


def test_a_constant_in_a_training_step_is_no_update():
    text = """\
func @main(%w: Tensor[Float32, (4, 4), 1] {param}, %x: Tensor[Float32, (4, 4), 1] {batch = 0}) {
  %one = Constant[value = 1.0]()
  %h = MatMul(%x, %w)
  %y = Mul(%h, %one)
  return %y
}
"""
    step = distir.transform(distir.parse(text), "grad", "loss=mse", "optimizer=momentum")
    assert verify(step, distir.transform(step, "mesh", "dp=2", "zero=1")).equal
