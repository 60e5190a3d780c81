"""Offload to the host: the same results, less memory on devices, and what copies cost."""

from functools import lru_cache

import pytest
from declared_chains import MODELS
from oracle import oracle, same
from pipeline_samples import assert_same_results, random_inputs

import distir
from distir.cost import load, parse
from distir.diagnostics import ProgramError
from distir.models import mlp
from distir.transform import transform, verify
from distir.transform.offload.activations import window
from distir.transform.steps import StepError, listening

SLOW = parse('extends = "gb200"\n[kinds.gb200.host_memory]\nsize = "236GB"\nbandwidth = "1GB/s"')
SMALL = parse('extends = "gb200"\n[kinds.gb200.host_memory]\nsize = "1kB"\nbandwidth = "1GB/s"')
BLOCKS = 6


@lru_cache
def deep():
    """A model whose activations are most of its memory."""
    return mlp(BLOCKS, 64, 4096)


def trained(*words):
    return transform(deep(), "grad", "optimizer=adam", *words)


def use(module, machine="gb200", device=1):
    return distir.simulate(module, machine).devices[device]


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "words",
    [
        ("offload",),
        ("offload", "layers=2"),
        ("checkpoint=2", "offload"),
        ("offload", "dp=2", "zero=3", "overlap"),
        ("offload", "tp=2", "offload=optimizer"),
        ("offload", "pp=3", "microbatches=4"),
        ("offload", "dtp=2,1,2", "microbatches=2", "overlap", "offload=optimizer"),
        ("dp=2", "zero=1", "offload=optimizer", "fuse"),
        ("offload=optimizer",),
        ("offload=optimizer", "dp=2"),
    ],
    ids=" ".join,
)
def test_results_stay_and_the_simulation_is_that_of_the_oracle(words):
    small = mlp(4, 8, 8, "Float64")
    module = transform(small, "grad", "optimizer=adam")
    made = transform(module, *words)
    if f"{module.entry().name}.scatter" in made.functions:
        assert_same_results(module, made, {})
    else:
        given = list(random_inputs(module, 1, {}).values())
        for old, new in zip(distir.run(module, given).values(), distir.run(made, given).values(), strict=True):
            assert (old == new).all()
    for machine in (load("gb200"), SLOW):
        same(distir.simulate(made, machine), oracle(made, machine))


def test_what_is_offloaded_is_on_the_host_and_not_on_the_device():
    before, after = use(trained()), use(trained("offload"))
    assert before.offloaded_bytes == 0
    assert after.offloaded_bytes == 4 * 4096 * 64 * 2  # the first block saves its input, and the last one stays
    assert after.peak_memory_bytes == before.peak_memory_bytes - after.offloaded_bytes


def test_more_layers_take_less_memory():
    peaks = [use(trained("offload", f"layers={n}")).peak_memory_bytes for n in range(2, BLOCKS)]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) > 2


def test_copies_run_beside_what_is_computed_where_the_link_is_fast_enough():
    plain, offloaded = trained(), trained("offload", "layers=2")
    fast = parse('extends = "gb200"\n[kinds.gb200.host_memory]\nsize = "236GB"\nbandwidth = "100TB/s"')
    assert distir.simulate(offloaded, fast).latency_s == pytest.approx(distir.simulate(plain, fast).latency_s, rel=1e-9)
    slow = distir.simulate(offloaded, SLOW)
    copied = 2 * slow.devices[1].offloaded_bytes / 1e9
    assert slow.latency_s > copied


@pytest.mark.parametrize("blocks", range(2, 12))
def test_windows_are_spread_over_the_blocks_and_end_behind_their_own(blocks):
    for count in range(1, blocks):
        ends = [window(block, count, blocks) for block in range(count)]
        assert ends == sorted(ends)
        assert all(block < end < blocks for block, end in enumerate(ends))
        assert ends[-1] == blocks - 1


def test_state_of_the_optimizer_is_on_the_host_but_for_what_is_updated():
    wide = transform(mlp(8, 256, 8), "grad", "optimizer=adam", "dp=2", "zero=1")
    plain, offloaded = use(wide), use(transform(wide, "offload=optimizer"))
    state = offloaded.offloaded_bytes
    assert plain.peak_memory_bytes - state <= offloaded.peak_memory_bytes < plain.peak_memory_bytes - 0.5 * state
    params = transform(wide, "offload=optimizer").entry().params
    assert {str(p.type).endswith("offloaded]") for p in params if p.name.endswith((".m_1", ".v_1"))} == {True}


def test_a_host_with_too_little_memory_is_an_error_with_what_takes_most():
    found = [d for d in distir.simulate(trained("offload"), SMALL).findings() if d.code.number == "DIR505"]
    (one,) = found
    assert one.message.startswith("the host of device 1 has 1.00kB of memory for it, the program offloads ")
    assert one.notes


def test_a_machine_that_states_no_memory_of_hosts_is_refused():
    with pytest.raises(ProgramError, match="DIR516"):
        distir.simulate(trained("offload"), "dgx2-v100")


def test_the_step_says_what_it_offloads():
    with listening() as lines:
        trained("offload", "layers=3")
    (line,) = [line for line in lines if line.startswith("offload")]
    assert "of 3 of 6 blocks" in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("offload", "layers=6"), "at most 5"),
        (("offload", "layers=-1"), "1 or more"),
        (("offload=weights",), "expected `activations` or `optimizer`"),
        (("offload=optimizer", "layers=2"), "is an option of `offload=activations`"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_offloaded_is_said(words, message):
    with pytest.raises(StepError, match=message):
        trained(*words)


@pytest.mark.parametrize("words", [("offload",), ("grad", "offload=optimizer")], ids=" ".join)
def test_where_there_is_nothing_to_offload(words):
    with pytest.raises(ProgramError, match="DIR683"):
        transform(deep(), *words)


def test_optimizer_state_is_offloaded_behind_pipelines():
    with pytest.raises(ProgramError, match="DIR605"):
        trained("offload=optimizer", "pp=2", "microbatches=2")


@pytest.mark.parametrize(
    "steps",
    [("offload=activations", "layers=1", "pp=4", "microbatches=4"), ("offload=activations", "dtp=2,1,2")],
    ids=" ".join,
)
def test_a_stage_fetches_what_it_offloaded_whatever_the_fetch_waits_for(steps):
    """Where the embedding is the head, a fetch waits for a gradient that the last stage makes."""
    model = transform(MODELS["bert"](), "grad")
    assert all(result.equal for result in verify(model, transform(model, *steps)).results)
