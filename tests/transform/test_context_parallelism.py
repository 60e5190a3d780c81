"""The step `cp`: devices share sequences; attention exchanges keys and values, and all else stays where it is."""

from functools import cache

import pytest
from thorough import also

import distir
from distir.diagnostics import ProgramError
from distir.ir import Apply
from distir.models.catalogue import program
from distir.models.published import PUBLISHED, resized
from distir.simulate import simulate
from distir.transform import StepError, transform, verify

SMALL = {"layers": 2, "width": 32, "heads": 4, "vocabulary": 64}
MODELS = {
    "llama3-8b": {"kv_heads": 2, "head_size": 8, "ffn": 64},
    "gpt-oss-20b": {"kv_heads": 2, "head_size": 8, "expert_ffn": 32, "experts": 4, "top_k": 2, "window": 5},
    "gemma2-2b": {"kv_heads": 2, "head_size": 8, "ffn": 64, "window": 5},
    "deepseek-v3": {"layers": 3, "ffn": 64, "expert_ffn": 32, "experts": 16, "top_k": 2, "dense_layers": 1},
}
BATCH, TOKENS = 2, 16


def published(name, batch=BATCH, **sizes):
    return program(resized(name, PUBLISHED[name], {**SMALL, **MODELS[name], **sizes}), TOKENS, batch, "Float32")


@cache
def trained(name, batch=BATCH):
    return transform(published(name, batch), "grad", "optimizer=adam")


@cache
def distributed(name, *steps, batch=BATCH):
    return transform(trained(name, batch), *steps)


def communication(module, **options):
    """The messages of a step, as they are sent."""
    timeline = simulate(module, "dgx-a100", **options).timeline()
    return [e.work.communication for e in timeline.effects if e.work.communication]


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("steps", ["cp=2", "cp=2 zigzag=false", "cp=4", "cp=2 cp_kind=a2a", "cp=4 cp_kind=ring"])
def test_a_training_step_gives_what_the_sequential_one_does(name, steps):
    assert verify(trained(name), distributed(name, *steps.split())).equal


@pytest.mark.parametrize("steps", ["cp=2", "cp=2 cp_kind=ring", "dtp=2,1,1 microbatches=2 context=2"])
def test_products_in_8_bit_floats_of_parts_of_sequences_wait_for_no_other_device(steps):
    """What is greatest is found of rows, which stay where they are until the histories are written."""
    step = transform(published("llama3-8b", 4), "fp8=delayed", "grad")
    made = transform(step, *steps.split())
    assert verify(step, made).equal
    sixteen = transform(transform(published("llama3-8b", 4), "grad"), *steps.split())

    def in_layers(module):
        layers = [f for f in module if f.name.startswith("LlamaDecoderLayer")]
        return sum(s.op.startswith("MPI") for f in layers for s in f.body if isinstance(s, Apply))

    assert in_layers(made) == in_layers(sixteen) > 0


def imported():
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from distir.importers import import_torch

    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "head_dim": 8}
    config = transformers.Gemma2Config(
        num_hidden_layers=2, num_key_value_heads=2, sliding_window=5, query_pre_attn_scalar=8, **sizes
    )
    ids = torch.zeros((BATCH, TOKENS), dtype=torch.int64)
    return import_torch(transformers.Gemma2ForCausalLM(config).eval(), (ids,), dynamic_batch=True)


def test_an_imported_model_is_split_along_its_sequence():
    """With sliding windows, soft caps and positions that are computed in the program."""
    module = transform(imported(), "grad")
    for steps in ("cp=2", "cp=2 cp_kind=a2a", "cp=4 cp_kind=ring"):
        made = transform(module, *steps.split())
        assert {p.type.shape[1] for p in made.entry().params if "batch" in p.roles} == {TOKENS // int(steps[3])}
        assert verify(module, made, bind={"B": BATCH}).equal
    with pytest.raises(ProgramError, match=r"`cp` comes first: `cp=2 tp=2 sequence=true`"):
        transform(module, "tp=2", "sequence=true", "cp=2")


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "steps",
    [
        "tp=2 cp=2",
        "cp=2 dp=2 zero=3",
        "cp=2 tp=2 sequence=true dp=2 zero=1",
        "pp=2 microbatches=2 cp=2",
        "accumulate=2 cp=2",
        "checkpoint cp=2",
        "dtp=2,2,2 microbatches=2 context=2 sequence=true zero=1",
        "cp=2 cp_kind=a2a tp=2 sequence=true dp=2 zero=1",
        "dtp=1,1,2 microbatches=2 context=2 cp_kind=a2a",
        "cp=2 cp_kind=ring zigzag=false",
        "cp=2 cp_kind=ring tp=2 sequence=true dp=2 zero=1",
        "dtp=1,1,2 microbatches=2 context=2 cp_kind=ring",
        "cp=4 cp_kind=ring overlap",
        "cp=2 cp_kind=a2a cp=2 cp_kind=ring",
        "cp=2 cp_kind=a2a cp=2 cp_kind=allgather zigzag=false dp=2",
        *also("cp=2 tp=2", "cp=2 tp=2 sequence=true", "cp=2 dp=2", "cp=2 zero=1"),  # the parts of those above
        *also("dtp=2,1,1 context=2 zigzag=false"),
    ],
)
def test_beside_other_parallelism(steps):
    module = transform(published("llama3-8b", 4), "grad")
    assert verify(module, transform(module, *steps.split())).equal


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "steps",
    [
        "cp=2 cp_experts=true",
        "cp=2 cp_kind=a2a cp_experts=true dp=2 zero=1",
        "cp=2 cp_experts=true zero=3",
        "dtp=2,1,2 microbatches=2 context=2 cp_experts=true zigzag=false experts=2",
        "dtp=1,2,1 context=2 zigzag=false cp_experts=true etp=1 sequence=true",
    ],
)
def test_each_device_computes_the_rows_of_its_experts(steps):
    module = transform(published("gpt-oss-20b", 4), "grad", "optimizer=adam")
    made = transform(module, *steps.split())
    assert verify(module, made).equal
    parts = 4 if "experts=2" in steps or "etp=1" in steps else 2
    experts = {
        p.type.shape[0] for p in made.entry().params if "experts" in p.name and p.type.shape and "param" in p.roles
    }
    assert experts == {4 // parts}
    other = transform(module, *steps.replace("cp_experts=true", "cp_experts=false").split())
    products = [
        sum(e.work.flops for e in simulate(one, "dgx-a100").timeline().effects if "Ragged" in e.op)
        for one in (made, other)
    ]
    assert products[1] == pytest.approx(2 * products[0], rel=0.02)


def test_each_device_has_the_same_share_of_a_causal_triangle():
    """Of 2n parts device i of n has the parts i and 2n - 1 - i (Llama 3, section 3.3.2)."""
    size = 4
    for steps, equal in ((f"cp={size}", True), (f"cp={size} zigzag=false", False)):
        effects = simulate(distributed("llama3-8b", *steps.split()), "dgx-a100").timeline().effects
        flops = [[f for _, f, c in e.work.contractions if type(c).__name__ == "Scores"] for e in effects]
        found = {f for fs in flops for f in fs}
        assert (len(found) == 2) == equal  # forward and backward


def test_as_much_travels_as_the_formula_says():
    """Keys and values are gathered in each pass, and their gradients scattered (Llama 3, arXiv:2407.21783, 3.3.2).

    Of a gathered tensor of S bytes a device sends (n - 1) / n of S, of a scattered one as much.
    """
    size = 2
    model = resized("llama3-8b", PUBLISHED["llama3-8b"], {**SMALL, **MODELS["llama3-8b"]})
    messages = communication(distributed("llama3-8b", f"cp={size}"))
    sent = [m.nbytes * (size - 1) // size for m in messages if m.pattern in ("allgather", "reducescatter")]
    keys = BATCH * TOKENS * model.shared_heads * model.size * 4
    assert sum(sent) == model.layers * 6 * keys * (size - 1) // size


def test_heads_travel_as_the_formula_says():
    """Queries, keys, values and the result are exchanged in each pass (DeepSpeed-Ulysses, arXiv:2309.14509, 3.2).

    The result once more in the backward pass: it is kept where the projection after it takes it, not by head too.
    """
    size = 2
    model = resized("llama3-8b", PUBLISHED["llama3-8b"], {**SMALL, **MODELS["llama3-8b"]})
    messages = communication(distributed("llama3-8b", f"cp={size}", "cp_kind=a2a"))
    sent = [m.nbytes * (size - 1) // size for m in messages if m.pattern == "alltoall"]
    part = BATCH * TOKENS // size * model.size * 4
    queries, keys = part * model.heads, part * model.shared_heads
    assert len(sent) == model.layers * (4 + 5)
    assert sum(sent) == model.layers * (5 * queries + 4 * keys) * (size - 1) // size


@pytest.mark.parametrize("size", [2, 4])
def test_keys_travel_as_the_formula_says(size):
    """Keys and values go n - 1 steps in each pass; their gradients go n, home in the end (arXiv:2310.01889, 3.2)."""
    model = resized("llama3-8b", PUBLISHED["llama3-8b"], {**SMALL, **MODELS["llama3-8b"]})
    messages = communication(distributed("llama3-8b", f"cp={size}", "cp_kind=ring"))
    sent = [m.nbytes for m in messages if m.pattern == "shift"]
    keys = BATCH * TOKENS // size * model.shared_heads * model.size * 4
    assert len(sent) == model.layers * 2 * (2 * (size - 1) + size)
    assert sum(sent) == len(sent) * keys


def test_attention_hides_what_travels():
    sizes = {"width": 4096, "heads": 32, "kv_heads": 8, "head_size": 128, "ffn": 1024, "layers": 1}
    model = resized("llama3-8b", PUBLISHED["llama3-8b"], {**SMALL, **sizes})
    words = ("dtp=1,1,1", "context=4", "cp_kind=ring", "representative=true")
    plain = transform(program(model, 32768, 1, "BFloat16"), "grad", *words)
    beside = transform(plain, "overlap=context")
    moved = {s.stream for f in beside for s in f.body if isinstance(s, Apply) and s.op == "GroupShift"}
    assert moved == {"context"}
    before, after = (simulate(module, "dgx-h100") for module in (plain, beside))
    steps = [e for e in before.timeline().effects if e.work.communication and e.work.communication.pattern == "shift"]
    assert len(steps) == 2 * (2 * 3 + 4)
    assert after.latency_s < before.latency_s


def test_a_ring_merges_narrow_results_in_float32():
    module = transform(published("llama3-8b"), "grad", "precision=bf16")
    made = transform(module, "cp=4", "cp_kind=ring")
    merges = [s for f in made for s in f.body if isinstance(s, Apply) and s.op == "MergeAttention"]
    assert merges
    assert verify(module, made).equal


def test_a_gradient_is_summed_once_over_all_that_hold_the_weight():
    made = distributed("llama3-8b", "cp=2", "dp=2")
    sums = [s for s in made.functions["main"].body if isinstance(s, Apply) and s.op == "MPIAllreduce"]
    weights = [p for p in trained("llama3-8b").entry().params if "param" in p.roles]
    assert len(sums) == len(weights) + 1  # and the loss
    assert {len(s.args) for s in sums} == {4}


def test_optimizer_state_is_partitioned_over_all_that_hold_the_weight():
    held = {}
    for steps in ("cp=2 dp=2", "cp=2 dp=2 zero=1 partition=split", "cp=4 zero=1 partition=split"):
        params = distributed("llama3-8b", *steps.split(), batch=4).entry().params
        held[steps] = sum(p.type.elements for p in params if "state" in p.roles and p.type.shape)
    whole, *parts = held.values()
    assert [4 * part for part in parts] == [whole, whole]


@pytest.mark.parametrize("steps", ["cp=2 dp=2", "cp=4 cp_kind=ring"])
def test_gradients_and_weights_travel_as_the_formula_says(steps):
    """With ZeRO-1, over all n that hold a weight, replicas or not: its gradient is scattered, its parts are gathered.

    Each of these takes (n - 1) / n of its bytes from a device, together as much as an all-reduce (ZeRO,
    arXiv:1910.02054, section 7.1). Norms, smaller than n, are summed instead.
    """
    made = distributed("llama3-8b", *steps.split(), "zero=1", "partition=split", batch=4)
    events = simulate(made, "dgx-a100").timeline().effects
    found = [(m.pattern, m.nbytes) for e in events if len(e.devices) == 4 and (m := e.work.communication) is not None]
    weights = sorted(p.type.elements * 4 for p in trained("llama3-8b", 4).entry().params if "param" in p.roles)
    for pattern in ("reducescatter", "allgather"):
        assert sorted(n for p, n in found if p == pattern) == weights


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "words",
    [
        ("dtp=1,1,1", "context=2"),
        ("dtp=2,2,1", "context=2", "sequence=true", "zero=1", "partition=split"),
        ("dtp=2,1,2", "context=2", "microbatches=2"),
        ("cp=4",),
        ("cp=2", "cp_kind=a2a"),
        ("cp=4", "cp_kind=ring"),
        ("dtp=2,1,1", "context=2", "cp_experts=true", "skew=2"),
    ],
    ids=" ".join,
)
def test_one_device_represents_all(words):
    name = "gpt-oss-20b" if "cp_experts=true" in words else "llama3-8b"
    module = transform(published(name, 8), "grad", "optimizer=adam")
    whole = simulate(transform(module, *words), "dgx-a100")
    one = simulate(transform(module, words[0], "representative=true", *words[1:]), "dgx-a100")
    assert one.latency_s == whole.latency_s
    assert {u.peak_memory_bytes for u in one.devices.values()} == {u.peak_memory_bytes for u in whole.devices.values()}


@pytest.mark.parametrize(
    "steps",
    [
        "cp=2 cp_kind=a2a tp=2",
        "cp=2 cp_kind=ring overlap=context",
        *also("cp=2", "cp=2 cp_experts=true dp=2"),
    ],
)
def test_processes_give_what_the_executor_does(ranks, tmp_path, steps):
    pytest.importorskip("torch")
    name = "gpt-oss-20b" if "experts" in steps else "gemma2-2b"
    ranks.largest_error(distributed(name, *steps.split(), batch=4), tmp_path)


def test_what_does_not_fit_is_said():
    module = trained("llama3-8b")
    with pytest.raises(ProgramError, match=r"DIR620.*`%input_ids` dimension 1 is 16, which does not split into 6"):
        transform(module, "cp=3")
    with pytest.raises(ProgramError, match=r"or `zigzag=false`"):
        transform(module, "cp=16")
    with pytest.raises(ProgramError, match=r"DIR620.*which does not split over 3 devices"):
        transform(module, "cp=3", "zigzag=false")
    with pytest.raises(ProgramError, match=r"`cp` comes first: `cp=2 tp=2 sequence=true`"):
        transform(module, "tp=2", "sequence=true", "cp=2")
    with pytest.raises(ProgramError, match="this attention is split along the sequence already"):
        transform(module, "cp=2", "cp=2")
    with pytest.raises(ProgramError, match="`@main` has no attention"):
        transform(distir.models.mlp(2, 8, batch=4, training=True), "cp=2")
    with pytest.raises(StepError, match="there is no `cp_kind` `rings`"):
        transform(module, "cp=2", "cp_kind=rings")
    with pytest.raises(ProgramError, match=r"DIR620.*`Attention` has 4 and 2 heads, which do not split over 4 devices"):
        transform(module, "cp=4", "cp_kind=a2a")
    with pytest.raises(StepError, match="each device has whole sequences"):
        transform(module, "cp=2", "cp_kind=a2a", "zigzag=true")
    with pytest.raises(StepError, match=r"`context` expected 1 or more"):
        transform(module, "dtp=1,1,1", "context=0")
