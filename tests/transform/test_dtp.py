"""Data, tensor and pipeline parallelism in one: the results stay, whatever the degrees, schedule and layout.

`DISTIR_TEST_ALL=1` runs the whole product of models, degrees, microbatches and schedules; else a sample of it.
"""

from itertools import pairwise, product
from random import Random

import pytest
from dtp_samples import LAYERS, MODELS
from pipeline_samples import written_out
from sharding_samples import assert_same
from thorough import ALL

import distir
import distir.transform.dtp as step
from distir.diagnostics import ProgramError
from distir.ir import types
from distir.ir.rolling import rolled
from distir.models import mlp, named
from distir.simulate import simulate
from distir.transform import StepError, transform, verify
from distir.transform.pipeline import SCHEDULES

MOST = 8
"""How many devices there are at most."""

DEGREES = [degrees for degrees in product((1, 2, 4, 8), repeat=3) if degrees[0] * degrees[1] * degrees[2] <= MOST]


def schedules(name, stages):
    """The schedules that differ: there is but one without a backward pass, or with one stage."""
    return tuple(SCHEDULES) if name.endswith("training") and stages > 1 else ("1f1b",)


def cases(name):
    found = [
        (name, degrees, microbatches, schedule)
        for degrees in DEGREES
        for microbatches in (1, 2, 4, 8)
        for schedule in schedules(name, degrees[2])
    ]
    return found if ALL else Random(name).sample(found, 3 if name.endswith("training") else 2)


def words(degrees, microbatches, schedule):
    options = [f"microbatches={microbatches}", f"schedule={schedule}"]
    if SCHEDULES[schedule].virtual and SCHEDULES[schedule].stages > 1:
        options.append("virtual=2")
    return [f"dtp={','.join(map(str, degrees))}", *options]


@pytest.mark.by_turns
@pytest.mark.parametrize(("name", "degrees", "microbatches", "schedule"), [c for name in MODELS for c in cases(name)])
def test_results_stay(name, degrees, microbatches, schedule):
    module = MODELS[name]()
    steps = words(degrees, microbatches, schedule)
    too_few = SCHEDULES[schedule].stages * degrees[2] > LAYERS
    if too_few or (schedule == "dualpipev" and microbatches < 2 * degrees[2]):
        with pytest.raises(ProgramError):  # it needs microbatches for both directions, and a layer for each stage
            transform(module, *steps)
    else:
        assert_same(module, transform(module, *steps))


@pytest.mark.parametrize("layout", ["pdt", "dpt", "ptd", "dtp", "tdp", "tpd"])
def test_results_stay_in_every_layout(layout):
    module = MODELS["mlp training"]()
    assert_same(module, transform(module, "dtp=2,2,2", microbatches=2, layout=layout))


LOSS = "SoftmaxCrossEntropyLoss,SoftmaxCrossEntropyLossGrad"


@pytest.mark.parametrize("degrees", [(1, 2, 1), (2, 2, 2)])
def test_a_loss_of_whole_logits_gathers_them_in_their_own_element_type(degrees):
    """As where a framework has no loss of parts of the vocabulary: each shard has all logits, and takes its part of
    their gradient; weights and their optimizer state are split as before."""
    sizes = {"layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "vocabulary": 32}
    module = transform(named("llama3-8b", 4, 8, **sizes), "grad", "loss=cross_entropy", "precision=bf16")
    steps = (f"dtp={','.join(map(str, degrees))}", "microbatches=2")
    parts, whole = (transform(module, *steps, *more) for more in ((), (f"whole={LOSS}",)))
    verify(module, whole)

    def types_of(made):
        return [str(p.type) for p in made.entry().params]

    def gathered(made):
        found = [s for f in made for s in f.body if getattr(s, "op", "") == "MPIAllgather"]
        return [s.args[0] for s in found if "logits" in s.args[0]]

    assert types_of(whole) == types_of(parts)
    assert {*gathered(whole)} <= {"logits_1", "logits_3", "logits_5", "logits_7"}  # not of their copies in Float32
    assert gathered(whole)
    assert not gathered(parts)
    with pytest.raises(StepError, match="`whole` expected names of ops, found `Loss`"):
        transform(module, *steps, "whole=Loss")


# Where the devices are


def axes(layout, degrees):
    """By axis: the groups of devices that talk along it, if all are numbered with the last letter innermost."""
    sizes = dict(zip("dtp", degrees, strict=True))
    places = list(product(*(range(sizes[axis]) for axis in layout)))
    number = {place: i for i, place in enumerate(places, 1)}
    found = {}
    for at, axis in enumerate(layout):
        by_rest = {}
        for place in places:
            by_rest.setdefault((*place[:at], *place[at + 1 :]), []).append(number[place])
        found[axis] = {tuple(group) for group in by_rest.values()}
    return found


def groups(module):
    """The groups of devices over which something is summed, and the pairs that something is sent between."""
    simulation = distir.simulate(module)
    summed, sent = set(), set()
    for effect in simulation.timeline().effects:
        if effect.work.communication is not None:
            (sent if effect.work.communication.pattern == "send" else summed).add(effect.devices)
    return summed, sent


@pytest.mark.parametrize("layout", ["pdt", "dpt", "ptd", "dtp", "tdp", "tpd"])
@pytest.mark.parametrize("degrees", [(2, 2, 2), (4, 2, 1), (1, 2, 4), (2, 1, 3)])
def test_groups_lie_as_the_layout_says(layout, degrees):
    module = distir.models.mlp(12, 8, 32, training=True, dtype="Float64")
    found = transform(module, f"dtp={','.join(map(str, degrees))}", microbatches=2, layout=layout)
    expected = axes(layout, degrees)
    summed, sent = groups(found)
    assert summed == {group for axis in "dt" for group in expected[axis] if len(group) > 1}
    neighbours = {pair for group in expected["p"] for pair in pairwise(group)}
    assert sent == neighbours
    used = {types.device_of(p.type) for p in found.entry().params}
    assert used == set(range(1, degrees[0] * degrees[1] * degrees[2] + 1))


def test_shards_are_neighbours_by_default_and_stages_far_apart():
    module = MODELS["mlp training"]()
    assert transform(module, "dtp=2,2,2") == transform(module, "dtp=2,2,2", "layout=pdt")
    assert axes("pdt", (2, 2, 2))["t"] == {(1, 2), (3, 4), (5, 6), (7, 8)}


# What it is made of


def test_degrees_of_one_leave_their_part_out():
    module = MODELS["mlp training"]()
    assert transform(module, "dtp=1,1,1") == module
    assert transform(module, "dtp=4,1,1") == transform(module, "dp=4")
    assert transform(module, "dtp=1,4,1") == transform(module, "tp=4")
    assert transform(module, "dtp=1,1,4", "microbatches=4") == transform(module, "pp=4", "microbatches=4")


@pytest.mark.by_turns
@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_three_steps_in_turn(name):
    """Which dimensions are split is found in the program on one device by `dtp`, in its pipeline by `tp`."""
    module = MODELS[name]()
    found = transform(module, "dtp=2,2,2", "microbatches=4", "layout=dpt")
    assert found == transform(module, "pp=2", "microbatches=4", "tp=2", "dp=2")


def test_the_largest_model_is_a_few_functions():
    """With 256 calls of its two stages, for each of two replicas, in rounds."""
    module = named("gpt2-175b", 1024)
    found = transform(module, "dtp=2,4,2", microbatches=128)
    assert len(found.functions) < 10
    assert sum(len(rolled(found).functions[name].body) for name in ("main", "round")) < 200
    found = written_out(found)
    calls = [s.function for s in found.entry().body if hasattr(s, "function")]
    assert len(calls) == 2 * 2 * 128
    assert len(set(calls)) <= 4


@pytest.mark.parametrize("degrees", ["2,1,2", "1,2,2", "2,2,3"])
def test_rounds_take_no_more_sums_than_without_them(degrees):
    """A pipeline split with its rounds takes as long, and as much memory, as one split without them."""
    module, (d, t, p) = mlp(6, 64, training=True), degrees.split(",")
    found = transform(module, f"dtp={degrees}", microbatches=24, layout="dpt")
    assert "round" in found.functions
    flat = transform(written_out(transform(module, f"pp={p}", microbatches=24)), f"tp={t}", f"dp={d}", "inline")
    for program in (found, transform(found, "inline")):
        simulations = [simulate(m, "dgx2-v100", bind={"B": 960}) for m in (program, flat)]
        assert len({s.latency_s for s in simulations}) == 1
        assert simulations[0].devices == simulations[1].devices


def test_ends_can_be_left_out():
    module = mlp(4, 8, training=True)
    whole, found = (transform(module, "dtp=2,2,2", microbatches=4, ends=ends) for ends in (True, False))
    assert [f for f in whole if f.name not in ("main.scatter", "main.gather")] == list(found)
    assert len(whole.functions) == len(found.functions) + 2


def test_a_batch_without_a_size_is_cut_into_as_many_microbatches():
    assert transform(named("gpt2-1.6b"), "dtp=1,1,2", microbatches=128).entry()


# Refusals


@pytest.mark.parametrize("word", ["dtp=2", "dtp=2,2", "dtp=2,2,2,2", "dtp=0,1,1", "dtp=-1,1,1"])
def test_other_than_three_degrees_are_refused(word):
    with pytest.raises(StepError, match="three degrees of 1 or more"):
        transform(MODELS["mlp training"](), word)


@pytest.mark.parametrize("layout", ["dt", "ddt", "xyz", "dtpp", ""])
def test_layouts_are_orders_of_the_letters(layout):
    with pytest.raises(StepError, match="letters d, t and p"):
        transform(MODELS["mlp training"](), "dtp=2,2,1", layout=layout)


@pytest.mark.parametrize(("word", "code"), [("dtp=3,1,1", "DIR620"), ("dtp=1,3,1", "DIR620")])
def test_what_does_not_divide_is_refused_with_what_would(word, code):
    with pytest.raises(ProgramError) as refused:
        transform(MODELS["mlp training"](), word)
    (found,) = refused.value.diagnostics
    assert found.code.number == code
    assert "would do" in found.help


HOST_VALUES = """
func @Block(%x: Tensor[Float32, (B, 4)], %w: Tensor[Float32, (4, 4)], %zeros: Tensor[Float32, (B, 4), host]) {
  %y = MatMul(%x, %w)
  %z = Add(%y, %zeros)
  return %z
}

func @main(
  %w1: Tensor[Float32, (4, 4), 1] {param},
  %w2: Tensor[Float32, (4, 4), 1] {param},
  %x: Tensor[Float32, (B, 4), 1] {batch = 0}
) {
  %B = Shape[start = 0, end = 1](%x)
  %width = Constant[value = [4]]()
  %sizes = Concat[axis = 0](%B, %width)
  %zeros = Expand(1.0, %sizes)
  %a = @Block(%x, %w1, %zeros)
  %b = @Block(%a, %w2, %zeros)
  return %b
}
"""


@pytest.mark.parametrize("degrees", ["2,1,1", "2,1,2"])
def test_replicas_take_their_parts_of_what_stages_make_on_the_host(degrees):
    """Inside a stage it is not known how large it is, so it is not known in the functions called there either."""
    module = distir.parse(HOST_VALUES)
    made = transform(module, f"dtp={degrees}", "microbatches=2")
    assert verify(module, made, bind={"B": 8}).equal


@pytest.mark.parametrize("balance", ["uniform", "memory"])
@pytest.mark.parametrize("stages", [1, 2])
def test_what_plans_of_other_replicas_have_found_changes_nothing(balance, stages):
    """Pipelines and their shards are found once for any number of replicas."""
    module = MODELS["mlp training"]()

    def made(replicas):
        options = {"microbatches": 2, "balance": balance, "ends": False, "representative": True}
        return transform(module, f"dtp={replicas},2,{stages}", **options)

    one_after_the_other = [made(replicas) for replicas in (1, 2, 4)]
    for replicas, found in zip((1, 2, 4), one_after_the_other, strict=True):
        for cache in (step._analysed, step._shards, step._checked_shards, step._pipeline):
            cache.cache_clear()
        assert made(replicas) == found
