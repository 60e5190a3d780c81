"""How fast programs are read: lines per second of CPU time, and what the templates gain over Lark alone.

Run it as a script. Nothing is asserted: times depend on the machine, ratios within one run less so.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable

from distir.syntax import parse
from distir.syntax.grammar import lark
from distir.syntax.parser import forget


def pipeline(lines: int, devices: int = 16) -> str:
    """As transforms write them: few kinds of statements, ever new names, devices and sizes that vary."""
    out = ["func @main(%w: Tensor[Float32, (1024, 1024), 1] {param}, %x: Tensor[Float32, (64, 1024), 1]) {"]
    previous = "x"
    for i in range(lines):
        device, nth = i % devices + 1, i // devices
        size = 64 * (1 + i % 4)
        match i % 4:
            case 0:
                name = f"h_{nth}_{device}"
                text = f"%{name}: Tensor[Float32, ({size}, 1024), {device}] = MatMul(%{previous}, %w_{nth}_{device})"
            case 1:
                name = f"a_{nth}_{device}"
                text = f"%{name}: Tensor[Float32, ({size}, 1024), {device}] = @layer(%{previous}, %b_{nth}_{device})"
            case 2:
                name = f"s_{nth}_{device}"
                text = f"%{name}: D{device} = Send[device = {device}](%{previous})"
            case _:
                name = f"r_{nth}_{device}"
                text = f"%{name}, _ = MPIAllreduce(%{previous}, %g_{nth}_{device})"
        out.append("  " + text)
        previous = name
    return "\n".join([*out, f"  return %{previous}", "}", ""])


def distinct(lines: int) -> str:
    """No two statements alike, names apart or not: sizes, devices and attributes are random."""
    rng = random.Random(0)
    out = ["func @main(%x: Tensor[Float32, (64, 1024), 1]) {"]
    for i in range(lines):
        m, n, device = rng.randrange(10**6), rng.randrange(10**6), rng.randrange(1000)
        op = rng.choice(["MatMul", "Add", "Gemm", "Concat", "Split", "Reshape"])
        claim = f"Tensor[Float32, ({m}, {n}), {device}]"
        out.append(f"  %v{i}: {claim} = {op}[axis = {rng.randrange(10**6)}, beta = {rng.random()}](%x, %v{i - 1})")
    return "\n".join([*out, "  return %x", "}", ""])


def cpu(run: Callable[[], object], repeat: int = 5) -> float:
    """The least CPU time of some runs, in seconds."""
    times: list[float] = []
    for _ in range(repeat):
        gc.collect()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def lark_alone(text: str) -> None:
    parser = lark()
    for line in text.splitlines()[1:-2]:
        parser.parse(line, start="line")


def cold(text: str) -> None:
    forget()
    parse(text)


def main() -> None:
    lark()
    for name, text in [("pipeline, 10,000 lines", pipeline(10_000)), ("all distinct, 10,000 lines", distinct(10_000))]:
        assert not parse(text).diagnostics
        lines = text.count("\n")
        baseline = lines / cpu(lambda text=text: lark_alone(text), 1)
        first = lines / cpu(lambda text=text: cold(text))
        again = lines / cpu(lambda text=text: parse(text))
        print(f"{name}: {first:,.0f} lines/s, again {again:,.0f}; Lark alone {baseline:,.0f} ({first / baseline:.1f}x)")
    text = pipeline(50_000)
    syntax = parse(text)
    middle = text.index("\n", len(text) // 2)
    edited = text[:middle] + " // edited" + text[middle:]
    seconds = cpu(lambda: parse(edited, previous=syntax))
    print(f"one line of 50,000 edited: {1000 * seconds:,.1f} ms; read anew {1000 * cpu(lambda: parse(edited)):,.1f} ms")
    text = pipeline(500_000)
    lines = text.count("\n")
    seconds = cpu(lambda: parse(text), 2)
    print(f"pipeline, 500,000 lines: {lines / seconds:,.0f} lines/s")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = parse(text)
    after = tracemalloc.get_traced_memory()[0]
    print(
        f"memory: {(after - before) / lines:,.0f} bytes per statement, without the text; {len(kept.functions)} function"
    )


if __name__ == "__main__":
    main()
