"""MLPs with equally wide layers: inference, or one training step (paper, figure 2)."""

from __future__ import annotations

from collections.abc import Mapping

from distir.ir import DISCARD, DTYPES, DType, Facts, Function, Literal, Module, TensorType
from distir.ir.builder import FunctionBuilder
from distir.models.sizes import BATCH, DEVICE, add_weights, batch_dimension, check_sizes, float_type

Weights = Mapping[str, TensorType]
"""The weights of a layer by name, without a device."""


def mlp(
    layers: int,
    width: int,
    batch: int | None = None,
    dtype: str = "Float16",
    *,
    training: bool = False,
    bias: bool = True,
    learning_rate: float = 0.01,
) -> Module:
    """An MLP of `layers` layers, each a square matrix product, a bias by default, and a `Relu`.

    `@main` takes the weights `%w1: (width, width)` and `%b1: (width,)` of each layer and the input
    `%x: (batch, width)`, and returns the prediction. Without `batch` that dimension is called `B`.

    With `training` it is a step of gradient descent instead: `@main` takes the labels `%y: (batch, width)` too, and
    returns the loss and the new weights. The loss is the squared error, its mean over the width summed over the batch:
    so the losses and the gradients of microbatches, or of devices, add up to those of the batch. It is a Float32 even
    where `dtype` is narrower, which a sum over a large batch would overflow. The backward pass of a layer needs the
    layer's input and its result; nothing is computed again.

    Raises ModelError.
    """
    check_sizes(layers=layers, width=width)
    t, rows = float_type(dtype), batch_dimension(batch)
    weights = {"w": TensorType(t, (width, width))}
    if bias:
        weights["b"] = TensorType(t, (width,))
    activation = TensorType(t, (BATCH, width))
    f = FunctionBuilder("main")
    held = [
        add_weights(f, {f"{name}{i}": weight for name, weight in weights.items()}, device=DEVICE)
        for i in range(1, layers + 1)
    ]
    x = f.param("x", TensorType(t, (rows, width), DEVICE), batch=0)
    if not training:
        for i, ws in enumerate(held, 1):
            f.facts = Facts(layer=i)
            (x,) = f.call("dense", *ws, x, results=("p" if i == layers else f"a{i}",))
        return Module([_dense(weights, activation), f.returns(x)])
    y = f.param("y", TensorType(t, (rows, width), DEVICE), batch=0)
    main = _training_step(f, weights, held, (x, y), learning_rate)
    return Module(
        [
            _dense(weights, activation),
            _dense_grad(weights, activation),
            _loss(activation, t),
            _loss_grad(activation, width),
            main,
        ]
    )


def _training_step(
    f: FunctionBuilder, weights: Weights, held: list[list[str]], data: tuple[str, str], learning_rate: float
) -> Function:
    """Forward, loss, backward; then the weights are updated, as in figure 2."""
    layers, (x, y) = len(held), data
    activations = [x]
    for i, ws in enumerate(held, 1):
        f.facts = Facts("forward", layer=i)
        activations += f.call("dense", *ws, activations[-1], results=("p" if i == layers else f"a{i}",))
    f.facts = Facts("forward")
    (loss,) = f.call("loss", activations[-1], y, results=("loss",))
    f.facts = Facts("backward")
    (slope,) = f.call("lossGrad", activations[-1], y, results=("dp",))
    gradients: list[tuple[str, ...]] = []
    for i in range(layers, 0, -1):
        f.facts = Facts("backward", layer=i)
        before, after = activations[i - 1], activations[i]
        names = (*(f"d{name}{i}" for name in weights), f"da{i - 1}" if i > 1 else DISCARD)
        *dws, slope = f.call("denseGrad", held[i - 1][0], before, after, slope, results=names)
        gradients.insert(0, tuple(dws))
    updated: list[str] = []
    for ws, dws in zip(held, gradients, strict=True):
        for w, dw in zip(ws, dws, strict=True):
            f.facts = Facts("optimizer", of=w)
            updated += f.apply("SGD", w, dw, lr=learning_rate, results=(f"{w}_new",))
    return f.returns(loss, *updated)


def _dense(weights: Weights, activation: TensorType) -> Function:
    f = FunctionBuilder("dense")
    w, *b = add_weights(f, weights)
    x = f.param("x", activation)
    (h,) = f.apply("Gemm", x, w, *b, results=("h",))
    (a,) = f.apply("Relu", h, results=("a",))
    return f.returns(a)


def _dense_grad(weights: Weights, activation: TensorType) -> Function:
    """From a layer's matrix, input, result, and the gradient of the result: those of the weights and of the input."""
    f = FunctionBuilder("denseGrad")
    (w,) = add_weights(f, {"w": weights["w"]})
    x, a, da = (f.param(name, activation) for name in ("x", "a", "da"))
    (dh,) = f.apply("ReluGrad", da, a, results=("dh",))
    gradients = f.apply("Gemm", x, dh, transA=True, results=("dw",))
    if "b" in weights:
        gradients += f.apply("ReduceSum", dh, Literal((0,)), keepdims=False, results=("db",))
    (dx,) = f.apply("Gemm", dh, w, transB=True, results=("dx",))
    return f.returns(*gradients, dx)


def _loss(activation: TensorType, dtype: DType) -> Function:
    f = FunctionBuilder("loss")
    p, y = f.param("p", activation), f.param("y", activation)
    (squares,) = f.apply("MSELoss", p, y, reduction="none", results=("squares",))
    (errors,) = f.apply("ReduceMean", squares, Literal((1,)), keepdims=False, results=("errors",))
    if dtype.bytes < DTYPES["Float32"].bytes:
        (errors,) = f.apply("Cast", errors, to=DTYPES["Float32"], results=("wide",))
    (loss,) = f.apply("ReduceSum", errors, Literal((0,)), keepdims=False, results=("loss",))
    return f.returns(loss)


def _loss_grad(activation: TensorType, width: int) -> Function:
    """The gradient of `@loss` with respect to the prediction."""
    f = FunctionBuilder("lossGrad")
    p, y = f.param("p", activation), f.param("y", activation)
    (dp,) = f.apply("MSELossGrad", 1 / width, p, y, reduction="sum", results=("dp",))
    return f.returns(dp)
