"""Models by name with dropout: of embeddings, of attention's weights, and of what layers add."""

import pytest

import distir
from distir.ir import Apply
from distir.models import ModelError, named
from distir.transform import transform, verify

SMALL = {"layers": 2, "width": 16, "heads": 4, "ffn": 16}
MODELS = {
    "llama3-8b": SMALL | {"kv_heads": 2, "vocabulary": 32, "sequence": 8},
    "bert-base": SMALL | {"vocabulary": 32, "sequence": 8},
    "t5-small": SMALL | {"head_size": 4, "vocabulary": 32, "sequence": 8},
    "vit-b": SMALL | {"image": 8, "patch": 4, "classes": 8},
}


@pytest.mark.parametrize("name", MODELS)
def test_it_drops_on_every_device_what_it_drops_on_one(name):
    module = named(name, batch=4, dtype="Float32", dropout=0.25, **MODELS[name])
    ops = [s for f in module for s in f.body if isinstance(s, Apply)]
    attention = [s for s in ops if s.op == "Attention"]
    assert attention
    assert all(s.attrs.get("dropout") == 0.25 for s in attention)
    assert sum(s.op == "Dropout" for s in ops) >= 3
    assert module.entry().params[-1].name == "seed"
    step = transform(module, "grad", "loss=cross_entropy", "optimizer=adam")
    for words in (["dp=2"], ["tp=2"], ["pp=2", "microbatches=2"]):
        assert verify(step, transform(step, *words)).equal, words


@pytest.mark.parametrize("name", MODELS)
def test_without_it_nothing_drops(name):
    assert "ropout" not in distir.format(named(name, batch=4, dropout=0.0, **MODELS[name]))


def test_a_share_that_is_none_is_refused():
    with pytest.raises(ModelError, match=r"expected `dropout` to be at least 0 and less than 1, found 1\.5"):
        named("bert-base", dropout=1.5)
    with pytest.raises(ModelError, match="serving drops nothing"):
        named("llama3-8b", phase="decode", dropout=0.1)
    with pytest.raises(ModelError, match="`mlp-1b` has no size `dropout`"):
        named("mlp-1b", dropout=0.1)
