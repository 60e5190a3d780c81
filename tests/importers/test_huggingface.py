"""Models of `transformers`, from objects and from configurations: as ops of ours, as one function for each layer."""

import json
import os
import re
from functools import cache

import numpy as np
import pytest
from command_line import distir as command
from thorough import ALL, also, also_together

import distir
from distir.importers import ImportRefused, import_hf, import_torch, pytorch
from distir.importers.configurations import Shape
from distir.ir import Apply, Call
from distir.ir.rewrite import facts_of
from distir.transform import transform, verify

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
nn = torch.nn

__all__ = ["command"]  # a fixture

COMMON = {"vocab_size": 96, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96}
DECODER = {**COMMON, "num_key_value_heads": 2}
EXPERTS = {"moe_intermediate_size": 32, "num_experts_per_tok": 2}


def made(name, settings, layers=2):
    torch.manual_seed(0)
    kind = "Llama4Text" if name == "Llama4" else name
    config = getattr(transformers, f"{kind}Config")(num_hidden_layers=layers, **settings)
    kind = f"{name}Model" if name == "Bert" else f"{name}ForCausalLM"
    return getattr(transformers, kind)(config).eval()


DECODERS = {
    "Llama": DECODER,
    "Mistral": {**DECODER, "sliding_window": 4},
    "Qwen3": {**DECODER, "head_dim": 16},
    "Gemma2": {**DECODER, "head_dim": 16, "sliding_window": 4, "query_pre_attn_scalar": 16},
    "Mixtral": {**DECODER, "num_local_experts": 4, "num_experts_per_tok": 2},
    "GptOss": {**DECODER, "head_dim": 16, "num_local_experts": 4, "sliding_window": 4},
    "DeepseekV3": {
        **COMMON,
        **EXPERTS,
        "n_routed_experts": 8,
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "num_key_value_heads": 4,
        "kv_lora_rank": 16,
        "q_lora_rank": 24,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
        "qk_nope_head_dim": 16,
    },
}

DECODERS["Llama4"] = {
    **DECODER,
    "num_local_experts": 4,
    "num_experts_per_tok": 1,
    "head_dim": 16,
    "intermediate_size_mlp": 96,
    "pad_token_id": 0,
}


@cache
def with_any_batch(name):
    """A model of two layers, and the program that it comes in as."""
    model = made(name, DECODERS[name])
    return model, import_torch(model, (tokens(),), dynamic_batch=True, compare=False)  # as tests do themselves


EXPERT_MODELS = ("Mixtral", "GptOss", "DeepseekV3", "Llama4")


@pytest.mark.parametrize("name", ["Mixtral", *also("GptOss", "DeepseekV3", "Llama4")])
def test_experts_are_sorted_by_sequence_so_that_devices_share_the_batch(name):
    _, imported = with_any_batch(name)
    for op in ("Dispatch", "Permute", "Unpermute"):
        assert ops(imported, op)
    halves = transform(imported, "dp=2")
    assert not [op for op in ("MPIAllgather", "MPIAllreduce") if ops(halves, op)]
    assert verify(imported, halves, bind={"B": 4}).equal


def tokens(batch=3, length=10):
    return torch.randint(0, 96, (batch, length), generator=torch.Generator().manual_seed(1))


def computed(imported, *inputs):
    """What the program gives for tensors, in the order of the parameters that take them."""
    names = [p.name for p in imported.functions["main"].params if p.name not in imported.weights]
    return distir.run(imported, {**imported.weights, **dict(zip(names, (x.numpy() for x in inputs), strict=True))})


def ops(module, name):
    return [s for function in module for s in function.body if isinstance(s, Apply) and s.op == name]


@pytest.mark.parametrize(
    "name", ["Llama", "Mixtral", "DeepseekV3", *also("Llama4", "Gemma2", "GptOss", "Mistral", "Qwen3")]
)
def test_a_decoder_computes_what_torch_does_with_attention_and_experts_as_ops(name):
    model, imported = with_any_batch(name)
    with torch.no_grad():
        expected = model(tokens(5)).logits.numpy()
    found = computed(imported, tokens(5))
    assert list(found) == ["logits"]
    np.testing.assert_allclose(found["logits"], expected, atol=2e-6)
    kinds = {s.function for s in imported.functions["main"].body if isinstance(s, Call)}
    assert {kind.partition("_")[0].replace("Text", "") for kind in kinds} == {f"{name}DecoderLayer"}
    assert len(ops(imported, "Attention")) == len(kinds)
    assert not ops(imported, "Softmax")
    assert len(ops(imported, "Route")) == len(ops(imported, "Dispatch"))
    assert bool(ops(imported, "RaggedMatMul")) == (name in EXPERT_MODELS)


ROUTERS = {
    "Mixtral": ({**DECODER, "num_local_experts": 8}, {}),
    "Qwen2Moe": ({**DECODER, "num_experts": 8}, {"normalize": False}),
    "Qwen3Moe": ({**DECODER, **EXPERTS, "num_experts": 8, "norm_topk_prob": True, "head_dim": 16}, {}),
    "Olmoe": ({**DECODER, "num_experts": 8, "norm_topk_prob": False, "eos_token_id": 0}, {"normalize": False}),
    "GptOss": ({**DECODER, "num_local_experts": 8, "head_dim": 16}, {}),
    "GraniteMoe": ({**DECODER, "num_local_experts": 8}, {}),
    "DeepseekV3": (
        {**DECODERS["DeepseekV3"], "first_k_dense_replace": 0},
        {"score": "sigmoid", "scale": 2.5, "n_group": 2, "topk_group": 1},
    ),
    "Lfm2Moe": (
        {**DECODER, **EXPERTS, "num_experts": 8, "num_dense_layers": 0, "layer_types": ["full_attention"]},
        {"score": "sigmoid", "epsilon": 1e-6},
    ),
    "HunYuanMoEV1": ({**DECODER, "num_experts": 8, "moe_topk": 2, "head_dim": 16}, {}),
}
"""Settings of models with experts, and what is stated of their routers beside the number of the chosen."""


LIKE_OTHERS = ("Qwen3Moe", "Olmoe", "GraniteMoe")
NARROW = [
    ("Mixtral", "bfloat16"),
    *also_together(*((name, "bfloat16") for name in ("Qwen3Moe", "GptOss", "DeepseekV3"))),
    *also_together(*((name, "float32") for name in LIKE_OTHERS)),
]


@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float32") for name in ROUTERS if name not in LIKE_OTHERS), *NARROW]
)
def test_routers_are_one_op(name, dtype):
    settings, stated = ROUTERS[name]
    model = made(name, {**settings, **({} if "HunYuan" in name else {"num_experts_per_tok": 2})}, 1)
    for part in model.modules():  # biases that choose otherwise than scores alone
        for bias in ("e_score_correction_bias", "expert_bias"):
            if getattr(part, bias, None) is not None:
                getattr(part, bias).data = torch.linspace(0, 1, 8)
    model = model.to(getattr(torch, dtype))
    imported = import_torch(model, (tokens(),), compare=dtype != "float32")
    (route,) = ops(imported, "Route")
    assert {"n_group": 1, **route.attrs} == {"n_group": 1, "top_k": 2, **stated, **topk_in_group(stated)}
    assert not [op for op in ("TopK", "Softmax", "GatherElements", "ReduceSum") if ops(imported, op)]
    if dtype == "float32":
        with torch.no_grad():
            expected = model(tokens()).logits.numpy()
        np.testing.assert_allclose(computed(imported, tokens())["logits"], expected, atol=2e-6)


def topk_in_group(stated):
    return {"topk_in_group": 2} if "n_group" in stated else {}


def routed(gate, dtype="float32"):
    """A layer of experts with another router, imported: the ops that choose, and how much the values differ."""
    model = made("Mixtral", {**DECODER, "num_local_experts": 8}, 1).to(getattr(torch, dtype))
    router = model.model.layers[0].mlp.gate

    def forward(x):
        logits = nn.functional.linear(x.reshape(-1, 64), router.weight)
        return (logits, *gate(logits))

    router.forward = forward
    imported = import_torch(model, (tokens(),), compare=False)
    with torch.no_grad():
        expected = model(tokens()).logits.float().numpy()
    error = np.abs(np.asarray(computed(imported, tokens())["logits"], np.float32) - expected).max()
    return {s.op for op in ("Route", "TopK") for s in ops(imported, op)}, error


def in_groups(scores, fill, count=2, axis=-1):
    """Scores with those of all but the best of four groups of two replaced."""
    groups = scores.view(-1, 4, 2).max(dim=-1).values
    mask = torch.zeros_like(groups).scatter_(1, torch.topk(groups, count, dim=-1).indices, 1)
    spread = mask.unsqueeze(-1).expand(-1, 4, 2) if axis == -1 else mask.unsqueeze(1).expand(-1, 2, 4)
    return scores.masked_fill(~spread.reshape(-1, 8).bool(), fill)


def by_best_in_group(logits):
    """DeepSeek-V2's."""
    values, index = torch.topk(in_groups(logits.softmax(-1), 0.0), 2, dim=-1, sorted=False)
    return values * 16.0, index


def negative_weights(logits):
    """Scores minus a bias, and groups that are left out by a number that may be the greatest."""
    scores = logits.sigmoid()
    index = torch.topk(in_groups(scores - 2 * torch.linspace(0, 1, 8), 0.0), 2, dim=-1).indices
    return scores.gather(1, index), index


def other_groups(logits):
    values, index = torch.topk(in_groups(logits.softmax(-1), 0.0, axis=1), 2, dim=-1)
    return values, index


def biased_after_groups(logits):
    """Groups are ranked without the bias."""
    scores = in_groups(logits.sigmoid(), 0.0)
    index = torch.topk(scores + torch.linspace(0, 1, 8), 2, dim=-1).indices
    return scores.gather(1, index), index


def least(logits):
    return torch.topk(logits.softmax(-1), 2, largest=False)


def other_scores(logits):
    index = torch.topk(logits.sigmoid(), 2).indices
    return logits.softmax(-1).gather(1, index), index


def other_sum(logits):
    values, index = torch.topk(logits.softmax(-1), 2)
    return values / values.abs().pow(2).sum(-1, keepdim=True), index


def bounded_sum(logits):
    values, index = torch.topk(logits.softmax(-1), 2)
    return values / (values.sum(-1, keepdim=True) + 0.1), index


def other_axis(logits):
    values, index = torch.topk(logits.softmax(0), 2)
    return values, index


def of_others(logits):
    """The weights of the experts that come second and third."""
    values, index = torch.topk(logits.softmax(-1), 3)
    return values[:, 1:], index[:, 1:]


def weights_of_logits(logits):
    return torch.topk(logits, 2)


def test_groups_are_ranked_by_their_best_one():
    assert routed(by_best_in_group) == ({"Route"}, pytest.approx(0, abs=2e-6))


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "gate",
    [
        *(negative_weights, other_groups, least, bounded_sum, weights_of_logits),
        *also(biased_after_groups, other_scores, other_sum, other_axis, of_others),
    ],
)
def test_what_is_no_router_stays(gate):
    assert routed(gate) == ({"TopK"}, pytest.approx(0, abs=2e-6))


def test_a_router_whose_scores_are_rounded_before_the_choice_stays():
    """In narrow elements scores may be equal that are not."""

    def gate(logits):
        values, index = torch.topk(logits.softmax(-1).bfloat16(), 2)
        return values, index

    assert routed(gate, "bfloat16")[0] == {"TopK"}


def test_a_softmax_in_wider_elements_is_not_rounded_first():
    class Wide(nn.Module):
        def forward(self, x):
            return x.softmax(-1, dtype=torch.float32), nn.functional.log_softmax(x, -1, dtype=torch.float32)

    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1)).bfloat16()
    imported = import_torch(Wide(), (x,))
    found = distir.run(imported, {imported.entry().params[0].name: x.float().numpy().astype(np.dtype("bfloat16"))})
    for value, expected in zip(found.values(), Wide()(x), strict=True):
        np.testing.assert_allclose(value, expected.numpy(), rtol=1e-6)


def test_windows_caps_and_sinks_are_the_ops_own():
    models = made("Gemma2", DECODERS["Gemma2"]), made("GptOss", DECODERS["GptOss"], 1)
    gemma, gpt = (import_torch(model, (tokens(),), compare=False) for model in models)
    assert {s.attrs.get("window") for s in ops(gemma, "Attention")} == {4, None}
    assert all(s.attrs["softcap"] == 50 and s.attrs["is_causal"] for s in ops(gemma, "Attention"))
    assert all(len(s.args) == 5 for s in ops(gpt, "Attention"))


@pytest.mark.parametrize(("chunk", "masked"), [(4, True), (64, False)])
def test_chunks_of_a_sequence_and_the_complex_numbers_that_turn_it(chunk, masked):
    """Llama 4, whose layers attend within chunks; one mask serves all sequences, none a sequence of one chunk."""
    settings = {**DECODER, "num_hidden_layers": 1, "num_local_experts": 4, "intermediate_size_mlp": 96, "head_dim": 16}
    torch.manual_seed(0)
    model = transformers.Llama4ForCausalLM(transformers.Llama4TextConfig(**settings, attention_chunk_size=chunk)).eval()
    imported = import_torch(model, (tokens(),), compare=False)
    with torch.no_grad():
        expected = model(tokens()).logits.numpy()
    np.testing.assert_allclose(computed(imported, tokens())["logits"], expected, atol=2e-6)
    assert {len(s.args) > 3 for s in ops(imported, "Attention")} == {masked}


def test_deepseek_v2_as_published():
    """Rotated by complex numbers, experts in groups that are ranked by their best one."""
    groups = {"n_group": 4, "topk_group": 2, "topk_method": "group_limited_greedy", "first_k_dense_replace": 0}
    model = made("DeepseekV2", {**DECODERS["DeepseekV3"], **groups, "head_dim": 8}, 1)
    imported = import_torch(model, (tokens(),), compare=False)
    with torch.no_grad():
        expected = model(tokens()).logits.numpy()
    np.testing.assert_allclose(computed(imported, tokens())["logits"], expected, atol=2e-6)
    (route,) = ops(imported, "Route")
    assert (route.attrs["n_group"], route.attrs["topk_group"], route.attrs["topk_in_group"]) == (4, 2, 1)


def test_masks_and_labels_by_name():
    model, ids = made("Llama", DECODER, 1), tokens()
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    given = {"attention_mask": mask, "labels": ids}
    imported = import_torch(model, (ids,), kwargs=given, dynamic_batch=True, compare=False)
    with torch.no_grad():
        expected = model(ids, **given)
    found = computed(imported, ids, mask, ids)
    assert list(found) == ["loss", "logits"]
    np.testing.assert_allclose(found["loss"], expected.loss, rtol=1e-5)
    seen = mask.bool().numpy()
    np.testing.assert_allclose(found["logits"][seen], expected.logits.numpy()[seen], atol=2e-6)


TRAINED = {
    "Mixtral": {"num_local_experts": 4, "output_router_logits": True, "router_aux_loss_coef": 0.5},
    "Qwen3Moe": {**EXPERTS, "num_experts": 4, "head_dim": 16, "output_router_logits": True},
    "GptOss": {"num_local_experts": 4, "head_dim": 16},
}
"""Models with experts: with losses that balance them, with biases."""


STEPS = [(name, dynamic) for name in TRAINED for dynamic in (False, True)]
OFTEN = [("Mixtral", False)]


@pytest.mark.parametrize(("name", "dynamic"), [*OFTEN, *also_together(*(step for step in STEPS if step not in OFTEN))])
def test_a_step_of_training_has_grouped_products_and_the_loss_that_balances_experts(name, dynamic):
    model, ids = made(name, {**DECODER, **TRAINED[name]}, 1), tokens(5)
    example = tokens() if dynamic else ids
    given = {"input_ids": example, "labels": example}
    imported = import_torch(model, kwargs=given, training=True, dynamic_batch=dynamic, compare=False)
    found = computed(imported, ids, ids)
    expected = model.train()(input_ids=ids, labels=ids)
    np.testing.assert_allclose(found["loss"], expected.loss.item(), rtol=1e-6)
    assert expected.get("aux_loss") is not None or name == "GptOss"
    names, weights = zip(*model.named_parameters(), strict=True)
    for weight, gradient in zip(names, torch.autograd.grad(expected.loss, weights), strict=True):
        np.testing.assert_allclose(found[f"grad.{weight}"], gradient.numpy(), atol=2e-6, err_msg=weight)
    assert len(ops(imported, "RaggedMatMulGrad")) == 2
    assert len(ops(imported, "RaggedSum")) == (2 if name == "GptOss" else 0)


def test_the_gradient_of_what_is_imported_with_the_loss_that_balances_experts():
    model, ids = made("Mixtral", {**DECODER, **TRAINED["Mixtral"]}, 1), tokens()
    imported = import_torch(model, kwargs={"input_ids": ids, "labels": ids}, compare=False)
    assert ops(imported, "Route")
    step = transform(imported, "grad", lr=1.0)
    names = [p.name for p in step.entry().params if p.name not in imported.weights]
    found = distir.run(step, {**imported.weights, **dict.fromkeys(names, ids.numpy())})
    loss = model(input_ids=ids, labels=ids).loss
    names, weights = zip(*model.named_parameters(), strict=True)
    for name, weight, gradient in zip(names, weights, torch.autograd.grad(loss, weights), strict=True):
        moved = weight.detach().numpy() - found[f"{name}_new"]
        np.testing.assert_allclose(moved, gradient.numpy(), atol=2e-6, err_msg=name)


def test_keys_and_values_are_results_on_request():
    model, without = with_any_batch("Llama")
    assert len(without.functions["main"].returned) == 1
    kept = import_torch(model, (tokens(),), cache=True, compare=False)
    assert len(kept.functions["main"].returned) == 1 + 2 * 2


def test_the_model_is_afterwards_as_it_was():
    model, _ = with_any_batch("Mixtral")
    assert vars(model.config) == vars(made("Mixtral", DECODERS["Mixtral"]).config)


@pytest.mark.parametrize("name", ["Bert", *also("Llama", "Gemma2", "DeepseekV3")])
def test_many_layers_come_in_by_the_first_ones_of_each_kind(name, monkeypatch):
    """The same program, in values and in its parameters, as with all layers exported."""
    model, ids = made(name, {**DECODERS.get(name, COMMON)}, layers=9 if ALL else 5), tokens()
    few = import_torch(model, (ids,), dynamic_batch=True, compare=False)
    monkeypatch.setattr(pytorch, "_of_few_layers", lambda *_: None)
    all_layers = import_torch(model, (ids,), dynamic_batch=True, compare=False)
    assert few.functions["main"].params == all_layers.functions["main"].params
    assert [f.name for f in few] == [f.name for f in all_layers]
    stated = [[facts_of(s).layer for s in module.functions["main"].body] for module in (few, all_layers)]
    assert stated[0] == stated[1]
    assert max(stated[0]) == model.config.num_hidden_layers
    for a, b in zip(computed(few, ids).values(), computed(all_layers, ids).values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_numbers_of_all_layers_in_a_configuration_set_none_apart(monkeypatch):
    """Llama 4 lists which layers have experts: all of them."""
    shown = []
    monkeypatch.setattr(pytorch, "stretched", lambda found, stacks, weights: shown.extend(stacks) or found)
    model = made("Llama4", {**DECODERS["Llama4"], "no_rope_layers": [1, 0] * 4}, layers=8)
    assert model.config.moe_layers == [*range(8)]
    import_torch(model, (tokens(),), compare=False)
    assert [(stack.kinds, stack.shown) for stack in shown] == [((0, 1) * 4, 4)]


def test_a_model_that_looks_at_its_own_layers_is_exported_whole():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(8))

        def forward(self, x):
            for block in reversed(self.blocks):
                x = block(x) + x
            return x + self.blocks[7](x)

    torch.manual_seed(0)
    model, x = Odd(), torch.randn(2, 4)
    found = computed(import_torch(model, (x,)), x)
    np.testing.assert_allclose(*found.values(), model(x).detach().numpy(), rtol=1e-5)


def test_a_refusal_names_the_module_and_the_line():
    class Branching(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x
            return -x

    with pytest.raises(ImportRefused) as caught:
        import_torch(nn.Sequential(nn.Linear(3, 3), Branching()), (torch.ones(2, 3),))
    assert "`1`, a Branching" in caught.value.message
    assert "if x.sum() > 0:" in caught.value.message
    assert os.path.basename(__file__) in caught.value.message
    assert "torch.where" in caught.value.help


def test_an_input_that_the_module_lacks():
    model = nn.Linear(3, 3)
    with pytest.raises(ImportRefused, match="`Linear` takes no input `masks`; it takes input"):
        import_torch(model, (torch.ones(2, 3),), kwargs={"masks": torch.ones(2, 3)})
    with pytest.raises(ImportRefused, match="`input` is given twice"):
        import_torch(model, (torch.ones(2, 3),), kwargs={"input": torch.ones(2, 3)})


@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("family", "settings", "cls"),
    [
        ("bert", {}, "BertLayer"),  # of the model with masked tokens, which looks both ways
        ("bart", {"encoder_layers": 2, "decoder_layers": 2}, "BartEncoderLayer"),  # both halves of it
        ("resnet", {"depths": [1, 1, 1, 1]}, "ResNetStage"),  # images of a size that it does not say
        ("wav2vec2", {"num_hidden_layers": 2}, "Wav2Vec2EncoderLayer"),  # samples of sound
        *also_together(
            ("deit", {"num_hidden_layers": 2}, "DeiTLayer"),  # of two models for the task
            ("patchtst", {"num_hidden_layers": 2}, "PatchTSTEncoderLayer"),  # numbers in the course of time
            ("whisper", {"encoder_layers": 2, "decoder_layers": 2}, "WhisperEncoderLayer"),
            ("falcon", {"num_hidden_layers": 2}, "FalconDecoderLayer"),  # one head of keys for all
            ("gpt_oss", {**DECODERS["GptOss"], "num_hidden_layers": 2}, "GptOssDecoderLayer"),  # biases of experts
        ),
    ],
)
def test_families_with_inputs_of_all_kinds(family, settings, cls):
    layers = {"num_hidden_layers": 2} if family == "bert" else {}
    module = import_hf(family, False, Shape(sequence=8, settings={**settings, **layers}), compare=False)
    assert cls in {f.name for f in module}
    assert not [d for d in distir.check(module) if d.severity == "error"]


def test_images_in_the_places_of_tokens_are_left_out_and_that_is_said():
    module = import_hf("qwen2_vl", False, Shape(sequence=8, layers=1), compare=False)
    assert any("without images" in note for note in module.notes)
    assert [p.name for p in module.functions["main"].params if "batch" in p.roles] == ["input_ids"]


def test_inputs_of_which_no_example_is_known():
    with pytest.raises(ImportRefused, match="`hidden_states`, `grid_thw`, of which no example is known"):
        import_hf("glm4v_moe_vision", False, Shape(sequence=8))


TINY = {"vocab_size": 96, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96}


def test_a_setting_without_a_value_means_what_it_does_in_other_families():
    """The default configuration of Nemotron leaves the number of key heads open, which its model does not take."""
    heads = {**TINY, "num_key_value_heads": 4}
    program, heads = (import_hf("nemotron", False, Shape(8, 1, settings), compare=False) for settings in (TINY, heads))
    assert ops(program, "Attention")
    assert program.functions == heads.functions


def test_settings_that_have_no_value_are_named_where_one_is_needed():
    experts = {"n_routed_experts": 4, "moe_intermediate_size": 32, "first_k_dense_replace": 0, "kv_lora_rank": 16}
    with pytest.raises(ImportRefused, match=r"state what the model needs of .*`num_experts_per_tok`") as refused:
        import_hf("deepseek_v2", False, Shape(sequence=8, layers=1, settings={**TINY, **experts}))
    assert "`--set n_group=2`" in refused.value.help


def test_seventy_billion_parameters_without_memory():
    settings = {"hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_key_value_heads": 8}
    settings["vocab_size"] = 128256
    imported = import_hf("llama", False, Shape(sequence=2048, layers=80, settings=settings))
    params = [p for p in imported.functions["main"].params if "param" in p.roles]
    assert sum(int(np.prod(p.type.shape)) for p in params) == pytest.approx(70.55e9, rel=1e-3)
    assert sum(isinstance(s, Call) for s in imported.functions["main"].body) == 80
    assert re.fullmatch(r"equal to PyTorch to .*e-0[67], on a copy with 2 layers of width \d+", imported.comparison)


INDEXED = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "index_n_heads": 16,
    "index_head_dim": 16,
    "index_topk": 3,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
}


def test_keys_that_an_indexer_chooses_are_a_mask():
    found = import_hf("deepseek_v32", False, Shape(sequence=8, layers=1, settings=INDEXED))
    assert float(found.comparison.removeprefix("equal to PyTorch to ")) < 1e-5
    assert found.notes == ()
    (attention,) = ops(found, "Attention")
    mask = attention.args[3]
    assert any(mask in masking.results for masking in ops(found, "And"))
    assert len(ops(found, "TopK")) == 1


def test_sinks_of_queries_are_no_sinks_of_heads():
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    settings = {
        "vocab_size": 96,
        "unpadded_vocab_size": 96,
        "hidden_size": 64,
        "moe_intermediate_size": 32,
        **heads,
        **{f"swa_{name}": value for name, value in heads.items()},
        "sliding_window_size": 3,
        "d_rel": 4,
        "rel_extent": 8,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_layers_per_attn_res_block": 1,
        "log_scaling_n_floor": 4,
        "num_hidden_layers": 1,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    model = transformers.Inkling2ForCausalLM(transformers.Inkling2TextConfig(**settings)).eval()
    found = import_torch(model, kwargs={"input_ids": tokens()})
    assert float(found.comparison.removeprefix("equal to PyTorch to ")) < 1e-5


def test_a_keyword_of_attention_that_is_not_known_is_refused():
    model = made("Llama", DECODERS["Llama"], layers=1)
    given = {"input_ids": tokens(), "block_indices": torch.zeros(3, 10, 2, dtype=torch.int64)}
    with pytest.raises(
        ImportRefused, match="`LlamaAttention` calls attention with `block_indices`, which is not known"
    ):
        import_torch(model, kwargs=given)


def test_the_family_that_an_architecture_names(tmp_path):
    stated = {"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(stated))
    settings = {name: value for name, value in INDEXED.items() if not name.startswith("index")}
    found = import_hf(str(tmp_path), False, Shape(sequence=8, layers=1, settings=settings), compare=False)
    assert found.comparison == ""
    said = "`kimi_k2` is no family that transformers knows: its `DeepseekV3ForCausalLM` is read as one of `deepseek_v3`"
    assert found.notes[0] == said


def test_a_family_that_transformers_lacks_is_refused_by_its_architecture(tmp_path):
    stated = {"model_type": "mimo", "architectures": ["MiMoForCausalLM"], "auto_map": {"AutoModel": "m.MiMo"}}
    (tmp_path / "config.json").write_text(json.dumps(stated))
    with pytest.raises(ImportRefused) as refused:
        import_hf(str(tmp_path), False)
    assert "has no model of the family `mimo`: `MiMoForCausalLM`" in refused.value.message
    assert "`distir import torch`" in refused.value.help


def test_a_class_that_transformers_lacks_is_its_familys_where_that_is_asked_for(command, tmp_path):
    stated = {"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"], **DECODER}
    (tmp_path / "config.json").write_text(json.dumps(stated))
    given = ("import", "hf", tmp_path, "--seq", "8", "--layers", "1", "--no-compare", "--no-weights")
    refused = command(*given)
    assert refused.code == 2
    assert "has no `LlamaForCausalLMEagle3`, which `architectures` names" in refused.err
    asked = command(*given, "--set", "architectures=LlamaForCausalLM")
    assert asked.code == 0, asked.err
    assert "%model.layers.0.self_attn.q_proj.weight" in asked.out


def test_sizes_beside_the_table_that_they_belong_to_are_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "step3p7", "hidden_size": 64}))
    with pytest.raises(ImportRefused, match="`hidden_size` has no effect beside `text_config`"):
        import_hf(str(tmp_path), False)


APART = {
    # Groups of heads choose blocks of keys, which are a mask.
    "minimax_m3_vl_text": (11, None, {
        "vocab_size": 96, "hidden_size": 32, "dense_intermediate_size": 48, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "rotary_dim": 8, "num_hidden_layers": 1,
        "layer_types": ["minimax_m3_sparse"], "mlp_layer_types": ["dense"], "index_n_heads": 2, "index_head_dim": 16,
        "index_block_size": 3, "index_topk_blocks": 2,
    }),
    # Layers have heads of their own sizes.
    "gemma4_text": (8, None, {
        "vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 16,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_global_key_value_heads": 1, "global_head_dim": 32,
        "attention_k_eq_v": True, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4,
        "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 96, "num_kv_shared_layers": 0,
    }),
    # A pattern of letters says how many layers there are, and of which kinds.
    "nemotron_h": (80, None, {
        "hybrid_override_pattern": "M*-", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "intermediate_size": 96, "vocab_size": 96, "mamba_num_heads": 8, "mamba_head_dim": 16,
        "ssm_state_size": 16, "n_groups": 2, "num_hidden_layers": 3,
    }),
    # Compressed keys extend the mask by what is added to their scores. The list of kinds has an entry more, for
    # multi-token prediction; the first layers are of the kinds that it says.
    "deepseek_v4": (12, 1, {
        **COMMON, "num_hidden_layers": 2, "compress_ratios": [4, 128, 0], "head_dim": 64, "num_key_value_heads": 1,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "q_lora_rank": 16, "o_groups": 2,
        "o_lora_rank": 8, "sliding_window": 5, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 2,
        "num_hash_layers": 0, "hc_sinkhorn_iters": 1,
    }),
    # A classifier of sequences, without a token for padding.
    "qwen3": (8, None, {
        **DECODER, "architectures": ["Qwen3ForSequenceClassification"], "head_dim": 16, "num_hidden_layers": 1,
    }),
}  # fmt: skip
"""What no other model does, by family: tokens, layers where fewer are imported, and what a file states."""


@pytest.mark.by_turns
@pytest.mark.parametrize("family", APART)
def test_models_that_set_themselves_apart_compute_what_torch_does(family, tmp_path):
    sequence, layers, stated = APART[family]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family, **stated}))
    found = import_hf(str(tmp_path), False, Shape(sequence, layers))
    said = re.match(r"equal to PyTorch to ([\d.]+e-\d+)", found.comparison)
    assert said is not None, found.comparison
    assert float(said[1]) < 1e-5
    assert (family != "deepseek_v4") or [p for p in found.entry().params if "indexer" in p.name]


def test_a_configuration_from_the_command_line(command, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma2", **DECODER, "head_dim": 16}))
    out = tmp_path / "gemma.dir"
    found = command("import", "hf", tmp_path, "--layers", "2", "--seq", "8", "--labels", "-o", out)
    assert found.code == 0, found.err
    text = out.read_text()
    assert text.count("= @Gemma2DecoderLayer") == 2
    assert "return %loss, %logits" in text
    assert (tmp_path / "gemma.safetensors").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("lama",), "did you mean `llama`?"),
        (("meta-llama/Llama-3.1-8B",), "nothing is fetched"),
        (("missing.json",), "missing.json"),
        (("llama", "--set", "hiden_size=64"), "did you mean `hidden_size`?"),
        (("llama", "--set", "hidden_size"), "expected a name and a value"),
        (("llama", "--seq", "100000"), "2048 positions"),
        (("llama", "--set", "num_attention_heads=7"), "(7)"),
        (("llama", "--dtype", "float99"), "there are no floats called `float99`"),
        (("llama", "--training"), "`--training` is not for models of transformers"),
    ],
)
def test_bad_input_is_said_in_one_message(command, args, said, tmp_path):
    out = tmp_path / "out.dir"
    found = command("import", "hf", *args, "--no-weights", "-o", out)
    assert found.code != 0
    assert said in found.err
    assert "Traceback" not in found.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"]}, "an adapter of PEFT"),
        ({"_class_name": "UNet2DConditionModel", "act_fn": "silu"}, "a configuration of diffusers"),
        ({"architecture": "resnet50", "num_classes": 1000}, "a configuration of timm"),
        ({"dim": 64, "n_heads": 4, "n_kv_heads": 2}, "as Meta and Mistral write them"),
        ({"bos_token_id": 1, "eos_token_id": 2}, "a configuration of generation"),
        ({"architectures": ["LlamaForCausalLM"], "hidden_size": 64}, "name the family of `LlamaForCausalLM`"),
    ],
)
def test_what_json_is_that_is_no_configuration(command, stated, said, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(stated))
    found = command("import", "hf", tmp_path / "config.json", "--no-weights", "-o", tmp_path / "out.dir")
    assert found.code == 2
    assert said in found.err


def test_weights_in_fewer_bits_are_said(command, tmp_path):
    """As GPTQ, AWQ and DeepSeek publish theirs: the program has them in the elements that it is asked for."""
    stated = {"model_type": "llama", **DECODER, "quantization_config": {"quant_method": "gptq", "bits": 4}}
    (tmp_path / "config.json").write_text(json.dumps(stated))
    options = ("--seq", 8, "--no-weights", "--no-compare")
    found = command("import", "hf", tmp_path / "config.json", *options, "-o", tmp_path / "out.dir")
    assert found.code == 0, found.err
    assert "published quantised in 4 bits (`gptq`)" in found.err


ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
THROUGH_TRAINING = {
    "CodeGen": {
        "vocab_size": 96,
        "n_positions": 32,
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 4,
        "rotary_dim": 8,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    **{name: {**DECODER, **ENDS} for name in ("Cohere", "StableLm", "Nemotron", "Olmo2", "Phi3")},
    "Glm4": {**DECODER, **ENDS, "head_dim": 16},
    "GraniteMoe": {**DECODER, **ENDS, "num_local_experts": 4, "num_experts_per_tok": 2},
    "Mamba": {"vocab_size": 96, "hidden_size": 64},
}
"""Settings of models that are trained with Float32 weights alone, which were not written with this in mind."""


@pytest.mark.parametrize("name", THROUGH_TRAINING if ALL else ["CodeGen"])
def test_training_steps_with_master_weights_alone_are_distributed(name):
    """Imported, in mixed precision, clipped, fused, over replicas, shards, stages and microbatches; and as FSDP."""
    settings = THROUGH_TRAINING[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(
        **({} if "n_layer" in settings else {"num_hidden_layers": 2}), **settings
    )
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    imported = import_torch(model, (tokens(8, 8),), dynamic_batch=True)
    options = ("optimizer=adamw", "precision=mixed", "clip=1.0", "loss=cross_entropy")
    step = transform(imported, "grad", *options, "master=only")
    for chain in ("dp=2 zero=3", "dtp=2,2,2 microbatches=4 zero=1 fuse")[: 2 if ALL else 1]:
        assert verify(step, transform(step, *chain.split()), bind={"B": 8}).equal
