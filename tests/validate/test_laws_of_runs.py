"""Laws of predictions: what holds of any run that makes sense, whoever brings it."""

import re
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import most_examples

from distir.transform import strategy_of, words_of
from distir.validate import FRAMEWORKS, predict, read_runs
from distir.validate.machines import BEFORE_HOPPER, BLACKWELL, GPUS
from distir.validate.plans import plan_of
from distir.validate.predictions import REFUSALS
from distir.validate.runs import IN_WORDS, WORDS, MeasuredRun, said_in

MEASURED = sorted((Path(__file__).parents[2] / "examples/measured").glob("*.csv"))
few = settings(max_examples=most_examples(5))  # an example is three programs

DENSE = {"heads": 4, "ffn": 512}
EXPERTS = {**DENSE, "experts": 8, "top_k": 2, "expert_ffn": 128}
MODELS = (
    {**DENSE, "mlp": "gelu", "norm": "layernorm", "position": "learned", "bias": True},
    {**DENSE, "mlp": "relu2", "norm": "layernorm", "position": "rope", "tied": False},
    {**DENSE, "mlp": "swiglu", "norm": "rmsnorm", "position": "rope", "kv_heads": 2, "attention_kind": "gqa"},
    {**EXPERTS, "mlp": "swiglu", "norm": "rmsnorm", "position": "rope", "tied": False},
    {**EXPERTS, "mlp": "swiglu", "norm": "rmsnorm", "attention_kind": "mla", "shared_experts": 1, "dense_layers": 1},
)
OPTIONS = {
    "recompute": st.sampled_from(["none", "full", "selective", "modules:core_attn"]),
    "attention": st.sampled_from(WORDS["attention"]),
    "sharding": st.sampled_from(["zero0", "zero1", "zero2", "zero3", "zero1:2", "hsdp:2"]),
    "sequence_parallel": st.booleans(),
    "compile": st.booleans(),
    "async_tp": st.booleans(),
    "dropout": st.sampled_from([0, 0.1]),
    "cuda_graphs": st.booleans(),
    "node_gbps": st.sampled_from([200.0, 3200.0]),
}


def precisions(gpu):
    """What the products of a GPU may be in."""
    if gpu == "v100_32gb":
        return ["fp16"]
    return ["bf16", "fp16", *(["fp8"] if gpu not in BEFORE_HOPPER else []), *(["mxfp8"] if gpu in BLACKWELL else [])]


@st.composite
def runs(draw):
    """A run of a small model in a layout that makes sense."""
    model, gpu = draw(st.sampled_from(MODELS)), draw(st.sampled_from(sorted(GPUS)))
    dp, tp, pp, cp = (draw(st.sampled_from(sizes)) for sizes in ((1, 2, 3, 4), (1, 1, 2), (1, 1, 2, 3), (1, 1, 1, 2)))
    virtual = draw(st.sampled_from([1, 1, 2])) if pp > 1 else 1
    given = draw(st.fixed_dictionaries({}, optional=OPTIONS))
    ep = draw(st.sampled_from([n for n in (1, 2, 4) if dp % n == 0])) if "experts" in model else None
    size, count = draw(st.sampled_from([1, 2])), pp * draw(st.sampled_from([1, 2]))
    sizes = {"hidden": 256, "layers": 4, "vocab": 1000, "seq": 256, **model}
    degrees = {"gpus": dp * tp * pp * cp, "dp": dp, "tp": tp, "pp": pp, "cp": cp, "ep": ep, "virtual": virtual}
    batch = {"micro_batch": size, "global_batch": dp * size * count}
    words = {"gpu": gpu, "precision": draw(st.sampled_from(precisions(gpu)))}
    framework = draw(st.sampled_from(sorted(FRAMEWORKS)))
    own = {"id": "r:1", "framework": framework, **sizes, **batch, **words, **given, **degrees}
    said = said_in({name: own.pop(name) for name in IN_WORDS if name in own})
    return MeasuredRun(**own, said=said)


@few
@given(runs())
def test_a_run_has_a_time_or_a_sentence_that_says_why_not_and_more_work_takes_more(run):
    """Of rows, not of programs; more sequences in a microbatch, and more layers, take more time and memory."""
    found = predict(run)
    if found.step_time_s is None:
        assert re.fullmatch(r"[^\n@%]+", found.note), found.note
        assert "DIR" not in found.note
        return
    assert found.note == ""
    assert found.step_time_s > 0
    wider = replace(run, micro_batch=2 * run.micro_batch, global_batch=2 * run.global_batch)
    for more in map(predict, (wider, replace(run, layers=2 * run.layers))):
        assert more.note == ""
        assert more.step_time_s >= found.step_time_s
        assert more.peak_memory_bytes >= found.peak_memory_bytes


def test_the_strategy_of_a_published_run_is_that_of_its_words():
    """So whatever a run does can be tried with `distir transform`."""
    for path in MEASURED:
        for one in read_runs(str(path))[::25]:
            try:
                strategy = plan_of(one).step.strategy
            except REFUSALS:
                continue
            assert strategy_of(words_of(strategy)) == strategy, one.id
