"""Communication beside computation: statements put on streams of their own, in the program as others have made it.

`kinds` says what a kind of overlap is, `step` applies them. Each kind is one file, which registers itself when it is
imported here. What `search` and others call is `overlapped`.
"""

from distir.transform.overlap import context, experts, gradients, passes, products, transfers, weights
from distir.transform.overlap.kinds import KINDS, Inapplicable, Machine, Overlapped, kind
from distir.transform.overlap.step import overlap, overlapped

__all__ = [
    "KINDS",
    "Inapplicable",
    "Machine",
    "Overlapped",
    "context",
    "experts",
    "gradients",
    "kind",
    "overlap",
    "overlapped",
    "passes",
    "products",
    "transfers",
    "weights",
]
