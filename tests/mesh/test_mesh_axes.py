"""The axes of the step `mesh` beside replicas and shards: sequences spread over shards, experts, parts of sequences."""

import random
import re

import pytest
from test_mesh_simulated import as_each_device
from test_mesh_step import placed, program
from thorough import most_programs

import distir
from distir.analysis.program import read
from distir.cost import load
from distir.ir import ops_in
from distir.ir.places import PendingAlong, SplitAlong
from distir.ops.communication import MPIAllgather
from distir.syntax import print_module
from distir.transform.mesh import erase, expand
from distir.transform.mesh.moves import moves
from distir.transform.mesh.values import loose_items, loose_tuple
from distir.transform.verification import verify


@pytest.mark.parametrize(("model", "kind", "strategy", "alike"), [
    ("llama", "step", "dp=2 tp=2 sequence zero=3", True),
    ("mixtral", "step", "dp=2 ep=2", True),
    ("llama", "step", "cp=2 cp_kind=a2a", True),
    ("mixtral", "step", "ep=2 tp=2 etp=1", True),
    ("mixtral of 4 heads", "forward", "tp=4 etp=2 sequence", True),
    ("llama", "step", "dp=2 cp=2", True),
    ("llama", "forward", "cp=4 cp_kind=ring", True),
    ("llama", "step", "dp=2 cp=2 zigzag=false", False),
    ("bert", "forward", "cp=2", True),
])  # fmt: skip
def test_it_takes_what_every_device_takes(model, kind, strategy, alike):
    """In order, causal attention of later parts of a sequence is of more keys: then no device stands for all."""
    made = placed(model, kind, strategy)
    assert (as_each_device(made, load("dgx-a100x2")) > 1) == alike


def test_between_the_blocks_that_shards_split_activations_are_parts_of_sequences():
    layer = next(f for f in placed("llama", "forward", "tp=2 sequence") if "Layer" in f.name)
    text = print_module(distir.Module([layer]))
    assert re.findall(r"= (\w+)\[axis = .tp.(?:, dim = \d)?\]", text) == 2 * ["AllGather", "ReduceScatter"]
    assert "%x: Tensor[Float32, (B, 8@tp, 32)]" in text


def test_the_gradient_of_a_norm_is_summed_over_shards_whose_sequences_are_spread():
    text = print_module(placed("llama", "step", "dp=2 tp=2 sequence"))
    of = [line for line in text.splitlines() if "of = %model.norm.weight" in line and "AllReduce" in line]
    assert [re.search(r'axis = "(\w+)"', line)[1] for line in of] == ["dp", "tp"]
    whole = print_module(placed("llama", "step", "dp=2 tp=2"))
    assert len([line for line in whole.splitlines() if "of = %model.norm.weight" in line and "AllReduce" in line]) == 1


def test_experts_are_not_gathered_and_their_gradients_are_summed_over_copies_of_them_alone():
    made = placed("mixtral", "step", "dp=2 ep=2")
    types = {p.name: str(p.type) for p in made.entry().params}
    assert "(4@ep, 32, 32)" in types["model.layers.0.mlp.experts.up_proj"]
    assert "4@(dp, ep)" in types["input_ids"]
    sums = {s.facts.of: s.attrs["axis"] for s in ops_in(made.entry(), "AllReduce") if s.facts.of}
    assert sums["model.layers.0.mlp.experts.up_proj"] == "dp"
    assert sums["model.layers.0.self_attn.q_proj.weight"] == ("dp", "ep")
    assert all(s.attrs["axis"] == "ep" for f in made for s in ops_in(f, "AllToAll"))


def test_what_experts_were_given_is_not_sent_again_in_the_backward_pass():
    made = placed("mixtral", "step", "ep=2")
    counts = {f.name: len([*ops_in(f, "AllToAll")]) for f in made}
    assert counts["MixtralDecoderLayer"] == 3  # rows, their counts, and results
    assert counts["MixtralDecoderLayerGrad"] == 2


@pytest.mark.parametrize(("model", "strategy"), [("llama", "dp=4 cp=2"), ("qwen", "dp=2 ep=2 cp=2")])
def test_rows_of_one_sequence_for_each_replica_are_not_gathered(model, strategy):
    """Tokens in one dimension are in blocks along `cp`, of which each replica has one: it divides by replicas alone."""
    made = placed(model, "step", strategy)
    assert not any(ops_in(made.entry(), "AllGather"))
    assert verify(program(model, "step"), made).equal


def test_recomputation_and_backward_pass_share_what_is_gathered():
    before = distir.transform(
        program("llama", "forward"), "grad", "optimizer=adam", "precision=mixed", "master=only", "checkpoint"
    )
    made = distir.transform(before, "mesh", "dp=2", "zero=3")
    gathered = [s.facts.phase for s in ops_in(made.entry(), "AllGather") if "layers.0.self_attn.q_proj" in s.args[0]]
    assert gathered == ["forward", "backward"]
    assert verify(before, made).equal


def test_optimizer_state_is_split_over_all_that_would_have_the_same():
    made = placed("mixtral", "step", "dp=2 ep=2 zero=3")
    types = {p.name: p.type for p in made.entry().params}
    own = types["model.layers.0.mlp.experts.up_proj.m"].places
    assert [(place.axis, place.dim) for place in own] == [("ep", 0), ("dp", 1)]
    others = types["model.layers.0.self_attn.q_proj.weight.m"].places
    assert [(place.axis, place.dim) for place in others] == [("dp", 0), ("ep", 0)]


def test_experts_stay_where_they_are_when_microbatches_hand_weights_on_in_tuples():
    before = distir.transform(program("mixtral", "step"), "accumulate=2")
    made = distir.transform(before, "mesh", "ep=2", "zero=3")
    gathered = [str(s.args[0]) for f in made for s in ops_in(f, "AllGather")]
    assert any("self_attn" in name for name in gathered)
    assert not any("experts" in name for name in gathered)
    assert any(ops_in(f, "AllToAll") for f in made)
    assert verify(program("mixtral", "step"), made).equal


def drawn_loose(draw, depth):
    """Axes of a value, or of the items of a tuple."""
    if depth == 0 or draw.random() < 0.3:
        return frozenset(draw.sample(["dp", "ep"], draw.randint(0, 2)))
    return tuple(drawn_loose(draw, depth - 1) for _ in range(draw.randint(1, 3)))


@pytest.mark.parametrize("seed", range(50))
def test_what_is_packed_in_tuples_is_unpacked_as_it_was(seed):
    items = tuple(drawn_loose(random.Random(seed), 2) for _ in range(2)) * (1 + seed % 2)
    found = loose_items(loose_tuple(items), len(items))
    assert [*map(unpacked, found, items)] == [*map(unpacked, items, items)]


def unpacked(found, like):
    """The axes of each value, where a tuple may say of all its items what they have in common."""
    if not isinstance(like, tuple):
        return found
    return [*map(unpacked, loose_items(found, len(like)), like)]


def test_histories_of_8_bit_floats_are_whole_on_each_replica():
    before = distir.transform(program("llama", "forward"), "fp8=delayed", "grad", "optimizer=adam")
    made = distir.transform(before, "mesh", "dp=2", "zero=1")
    places = {p.name: p.type.places for p in made.entry().params if p.name.endswith((".history", ".m"))}
    assert {bool(own) for name, own in places.items() if name.endswith(".m")} == {True}
    assert {own for name, own in places.items() if name.endswith(".history")} == {()}
    assert verify(before, made).equal


def test_sums_over_shards_of_parts_are_taken_once_for_all_microbatches():
    """Norms of a part of the tokens: their gradients are reduced to parts over replicas, and then added up."""
    before = distir.transform(program("llama", "step"), "accumulate=2")
    made = distir.transform(before, "mesh", "dp=2", "tp=2", "sequence", "zero=2")
    norms = [f.name for f in made for s in ops_in(f, "AllReduce") if "norm.weight" in str(s.args[0])]
    assert norms
    assert {*norms} == {"main"}
    assert verify(program("llama", "step"), made).equal


def test_heads_are_exchanged_for_places_around_attention():
    layer = next(f for f in placed("llama", "forward", "cp=2 cp_kind=a2a") if "Layer" in f.name)
    (attention,) = ops_in(layer, "Attention")
    assert "context" not in attention.attrs
    assert [(s.attrs["split"], s.attrs["join"]) for s in ops_in(layer, "AllToAll")] == [(2, 1)] * 3 + [(1, 2)]


def random_strategy(seed):
    """A model, what is done with it, and a strategy on at most 8 devices."""
    draw = random.Random(seed)
    model, kind = draw.choice(["llama", "gemma", "mixtral", "qwen", "bert"]), draw.choice(["forward", "step", "mixed"])
    axes = ["dp", "cp", "tp", *(["ep"] if model in ("mixtral", "qwen") else [])]
    chosen = draw.sample(axes, draw.randint(1, 3))
    words = [f"{axis}=2" for axis in chosen]
    words += ["sequence"] if "tp" in chosen and draw.random() < 0.6 else []
    words += [f"cp_kind={draw.choice(['ring', 'allgather'])}"] if "cp" in chosen else []
    words += ["zigzag=false"] if "cp" in chosen and draw.random() < 0.3 else []
    has_experts = "ep" in axes
    words += ["etp=1"] if "tp" in chosen and has_experts and draw.random() < 0.4 else []
    words += ["cp_experts"] if "cp" in chosen and has_experts and "etp=1" not in words and draw.random() < 0.4 else []
    words += [f"zero={draw.randrange(4)}"] if {*chosen} - {"tp"} else []
    return model, kind, " ".join(words)


@pytest.mark.parametrize("seed", range(most_programs(6)))
def test_any_strategy_gives_the_same_on_every_copy_in_the_time_of_every_device(seed):
    model, kind, strategy = random_strategy(seed)
    made = placed(model, kind, strategy)
    found = verify(program(model, kind), made)
    assert found.equal, (model, kind, strategy)
    assert not found.unclaimed
    as_each_device(made, load("dgx-a100x2"))


DP, CP, TP = (SplitAlong(0, axis) for axis in ("dp", "cp", "tp"))


@pytest.mark.parametrize(("now", "wanted", "written"), [
    ([PendingAlong("dp"), PendingAlong("cp")], [], [("AllReduce", ("dp", "cp"))]),
    ([PendingAlong("dp"), PendingAlong("cp")], [DP, CP], [("ReduceScatter", ("dp", "cp"))]),
    ([DP, CP], [], [("AllGather", ("dp", "cp"))]),
    ([PendingAlong("dp"), PendingAlong("tp")], [], [("AllReduce", ("dp",)), ("AllReduce", ("tp",))]),
    ([PendingAlong("dp"), PendingAlong("cp")], [DP], [("ReduceScatter", ("dp",)), ("AllReduce", ("cp",))]),
    ([], [DP, SplitAlong(0, "cp", (8, 8))], [("Shard", ("dp",)), ("Shard", ("cp",))]),
    ([TP, DP, CP], [], [("AllGather", ("dp", "cp")), ("AllGather", ("tp",))]),
])  # fmt: skip
def test_over_axes_of_replicas_it_is_one_collective(now, wanted, written):
    made = moves(tuple(now), tuple(wanted), (("dp", "cp"),))
    assert [(move.op, move.axes) for move in made] == written


BLOCKS = """func @main(%x: Tensor[Float32, (4@dp, 8@cp, 2), 1]) mesh (dp = 2, cp = 2) {
  %rows = Flatten[axis = 2](%x)
  %y: Tensor[Float32, (32@(dp, cp[8, 8, 8, 8]), 2), 1] = Neg(%rows)
  %z = AllGather[axis = "cp", dim = 0](%y)
  return %z
}
"""


def test_blocks_along_one_axis_are_of_parts_along_others():
    found = read(BLOCKS)
    assert not found.errors
    assert print_module(found.module) == BLOCKS
    (gathered, *_) = ops_in(expand(found.module).entry(), MPIAllgather.name)
    assert len(gathered.results) == 2
    assert verify(erase(found.module), found.module).equal


@pytest.mark.parametrize(
    "blocks", ["(cp[8, 8, 8, 8], dp)", "(dp, cp[16, 8, 8])", "(dp, cp[16, whole 16])", "(dp, cp[32])"]
)
def test_blocks_that_parts_along_another_axis_would_cut_are_refused(blocks):
    text = f"""func @main(%x: Tensor[Float32, (32@{blocks}, 2), 1]) mesh (dp = 2, cp = 2) {{
  return %x
}}
"""
    (found,) = read(text).errors
    assert found.code.number == "DIR422"
    assert "is split in blocks along `cp`, and along another axis" in found.message
    assert found.help == "gather along one of them first"


def test_strategies_are_proved_for_all_values(distir, tmp_path):
    for model, words in (("llama", "dp=2 tp=2 sequence zero=3"), ("mixtral", "dp=2 ep=2"), ("llama", "dp=2 cp=2")):
        path = tmp_path / f"{model}.dir"
        path.write_text(print_module(program(model, "step")))
        ended = distir("transform", "mesh", *words.split(), path, "--prove", "-o", tmp_path / "mesh.dir")
        assert ended.code == 0, (words, ended.err)
        assert "proved" in ended.err


@pytest.mark.parametrize("strategy", ["dp=2 tp=2", "dp=2 tp=2 sequence zero=3"])
def test_axes_may_be_stated_in_another_order(strategy):
    """Which devices are neighbours changes then, and nothing else: sizes of parts are those of both axes."""
    step = distir.transform(distir.models.gpt2(1, 32, 4, 8, batch=8, vocabulary=48), "grad", "loss=cross_entropy")
    text = print_module(distir.transform(step, "mesh", *strategy.split()))
    made = distir.parse(text.replace("mesh (dp = 2, tp = 2)", "mesh (tp = 2, dp = 2)"))
    assert made.mesh == (("tp", 2), ("dp", 2))
    assert verify(step, made).equal


def test_state_of_experts_is_a_part_of_what_their_owner_has():
    """So their gradients go to it in one message, and nothing is gathered but the new weights."""
    sizes = {"layers": 1, "width": 32, "heads": 4, "kv_heads": 2, "head_size": 8, "experts": 8, "expert_ffn": 32}
    model = distir.models.named("mixtral-8x7b", batch=8, sequence=8, vocabulary=64, dtype="Float32", **sizes)
    step = distir.transform(model, "grad", "optimizer=adam")
    made = distir.transform(step, "mesh", "dp=2", "ep=2", "tp=2", "etp=1", "zero=1")
    weight = "model.layers.0.mlp.experts.up_proj"
    types = {p.name: str(p.type) for p in made.entry().params}
    assert types[weight] == "Tensor[Float32, (8@(tp, ep), 32, 32), 1]"
    assert types[f"{weight}.m"] == "Tensor[Float32, (8@(tp, ep, dp), 32, 32), 1]"
    moved = [s for s in ops_in(made.entry(), "AllGather", "ReduceScatter") if weight in s.results[0]]
    assert [(s.op, s.attrs["axis"]) for s in moved] == [("ReduceScatter", "dp"), ("AllGather", "dp")]


def test_rows_in_8_bits_are_sent_to_experts_along_their_axis_alone():
    """Scales of blocks of a row are found where the row is; replicas quantise their own rows."""
    sizes = {"layers": 1, "width": 32, "heads": 4, "kv_heads": 2, "head_size": 8, "experts": 4, "expert_ffn": 32}
    model = distir.models.named("gpt-oss-20b", batch=8, sequence=32, vocabulary=64, dtype="Float32", **sizes)
    step = distir.transform(model, "fp8=mx", "experts=true", "grad")
    made = distir.transform(step, "mesh", "dp=2", "ep=2")
    layers = [f for f in made if f.name.startswith("GptOssDecoderLayer")]
    moved = {(s.op, s.attrs["axis"]) for f in layers for s in ops_in(f, "AllGather", "AllToAll")}
    assert moved == {("AllToAll", "ep")}
    assert verify(step, made).equal
