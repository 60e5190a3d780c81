"""Sequence parallelism: sums scattered along the sequence between the blocks of tensor parallelism."""

import pytest
from sharding_samples import VIT, assert_same, llama, small_gpt2, statements

import distir
from distir.analysis import check
from distir.diagnostics import ProgramError
from distir.models import gpt2, named
from distir.simulate import simulate
from distir.transform import difference, transform, verify
from distir.transform.sharding.batch import BatchPlaces, tokens
from distir.transform.sharding.flow import Flow

LAYERS, BATCH, SEQUENCE, WIDTH = 2, 4, 6, 12
ACTIVATION = BATCH * SEQUENCE * WIDTH * 8
"""Bytes of what passes from block to block."""


def gpt():
    return gpt2(LAYERS, WIDTH, 4, SEQUENCE, batch=BATCH, dtype="Float64", vocabulary=13, positions=7)


def called(module, op):
    """How many times an op runs, in all calls."""
    return sum(_called(module, module.entry().name, op).values())


def _called(module, name, op):
    found = {}
    for s in module.functions[name].body:
        if getattr(s, "op", None) == op:
            found[op] = found.get(op, 0) + 1
        elif getattr(s, "function", None):
            for inner, count in _called(module, s.function, op).items():
                found[inner] = found.get(inner, 0) + count
    return found


CHAINS = [
    "tp=2 sequence=true",
    "tp=2 sequence=true dp=2",
    "dp=2 tp=2 sequence=true",
    "tp=2 sequence=true dp=2 zero=2",
    "dtp=2,2,2 microbatches=2 sequence=true",
    "pp=2 microbatches=2 schedule=zb-h1 tp=2 sequence=true",
    "checkpoint tp=2 sequence=true",
]


@pytest.mark.parametrize("steps", ["", "checkpoint", "pp=2 microbatches=4 schedule=zb-v", "dp=2 zero=3"])
def test_a_named_batch_is_found_where_it_is_without_looking_at_known_sizes(steps):
    model = gpt2(4, WIDTH, 4, SEQUENCE, vocabulary=13, positions=7)
    module = transform(model, "grad", "optimizer=adam", *steps.split())
    analysis, entry = check(module), module.entry()
    every = BatchPlaces(analysis, Flow(analysis.domain, likeliest=True))
    seeds = [(p.name, (), p.roles["batch"]) for p in entry.params if "batch" in p.roles]
    every.follow(entry, tuple(p.type for p in entry.params), seeds)
    assert tokens(analysis, entry) == every.places
    assert any(every.places.values())


@pytest.mark.by_turns
@pytest.mark.parametrize("chain", CHAINS)
def test_results_stay(chain):
    module = transform(gpt(), "grad", "optimizer=adam")
    assert_same(module, transform(module, *chain.split()))


@pytest.mark.parametrize("name", ["gpt-2, its vocabulary split", "llama", "one example", "six shards"])
def test_results_of_other_models_stay(name):
    module, shards = {
        "gpt-2, its vocabulary split": (gpt2(2, 8, 4, 4, batch=4, dtype="Float64", vocabulary=16), 4),
        "llama": (llama(), 2),
        "one example": (gpt2(2, 8, 4, 4, batch=1, dtype="Float64", vocabulary=16), 2),
        "six shards": (gpt2(1, 12, 6, 12, batch=2, dtype="Float64", vocabulary=12), 6),
    }[name]
    assert_same(module, transform(module, f"tp={shards}", "sequence=true"))
    trained = transform(module, "grad")
    assert_same(trained, transform(trained, f"tp={shards}", "sequence=true"))


def test_a_layer_scatters_where_it_summed_and_gathers_where_a_block_begins():
    """Korthikanti et al., 2022, figure 5: two of each per layer; the first layer gets its input whole."""
    found = transform(gpt(), "tp=2", "sequence=true")
    assert called(found, "MPIAllreduce") == 0
    assert called(found, "MPIReduceScatter") == 2 * LAYERS
    assert called(found, "MPIAllgather") == 2 * LAYERS - 1 + 1, "and what the scores are made of"


def test_as_many_bytes_are_sent_as_by_tensor_parallelism_alone():
    """An all-reduce is a reduce-scatter and an all-gather."""

    def sent(module):
        simulation = simulate(module)
        found = difference(simulation, simulation).left.communication_bytes
        return 2 * found.get("allreduce", 0) + found.get("reducescatter", 0) + found.get("allgather", 0)

    alone, spread = (transform(gpt(), "tp=2", *options) for options in ([], ["sequence=true"]))
    assert sent(alone) == 2 * 2 * LAYERS * ACTIVATION
    assert sent(spread) == sent(alone)


def test_what_is_between_blocks_takes_a_part_of_the_memory():
    """What layer normalisation gives is kept for the way back; it was whole on every device."""
    module = transform(gpt2(4, 32, 4, 64, batch=8, dtype="Float64", vocabulary=13), "grad")

    def peak(*options):
        uses = simulate(transform(module, "tp=4", *options)).devices.values()
        return max(use.peak_memory_bytes for use in uses)

    assert peak("sequence=true") < 0.8 * peak()


def test_a_sequence_that_does_not_divide_is_refused():
    for module in (small_gpt2(2, vocabulary=13), distir.parse(VIT)):
        with pytest.raises(ProgramError, match="sequence") as caught:
            transform(module, "tp=2", "sequence=true")
        assert caught.value.diagnostics[0].code.number == "DIR623"


def test_without_a_batch_nothing_tells_the_sequence():
    text = distir.format(gpt()).replace(" {batch = 0}", "")
    with pytest.raises(ProgramError) as caught:
        transform(distir.parse(text), "tp=2", "sequence=true")
    assert caught.value.diagnostics[0].code.number == "DIR621"


# Sums are taken once, in whatever form


def test_a_sum_that_is_needed_in_parts_and_whole_is_taken_once():
    text = """
func @main(%v: Tensor[Float64, (8, 4), 1] {param}, %w: Tensor[Float64, (4, 4), 1] {param},
           %x: Tensor[Float64, (8, 8), 1] {batch = 0}) {
  %h = MatMul(%x, %v)
  %y = MatMul(%h, %w)
  ORDER
  return %a, %b
}
"""
    parts, whole = "%a = Mul(%y, %p)", "%b = Relu(%y)"
    for order in ((parts, whole), (whole, parts)):
        params = "%p: Tensor[Float64, (8, 4), 1] {param}, %x"
        module = distir.parse(text.replace("ORDER", "\n  ".join(order)).replace("%x:", params + ":"))
        found = transform(module, "tp=2", "shard=v:1,w:0,p:0")
        assert_same(module, found)
        sums = sum(len(statements(found, op)) for op in ("MPIAllreduce", "MPIReduceScatter"))
        assert sums == 1


def test_the_gradient_of_a_split_embedding_is_scattered_to_its_shards_and_its_state_to_replicas():
    sizes = {"layers": 1, "width": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "vocabulary": 32}
    module = transform(named("llama3-8b", 4, 8, **sizes), "grad", "loss=cross_entropy", "optimizer=adam", "clip=1")
    whole, found = (
        transform(module, "dtp=2,2,1", "sequence=true", *zero) for zero in ((), ("zero=1", "partition=split"))
    )
    assert verify(module, found).equal
    tables = [p for m in (whole, found) for p in m.entry().params if "embed_tokens" in p.name and "state" in p.roles]
    assert {p.type.shape for p in tables} == {(16, 16), (8, 16)}  # of 32 rows, those of a shard, and those of a replica
