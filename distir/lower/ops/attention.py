"""Attention and rotary embedding in torch."""

from __future__ import annotations

from distir.lower.forms import Operand, Write, number, torch_form


@torch_form("Attention", fresh=True)
def _(
    write: Write,
    q: Operand,
    k: Operand,
    v: Operand,
    attn_mask: Operand | None = None,
    sinks: Operand | None = None,
    *,
    is_causal: bool,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float,
    window: int | None = None,
) -> str:
    heads = f"{q_num_heads if q.rank == 3 else None}, {kv_num_heads if q.rank == 3 else None}"
    mask = None if attn_mask is None else attn_mask.tensor
    settings = f"{is_causal}, {None if scale is None else number(scale)}, {number(softcap)}"
    given = f"{q}, {k}, {v}, {mask}"
    if softcap == 0 and not (is_causal and mask) and sinks is None and not window:
        return f"{write.kernel('attention')}({given}, {heads}, {settings})"
    sink = None if sinks is None else sinks.tensor
    return f"{write.kernel('attention_written_out')}({given}, {sink}, {heads}, {settings}, {window})"


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
