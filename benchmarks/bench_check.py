"""How fast programs are checked: statements per second of CPU time, flat and with calls, right and wrong.

Run it as a script. Nothing is asserted: times depend on the machine, ratios within one run less so.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from distir.analysis import check
from distir.ir import DTYPES, Function, Module, TensorType
from distir.ir.builder import FunctionBuilder

FLOAT32 = DTYPES["Float32"]
DEVICES = 8


def tensor(rows: int, columns: int, device: int) -> TensorType:
    return TensorType(FLOAT32, (rows, columns), device)


def flat(statements: int, shapes: int = 4) -> Module:
    """One long function over several devices: every value distinct, the shapes of a few kinds."""
    f = FunctionBuilder("main")
    weights = [[f.param("w", tensor(64 * (s + 1), 64 * (s + 1), d)) for s in range(shapes)] for d in range(DEVICES)]
    values = [[f.param("x", tensor(32, 64 * (s + 1), d)) for s in range(shapes)] for d in range(DEVICES)]
    for i in range(statements):
        d, s = i % DEVICES, i // DEVICES % shapes
        x = values[d][s]
        match i // (DEVICES * shapes) % 4:
            case 0:
                (y,) = f.apply("MatMul", x, weights[d][s])
            case 1:
                (y,) = f.apply("Relu", x)
            case 2:
                (y,) = f.apply("Add", x, values[d][s])
            case _:
                (y,) = f.apply("Send", x, device=(d + 1) % DEVICES)
                d = (d + 1) % DEVICES
        values[d][s] = y
    return Module([f.returns(*(x for row in values for x in row))])


def many_shapes(statements: int) -> Module:
    """No two statements with the same shapes: every rule is asked."""
    f = FunctionBuilder("main")
    params = [f.param("x", tensor(i + 1, 8, i % DEVICES)) for i in range(statements)]
    return Module([f.returns(*(f.apply("Relu", x)[0] for x in params))])


def layers(calls: int, kinds: int) -> Module:
    """Calls of a layer of 10 ops, for so many kinds of arguments."""
    f = FunctionBuilder("layer")
    w, x = f.param("w"), f.param("x")
    for _ in range(5):
        (x,) = f.apply("MatMul", x, w)
        (x,) = f.apply("Relu", x)
    main = FunctionBuilder("main")
    pairs = [
        (main.param("w", tensor(8, 8, k % DEVICES)), main.param("x", tensor(k + 1, 8, k % DEVICES)))
        for k in range(kinds)
    ]
    xs = [x for _, x in pairs]
    for i in range(calls):
        (xs[i % kinds],) = main.call("layer", pairs[i % kinds][0], xs[i % kinds])
    return Module([f.returns(x), main.returns(*xs)])


def wrong(statements: int) -> Module:
    """Every statement wrong."""
    f = FunctionBuilder("main")
    x = f.param("x", tensor(2, 3, 1))
    for _ in range(statements):
        f.apply("MatMul", x, x, results=("_",))
    return Module([f.returns(x)])


def statements(module: Module) -> int:
    return sum(len(function.body) for function in module)


def cpu(run: Callable[[], object], repeat: int = 3) -> float:
    """The least CPU time of some runs, in seconds."""
    times: list[float] = []
    for _ in range(repeat):
        gc.collect()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def as_read(module: Module) -> Module:
    """The same module with fresh hashes, as after reading it."""
    return Module(Function(f.name, f.params, f.body, f.result_types) for f in module)


def main() -> None:
    programs = {
        "flat, 1,000 statements": flat(1_000),
        "flat, 10,000 statements": flat(10_000),
        "flat, 100,000 statements": flat(100_000),
        "no two shapes alike, 10,000 statements": many_shapes(10_000),
        "10,000 calls of one layer": layers(10_000, 1),
        "10,000 calls of a layer, 1,000 kinds of arguments": layers(10_000, 1_000),
        "all wrong, 10,000 statements": wrong(10_000),
    }
    check(programs["flat, 1,000 statements"])  # what is loaded late is loaded
    for name, module in programs.items():
        seconds = cpu(lambda module=module: check(as_read(module)))
        print(f"{name}: {statements(module) / seconds:,.0f} statements/s ({1000 * seconds:,.1f} ms)")


if __name__ == "__main__":
    main()
