"""The step `ep`: devices share the batch and own parts of the experts; tokens go there, and their results come back."""

import math
from collections import Counter
from functools import cache
from itertools import combinations

import pytest
from expert_programs import CAPACITY, LAYER
from expert_programs import decoder as written_decoder
from hypothesis import given
from hypothesis import strategies as st
from thorough import also

import distir
from distir.analysis import check
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.ir import Apply, types
from distir.models.catalogue import program
from distir.models.published import PUBLISHED, resized
from distir.ops import type_of
from distir.ops.group import GROUPED
from distir.ops.resources import Routed
from distir.simulate import simulate
from distir.transform import StepError, transform, verify

SMALL = {"layers": 2, "width": 32, "heads": 4, "vocabulary": 64}
DECODERS = {
    "mixtral-8x7b": {"kv_heads": 2, "expert_ffn": 32, "experts": 4},
    "qwen3-30b-a3b": {"kv_heads": 2, "head_size": 16, "expert_ffn": 24, "experts": 8, "top_k": 3},
    "deepseek-v3": {"layers": 3, "ffn": 64, "expert_ffn": 32, "experts": 16, "top_k": 2, "dense_layers": 1},
    "gpt-oss-20b": {"kv_heads": 2, "head_size": 8, "expert_ffn": 32, "experts": 4, "top_k": 2, "window": 5},
}
BATCH, TOKENS = 4, 8


def published(name, batch=BATCH):
    return program(resized(name, PUBLISHED[name], {**SMALL, **DECODERS[name]}), TOKENS, batch, "Float32")


def imported():
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from distir.importers import import_torch

    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 32}
    config = transformers.MixtralConfig(num_hidden_layers=2, num_key_value_heads=2, num_local_experts=4, **sizes)
    ids = torch.zeros((BATCH, TOKENS), dtype=torch.int64)
    return import_torch(transformers.MixtralForCausalLM(config).eval(), (ids,), dynamic_batch=True)


PROGRAMS = {
    **{name: (lambda name=name: published(name)) for name in DECODERS},
    "dropless": lambda: written_decoder(LAYER, batch=BATCH),
    "capacity": lambda: written_decoder(CAPACITY, batch=BATCH),
    "imported": imported,
}


@cache
def trained(name):
    return transform(PROGRAMS[name](), "grad", "optimizer=adam")


def exchanges(module):
    """By function: the all-to-alls of rows, not of counts."""
    effects = ("MPIAlltoall", "GroupAlltoall")
    return {
        f.name: [s for s in f.body if isinstance(s, Apply) and s.op in effects and "counts" not in s.results[0]]
        for f in module
    }


@pytest.mark.by_turns
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_training_step_gives_what_the_sequential_one_does(name):
    module = trained(name)
    made = transform(module, "ep=2")
    bind = {"B": BATCH} if name == "imported" else None
    assert verify(module, made, bind=bind).equal
    assert any(exchanges(made).values())


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize(
    "steps",
    [
        "ep=4",
        "ep=2 skew=1.9",
        "tp=2 ep=2",
        "tp=2 sequence=true ep=2",
        "ep=2 tp=2 dp=2",
        "ep=2 dp=2 zero=1",
        "ep=2 dp=2 zero=3",
        "pp=2 microbatches=2 ep=2",
        "dtp=1,2,2 microbatches=2 ep=2 dp=2",
        "accumulate=2 ep=2",
    ],
)
@pytest.mark.parametrize("name", ["mixtral-8x7b", "gpt-oss-20b"])
def test_beside_other_parallelism(name, steps):
    module = transform(program(resized(name, PUBLISHED[name], {**SMALL, **DECODERS[name]}), 8, 8, "Float32"), "grad")
    assert verify(module, transform(module, *steps.split())).equal


@pytest.mark.parametrize("size", [2, 4])
def test_as_much_travels_as_the_formula_says(size):
    """Of each token and each choice a row there and one back, in each pass (GShard, section 3.2; Megatron).

    An all-to-all of S bytes on each of N devices sends (N - 1) / N of them.
    """
    model = resized("mixtral-8x7b", PUBLISHED["mixtral-8x7b"], {**SMALL, **DECODERS["mixtral-8x7b"]})
    module = transform(program(model, TOKENS, BATCH, "Float32"), "grad", "optimizer=adam")
    made = transform(module, f"ep={size}", "skew=1")
    counted = exchanges(made)
    assert {name: len(found) for name, found in counted.items() if found} == {
        "MixtralDecoderLayer": 2,
        "MixtralDecoderLayerGrad": 2,
    }
    messages = [e.work.communication for e in simulate(made, "dgx-a100").timeline().effects if e.work.communication]
    rows = BATCH // size * TOKENS * model.top_k * model.width * 4
    sent = [c.nbytes * (size - 1) // size for c in messages if c.pattern == "alltoall" and c.nbytes >= rows]
    assert sum(sent) == model.layers * 4 * rows * (size - 1) // size


def test_rows_of_experts_in_parts_travel_by_all_to_alls_alone_with_sequence_parallelism():
    """Rows are in no order of tokens: their sums over shards are not spread along them, and gathered for that."""
    words = "dtp=4,2,1", "experts=4", "sequence=true", "representative=true"
    made = transform(trained("mixtral-8x7b"), *words)
    layers = [f for name, f in made.functions.items() if name.startswith("MixtralDecoderLayer")]
    among_owners = [s.op for f in layers for s in f.body if isinstance(s, Apply) and s.attrs.get("size") == 4]
    assert Counter(among_owners) == {"GroupAlltoall": 2 + 1 + 2}  # rows there with their counts, back; and again


def test_gradients_of_experts_are_summed_over_replicas_alone():
    module = trained("mixtral-8x7b")

    def summed(*steps):
        made = transform(module, *steps).functions["main"].body
        return {
            a for s in made if isinstance(s, Apply) and s.op == "MPIAllreduce" for a in s.args if "experts" in str(a)
        }

    assert not summed("ep=2")
    assert summed("ep=2", "dp=2")


@pytest.mark.parametrize("steps", [(), ("dtp=1,2,1",)], ids=["alone", "with shards"])
def test_one_device_represents_all(steps):
    module = trained("mixtral-8x7b")
    words = [word for step in steps for word in (step, "representative=true")]
    whole = simulate(transform(module, *steps, "ep=2", "skew=1.2"), "dgx-a100")
    one = simulate(transform(module, *words, "ep=2", "skew=1.2", "representative=true"), "dgx-a100")
    assert one.latency_s == whole.latency_s
    (use,) = one.devices.values()
    assert {u.peak_memory_bytes for u in whole.devices.values()} == {use.peak_memory_bytes}


def step(layers=2):
    return transform(written_decoder(LAYER, layers=layers, batch=16), "grad", "optimizer=adam")


SHARED = [
    "dtp=8,1,1 experts=4",
    "dtp=4,2,1 experts=2 sequence=true",
    "dtp=4,1,2 microbatches=2 experts=2",
    "dtp=4,1,1 microbatches=2 experts=4",
    "dtp=4,1,2 microbatches=4 experts=4 schedule=zb-h1",
    "dtp=2,1,2 microbatches=4 experts=2 schedule=interleaved virtual=2",
]


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("steps", SHARED)
def test_replicas_that_share_experts(steps, stage):
    """They give what one device does; and one of them represents all, to the last bit, whatever ZeRO partitions."""
    module = step(4 if "virtual" in steps else 2)
    zero = [f"zero={stage}", "partition=split"] if stage else []
    if not stage:
        assert verify(module, transform(module, *steps.split())).equal
    words = [*steps.split(), "skew=2"]
    whole = simulate(transform(module, *words, *zero), "dgx-a100")
    one = simulate(transform(module, *words, "representative=true", *zero), "dgx-a100")
    assert one.latency_s == whole.latency_s
    assert {u.peak_memory_bytes for u in one.devices.values()} == {u.peak_memory_bytes for u in whole.devices.values()}


@pytest.mark.parametrize("steps", ["ep=2 dp=2 zero=2", "dtp=4,1,1 experts=2 zero=1 partition=split", "ep=4 zero=3"])
def test_state_is_partitioned_over_all_that_share_it(steps):
    module = step(1)
    assert verify(module, transform(module, *steps.split())).equal


def volumes(module):
    """By collective of the entry function, and by number of devices: bytes of the whole that each of them exchanges."""
    rho, found = check(module).states["main"], {}
    for s in module.functions["main"].body:
        if isinstance(s, Apply) and s.op in {op.name for op in GROUPED.values()}:
            size, nbytes = s.attrs["size"], types.nbytes(type_of(rho[s.args[0]]))
            key = s.op, size
            found[key] = found.get(key, 0) + nbytes * (size if s.op == "GroupAllgather" else 1)
    return found


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_gradients_are_exchanged_once_over_those_that_hold_the_weight(stage):
    """Of dense weights, over all D replicas; of the 1/E of the experts that a device has, over the D/E that have it.

    An all-reduce of N bytes sends 2 (D - 1)/D N, and so do ZeRO's reduce-scatter and all-gather together (Rajbhandari
    et al., arXiv:1910.02054, section 7; Megatron's expert data parallelism).
    """
    data, shared = 8, 4
    module = transform(published("mixtral-8x7b", 16), "grad", "optimizer=adam")
    weights = {p.name: types.nbytes(p.type) for p in module.functions["main"].params if "param" in p.roles}
    experts = sum(size for name, size in weights.items() if "experts" in name)
    dense = sum(weights.values()) - experts
    zero = [f"zero={stage}", "partition=split"] if stage else []
    made = transform(module, f"dtp={data},1,1", f"experts={shared}", "skew=1", "representative=true", *zero)
    found = volumes(made)
    loss = found.pop(("GroupAllreduce", data)) - (0 if stage else dense)
    assert loss == 4
    if not stage:
        assert found == {("GroupAllreduce", data // shared): experts // shared}
        return
    each = {data: dense, data // shared: experts // shared}
    assert found == {(op, n): size for op in ("GroupReduceScatter", "GroupAllgather") for n, size in each.items()}


@pytest.mark.parametrize("words", [["fp8"], ["fp8=delayed"], ["overlap=experts", "hardware=dgx-h100"]])
def test_beside_precision_and_overlap(words):
    first = [w for w in words if w.startswith("fp8")]
    module = transform(step(1), *first) if first else step(1)
    made = transform(module, "dtp=4,1,1", "microbatches=2", "experts=2", *([] if first else words))
    assert verify(module, made).equal


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize(
    "steps",
    [
        "tp=2 etp=1",
        "tp=2 etp=1 sequence=true",
        "tp=2 etp=1 skew=1.9 dp=2 zero=3",
        "dtp=2,2,2 microbatches=2 etp=1 sequence=true",
        "dtp=2,2,1 etp=1 experts=2",
        "dtp=1,2,1 etp=1 context=2",
    ],
)
@pytest.mark.parametrize("name", ["mixtral-8x7b", "gpt-oss-20b"])
def test_whole_experts_on_shards_of_everything_else(name, steps):
    sizes = {**SMALL, **DECODERS[name]}
    module = transform(program(resized(name, PUBLISHED[name], sizes), 8, 8, "Float32"), "grad", "optimizer=adam")
    made = transform(module, *steps.split())
    assert verify(module, made).equal
    shards = int(steps.split()[0].split("=")[1].split(",")[-2 if "dtp" in steps else 0])
    owners = shards * (2 if "experts=2" in steps else 1)
    weights = [p.type.shape for p in made.functions["main"].params if "experts" in p.name and "param" in p.roles]
    whole = [p.type.shape for p in module.functions["main"].params if "experts" in p.name and "param" in p.roles]
    parts = {shape: (shape[0] // owners, *shape[1:]) for shape in whole}
    assert set(weights) == set(parts.values()), "a part of the experts, each whole"


@pytest.mark.parametrize("sequence", [False, True])
def test_around_whole_experts_on_shards_all_tokens_travel_once(sequence):
    """Megatron's all-gather dispatcher: tokens are gathered before the experts, and sums scattered behind them.

    That is what travels around a feed-forward layer that is split: per layer and pass an all-gather and a
    reduce-scatter of all tokens, or an all-reduce of them, and as many around attention (Korthikanti et al.,
    arXiv:2205.05198, section 4.2.2). One more in each pass is for the vocabulary.
    """
    model = resized("mixtral-8x7b", PUBLISHED["mixtral-8x7b"], {**SMALL, **DECODERS["mixtral-8x7b"]})
    module = transform(program(model, TOKENS, BATCH, "Float32"), "grad", "optimizer=adam")
    tokens = BATCH * TOKENS * model.width * 4
    made = transform(module, "tp=2", f"sequence={str(sequence).lower()}", "etp=1", "skew=1")
    found = [e.work.communication for e in simulate(made, "dgx-a100").timeline().effects if e.work.communication]
    sums = Counter(c.pattern for c in found if c.nbytes == tokens)
    assert sums[{False: "allreduce", True: "reducescatter"}[sequence]] == 4 * model.layers + 2
    assert max((c.nbytes for c in found), default=0) <= 2 * tokens


@pytest.mark.parametrize("steps", ["dtp=2,2,1 etp=1", "dtp=2,2,1 etp=1 experts=2 sequence=true", "dtp=1,2,2 etp=1"])
def test_one_shard_with_whole_experts_represents_all(steps):
    module = step()
    words = [*steps.split(), "skew=2", "microbatches=2"]
    whole = simulate(transform(module, *words), "dgx-a100")
    one = simulate(transform(module, *words, "representative=true"), "dgx-a100")
    assert one.latency_s == whole.latency_s
    assert {u.peak_memory_bytes for u in one.devices.values()} == {u.peak_memory_bytes for u in whole.devices.values()}


def test_experts_are_given_owners_once():
    with pytest.raises(StepError, match=r"split over 2 devices already; .* `dtp=2,2,1 experts=2 etp=1`"):
        transform(trained("mixtral-8x7b"), "tp=2", "etp=1", "ep=2")
    with pytest.raises(StepError, match=r"split over 2 devices already"):
        transform(trained("mixtral-8x7b"), "ep=2", "ep=2")


def test_there_is_room_for_as_many_rows_as_stated():
    module = trained("mixtral-8x7b")
    for skew, room in ((1.0, 8), (1.3, math.ceil(1.3 * 8)), (0.0, 16)):
        layer = transform(module, "ep=2", f"skew={skew}").functions["MixtralDecoderLayer"]
        dispatch = next(s for s in layer.body if isinstance(s, Apply) and s.op == "Dispatch")
        assert dispatch.attrs["room"] == room
    with pytest.raises(ProgramError, match=r"expected at most 4 choices of a group for each owner.*"):
        verify(module, transform(module, "ep=4", "skew=1"))


@pytest.mark.parametrize(
    "steps",
    [
        "tp=2 etp=1 sequence=true dp=2",
        "dtp=1,4,1 expert_parallel=2 etp=1 sequence=true",
        *also("tp=2 ep=2", "dtp=1,1,1 context=4 zigzag=false expert_parallel=2", "tp=4 etp=2 sequence=true"),
    ],
)
def test_processes_give_what_the_executor_does(ranks, tmp_path, steps):
    pytest.importorskip("torch")
    module = wide("gpt-oss-20b") if "=4" in steps or "1,4,1" in steps else trained("gpt-oss-20b")
    ranks.largest_error(transform(module, *steps.split()), tmp_path)


def test_what_does_not_fit_is_said():
    with pytest.raises(ProgramError, match=r"DIR620.*4 experts do not split over 3 devices"):
        transform(trained("mixtral-8x7b"), "ep=3")
    with pytest.raises(ProgramError, match="`@main` dispatches no tokens to experts"):
        transform(distir.models.mlp(2, 8, batch=4, training=True), "ep=2")
    with pytest.raises(StepError, match=r"`skew` expected a multiple of the mean from 1, found 0.5"):
        transform(trained("mixtral-8x7b"), "ep=2", "skew=0.5")


def alltoalls(module, machine, bind=None):
    """Seconds of the all-to-alls of rows, by how the program says they are routed."""
    effects = simulate(module, machine, bind=bind).timeline().effects
    found = [e for e in effects if (c := e.work.communication) and c.pattern == "alltoall" and c.nbytes > 1 << 20]
    return {e.work.communication.routed: e.cost.seconds for e in found}


def test_a_token_goes_once_to_a_node():
    """DeepSeek-V3 on 64 devices, in nodes of 8: 8 experts in at most 4 of 8 nodes (arXiv:2412.19437, section 3.2.2).

    4 times the mean share that is not on the device's own node travels over its card, instead of 8 times.
    """
    model = resized("deepseek-v3", PUBLISHED["deepseek-v3"], {"layers": 4})
    module = transform(program(model, 4096, None), "grad")
    machine, steps = load("dgx-h100", nodes=8), ["dtp=64,1,1", "experts=64", "skew=1", "representative=true"]
    (plain,) = alltoalls(transform(module, *steps), machine, {"B": 64}).values()
    ((routed, seconds),) = alltoalls(transform(module, *steps, "dispatcher=deepep"), machine, {"B": 64}).items()
    assert routed == Routed(8, 8, 4)
    sent = 4096 * 7168 * 2 * 4 * (1 - (3 / 4) ** 8) * 7 / 8
    link = next(level for level in machine.levels if level.cards is not None).links["forwarded"]
    begun = link.startup + 3 * link.latency  # log2 of 8 nodes
    assert seconds == pytest.approx(begun + sent / link.bandwidth, rel=1e-3)
    assert plain / (seconds - begun) == pytest.approx(8 / (4 * (1 - (3 / 4) ** 8)), rel=0.1)


def test_a_dispatcher_changes_no_value_and_stays_with_replicas():
    module = step(1)
    made = transform(module, "dtp=8,1,1", "experts=4", "dispatcher=deepep")
    assert verify(module, made).equal
    assert transform(module, "ep=4", "dispatcher=deepep", "dp=2") != transform(module, "ep=4", "dp=2")
    with pytest.raises(StepError, match="`dispatcher` expected one of alltoall, deepep, found `nccl`"):
        transform(module, "ep=4", "dispatcher=nccl")


@given(st.integers(1, 8), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8, 16]), st.data())
def test_tokens_reach_as_many_units_as_drawn_ones(top_k, groups, units, data):
    """Exactly so by enumeration: of all choices of groups, and of all choices of experts in them."""
    limit = data.draw(st.integers(1, groups))
    routed, parts = Routed(top_k, groups, limit), max(units, groups)
    each = parts // groups
    total = count = 0.0
    for chosen in combinations(range(groups), limit):
        places = [g * each + i for g in chosen for i in range(each)]
        shares = Counter(place * units // parts for place in places)
        total += sum(1 - (1 - n / len(places)) ** top_k for n in shares.values())
        count += 1
    assert routed.reached(units) == pytest.approx(total / count)
    assert routed.reached(units) <= min(units, top_k) + 1e-9


WIDE = {"layers": 1, "width": 32, "heads": 4, "vocabulary": 64, "kv_heads": 4, "experts": 8}
FOLDED = {
    "dtp=1,4,1 expert_parallel=2 etp=2 sequence=true": (1, 2, 2),
    "dtp=2,4,1 expert_parallel=4 etp=2": (1, 4, 2),
    "dtp=1,4,1 expert_parallel=2 etp=1 sequence=true": (2, 2, 1),
    "dtp=1,4,1 expert_parallel=1 etp=2 sequence=true": (2, 1, 2),
    "dtp=1,1,1 context=4 cp_kind=ring expert_parallel=2": (2, 2, 1),
    "dtp=2,1,1 context=2 expert_parallel=4": (1, 4, 1),
    "dtp=1,2,1 context=4 expert_parallel=4 etp=1 sequence=true": (2, 4, 1),
    "dtp=1,2,2 microbatches=2 context=2 expert_parallel=2 etp=1 sequence=true": (2, 2, 1),
    "dtp=2,2,1 context=2 cp_kind=a2a expert_parallel=2 etp=1 sequence=true zero=1 partition=split": (4, 2, 1),
}
"""Experts over any neighbours: how many hold the same part of them, how many parts there are, and in how many each is
cut."""


@cache
def wide(name):
    model = resized(name, PUBLISHED[name], {**DECODERS[name], **WIDE, "layers": 2})
    return transform(program(model, 16, 8, "Float32"), "grad", "optimizer=adam", "clip=1")


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-20b"])
@pytest.mark.parametrize("steps", FOLDED)
def test_experts_on_any_neighbours_of_a_stage(name, steps):
    """Megatron's groups: tensor parallelism of an expert innermost, its expert parallelism next, copies outside."""
    module = wide(name)
    made = transform(module, *steps.split())
    assert verify(module, made).equal
    _, owners, cut = FOLDED[steps]
    found = {
        p.type.shape
        for p in made.functions["main"].params
        if p.name.split(".")[-1].startswith("up_proj_") and "bias" not in p.name and "param" in p.roles
    }
    ((experts, width, inner),) = {
        p.type.shape
        for p in module.functions["main"].params
        if p.name.endswith("up_proj") and "experts" in p.name and "param" in p.roles
    }
    assert found == {(experts // owners, width, inner // cut)}


@pytest.mark.by_turns
@pytest.mark.parametrize("steps", [s for s in FOLDED if "zero" not in s and "a2a" not in s])
def test_one_device_represents_all_that_hold_experts(steps):
    words = [*steps.split(), "skew=2"]
    whole = simulate(transform(wide("mixtral-8x7b"), *words), "dgx-a100")
    one = simulate(transform(wide("mixtral-8x7b"), *words, "representative=true"), "dgx-a100")
    assert one.latency_s == whole.latency_s
    assert {u.peak_memory_bytes for u in one.devices.values()} == {u.peak_memory_bytes for u in whole.devices.values()}


def rows_computed(module):
    """FLOPs of experts' products on all devices."""
    return sum(e.work.flops for e in simulate(module, "dgx-a100").timeline().effects if "Ragged" in e.op)


@pytest.mark.by_turns
@pytest.mark.parametrize("steps", ["dtp=1,1,1 context=2 expert_parallel=1", *FOLDED])
def test_no_row_of_an_expert_is_computed_twice(steps):
    made = transform(wide("mixtral-8x7b"), *(w for w in steps.split() if w[:4] not in ("zero", "part")))
    assert rows_computed(made) == pytest.approx(rows_computed(wide("mixtral-8x7b")), rel=0.02)


def test_rows_travel_among_those_that_have_parts_of_the_experts():
    """Of 4 that share a sequence, 2 neighbours have all experts: half of the rows of each go to the other, and back.

    The gradients of experts are summed over the 2 that hold the same, all others over the 4.
    """
    steps = ["dtp=1,1,1", "context=4", "zigzag=false", "expert_parallel=2", "skew=1", "representative=true"]
    made = transform(wide("mixtral-8x7b"), *steps)
    found = {
        (s.op, s.attrs["size"], s.attrs["stride"])
        for f in made
        for s in f.body
        if isinstance(s, Apply) and s.op == "GroupAlltoall"
    }
    assert found == {("GroupAlltoall", 2, 1)}
    rho = check(made).states["main"]
    sums = Counter(
        (s.attrs["size"], s.attrs["stride"], "experts" in str(s.args[0]))
        for s in made.functions["main"].body
        if isinstance(s, Apply) and s.op == "GroupAllreduce" and type_of(rho[s.args[0]]).shape
    )
    assert {key for key in sums if key[2]} == {(2, 2, True)}
    assert (4, 1, False) in sums


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("tp=4 etp=3", "`etp` expected a divisor of 4 shards, over so many of which each expert is split, found 3"),
        (
            "dtp=1,4,1 expert_parallel=2 etp=1",
            "2 shards have the same experts, each for its own tokens: `sequence=true`",
        ),
        ("dtp=1,2,1 context=2 expert_parallel=3", "on 3 of 2 devices that share sequences, of which neither divides"),
        ("dtp=2,1,1 expert_parallel=4", "`expert_parallel=4` expected at most 2 parts of the experts"),
        (
            "dtp=2,1,1 expert_parallel=2 experts=2",
            "leave out `experts` and `cp_experts` beside `expert_parallel`, which says it of all devices",
        ),
    ],
)
def test_layouts_of_experts_that_there_are_not(steps, said):
    with pytest.raises(StepError, match=said):
        transform(wide("mixtral-8x7b"), *steps.split())
