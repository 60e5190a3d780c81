"""Serving: prompts, then token by token, with caches that are written in place."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from model_samples import inputs
from published_samples import small, state, theirs

import distir
from distir import models
from distir.analysis import check
from distir.diagnostics import ProgramError
from distir.ir import Apply, Call
from distir.models import ModelError
from distir.models.catalogue import program
from distir.models.decoder import Decoder
from distir.models.decoder_program import decode, decoder, prefill
from distir.models.encoder_decoder import T5
from distir.models.published import PUBLISHED
from distir.ops import OPS, work
from distir.transform import transform, verify
from distir.transform.entry import entry_of

CONTEXT, PROMPT, BATCH = 12, 8, 3

FAMILIES = [
    "llama3-8b",
    "mistral-7b",
    "qwen3-8b",
    "gemma2-2b",
    "gpt3-125m",
    "mpt-7b",
    "mixtral-8x7b",
    "deepseek-v3",
    "gpt-oss-20b",
]


@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_one_by_one_give_the_logits_of_all_at_once(name):
    """The windows of five tokens are shorter than the prompt and the context, whose caches hold eight and twelve."""
    model = small(name)
    whole, first, step = (
        decoder(model, CONTEXT, BATCH, "Float64"),
        prefill(model, CONTEXT, PROMPT, BATCH, "Float64"),
        decode(model, CONTEXT, BATCH, "Float64"),
    )
    assert distir.check(first) == distir.check(step) == []
    arrays = inputs(whole, vocabulary=model.vocabulary, scale=0.2)
    weights = {p.name: arrays[p.name] for p in whole.entry().params if "batch" not in p.roles}
    tokens = arrays["input_ids"]
    (expected,) = distir.run(whole, arrays).values()
    names = [p.name for p in first.entry().params if "state" in p.roles]
    assert names == [p.name for p in step.entry().params if "state" in p.roles]
    empty = {p.name: np.full(p.type.shape, 1e3) for p in first.entry().params if "state" in p.roles}
    logits, *caches = distir.run(first, weights | empty | {"input_ids": tokens[:, :PROMPT]}).values()
    np.testing.assert_allclose(logits, expected[:, PROMPT - 1], rtol=1e-9, atol=1e-9)
    for position in range(PROMPT, CONTEXT):
        given = {"input_ids": tokens[:, position : position + 1], "position": np.array(position)}
        logits, *caches = distir.run(step, weights | dict(zip(names, caches, strict=True)) | given).values()
        np.testing.assert_allclose(logits, expected[:, position], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [*FAMILIES, "t5-small"])
def test_steps_give_the_logits_of_transformers_with_its_cache(name):
    model = small(name)
    coded = isinstance(model, T5)
    whole = program(model, CONTEXT, BATCH, "Float64")
    made = theirs(name, model)
    weights = state(whole, made)
    if coded:
        first, step = model.prefill(CONTEXT, PROMPT, BATCH, "Float64"), model.decode(CONTEXT, BATCH, "Float64")
    else:
        first, step = prefill(model, CONTEXT, PROMPT, BATCH, "Float64"), decode(model, CONTEXT, BATCH, "Float64")
    assert distir.check(first) == distir.check(step) == []
    generator = np.random.default_rng(2)
    tokens = generator.integers(0, model.vocabulary, (BATCH, CONTEXT))
    source = generator.integers(0, model.vocabulary, (BATCH, PROMPT))
    ids, start = ("decoder_input_ids", 1) if coded else ("input_ids", PROMPT)
    given = {"input_ids": source} if coded else {}
    names = [p.name for p in first.entry().params if "state" in p.roles]
    assert names == [p.name for p in step.entry().params if "state" in p.roles]
    caches = {p.name: np.full(p.type.shape, 1e3) for p in first.entry().params if "state" in p.roles}

    def ours(module, **inputs):
        own = {p.name for p in module.entry().params}
        found = distir.run(module, {n: w for n, w in weights.items() if n in own} | caches | inputs)
        caches.update((n.removesuffix(".new"), value) for n, value in found.items() if n.endswith(".new"))
        return next(iter(found.values()))

    with torch.no_grad():
        inputs = {k: torch.from_numpy(v) for k, v in (given | {ids: tokens[:, :start]}).items()}
        done = made(**inputs, use_cache=True)
        compare(ours(first, **given, **{ids: tokens[:, :start]}), done.logits[:, -1].numpy())
        for position in range(start, CONTEXT):
            token = tokens[:, position : position + 1]
            more = {"encoder_outputs": (done.encoder_last_hidden_state,)} if coded else {}
            after = {"past_key_values": done.past_key_values, "use_cache": True, **more}
            done = made(**{ids: torch.from_numpy(token)}, **after)
            hosts = {"position": np.array(position), **({"source_length": np.array(PROMPT)} if coded else {})}
            compare(ours(step, **hosts, **{ids: token}), done.logits[:, -1].numpy())


def compare(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_an_encoder_decoder_is_served_the_same_on_many_devices(phase):
    module = getattr(small("t5-small"), phase)(CONTEXT, batch=None, dtype="Float64")
    for steps in (("dp=2",), ("tp=2",), ("pp=2",)):
        found = verify(module, transform(module, *steps), tolerance=1e-9, bind={"B": 4})
        assert [r for r in found.results if not r.equal] == []


def test_an_encoder_decoder_step_reads_the_source_that_there_is():
    """Two caches for a layer: of the decoder's own tokens and of the encoder's result."""
    step = models.named("t5-11b", 16, phase="decode", context=8192)
    full = distir.simulate(step, "dgx-h100").latency_s
    row = 2 * 2 * 24 * 16 * 128 * 128
    for bind in ({"position": 100}, {"source_length": 101}):
        early = distir.simulate(step, "dgx-h100", bind=bind).latency_s
        assert full - early == pytest.approx((8192 - 101) * row / 3.35e12, rel=0.3)


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("phase", [prefill, decode])
@pytest.mark.parametrize("name", FAMILIES)
def test_serving_is_the_same_on_many_devices(name, phase):
    module = phase(small(name), CONTEXT, batch=None, dtype="Float64")
    for steps in (("dp=2",), ("tp=2",), ("pp=2",)):
        found = verify(module, transform(module, *steps), tolerance=1e-9, bind={"B": 4})
        assert [r for r in found.results if not r.equal] == []


def test_caches_are_split_by_sequences_and_by_heads():
    module = decode(small("llama3-8b"), CONTEXT, 4)
    whole = [p.type.shape for p in module.entry().params if "state" in p.roles]
    assert whole == [(4, CONTEXT, 2 * 8)] * 4
    for step, shape in (("dp=2", (2, CONTEXT, 16)), ("tp=2", (4, CONTEXT, 8))):
        entry = entry_of(transform(module, step))
        assert [p.type.shape for p in entry.params if "state" in p.roles] == [shape] * 8


def test_there_is_no_second_cache():
    """What a step holds is its weights and its caches, which it writes in place; and 5 % for the rest."""
    model = PUBLISHED["llama3-8b"]
    step = models.named("llama3-8b", 16, phase="decode", context=8192)
    caches = 2 * 2 * model.layers * 16 * 8192 * model.kv_heads * model.size
    held = 2 * models.parameter_count(step) + caches
    assert held < distir.simulate(step, "dgx-h100").devices[1].peak_memory_bytes < 1.05 * held


def test_a_step_reads_its_weights_and_what_its_caches_hold():
    """Of a large batch with a long context the caches take the time; at an early position, the weights."""
    step = models.named("llama3-8b", 16, phase="decode", context=8192)
    full = distir.simulate(step, "dgx-h100").latency_s
    early = distir.simulate(step, "dgx-h100", bind={"position": 100}).latency_s
    caches = 2 * 2 * 32 * 16 * (8192 - 101) * 8 * 128
    assert full - early == pytest.approx(caches / 3.35e12, rel=0.3)


def test_a_window_has_a_cache_of_its_own_length():
    step = models.named("gemma2-2b", 1, phase="decode", context=8192, layers=4)
    places = [p.type.shape[1] for p in step.entry().params if p.name.endswith(".keys")]
    assert places == [4096, 8192, 4096, 8192]


def test_latent_attention_caches_latents():
    step = models.named("deepseek-v3", 2, phase="decode", context=64, layers=4)
    assert {p.type.shape for p in step.entry().params if "state" in p.roles} == {(2, 64, 512 + 64)}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("bert-base", {"phase": "decode"}, "the model `bert-base` has no phase `decode`: it has no decoder"),
        ("vit-b", {"phase": "prefill"}, "the model `vit-b` has no phase `prefill`"),
        ("t5-small", {"phase": "decode", "context": 0}, "expected `context` to be 1 or more, found 0"),
        (
            "t5-small",
            {"phase": "prefill", "context": 8, "sequence": 9},
            "expected `sequence` to be at most the context",
        ),
        ("llama3-8b", {"phase": "decod"}, "there is no phase `decod`; did you mean `decode`?"),
        ("llama3-8b", {"context": 64}, "expected a `phase` where there is a `context`"),
        ("llama3-8b", {"phase": "decode", "sequence": 64}, "expected no `sequence` where the phase is `decode`"),
        ("llama3-8b", {"phase": "decode", "context": 0}, "expected `context` to be 1 or more, found 0"),
        ("gpt3-175b", {"phase": "decode", "context": 4096}, "expected `context` to be at most 2048, the positions"),
        (
            "llama3-8b",
            {"phase": "prefill", "context": 64, "sequence": 65},
            "expected `sequence` to be at most the context 64, found 65",
        ),
        ("gpt2-13b", {"phase": "decode"}, "the model `gpt2-13b` has no size `phase`"),
    ],
)
def test_what_cannot_be_served_is_refused(name, arguments, message):
    with pytest.raises(ModelError) as error:
        models.named(name, **arguments)
    assert str(error.value).startswith(message)


def test_every_decoder_has_both_phases():
    for name, model in PUBLISHED.items():
        if isinstance(model, (Decoder, T5)):
            for phase in ("prefill", "decode"):
                assert distir.check(models.named(name, phase=phase, context=256, layers=2)) == []


def test_latents_are_read_once():
    """What grows with the context is the traffic of one cache, and two products of each head with it (FlashMLA)."""
    model, batch = PUBLISHED["deepseek-v3"], 4
    assert isinstance(model, Decoder)
    assert model.latent is not None
    rank, rotated = model.latent.kv_rank, model.latent.rotated
    done = [attention_of(decode(model, context, batch)) for context in (1024, 2048)]
    more_bytes, more_flops = done[1].bytes - done[0].bytes, done[1].flops - done[0].flops
    assert more_bytes == 2 * batch * 1024 * (rank + rotated)
    assert more_flops == 2 * batch * 1024 * model.heads * (2 * rank + rotated)


def attention_of(module):
    """The work of a layer's attention."""
    analysis = check(module)
    layer = next(f for f in module if any(isinstance(s, Apply) and s.op == "Attention" for s in f.body))
    call = next(s for s in module.entry().body if isinstance(s, Call) and s.function == layer.name)
    main = analysis.instance(module.entry(), tuple(p.type for p in module.entry().params))
    instance = analysis.domain.instance(layer.name, main.state(call.args))
    (statement,) = [s for s in layer.body if isinstance(s, Apply) and s.op == "Attention"]
    results = [instance.state[name] for name in statement.results]
    return work(OPS["Attention"], instance.state(statement.args), results, statement.attrs)


def test_more_shards_than_heads_of_keys_are_refused_with_what_does_work():
    """On each device, copied heads take what those of a model with more of them do, which the hint says."""
    sizes = {"layers": 1, "width": 32, "heads": 8, "head_size": 4, "vocabulary": 32, "ffn": 32}
    few, more = (models.named("llama3-8b", 4, phase="decode", context=8, kv_heads=n, **sizes) for n in (2, 4))
    with pytest.raises(ProgramError) as caught:
        transform(few, "tp=4")
    (found,) = caught.value.diagnostics
    assert found.code.number == "DIR620"
    assert "2 (`kv_num_heads`) does not split over 4 devices" in found.message
    assert found.help.startswith("2 would do, beside `cp`, `dp` and `pp`")
    assert "`distir model … --kv-heads 4`" in found.help
    held = {p.name: p.type for p in transform(more, "tp=4").entry().params}
    assert str(held["model.layers.0.self_attn.k_proj.weight_4"]) == "Tensor[BFloat16, (32, 4), 4]"
    assert str(held["cache.0.keys_4"]) == "Tensor[BFloat16, (4, 8, 4), 4]"
