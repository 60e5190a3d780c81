"""Laws of stages that are cut by time and by memory: what the simulator says of them, beside equally many layers."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import ALL

from distir.diagnostics import ProgramError
from distir.ir import Call
from distir.models import gpt2, mlp
from distir.simulate import simulate
from distir.transform import StepError, transform, verify
from distir.transform.pipeline.balance import Cuttable, bytes_held, least_bytes, within

pipelines = settings(deadline=None, max_examples=12 if ALL else 5)


@st.composite
def chains(draw):
    """Pieces, some of which hold the same, and how many microbatches are in flight in each run."""
    number = draw(st.integers(1, 7))
    pieces = [
        Cuttable(
            draw(st.integers(0, 9)),
            {draw(st.integers(0, 3)) if draw(st.booleans()) else f"w{i}": 2.0 * i},
            {f"x{i}": draw(st.integers(0, 9)), f"x{i + 1}": 3.0},
            draw(st.integers(0, 5)),
        )
        for i in range(number)
    ]
    for piece, other in itertools.product(pieces, repeat=2):  # what has one name has one size
        other.throughout.update({n: piece.throughout[n] for n in other.throughout if n in piece.throughout})
        other.in_flight.update({n: piece.in_flight[n] for n in other.in_flight if n in piece.in_flight})
    runs = draw(st.integers(1, number))
    return pieces, [draw(st.integers(1, 4)) for _ in range(runs)]


def every_cut(pieces, runs):
    for cut in itertools.combinations(range(1, len(pieces)), runs - 1):
        yield [pieces[a:b] for a, b in itertools.pairwise([0, *cut, len(pieces)])]


def runs_of(pieces, firsts):
    return [pieces[a:b] for a, b in itertools.pairwise([*firsts, len(pieces)])]


def held(runs, flying):
    return max(bytes_held(run, count) for run, count in zip(runs, flying, strict=True))


@given(chains())
def test_the_run_that_holds_most_holds_as_little_as_can_be(given):
    pieces, flying = given
    found = runs_of(pieces, least_bytes(pieces, flying))
    assert all(found)
    assert [*itertools.chain(*found)] == pieces
    assert held(found, flying) == pytest.approx(min(held(cut, flying) for cut in every_cut(pieces, len(flying))))


@given(chains(), st.integers(0, 80))
def test_the_slowest_run_is_as_fast_as_can_be_within_a_limit(given, limit):
    pieces, flying = given
    fitting = [cut for cut in every_cut(pieces, len(flying)) if held(cut, flying) <= limit]
    found = within(pieces, flying, range(len(flying)), limit)
    assert bool(found) == bool(fitting)
    if found:
        slowest = [max(sum(p.seconds for p in run) for run in cut) for cut in (runs_of(pieces, found), *fitting)]
        assert held(runs_of(pieces, found), flying) <= limit * (1 + 1e-6)
        assert slowest[0] == pytest.approx(min(slowest))


def layers_of(made):
    calls = [s for f in made for s in f.body if isinstance(s, Call) and s.facts.stage and s.facts.phase == "forward"]
    passes = {s.facts.stage: made.functions[s.function] for s in calls}
    return [sum(isinstance(s, Call) for s in body.body) for _, body in sorted(passes.items())]


@st.composite
def cut_pipelines(draw):
    """A model whose embedding and head weigh as much as some layers, and how it becomes a pipeline."""
    vocabulary, layers = draw(st.sampled_from([512, 8192, 50304])), draw(st.integers(4, 9))
    model = gpt2(layers, 512, 4, 128, 16, vocabulary, "Float32")
    schedule = draw(st.sampled_from(["gpipe", "1f1b", "zb-h1", "interleaved", "zb-v"]))
    stages = 2 if schedule in ("interleaved", "zb-v") else draw(st.integers(2, 4))
    return model, stages, {"microbatches": draw(st.sampled_from([2, 4, 8])), "schedule": schedule}


@pipelines
@given(cut_pipelines())
def test_by_the_simulator_no_slower_and_no_larger_than_with_equally_many_layers(given):
    model, stages, options = given
    step = transform(model, "grad", "loss=cross_entropy", "optimizer=adam")
    made = {b: transform(step, f"pp={stages}", balance=b, **options) for b in ("uniform", "cost", "memory")}
    found = {balance: simulate(pipeline, "dgx-a100") for balance, pipeline in made.items()}
    assert found["cost"].latency_s <= found["uniform"].latency_s
    largest = {balance: max(u.peak_memory_bytes for u in one.devices.values()) for balance, one in found.items()}
    assert largest["memory"] <= largest["uniform"]
    assert len({sum(layers_of(pipeline)) for pipeline in made.values()}) == 1, "all layers, each once"


def test_the_fastest_stages_that_fit():
    step = transform(gpt2(12, 256, 4, 64, 32, 50304, "Float32"), "grad", "loss=cross_entropy", "optimizer=adam")
    peaks, latencies = {}, {}
    for limit in (None, "0.4GB"):
        options = {"microbatches": 4} | ({} if limit is None else {"memory": limit})
        found = simulate(transform(step, "pp=4", **options), "dgx-a100")
        peaks[limit] = max(use.peak_memory_bytes for use in found.devices.values())
        latencies[limit] = found.latency_s
    assert peaks["0.4GB"] <= 4e8 < peaks[None]
    assert latencies[None] < latencies["0.4GB"]
    with pytest.raises(ProgramError) as error:
        transform(step, "pp=4", microbatches=4, memory="0.1GB")
    assert error.value.diagnostics[0].code.number == "DIR648"


@pytest.mark.parametrize(
    "options",
    [
        {"balance": "memory"},
        {"balance": "memory", "schedule": "interleaved", "virtual": 2},
        {"memory": "10MB"},
        {"balance": "1,3,2,2", "schedule": "interleaved", "virtual": 2},
    ],
)
def test_the_program_is_the_same(options):
    step = transform(mlp(8, 8, batch=8), "grad", "loss=mse")
    made = transform(step, "pp=2", microbatches=4, **options)
    assert verify(step, made).equal
    assert sum(layers_of(made)) == 8


def test_over_replicas_and_shards():
    step = transform(mlp(8, 16, batch=32), "grad", "loss=mse")
    assert verify(step, transform(step, "dtp=2,2,2", microbatches=4, balance="memory")).equal
    with pytest.raises(ProgramError, match="fit into"):
        transform(step, "dtp=2,2,2", microbatches=4, memory="1kB")


def test_what_is_said_of_options_that_do_not_suit():
    step = transform(mlp(4, 8), "grad", "loss=mse")
    with pytest.raises(StepError, match="state `bind=B=64`"):
        transform(step, "pp=2", microbatches=4, balance="memory")
    transform(step, "pp=2", microbatches=4, balance="memory", bind=("B=64",))
    with pytest.raises(StepError, match="`memory` expected `balance=cost`"):
        transform(step, "pp=2", microbatches=4, balance="uniform", memory="1GB", bind=("B=64",))
    with pytest.raises(StepError, match=r"expected a .* such as"):
        transform(step, "pp=2", microbatches=4, memory="much", bind=("B=64",))
    with pytest.raises(StepError, match="`balance` expected `uniform`, `cost`, `memory`, or numbers"):
        transform(step, "pp=2", microbatches=4, balance="time")
