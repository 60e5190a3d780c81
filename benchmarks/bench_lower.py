"""A lowered training step against the same model written by hand in PyTorch: eager, one device, one thread.

Run it as a script, with torch installed. Steps of the two alternate, now one first, now the other, so that both see the
same machine; what is printed is CPU time, the median of the pairs' ratios last. Nothing is asserted: ratios hang on the
machine.
"""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ranks import reported

import distir
from distir.ir import Module
from distir.lower import EntryPoint, lower
from distir.models import gpt2, mlp
from distir.simulate import arguments

REPEAT = 15


def lowered(module: Module) -> tuple[Any, Any]:
    """A program of one rank, loaded, and random values for its parameters."""
    import torch

    main = module.functions["main"]
    folder = Path(tempfile.mkdtemp())
    lower([EntryPoint("main", module, main, arguments(main, {}))]).write(folder)
    spec = importlib.util.spec_from_file_location("bench_runtime", folder / "runtime.py")
    assert spec is not None
    assert spec.loader is not None
    runtime = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runtime)
    program = runtime.LoweredProgram(folder).prepare(0, torch.device("cpu"))
    return program, program.inputs("main", {})


def named(program: Any, values: Any) -> dict[str, Any]:
    return {p["name"]: v for p, v in zip(program.entry("main")["params"], values, strict=True)}


def mlp_step(layers: int, width: int, batch: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """A lowered step of an MLP's training, and one written with autograd."""
    import torch
    from torch.nn import functional as F  # noqa: N812 - as everybody calls it

    program, values = lowered(mlp(layers, width, batch, training=True, dtype="Float32"))
    own = {name: v.clone() for name, v in named(program, values).items()}
    x, y = own.pop("x"), own.pop("y")
    x.requires_grad_()  # as the program, whose first layer is like all others, gives the gradient of its input too
    weights = [v.requires_grad_() for v in own.values()]
    optimizer = torch.optim.SGD(weights, lr=0.01)

    def by_hand() -> None:
        a = x
        for i in range(0, len(weights), 2):
            a = torch.relu(torch.addmm(weights[i + 1], a, weights[i]))
        loss = F.mse_loss(a, y)
        optimizer.zero_grad()
        loss.backward()  # pyright: ignore[reportUnknownMemberType]
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]

    return lambda: program.call("main", values), by_hand


def gpt2_step(layers: int, width: int, heads: int, tokens: int, batch: int) -> tuple[Any, Any]:
    """A lowered step of GPT-2's training, and one written with autograd, with attention written out in both."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    words = 512
    forward = gpt2(layers, width, heads, tokens, batch=batch, dtype="Float32", vocabulary=words)
    program, values = lowered(distir.transform(forward, "grad", "loss=cross_entropy", "optimizer=sgd"))
    own = {name: v.clone() for name, v in named(program, values).items()}
    ids, target = own.pop("input_ids"), own.pop("target")
    w = {name: v.requires_grad_() for name, v in own.items()}
    optimizer = torch.optim.SGD(w.values(), lr=0.01)
    mask = torch.ones(tokens, tokens, dtype=torch.bool).tril()

    def by_hand() -> None:
        x = F.embedding(ids, w["wte.weight"]) + w["wpe.weight"][:tokens]
        for i in range(layers):
            h = {name: w[f"h.{i}.{name}"] for name in NAMES}
            normal = F.layer_norm(x, (width,), h["ln_1.weight"], h["ln_1.bias"])
            qkv = normal @ h["attn.c_attn.weight"] + h["attn.c_attn.bias"]
            q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in qkv.split(width, -1))
            scores = (q @ k.transpose(-1, -2)) * (width // heads) ** -0.5
            shares = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)
            mixed = (shares @ v).transpose(1, 2).flatten(2)
            x = x + mixed @ h["attn.c_proj.weight"] + h["attn.c_proj.bias"]
            normal = F.layer_norm(x, (width,), h["ln_2.weight"], h["ln_2.bias"])
            inner = F.gelu(normal @ h["mlp.c_fc.weight"] + h["mlp.c_fc.bias"], approximate="tanh")
            x = x + inner @ h["mlp.c_proj.weight"] + h["mlp.c_proj.bias"]
        scores = F.layer_norm(x, (width,), w["ln_f.weight"], w["ln_f.bias"]) @ w["wte.weight"].t()
        loss = F.cross_entropy(scores.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()  # pyright: ignore[reportUnknownMemberType]
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]

    return lambda: program.call("main", values), by_hand


NAMES = (
    *("ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight"),
    *("attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight"),
    "mlp.c_proj.bias",
)


def cpu(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def compare(name: str, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
    import torch

    sides = (torch.no_grad()(ours), theirs)
    for run in sides * 2:
        run()
    pairs: list[list[float]] = []
    for turn in range(REPEAT):
        spent = {run: cpu(run) for run in sides[:: 1 if turn % 2 else -1]}  # neither always finds the other's caches
        pairs.append([spent[run] for run in sides])
    mine, by_hand = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{name}: lowered {1e3 * mine:.2f} ms, by hand {1e3 * by_hand:.2f} ms, ratio {ratio:.3f}")


PAIR = """
def measure():
    from torch.nn.parallel import DistributedDataParallel

    values = program.inputs("main", {})
    layers, width, batch, repeat = SIZES
    layers = [m for _ in range(layers) for m in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=10_000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(batch // 2, width, requires_grad=True), torch.randn(batch // 2, width)

    def theirs():
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def ours():
        with torch.no_grad():
            program.call("main", values)

    def timed(run):
        runtime.barrier()
        start, cpu = time.perf_counter(), time.process_time()
        run()
        return time.perf_counter() - start, time.process_time() - cpu

    for run in (ours, theirs) * 3:
        run()
    pairs = []
    for turn in range(repeat):
        spent = {run: timed(run) for run in (ours, theirs)[:: 1 if turn % 2 else -1]}
        pairs.append((spent[ours], spent[theirs]))
    return pairs
"""
"""On each of two ranks: steps of a lowered program, and of PyTorch's data parallelism, in turn.

Both in one process, bound to a core as `launch` binds ranks, with one thread; gloo's threads serve both."""


def two_ranks(layers: int, width: int, batch: int, repeat: int = 40) -> None:
    """Data parallelism over two ranks, gradients in one message, against DistributedDataParallel with one bucket."""
    module = distir.transform(mlp(layers, width, batch, training=True, dtype="Float32"), "dp=2", bucket_bytes=1 << 40)
    main = module.functions["main"]
    entries = [EntryPoint("main", module, main, arguments(main, {}))]
    pairs = reported(entries, PAIR.replace("SIZES", f"{layers}, {width}, {batch}, {repeat}"))
    wall = statistics.median(a[0] / b[0] for a, b in pairs)
    mine, theirs = (statistics.median(times[side][1] for times in pairs) for side in (0, 1))
    print(
        f"mlp, {layers} layers of {width}, batch {batch}, two ranks: "
        f"lowered {1e3 * mine:.2f} ms of CPU, DDP {1e3 * theirs:.2f} ms, ratio {mine / theirs:.3f} (wall {wall:.3f})"
    )


def start_up(ranks: int = 2, repeat: int = 3) -> None:
    """All of `launch` on a program that does next to nothing: processes, torch, process groups, one run, the end."""
    from distir.lower import Launch, launch

    module = distir.transform(mlp(1, 8, 8, training=True, dtype="Float32"), f"dp={ranks}")
    main = module.functions["main"]
    walls: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        found = lower([EntryPoint("main", module, main, arguments(main, {}))])
        found.write(Path(scratch))
        for _ in range(repeat):
            start = time.perf_counter()
            launch(Launch(Path(scratch), found.ranks, timeout_s=120))
            walls.append(time.perf_counter() - start)
    shown = ", ".join(f"{wall:.2f}" for wall in walls)
    print(f"start-up of launch with {ranks} ranks: {min(walls):.2f} s of wall time (of {shown})")


def main() -> None:
    try:
        import torch
    except ImportError:
        print("torch is not installed")
        return
    torch.set_num_threads(1)
    compare("mlp, 8 layers of 64, batch 32", *mlp_step(8, 64, 32))
    compare("mlp, 4 layers of 512, batch 128", *mlp_step(4, 512, 128))
    compare("gpt2, 2 layers of 64, 16 tokens, batch 4", *gpt2_step(2, 64, 4, 16, 4))
    compare("gpt2, 2 layers of 256, 64 tokens, batch 4", *gpt2_step(2, 256, 4, 64, 4))
    two_ranks(4, 256, 128)
    two_ranks(4, 512, 256)
    start_up()


if __name__ == "__main__":
    main()
