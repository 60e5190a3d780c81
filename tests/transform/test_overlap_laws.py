"""Laws of `overlap`: what it may change, by how much, and where sums and gathers are issued."""

from dataclasses import replace

import pytest
from chain_samples import SIZES, distributions, models
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import distir
from distir.analysis import check
from distir.diagnostics import ProgramError
from distir.ir import Apply, Call, Module, names, results, types
from distir.lower import lower, project
from distir.models import gpt2, mlp
from distir.ops import type_of
from distir.simulate import simulate
from distir.transform import reference, transform, verify

LIGHT = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

PERCEPTRON = mlp(4, 64, 64, "Float32")
DECODER = gpt2(3, 32, 4, 16, batch=8, vocabulary=64, positions=16, dtype="Float32")

DISTRIBUTED = [
    "dp=2",
    "dp=2 zero=1 partition=split",
    "dp=2 zero=2",
    "dp=4 zero=3 partition=split",
    "dp=2 zero=3",
    "accumulate=4 dp=2",
    "dtp=2,1,2 microbatches=8",
    "dtp=2,1,2 microbatches=8 sums=stage",
    "dtp=2,2,2 microbatches=4 schedule=zb-h1",
    "dtp=2,1,2 microbatches=4 schedule=interleaved virtual=2 zero=2 partition=split",
    "dtp=2,1,2 microbatches=4 zero=3 partition=split",
]


def trained(model, steps, *options):
    return transform(model, *f"grad optimizer=adam {' '.join(options)} {steps}".split())


def on(module, stream):
    """The ops on a stream, in the order of the entry function."""
    return [s for s in module.entry().body if isinstance(s, Apply) and s.stream == stream]


def seconds(module, machine="dgx-a100", bind=None):
    return simulate(module, machine, bind=bind).latency_s


def peak(module):
    """The largest peak of a device's memory."""
    return max(use.peak_memory_bytes for use in simulate(module).devices.values())


@pytest.mark.by_turns
@pytest.mark.parametrize("steps", DISTRIBUTED)
def test_results_stay_and_no_step_gets_slower(steps):
    plain = trained(PERCEPTRON, steps, "clip=1.0")
    made = transform(plain, "overlap=gradients,weights" if "zero=3" in steps else "overlap=gradients")
    assert seconds(made) < seconds(plain)
    words = f"grad optimizer=adam clip=1.0 {steps}".split()
    assert verify(reference(PERCEPTRON, words), made, seed=1).equal


@LIGHT
@given(model=models(), spread=distributions(), stage=st.integers(0, 3), partition=st.sampled_from(["owner", "split"]))
def test_no_random_program_gets_slower(model, spread, stage, partition):
    module = model.module
    for step in ["grad loss=mse optimizer=adam", *spread, f"zero={stage} partition={partition}"]:
        try:
            module = transform(module, *step.split())
        except ProgramError:
            continue
    for kind in ("overlap=gradients bucket_bytes=300", "overlap=weights"):
        try:
            made = transform(module, *kind.split())
        except ProgramError:
            continue
        note(distir.format(made))
        sizes = SIZES if model.named else {}
        assert seconds(made, bind=sizes) <= seconds(module, bind=sizes)
        module = made


@pytest.mark.parametrize("steps", ["dp=4", "accumulate=4 dp=4", "dtp=4,1,1 representative=true"])
def test_sums_over_free_links_cost_nothing(steps, tmp_path):
    """Data parallelism takes as long as the same step without any sums over devices."""
    made = transform(trained(PERCEPTRON, steps), "overlap=gradients")
    alone = Module(without_sums(f) if f is made.entry() else f for f in made)
    free = tmp_path / "free.toml"
    free.write_text(FREE_LINKS)
    assert seconds(made, free) == pytest.approx(seconds(alone, free), rel=1e-6)


def without_sums(function):
    """The function whose sums over devices give what they are given."""
    body = []
    for s in function.body:
        if isinstance(s, Apply) and s.op in ("MPIAllreduce", "GroupAllreduce"):
            body += [Apply((r,), "Identity", (a,)) for r, a in zip(s.results, s.args, strict=True) if r]
        else:
            body.append(s)
    return replace(function, body=tuple(body))


FREE_LINKS = """
title = "four GPUs, with links that take no time"
groups = [{ kind = "gpu", count = 4 }]

[kinds.gpu]
title = "gpu"
memory = "1GB"
launch = "1us"
memory_bandwidth = { peak = "3GB/s", achieved = "1GB/s" }
flops = { Float32 = { peak = "1TFLOP/s", achieved = "0.7GFLOP/s" }, other = { like = "Float32" } }

[levels.link]
devices = 4
send = { startup = "0us", latency = "0us", bandwidth = "1e6GB/s" }
collective = { startup = "0us", latency = "0us", bandwidth = "1e6GB/s" }
"""


def test_what_is_prefetched_beyond_need_takes_memory_alone():
    plain = trained(DECODER, "dtp=4,1,1 representative=true zero=3 partition=split")
    found = [simulate(transform(plain, "overlap", f"prefetch={ahead}")) for ahead in (0, 1, 2, 3, 30, 31)]
    times = [each.latency_s for each in found]
    peaks = [each.devices[1].peak_memory_bytes for each in found]
    assert times == sorted(times, reverse=True)
    assert peaks == sorted(peaks)
    assert times[-1] == times[-2]
    assert times[1] < times[0] < simulate(plain).latency_s
    assert peaks[-1] > peaks[1]


@pytest.mark.parametrize("steps", ["", "checkpoint "])
def test_gathers_behind_sums_share_their_stream_and_are_not_hidden(steps):
    plain = trained(DECODER, f"{steps}dtp=4,1,1 representative=true zero=3 partition=split")
    beside, behind = (transform(plain, "overlap", f"behind_sums={word}") for word in ("false", "true"))
    times = [simulate(each).latency_s for each in (beside, behind, plain)]
    assert times == sorted(times)
    assert len(set(times)) == 3
    on = {s.stream for s in behind.entry().body if isinstance(s, Apply) and s.op == "GroupAllgather"}
    assert on == {"gather", "reduce"}
    words = f"{steps}dp=4 zero=3 partition=split"
    real = transform(trained(DECODER, words), "overlap", "behind_sums=true")
    assert verify(reference(DECODER, f"grad optimizer=adam {words}".split()), real, seed=1).equal


@pytest.mark.parametrize("steps", ["dp=4 zero=3 partition=split", "dtp=2,1,2 microbatches=4 zero=3 partition=split"])
def test_of_weights_in_one_message_one_waits_on_each_device(steps):
    module = transform(trained(DECODER, steps), "overlap=weights")
    several = 0
    for function in module:
        made = {name: s for s in function.body for name in results(s)}
        for gather in (s for s in function.body if isinstance(s, Apply) and s.op == "MPIAllgather" and s.stream):
            for part in gather.args:
                packed = made[part].args if part in made and made[part].op == "MakeTuple" else (part,)
                several += len(packed) > 1
                assert sum(name in made and made[name].op == "After" for name in packed) <= 1
    assert several


@pytest.mark.each_once
@pytest.mark.parametrize("layout", ["dtp=2,1,1", "dtp=2,2,1", "dtp=2,1,2"])
@pytest.mark.parametrize("stage", [2, 3])
def test_gradients_of_earlier_microbatches_are_not_kept(layout, stage):
    """More microbatches of the same size hold no more gradients, as the devices wait for sums before others begin."""
    zero = f"zero={stage} partition=split"

    def more(count):
        plain = trained(gpt2(3, 32, 4, 16, batch=4 * count, vocabulary=64), f"{layout} microbatches={count} {zero}")
        return peak(transform(plain, "overlap=gradients")) - peak(plain)

    assert more(24) <= more(8)


@pytest.mark.parametrize("zero", ["", "zero=2 partition=split", "zero=3 partition=split"])
def test_a_representative_takes_as_long_as_all(zero):
    steps = f"dtp=2,2,2 microbatches=4 {zero}"
    whole = simulate(transform(trained(PERCEPTRON, steps), "overlap"))
    one = simulate(transform(trained(PERCEPTRON, f"dtp=2,2,2 microbatches=4 representative=true {zero}"), "overlap"))
    assert one.latency_s == whole.latency_s
    for device, use in one.devices.items():
        assert use.peak_memory_bytes == whole.devices[device].peak_memory_bytes


@pytest.mark.parametrize("sums", ["layer", "stage"])
@pytest.mark.parametrize("layout", ["dtp=2,1,2", "dtp=2,1,1", "dtp=2,2,1"])
def test_sums_are_issued_between_the_layers_of_the_last_microbatch(layout, sums):
    made = transform(trained(PERCEPTRON, f"{layout} microbatches=4 sums={sums}"), "overlap=gradients", "bucket_bytes=0")
    analysis, main = check(made), made.entry()
    rank = project(analysis, analysis.instance(main, [p.type for p in main.params]))[1].entry()
    place = [i for i, s in enumerate(rank.body) if getattr(s, "stream", "") == "reduce"]
    layers = [i for i, s in enumerate(rank.body) if isinstance(s, Call) and "Grad" in s.function]
    assert len(place) >= 4
    assert place[0] < layers[-1] < place[-1]


def test_a_bucket_has_its_size_and_one_group_of_devices():
    plain = trained(PERCEPTRON, "dtp=2,2,2 microbatches=4")
    made = transform(plain, "overlap=gradients", "bucket_bytes=12000", "first_bucket_bytes=5000")
    assert transform(plain, "overlap=gradients", "bucket_bytes=12kB", "first_bucket_bytes=5kB") == made
    values = check(made).states[made.entry().name]
    sizes = {}
    for s in on(made, "reduce"):
        given = [type_of(values[name]) for name in names(s.args)]
        assert all(len(types.devices(each)) == 1 for each in given)
        group = tuple(types.device_of(each) for each in given)
        sizes.setdefault(group, []).append(types.nbytes(given[0]))
    assert len(sizes) == 4  # two shards of two stages
    for found in sizes.values():
        assert found[0] >= 5000
        assert len(found) > 1
    alone = transform(plain, "overlap=gradients", "bucket_bytes=0")
    assert len(on(alone, "reduce")) > sum(map(len, sizes.values()))


def test_norms_wait_for_all_sums_and_are_none():
    made = transform(trained(PERCEPTRON, "dp=2", "clip=1.0"), "overlap=gradients", "bucket_bytes=0")
    place = {name: i for i, s in enumerate(made.entry().body) for name in results(s)}
    norms = [s for s in made.entry().body if isinstance(s, Apply) and s.op == "SquaredNorm"]
    assert norms
    assert all(not s.stream for s in norms)
    assert {s.op for s in on(made, "reduce")} == {"MPIAllreduce"}
    assert max(place[s.results[0]] for s in on(made, "reduce")) < max(place[s.results[0]] for s in norms)


def test_gradients_that_are_scattered_are_held_for_two_layers():
    plain = trained(mlp(16, 64, 8, "Float32"), "dtp=4,1,1 representative=true zero=2 partition=split")
    one = 64 * 64 * 4 + 64 * 4
    for size in (0, one):
        made = transform(plain, "overlap=gradients", f"bucket_bytes={size}")
        before, after = (simulate(m).devices[1].peak_memory_bytes for m in (plain, made))
        assert before < after <= before + 2 * one


SCATTERS = ("MPIReduceScatter", "GroupReduceScatter")


def scatters(module):
    """How many messages scatter sums of gradients, in the text of all functions."""
    return sum(isinstance(s, Apply) and s.op in SCATTERS and s.stream == "reduce" for f in module for s in f.body)


@pytest.mark.parametrize("layout", ["dp=2", "dtp=2,1,1 representative=true", "accumulate=4 dp=2"])
def test_scatters_are_in_buckets_as_in_megatron_and_by_layers_as_in_fsdp(layout):
    """By size where weights stay whole; a matrix and its bias together where weights are gathered for each layer."""
    counts = {}
    for stage in (2, 3):
        plain = trained(PERCEPTRON, f"{layout} zero={stage} partition=split")
        for size in (0, 25 << 20):
            counts[stage, size] = scatters(transform(plain, "overlap=gradients", f"bucket_bytes={size}"))
    alone, layers = counts[3, 0], counts[3, 25 << 20]
    assert 0 < layers == alone // 2
    assert counts[2, 25 << 20] < layers or "accumulate" in layout  # there they are reduced where a layer's call ends


def test_what_is_scattered_together_is_one_message_of_torch():
    module = transform(trained(PERCEPTRON, "dp=2 zero=3 partition=split"), "overlap=gradients")
    from lowering_samples import entry

    program = lower([entry(module)]).files["program.py"]
    assert program.count("reduce_scatter_together((") == 4 * 2  # four layers, on two ranks
