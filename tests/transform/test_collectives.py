"""Tensor parallelism takes no more collectives than Megatron-LM: each partial sum is summed once."""

from functools import cache
from math import prod

import pytest
from thorough import ALL

import distir
from distir.analysis import check
from distir.ir import Apply, Call
from distir.models import gpt2
from distir.ops import type_of
from distir.transform import reference, transform, verify

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
nn = torch.nn

BATCH, SEQUENCE, WIDTH, HEADS, VOCABULARY = 4, 8, 32, 4, 64
LAYERS = [1, 2, 3] if ALL else [1, 2]


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def turned(x, cos, sin):
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * cos + torch.cat((-second, first), -1) * sin


class Layer(nn.Module):
    """A layer of Llama: queries of four heads, keys and values of two."""

    def __init__(self):
        super().__init__()
        self.before, self.between = Norm(), Norm()
        self.q, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, WIDTH // 2, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, 4 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        y = self.before(x)
        q, k, v = (f(y).view(b, s, -1, WIDTH // HEADS).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        k, v = (t.repeat_interleave(2, dim=1) for t in (k, v))
        a = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.o(a.transpose(1, 2).reshape(b, s, WIDTH))
        y = self.between(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm, self.head = Norm(), nn.Linear(WIDTH, VOCABULARY, bias=False)
        angles = torch.outer(torch.arange(SEQUENCE), 1 / 100 ** torch.linspace(0, 1, WIDTH // HEADS // 2)).repeat(1, 2)
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x))


@cache
def imported(layers):
    torch.manual_seed(0)
    ids = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE))
    return distir.import_torch(Llama(layers), (ids,), batch={"ids": 0})


def generated(layers):
    return gpt2(layers, WIDTH, HEADS, SEQUENCE, batch=BATCH, vocabulary=VOCABULARY, dtype="Float32")


MODELS = {"gpt-2": generated, "llama": imported}


def large(module):
    """How many collectives there are of each kind whose message is as large as the hidden states, or larger."""
    domain, functions = check(module).domain, module.functions

    def counted(name, vs):
        instance, found = domain.instance(name, vs), {}
        for s in functions[name].body:
            inner = {}
            if isinstance(s, Call):
                inner = counted(s.function, instance.state(s.args))
            elif isinstance(s, Apply) and s.op.startswith("MPI"):
                shapes = [type_of(v).shape for v in (*instance.state(s.args), *instance.state(s.results))]
                sizes = [prod(BATCH if not isinstance(d, int) else d for d in shape) for shape in shapes]
                inner = {s.op: int(max(sizes) >= BATCH * SEQUENCE * WIDTH)}
            for op, count in inner.items():
                found[op] = found.get(op, 0) + count
        return found

    entry = module.entry()
    return {op: n for op, n in counted(entry.name, tuple(p.type for p in entry.params)).items() if n}


def transformed(name, layers, *words):
    module = MODELS[name](layers)
    made = transform(module, *words)
    assert verify(reference(module, words), made, bind={"B": BATCH}).equal
    return large(made)


@pytest.mark.each_once
@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("name", MODELS)
def test_a_forward_pass_takes_two_for_each_layer_and_one_for_the_embedding(name, layers):
    assert transformed(name, layers, "tp=2") == {"MPIAllreduce": 2 * layers + 1}


@pytest.mark.by_turns
@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_takes_two_more_for_each_layer_and_one_for_the_head(name, layers):
    found = transformed(name, layers, "grad", "loss=cross_entropy", "tp=2")
    assert found == {"MPIAllreduce": 4 * layers + 2}


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("name", MODELS)
def test_with_sequences_split_each_sum_is_scattered_and_gathered(name, layers):
    forward = 2 * layers + 1
    assert transformed(name, layers, "tp=2", "sequence=true") == {"MPIReduceScatter": forward, "MPIAllgather": forward}


@pytest.mark.parametrize("name", MODELS)
def test_with_sequences_split_each_layer_of_a_training_step_scatters_four(name):
    """It gathers four, what columns take and the gradients of what rows give, and two again for weights' gradients."""
    steps = ("grad", "loss=cross_entropy", "tp=2", "sequence=true")
    found = [transformed(name, layers, *steps) for layers in (2, 3)]
    more = {op: found[1][op] - found[0][op] for op in found[0]}
    assert more == {"MPIReduceScatter": 4, "MPIAllgather": 6} | {op: 0 for op in more if op == "MPIAllreduce"}
