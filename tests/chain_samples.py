"""Random models that can be trained and distributed, and random chains of transforms for them.

A model is a few blocks of several kinds, called or written out, with weights of their own or shared, and connections
that skip some of them. A chain is what somebody might write, tidying up in between; now and then in no sensible order.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

import distir
from distir.syntax import print_module
from distir.transform.pipeline import SCHEDULES

SIZES = {"B": 16}
"""Of the named dimensions."""

W, H, S = 4, 8, 2
"""The width of a model, the one inside a block, and the length of a sequence."""

FUNCTIONS = {
    "dense": ("""
      %h = MatMul(%x, %w)
      %a = Add(%h, %b)
      %y = ACT(%a)
      """, {"w": (W, W), "b": (W,)}),
    "feed": ("""
      %n = LayerNormalization(%x, %scale, %shift)
      %h = MatMul(%n, %w1)
      %b = Add(%h, %b1)
      %a = ACT(%b)
      %d = MatMul(%a, %w2)
      %e = Add(%d, %b2)
      %y = Add(%x, %e)
      """, {"scale": (W,), "shift": (W,), "w1": (W, H), "b1": (H,), "w2": (H, W), "b2": (W,)}),
    "gated": ("""
      %n = RMSNormalization(%x, %scale)
      %g = MatMul(%n, %wg)
      %a = ACT(%g)
      %u = MatMul(%n, %wu)
      %m = Mul(%a, %u)
      %d = MatMul(%m, %wd)
      %y = Add(%x, %d)
      """, {"scale": (W,), "wg": (W, H), "wu": (W, H), "wd": (H, W)}),
    "attend": ("""
      %q = MatMul(%x, %wq)
      %k = MatMul(%x, %wk)
      %v = MatMul(%x, %wv)
      %mixed = Attention[is_causal = true, q_num_heads = 4, kv_num_heads = 2](%q, %k, %v)
      %o = MatMul(%mixed, %wo)
      %y = Add(%x, %o)
      """, {"wq": (W, H), "wk": (W, W), "wv": (W, W), "wo": (H, W)}),
    "mix": ("""
      %qkv = MatMul(%x, %w)
      %q, %k, %v = Split[axis = -1, num_outputs = 3](%qkv)
      %q4 = Reshape(%q, [0, 0, -1, 2])
      %k4 = Reshape(%k, [0, 0, -1, 2])
      %v4 = Reshape(%v, [0, 0, -1, 2])
      %qt = Transpose[perm = [0, 2, 1, 3]](%q4)
      %kt = Transpose[perm = [0, 2, 3, 1]](%k4)
      %vt = Transpose[perm = [0, 2, 1, 3]](%v4)
      %s = MatMul(%qt, %kt)
      %p = Softmax(%s)
      %m = MatMul(%p, %vt)
      %t = Transpose[perm = [0, 2, 1, 3]](%m)
      %j = Reshape(%t, [0, 0, -1])
      %o = MatMul(%j, %wo)
      %y = Add(%x, %o)
      """, {"w": (W, 3 * W), "wo": (W, W)}),
    "rows": ("""
      %shape = Shape(%x)
      %flat = Reshape(%x, [-1, WIDTH])
      %h = Gemm(%flat, %w, %b)
      %a = ACT(%h)
      %y = Reshape(%a, %shape)
      """, {"w": (W, W), "b": (W,)}),
    "halves": ("""
      %l, %r = Split[axis = -1, num_outputs = 2](%x)
      %a = ACT(%l)
      %j = Concat[axis = -1](%r, %a)
      %y = Mul(%j, %scale)
      """, {"scale": (W,)}),
    "still": ("""
      %two = Mul(%x, 2.0)
      %y = ACT(%two)
      """, {}),
}  # fmt: skip
"""Blocks by name: from `%x` to `%y` of the same shape, with weights of these shapes."""

ACTIVATIONS = ("Tanh", "Gelu", "Sigmoid", "Swish", "Relu", "Softplus")
TIDY = ("dce", "cse", "fold", "inline", "outline=2", "fuse", "fuse epilogues=true", "reschedule attempts=4")
"""Steps that may stand anywhere."""


@dataclass(frozen=True, repr=False)
class Model:
    """A forward program; whether its batch has a name instead of a size."""

    module: distir.ir.Module
    named: bool

    def _repr_pretty_(self, printer, _cycle):
        printer.text(print_module(self.module))


@st.composite
def models(draw):
    """Forward programs on one device, with `{param}` and `{batch}`."""
    batch = draw(st.sampled_from(["8", "B"]))
    params, body, defined, last = [], [], {}, "x0"

    def weight(name, shape):
        size = f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"
        params.append(f"%{name}: Tensor[Float64, {size}, 1] {{param}}")
        return f"%{name}"

    if draw(st.booleans()):
        params.append(f"%x: Tensor[Int64, ({batch}, {S}), 1] {{batch = 0}}")
        body.append(f"%x0 = Gather[axis = 0]({weight('table', (6, W))}, %x)")
    else:
        params.append(f"%x0: Tensor[Float64, ({batch}, {S}, {W}), 1] {{batch = 0}}")
    weights = {}
    for index in range(1, draw(st.integers(2, 4)) + 1):
        kind = draw(st.sampled_from(sorted(FUNCTIONS)))
        text, shapes = FUNCTIONS[kind]
        own = kind not in weights or draw(st.integers(0, 3)) > 0
        if own:
            weights[kind] = [weight(f"{name}_{index}", shape) for name, shape in shapes.items()]
        if kind not in defined:
            activation = draw(st.sampled_from(ACTIVATIONS))
            written = text.replace("ACT", activation).replace("WIDTH", str(W)).rstrip()
            named = ", ".join(["%x", *(f"%{name}" for name in shapes)])
            defined[kind] = f"func @{kind}({named}) {{{written}\n  return %y\n}}"
        body.append(f"%x{index} = @{kind}({', '.join([f'%{last}', *weights[kind]])})")
        last = f"x{index}"
        if index > 1 and draw(st.integers(0, 3)) == 0:
            body.append(f"%s{index} = Add(%{last}, %x{draw(st.integers(0, index - 2))})")
            last = f"s{index}"
    head = draw(st.sampled_from(["none", "pooled", "logits"]))
    if head == "pooled":
        body.append(f"%pooled = ReduceMean[keepdims = false](%{last}, [1])")
        last = "pooled"
    if head != "none":
        body.append(f"%scores = MatMul(%{last}, {weight('head', (W, 6))})")
        last = "scores"
    text = "\n".join([*defined.values(), f"func @main({', '.join(params)}) {{", *body, f"return %{last}", "}"])
    return Model(distir.parse(text), named=batch == "B")


@st.composite
def chains(draw, model):
    """Steps, each with its options: `grad loss=mse`, `pp=2 microbatches=4 schedule=gpipe`."""

    def maybe(*steps):
        return [draw(st.sampled_from(steps))] if draw(st.integers(0, 3)) else []

    def tidy():
        steps = draw(st.lists(st.sampled_from(TIDY), max_size=2))
        return [f"{step} bind=B=16" if step.startswith("reschedule") and model.named else step for step in steps]

    optimizer = draw(st.sampled_from(["sgd", "momentum", "adam", "none"]))
    loss = draw(st.sampled_from(["mse", "cross_entropy"]))
    reduction = draw(st.sampled_from(["mean", "sum"]))
    spread = draw(distributions())
    copied = any(step.startswith(("dp=", "dtp=2", "dtp=4")) for step in spread)
    stages = [f"zero={stage} partition={way}" for stage in (1, 2, 3) for way in ("owner", "split")]
    parts = [
        tidy(),
        maybe(f"grad loss={loss} optimizer={optimizer} reduction={reduction}" + (" lr=0.5" * (optimizer != "none"))),
        tidy(),
        maybe("checkpoint=1", "checkpoint=2") if draw(st.booleans()) else [],
        tidy(),
        spread,
        tidy(),
        maybe(*stages) if copied else [],
        tidy(),
        maybe(
            "overlap",
            "overlap prefetch=2 bucket_bytes=300",
            "overlap behind_sums=true",
            "overlap=gradients,weights first_bucket_bytes=0",
        ),
    ]
    steps = [step for part in parts for step in part]
    return draw(st.permutations(steps)) if draw(st.integers(0, 9)) == 0 else steps


@st.composite
def distributions(draw):
    """Steps that bring a program to several devices, eight at most."""
    schedule = draw(st.sampled_from(sorted(SCHEDULES)))
    virtual = " virtual=2" if schedule == "interleaved" and draw(st.booleans()) else ""
    options = f"microbatches={draw(st.sampled_from([1, 2, 4]))} schedule={schedule}{virtual}"
    if draw(st.integers(0, 3)) == 0:
        degrees = draw(st.sampled_from(["2,2,2", "2,2,1", "2,1,2", "1,2,2", "4,1,1", "1,1,3"]))
        layout = "".join(draw(st.permutations("dtp")))
        return [f"dtp={degrees} {options} layout={layout}"]
    others = draw(st.sampled_from([(), ("dp=2",), ("tp=2",), ("tp=2", "dp=2"), ("dp=2", "tp=2"), ("dp=4",)]))
    stages = draw(st.sampled_from([1, 2, 3] if others in ((), ("dp=2",), ("tp=2",)) else [1, 2]))
    pipeline = [f"pp={stages} {options}"] if draw(st.booleans()) else []
    buckets = " bucket_bytes=300" if draw(st.integers(0, 3)) == 0 else ""
    return [*pipeline, *(step + buckets if step.startswith("dp") else step for step in others)]
