"""What an op's checker takes, of operands of any sizes, its implementation computes, with the shapes inferred.

Sizes are drawn around the examples of every op: others, equal where they were equal or not, with more and with fewer
dimensions. Most are refused; what is not must run. Indices are zeros, so that values are no reason to refuse.
"""

import random

import pytest
from op_samples import is_instance, random_value
from test_all_ops import OURS, parsed
from test_onnx_bridge import SPLIT, tensor

from distir.ir import Attributes, Literal, TensorType, types
from distir.ops import OPS, Reject, bind, infer_types, run, strengthen, to_array
from distir.ops.bridge import FAMILIES

DRAWS = 8

MORE = {
    "AffineGrid": ([(1, 2, 3), [1, 1, 3, 4]], {}),
    "CenterCropPad": ([(4, 5), [3, 7]], {}),
    "CumProd": ([(2, 3), 0], {}),
    "DFT": ([(1, 4, 1)], {}),
    "GlobalLpPool": ([(2, 3, 4)], {"p": 2}),
    "GlobalMaxPool": ([(2, 3, 4)], {}),
    "LSTM": ([(3, 2, 4), (1, 16, 4), (1, 16, 4), (1, 32)], {"hidden_size": 4, "count": 3}),
    "MeanVarianceNormalization": ([(2, 3, 4, 4)], {}),
    "RNN": ([(3, 2, 4), (1, 4, 4), (1, 4, 4)], {"hidden_size": 4, "count": 2}),
    "ReverseSequence": ([(4, 2, 3), [2, 3]], {}),
    "SpaceToDepth": ([(1, 2, 4, 4)], {"blocksize": 2}),
}
"""Operands and attributes of bridged ops beside `SPLIT`; of others a matrix is tried."""

BRIDGED = [
    *((name, shapes, attrs) for name, shapes, attrs in SPLIT.values()),
    *((name, *MORE.get(name, ([(2, 3)], {}))) for name in FAMILIES),
]


def of_ours():
    for name, op in OURS.items():
        for text in op.examples:
            yield name, text


def of_bridge(name, shapes, attrs):
    attrs = dict(attrs)
    count, dtype = attrs.pop("count", 1), attrs.pop("dtype", "Float32")
    args = [
        tensor(*s, dtype=dtype)
        if isinstance(s, tuple)
        else s
        if s is None
        else Literal(tuple(s) if isinstance(s, list) else s)
        for s in shapes
    ]
    return args, Attributes(attrs), count


def drawn(rng, args, attrs):
    """Operands of other sizes."""
    alike, more, sizes = rng.random() < 0.7, rng.choice([0, 0, 0, 1, 2, -1, -2]), {}

    def other(arg):
        if not isinstance(arg, TensorType) or arg.shape is None:
            return arg
        if alike:
            shape = tuple(sizes.setdefault(n, rng.choice([n, n, 1, 2, 3, 4, 5])) for n in arg.shape)
        else:
            shape = tuple(rng.choice([n, 1, 2]) if rng.random() < 0.3 else n for n in arg.shape)
        if more > 0 and rng.random() < 0.8:
            added = (rng.choice([1, 2, 3]),) * more
            shape = (*shape, *added) if rng.random() < 0.5 else (*added, *shape)
        elif len(shape) > -more > 0:
            shape = shape[:more] if rng.random() < 0.5 else shape[-more:]
        return TensorType(arg.dtype, shape, arg.device)

    given = {
        key: rng.choice([-1, 0, 1, 2]) if key == "axis" and rng.random() < 0.5 else value
        for key, value in attrs.items()
    }
    return [other(arg) for arg in args], Attributes(given)


def is_float(arg):
    return all(leaf.dtype.kind == "float" for leaf in types.leaves(arg))


def values(op, args, attrs):
    strong = strengthen(op, args, attrs)
    pairs = enumerate(zip(args, strong, strict=True))
    return [
        to_array(s)
        if isinstance(arg, Literal)
        else arg
        if arg is None
        else random_value(arg, i, low=0, high=1 if is_float(arg) else 0)
        for i, (arg, s) in pairs
    ]


def assert_runs_as_inferred(op, args, attrs, count):
    try:
        inferred = infer_types(op, args, attrs, count)
    except Reject:
        return
    shown = ", ".join(map(str, args))
    try:
        results = run(op, values(op, args, attrs), bind(op, attrs), count)
    except Reject as reject:
        if "cannot be computed" not in reject.message:
            return  # it is in the op's own words, of literals
        raise
    for described, result in zip(inferred, results, strict=True):
        assert is_instance(result, described), f"{op.name}({shown}) is {described}, found {result.shape}"


@pytest.mark.parametrize(("name", "text"), [*of_ours()])
def test_what_is_taken_runs_as_inferred(name, text):
    rng = random.Random(text)
    args, statement = parsed(text)
    for _ in range(DRAWS):
        assert_runs_as_inferred(OPS[name], *drawn(rng, args, statement.attrs), len(statement.results))


@pytest.mark.parametrize(("name", "shapes", "attrs"), BRIDGED)
def test_what_is_taken_of_onnx_runs_as_inferred(name, shapes, attrs):
    rng = random.Random(name)
    args, attributes, count = of_bridge(name, shapes, attrs)
    for _ in range(2 * DRAWS):
        assert_runs_as_inferred(OPS[name], *drawn(rng, args, attributes), count)
