"""The schedule `seq1f1b`: sequences in chunks that follow each other through a pipeline."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thorough import also

import distir
from distir.diagnostics import ProgramError
from distir.ir import Apply
from distir.models import named
from distir.models.catalogue import program
from distir.models.published import PUBLISHED, resized
from distir.simulate import simulate
from distir.transform import StepError, listening, transform, verify
from distir.transform.pipeline.passes import Pass, in_flight
from distir.transform.pipeline.schedules import SCHEDULES

SMALL = {"layers": 4, "width": 16, "heads": 4, "vocabulary": 32, "ffn": 16}
MODELS = {
    "gpt3-125m": SMALL,
    "llama3-8b": SMALL | {"kv_heads": 2, "head_size": 4},
    "gemma2-2b": SMALL | {"kv_heads": 2, "head_size": 4, "window": 5},
}
TOKENS = 16
IN_CHUNKS = ("pp=2", "microbatches=2", "schedule=seq1f1b", "chunks=2")


@cache
def trained(name, batch=8):
    model = program(resized(name, PUBLISHED[name], MODELS[name]), TOKENS, batch, "Float32")
    return transform(model, "grad", "optimizer=adam")


@cache
def pipeline(name, chain):
    return transform(trained(name), *f"{chain} schedule=seq1f1b".split())


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chain", ["pp=2 microbatches=2 chunks=4", "pp=4 microbatches=4 chunks=2 balance=uniform"])
def test_a_training_step_gives_what_the_sequential_one_does(name, chain):
    assert verify(trained(name), pipeline(name, chain)).equal


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "chain",
    [
        "pp=2 chunks=2",
        "pp=2 microbatches=8 chunks=2 sums=stage",
        "dtp=2,2,2 micro_batch=1 chunks=4 sequence=true",
        "dtp=1,2,1 chunks=2",
        "pp=2 microbatches=2 chunks=2 dp=2 zero=3",
        "pp=2 microbatches=4 chunks=2 overlap",
        "pp=2 microbatches=2 chunks=2 fuse",
        *also("pp=1 chunks=2", "pp=2 microbatches=2 chunks=2 dp=2 zero=1"),
    ],
)
def test_beside_other_steps(chain):
    first, *others = chain.split(" chunks=")
    made = transform(trained("llama3-8b"), *first.split(), "schedule=seq1f1b", *f"chunks={others[0]}".split())
    assert verify(trained("llama3-8b"), made).equal


@pytest.mark.by_turns
@pytest.mark.parametrize("before", ["grad precision=mixed optimizer=adam", "grad checkpoint", "fp8=delayed grad", ""])
def test_behind_other_steps(before):
    model = program(resized("llama3-8b", PUBLISHED["llama3-8b"], MODELS["llama3-8b"]), TOKENS, 4, "Float32")
    step = transform(model, *before.split())
    assert verify(step, transform(step, *IN_CHUNKS)).equal


def test_chunks_drop_what_the_whole_does():
    step = transform(
        named("llama3-8b", batch=4, sequence=8, dtype="Float32", dropout=0.25, **MODELS["llama3-8b"]), "grad"
    )
    assert verify(step, transform(step, *IN_CHUNKS)).equal


def test_processes_give_what_the_executor_does(ranks, tmp_path):
    pytest.importorskip("torch")
    ranks.largest_error(pipeline("llama3-8b", "pp=2 microbatches=2 chunks=4"), tmp_path)


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 6))
def test_so_many_chunks_are_in_flight(devices, microbatches, chunks):
    order = SCHEDULES["seq1f1b"](devices, microbatches, chunks)
    for device, tasks in enumerate(order):
        assert in_flight(tasks) == min(devices - device + chunks - 1, microbatches * chunks)
        backward = [(t.microbatch, -t.stage) for t in tasks if t.kind is Pass.BACKWARD]
        assert backward == sorted(backward)
    if chunks == 1:
        assert order == SCHEDULES["1f1b"](devices, microbatches)


@cache
def large():
    sizes = {"layers": 8, "vocabulary": 8192}
    model = program(resized("llama3-8b", PUBLISHED["llama3-8b"], sizes), 8192, 8, "BFloat16")
    return transform(model, "grad", "optimizer=adam")


def simulated(*words):
    return simulate(transform(large(), "pp=4", *words), "dgx-h100")


def test_few_microbatches_take_less_time_and_memory():
    """Of P = 4 devices: P + n - 1 chunks instead of P microbatches, and a bubble of passes n times as short."""
    whole = simulated("microbatches=4")
    cut = simulated("microbatches=4", "schedule=seq1f1b", "chunks=4")
    assert cut.latency_s < whole.latency_s
    most = [max(d.peak_memory_bytes for d in s.devices.values()) for s in (cut, whole)]
    assert most[0] < 0.8 * most[1]


def test_chunks_compute_what_sequences_do():
    """No score is computed of keys behind a query, and none twice; so with weights' gradients."""

    def flops(module, of):
        effects = simulate(module, "dgx-a100").timeline().effects
        return sum(e.work.flops for e in effects if e.op in of)

    for of in (("Attention", "AttentionGrad"), ("MatMul", "Gemm")):
        whole, cut = (
            transform(large(), "pp=2", "microbatches=2", *words) for words in ((), ("schedule=seq1f1b", "chunks=4"))
        )
        assert flops(cut, of) == pytest.approx(flops(whole, of), rel=0.001)


def test_gradients_of_chunks_are_added_to_one_sum():
    """As they are made: none is held beside it until the end, or until the next chunk."""
    (entry,) = (f for f in pipeline("llama3-8b", "pp=2 microbatches=2 chunks=4") if f.name == "main")
    assert not [s for s in entry.body if isinstance(s, Apply) and s.op == "Sum" and "loss" not in s.results[0]]
    tuples = [s for s in entry.body if isinstance(s, Apply) and s.op == "UnpackTuple" and "gradients" in s.args[0]]
    assert len(tuples) == 2, "one for each stage"


@pytest.mark.parametrize("words", [("dtp=2,2,2", "microbatches=2", "sequence=true")])
def test_one_device_represents_all(words):
    words = (*words, "schedule=seq1f1b", "chunks=2")
    whole = simulate(transform(trained("llama3-8b"), *words), "dgx-a100")
    one = simulate(transform(trained("llama3-8b"), words[0], "representative=true", *words[1:]), "dgx-a100")
    assert one.latency_s == whole.latency_s


PREPARED = """
func @layer(%x: Tensor[Float32, (4, 16, 8)], %scale: Tensor[Float32, (8,)], %w: Tensor[Float32, (24, 8)]) {
  %one_more = Add(%scale, 1.0)
  %n = RMSNormalization[axis = -1](%x, %one_more)
  %columns = Transpose[perm = [1, 0]](%w)
  %qkv = MatMul(%n, %columns)
  %q, %k, %v = Split[axis = 2](%qkv)
  %a = Attention[is_causal = true, q_num_heads = 2, kv_num_heads = 2](%q, %k, %v)
  %y = Add(%x, %a)
  return %y
}

func @main(
  %x: Tensor[Float32, (4, 16, 8), 1] {batch = 0},
  %s1: Tensor[Float32, (8,), 1] {param}, %w1: Tensor[Float32, (24, 8), 1] {param},
  %s2: Tensor[Float32, (8,), 1] {param}, %w2: Tensor[Float32, (24, 8), 1] {param}
) {
  %h = @layer(%x, %s1, %w1)
  %y = @layer(%h, %s2, %w2)
  return %y
}
"""
"""Layers use their weights as they prepare them: as Gemma's norms do, and imported linear layers."""


def test_layers_that_prepare_their_weights_are_layers():
    step = transform(distir.parse(PREPARED), "grad")
    with listening() as lines:
        made = transform(step, *IN_CHUNKS, "balance=uniform")
    assert "50 and 50 % of the weights" in lines[0]
    assert verify(step, made).equal


def test_what_cannot_be_cut_is_said():
    step = trained("llama3-8b")
    with pytest.raises(StepError, match=r"`chunks` expected 1 or more with `schedule=seq1f1b`, found 2 with `1f1b`"):
        transform(step, "pp=2", "chunks=2")
    with pytest.raises(StepError, match=r"found `virtual=2`; did you mean `chunks`"):
        transform(step, "pp=2", "schedule=seq1f1b", "virtual=2")
    with pytest.raises(StepError, match="give one of the two"):
        transform(step, "dtp=1,1,2", "context=2", "schedule=seq1f1b", "chunks=2")
    with pytest.raises(ProgramError, match=r"DIR620.*is 16, which does not split over 3 devices"):
        transform(step, "pp=2", "schedule=seq1f1b", "chunks=3")
    bert = named("bert-base", batch=4, dtype="Float32", sequence=8, **SMALL)
    with pytest.raises(ProgramError, match="not causal: the first chunk of a sequence would wait for the last one"):
        transform(bert, "pp=2", "schedule=seq1f1b", "chunks=2")
