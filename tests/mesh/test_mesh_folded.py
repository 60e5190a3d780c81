"""`expert_parallel` on a mesh: experts over any neighbours of a stage, as Megatron's `--expert-model-parallel-size`."""

from functools import cache
from math import lcm

import pytest
from test_mesh_mutants import tried
from test_mesh_simulated import as_each_device
from thorough import also

import distir
from distir.analysis.program import read
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.ir import Apply, ops_in
from distir.ir.rolling import unrolled
from distir.models import named
from distir.prove import prove
from distir.simulate.simulation import simulate
from distir.syntax import print_module
from distir.transform import StepError
from distir.transform.entry import without_idle_ends
from distir.transform.inline import without_calls
from distir.transform.mesh import erase, expand
from distir.transform.sharding import marked_for_context, with_groups, with_owners
from distir.transform.verification import verify

SIZES = {"layers": 1, "batch": 4, "sequence": 16, "width": 16, "heads": 4, "kv_heads": 4, "vocabulary": 32}
MODELS = {
    "mixtral": lambda: named("mixtral-8x7b", **SIZES, head_size=4, experts=8, expert_ffn=16, dtype="Float32"),
    "qwen": lambda: named("qwen3-30b-a3b", **SIZES, head_size=4, experts=8, expert_ffn=16, top_k=3, dtype="Float32"),
    "gpt-oss": lambda: named("gpt-oss-20b", **SIZES, head_size=4, experts=8, expert_ffn=16, window=5, dtype="Float32"),
}

FOLDED = {
    "tp=4 expert_parallel=2 etp=2 sequence": ("8@tp, 16, 16@etp", "dtp=1,4,1 expert_parallel=2 etp=2"),
    "dp=2 tp=4 expert_parallel=4 etp=2": ("8@(tp, ep), 16, 16@etp", "dtp=2,4,1 expert_parallel=4 etp=2"),
    "tp=4 expert_parallel=2 etp=1 sequence": ("8@tp_ep, 16, 16", "dtp=1,4,1 expert_parallel=2 etp=1"),
    "tp=4 expert_parallel=1 etp=2 sequence": ("8, 16, 16@etp", "dtp=1,4,1 expert_parallel=1 etp=2"),
    "cp=2 expert_parallel=1": ("8, 16, 16", "dtp=1,1,1 context=2 expert_parallel=1"),
    "cp=4 cp_kind=ring expert_parallel=2": ("8@cp_ep, 16, 16", "dtp=1,1,1 context=4 cp_kind=ring expert_parallel=2"),
    "cp=4 cp_kind=a2a expert_parallel=2": ("8@cp_ep, 16, 16", "dtp=1,1,1 context=4 cp_kind=a2a expert_parallel=2"),
    "dp=2 cp=2 expert_parallel=4": ("8@(ep, cp), 16, 16", "dtp=2,1,1 context=2 expert_parallel=4"),
    "tp=2 cp=4 expert_parallel=4 etp=1 sequence": (
        "8@(tp, cp_ep), 16, 16",
        "dtp=1,2,1 context=4 expert_parallel=4 etp=1",
    ),
    "tp=4 cp=2 expert_parallel=8 etp=1 sequence": (
        "8@(tp, cp), 16, 16",
        "dtp=1,4,1 context=2 expert_parallel=8 etp=1",
    ),
}
"""How experts are placed, and the step of one axis each that is the same strategy."""

FEW = ["tp=4 expert_parallel=2 etp=1 sequence", "dp=2 cp=2 expert_parallel=4"]
MORE = [strategy for strategy in FOLDED if strategy not in FEW]


@cache
def program(model="mixtral"):
    return distir.transform(MODELS[model](), "grad", "optimizer=adam", "clip=1")


@cache
def folded(strategy, model="mixtral"):
    return distir.transform(program(model), "mesh", *strategy.split())


def meant(strategy, module):
    """The program that a strategy is of: tokens in groups of those that dispatch them, rows by owner of experts."""
    words = dict(word.partition("=")[::2] for word in strategy.split())
    tp, cp, parts = (int(words.get(axis, 1)) for axis in ("tp", "cp", "expert_parallel"))
    made = marked_for_context(module, words.get("cp_kind", "allgather")) if cp > 1 else module
    has_copies = tp // int(words.get("etp", tp)) > parts
    cut = tp if has_copies or ("sequence" in words and cp > 1) else 1
    made = with_groups(made, cp * lcm(2, cut) if cp > 1 else cut)
    return with_owners(made, parts, 0) if parts > 1 else made


@pytest.mark.parametrize("strategy", FOLDED)
def test_axes_with_copies_and_parts_of_the_experts_are_two(strategy):
    placed, _ = FOLDED[strategy]
    made = folded(strategy)
    types = {p.name: str(p.type) for p in made.entry().params}
    assert types["model.layers.0.mlp.experts.up_proj"] == f"Tensor[Float32, ({placed}), 1]"
    assert types["model.layers.0.mlp.experts.up_proj.m"] == f"Tensor[Float32, ({placed}), 1]"
    assert read(print_module(made)).module == made


@pytest.mark.parametrize("strategy", [s for s in FOLDED if "a2a" not in s])  # of which results have other names
def test_without_placements_and_collectives_it_is_the_program(strategy):
    module = distir.transform(MODELS["mixtral"](), "grad", "optimizer=adam")
    made = distir.transform(module, "mesh", *strategy.split())
    assert without_calls(erase(made)) == without_calls(without_idle_ends(meant(strategy, module)))


@pytest.mark.by_turns
@pytest.mark.parametrize("strategy", [*FEW, *also(*MORE)])
@pytest.mark.parametrize("model", ["mixtral", *also("qwen", "gpt-oss")])
def test_every_copy_on_every_device_is_that_of_the_program(model, strategy):
    found = verify(program(model), folded(strategy, model))
    assert found.equal, [row for row in found.results if not row.equal]
    assert not found.unclaimed
    assert found.copies


@pytest.mark.parametrize(("words", "placed"), [
    ("pp=2 microbatches=2 mesh tp=2 cp=2 expert_parallel=2 etp=1 sequence", "8@tp"),
    ("mesh dp=2 cp=2 cp_kind=a2a expert_parallel=4 zero=3 skew=4", "8@(ep, cp)"),
    ("mesh dp=4 expert_parallel=2 zero=1 shard=2", "8@ep"),
    ("checkpoint accumulate=2 mesh dp=4 tp=2 sequence etp=1 expert_parallel=4 zero=3", "8@(tp, ep, dp)"),
    ("mesh dp=8 tp=2 sequence etp=1 expert_parallel=4 zero=3", "8@(tp, ep), 16@dp"),
])  # fmt: skip
def test_so_are_they_in_a_pipeline_and_with_state_in_parts(words, placed):
    before = distir.transform(named("mixtral-8x7b", **{**SIZES, "layers": 2, "batch": 8}, head_size=4, experts=8,
                                    expert_ffn=16, dtype="Float32"), "grad", "optimizer=adam")  # fmt: skip
    made = distir.transform(before, *words.split())
    assert placed in str(next(p.type for p in made.entry().params if "experts.up_proj" in p.name))
    assert verify(before, made).equal


@pytest.mark.parametrize(("strategy", "against_groups"), [
    ("dp=2 tp=4 expert_parallel=4 etp=2", False),
    *((strategy, True) for strategy in FEW),
])  # fmt: skip
def test_it_is_proved_for_all_values(strategy, against_groups):
    """Of those that dispatch tokens in groups: that they do what the program in groups does, and not what it was."""
    module = distir.transform(MODELS["mixtral"](), "grad")
    made = distir.transform(module, "mesh", *strategy.split())
    assert prove(made, meant(strategy, module)).proved
    assert prove(made, module).proved != against_groups


def test_shards_that_share_a_sequence_send_the_tokens_that_they_have():
    made = folded("tp=4 cp=2 expert_parallel=8 etp=1 sequence")
    layer = next(f for f in made if f.name.endswith("Layer"))
    exchanged = {str(s.attrs["axis"]) for s in ops_in(layer, "AllToAll")}
    assert exchanged == {"tp", "cp"}
    gathered = {s.args[0] for s in ops_in(layer, "AllGather")}
    assert not any(s.op == "Route" for s in layer.body if isinstance(s, Apply) and gathered.intersection(s.results))


@pytest.mark.parametrize("strategy", [*FEW, "tp=4 cp=2 expert_parallel=8 etp=1 sequence"])
def test_one_device_takes_what_every_device_takes(strategy):
    assert as_each_device(folded(strategy), load("dgx-a100x2")) > 1


ZIGZAG = "groups that arrive of devices in zig-zag are put in order, one copy of the rows for each all-to-all"
SLOWER = {"cp=4 cp_kind=ring expert_parallel=2": (ZIGZAG, 1.02)}
"""By how much a step takes longer than before, and why; others take at most as long."""


@pytest.mark.parametrize("strategy", FOLDED)
def test_it_takes_no_longer_than_one_axis_after_the_other(strategy):
    _, steps = FOLDED[strategy]
    words = [*steps.split(), *(["sequence"] if "sequence" in strategy else [])]
    before, found = (
        simulate(module, "dgx-a100x2") for module in (distir.transform(program(), *words), expand(folded(strategy)))
    )
    _, most = SLOWER.get(strategy, ("", 1))
    assert found.latency_s <= most * before.latency_s
    peaks = [max(use.peak_memory_bytes for use in made.devices.values()) for made in (before, found)]
    assert peaks[1] <= peaks[0]


def test_what_has_copies_is_summed_over_them_and_rows_travel_among_the_others():
    made = folded("cp=4 cp_kind=ring expert_parallel=2")
    assert made.mesh == (("cp", 2), ("cp_ep", 2))
    assert {s.attrs["axis"] for f in made for s in ops_in(f, "AllToAll")} == {"cp_ep"}
    sums = {s.facts.of: s.attrs["axis"] for s in ops_in(made.entry(), "AllReduce") if s.facts.of}
    assert sums["model.layers.0.mlp.experts.up_proj"] == "cp"
    assert sums["model.layers.0.self_attn.q_proj.weight"] == ("cp", "cp_ep")


@pytest.mark.by_turns
@pytest.mark.parametrize("strategy", FEW)
def test_no_change_is_well_typed_and_wrong(strategy):
    module = distir.transform(MODELS["mixtral"](), "grad")
    made = distir.transform(module, "mesh", *strategy.split())
    tried(strategy, unrolled(made), without_idle_ends(meant(strategy, module)))


@pytest.mark.parametrize(("words", "said"), [
    ("tp=4 expert_parallel=2 etp=1", "2 shards have the same experts, each for its own tokens: `sequence` gives them"),
    ("tp=2 cp=2 expert_parallel=3", "on 3 of 2 devices that share sequences, of which neither divides"),
    ("dp=2 expert_parallel=4", "`expert_parallel=4` expected at most 2 parts of the experts, one on each device"),
    ("dp=2 ep=2 expert_parallel=2", "leave out `ep` and `cp_experts` beside `expert_parallel`"),
    ("cp=2 cp_experts expert_parallel=2", "leave out `ep` and `cp_experts` beside `expert_parallel`"),
    ("dp=4 expert_parallel=4 zero=1 shard=2", "`shard` is the size of groups along `dp`"),
    ("dp=2 expert_parallel=-1", "`expert_parallel` expected the number of parts of the experts, found -1"),
])  # fmt: skip
def test_layouts_of_experts_that_there_are_not(words, said):
    with pytest.raises(StepError, match=said):
        distir.transform(program(), "mesh", *words.split())


def test_a_program_without_experts_has_no_parts_of_them():
    module = named("llama3-8b", **SIZES, head_size=4, ffn=16)
    for words in ("dp=2 expert_parallel=2", "tp=2 expert_parallel=1 etp=1 sequence"):
        with pytest.raises(ProgramError) as caught:
            distir.transform(module, "mesh", *words.split())
        (found,) = caught.value.diagnostics
        assert "dispatches no tokens to experts" in found.message
        assert "`expert_parallel`" in found.help
