"""Parts of layers that are recomputed by name: which values they are, and that a step gives the same."""

from dataclasses import replace

import pytest

from distir.analysis import check
from distir.diagnostics import ProgramError
from distir.ir import Apply, Call
from distir.models import PUBLISHED, named
from distir.models.catalogue import program
from distir.transform import transform, verify
from distir.transform.checkpoint.modules import RAGGED
from distir.transform.steps import StepError
from distir.transform.unfusing import decomposed

EVERY = {
    "core_attn": {"mixed.1"},
    "layernorm": {"input_layernorm", "post_attention_layernorm"},
    "mla_up_proj": {"q_whole", "k_whole", "v_heads"},
}
DENSE = {"up_proj", "gate_proj", "active", "inner"}
EXPERTS = {"rows", "experts_up_proj", "experts_gate_proj", "experts_down_proj", "active", "inner"}
ROUTED = {"gate", "weights", "experts", "places", "counts"}
SHARED = {"up_proj", "gate_proj", "active_1", "inner_1"}
CASES = {
    "llama3-8b": {
        "core_attn": {"mixed.1"},
        "layernorm": EVERY["layernorm"],
        "mlp": DENSE,
        "context": {"mixed", "mixed.1"},
        "gates": {"active"},
    },
    "deepseek-v3": {
        **EVERY,
        "moe": EXPERTS | ROUTED | SHARED,
        "moe_act": {"active", "inner"},
        "gates": {"active", "active_1"},
        "shared_experts": SHARED,
        "moe_act,shared_experts": SHARED | {"active", "inner"},
    },
}


SIZES = {"layers": 2, "vocabulary": 16, "width": 8, "heads": 4, "kv_heads": 2, "head_size": 4, "ffn": 16}


def llama():
    return named("llama3-8b", batch=4, sequence=4, dtype="Float32", **SIZES)


def saved(step):
    """What the last layer gives besides its result."""
    called = [s.function for s in step.entry().body if isinstance(s, Call) and not s.function.endswith("Grad")]
    return set(step.functions[called[-1]].returned[1:])


def step_of(name):
    model = PUBLISHED[name]
    small = replace(model, layers=2, dense_layers=1) if model.dense_layers else replace(model, layers=2)
    return transform(program(small, 128, 1), "grad", "optimizer=sgd")


@pytest.mark.parametrize("name", CASES)
def test_what_a_part_saves_is_recomputed(name):
    step = step_of(name)
    before = saved(step)
    for modules, values in CASES[name].items():
        after = saved(transform(step, "checkpoint=selective", f"modules={modules}"))
        assert before - after == values


@pytest.mark.parametrize("chain", ["", "dp=2", "tp=2", "pp=2 microbatches=2"])
@pytest.mark.parametrize("modules", ["core_attn,layernorm,mlp", "context,gates"])
def test_a_step_with_it_gives_the_same(modules, chain):
    step = transform(llama(), "grad", "loss=cross_entropy")
    found = transform(step, "checkpoint=selective", f"modules={modules}", *chain.split())
    assert verify(step, found).equal


def test_attention_that_is_written_out_is_recomputed_with_its_result():
    step = transform(decomposed(llama(), "Attention"), "grad", "loss=cross_entropy")
    scores, whole = (saved(transform(step, "checkpoint=selective", f"modules={m}")) for m in ("core_attn", "context"))
    assert len(scores - whole) == 1
    assert not whole - scores


def test_copies_in_8_bit_floats_are_recomputed_with_what_they_are_of():
    step = transform(llama(), "fp8", "block=4", "grad", "loss=cross_entropy")
    found = transform(step, "checkpoint=selective", "modules=layernorm,mlp")
    gone = saved(step) - saved(found)
    assert any("norm" in name and name.endswith(".fp8") for name in gone)
    assert not check(found).errors
    assert verify(step, found).equal


def test_some_layers_only():
    step = transform(llama(), "grad", "loss=cross_entropy")
    some = transform(step, "checkpoint=selective", "modules=mlp", "layers=1")
    assert len(some.functions) == len(step.functions) + 2  # the layers that save all have functions of their own


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("checkpoint=selective modules=layer_norm", "did you mean `layernorm`"),
        ("checkpoint=full modules=layernorm", "`modules` is an option of `checkpoint=selective`"),
        ("checkpoint=selective modules=moe,layernorm", "has no `moe` in its layers"),
    ],
)
def test_parts_that_there_are_not_are_said(words, said):
    step = transform(llama(), "grad", "loss=cross_entropy")
    with pytest.raises((StepError, ProgramError), match=said):
        transform(step, *words.split())


def test_parts_are_found_among_products_in_8_bits():
    model = replace(PUBLISHED["deepseek-v3"], layers=2, dense_layers=1)
    step = transform(program(model, 128, 1), "fp8=mx", "experts=true", "grad", "optimizer=sgd")
    before = saved(step)
    for modules, values in {"mla_up_proj": EVERY["mla_up_proj"], "moe_act": {"active", "inner.fp8"}}.items():
        assert values <= before - saved(transform(step, "checkpoint=selective", f"modules={modules}"))


def test_activations_of_experts_with_biases_are_recomputed_from_saved_products():
    step = transform(program(replace(PUBLISHED["gpt-oss-20b"], layers=2), 128, 1), "grad", "optimizer=sgd")
    found = transform(step, "checkpoint=selective", "modules=moe_act")
    assert {"inner"} <= saved(step) - saved(found)
    products = [sum(s.op in RAGGED for f in m for s in f.body if isinstance(s, Apply)) for m in (step, found)]
    assert products[0] == products[1]
