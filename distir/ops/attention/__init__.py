"""Attention as a single op, as the flash kernels compute it, forward and backward.

The kernels go over queries and keys in tiles and keep a running maximum and sum of the softmax (Dao et al. 2022,
arXiv:2205.14135; Dao 2023, arXiv:2307.08691). So the scores, of which there are as many as pairs of a query and a key,
are in no memory: not as a result, not as workspace. Of the softmax a row's log-sum-exp is kept, from which the backward
pass computes the scores again.

Each score takes a product over the size of a key's head and one over the size of a value's: 4·b·h·q·k·e FLOPs where the
sizes are equal. Of a causal triangle half is computed, and with a sliding window what is inside; the backward pass
takes 2.5 times as many FLOPs, five products for two. With dropout each pass draws the random numbers, which takes for
each score what it takes in `Dropout`. Traffic is that of operands and results; of a cache, of the part that is read.
"""

from distir.ops.attention.backward import AttentionGrad
from distir.ops.attention.forward import Attention
from distir.ops.attention.merging import MergeAttention
from distir.ops.attention.operands import CONTEXTS

__all__ = ["CONTEXTS", "Attention", "AttentionGrad", "MergeAttention"]
