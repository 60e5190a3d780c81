import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from op_samples import FLOATS, apply, close, random_array, rejects, seeds, shapes

import distir.ops.optimizer  # noqa: F401 - registers the ops
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Attributes, Literal, TensorType, TupleType
from distir.ops import OPS, infer_types

rates = st.floats(1e-4, 0.5)


@given(shapes, seeds, st.sampled_from(FLOATS), rates, st.floats(0, 0.5))
def test_gradient_descent(shape, seed, dtype, lr, decay):
    w, dw = random_array(dtype, shape, seed), random_array(dtype, shape, seed + 1)
    wide_w, wide_dw = w.astype(np.float64), dw.astype(np.float64)
    close(apply("Optimizer", w, dw, lr=lr), wide_w - lr * wide_dw)
    close(apply("SGD", w, dw, lr=lr, weight_decay=decay), wide_w * (1 - lr * decay) - lr * wide_dw)


@given(seeds, rates, st.floats(0, 0.99), st.booleans(), st.floats(0, 0.5))
def test_momentum_over_several_steps(seed, lr, momentum, nesterov, decay):
    rng = np.random.default_rng(seed)
    w, m = np.array(1.0), np.array(0.0)
    expected_w, velocity = 1.0, 0.0
    for gradient in rng.normal(size=4):
        attrs = {"lr": lr, "momentum": momentum, "nesterov": nesterov, "weight_decay": decay}
        w, m = apply("Momentum", w, np.array(gradient), m, count=2, **attrs)
        decayed = gradient + decay * expected_w
        velocity = momentum * velocity + decayed
        expected_w -= lr * (decayed + momentum * velocity if nesterov else velocity)
    close(w, expected_w)
    close(m, velocity)


@given(seeds, rates, st.floats(0, 0.99), st.floats(0, 0.999), st.floats(0, 0.5))
def test_adam_over_several_steps(seed, lr, beta1, beta2, decay):
    rng = np.random.default_rng(seed)
    w, m, v = np.array(1.0), np.array(0.0), np.array(0.0)
    theta, first, second = 1.0, 0.0, 0.0
    attrs = {"lr": lr, "beta1": beta1, "beta2": beta2, "epsilon": 1e-6, "weight_decay": decay}
    for t, gradient in enumerate(rng.normal(size=4), start=1):
        w, m, v = apply("Adam", w, np.array(gradient), m, v, np.array(t), count=3, **attrs)
        first = beta1 * first + (1 - beta1) * gradient
        second = beta2 * second + (1 - beta2) * gradient * gradient
        unbiased = first / (1 - beta1**t), second / (1 - beta2**t)
        theta = theta - lr * decay * theta - lr * unbiased[0] / (math.sqrt(unbiased[1]) + 1e-6)
    close(w, theta)
    close(m, first)
    close(v, second)


@given(shapes, seeds)
def test_the_first_step_of_adam_goes_by_the_sign_of_the_gradient(shape, seed):
    w, dw = random_array("Float32", shape, seed), random_array("Float32", shape, seed + 1, 0.5, 3)
    zeros = np.zeros_like(w)
    w_new, _, _ = apply("Adam", w, dw, zeros, zeros, 1, count=3, lr=0.1)
    close(w_new, w - 0.1, 1e-4)


def test_narrow_weights_with_wide_state():
    w, dw = random_array("BFloat16", (2, 3), 1), random_array("BFloat16", (2, 3), 2)
    state = np.zeros((2, 3), np.float32)
    w_new, m, v = apply("Adam", w, dw, state, state, 1, count=3)
    assert (w_new.dtype, m.dtype, v.dtype) == (w.dtype, np.float32, np.float32)
    w_new, m = apply("Momentum", w, dw, state, count=2)
    assert (w_new.dtype, m.dtype) == (w.dtype, np.float32)
    assert apply("Optimizer", state, dw).dtype == np.float32


def test_tuples_are_updated_leaf_by_leaf():
    w, dw, m, v = (tuple(random_array("Float32", s, i, 0, 1) for s in ((2, 3), (3,))) for i in range(4))
    found = apply("Adam", w, dw, m, v, 3, count=3)
    for leaf in range(2):
        alone = apply("Adam", w[leaf], dw[leaf], m[leaf], v[leaf], 3, count=3)
        for i in range(3):
            close(found[i][leaf], alone[i])


def test_the_step_may_be_a_scalar_on_the_device():
    leaf = TensorType(DTYPES["Float32"], (2,), 1)
    pair, step = TupleType((leaf, leaf)), TensorType(DTYPES["Int64"], (), 1)
    assert infer_types(OPS["Adam"], [pair] * 4 + [step], Attributes(), 3) == (pair,) * 3
    assert infer_types(OPS["Adam"], [pair] * 4 + [Literal(1)], Attributes(), 3) == (pair,) * 3


def test_results_take_over_memory_of_their_own_type():
    types = {
        "w": TensorType(DTYPES["Float16"], (2,), 1),
        "dw": TensorType(DTYPES["BFloat16"], (2,), 1),
        "m": TensorType(DTYPES["Float32"], (2,), 1),
        "v": TensorType(DTYPES["Float32"], (2,), 1),
        "step": TensorType(DTYPES["Int64"], (), 1),
        "rate": TensorType(DTYPES["Float32"], (), 1),
        "factor": TensorType(DTYPES["Float32"], (), 1),
    }
    for name, results in {"Optimizer": "w", "SGD": "w", "Momentum": "wm", "Lion": "wm", "Adam": "wmv"}.items():
        op = OPS[name]
        operands = [types[o.name] for o in op.operands]
        inferred = infer_types(op, operands, Attributes(), len(results))
        assert [operands[op.inplace[i]] for i in range(len(results))] == list(inferred) == [types[r] for r in results]


def test_wrong_operands():
    w = random_array("Float32", (2, 3))
    assert rejects("Optimizer", w, random_array("Float32", (3, 2)))[0] is codes.SHAPE_MISMATCH
    assert rejects("Optimizer", (w, w), (w,))[0] is codes.KIND_MISMATCH
    assert rejects("Adam", w, w, w, w.astype(np.float16), 1, count=3)[0] is codes.DTYPE_MISMATCH
    assert rejects("Adam", w, w, w, w, 0, count=3)[0] is codes.BAD_VALUE
    assert rejects("Adam", w, w, w, w, 1.5, count=3)[0] is codes.DTYPE_MISMATCH
