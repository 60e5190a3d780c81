"""How each op is written in torch, in files by family as in `distir.ops`. Importing this registers all forms."""

from distir.lower.ops import (
    activation,
    attention,
    bridge,
    communication,
    constant,
    elementwise,
    experts,
    gradient,
    linalg,
    loss,
    norm,
    optimizer,
    recurrent,
    reduce,
    select,
    shape,
    tuples,
)

FAMILIES = (
    activation,
    attention,
    bridge,
    communication,
    constant,
    elementwise,
    experts,
    gradient,
    linalg,
    loss,
    norm,
    optimizer,
    recurrent,
    reduce,
    select,
    shape,
    tuples,
)
"""The modules whose import registers forms."""

__all__ = ["FAMILIES"]
