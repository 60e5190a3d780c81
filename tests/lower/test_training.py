"""Lowered training steps: the loss curve of a plain PyTorch loop, weights in and out, checkpoints."""

import json
from functools import cache

import pytest
from lowering_samples import entry, load_runtime
from thorough import also

import distir
from distir.analysis import check, result_names
from distir.lower import EntryPoint, Launch, launch, lower_training, training_step
from distir.models import gpt2
from distir.simulate import arguments

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # threads that wait for each other cost more than small tensors do
F = torch.nn.functional

LAYERS, WIDTH, HEADS, TOKENS, WORDS, BATCH = 2, 16, 2, 4, 32, 4
STEPS, RATE = 20, 0.01

BATCHES = f"""
import torch

def read():
    generator = torch.Generator().manual_seed(7)
    while True:
        ids = torch.randint(0, {WORDS}, ({BATCH}, {TOKENS} + 1), generator=generator)
        yield {{"input_ids": ids[:, :-1], "target": ids[:, 1:]}}
"""


@cache
def model():
    forward = gpt2(LAYERS, WIDTH, HEADS, TOKENS, batch=BATCH, dtype="Float32", vocabulary=WORDS, positions=8)
    return distir.transform(forward, "grad", "loss=cross_entropy", "optimizer=adam", lr=RATE)


@cache
def first_weights():
    generator = torch.Generator().manual_seed(1)
    main = model().functions["main"]
    return {
        p.name: torch.randn(p.type.shape, generator=generator) * 0.1 + (1.0 if "ln" in p.name else 0.0)
        for p in main.params
        if "param" in p.roles
    }


def logits(w, ids):
    """GPT-2, written in PyTorch."""
    x = w["wte.weight"][ids] + w["wpe.weight"][: ids.shape[1]]
    for i in range(LAYERS):
        h = {name.removeprefix(f"h.{i}."): value for name, value in w.items() if name.startswith(f"h.{i}.")}
        normal = F.layer_norm(x, (WIDTH,), h["ln_1.weight"], h["ln_1.bias"])
        qkv = normal @ h["attn.c_attn.weight"] + h["attn.c_attn.bias"]
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in qkv.split(WIDTH, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + mixed @ h["attn.c_proj.weight"] + h["attn.c_proj.bias"]
        normal = F.layer_norm(x, (WIDTH,), h["ln_2.weight"], h["ln_2.bias"])
        inner = F.gelu(normal @ h["mlp.c_fc.weight"] + h["mlp.c_fc.bias"], approximate="tanh")
        x = x + inner @ h["mlp.c_proj.weight"] + h["mlp.c_proj.bias"]
    return F.layer_norm(x, (WIDTH,), w["ln_f.weight"], w["ln_f.bias"]) @ w["wte.weight"].t()


def batches():
    found = {}
    exec(BATCHES, found)
    return found["read"]()


@pytest.fixture(scope="module")
def plain():
    """The losses and the last weights of the plain loop."""
    weights = {name: w.clone().requires_grad_() for name, w in first_weights().items()}
    optimizer = torch.optim.AdamW(weights.values(), lr=RATE, weight_decay=0.0)
    losses = []
    for _, batch in zip(range(STEPS), batches(), strict=False):
        loss = F.cross_entropy(logits(weights, batch["input_ids"]).flatten(0, 1), batch["target"].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: w.detach() for name, w in weights.items()}


def lowered(module, folder):
    main = module.functions["main"]
    found = lower_training(EntryPoint("main", module, main, arguments(main, {})), {})
    found.write(folder)
    return found


def train(folder, found, place, *words):
    log = place / "log.jsonl"
    log.unlink(missing_ok=True)
    words = ["--data", "batches:read", "--log", str(log), *map(str, words)]
    launch(
        Launch(
            folder, found.ranks, timeout_s=600, words=words, script="train.py", environment={"PYTHONPATH": str(place)}
        )
    )
    lines = map(json.loads, log.read_text().splitlines())
    return [loss for line in lines for name, loss in line.items() if name.startswith("mean_loss")]


def assert_same_weights(found, expected):
    """All but the biases of keys, whose gradients are nothing but rounding: a softmax does not feel them."""
    for name, w in expected.items():
        if not name.endswith("c_attn.bias"):
            assert torch.allclose(found[name], w, atol=1e-3), name


def test_the_loss_curve_is_that_of_a_plain_loop_also_resumed_on_other_degrees(plain, tmp_path):
    losses, last = plain
    (tmp_path / "batches.py").write_text(BATCHES)
    data, pipeline = tmp_path / "data", tmp_path / "pipeline"
    parallel = lowered(distir.transform(model(), "dp=2"), data)
    runtime = load_runtime(data)
    runtime.write_tensors(tmp_path / "first.safetensors", first_weights())
    half, end = tmp_path / "half.safetensors", tmp_path / "end.safetensors"
    found = train(data, parallel, tmp_path, "--steps", 10, "--weights", tmp_path / "first.safetensors", "--save", half)
    stages = lowered(distir.transform(model(), "dtp=1,1,2", microbatches=2), pipeline)
    found += train(pipeline, stages, tmp_path, "--steps", 10, "--skip", 10, "--resume", half, "--save", end)
    assert found == pytest.approx(losses, abs=1e-4)
    ended = runtime.read_tensors(end)
    assert_same_weights(ended, last)
    assert int(ended["step"]) == STEPS + 1


def test_a_step_is_embedded_without_processes(plain, tmp_path):
    losses, last = plain
    lowered(model(), tmp_path)
    import importlib
    import sys

    sys.path.insert(0, str(tmp_path))
    try:
        training = importlib.import_module("training")
        loop = training.init(backend="gloo")
        assert set(loop.batch_names) == {"input_ids", "target"}
        state = loop.state(first_weights())
        found = []
        for _, batch in zip(range(STEPS), batches(), strict=False):
            state, results = loop.step(state, batch)
            found.append(results["mean_loss"].item())
        assert found == pytest.approx(losses, abs=1e-4)
        assert_same_weights(loop.weights(state), last)
    finally:
        sys.path.remove(str(tmp_path))
        for name in ("training", "runtime"):
            sys.modules.pop(name, None)


STRATEGIES = [
    ["dp=2"],
    ["tp=2"],
    ["dtp=1,1,2", "microbatches=2"],
    ["dtp=2,2,2", "microbatches=2"],
    ["dp=2", "zero=1"],
    ["dp=2", "zero=2"],
    ["dp=2", "zero=3"],
    ["dp=2", "zero=1", "partition=split"],
    ["dp=2", "zero=3", "partition=split"],
]


@pytest.mark.parametrize("steps", STRATEGIES, ids=" ".join)
def test_every_strategy_passes_all_of_its_state_on(steps):
    module = distir.transform(model(), *steps)
    main = module.functions["main"]
    step = training_step(entry(module), {})
    state = {p.name: p for p in main.params if "param" in p.roles or "state" in p.roles}
    assert sorted(step.donated.values()) == sorted(state)
    instance = check(module).instance(main, [p.type for p in main.params])
    results = dict(zip(result_names(main), instance.state.returned, strict=True))
    for result, param in step.donated.items():
        assert results[result] == state[param].type, (result, param)
    whole = {p.name for p in model().functions["main"].params if "param" in p.roles or "state" in p.roles}
    assert set(step.gathered_names["main.gather.state"]) == whole
    assert set(step.sequential.values()) == whole


@pytest.mark.parametrize("steps", [[], ["dp=2"], ["dtp=2,2,2", "microbatches=2"]])
def test_the_batch_that_a_program_makes_up_is_of_tokens_of_its_vocabulary(steps):
    module = distir.transform(model(), *steps) if steps else model()
    main = module.functions["main"]
    found = lower_training(EntryPoint("main", module, main, arguments(main, {})), {})
    ranks = json.loads(found.files["program.json"])["entries"]["main.scatter.rest" if steps else "main"]
    params = [p for rank in ranks.values() for p in rank["params"]]
    stated = {p["name"]: p["type"]["range"] for p in params if "range" in p["type"]}
    assert stated == {"input_ids": [0, WORDS], "target": [0, WORDS]}


def test_what_updates_nothing_is_no_step():
    forward = gpt2(1, 8, 2, 2, batch=2, dtype="Float32", vocabulary=8, positions=4)
    assert training_step(entry(forward), {}) is None


MIXED = [
    *("loss=cross_entropy", "optimizer=adamw", "weight_decay=0.1", "no_decay=1d", f"lr={RATE}", "precision=mixed"),
    *("clip=0.5", "lr_schedule=cosine", "warmup=3", "steps=20"),
]


@cache
def mixed_model(*words):
    forward = gpt2(LAYERS, WIDTH, HEADS, TOKENS, batch=BATCH, dtype="Float32", vocabulary=WORDS, positions=8)
    return distir.transform(forward, "grad", *MIXED, *words)


@pytest.fixture(scope="module")
def plain_mixed():
    """The losses of a loop with weights and computation in BFloat16 and master weights in Float32, and the norms."""
    transformers = pytest.importorskip("transformers")
    master = {name: w.clone().requires_grad_() for name, w in first_weights().items()}
    groups = [
        {"params": [w for w in master.values() if w.dim() > 1], "weight_decay": 0.1},
        {"params": [w for w in master.values() if w.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, 3, 20)
    losses, clipped = [], 0
    for _, batch in zip(range(STEPS), batches(), strict=False):
        narrow = {name: w.detach().bfloat16().requires_grad_() for name, w in master.items()}
        found = logits(narrow, batch["input_ids"]).float()
        loss = F.cross_entropy(found.flatten(0, 1), batch["target"].flatten())
        loss.backward()
        for name, w in master.items():
            w.grad = torch.zeros_like(w) if narrow[name].grad is None else narrow[name].grad.float()
        clipped += bool(torch.nn.utils.clip_grad_norm_(master.values(), 0.5) > 0.5)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    assert clipped > 5, "clipping is worth testing"
    return losses, {name: w.detach() for name, w in master.items()}


@pytest.mark.parametrize(
    "words", [["dp=2", "zero=1"], *also(["dtp=1,1,2", "microbatches=2"], ["tp=2"])], ids=lambda words: " ".join(words)
)
def test_mixed_precision_with_clipping_is_that_of_a_plain_loop(words, plain_mixed, tmp_path):
    losses, last = plain_mixed
    (tmp_path / "batches.py").write_text(BATCHES)
    folder, end = tmp_path / "lowered", tmp_path / "end.safetensors"
    found = lowered(mixed_model(*words), folder)
    runtime = load_runtime(folder)
    runtime.write_tensors(tmp_path / "first.safetensors", first_weights())
    first = tmp_path / "first.safetensors"
    curve = train(folder, found, tmp_path, "--steps", STEPS, "--weights", first, "--save", end)
    assert curve == pytest.approx(losses, abs=0.03)  # the losses differ by a unit of BFloat16, 2⁻⁷ of 4
    ended = runtime.read_tensors(end)
    for name, w in last.items():
        assert torch.equal(ended[name], ended[f"{name}.master"].bfloat16()), name
        if not name.endswith("c_attn.bias"):
            moved = (w - first_weights()[name]).norm()
            assert (ended[f"{name}.master"] - w).norm() < 0.15 * moved, name


def test_missing_state_begins_as_the_program_says(tmp_path):
    import importlib
    import sys

    lowered(mixed_model("loss_scale=dynamic"), tmp_path)
    sys.path.insert(0, str(tmp_path))
    try:
        loop = importlib.import_module("training").init(backend="gloo")
        given = first_weights()
        state = loop.state(given)
        for name, w in given.items():
            assert torch.equal(state[f"{name}.master"], w)
            assert torch.equal(state[name], w.bfloat16())
        assert (state["loss_scale"], state["finite_steps"], state["step"]) == (65536, 0, 1)
        random = loop.state()
        for name in given:
            assert torch.equal(random[name], random[f"{name}.master"].bfloat16())
    finally:
        sys.path.remove(str(tmp_path))
        for name in ("training", "runtime"):
            sys.modules.pop(name, None)
