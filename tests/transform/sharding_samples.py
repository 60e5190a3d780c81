"""What the tests of sharding share: running a module before and after, and programs to split."""

import numpy as np

import distir
from distir.analysis import execute, random_inputs
from distir.diagnostics import Severity


def flat(value):
    """The arrays of a value, tuples opened."""
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, tuple) else [value]


def run(module, values, function):
    return [output.value for output in execute(module, values, function)]


def assert_same(module, distributed, seed=0, tolerance=1e-10):
    """gather(main(scatter(x))) = sequential(x); and the distributed module checks and reads back as itself."""
    problems = [d for d in distir.check(distributed) if d.severity is Severity.ERROR]
    assert not problems, f"{problems}\n{distir.format(distributed)}"
    assert distir.parse(distir.format(distributed)) == distributed
    entry = module.entry().name
    first = module.functions.get(f"{entry}.scatter", module.functions[entry])
    inputs = list(random_inputs(first, seed, {}).values())
    expected = run_through(module, inputs, entry)
    found = run_through(distributed, inputs, entry)
    assert len(expected) == len(found)
    for old, new in zip(expected, found, strict=True):
        for a, b in zip(flat(old), flat(new), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


def run_through(module, values, entry):
    """The sequential results of sequential inputs, through `.scatter` and `.gather` where the module has them."""
    if f"{entry}.scatter" in module.functions:
        values = run(module, values, f"{entry}.scatter")
    values = run(module, values, entry)
    if f"{entry}.gather" in module.functions:
        values = run(module, values, f"{entry}.gather")
    return values


def statements(module, op, function=None):
    """All applications of an op, in one function or in all but `.scatter` and `.gather`."""
    chosen = [f for f in module if function in (None, f.name) and not f.name.endswith((".scatter", ".gather"))]
    return [s for f in chosen for s in f.body if getattr(s, "op", None) == op]
