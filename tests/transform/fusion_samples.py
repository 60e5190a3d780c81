"""Llama layers as they are written out in a program, of any size (Touvron et al., arXiv:2302.13971)."""


def llama(layers=1, batch=1, sequence=4096, width=4096, heads=32, groups=8, hidden=14336, dtype="BFloat16"):
    """A stack of layers, by default of Llama 3 8B: `groups` heads of keys and values, a feed-forward of `hidden`."""
    head = width // heads

    def by_head(name, count):
        split = f"  %{name}1 = Reshape(%{name}, [{batch}, {sequence}, {count}, {head}])\n"
        return split + f"  %{name}2 = Transpose[perm = [0, 2, 1, 3]](%{name}1)\n"

    layer = f"""func @layer(%x, %n1, %wq, %wk, %wv, %wo, %n2, %wg, %wu, %wd, %cos, %sin) {{
  %h = RMSNormalization(%x, %n1)
  %q = MatMul(%h, %wq)
  %k = MatMul(%h, %wk)
  %v = MatMul(%h, %wv)
{by_head("q", heads)}{by_head("k", groups)}{by_head("v", groups)}\
  %q3 = RotaryEmbedding(%q2, %cos, %sin)
  %k3 = RotaryEmbedding(%k2, %cos, %sin)
  %a = Attention[is_causal = true](%q3, %k3, %v2)
  %a1 = Transpose[perm = [0, 2, 1, 3]](%a)
  %a2 = Reshape(%a1, [{batch}, {sequence}, {width}])
  %o = MatMul(%a2, %wo)
  %r = Add(%x, %o)
  %m = RMSNormalization(%r, %n2)
  %g = MatMul(%m, %wg)
  %u = MatMul(%m, %wu)
  %sg = Swish(%g)
  %p = Mul(%sg, %u)
  %d = MatMul(%p, %wd)
  %y = Add(%r, %d)
  return %y
}}
"""
    wide, narrow = f"({width}, {width})", f"({width}, {groups * head})"
    weights = {"n1": f"({width},)", "wq": wide, "wk": narrow, "wv": narrow, "wo": wide, "n2": f"({width},)"}
    weights |= {"wg": f"({width}, {hidden})", "wu": f"({width}, {hidden})", "wd": f"({hidden}, {width})"}
    params = [
        f"  %{name}_{i}: Tensor[{dtype}, {shape}, 1] {{param}}"
        for i in range(layers)
        for name, shape in weights.items()
    ]
    table = f"Tensor[{dtype}, ({batch}, {sequence}, {head // 2}), 1] {{buffer}}"
    params += [f"  %cos: {table}", f"  %sin: {table}"]
    params.append(f"  %x: Tensor[{dtype}, ({batch}, {sequence}, {width}), 1] {{batch = 0}}")
    calls, x = [], "%x"
    for i in range(layers):
        calls.append(f"  %y{i} = @layer({x}, {', '.join(f'%{name}_{i}' for name in weights)}, %cos, %sin)")
        x = f"%y{i}"
    return "\n".join([layer, "func @main(", ",\n".join(params), ") {", *calls, f"  return {x}", "}", ""])
