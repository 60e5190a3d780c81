"""Generated GPT-2 beside Hugging Face's, from the same weights. Skipped without torch and transformers."""

import numpy as np
import pytest
from model_samples import weights

import distir
from distir import models

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def theirs(layers, width, heads, positions, vocabulary):
    """Their model in Float64, with weights large enough that every part of it counts."""
    config = transformers.GPT2Config(
        n_layer=layers,
        n_embd=width,
        n_head=heads,
        n_positions=positions,
        vocab_size=vocabulary,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.3)
    return model


def state(model):
    """The weights as arrays, under the names that the published checkpoints have; the logits' are the embedding's."""
    found = {name.removeprefix("transformer."): w.numpy() for name, w in model.state_dict().items()}
    assert (found.pop("lm_head.weight") == found["wte.weight"]).all()
    return found


@pytest.mark.parametrize(
    ("layers", "width", "heads", "sequence"), [(1, 8, 1, 4), (2, 64, 4, 8), (3, 30, 5, 13), (2, 12, 12, 16)]
)
def test_the_same_weights_give_the_same_logits(layers, width, heads, sequence):
    vocabulary, positions, batch = 97, 16, 3
    model = theirs(layers, width, heads, positions, vocabulary)
    module = models.gpt2(layers, width, heads, sequence, batch, vocabulary, "Float64", positions=positions)
    arrays = state(model)
    assert weights(module) == {name: array.shape for name, array in arrays.items()}
    tokens = torch.randint(0, vocabulary, (batch, sequence), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = model(tokens).logits.numpy()
    (logits,) = distir.run(module, arrays | {"input_ids": tokens.numpy()}).values()
    np.testing.assert_allclose(logits, expected, rtol=1e-10, atol=1e-10)


def test_without_logits_it_is_their_model_without_a_head():
    model = theirs(2, 16, 2, 8, 11)
    module = models.gpt2(2, 16, 2, 8, 1, 11, "Float64", positions=8, head=False)
    tokens = torch.arange(8)[None]
    with torch.no_grad():
        expected = model.transformer(tokens).last_hidden_state.numpy()
    (hidden,) = distir.run(module, state(model) | {"input_ids": tokens.numpy()}).values()
    np.testing.assert_allclose(hidden, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("layers", "width", "heads"), [(2, 64, 4), (12, 768, 12)])
def test_they_count_as_many_parameters(layers, width, heads):
    with torch.device("meta"):
        config = transformers.GPT2Config(n_layer=layers, n_embd=width, n_head=heads)
        count = transformers.GPT2LMHeadModel(config).num_parameters()
    assert models.parameter_count(models.gpt2(layers, width, heads, 8)) == count


class Logits(torch.nn.Module):
    """Theirs as people export it: tokens and a mask of them in, logits out."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


@pytest.mark.parametrize("exporter", ["dynamo", "script"])
def test_an_export_of_theirs_gives_the_same_at_any_batch_size(tmp_path, exporter):
    """They export for the batch size that they are given; here that is taken back."""
    pytest.importorskip("onnxscript")
    model = theirs(2, 32, 4, 16, 97).float()
    tokens = torch.randint(0, 97, (5, 8), generator=torch.Generator().manual_seed(1))
    example = (tokens[:2], torch.ones(2, 8, dtype=torch.long))
    names = ["input_ids", "attention_mask"]
    torch.onnx.export(
        Logits(model), example, tmp_path / "gpt2.onnx", dynamo=exporter == "dynamo", input_names=names, verbose=False
    )
    imported = distir.import_onnx(tmp_path / "gpt2.onnx", batch=dict.fromkeys(names, 0))
    generated = models.gpt2(2, 32, 4, 8, None, 97, "Float32", positions=16)
    given = {"input_ids": tokens.numpy(), "attention_mask": np.ones((5, 8), np.int64)}
    (found,) = distir.run(imported, {**imported.weights, **given}).values()
    (expected,) = distir.run(generated, state(model) | {"input_ids": tokens.numpy()}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
