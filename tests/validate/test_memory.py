"""What runs take of memory, by part, and how that compares with what was measured."""

from dataclasses import replace
from pathlib import Path

import pytest
from run_samples import changed, row, text

from distir.cost.hardware import MemoryErrors
from distir.validate import plan_of, predict
from distir.validate.memory import RunMemory, memory_of, parts_by_device, totals_by_device
from distir.validate.predictions import simulated, simulation_of
from distir.validate.runs import parse_runs, read_runs

MEASURED = Path(__file__).parents[2] / "examples" / "measured"


def run(**given):
    (found,) = parse_runs(text(row(**given)), "runs.csv")
    return found


def parts(one):
    program = plan_of(one)
    return parts_by_device(program, simulation_of(program))


def test_the_parts_of_a_device_are_its_tensors_and_what_is_beside_them():
    one = run(micro_batch=2)
    (found,) = parts(one).values()
    (use,) = simulated(one).devices.values()
    assert found.weights + found.activations + found.optimizer <= use.peak_memory_bytes
    assert found.optimizer == 6 * found.weights  # in bfloat16; Float32 copies and two moments beside them
    assert found.gradients == 2 * found.weights  # in Float32, of all weights, whatever is live
    assert found.tensors >= use.peak_memory_bytes
    assert predict(one).reported_memory_bytes == found.tensors + found.workspace


@pytest.mark.parametrize("framework", ["aleph", "vtrain", "llm-foundry"])
def test_totals_are_those_of_the_parts(framework):
    program = plan_of(run(framework=framework, tp=1, pp=2))
    simulation = simulation_of(program)
    parts, totals = (by_device(program, simulation) for by_device in (parts_by_device, totals_by_device))
    for device, found in totals.items():
        assert found.needed == parts[device].needed
        assert found.peak(program.memory) == parts[device].peak(program.memory)


def test_a_framework_that_logs_on_its_last_rank_tells_of_the_stage_with_the_logits():
    one = run(tp=1, pp=2, gpus=4, vocab=20000, seq=512)
    found = parts(one)
    assert predict(one).reported_memory_bytes == found[max(found)].peak(plan_of(one).memory)
    other = changed(one, framework="vtrain")
    assert predict(other).reported_memory_bytes == max(p.peak(plan_of(other).memory) for p in parts(other).values())


@pytest.mark.parametrize("framework", ["megatron", "vtrain", "torchtitan"])
@pytest.mark.parametrize("micro_batch", [1, 16])
def test_the_peak_is_what_the_fullest_device_needs_and_fits_is_of_that_device(framework, micro_batch):
    """Megatron reports its last rank's; its first holds more microbatches, and runs out of memory first."""
    sizes = {"layers": 8, "hidden": 2048, "ffn": 8192, "heads": 16, "seq": 2048, "global_batch": 16}
    one = run(framework=framework, tp=1, pp=4, dp=1, gpus=4, micro_batch=micro_batch, recompute="none", **sizes)
    program = plan_of(one)
    devices = simulation_of(program).memory_uses
    overhead = {n: use.overhead.total - use.overhead.fragmentation for n, use in devices.items()}
    found, needed = predict(one), {n: p.tensors + p.reserved + overhead[n] for n, p in parts(one).items()}
    fullest = max(needed, key=lambda device: needed[device])
    assert found.peak_memory_bytes == needed[fullest]
    assert found.capacity_bytes == 85_000_000_000  # the A100's 80 GB, and what its profile leaves out of them
    assert found.fits == (found.peak_memory_bytes <= found.capacity_bytes)
    assert found.peak_memory_bytes > found.reported_memory_bytes


def test_a_tied_embedding_has_gradients_and_state_on_the_last_stage_too():
    tied, untied = (changed(run(tp=1, pp=2), tied=value) for value in (True, False))
    last, other = parts(tied), parts(untied)
    assert last[max(last)].gradients == other[max(other)].gradients


def test_attention_outputs_are_copied_where_flash_attention_runs():
    a100, h100 = run(), run(gpu="h100_80gb")
    copied, plain = (
        max(parts(a100).values(), key=lambda p: p.tensors),
        max(parts(h100).values(), key=lambda p: p.tensors),
    )
    outputs = 4 * 256 * 128 * 2  # layers, tokens, half of the width, bytes
    assert copied.activations - plain.activations == outputs
    assert plain.workspace - copied.workspace == 28 << 20


def test_logits_in_float32_are_as_many_bytes_as_megatron_has_of_them():
    """Two of the logits in bfloat16, four of their copy."""
    logits = 256 * 60160 // 2
    most = max(p.activations for p in parts(run(vocab=60000, layers=1)).values())
    assert 6 * logits < most < 7 * logits


@pytest.mark.by_turns
@pytest.mark.parametrize("number", ["63", "66", "164", "421", "455"])
def test_the_peaks_of_nvidias_tests_are_predicted(number):
    one = next(r for r in read_runs(str(MEASURED / "megatron_golden.csv")) if r.id == f"megatron_golden:{number}")
    found = predict(one)
    assert found.reported_memory_bytes == pytest.approx(one.peak_memory_bytes, rel=0.04)


def test_a_loss_of_parts_of_sequences_holds_as_much_as_that_of_as_many_tokens():
    one = run(framework="torchtitan", tp=1, dp=4, gpus=4, vocab=30000, layers=1, global_batch=4)
    parts = changed(one, seq=2 * one.seq, dp=2, cp=2, global_batch=2)
    assert predict(parts).reported_memory_bytes == pytest.approx(predict(one).reported_memory_bytes, rel=0.05)


def test_logits_that_a_framework_keeps_are_on_the_last_stage():
    whole = run(framework="aleph", gpus=2, dp=1, tp=1, pp=2)
    program = plan_of(whole)
    logits = 2 * whole.micro_batch * whole.seq * whole.vocab
    assert program.kept == 2 * logits  # of two microbatches
    assert plan_of(run(framework="aleph", gpus=2, dp=1, tp=1, pp=2, global_batch=whole.micro_batch)).kept == logits
    simulation = simulation_of(program)
    parts, without = (parts_by_device(p, simulation) for p in (program, replace(program, kept=0)))
    assert [parts[d].tensors - without[d].tensors for d in sorted(parts)] == [0, 2 * logits]


def test_state_of_experts_alone_is_not_sharded_over_those_who_share_them():
    one = changed(run(framework="nemo", tp=1, dp=4), position="rope", experts=4, top_k=2, expert_ffn=512, ep=4)
    (found,) = parts(changed(one, sharding="zero1")).values()
    (whole,) = parts(changed(one, sharding="zero0")).values()
    state = 10 * one.layers * 2 * one.hidden * 512  # each device has one expert of each layer
    assert found.optimizer - state == pytest.approx((whole.optimizer - state) / 4, rel=0.01)


def test_a_gate_that_is_fused_with_its_activation_saves_its_products_alone():
    one = changed(run(framework="nemo", tp=1, dp=1, gpus=1, seq=1024, micro_batch=4, global_batch=4), mlp="swiglu")
    program = plan_of(one)
    assert program.step.strategy.modules == "gates"
    apart = replace(program, step=program.step.with_strategy(checkpoint=False, recompute="", modules=""))
    fused, whole = (parts_by_device(p, simulation_of(p))[1].activations for p in (program, apart))
    waiting = one.layers - 1  # of the last one, nothing waits
    assert whole - fused >= waiting * 2 * one.micro_batch * one.seq * one.ffn


def test_what_experts_give_is_not_saved_where_they_weigh_it_before_their_second_product():
    one = changed(run(framework="nemo", tp=1, dp=4, seq=1024, micro_batch=2, global_batch=8), experts=4, top_k=2, ep=4)
    program = plan_of(changed(one, expert_ffn=512))
    simulation = simulation_of(program)
    other = replace(program, memory=replace(program.memory, weighed_experts=False))
    inside, after = (parts_by_device(p, simulation)[1].activations for p in (program, other))
    rows = 2 * one.micro_batch * one.seq  # each token has two experts
    assert after - inside == pytest.approx(one.layers * 2 * rows * one.hidden, rel=0.3)


@pytest.mark.parametrize(
    ("gpu", "precision", "layouts"), [("h100_80gb", "fp8", 2), ("b200", "fp8", 1), ("b200", "mxfp8", 2)]
)
def test_weights_of_products_in_8_bits_are_held_in_the_layouts_that_products_take(gpu, precision, layouts):
    """By Megatron's `fp8_param_gather`: not in 16 bits beside."""
    one = changed(run(framework="nemo", tp=1, dp=4), gpu=gpu)
    (plain,), (found,) = (parts(changed(one, precision=given)).values() for given in ("bf16", precision))
    products = one.layers * (4 * one.hidden**2 + 2 * one.hidden * one.ffn)
    scales = products // 32 if precision == "mxfp8" else 0  # of the second layout, a byte each
    assert found.weights - plain.weights == (layouts - 2) * products + scales
    assert found.gradients == plain.gradients
    histories = 64 * 1024 * one.layers
    assert found.optimizer == pytest.approx(plain.optimizer * 12 / 10, abs=histories)  # 10 bytes an element in bf16


def test_scales_of_mxfp8_take_a_byte():
    one = changed(run(framework="nemo", tp=1, dp=4), gpu="b200", precision="mxfp8")
    program = plan_of(one)
    simulation = simulation_of(program)
    others = replace(program, step=program.step.with_strategy(scaling="block"))  # the same scales, of 4 bytes
    byte, wide = (parts_by_device(p, simulation)[1].activations for p in (program, others))
    weights = one.layers * (4 * one.hidden**2 + 2 * one.hidden * one.ffn)
    assert wide - byte >= 3 * weights // 32


def test_stages_of_torchtitan_hold_weights_and_gradients_whole_and_others_a_part():
    one = changed(run(framework="torchtitan", tp=1, pp=1, gpus=4, dp=4), sharding="zero3")
    piped = changed(one, pp=2, gpus=8)
    assert "zero=3" in plan_of(one).step.words
    assert "zero=1" in plan_of(piped).step.words
    assert "zero=3" in plan_of(changed(piped, sharding="hsdp:4")).step.words  # stated
    whole, part = (max(found.gradients for found in parts(each).values()) for each in (piped, one))
    assert whole > 1.5 * part


@pytest.mark.parametrize(
    ("layers", "virtual", "sizes"), [(6, 2, "1,2,2,1"), (6, 4, "0,1,1,1,1,1,1,0"), (8, 2, "uniform"), (5, 2, "uniform")]
)
def test_ends_count_as_layers_where_layers_do_not_divide_over_stages(layers, virtual, sizes):
    """As Megatron divides Llama 3.1 405B, of 126 layers; the embedding may be a stage by itself, and the head."""
    one = changed(run(framework="nemo", tp=1, pp=2, dp=2, layers=layers, global_batch=16), virtual=virtual)
    assert f"balance={sizes}" in plan_of(one).step.words
    first, _ = parts(one).values()
    own = -(-layers // 2) if sizes == "uniform" else sum(map(int, sizes.split(",")[::2]))
    products, embedding = 4 * one.hidden**2 + 2 * one.hidden * one.ffn, (one.vocab + one.seq) * one.hidden
    assert first.gradients == pytest.approx(2 * (own * products + embedding), rel=0.05)


def test_with_muon_matrices_have_one_momentum_and_16_bits_beside_their_8():
    one = changed(run(framework="nemo", tp=1, dp=1, gpus=1, gpu="gb300", hidden=512), precision="mxfp8")
    muon, adam = plan_of(changed(one, optimizer="muon")), plan_of(one)
    assert adam.memory.eight_bit_weights
    assert not muon.memory.eight_bit_weights
    (momentum,), (moments,) = (parts_by_device(p, simulation_of(p)).values() for p in (muon, adam))
    matrices = one.layers * (4 * one.hidden**2 + 2 * one.hidden * one.ffn)
    assert moments.optimizer - momentum.optimizer == 4 * matrices


def test_a_run_may_not_fit_where_the_errors_of_memory_leave_it_open():
    found = RunMemory(needed=95, capacity=100, reported=90, errors=MemoryErrors(0.8, 1.25))
    assert (found.fits, found.fit) == (True, "may not fit")
    assert replace(found, needed=80).fit == "fits"
    assert replace(found, needed=130).fit == "does not fit"
    assert replace(found, needed=80, host_fits=False).fit == "does not fit"
    one = run()
    assert memory_of(plan_of(one), simulated(one)).errors == plan_of(one).hardware.memory_errors
