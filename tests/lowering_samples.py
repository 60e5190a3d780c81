"""Programs lowered and run: what the tests of this folder share. torch is imported only when something is run.

`DISTIR_TEST_DEVICE=cuda`: they run on a GPU (`make test-gpu`).
"""

import importlib.util
import os
import sys

import numpy as np

from distir.analysis import check, execute
from distir.ir import DTYPES, Apply, Function, Module, Param, Return
from distir.lower.folder import EntryPoint, lower
from distir.ops import canonical, dtype_of, numpy_dtype
from distir.syntax import parse_example

DEVICE = os.environ.get("DISTIR_TEST_DEVICE", "cpu")
"""Where programs of one rank run."""

FLOAT8 = {"Float8E4M3FN": "float8_e4m3fn", "Float8E5M2": "float8_e5m2"}
"""8-bit element types, with torch's names."""

TOLERANCES = {"Float64": 1e-9, "Float32": 2e-5, "Float16": 1e-2, "BFloat16": 6e-2}


def one_op(text):
    """A module whose `@main` has one statement, as an op's documentation shows it."""
    params, statement = parse_example(text, canonical)
    assert isinstance(statement, Apply)
    names = tuple(n or f"unused{i}" for i, n in enumerate(statement.results))
    statement = Apply(names, statement.op, statement.args, statement.attrs, statement.claims)
    heads = tuple(Param(p.name, p.type) for p in params)
    return Module([Function("main", heads, (statement, Return(names)))])


def entry(module, name="main", args=None):
    function = module.functions["main"]
    return EntryPoint(name, module, function, tuple(args or (p.type for p in function.params)))


def load_runtime(folder):
    """The runtime of a lowered folder, as a module."""
    spec = importlib.util.spec_from_file_location("lowered_runtime", folder / "runtime.py")
    runtime = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("lowered_runtime", runtime)
    spec.loader.exec_module(runtime)
    return runtime


def lowered_program(entries, folder):
    """A program of one rank, lowered and loaded into this process."""
    lower(entries).write(folder)
    import torch

    runtime = load_runtime(folder)
    return runtime.LoweredProgram(folder).prepare(0, torch.device(DEVICE))


def to_torch(value):
    import torch

    if isinstance(value, tuple):
        return tuple(map(to_torch, value))
    shape, array = value.shape, np.ascontiguousarray(value).copy()
    if dtype_of(array).name == "BFloat16":
        found = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    elif dtype_of(array).name in FLOAT8:
        found = torch.from_numpy(array.view(np.int8)).view(getattr(torch, FLOAT8[dtype_of(array).name]))
    else:
        found = torch.from_numpy(array)
    return found.reshape(shape).to(DEVICE)


def from_torch(value):
    import torch

    if isinstance(value, tuple):
        return tuple(map(from_torch, value))
    plain = value.detach().contiguous().cpu()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(numpy_dtype(DTYPES["BFloat16"]))
    for name, theirs in FLOAT8.items():
        if plain.dtype == getattr(torch, theirs):
            return plain.view(torch.int8).numpy().view(numpy_dtype(DTYPES[name]))
    return plain.numpy()


def reference(module, values):
    """What the reference executor gives, and the types of that."""
    with np.errstate(all="ignore"):
        return [(o.value, o.type) for o in execute(module, values)]


def assert_close(found, expected, stated, where=""):
    """Whether a value is what the reference executor gives, as exactly as its element type allows."""
    if isinstance(expected, tuple):
        assert isinstance(found, tuple), where
        assert len(found) == len(expected), where
        for f, e, t in zip(found, expected, stated.items, strict=True):
            assert_close(f, e, t, where)
        return
    assert found.dtype == expected.dtype, f"{where}: expected {expected.dtype}, found {found.dtype}"
    assert found.shape == expected.shape, f"{where}: expected {expected.shape}, found {found.shape}"
    tolerance = TOLERANCES.get(dtype_of(expected).name, 0)
    a, b = expected.astype(np.float64), found.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = a[np.isfinite(a)]
    scale = max(1.0, float(np.max(np.abs(finite)))) if finite.size else 1.0
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    worst = float(np.max(apart)) if apart.size else 0.0
    assert worst <= tolerance * scale, f"{where}: {worst} apart\nexpected {a}\nfound {b}"


def is_sound(module):
    return not check(module).errors
