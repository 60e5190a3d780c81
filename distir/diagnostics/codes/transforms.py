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

INDIVISIBLE_SPLIT = code(
    "DIR620",
    "indivisible-split",
    """
A dimension that is to be split over devices does not divide by their number.

The parts must be equal. The diagnostic names the dimension, its size, and the numbers of devices that would do.
Choose one of them, or make the dimension larger: a batch by more examples, a vocabulary by tokens that never occur.
""",
)

NO_BATCH = code(
    "DIR621",
    "no-batch-dimension",
    """
Data parallelism splits the batch, but no parameter of the entry function says which dimension that is.

Say so in braces after the parameter's type: `%x: Tensor[Float32, (64, 768), 1] {batch = 0}`.
""",
)

NO_SHARDING_RULE = code(
    "DIR622",
    "no-sharding-rule",
    """
A value that is split over devices meets an op of which nothing says how it can be split.

Its signature leaves a shape open, and its definition has no rule. State one where the op is defined
(`@Op.sharding`), or split something else.
""",
)

NOTHING_TO_SPLIT = code(
    "DIR623",
    "nothing-to-split",
    """
Tensor parallelism found no dimension of a parameter that it could split.

It splits dimensions that neither the program's inputs nor a whole-dimension op (a normalisation, a softmax) has: the
hidden width of a perceptron, the heads of attention. They must divide by the number of devices. State a split by hand
with `shard=w1:1,w2:0`, parameter and dimension, or beside a parameter's type as `{param, shard = 1}`.
""",
)

BAD_SPLIT = code(
    "DIR624",
    "bad-split",
    """
A split that was asked for does not exist: there is no such parameter, or it has no such dimension.

Name parameters of the entry function, and their dimensions counted from 0: `shard=w1:1,w2:0`.
""",
)
