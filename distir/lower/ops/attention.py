"""Attention, rotary embedding and contraction in torch."""

from __future__ import annotations

from distir.lower.forms import Operand, Write, number, torch_form
from distir.ops.equation import parse_equation


@torch_form("Attention", fresh=True)
def _(
    write: Write,
    q: Operand,
    k: Operand,
    v: Operand,
    attn_mask: Operand | None = None,
    *,
    is_causal: bool,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float,
) -> str:
    heads = f"{q_num_heads if q.rank == 3 else None}, {kv_num_heads if q.rank == 3 else None}"
    mask = None if attn_mask is None else attn_mask.tensor
    settings = f"{is_causal}, {None if scale is None else number(scale)}, {number(softcap)}"
    kernel = "attention" if softcap == 0 and not (is_causal and mask) else "attention_written_out"
    return f"{write.kernel(kernel)}({q}, {k}, {v}, {mask}, {heads}, {settings})"


@torch_form("RotaryEmbedding", fresh=True)
def _(
    write: Write,
    x: Operand,
    cos_cache: Operand,
    sin_cache: Operand,
    position_ids: Operand | None = None,
    *,
    interleaved: bool,
    num_heads: int,
    rotary_embedding_dim: int,
) -> str:
    heads = num_heads if x.rank == 3 else None
    given = f"{x}, {cos_cache}, {sin_cache}, {None if position_ids is None else position_ids.tensor}"
    return f"{write.kernel('rotary_embedding')}({given}, {interleaved}, {heads}, {rotary_embedding_dim})"


@torch_form("Einsum", fresh=True)
def _(write: Write, *inputs: Operand, equation: str) -> str:
    if len(inputs) == 1:  # a diagonal, or a rearrangement, would be a view
        return f"torch.einsum({str(parse_equation(equation))!r}, {inputs[0].tensor}).clone()"
    return f"torch.einsum({str(parse_equation(equation))!r}, {', '.join(x.tensor for x in inputs)})"
