"""A decoder of which each layer has a mixture of experts and a shared one: dropless, and with a capacity."""

import distir

LAYER = """func @layer(%x, %norm, %qkv, %out, %norm2, %router, %gate, %up, %down, %shared_up, %shared_down) {
  %n = RMSNormalization(%x, %norm)
  %heads = MatMul(%n, %qkv)
  %q, %k, %v = Split[axis = 2](%heads)
  %a = Attention[is_causal = true, q_num_heads = 2, kv_num_heads = 2](%q, %k, %v)
  %o = MatMul(%a, %out)
  %x2 = Add(%x, %o)
  %n2 = RMSNormalization(%x2, %norm2)
  %logits = MatMul(%n2, %router)
  %weights, %experts = Route[top_k = 2](%logits)
  %places, %counts = Dispatch[num_experts = 4](%experts)
  %rows = Permute(%n2, %places)
  %g = RaggedMatMul(%rows, %gate, %counts)
  %u = RaggedMatMul(%rows, %up, %counts)
  %s = Swish(%g)
  %h = Mul(%s, %u)
  %e = RaggedMatMul(%h, %down, %counts)
  %routed = Unpermute(%e, %places, %weights)
  %su = MatMul(%n2, %shared_up)
  %sh = Gelu(%su)
  %shared = MatMul(%sh, %shared_down)
  %both = Add(%routed, %shared)
  %y = Add(%x2, %both)
  return %y
}
"""

SHAPES = {
    "norm": (8,),
    "qkv": (8, 24),
    "out": (8, 8),
    "norm2": (8,),
    "router": (8, 4),
    "gate": (4, 8, 12),
    "up": (4, 8, 12),
    "down": (4, 12, 8),
    "shared_up": (8, 12),
    "shared_down": (12, 8),
}

CAPACITY = LAYER
for before, after in {
    "num_experts = 4]": "num_experts = 4, capacity = 3]",
    "%rows = Permute(%n2, %places)": "%rows = Permute(%n2, %places, _, 12)",
    "RaggedMatMul(%rows, %gate, %counts)": "RaggedMatMul(%rows, %gate)",
    "RaggedMatMul(%rows, %up, %counts)": "RaggedMatMul(%rows, %up)",
    "RaggedMatMul(%h, %down, %counts)": "RaggedMatMul(%h, %down)",
}.items():
    assert before in CAPACITY
    CAPACITY = CAPACITY.replace(before, after)


def decoder(layer=LAYER, layers=2, batch="B"):
    """A decoder over 16 words, of sequences of 6."""
    params, body, x = [], "  %x0 = Gather(%embed, %ids)\n", "x0"
    for i in range(layers):
        params += [f"  %{name}{i}: Tensor[Float64, {shape}, 1] {{param}}" for name, shape in SHAPES.items()]
        body += f"  %x{i + 1} = @layer(%{x}, {', '.join(f'%{name}{i}' for name in SHAPES)})\n"
        x = f"x{i + 1}"
    head = [f"  %ids: Tensor[Int64, ({batch}, 6), 1] {{batch = 0}}", "  %embed: Tensor[Float64, (16, 8), 1] {param}"]
    listed = ",\n".join([*head, *params, "  %head: Tensor[Float64, (8, 16), 1] {param}"])
    return distir.parse(f"func @main(\n{listed}\n) {{\n{body}  %y = MatMul(%{x}, %head)\n  return %y\n}}\n\n{layer}")
