"""Gradients of products with the weights of experts."""

from __future__ import annotations

from distir.ops import experts as ops
from distir.ops.differentiation.backward import Backward, Gradients


@ops.GroupedMatMul.grad
def _(g: Backward) -> Gradients:
    x, w, group = g.definite(0), g.definite(1), g.definite(2)
    flip = {} if g.attrs["transW"] else {"transW": True}
    dx = g("GroupedMatMul", g.dy, w, group, **flip) if g.wants(0) else None
    if dx is not None and g.rank(x) == 2:
        dx = g("ReduceSum", dx, (1,), keepdims=False)
    flip = {"transW": True} if g.attrs["transW"] else {}
    dw = g("GroupedMatMulGrad", g.dy, x, group, g.shape_of(w), **flip) if g.wants(1) else None
    return [dx, dw, None]
