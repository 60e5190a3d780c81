"""Run two programs on the same inputs with the reference executor, and compare what they return.

    python examples/same_results.py examples/mlp_sequential.dir examples/mlp_pipeline.dir

The programs take parameters of the same names, but on devices of their own; results are compared in order.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import distir
from distir.analysis import random_inputs


def leaves(value: Any) -> list[Any]:
    """The arrays of a result, tuples unpacked."""
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple) else [value]


def main(first: str, second: str) -> int:
    """Print the largest difference of each result; 1 if one is larger than rounding explains."""
    modules = [distir.parse(Path(path).read_text(encoding="utf-8"), path) for path in (first, second)]
    inputs = random_inputs(modules[0], seed=0, sizes={})
    ours, theirs = (distir.run(module, inputs) for module in modules)
    same = True
    for name, a, b in zip(ours, ours.values(), theirs.values(), strict=True):
        pairs = list(zip(leaves(a), leaves(b), strict=True))
        error = max(float(np.max(np.abs(x - y))) for x, y in pairs)
        same &= all(np.allclose(x, y, rtol=1e-4, atol=1e-6) for x, y in pairs)
        print(f"%{name}: largest difference {error:.1e}")
    print("the same, up to rounding" if same else "not the same")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
