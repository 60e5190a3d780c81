"""Collectives of tensor parallelism beside products, in chunks where the simulator gains by it."""

from functools import cache
from pathlib import Path

import pytest
from dtp_samples import MODELS

import distir
from distir.diagnostics import ProgramError
from distir.ir import Apply
from distir.models.catalogue import program
from distir.models.published import PUBLISHED, resized
from distir.simulate import simulate
from distir.transform import StepError, listening, transform, verify
from distir.transform.overlap.products import in_bulk

SLOW_LINKS = str(Path(__file__).parent / "slow_links.toml")
"""Where chunks cost nothing, and links are as slow as products."""

SMALL = {"layers": 2, "width": 32, "heads": 4, "vocabulary": 64}
DECODERS = {
    "llama3-8b": {"kv_heads": 2, "ffn": 64},
    "mixtral-8x7b": {"kv_heads": 2, "expert_ffn": 32, "experts": 4},
    "gpt-oss-20b": {"kv_heads": 2, "head_size": 8, "expert_ffn": 32, "experts": 4, "top_k": 2, "window": 5},
}


def decoder(name):
    return program(resized(name, PUBLISHED[name], {**SMALL, **DECODERS[name]}), 8, 2, "Float32")


def imported():
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from distir.importers import import_torch

    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.LlamaConfig(num_hidden_layers=2, num_key_value_heads=2, **sizes)
    return import_torch(transformers.LlamaForCausalLM(config).eval(), (torch.zeros((2, 8), dtype=torch.int64),))


def gpt2():
    return distir.models.gpt2(2, 32, heads=4, sequence=8, batch=2, vocabulary=64, dtype="Float32")


PROGRAMS = {
    "mlp": lambda: distir.models.mlp(4, 32, batch=16),
    "gpt2": gpt2,
    "imported llama": imported,
    **{name: (lambda name=name: decoder(name)) for name in DECODERS},
}


@cache
def trained(name):
    return transform(PROGRAMS[name](), "grad", "optimizer=sgd")


@cache
def split(name, *steps):
    return transform(trained(name), *steps)


def overlapped(module, *words):
    with listening() as said:
        made = transform(module, "overlap=products", f"hardware={SLOW_LINKS}", *words)
    return made, said


def travelling(module):
    """The collectives on the stream."""
    return [s for f in module for s in f.body if isinstance(s, Apply) and s.stream == "tensor"]


CASES = [
    *((name, ("tp=2", "sequence=true")) for name in PROGRAMS if name != "mlp"),
    *((name, ("tp=2",)) for name in ("mlp", "gpt2", "mixtral-8x7b")),
    ("llama3-8b", ("tp=2", "dp=2")),
]


@pytest.mark.by_turns
@pytest.mark.parametrize(("name", "steps"), CASES, ids=lambda v: v if isinstance(v, str) else " ".join(v))
def test_results_stay_the_same_and_the_step_is_faster(name, steps):
    before = split(name, *steps)
    after, said = overlapped(before)
    assert verify(trained(name), after).equal
    assert travelling(after)
    assert "in chunks" in said[0]
    assert simulate(after, SLOW_LINKS).latency_s < simulate(before, SLOW_LINKS).latency_s


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_as_many_chunks_as_are_stated(chunks):
    made, said = overlapped(split("llama3-8b", "tp=2", "sequence=true"), f"chunks={chunks}")
    assert verify(trained("llama3-8b"), made).equal
    assert ("in chunks" in said[0]) == (chunks > 1)
    gathers = [s for s in travelling(made) if s.op == "MPIAllgather" and s.results[0].startswith("input_layernorm")]
    assert len({s.results[0] for s in gathers}) in (chunks, 2 * chunks, chunks + 1)


@pytest.mark.by_turns
@pytest.mark.parametrize("steps", [("tp=2",), ("tp=2", "sequence=true")], ids=" ".join)
@pytest.mark.parametrize("batch", [1, 3, 4])
def test_chunks_of_a_batch_without_a_size_are_right_for_all_sizes(batch, steps):
    sizes = {**SMALL, **DECODERS["llama3-8b"]}
    model = program(resized("llama3-8b", PUBLISHED["llama3-8b"], sizes), 8, None, "Float32")
    step = transform(model, "grad", "optimizer=sgd")
    made, said = overlapped(transform(step, *steps), "chunks=2", f"bind=B={batch}")
    assert "in chunks" in said[0]
    for size in (2, 3) if batch % 2 else (4, 8):
        assert verify(step, made, bind={"B": size}).equal


def test_a_batch_without_a_size_is_to_be_bound():
    with pytest.raises(ProgramError, match="the dimension `B` has no size; `bind=B=…` states one"):
        overlapped(transform(distir.models.mlp(4, 32), "grad", "tp=2"))


def test_chunks_that_nothing_divides_into_are_said():
    _, said = overlapped(split("llama3-8b", "tp=2", "sequence=true"), "chunks=7")
    assert "in chunks" not in said[0]
    assert len([line for line in said if line.endswith("is not cut: it cannot be divided into 7 chunks")]) > 1


def test_backward_and_forward_are_cut_in_the_functions_of_layers():
    before = split("llama3-8b", "tp=2", "sequence=true")
    made, _ = overlapped(before)
    changed = {f.name for f in made if f != before.functions[f.name]}
    assert {"LlamaDecoderLayer", "LlamaDecoderLayerGrad"} <= changed
    assert len(made.functions["main"].body) < 1.2 * len(before.functions["main"].body)


def test_what_costs_more_than_it_hides_is_left_and_said():
    before = split("llama3-8b", "tp=2", "sequence=true")
    with listening() as said:
        made = transform(before, "overlap=products", "hardware=dgx-h100")
    assert simulate(made, "dgx-h100").latency_s <= simulate(before, "dgx-h100").latency_s
    left = [line for line in said if "is not cut" in line]
    assert any("`%o_proj_sum_1` of `@LlamaDecoderLayer`" in line and "more" in line for line in left)
    assert not [s for s in travelling(made) if "o_proj" in s.results[0] and "chunk" in s.results[0]]


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("name", [name for name in MODELS if "training" in name])
@pytest.mark.parametrize("steps", [("dtp=1,2,2", "microbatches=2"), ("dtp=2,2,1", "microbatches=2"), ("tp=4",)])
def test_beside_pipelines_and_replicas(name, steps):
    module = MODELS[name](4)
    before = transform(module, *steps)
    after, _ = overlapped(before)
    assert verify(module, after).equal
    assert simulate(after, SLOW_LINKS).latency_s <= simulate(before, SLOW_LINKS).latency_s


def test_a_representative_takes_as_long_as_all():
    module = trained("llama3-8b")
    times = [
        simulate(overlapped(transform(module, "dtp=1,2,1", "sequence=true", *words))[0], SLOW_LINKS).latency_s
        for words in ((), ("representative=true",))
    ]
    assert times[0] == times[1]


@pytest.mark.parametrize(
    ("name", "steps"), [("llama3-8b", ("tp=2", "sequence=true")), ("mlp", ("tp=2",))], ids=["gathered", "summed"]
)
def test_processes_give_what_the_executor_does(ranks, tmp_path, name, steps):
    pytest.importorskip("torch")
    made, _ = overlapped(split(name, *steps))
    ranks.largest_error(made, tmp_path)


def test_what_does_not_fit_is_said():
    with pytest.raises(ProgramError, match="no collective gathers an operand of a product"):
        overlapped(transform(trained("mlp"), "dp=2"))
    with pytest.raises(StepError, match="`chunks` expected 1 or more"):
        overlapped(split("mlp", "tp=2"), "chunks=-1")
    open_batch = transform(distir.models.mlp(2, 32), "grad", "optimizer=sgd", "tp=2")
    with pytest.raises(ProgramError, match="has no size"):
        overlapped(open_batch)


@pytest.mark.parametrize(("name", "steps"), CASES)
def test_in_bulk_the_collectives_of_layers_travel_whole_and_the_result_is_the_same(name, steps):
    before = split(name, *steps)
    after = in_bulk(before)
    assert verify(trained(name), after).equal
    entry = next(f.name for f in after if f.name == before.entry().name)
    inner = [f.name for f in after if any(isinstance(s, Apply) and s.stream == "tensor" for s in f.body)]
    assert entry not in inner
    assert sorted(s.op for f in before for s in f.body if isinstance(s, Apply)) == sorted(
        s.op for f in after for s in f.body if isinstance(s, Apply)
    )


def test_in_bulk_what_a_product_does_not_need_travels_beside_it():
    before = split("llama3-8b", "tp=2", "sequence=true")
    after = in_bulk(before)
    assert travelling(after)
    assert simulate(after, SLOW_LINKS).latency_s < simulate(before, SLOW_LINKS).latency_s
