"""Models by name with dropout: of embeddings, of attention's weights, and of what layers add."""

from collections import Counter

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


@pytest.mark.by_turns
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


PARTS = [
    "cp=2",
    "cp=2 zigzag=false",
    "cp=2 cp_kind=a2a",
    "cp=4 cp_kind=ring",
    "cp=2 tp=2 sequence=true dp=2",
    "tp=2 cp=2 cp_kind=ring",
    "dtp=2,1,2 microbatches=2 context=2 sequence=true",
    "cp=2 cp_kind=a2a cp=2 cp_kind=ring",
]


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("name", ["llama3-8b", "bert-base"])
@pytest.mark.parametrize("chain", PARTS)
def test_parts_of_a_sequence_drop_what_the_whole_does(name, chain):
    """Of embeddings, of layers, and of attention's weights, causal and not, in order and in zig-zag."""
    if name == "bert-base" and "a2a cp" in chain:
        pytest.skip("a mask is of whole sequences")
    module = named(name, batch=4, dtype="Float32", dropout=0.25, **MODELS[name])
    step = transform(module, "grad", "loss=cross_entropy", "optimizer=adam")
    assert verify(step, transform(step, *chain.split())).equal


def test_what_drops_is_computed_by_parts():
    """In zig-zag too: only keys and values of attention, and positions, travel in the forward pass."""
    step = transform(named("llama3-8b", batch=4, dtype="Float32", dropout=0.25, **MODELS["llama3-8b"]), "grad")
    orders = [transform(step, "cp=2", f"zigzag={words}") for words in ("true", "false")]
    counts = [Counter(s.op for f in m for s in f.body if isinstance(s, Apply) and "MPI" in s.op) for m in orders]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("chain", ["cp=2", "cp=2 cp_kind=ring zigzag=false"])
def test_processes_drop_the_same_parts(ranks, tmp_path, chain):
    pytest.importorskip("torch")
    module = named("llama3-8b", batch=2, dtype="Float32", dropout=0.25, **MODELS["llama3-8b"])
    ranks.largest_error(transform(transform(module, "grad"), *chain.split()), tmp_path)


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
