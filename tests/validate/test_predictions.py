"""Runs as programs, and what these take."""

from dataclasses import replace

import numpy as np
import pytest
from run_samples import HEADER, changed, row, text

from distir import cost, parse
from distir.analysis import check, execute, random_inputs
from distir.ir import Apply
from distir.models import gpt2, named
from distir.models.catalogue import program
from distir.models.published import PUBLISHED, resized
from distir.ops.resources import Communication, MatrixProduct, Work
from distir.simulate import simulate
from distir.transform import Strategy, transform, verify, words_of
from distir.validate import FRAMEWORKS, Framework, plan_of, predict
from distir.validate.figures import Outcome, regret_of, spearman, summaries
from distir.validate.machines import (
    BEFORE_HOPPER,
    GPUS,
    NODE_OF_A_GRAPH,
    Conditions,
    MachineError,
    architecture_of,
    machine,
)
from distir.validate.plans import LOSS, conditions_of, framework_of
from distir.validate.predictions import SMALL, Prediction, families, figures_of, simulated
from distir.validate.programs import ProgramRewrite
from distir.validate.rewrites import (
    with_bias_apart,
    with_clamps_apart,
    with_flat_gradients,
    with_gathered_routes,
    with_logits_again,
    with_metrics,
    with_sorted_rows,
)
from distir.validate.runs import parse_runs
from distir.validate.strategies import placement_of_experts, recomputation


def run(**given):
    """A run of a small model; `given` are columns, in the file's words for those that it has."""
    written = {name: given.pop(name) for name in HEADER.split(",") if name in given}
    (found,) = parse_runs(text(row(**written)), "runs.csv")
    return changed(found, **given)


def test_each_framework_is_a_definition_with_sources():
    assert {"megatron", "nemo", "paxml", "aleph", "llm-foundry", "torchtitan", "vtrain"} <= set(FRAMEWORKS)
    for name, found in FRAMEWORKS.items():
        assert isinstance(found, Framework)
        assert found.name == name
        assert found.sources
        assert found.title


def test_a_run_is_its_program_on_its_machine():
    found = predict(run())
    assert found.note == ""
    assert found.fits
    assert 0 < found.step_time_s < 1
    assert 0 < found.reported_memory_bytes < 80e9


@pytest.mark.by_turns
@pytest.mark.parametrize("name", sorted(FRAMEWORKS))
def test_every_framework_trains_in_any_layout(name):
    for layout in ({"dp": 4, "tp": 1}, {"dp": 1, "tp": 2, "pp": 2}, {"dp": 2, "tp": 2}):
        assert predict(run(framework=name, **layout)).note == ""


def test_latent_attention_and_experts_are_predicted_where_weights_alone_are_split():
    """Without expert parallelism; splits by sizes ended the prediction, and with it all others."""
    known = {"mlp": "swiglu", "norm": "rmsnorm", "attention_kind": "mla", "hidden": 256, "heads": 4, "layers": 3}
    routed = {"experts": 8, "top_k": 2, "expert_ffn": 64, "shared_experts": 1, "dense_layers": 1, "ffn": 512}
    for sharding in ("zero1", "zero3"):
        found = predict(run(framework="torchtitan", **known, **routed, dp=4, tp=1, ep=1, sharding=sharding))
        assert (found.note, found.step_time_s is not None) == ("", True)


def test_what_no_column_says_is_of_the_published_model():
    known = {"mlp": "swiglu", "hidden": 7168, "heads": 128, "ffn": 18432, "layers": 3, "attention_kind": "mla"}
    routed = {"experts": 16, "top_k": 8, "expert_ffn": 2048, "shared_experts": 1, "dense_layers": 1}
    deepseek = plan_of(run(**known, **routed, gpus=1, dp=1, tp=1)).step.model
    assert (deepseek.latent, deepseek.router) == (PUBLISHED["deepseek-v3"].latent, PUBLISHED["deepseek-v3"].router)
    other = plan_of(run(attention_kind="mla")).step.model.latent
    assert (other.q_rank, other.kv_rank) == (512, 512)  # Megatron Core's defaults
    qwen = {"mlp": "swiglu", "hidden": 2048, "heads": 32, "ffn": 6144, "experts": 16, "top_k": 8, "expert_ffn": 768}
    assert plan_of(run(**qwen, gpus=1, dp=1, tp=1)).step.model.head_norm
    assert not plan_of(run()).step.model.head_norm


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "given",
    [
        {"attention_kind": "mla"},
        {"mlp": "relu2", "norm": "layernorm"},
        {"precision": "mxfp8", "gpu": "b300"},
        {"precision": "mxfp8", "gpu": "gb300", "gpus_per_node": 4},
        {"recompute": "selective", "attention": "flash"},
        {"recompute": "selective", "attention": "fused"},
    ],
)
@pytest.mark.parametrize("framework", ["megatron", "nemo"])
def test_further_kinds_of_runs_are_predicted(framework, given):
    found = predict(run(framework=framework, gpus=4, dp=2, tp=2, **given))
    assert found.note == ""
    assert found.step_time_s > 0


@pytest.mark.parametrize("attention", ["flash", "fused"])
def test_selective_recomputation_is_of_attention_with_megatron(attention):
    kept, again = (predict(run(attention=attention, recompute=how)) for how in ("none", "selective"))
    assert again.step_time_s > kept.step_time_s
    assert again.reported_memory_bytes <= kept.reported_memory_bytes


@pytest.mark.parametrize("ranks", [10, 12])
def test_stages_may_be_of_more_ranks_than_a_node_has(ranks):
    """Also where whole nodes do not divide them."""
    found = predict(run(layers=ranks, gpus=ranks, dp=1, tp=1, pp=ranks, global_batch=ranks))
    assert found.note == ""
    assert found.step_time_s > 0


def test_a_tied_embedding_that_stages_are_sent_at_the_start_is_not_awaited_later():
    """With weights that are gathered ahead of their layers; in 16-bit floats it is whole on its device."""
    one = run(framework="nemo", layers=2, gpus=4, dp=2, tp=1, pp=2)
    assert predict(changed(one, sharding="zero3", precision="fp16")).note == ""


def test_as_many_gpus_of_each_rack_run_as_divide_them():
    """64 of 72, so that groups of equals are within racks; and a node's bandwidth is that of the GPUs it has."""
    found = machine("gb200", 256, None, Conditions())
    assert (found.devices, found.levels[0].blocks.period) == (256, 64)
    assert machine("gb200", 144, None, Conditions()).devices == 144
    assert machine("h100_80gb", 17, None, Conditions()).devices == 24  # not 17 nodes of one GPU each
    whole, trays = (plan_of(run(gpu="gb200", gpus=256, dp=128, global_batch=256, **net)).hardware for net in (
        {}, {"gpus_per_node": 4, "node_gbps": 1600}))  # fmt: skip
    assert whole.levels[-1].cards == trays.levels[-1].cards


def test_nodes_are_as_large_as_the_run_says():
    """Four nodes of four GPUs: eight shards are over the network."""
    sizes = {"hidden": 4096, "ffn": 16384, "heads": 32, "seq": 2048, "gpus": 16, "tp": 8, "dp": 2}
    whole, small = (run(**sizes, gpus_per_node=n) for n in (8, 4))
    assert [plan_of(of).hardware.levels[0].blocks.period for of in (whole, small)] == [8, 4]
    assert predict(small).step_time_s > predict(whole).step_time_s
    assert "those of the profile `dgx-a100` have 8" in predict(run(gpus=16, dp=8, gpus_per_node=16)).note
    assert plan_of(run(gpus_per_node=16)).hardware.devices == 8  # all in one node


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({"optimizer": "quux"}, "there is no optimizer `quux`; known: "),
        ({"attention_kind": "gqa"}, "heads of keys and values are not stated"),
        ({"heads": 6}, "the size of 6 heads is not stated"),
        ({"layers": 10**9}, "more than 4096"),
        ({"global_batch": 1 << 20}, "the batch is in sequences"),
    ],
)
def test_what_a_row_says_and_the_program_would_not_have_is_refused(given, note):
    assert note in predict(run(**given)).note


def test_a_run_in_32_bit_floats_computes_in_them():
    wide, mixed = (predict(run(hidden=1024, ffn=4096, precision=of)) for of in ("fp32", "bf16"))
    assert (wide.note, mixed.note) == ("", "")
    assert wide.step_time_s > mixed.step_time_s


def test_columns_of_how_a_step_is_computed_count():
    plain, sgd = predict(run()), predict(run(optimizer="sgd"))
    assert sgd.reported_memory_bytes < plain.reported_memory_bytes
    assert predict(run(optimizer="adam")).reported_memory_bytes == plain.reported_memory_bytes
    assert "products" in plan_of(run(async_tp=True)).step.overlap
    assert "products" not in plan_of(run(async_tp=True, tp=1, dp=4)).step.overlap


def test_paxml_shards_weights_over_128_devices_at_most():
    few, many = (framework_of(run(framework="paxml", gpus=2 * dp, dp=dp)).sharding for dp in (128, 256))
    assert (few, many) == ("zero3", "hsdp:128")


def test_more_work_takes_longer_and_recomputation_needs_less_memory():
    small, large = simulated(run(layers=2)), simulated(run(layers=8))
    assert small.latency_s < large.latency_s
    kept, recomputed = (predict(run(layers=8, recompute=how, micro_batch=4)) for how in ("none", "full"))
    assert recomputed.step_time_s > kept.step_time_s
    assert recomputed.reported_memory_bytes < kept.reported_memory_bytes


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"micro_batch": ""}, "the micro batch is not stated"),
        ({"precision": "nvfp4"}, "products in 4-bit floats: no profile states their rates"),
        ({"micro_batch": 3}, "micro batches of 3 on 2 replicas do not divide the batch of 8"),
        (
            {"attention": "flash", "recompute": "selective", "framework": "paxml"},
            "with `flash` attention `paxml` has no selective recomputation: name the parts in `recompute`, as in "
            "`modules:core_attn`",
        ),
    ],
)
def test_what_cannot_be_expressed_says_why(given, reason):
    assert predict(run(**given)) == Prediction("r:1", note=reason)


def test_state_is_shared_by_any_number_of_replicas():
    """Also by those over which no dimension of the weights divides."""
    sizes = {"framework": "nemo", "tp": 1, "layers": 2}
    few, some, many = (run(**sizes, hidden=512, gpus=n, dp=n, global_batch=24) for n in (4, 6, 8))
    peaks = [predict(of).reported_memory_bytes for of in (few, some, many)]
    assert peaks == sorted(peaks, reverse=True)
    whole = predict(changed(some, sharding="zero3")).note
    assert whole == "weights of width 512 do not divide over 6 replicas: say `hsdp:2` in `sharding`"


def test_vectors_that_are_shorter_than_there_are_replicas_stay_whole():
    """As the norm of heads of Qwen3."""
    sizes = {"hidden": 2048, "heads": 32, "ffn": 6144, "seq": 128, "layers": 1, "vocab": 1024}
    qwen = {"mlp": "swiglu", "norm": "rmsnorm", "position": "rope", "experts": 32, "top_k": 8, "expert_ffn": 768}
    one = changed(run(framework="nemo", gpus=256, dp=256, tp=1, global_batch=256, **sizes), **qwen, ep=32, head_dim=128)
    assert plan_of(one).step.model.head_norm
    assert predict(one).note == ""


def test_parts_of_a_sequence_need_attention_that_keeps_no_scores():
    note = predict(changed(run(attention="fused"), gpus=8, cp=2)).note
    kept = "parts of a sequence on 2 ranks, with `fused` attention, keep scores in memory"
    assert note == f"{kept}: say `flash` in `attention`, or `cp` 1"


def test_runs_of_one_layout_on_several_gpus_are_one_program():
    on = [plan_of(run(gpu=gpu)) for gpu in ("a100_80gb", "h100_80gb")]
    assert on[0].step == on[1].step
    assert on[0].hardware != on[1].hardware
    assert families([run(gpu=gpu, id=gpu) for gpu in ("a100_80gb", "h100_80gb")])[0][1].gpu == "h100_80gb"


def test_runs_that_differ_in_replicas_are_predicted_together():
    some = [run(gpus=2 * dp, dp=dp, global_batch=4 * dp, id=f"r:{dp}") for dp in (1, 2, 4)]
    assert families(some) == [some]
    assert len(families([*some, changed(some[0], tp=1, gpus=1)])) == 2


def test_large_families_are_several_but_for_runs_that_share_a_program():
    layouts = [(batch, dp) for dp in (1, 2, 4) for batch in (2, 4, 8, 16, 32, 64)]
    some = [run(gpus=2 * dp, dp=dp, global_batch=batch * dp, id=f"{batch}:{dp}") for batch, dp in layouts]
    found = families(some)
    assert sorted(of.id for family in found for of in family) == sorted(of.id for of in some)
    assert all(len(family) <= SMALL + 2 for family in found)
    for batch in (2, 4, 8, 16, 32, 64):
        assert sum(any(of.id.startswith(f"{batch}:") for of in family) for family in found) == 1


def test_parts_of_sequences_and_of_experts_are_expressed():
    one = run(tp=1, gpus=4, dp=4)
    alone, parts = (predict(changed(one, dp=4 // n, cp=n)) for n in (1, 2))
    assert alone.note == parts.note == ""
    routed = changed(one, experts=4, top_k=2, expert_ffn=512)
    whole, spread = predict(routed), predict(changed(routed, ep=2))
    assert whole.note == spread.note == ""
    assert spread.reported_memory_bytes < whole.reported_memory_bytes


def test_those_who_share_experts_are_next_to_each_other():
    """In a node: a slower network makes nothing slower, where stages of a pipeline alone are on several nodes."""
    one = run(framework="nemo", tp=1, pp=2, gpus=16, dp=8, micro_batch=1, global_batch=64)
    routed = changed(one, experts=8, top_k=2, expert_ffn=512, ep=8)

    def seconds(of):  # a host that waits for experts' tokens issues transfers later
        program = plan_of(of, replace(conditions_of(of), waits_for_counts=False))
        return figures_of(program)[0]

    fast, slow, *alone = (seconds(replace(of, node_gbps=gbps)) for of in (routed, one) for gbps in (1600, 16))
    assert slow - fast < 1.05 * (alone[1] - alone[0])


@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("layout", "placed"),
    [
        ({"dp": 4, "tp": 2, "ep": 4}, {"experts": 4}),
        ({"dp": 4, "tp": 2, "ep": 4, "etp": 1}, {"expert_parallel": 4, "etp": 1}),
        ({"dp": 1, "tp": 2, "ep": 2, "etp": 1}, {"expert_parallel": 2, "etp": 1}),
        ({"dp": 1, "tp": 4, "ep": 2}, {"expert_parallel": 2, "etp": 2}),  # more shards of an expert are not left
        ({"dp": 1, "tp": 4, "ep": 2, "etp": 2}, {"expert_parallel": 2, "etp": 2}),
        ({"dp": 2, "tp": 1, "cp": 2, "ep": 4}, {"expert_parallel": 4, "etp": 1}),
        ({"dp": 1, "tp": 2, "cp": 2, "ep": 2}, {"expert_parallel": 2, "etp": 2}),
        ({"dp": 1, "tp": 1, "cp": 4, "ep": 2}, {"expert_parallel": 2, "etp": 1}),
        ({"dp": 4, "tp": 1, "cp": 2, "ep": 8}, {"expert_parallel": 8, "etp": 1}),
    ],
)
def test_experts_are_on_neighbours_shards_first_then_parts_of_sequences(layout, placed):
    one = changed(run(framework="nemo"), position="rope", micro_batch=1, experts=8, top_k=2, expert_ffn=512, **layout)
    one = changed(one, gpus=one.strategy.devices, global_batch=one.strategy.data)
    own = one.strategy
    sent = (
        {"dispatcher": "deepep"}
        if own.expert_parallel // (own.tensor // placed.get("etp", own.tensor) * own.context) > 1
        else {}
    )
    alone = placed | {"skew": 1.0}
    assert placement_of_experts(one, framework_of(one)) == alone | sent
    stated = [
        placement_of_experts(one, framework_of(changed(one, dispatcher=word))) for word in ("alltoall", "hybridep")
    ]
    assert stated == [alone, alone | sent]
    spread, alone = predict(one), predict(changed(one, ep=1, etp=one.strategy.tensor))
    assert spread.note == alone.note == ""
    assert spread.reported_memory_bytes <= alone.reported_memory_bytes


@pytest.mark.parametrize(
    ("framework", "recompute", "words"),
    [
        ("nemo", "none", ["checkpoint=selective", "modules=gates"]),
        ("nemo", "full", ["checkpoint"]),
        ("nemo", "modules:core_attn", ["checkpoint=selective", "modules=core_attn,gates"]),
        ("nemo", "selective", ["checkpoint=selective", "modules=core_attn,gates"]),
        ("aleph", "selective", ["checkpoint=selective"]),
        ("paxml", "", ["checkpoint=selective", "modules=layernorm,context,mlp"]),
        ("torchtitan", "selective", ["checkpoint=products"]),
        ("aleph", "none", []),
    ],
)
def test_what_is_recomputed_is_what_the_run_says_and_what_fused_kernels_do(framework, recompute, words):
    chosen = framework_of(run(framework=framework, recompute=recompute))
    assert words_of(Strategy(**recomputation(chosen, gated=True))) == [*words, "dtp=1,1,1"]


def test_8_bit_floats_with_parts_of_sequences_find_what_is_greatest_once_in_a_step():
    """Not before each product: as many collectives are in a layer as with 16 bits."""

    def in_layers(precision):
        module = plan_of(
            changed(run(gpu="h100_80gb", tp=1, gpus=2, dp=2), gpus=4, cp=2, precision=precision)
        ).step.module()
        layers = [f for f in module if f.name.startswith("LlamaDecoderLayer")]
        return sum(getattr(s, "op", "").startswith(("MPI", "Group")) for f in layers for s in f.body)

    assert in_layers("fp8") == in_layers("bf16")


def test_what_would_be_a_wrong_figure_is_refused():
    one = changed(run(tp=1, gpus=4, dp=4), precision="fp8")
    routed = changed(one, precision="bf16", experts=4, top_k=2)
    assert "on 3 of 4 replicas, of which neither divides the other" in predict(changed(routed, ep=3)).note
    assert "`etp` expected a divisor of 4 shards" in predict(changed(routed, dp=1, tp=4, ep=1, etp=3)).note
    for etp, ep in ((1, 1), (1, 2), (2, 1)):
        note = predict(changed(routed, dp=1, tp=4, ep=ep, etp=etp)).note
        assert note.endswith("shards have the same experts, each for its own tokens: say `sequence_parallel` 1")
    apart = changed(one, precision="bf16", framework="torchtitan", norm="rmsnorm", recompute="modules:layernorm")
    assert predict(apart).note.endswith("cannot be recomputed as `layernorm`: say `fused_norm` 1")
    assert predict(changed(routed, recompute="modules:mlp")).note.endswith("of which the model has none: say `moe`")
    assert "for 2 layers: some have no layer" in predict(run(layers=2, tp=1, pp=4, dp=1)).note
    deep = changed(run(layers=4, tp=1, pp=2, dp=2, global_batch=16), virtual=4)
    assert "2 ranks with 4 stages each, for 4 layers" in predict(deep).note


def test_recomputation_by_operator_is_between_none_and_all():
    one = changed(run(framework="torchtitan", tp=1, dp=4, layers=8, seq=1024, micro_batch=2), attention="flash")
    none, some, full = (predict(changed(one, recompute=how)) for how in ("none", "selective", "full"))
    assert none.reported_memory_bytes > some.reported_memory_bytes > full.reported_memory_bytes
    assert none.step_time_s < some.step_time_s < full.step_time_s


def test_a_slower_network_than_the_profiles_slows_what_crosses_nodes():
    plain = machine("a100_80gb", 16, None, Conditions())
    slow = machine("a100_80gb", 16, 100.0, Conditions())
    assert plain.levels[1].cards.bandwidth == 25e9
    assert slow.levels[1].cards.bandwidth == 12.5e9
    assert slow.levels[1].links["collective"].bandwidth == plain.levels[1].links["collective"].bandwidth / 2
    assert slow.levels[0] == plain.levels[0]


def test_a_gpu_without_a_profile_is_refused():
    with pytest.raises(cost.HardwareError, match="r100"):
        machine("r100", 8, None, Conditions())
    with pytest.raises(MachineError, match="states no network between nodes"):
        machine("laptop-cpu", 8, None, Conditions())


def test_the_host_issues_ops_where_the_framework_says_how_fast():
    assert all(kind.host.issue == 9e-6 for kind in machine("h100_80gb", 8, None, Conditions(9e-6)).kinds.distinct)
    one = machine("h100_80gb", 8, None, Conditions()).kinds.distinct[0]
    assert one.launch == cost.load("h100").kinds[0].launch


def test_large_products_run_as_fast_as_the_device_sustains():
    alone, training = cost.load("a100-80").kinds[0], machine("a100_80gb", 8, None, Conditions()).kinds[0]
    assert training.products["BFloat16"].rate < alone.products["BFloat16"].rate


def test_small_products_run_at_the_clock_of_a_hot_device_too():
    """Alone, they are over before the device is hot; in a step, what comes before them has heated it."""
    alone, training = (
        kind.products["BFloat16"]
        for kind in (cost.load("h100").kinds[0], machine("h100_80gb", 8, None, Conditions()).kinds[0])
    )
    product = MatrixProduct(2048, 2048, 2048)
    before, hot = (figures.spent(product, 2, 3 * 2048**2 * 2).seconds for figures in (alone, training))
    assert 1.05 < hot / before <= 1 + alone.throttle


def test_a_collective_is_issued_as_fast_as_the_framework_says():
    host = machine("a100_80gb", 8, None, Conditions(46e-6, 20e-6)).kinds[0].host
    assert host.issuing(Work()) == 46e-6
    assert host.issuing(Work(communication=Communication("allreduce", 8))) == 20e-6


def test_attention_without_a_kernel_takes_its_softmax_in_float32():
    one = run(framework="aleph", seq=1024, micro_batch=4)
    fused, unfused = (changed(one, attention=how) for how in ("fused", "unfused"))
    assert simulated(unfused).latency_s > simulated(fused).latency_s
    assert predict(unfused).reported_memory_bytes > predict(fused).reported_memory_bytes


def test_8_bit_floats_in_pipelines_of_many_microbatches_are_predicted():
    one = run(framework="nemo", gpu="h100_80gb", layers=2, dp=1, pp=2, global_batch=4)
    found = predict(changed(one, precision="fp8"))
    assert found.note == ""
    assert found.step_time_s > predict(one).step_time_s  # small products: scaling them takes longer than it saves


def test_eager_kernels_are_more_than_fused_ones():
    one = run()
    eager = simulated(changed(one, compile=False))
    fused = simulated(changed(one, compile=True))
    assert eager.ops > fused.ops


def test_metrics_are_cross_entropies_that_change_nothing_else():
    module = transform(gpt2(1, 16, 2, 8, batch=4, vocabulary=32), "grad", "loss=cross_entropy")
    more = with_metrics(module, 2)
    inputs = random_inputs(more, 0, {})
    plain, found = ([output.value for output in execute(m, inputs)] for m in (module, more))
    for one, other in zip(plain, found, strict=False):
        np.testing.assert_array_equal(one, other)
    tokens = 4 * 8
    np.testing.assert_allclose(found[len(plain) :], [plain[0] * tokens] * 2, rtol=1e-5)
    for steps in (["dp=2"], ["dtp=2,1,1", "microbatches=2", "zero=3"]):
        assert verify(more, transform(more, *steps)).equal


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("steps", [["dtp=2,2,1"], ["dtp=1,2,2", "microbatches=2"]])
def test_logits_that_are_computed_again_are_a_product_more_and_change_nothing(steps, tied):
    sizes = {"layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "vocabulary": 32}
    decoder = resized("llama3-8b", replace(PUBLISHED["llama3-8b"], tied=tied), sizes)
    module = transform(program(decoder, 8, 4), "grad", "loss=cross_entropy", "precision=mixed")
    again = with_logits_again(module)
    inputs = random_inputs(again, 0, {})
    for one, other in zip(*([output.value for output in execute(m, inputs)] for m in (module, again)), strict=True):
        np.testing.assert_array_equal(one, other)
    plain, more = (transform(m, *steps, f"whole={','.join(LOSS)}") for m in (module, again))
    assert verify(again, more).equal
    product = "Gemm" if tied else "MatMul"
    assert applied(more, product) > applied(plain, product)
    assert applied(more, "MPI") == applied(plain, "MPI")  # each shard computes its part, and needs no other


@pytest.mark.parametrize("steps", [[], ["dtp=2,1,2", "microbatches=2", "experts=2"]])
def test_biases_of_experts_that_are_added_apart_are_more_traffic_and_change_nothing(steps):
    small = {"layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "head_size": 4, "vocabulary": 32}
    sizes = {**small, "experts": 4, "top_k": 2, "expert_ffn": 24}
    module = transform(named("gpt-oss-20b", 4, 8, **sizes), "grad", "loss=cross_entropy", "precision=mixed", *steps)
    apart = with_bias_apart(module)
    inputs = random_inputs(apart, 0, {})
    for one, other in zip(*([output.value for output in execute(m, inputs)] for m in (module, apart)), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.02, atol=0.02)  # sums were rounded to 16 bits
    plain, more = (transform(m, "fuse") for m in (module, apart))
    layers = 2 * (2 if steps else 1)
    assert applied(more, "CastLike") - applied(plain, "CastLike") >= layers
    assert applied(more, "RaggedSum") == applied(plain, "RaggedSum")


def test_rows_of_several_experts_are_sorted_behind_an_all_to_all():
    routed = {"experts": 8, "top_k": 2, "expert_ffn": 512, "norm": "rmsnorm", "mlp": "swiglu", "ep": 4}
    one = changed(run(framework="nemo", gpu="h100_80gb", tp=1, dp=4), dispatcher="alltoall", **routed)
    assert ProgramRewrite(with_sorted_rows) in plan_of(one).step.of_ranks
    assert ProgramRewrite(with_sorted_rows) not in plan_of(changed(one, dispatcher="hybridep")).step.of_ranks
    assert ProgramRewrite(with_sorted_rows) not in plan_of(changed(one, experts=4)).step.of_ranks  # one on each device
    assert ProgramRewrite(with_sorted_rows) not in plan_of(changed(one, framework="torchtitan")).step.of_ranks
    shards = changed(one, tp=2, dp=2, etp=1, position="rope", sequence_parallel=True)
    assert predict(shards).note == ""
    model = PUBLISHED["qwen3-30b-a3b"]
    small = replace(model, layers=1, width=16, heads=4, kv_heads=2, head_size=4, experts=4, top_k=2, expert_ffn=24)
    steps = ["grad", "optimizer=sgd", "ep=2", "representative=true"]
    module = transform(program(replace(small, vocabulary=32), 8, 4), *steps)
    found = with_sorted_rows(module)
    assert not check(found).errors
    assert applied(transform(found, "fuse"), "After") == 4  # there and back, of rows and of their gradients


def test_hybridep_gathers_which_experts_all_tokens_go_to():
    routed = {"experts": 8, "top_k": 2, "expert_ffn": 512, "norm": "rmsnorm", "mlp": "swiglu", "ep": 4}
    one = changed(run(framework="nemo", gpu="h100_80gb", tp=1, dp=4), dispatcher="hybridep", **routed)
    assert ProgramRewrite(with_gathered_routes) in plan_of(one).step.of_ranks
    assert ProgramRewrite(with_gathered_routes) not in plan_of(changed(one, dispatcher="deepep")).step.of_ranks
    assert ProgramRewrite(with_gathered_routes) not in plan_of(changed(one, ep=1)).step.of_ranks
    assert predict(one).note == ""
    model = PUBLISHED["qwen3-30b-a3b"]
    small = replace(model, layers=1, width=16, heads=4, kv_heads=2, head_size=4, experts=4, top_k=2, expert_ffn=24)
    steps = ["grad", "optimizer=sgd", "ep=2", "representative=true"]
    module = transform(program(replace(small, vocabulary=32), 8, 4), *steps)
    found = with_gathered_routes(module)
    assert not check(found).errors
    assert applied(found, "GroupAllgather") == applied(module, "GroupAllgather") + 1  # the backward pass has them
    (bits,) = (s for f in found for s in f.body if isinstance(s, Apply) and s.op == "ScatterElements")
    assert any(bits.results == s.args for f in found for s in f.body if isinstance(s, Apply))


def test_what_hybridep_gathers_is_not_held_where_exchanges_have_a_stream():
    """One of them is there at a time, however many layers and microbatches there are."""
    model = replace(PUBLISHED["qwen3-30b-a3b"], layers=3, width=16, heads=4, kv_heads=2, head_size=4, vocabulary=32)
    step = transform(program(replace(model, experts=64, top_k=2, expert_ffn=24), 64, 16), "grad", "optimizer=sgd")
    steps = "dtp=8,1,1 microbatches=2 experts=8 representative=true overlap=experts hardware=dgx-h100"
    module = transform(step, *steps.split())
    assert any(s.stream for f in module for s in f.body if isinstance(s, Apply) and s.op == "GroupAlltoall")
    before, after = (
        max(use.peak_memory_bytes for use in simulate(m, "dgx-h100").devices.values())
        for m in (module, with_gathered_routes(module))
    )
    one = 8 * (16 // 8 // 2 * 64) * 64  # a byte for each token of all devices and each expert
    assert after <= before + 2 * one


def test_biases_of_experts_are_apart_in_16_bits_where_the_framework_has_it_so():
    routed = {"experts": 8, "top_k": 2, "expert_ffn": 512, "norm": "rmsnorm", "mlp": "swiglu"}
    one = changed(run(framework="nemo", gpu="h100_80gb", tp=1, dp=4), bias=True, **routed)
    assert ProgramRewrite(with_bias_apart) in plan_of(one).step.of_ranks
    assert ProgramRewrite(with_bias_apart) not in plan_of(changed(one, precision="fp8")).step.of_ranks
    assert ProgramRewrite(with_bias_apart) not in plan_of(changed(one, bias=False)).step.of_ranks
    assert ProgramRewrite(with_bias_apart) not in plan_of(changed(one, framework="torchtitan")).step.of_ranks


def test_gates_of_experts_are_clamped_apart_in_16_bits_where_the_framework_has_it_so():
    one = changed(
        run(framework="nemo", gpu="h100_80gb", tp=1, dp=4), norm="rmsnorm", mlp="swiglu", hidden=2880, heads=64,
        kv_heads=8, head_dim=64, attention_kind="gqa", ffn=2880, expert_ffn=2880, experts=8, top_k=4, layers=1,
    )  # fmt: skip
    assert ProgramRewrite(with_clamps_apart) in plan_of(one).step.of_ranks
    assert ProgramRewrite(with_clamps_apart) not in plan_of(changed(one, gpu="b200", precision="mxfp8")).step.of_ranks
    assert (
        ProgramRewrite(with_clamps_apart) not in plan_of(changed(one, ffn=1024, expert_ffn=1024)).step.of_ranks
    )  # of another model
    assert ProgramRewrite(with_clamps_apart) not in plan_of(changed(one, framework="torchtitan")).step.of_ranks
    model = PUBLISHED["gpt-oss-20b"]
    small = replace(model, layers=1, width=16, heads=4, kv_heads=2, head_size=4, experts=4, top_k=2, expert_ffn=24)
    module = transform(program(replace(small, vocabulary=32), 8, 4), "grad", "optimizer=sgd")
    apart = with_clamps_apart(module)
    assert not check(apart).errors
    plain, more = (simulate(transform(m, "fuse"), "dgx-h100") for m in (module, apart))
    assert more.latency_s > plain.latency_s  # two kernels, of each half, for what was part of one: there and back
    waits = [sum(isinstance(s, Apply) and s.attrs.get("blocking") is True for s in f.body) for f in apart]
    assert waits == [int(applied([f], "Clip") > 0) for f in apart]
    assert sum(waits) > 0


def test_a_host_waits_for_what_it_reads():
    text = """func @main(%x: Tensor[Float32, (4096, 4096), 1]) {{
      %y = MatMul(%x, %x)
      %a = Relu(%y)
      %b = After[blocking = {}](%a, %a)
      %z = Relu(%b)
      return %z
    }}"""

    def seconds(blocking, how):
        kinds = machine("h100_80gb", 1, None, how)
        return simulate(parse(text.format(blocking)), kinds).latency_s

    waits, not_waits = Conditions(50e-6, waits_for_counts=True), Conditions(50e-6)
    assert seconds("true", waits) == pytest.approx(seconds("false", waits) + 50e-6, rel=1e-3)
    for slow in (not_waits, Conditions(1e-3)):  # also where the host is what all wait for
        assert seconds("true", slow) == seconds("false", slow)


def test_grace_takes_longer_to_issue_an_op():
    on = {gpu: conditions_of(run(framework="nemo", gpu=gpu)) for gpu in ("b200", "gb200")}
    assert on["gb200"].issue == pytest.approx(37.1 / 13.5 * on["b200"].issue, rel=0.01)  # TransformerEngine issue 2053
    assert conditions_of(run(framework="nemo", gpu="gb200", cuda_graphs=True)).issue == NODE_OF_A_GRAPH


def applied(module, op):
    return sum(s.op.startswith(op) for f in module for s in f.body if isinstance(s, Apply))


@pytest.mark.parametrize(("framework", "stated", "overlaps"), [("nemo", None, True), ("nemo", False, False)])
def test_tensor_parallelism_overlaps_where_the_framework_or_the_run_says_so(framework, stated, overlaps):
    given = {"framework": framework, "async_tp": stated}
    assert ("products" in plan_of(run(**given)).step.overlap) == overlaps
    assert "products" not in plan_of(run(**given, dp=4, tp=1)).step.overlap


def test_megatron_overlaps_where_weights_are_sharded():
    plain, sharded = (framework_of(run(framework="megatron", sharding=how)).overlap for how in ("zero1", "zero3"))
    assert (plain, sharded) == ((), ("gradients", "weights"))


def test_a_run_that_says_that_tensor_parallelism_overlaps_takes_less_time():
    sizes = {
        "framework": "torchtitan",
        "sequence_parallel": True,
        "hidden": 4096,
        "ffn": 16384,
        "seq": 4096,
        "heads": 32,
    }
    overlapped, waiting = (predict(run(async_tp=stated, **sizes)).step_time_s for stated in (True, False))
    assert overlapped < waiting


def test_shards_compute_the_loss_of_their_logits_where_the_framework_does():
    sizes = {"framework": "torchtitan", "vocab": 32_000, "sequence_parallel": True}
    assert framework_of(run(**sizes)).loss == "apart"
    assert framework_of(run(**sizes, dp=4, tp=1)).loss == "gathered"
    whole, parts = (predict(run(**sizes, loss_parallel=stated)).reported_memory_bytes for stated in (False, None))
    assert parts < whole


def test_no_kernel_of_attention_changes_the_schedule_of_a_pipeline():
    sizes = {"framework": "aleph", "pp": 2, "tp": 1, "global_batch": 32}
    plans = [plan_of(run(attention=kernel, **sizes)).step.strategy for kernel in ("flash", "flash1", "")]
    assert {plan.schedule for plan in plans} == {"1f1b"}


@pytest.mark.parametrize(
    ("given", "dropped"),
    [
        ({"framework": "megatron"}, 0.1),
        ({"framework": "nemo", "position": "learned"}, 0.1),
        ({"framework": "nemo", "position": "rope"}, 0.0),
        ({"framework": "nemo", "position": "learned", "dropout": 0.0}, 0.0),
        ({"framework": "aleph", "dropout": 0.2}, 0.2),
    ],
)
def test_what_is_dropped_is_what_the_run_says_else_what_the_framework_does(given, dropped):
    assert plan_of(run(**given)).step.model.dropout == dropped


def test_dropping_takes_time_and_memory():
    sizes = {"framework": "nemo", "hidden": 4096, "ffn": 16384, "heads": 32, "seq": 2048, "gpu": "h100_80gb"}
    none, some = (predict(run(dropout=share, **sizes)) for share in (0.0, 0.1))
    assert none.step_time_s < some.step_time_s
    assert none.reported_memory_bytes < some.reported_memory_bytes


def test_the_second_version_of_flash_attention_is_slower_on_hopper():
    sizes = {"framework": "nemo", "hidden": 4096, "ffn": 4096, "heads": 32, "seq": 8192}
    for gpu, slower in (("h100_80gb", True), ("a100_80gb", False)):
        second, newest = (predict(run(gpu=gpu, attention=kernel, **sizes)) for kernel in ("flash2", "flash"))
        assert (second.step_time_s > newest.step_time_s) == slower


def test_a_limit_of_power_counts_once():
    """The profile states what it makes of the clock; nothing else slows products of the device."""
    limited, free = (machine(gpu, 8, None, conditions_of(run(gpu=gpu))) for gpu in ("h100_96gb_2_4TBs", "h100_80gb"))
    rates = [m.kinds[0].products["BFloat16"].rate for m in (limited, free)]
    assert rates[0] / rates[1] == pytest.approx(cost.load("h100-96").kinds[0].sustained_clock)


def test_the_kernel_in_triton_is_faster_than_the_first_version_forward_alone():
    sizes = {"framework": "llm-foundry", "hidden": 1024, "ffn": 1024, "heads": 8, "seq": 16384, "tp": 1, "dp": 4}
    kernels = ("flash1", "triton", "flash2")
    for recompute in ("none", "full"):
        found = [predict(run(attention=kernel, recompute=recompute, **sizes)).step_time_s for kernel in kernels]
        assert found == sorted(found, reverse=True)
    forward, backward = conditions_of(run(attention="triton", gpu="a100_80gb")).attention
    assert forward > backward


def test_gradients_that_are_copied_into_one_tensor_before_they_are_summed_stay_what_they_are():
    module = transform(gpt2(2, 16, 2, 8, batch=4, vocabulary=32), "grad", "loss=cross_entropy", "optimizer=adam")
    plain = transform(module, "dtp=2,1,1", "microbatches=2", "zero=3", "partition=split", "overlap")
    flat = with_flat_gradients(plain)
    assert verify(module, flat).equal
    assert applied(flat, "Mul") >= applied(plain, "Mul") + 2 * applied(plain, "MPIReduceScatter") > 0


def test_fsdp_of_llm_foundry_hides_less_of_a_backward_pass():
    one = run(framework="llm-foundry", tp=1, dp=4, hidden=2048, ffn=8192, heads=16, seq=512)
    step = plan_of(one).step
    assert step.strategy.behind_sums
    assert ProgramRewrite(with_flat_gradients) in step.of_ranks
    program = plan_of(one)
    hidden = figures_of(replace(program, step=step.with_strategy(behind_sums=False)))
    assert figures_of(program)[0] > hidden[0]
    assert not plan_of(changed(one, framework="torchtitan")).step.strategy.behind_sums


def test_gradients_of_nemo_are_16_bits_in_all_precisions():
    for precision in ("bf16", "fp8"):
        found = framework_of(run(framework="nemo", precision=precision))
        assert (found.gradients, found.memory.gradients) == ("bf16", 2)


def test_recomputing_every_layer_is_of_the_output_layer_where_the_framework_takes_it_for_one():
    full, none = (plan_of(run(framework="aleph", recompute=how)).step.of_step for how in ("full", "none"))
    assert full == (ProgramRewrite(with_logits_again),)
    assert none == plan_of(run(framework="vtrain", recompute="full")).step.of_step == ()


def test_metrics_of_training_are_computed_when_activations_are_gone():
    one = run(framework="llm-foundry", tp=1, dp=4, vocab=4000, layers=8, micro_batch=2)
    program = plan_of(one)
    assert program.step.of_step == (ProgramRewrite(with_metrics, (2,)),)
    without = replace(program, step=replace(program.step, of_step=()))
    seconds, most = figures_of(program)
    less_seconds, least = figures_of(without)
    logits = 2 * 256 * 4000
    assert seconds > less_seconds
    assert most.reported <= least.reported + 2 * logits  # those of 16 bits, which are kept until then


def test_gpus_of_profiles_are_there():
    for gpu in ("a100_40gb", "a100_80gb", "h100_80gb", "h200", "b200", "gb200"):
        assert machine(gpu, 16, None, Conditions()).devices >= 16


def test_a_batch_of_the_run_is_bound():
    program = plan_of(run(global_batch=16))
    assert program.bind == {"B": 16}
    assert "microbatches=8" in program.step.words


# Figures.


def outcomes(measured, predicted, fits=None):
    runs = parse_runs(text(*(row(id=f"r:{i}", step_time_s=m) for i, m in enumerate(measured))), "runs.csv")
    fits = fits or [True] * len(runs)
    return [Outcome(r, Prediction(r.id, p, 1, f)) for r, p, f in zip(runs, predicted, fits, strict=True)]


def test_errors_ranks_and_regret():
    (found,) = summaries(outcomes([1, 2, 4], [1.1, 1.8, 4]))
    assert found.time.mean == pytest.approx(0.2 / 3)
    assert found.time.median == pytest.approx(0.1)
    assert found.time.bias == pytest.approx(0)
    assert found.rank == found.rank_within == 1
    assert found.regret == 0
    (found,) = summaries(outcomes([1, 2, 4], [2, 1.8, 4]))
    assert found.rank == 0.5
    assert found.regret == 1


def test_out_of_memory_is_right_missed_or_a_false_alarm():
    runs = parse_runs(
        text(row(id="a"), row(id="b"), *(row(id=n, status="oom", step_time_s="") for n in "cd")), "runs.csv"
    )
    said = [(True, "fits"), (False, "does not fit")] * 2
    found = [Outcome(r, Prediction(r.id, 1.0, 1, *fit)) for r, fit in zip(runs, said, strict=True)]
    (counted,) = summaries(found)
    assert (counted.memory.right, counted.memory.missed, counted.memory.false_alarms) == (2, 1, 1)


def test_what_does_not_fit_is_not_chosen():
    assert regret_of(outcomes([1, 2, 4], [1, 2, 4], [False, True, True])) == 1


def test_ranks_of_equal_values_are_shared():
    assert spearman([1, 1, 2], [1, 1, 5]) == 1
    assert spearman([1, 1, 1], [1, 2, 3]) is None


def test_gpus_are_those_that_profiles_name(tmp_path):
    """A profile of one's own is of the architecture that it extends; what it says of tables is not inherited."""
    assert {"a800_80gb", "h800_80gb", "h20", "gh200", "mi300x", "mi325x", "mi355x"} <= {*GPUS}
    assert (GPUS["a100_80gb"], GPUS["h800_80gb"]) == ("a100-80", "h800")
    (tmp_path / "own.toml").write_text('title = "ours"\nextends = "a800"\n')
    own = str(tmp_path / "own.toml")
    assert own not in GPUS
    assert own in BEFORE_HOPPER
    assert [gpu for gpu in GPUS if not architecture_of(gpu)] == []


@pytest.mark.parametrize("gpu", ["a800_80gb", "h800_80gb", "h20", "gh200", "mi300x", "mi325x", "mi355x"])
def test_a_row_on_each_machine_is_predicted_or_says_why_not(gpu):
    sizes = {"hidden": 4096, "heads": 32, "layers": 2, "ffn": 16384, "seq": 4096, "tp": 1, "gpus": 2, "dp": 2}
    header = f"{HEADER},precision"
    rows = [row(id=f"a:{word}", gpu=gpu, **sizes) + f",{word}" for word in ("bf16", "fp8", "mxfp8")]
    wide, eight, mx = map(predict, parse_runs(text(*rows, header=header), "runs.csv"))
    assert wide.step_time_s
    assert wide.fit == "fits"
    assert mx.note.startswith("products in ")
    if gpu == "a800_80gb":
        assert eight.note == "products in 8-bit floats, which `a800_80gb` does not have: GPUs since Hopper do"
    else:
        assert eight.step_time_s < wide.step_time_s
