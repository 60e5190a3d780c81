"""Mixtures of experts: the router, the order of the tokens by expert, grouped products, and the sum by token.

A layer of experts is a composition, in the words of Megatron and torch. `x` is (…, tokens, width), for instance
(batch, tokens, width); `gate`, `up` and `down` hold a matrix for each expert:

    %logits = MatMul(%x, %router)                          # (batch, tokens, experts)
    %weights, %experts = Route[top_k = 2](%logits)         # (batch, tokens, 2) each
    %places, %counts = Dispatch[num_experts = 8](%experts) # the row of each choice; the tokens of each expert
    %rows = Permute(%x, %places)                           # (batch, tokens * 2, width): sorted by expert
    %g = RaggedMatMul(%rows, %gate, %counts)               # (batch, tokens * 2, inner width)
    %u = RaggedMatMul(%rows, %up, %counts)
    %s = Swish(%g)
    %h = Mul(%s, %u)
    %o = RaggedMatMul(%h, %down, %counts)
    %y = Unpermute(%o, %places, %weights)                  # (batch, tokens, width), in token order

Shared experts are dense layers beside it. What each expert adds is `RaggedExpand` of its bias, added to the product.

Each sequence (all dimensions before the tokens) is sorted by itself, as the groups of GShard are, so that devices can
share the batch; a `Reshape` to one group sorts all tokens together. Without a capacity nothing is dropped: there are as
many rows as choices, and how many belong to an expert is data (`counts`, which devices can exchange). With
`Dispatch[num_experts = e, capacity = c]` each expert has c rows, of which `Permute[rows = e * c]` leaves empty ones 0,
and `RaggedMatMul` takes no counts.

Auxiliary losses are compositions, too (`docs/how-to/experts.md`).

The work of `RaggedMatMul` is that of grouped kernels (Gale et al., *MegaBlocks*, MLSys 2023): each row once, and once
the matrix of each expert that has rows. `GroupedMatMul` does both in one, for rows in token order: each is multiplied
with the matrices of its experts, and no token moves.
"""

from __future__ import annotations

from distir.ops.experts import dispatch, grouped, ragged, routing

__all__ = ["dispatch", "grouped", "ragged", "routing"]
