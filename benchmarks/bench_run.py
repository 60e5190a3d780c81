"""What the reference executor adds to each op: the time of a run against that of numpy alone on the same arrays.

Run it as a script. Nothing is asserted: times depend on the machine, ratios within one run less so.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from distir.analysis import check, execute, interpret
from distir.analysis.values import Values
from distir.ir import DTYPES, Function, Module, TensorType
from distir.ir.builder import FunctionBuilder
from distir.ops import OPS

FLOAT32 = DTYPES["Float32"]


def chain(ops: int, rows: int) -> Module:
    """Products, sums and activations, one after the other."""
    f = FunctionBuilder("main")
    square = TensorType(FLOAT32, (rows, rows), 1)
    w, x = f.param("w", square), f.param("x", square)
    for i in range(ops):
        match i % 3:
            case 0:
                (x,) = f.apply("MatMul", x, w)
            case 1:
                (x,) = f.apply("Add", x, w)
            case _:
                (x,) = f.apply("Tanh", x)
    return Module([f.returns(x)])


def bodies(function: Function, w: Any, x: Any) -> Any:
    """The same, by calling the ops' bodies."""
    matmul, add, tanh = (OPS[name].body for name in ("MatMul", "Add", "Tanh"))
    for i in range(len(function.body) - 1):
        match i % 3:
            case 0:
                x = matmul(x, w)
            case 1:
                x = add(x, w)
            case _:
                x = tanh(x)
    return x


def cpu(run: Callable[[], object], repeat: int = 3) -> float:
    """The least CPU time of some runs, in seconds."""
    times: list[float] = []
    for _ in range(repeat):
        gc.collect()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def compare(ops: int, rows: int) -> str:
    """What the executor adds for matrices of one size. It keeps every value to the end, so large ones cost more."""
    module = chain(ops, rows)
    function, domain = module.functions["main"], Values(module)
    w = np.eye(rows, dtype=np.float32) * np.float32(0.5)
    x = np.ones((rows, rows), np.float32)
    alone = cpu(lambda: bodies(function, w, x)) / ops
    interpreted = cpu(lambda: interpret(function, (w, x), domain)) / ops
    checked = cpu(lambda: check(module)) / ops
    whole = cpu(lambda: execute(module, [w, x])) / ops
    return (
        f"bodies alone {1e6 * alone:,.2f} us per op, interpreted {1e6 * interpreted:,.2f} "
        f"({interpreted / alone:.2f}x, {1e6 * (interpreted - alone):,.2f} us more); "
        f"with checking {1e6 * whole:,.2f} ({whole / alone:.2f}x; checking alone {1e6 * checked:,.2f})"
    )


def main() -> None:
    for rows in (4, 32, 128, 256):
        print(f"{rows} x {rows}: {compare(1000, rows)}")


if __name__ == "__main__":
    main()
