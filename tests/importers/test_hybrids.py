"""Models of which some layers have attention, and others a state that is carried along the sequence."""

import sys

import numpy as np
import pytest
from thorough import also

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import distir  # noqa: E402
from distir.importers import ImportRefused, import_torch  # noqa: E402
from distir.ir import Apply  # noqa: E402
from distir.transform import transform, verify  # noqa: E402

SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1}
LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}
GRANITE = {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 32}
HYBRIDS = {
    "GraniteMoeHybrid": {**MAMBA, **GRANITE, "layer_types": ["mamba", "attention"]},
    "Bamba": {**MAMBA, "attn_layer_indices": [1]},
    "FalconH1": {**MAMBA, "mamba_n_heads": 4, "mamba_d_ssm": 64},
    "Jamba": {"num_experts": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8},
    "Qwen3Next": {**EXPERTS, **LINEAR, "head_dim": 16, "num_experts": 4},
}
SCANS = {
    "Qwen3Next": ("GatedLinearAttention", {**HYBRIDS["Qwen3Next"], "layer_types": ["linear_attention"]}),
    "Bamba": ("GatedLinearAttention", {**HYBRIDS["Bamba"], "attn_layer_indices": []}),
    "Jamba": ("SelectiveScan", {**HYBRIDS["Jamba"], "attn_layer_offset": 1}),
}
"""Models whose first layer has no attention, with the op that it has in the place of one."""


def made(name, settings):
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **settings})
    config.use_cache = False
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


def tokens(batch, length=8):
    return torch.randint(3, 96, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["Qwen3Next", *also("Jamba", "Bamba")])
def test_a_recurrence_is_one_op_however_long_the_sequence(name):
    op, settings = SCANS[name]
    model = made(name, {**settings, "num_hidden_layers": 1})
    home = sys.modules[type(model).__module__]
    functions = {**vars(home)}
    lengths = []
    for length in (8, 70):
        imported = import_torch(model, (tokens(2, length),), dynamic_batch=True)
        found = [s.op for f in imported for s in f.body if isinstance(s, Apply)]
        assert found.count(op) == 1
        assert len(found) < 150
        lengths.append(len(found))
    assert lengths[0] == lengths[1]
    assert vars(home) == functions
    with torch.no_grad():
        expected = model(tokens(2, 70)).logits.numpy()
    names = [p.name for p in imported.entry().params if p.name not in imported.weights]
    (logits,) = distir.run(imported, {**imported.weights, names[0]: tokens(2, 70).numpy()}).values()
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", HYBRIDS)
def test_it_computes_what_torch_does_and_is_trained_on_devices(name):
    model = made(name, HYBRIDS[name])
    imported = import_torch(model, (tokens(4),), dynamic_batch=True)
    assert any(isinstance(s, Apply) and s.op == "Attention" for f in imported for s in f.body)
    names = [p.name for p in imported.entry().params if p.name not in imported.weights]
    with torch.no_grad():
        expected = model(tokens(2)).logits.numpy()
    (found,) = distir.run(imported, {**imported.weights, names[0]: tokens(2).numpy()}).values()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    step = transform(imported, "grad", "optimizer=adamw")
    assert verify(step, transform(step, "dp=2"), bind={"B": 4}).equal


@pytest.mark.thorough
def test_what_depends_on_values_in_its_shapes_is_refused_with_the_op():
    model = made("JetMoe", {"num_local_experts": 4, "kv_channels": 16})
    with pytest.raises(ImportRefused, match=r"`Split` expected a host value.*with other ops"):
        import_torch(model, (tokens(4),))
