"""A small model and its training steps, run again and again by the reference executor, to compare with PyTorch."""

from __future__ import annotations

import numpy as np

import distir
from distir.analysis import random_inputs

MODEL = """
func @main(
  %w1: Tensor[Float64, (4, 5), 1] {param},
  %b1: Tensor[Float64, (5,), 1] {param},
  %w2: Tensor[Float64, (5, 3), 1] {param},
  %b2: Tensor[Float64, (3,), 1] {param},
  %x: Tensor[Float64, (6, 4), 1] {batch = 0}
) {
  %h = Gemm(%x, %w1, %b1)
  %a = Tanh(%h)
  %y = Gemm(%a, %w2, %b2)
  return %y
}
"""

WEIGHTS = ("w1", "b1", "w2", "b2")


def model(dtype="Float64"):
    """A perceptron."""
    return distir.parse(MODEL.replace("Float64", dtype))


def first_values(step, seed=0):
    """The parameters of a step at its beginning: state is zero, or what it begins as."""
    values = random_inputs(step, seed, {})
    for p in step.entry().params:
        if "state" in p.roles and "initial" not in p.roles:
            whole = np.asarray(values[p.name])
            values[p.name] = np.zeros_like(whole) if whole.dtype.kind == "f" else np.ones_like(whole)
    return values


def trained(step, batches, values=None):
    """The losses of a training step, and its parameters after it has been run on each batch."""
    values = dict(values or first_values(step))
    held = [p.name for p in step.entry().params if p.roles.keys() & {"param", "state"}]
    losses = []
    for batch in batches:
        loss, *new = distir.run(step, values | batch).values()
        losses.append(float(loss))
        values.update(zip(held, new, strict=True))
    return losses, values


def batches(count, seed=7, scale=1.0):
    """Batches for the perceptron: inputs and targets."""
    rng = np.random.default_rng(seed)
    return [{"x": scale * rng.normal(size=(6, 4)), "target": rng.normal(size=(6, 3))} for _ in range(count)]


def torch_loss(torch, weights, batch):
    """The loss of the perceptron in PyTorch."""
    x, target = torch.as_tensor(batch["x"]), torch.as_tensor(batch["target"])
    y = torch.tanh(x @ weights["w1"] + weights["b1"]) @ weights["w2"] + weights["b2"]
    return torch.nn.functional.mse_loss(y, target)


def torch_trained(torch, start, given, optimizer, after_backward=None, before_step=None):
    """The same in a plain PyTorch loop. `optimizer`: from the weights by name to the optimizer."""
    weights = {name: torch.tensor(start[name], requires_grad=True) for name in WEIGHTS}
    chosen = optimizer(weights)
    losses = []
    for number, batch in enumerate(given):
        if before_step is not None:
            before_step(number, chosen)
        loss = torch_loss(torch, weights, batch)
        chosen.zero_grad()
        loss.backward()
        if after_backward is not None:
            after_backward(weights)
        chosen.step()
        losses.append(loss.item())
    return losses, {name: w.detach().numpy() for name, w in weights.items()}


def gradients(values, *words):
    """The gradients of the perceptron, by name."""
    step = distir.transform(model(), "grad", "optimizer=none", *words)
    return distir.run(step, {p.name: values[p.name] for p in step.entry().params})
