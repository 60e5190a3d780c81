"""Along which dimension a sum is spread over the devices that it is summed over: sequence parallelism.

Tokens are neither the batch nor the last dimension, the features (Korthikanti et al., *Reducing activation
recomputation in large transformer models*, 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distir.analysis import Checker, Instance
from distir.diagnostics import Diagnostic
from distir.diagnostics.codes import transforms as codes
from distir.ir import Apply, Function, Site, Statement, TensorType
from distir.ops import OPS, Value, type_of
from distir.ops.splitting import layout
from distir.transform.sharding.batch import Places


def no_sequence(entry: Function, size: int) -> Diagnostic:
    """The error for a program in which no sum could be spread."""
    message = f"no sum in `@{entry.name}` has a sequence that splits over {size} devices"
    hint = "leave out `sequence`, or take a number of devices that divides the sequence"
    return Diagnostic(codes.NOTHING_TO_SPLIT, Site(entry.name), message, (), hint)


def tokens_of(
    name: str,
    value: Value,
    batch: Places,
    users: Sequence[Statement],
    instance: Instance,
    domain: Checker,
    parts: Callable[[int], int],
) -> int | None:
    """The dimension of a value's tokens; None if it has none, or they do not divide, or a user needs all of them.

    `batch`: the batch dimensions of its function's values. `parts`: into how many parts a dimension is cut then.
    """
    found = type_of(value)
    if not isinstance(found, TensorType) or found.shape is None:
        return None
    own = [dim for dim in range(len(found.shape)) if (name, (), dim) in batch]
    for dim, size in enumerate(found.shape[:-1]):
        divides = isinstance(size, int) and size % parts(dim) == 0
        if own and dim not in own and divides and _can_be_split(name, dim, users, instance, domain):
            return dim
    return None


def _can_be_split(name: str, dim: int, users: Sequence[Statement], instance: Instance, domain: Checker) -> bool:
    """Whether no op that uses a value needs it whole along a dimension, or makes sums again of its parts.

    As an op does that takes tokens back from the rows of experts, in which they are in no order.
    """
    for user in users:
        if isinstance(user, Apply):
            vs = instance.state(user.args)
            ws = [type_of(w) for w in domain.answer(user, vs)]
            found = layout(OPS[user.op], vs, ws, user.attrs)
            letters = [found.operands[i][dim] for i, arg in enumerate(user.args) if arg == name] if found else ()
            if found and any(letter is None or letter in found.parted for letter in letters):
                return False
    return True
