"""Values that one device along an axis has alone: what is refused, what the step writes, and how loads are balanced."""

import math

import pytest
from each_device import as_each_device
from mesh_programs import OWNERS
from test_mesh_step import peak_of, placed, program
from thorough import also_together

import distir
from distir.analysis.program import read
from distir.cost import load
from distir.diagnostics import Span
from distir.ide.hints import Hints, hints
from distir.ide.hover import hover
from distir.ir import DISCARD, TensorType, ops_in
from distir.ir.places import OwnedAlong, SplitAlong
from distir.ir.types import leaves
from distir.ops.communication import MPIBroadcast, MPIReduce
from distir.syntax import print_module, print_rolled
from distir.transform import StepError
from distir.transform.entry import without_idle_ends
from distir.transform.inline import without_calls
from distir.transform.mesh import erase, expand
from distir.transform.verification import verify
from tests.ide.reading_samples import drawn, viewed

STEP = """\
func @main(
  %x: Tensor[Float32, (8@dp, 4), 1] {batch = 0},
  %w: Tensor[Float32, (4, 4), 1] {param},
  %m: Tensor[Float32, (4, 4), 1, on dp 2] {state}
) mesh (dp = 4) {
  %y = MatMul(%x, %w)
  %dw_own = Gemm[transA = true](%x, %y)
  %dw = Reduce[axis = "dp", to = 2](%dw_own)
  %w_own, %m_new = Momentum(%w, %dw, %m)
  %w_new = Broadcast[axis = "dp"](%w_own)
  return %w_new, %m_new
}
"""


SENT = 'Broadcast[axis = "dp"](%w_own)'


@pytest.mark.parametrize(("old", "new", "code", "message", "remedy"), [
    ("(%w, %dw,", "(%w, %dw_own,", "DIR423",
     "`Momentum` expected `%dw_own` on device 2 alone along `dp`, found a pending sum",
     'insert `Reduce[axis = "dp", to = 2]` for `%dw_own`'),
    ("to = 2", "to = 1", "DIR423", "and other devices have other operands",
     'insert `Broadcast[axis = "dp"]` for `%dw`'),
    ("to = 2", "to = 5", "DIR422", "`on dp 5` is no device of the axis, which has 4", "along `dp` count from 1"),
    ("on dp 2", "on dp 0", "DIR422", "`on dp 0` is no device of the axis", "count from 1"),
    ("on dp 2", "on tp 2", "DIR421", "the mesh has no axis `tp`", "the mesh is"),
    ("to = 2", "to = [1, 2]", "DIR424", "`Reduce` over `dp` expected a number for each", "`to = [1, 2]`"),
    ("%dw_own)\n", "%w)\n", "DIR424", "expected a pending sum along `dp`, found `%w` whole", "left to be added up"),
    (SENT, "Identity(%w_own)", "DIR425", "on dp 2]`: copies would differ",
     "`Broadcast[axis = \"dp\"]` brings it there"),
    (SENT, SENT.replace("Broadcast", "AllReduce"), "DIR424", "found `%w_own` on device 2 alone",
     'write `Broadcast[axis = "dp"]`, which gives it to all'),
    (SENT, SENT.replace("_own", ""), "DIR424", "expected a value of one device along `dp`", "left to be sent"),
    ("  return", "  %z = MatMul(%x, %w_own)\n  return", "DIR423", "other operands are parts, which it has not all",
     'insert `Broadcast[axis = "dp"]` for `%w_own`'),
])  # fmt: skip
def test_what_one_device_has_is_used_by_it_alone(old, new, code, message, remedy):
    assert old in STEP
    assert not read(STEP).errors
    found = read(STEP.replace(old, new)).errors[0]
    assert found.code.number == code
    assert message in found.message
    assert remedy in (found.help or "")


def test_other_devices_neither_hold_nor_compute_nor_return_it():
    entry = expand(read(STEP).module).entry()
    assert [p.name for p in entry.params if p.name.startswith("m")] == ["m_2"]
    assert [s.results for s in ops_in(entry, "Momentum")] == [("w_own_2", "m_new_2")]
    assert [s.attrs["root"] for s in ops_in(entry, MPIReduce.name)] == [2]
    assert [s.results for s in ops_in(entry, MPIBroadcast.name)] == [("w_new_1", DISCARD, "w_new_3", "w_new_4")]
    assert entry.returned == ("w_new_1", "w_own_2", "w_new_3", "w_new_4", "m_new_2")
    memory = [use.peak_memory_bytes for use in distir.simulate(read(STEP).module, "dgx-a100").devices.values()]
    assert memory[1] == max(memory)
    assert memory[0] == memory[2] == memory[3] < memory[1]


def test_a_sum_of_what_each_device_has_is_pending_only_if_each_has_a_term():
    assert not read(OWNERS).errors
    found = read(
        OWNERS.replace("Sum(%sa_own, %sb_own)", "Sum(%sa_own, %sa_own)").replace("(%own)", "(%own)", 1)
    ).errors[0]
    assert "`AllReduce` expected a pending sum along `dp`, found `%own` on device 2 alone" in found.message
    one = OWNERS.replace("dp = 2", "dp = 3").replace("(8@dp", "(9@dp")
    found = read(one).errors[0]
    assert "`Sum` expected `%sa_own` whole along `dp`" in found.message


CASES = [
    ("llama", "step", "dp=4 zero=1 partition=owner"),
    ("llama", "adafactor", "dp=2 tp=2 zero=3 partition=owner"),
    ("gemma", "clipped", "dp=2 zero=3 partition=owner"),
    *also_together(
        ("llama", "muon", "dp=2 tp=2 zero=2 partition=owner"),
        ("llama", "mixed", "dp=2 zero=3 partition=owner"),
        ("mixtral", "step", "dp=2 ep=2 zero=3 partition=owner"),
        ("llama", "step", "dp=4 zero=2 shard=2 partition=owner"),
    ),
]


@pytest.mark.parametrize(("model", "kind", "strategy"), CASES)
def test_a_step_with_owners_means_the_program_on_every_device_that_has_a_value(model, kind, strategy):
    made, before = placed(model, kind, strategy), program(model, kind)
    again = read(print_rolled(made))
    assert not again.errors
    assert print_rolled(again.module) == print_rolled(made)
    found = verify(before, made)
    assert found.equal, [row for row in found.results if not row.equal]
    assert not found.unclaimed
    if "ep=" not in strategy and kind != "clipped":  # sums of whole and pending terms are regrouped
        assert without_calls(erase(made)) == without_calls(without_idle_ends(before))
    assert as_each_device(made, load("dgx-a100")) == 1


@pytest.mark.parametrize(("pipe", "strategy"), [
    ("pp=2 microbatches=2", "dp=2 zero=3 partition=owner"),
    *also_together(("accumulate=2", "dp=2 zero=3 partition=owner"), ("accumulate=2", "dp=2 zero=2 partition=owner")),
])  # fmt: skip
def test_stages_hand_on_what_each_device_has_of_their_weights(pipe, strategy):
    before = distir.transform(program("gemma", "step"), *pipe.split())
    made = distir.transform(before, "mesh", *strategy.split())
    assert verify(program("gemma", "step"), made).equal
    assert without_calls(erase(made)) == without_calls(without_idle_ends(before))
    as_each_device(made, load("dgx-a100"))


def owners_of(module):
    params = (p for p in module.entry().params if isinstance(p.type, TensorType))
    return {p.name: [q for q in p.type.places if isinstance(q, OwnedAlong)] for p in params}


def test_a_weight_and_its_state_have_one_owner_and_loads_are_balanced():
    made = placed("llama", "mixed", "dp=2 zero=3 partition=owner")
    found = owners_of(made)
    sizes = {p.name: p.type for p in made.entry().params}
    loads = [0, 0]
    for name in [n for n in found if f"{n}.m" in found]:
        (own,) = found[name]
        assert all(found[f"{name}.{kept}"] == [own] for kept in ("m", "v", "master"))
        loads[own.number - 1] += math.prod(sizes[name].shape)
    assert abs(loads[0] - loads[1]) < max(loads) / 20
    assert not found["input_ids"]


def test_what_no_dimension_divides_is_whole_on_one_device_but_for_vectors():
    model = distir.models.mlp(2, 9, 8, "Float32")
    made = distir.transform(model, "grad", "optimizer=adam", "mesh", "dp=2", "zero=1")
    found = owners_of(made)
    assert [found[f"w{k}.m"] for k in (1, 2)] == [[OwnedAlong("dp", 1)], [OwnedAlong("dp", 2)]]
    assert not found["b1.m"]
    assert not found["w1"]
    even = distir.transform(distir.models.mlp(2, 8, 8, "Float32"), "grad", "optimizer=adam", "mesh", "dp=2", "zero=1")
    assert not any(owners_of(even).values())


def test_over_several_axes_of_replicas_it_is_one_collective():
    made = placed("mixtral", "step", "dp=2 ep=2 zero=3 partition=owner")
    reduced = {s.facts.of: (s.attrs["axis"], s.attrs["to"]) for s in ops_in(made.entry(), "Reduce")}
    axes, to = reduced["model.layers.0.self_attn.q_proj.weight"]
    assert axes == ("dp", "ep")
    assert len(to) == 2
    assert reduced["model.layers.0.mlp.experts.up_proj"][0] == "dp"
    assert {s.attrs["axis"] for s in ops_in(made.entry(), "Broadcast")} <= {"dp", ("dp", "ep")}


def test_groups_of_replicas_have_one_owner_each_and_add_up_their_sums():
    made = placed("llama", "step", "dp=4 zero=2 shard=2 partition=owner")
    assert made.mesh == (("dp", 2), ("shard", 2))
    assert {q.axis for own in owners_of(made).values() for q in own} == {"shard"}
    text = print_module(made)
    line = next(line for line in text.splitlines() if "= AllReduce" in line and "of = %lm_head.weight" in line)
    assert 'AllReduce[axis = "dp"](%dlm_head.weight_sum)' in line


# ---- groups of replicas


@pytest.mark.parametrize(("before", "strategy"), [
    ("", "dp=4 zero=1 shard=2"),
    ("accumulate=2", "dp=4 zero=3 shard=2"),
    *also_together(
        ("", "dp=4 tp=2 zero=3 shard=2"), ("pp=2 microbatches=2", "dp=4 zero=3 shard=2"), ("", "dp=4 zero=2 shard=2")
    ),
])  # fmt: skip
def test_with_groups_it_takes_what_zero_takes_with_them(before, strategy):
    words = dict(word.split("=") for word in strategy.split())
    pipe = dict(word.split("=") for word in before.split())
    base = distir.transform(distir.models.named("llama3-8b", **SIZES), "grad", "optimizer=adam")
    microbatches = pipe.get("microbatches", pipe.get("accumulate"))
    steps = [f"dtp={words['dp']},{words.get('tp', 1)},{pipe.get('pp', 1)}"]
    steps += [f"microbatches={microbatches}"] if microbatches else []
    old = distir.transform(base, *steps, f"zero={words['zero']}", "partition=split", f"shard={words['shard']}")
    made = distir.transform(base, *before.split(), "mesh", *strategy.split())
    assert verify(base, made).equal
    found, other = (distir.simulate(module, "dgx-a100") for module in (expand(made), old))
    assert found.latency_s == other.latency_s
    assert peak_of(expand(made)) == peak_of(old)
    as_each_device(made, load("dgx-a100"))


SIZES = {"layers": 2, "batch": 8, "sequence": 8, "width": 32, "heads": 4, "kv_heads": 2, "head_size": 8, "ffn": 64,
         "vocabulary": 64, "dtype": "Float32"}  # fmt: skip


MOE = {**{k: n for k, n in SIZES.items() if k != "ffn"}, "experts": 4, "expert_ffn": 32}


def test_what_is_gathered_stays_in_the_group():
    made = placed("llama", "step", "dp=4 zero=3 shard=2")
    types = {p.name: p.type for p in made.entry().params}
    assert str(types["input_ids"]) == "Tensor[Int64, (4@(dp, shard), 8), 1]"
    assert types["lm_head.weight"].places == types["lm_head.weight.m"].places == (SplitAlong(0, "shard"),)
    assert {s.attrs["axis"] for f in made for s in ops_in(f, "AllGather", "ReduceScatter")} == {"shard"}
    assert placed("llama", "step", "dp=4 zero=3 shard=4") == placed("llama", "step", "dp=4 zero=3")


def test_stages_split_each_microbatch_over_several_axes():
    base = distir.transform(distir.models.named("mixtral-8x7b", **MOE), "grad")
    made = distir.transform(base, "pp=2", "microbatches=2", "mesh", "dp=2", "ep=2")
    assert "(8@(dp[4, 4], ep[4, 4]), 8)" in print_module(made)
    assert verify(base, made).equal


def test_gradients_of_fewer_bits_are_summed_in_float32_if_that_is_said():
    base = distir.transform(
        distir.models.named("llama3-8b", **{**SIZES, "dtype": "BFloat16"}), "grad", "optimizer=adam"
    )
    made = distir.transform(base, "mesh", "dp=2", "zero=1", "sums=float32")
    text = print_module(made)
    assert 'AllReduce[axis = "dp", wide = true](%dlm_head.weight)' in text
    assert "ReduceScatter" not in text
    assert without_calls(erase(made)) == without_calls(without_idle_ends(base))
    assert verify(base, made).equal
    assert as_each_device(made, load("dgx-a100")) == 2
    old = distir.transform(base, "dp=2", "zero=1", "partition=split", "sums=float32")
    found, other = (distir.simulate(module, "dgx-a100") for module in (expand(made), old))
    assert found.latency_s == pytest.approx(other.latency_s, rel=1e-4)  # `Split` reads more than `Slice`
    assert peak_of(expand(made)) == peak_of(old)
    whole = placed("llama", "step", "dp=2 zero=1 sums=float32")  # of Float32 weights
    assert "wide" not in print_module(whole)


TUPLES = """\
func @dense(%w, %x) {
  %a, %b = UnpackTuple(%w)
  %y = Gemm(%x, %a, %b)
  return %y
}

func @main(
  %w: Tuple[Tensor[Float64, (4, 6), 1], Tensor[Float64, (6,), 1]] {param},
  %v: Tuple[Tensor[Float64, (6, 4), 1], Tensor[Float64, (4,), 1]] {param},
  %x: Tensor[Float64, (8, 4), 1] {batch = 0}
) {
  %h = @dense(%w, %x)
  %a = Tanh(%h)
  %y = @dense(%v, %a)
  return %y
}
"""


@pytest.mark.parametrize("partition", ["split", "owner"])
@pytest.mark.parametrize("zero", [1, 2, 3])
def test_weights_that_are_tuples_are_partitioned_item_by_item(zero, partition):
    base = distir.transform(distir.parse(TUPLES), "grad", "optimizer=sgd")
    made = distir.transform(base, "mesh", "dp=2", f"zero={zero}", f"partition={partition}")
    assert verify(base, made).equal
    stored = {str(leaf.places) for p in made.entry().params if "param" in p.roles for leaf in leaves(p.type)}
    whole = {str(())}
    assert (stored == whole) == (zero < 3)
    as_each_device(made, load("dgx-a100"))


CLIPPED = ("grad", "optimizer=adam", "clip=0.001")


@pytest.mark.parametrize(
    "model",
    [
        "mlp",
        "gpt2",  # the gradient of learned positions is summed before it is one: every device has all of it
    ],
)
def test_the_norm_of_gradients_with_owners_is_one_sum(model):
    base = program(model, "forward")
    base = distir.transform(base, *CLIPPED)
    made = distir.transform(base, "mesh", "dp=2", "zero=2", "partition=owner")
    assert verify(base, made).equal
    sums = [s for s in ops_in(made.entry(), "AllReduce", "Broadcast") if "squared" in str(s.args)]
    assert [s.op for s in sums] == ["AllReduce"]


def test_state_of_no_weight_has_no_owner():
    """What scales are found of, and the scale of a loss, is every device's."""
    for steps in (["fp8=delayed", "history=4", *CLIPPED], ["grad", "optimizer=adam", "loss_scale=dynamic"]):
        base = distir.transform(program("llama", "forward"), *steps)
        made = distir.transform(base, "mesh", "dp=2", "zero=1", "partition=owner")
        assert verify(base, made).equal
        owned = {p.name for p in made.entry().params if any(isinstance(x, OwnedAlong) for x in p.type.places)}
        assert owned
        assert all(name.endswith((".m", ".v")) for name in owned)


def test_a_gradient_that_every_device_has_is_taken_by_the_owner_alone():
    base = distir.transform(program("gpt2", "forward"), "grad", "optimizer=sgd")
    made = distir.transform(base, "mesh", "dp=2", "zero=3", "partition=owner")
    assert verify(base, made).equal
    position = next(p for p in made.entry().params if p.name == "wpe.weight")
    assert isinstance(position.type.places[0], OwnedAlong)
    assert as_each_device(made, load("dgx-a100")) == 1


@pytest.mark.parametrize(("words", "message"), [
    ("cp=4 zero=3 shard=2",
     "`shard` is the size of groups along `dp`: give both, as in `mesh dp=8 zero=3 shard=4`"),
    ("dp=4 shard=2", "`shard` is the size of groups in which `zero` partitions: give it, as in `zero=3 shard=4`"),
    ("dp=4 zero=3 shard=3", "`shard` expected the size of groups that 4 replicas divide into, found 3; 2, 4 would do"),
    ("dp=4 zero=3 shard=-1",
     "`shard` expected the size of groups that 4 replicas divide into, found -1; 2, 4 would do"),
    ("dp=4 partition=owner", "`partition` is how `zero` partitions: give it, as in `zero=1 partition=owner`"),
    ("dp=4 zero=2 sums=float32", "`sums=float32` goes with `zero=1`"),
    ("dp=4 zero=1 sums=float", "there is no `sums` `float`; did you mean `float32`?"),
    ("dp=4 zero=1 partition=owners", "there is no `partition` `owners`; did you mean `owner`?"),
])  # fmt: skip
def test_words_that_say_no_partition_are_refused(words, message):
    with pytest.raises(StepError) as caught:
        distir.transform(program("mlp", "step"), "mesh", *words.split())
    assert str(caught.value) == message


def test_an_editor_says_who_has_a_value():
    shown = drawn(STEP, hints(viewed(STEP), Span(0, len(STEP)), Hints()))
    assert "%dw⟦: f32[4,4] on dp 2⟧ = Reduce" in shown
    assert "%w_new⟦: f32[4,4] whole⟧ = Broadcast" in shown
    said = hover(viewed(STEP), STEP.index("%dw =") + 1).markdown
    assert "one device, number 2 along `dp`, holds `Tensor[Float32, (4, 4), 1]`, 64B" in said
    assert "dp 0  dp 1    dp 2  dp 3\nnone  [:, :]  none  none" in "\n".join(map(str.strip, said.splitlines()))
    of_both = hover(viewed(OWNERS), OWNERS.index("%da =") + 1).markdown
    assert "each of 2 devices, number 2 along `dp`, holds `Tensor[Float32, (4, 3), 1]`" in of_both


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("pipe", ["", "pp=2 microbatches=2"])
def test_counts_and_scales_of_a_step_are_on_all_devices(pipe, optimizer):
    """Which the norm of the gradients decides, on one device: each counts steps, and scales its loss."""
    how = ("precision=fp16", "loss_scale=dynamic", f"optimizer={optimizer}")
    step = distir.transform(distir.models.mlp(4, 8, 16, "Float32"), "grad", *how)
    made = distir.transform(step, *pipe.split(), "mesh", "dp=2", "zero=1", "partition=owner")
    counted = {p.name: p.type for p in made.entry().params if p.name in ("step", "loss_scale", "finite_steps")}
    assert counted
    assert all(t.places == () for t in counted.values())
    assert verify(step, made).equal


def test_a_new_weight_is_written_where_the_old_one_was():
    """Which each device holds until then: its memory is not that of gradients in between."""
    step = distir.transform(distir.models.mlp(8, 64, 64, "Float64"), "grad", "optimizer=adam")
    weights = sum(p.type.nbytes for p in step.entry().params if "param" in p.roles)
    state = sum(p.type.nbytes for p in step.entry().params if "state" in p.roles and isinstance(p.type, TensorType))
    made = distir.transform(step, "mesh", "dp=4", "zero=1", "partition=owner")
    peak = max(use.peak_memory_bytes for use in distir.simulate(expand(made)).devices.values())
    assert peak > 2 * weights + state / 4, "weights, gradients, and what a device owns of the state"
    assert peak < 3 * weights + state / 4, "and no second copy of all weights"


@pytest.mark.parametrize("kind", ["weights", "gradients"])
def test_of_every_device_what_owners_send_is_overlapped(kind):
    """In passes of a stage, which are functions of several devices: each waits for what is on it."""
    sizes = {"layers": 4, "width": 32, "heads": 4, "kv_heads": 2, "head_size": 8, "ffn": 64, "vocabulary": 64}
    step = distir.transform(distir.models.named("llama3-8b", batch=8, sequence=8, dtype="Float32", **sizes), "grad")
    made = distir.transform(step, "pp=2", "microbatches=4", "mesh", "dp=2", "zero=3", "partition=owner")
    assert verify(step, distir.transform(expand(made), f"overlap={kind}")).equal
