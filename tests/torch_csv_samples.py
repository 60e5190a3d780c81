"""A model of eight layers whose pipelines are exported to torch, and all schedules with what they take."""

import distir

WIDTH, BATCH, LAYERS = 6, 24, 8

WAYS = [
    ("gpipe", 4, 6, 1),
    ("1f1b", 4, 8, 1),
    ("1f1b", 2, 12, 1),
    ("interleaved", 2, 8, 2),
    ("interleaved", 2, 4, 3),
    ("looped-bfs", 4, 4, 2),
    ("zb-h1", 4, 8, 1),
    ("zb-h1", 3, 12, 1),
    ("zb-v", 4, 8, 1),
    ("zb-v", 2, 6, 1),
    ("dualpipev", 2, 6, 1),
    ("dualpipev", 4, 8, 1),
    ("best", 2, 4, 1),
    ("best", 2, 4, 2),
]
"""Schedule, devices, microbatches, stages per device where one says how many."""


def training():
    """A training step: the loss and all gradients."""
    weights = [f"%w{i}: Tensor[Float32, ({WIDTH}, {WIDTH}), 1] {{param}}" for i in range(LAYERS)]
    body = [f"%h{i + 1} = @layer(%w{i}, %h{i})" for i in range(LAYERS)]
    text = f"""
func @layer(%w, %x) {{
  %a = MatMul(%x, %w)
  %y = Tanh(%a)
  return %y
}}

func @main({", ".join(weights)}, %h0: Tensor[Float32, ({BATCH}, {WIDTH}), 1] {{batch = 0}}) {{
  {chr(10).join(body)}
  return %h{LAYERS}
}}
"""
    return distir.transform(distir.parse(text), "grad", "loss=mse", "optimizer=none")


def pipeline(model, way):
    schedule, devices, microbatches, virtual = way
    options = (f"schedule={schedule}", f"microbatches={microbatches}", f"virtual={virtual}")
    return distir.transform(model, f"pp={devices}", *options)
