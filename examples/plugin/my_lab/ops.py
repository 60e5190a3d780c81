"""The squared rectifier of Primer (So et al. 2021, arXiv:2109.08668), with its gradient and its torch form."""

from distir import op


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=2, linear=())
def SquaredRelu(x):  # noqa: N802 - ops are named as in ONNX
    """`max(x, 0)²`, element by element.

    %y = SquaredRelu(%x: Tensor[Float32, (2, 3), 1])
    """
    import numpy as np

    return np.maximum(x, 0) ** 2


@SquaredRelu.grad
def _(g):
    (x,) = g.x
    return [g("Mul", g.dy, g("Mul", 2.0, g("Relu", x)))]


SquaredRelu.torch("torch.nn.functional.relu({x}).square()", fresh=True)
