"""Published models by name: as many parameters and FLOPs as published, and sizes that may be overridden."""

import pytest
from model_samples import assert_sound, weights

import distir
from distir import models
from distir.ir import Call
from distir.models import PUBLISHED, ModelError
from distir.models.figures import figures

PARAMETERS = {
    # Of the checkpoints on the Hugging Face hub, as their safetensors files count them; with each tied weight once.
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "llama3.1-8b": 8_030_261_248,
    "llama3.1-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "mistral-7b": 7_241_732_096,
    "mistral-small-24b": 23_572_403_200,
    "mistral-large-123b": 122_610_069_504,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "phi4-14b": 14_659_507_200,
    "smollm3-3b": 3_075_098_624,
    "minimax-m2": 228_689_748_992,
    "gemma2-2b": 2_614_341_888,
    "gemma2-9b": 9_241_705_984,
    "gemma2-27b": 27_227_128_320,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "mpt-7b": 6_649_286_656,
    "mpt-30b": 29_957_200_896,
    "bert-base": 109_514_298,
    "bert-large": 335_174_458,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    # torchvision, `vit_b_16`, `vit_l_16` and `vit_h_14` (224 pixels, 1000 classes)
    "vit-b": 86_567_656,
    "vit-l": 304_326_632,
    "vit-h": 632_045_800,
    # As transformers 5.24 builds the classes of the published configurations, without data. Reports round them: 671B
    # (arXiv:2412.19437), 20.91B and 116.83B (arXiv:2508.10925), 1.04T (arXiv:2507.20534, table 2), 355B and 106B
    # (arXiv:2508.06471). The checkpoints of GLM-4.5 and GLM-4.5-Air, 358.34B and 110.47B, have a layer for multi-token
    # prediction more, with an embedding and logits of its own.
    "deepseek-v3": 671_026_404_352,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "kimi-k2": 1_026_408_209_408,
    "glm-4.5": 352_797_814_784,
    "glm-4.6": 352_797_814_784,
    "glm-4.5-air": 106_852_245_504,
    # Brown et al., arXiv:2005.14165, table D.1, in millions
    "gpt3-125m": 125e6,
    "gpt3-350m": 356e6,
    "gpt3-760m": 760e6,
    "gpt3-1.3b": 1320e6,
    "gpt3-2.7b": 2650e6,
    "gpt3-6.7b": 6660e6,
    "gpt3-13b": 12850e6,
    "gpt3-175b": 174_600e6,
}

ACTIVE = {
    # Jiang et al., arXiv:2401.04088, section 1; Mistral AI, *Cheaper, Better, Faster, Stronger*, 2024
    "mixtral-8x7b": 12.9e9,
    "mixtral-8x22b": 39e9,
    # Yang et al., arXiv:2505.09388, section 2, and the model cards
    "qwen3-30b-a3b": 3.3e9,
    "qwen3-235b-a22b": 22e9,
    "deepseek-v3": 37e9,
    "kimi-k2": 32.6e9,
    "minimax-m2": 10.4e9 + 200064 * 3072,
    # Without the embedding, of which a token reads a row
    "gpt-oss-20b": 3.61e9 + 201088 * 2880,
    "gpt-oss-120b": 5.13e9 + 201088 * 2880,
    "glm-4.5": 32e9 + 2 * 151552 * 5120,
    "glm-4.6": 32e9 + 2 * 151552 * 5120,
    "glm-4.5-air": 12.2e9 + 2 * 151552 * 4096,
}

FLOPS = {
    # For 300 billion tokens of training, three times the forward pass (ibid., table D.1), without attention's products
    "gpt3-125m": 2.25e20 / 300e9 / 3,
    "gpt3-2.7b": 4.77e21 / 300e9 / 3,
    "gpt3-13b": 2.31e22 / 300e9 / 3,
    "gpt3-175b": 3.14e23 / 300e9 / 3,
    # 3.8e25 for 15.6 trillion tokens of training, 6 for each parameter (arXiv:2407.21783, section 3.2.1)
    "llama3-405b": 3.8e25 / 15.6e12 / 3,
}

STEP_FLOPS = {
    # Of training, for each token of a sequence of 4096, with attention (DeepSeek-AI, arXiv:2505.09343, table 2)
    "deepseek-v3": 250e9,
    "llama3-405b": 2448e9,
}

MACS = {
    # Multiply-adds of an image, with attention, in 10^9 (torchvision's `_ops` of the weights)
    "vit-b": 17.564,
    "vit-l": 61.555,
    "vit-h": 167.295,
}


def test_every_published_model_has_a_published_count():
    assert set(PARAMETERS) == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_has_as_many_parameters_as_published(name):
    found = models.parameter_count(models.named(name))
    assert found == (
        PARAMETERS[name] if isinstance(PARAMETERS[name], int) else pytest.approx(PARAMETERS[name], rel=4e-3)
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_checks_and_is_as_long_as_it_has_layers(name):
    module = models.named(name)
    assert_sound(module)
    model = PUBLISHED[name]
    calls = [s for s in module.entry().body if isinstance(s, Call)]
    assert len(calls) == model.layers * (2 if name.startswith("t5") else 1)
    assert len(module.functions) <= 3
    assert {str(p.type.dtype) for p in module.entry().params if "param" in p.roles} == {"BFloat16"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_as_many_parameters_are_active_as_published(name):
    found = figures(name)
    assert found.active == pytest.approx(ACTIVE.get(name, found.parameters), rel=0.02)


@pytest.mark.parametrize("name", FLOPS)
def test_flops_per_token_are_those_published(name):
    found = figures(name)
    without = found.flops_per_token - found.attention_flops / found.tokens
    assert without == pytest.approx(FLOPS[name], rel=0.025)


@pytest.mark.parametrize("name", STEP_FLOPS)
def test_flops_of_a_training_step_are_those_published(name):
    assert 3 * figures(name, 4096).flops_per_token == pytest.approx(STEP_FLOPS[name], rel=0.02)


@pytest.mark.parametrize("name", MACS)
def test_flops_of_an_image_are_those_published(name):
    assert figures(name).flops == pytest.approx(2e9 * MACS[name], rel=0.01)


@pytest.mark.parametrize("name", PUBLISHED)
def test_flops_are_two_for_each_parameter_that_is_multiplied_with_a_token(name):
    """All of them, but those that are looked up: embeddings that are no logits, too."""
    found = figures(name)
    shapes = weights(models.named(name))
    looked_up = ("position", "wpe", "token_type", "relative", "embed_tokens", "cls_token")
    tied = "model.embed_tokens.weight" in shapes and "lm_head.weight" not in shapes
    unused = sum(
        shape[0] * shape[-1]
        for key, shape in shapes.items()
        if any(part in key for part in looked_up) and not (tied and "embed_tokens" in key)
    )
    without = found.flops_per_token - found.attention_flops / found.tokens
    assert without == pytest.approx(2 * (found.active - unused), rel=0.015)


def test_flops_of_attention_grow_with_the_sequence():
    """Heads times their size is the width; a token attends to at most the whole sequence."""
    found, model = figures("llama3-8b"), PUBLISHED["llama3-8b"]
    products = model.layers * 4 * model.width * found.tokens
    assert 0.49 * products < found.attention_flops / found.tokens < 1.1 * products


def test_all_but_the_last_of_so_many_layers_have_a_window():
    text = distir.format(models.named("gemma2-2b", layers=4))
    assert "func @Gemma2DecoderLayerSliding(" in text
    calls = [s.function for s in models.named("gemma2-2b", layers=4).entry().body if isinstance(s, Call)]
    assert calls == ["Gemma2DecoderLayerSliding", "Gemma2DecoderLayer"] * 2
    short = models.named("gemma2-2b", layers=4, sequence=1024)
    assert set(short.functions) == {"Gemma2DecoderLayer", "main"}, "no window where it hides nothing"


def test_any_size_may_be_overridden():
    module = models.named(
        "llama3-8b", 2, 16, "Float32", layers=3, width=64, heads=8, kv_heads=2, ffn=96, vocabulary=100
    )
    shapes = weights(module)
    assert shapes["model.layers.2.self_attn.k_proj.weight"] == (64, 16)
    assert shapes["model.layers.2.mlp.down_proj.weight"] == (96, 64)
    assert shapes["model.embed_tokens.weight"] == (100, 64)
    assert "model.layers.3.mlp.down_proj.weight" not in shapes
    assert str(module.entry().params[-1].type) == "Tensor[Int64, (2, 16), 1]"


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("llama3-8", {}, "there is no model `llama3-8`; did you mean `llama3-8b`?"),
        ("llama3-8b", {"heads": 4}, "expected `kv_heads` to divide the number of heads 4, found 8; 1, 2, 4 do"),
        ("llama3-8b", {"heads": 5}, "expected `heads` to divide the width 4096, found 5; 1, 2, 4, 8, 16, 32 do"),
        ("llama2-7b", {"heads": 5}, "expected `heads` to divide the width 4096, found 5; 1, 2, 4, 8, 16, 32 do"),
        ("llama3-8b", {"width": 32 * 5}, "expected heads of an even size, whose pairs are rotated, found 5"),
        ("llama3-8b", {"experts": 8}, "the model `llama3-8b` has no size `experts`; it has layers, width, heads"),
        ("deepseek-v3", {"experts": 8, "top_k": 2}, "expected `experts` to be a multiple of 8, the number of their"),
        ("deepseek-v3", {"experts": 12}, "expected `experts` to be a multiple of 8, the number of their groups, and 2"),
        ("mixtral-8x7b", {"experts": 2, "top_k": 3}, "expected `top_k` to be at most 2"),
        ("llama3-8b", {"layers": 0}, "expected `layers` to be 1 or more, found 0"),
        ("llama3-8b", {"layers": 1_000_000}, "expected `layers` to be 4096 at most, found 1000000"),
        ("llama3-8b", {"ffn": 2**40}, "expected `ffn` to be 2147483647 at most"),
        ("llama3-8b", {"sequence": 0}, "expected `sequence` to be 1 or more, found 0"),
        (
            "gpt3-175b",
            {"sequence": 4096},
            "expected `sequence` to be at most 2048, the positions there are, found 4096",
        ),
        ("bert-base", {"sequence": 1024}, "expected `sequence` to be at most 512"),
        ("vit-b", {"sequence": 8}, "expected no `sequence`: the tokens are the patches of an image"),
        ("gpt2-13b", {"layers": 2}, "the model `gpt2-13b` has no size `layers`; its sizes are fixed"),
        ("qwen3-8b", {"dtype": "bf16"}, "expected a floating-point type as `dtype`, found `bf16`"),
    ],
)
def test_sizes_that_make_no_model_are_refused(name, arguments, message):
    with pytest.raises(ModelError) as error:
        models.named(name, **arguments)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("meta-llama/Meta-Llama-3-8B", "llama3-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3.1-8b"),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
        ("google-t5/t5-base", "t5-base"),
        ("Llama3_8B", "llama3-8b"),
    ],
)
def test_a_model_has_the_name_of_its_repository(repository, name):
    assert models.published_as(repository) == name
    assert models.named(repository, layers=2) == models.named(name, layers=2)


@pytest.mark.parametrize("repository", ["mistralai/Mistral-7B-v0.3", "meta-llama/Llama-3-18B", "bert", "llama", ""])
def test_another_model_of_the_family_is_no_published_one(repository):
    assert models.published_as(repository) == repository
    with pytest.raises(ModelError, match="there is no model"):
        models.named(repository)
