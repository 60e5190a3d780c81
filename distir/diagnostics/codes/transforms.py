"""DIR6xx: why a transform cannot be applied."""

from distir.diagnostics.core import code

NOT_DIFFERENTIABLE = code(
    "DIR601",
    "not-differentiable",
    """
An op stands on the way from a parameter to the loss, and its definition has no gradient rule. State one where the op
is defined (`@Op.grad`), or keep the op off that way.
""",
)
