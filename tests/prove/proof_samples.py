"""Small models in Float32, their training steps, and distributed programs made of them; each once."""

from functools import cache

from expert_programs import CAPACITY
from expert_programs import decoder as written_decoder

from distir import models
from distir.models.perceptron import mlp
from distir.models.transformer import gpt2
from distir.prove import ProveError, prove
from distir.transform import transform

SIZES = {"layers": 2, "vocabulary": 16, "width": 8, "heads": 4, "kv_heads": 2, "head_size": 4, "ffn": 16}
SPARSE = {**{n: v for n, v in SIZES.items() if n != "ffn"}, "experts": 4, "expert_ffn": 16}

MODELS = {
    "mlp": lambda: mlp(4, 8, 8, "Float32"),
    "gpt2": lambda: gpt2(2, 8, 2, 4, 4, vocabulary=16, dtype="Float32"),
    "llama": lambda: models.named("llama3-8b", batch=4, sequence=4, dtype="Float32", **SIZES),
    "experts": lambda: models.named("mixtral-8x7b", batch=4, sequence=4, dtype="Float32", **SPARSE),
    "biases": lambda: models.named("gpt-oss-20b", batch=4, sequence=4, dtype="Float32", **SPARSE),
    "capacity": lambda: written_decoder(CAPACITY, layers=1, batch=4),
}

TRAINING = {
    "mlp": ("grad", "optimizer=adam"),
    "gpt2": ("grad", "loss=cross_entropy"),
    "llama": ("grad", "loss=cross_entropy", "optimizer=adam", "clip=1.0"),
    "experts": ("grad", "loss=cross_entropy"),
    "biases": ("grad", "loss=cross_entropy"),
    "capacity": ("grad", "loss=cross_entropy"),
}

EXPERTS = {
    "experts": (
        *("ep=2", "ep=4", "tp=2 ep=2", "ep=2 dp=2", "cp=2 ep=2", "dtp=2,2,1 experts=2"),
        *("tp=2 etp=1", "tp=2 etp=1 sequence=true", "dtp=2,2,1 experts=2 etp=1", "cp=2 cp_experts=true"),
        "dtp=2,2,2 microbatches=2 etp=1 sequence=true",
        "dtp=1,2,1 context=2 zigzag=false cp_experts=true etp=1 sequence=true",
    ),
    "biases": ("ep=2", "cp=2 cp_kind=ring", "tp=2 etp=1", "cp=2 cp_experts=true"),
    "capacity": ("ep=2", "tp=2 etp=1"),
}

FORWARD = (
    "dp=2",
    "tp=2",
    "pp=2 microbatches=2",
    "tp=2 sequence=true",
    "dtp=2,2,2 microbatches=2",
    "cp=2",
    "cp=2 cp_kind=ring",
)

STEPS = (
    "dp=2",
    "tp=2",
    "tp=2 sequence=true",
    "pp=2 microbatches=2 schedule=gpipe",
    "pp=2 microbatches=4 schedule=1f1b",
    "pp=2 microbatches=4 schedule=zb-h1",
    "dp=2 zero=1",
    "dp=2 zero=2",
    "dp=2 zero=3",
    "dp=2 zero=3 partition=split",
    "checkpoint=full",
    "checkpoint=full dtp=2,2,1 zero=1",
    "dtp=2,2,2 microbatches=2 schedule=1f1b",
    "dtp=2,1,2 microbatches=2 zero=2",
    "cp=2",
    "cp=2 cp_kind=ring zigzag=false",
    "cp=2 cp_kind=a2a",
    "tp=2 cp=2 cp_kind=ring",
)

NEEDS_SEQUENCES = ("sequence=true", "checkpoint", "cp=")
"""What transforms refuse of an MLP: it has no sequence, and keeps nothing inside its blocks."""


def applies(name, words):
    """Whether a strategy applies to a model; the attention of this GPT-2 is products and a softmax."""
    return name == "llama" or not any(w in words for w in NEEDS_SEQUENCES[name == "gpt2" and 2 :])


@cache
def sequential(name, training=False):
    """A model on one device, or its training step."""
    return transform(sequential(name), *TRAINING[name]) if training else MODELS[name]()


@cache
def distributed(name, words, training=False):
    """What a strategy makes of it."""
    return transform(sequential(name, training), *words.split())


DENSE = ("mlp", "gpt2", "llama")
CASES = [(name, words, False) for name in DENSE for words in FORWARD if applies(name, words)]
CASES += [(name, words, True) for name in DENSE for words in STEPS if applies(name, words)]
CASES += [(name, words, True) for name, strategies in EXPERTS.items() for words in strategies]


def is_proved(module, original):
    """Whether it is; a program that cannot be compared at all is not."""
    try:
        return prove(module, original).proved
    except ProveError:
        return False
