"""Overlaps communication with computation: moves statements of a distributed program onto streams.

`kinds` defines what a kind of overlap is; each kind is one file, registered when it is imported here: `gradients` (with
`buckets` and `opening`), `weights`, `products` (with `cutting`), `transfers`, `experts`, `passes` and `context`, of
which several use `turns`. `step` applies them, and orders the text (`runs`); other packages call `overlapped`.
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
