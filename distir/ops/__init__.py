"""The ops: one definition each, in a module per family. `OPS` is the registry."""

from distir.ops import (
    activation,
    attention,
    bridge,
    cache,
    communication,
    constant,
    dropout,
    elementwise,
    experts,
    float8,
    gradient,
    gradient_images,
    group,
    linalg,
    loss,
    mesh,
    norm,
    offload,
    optimizer,
    order,
    quantized_recurrent,
    recurrent,
    reduce,
    rotary,
    scaling,
    scan,
    select,
    shape,
    tuples,
    views,
)
from distir.ops.attributes import bind, canonical
from distir.ops.core import OPS, REQUIRED, Op, Ops
from distir.ops.definition import op
from distir.ops.infer import (
    Value,
    infer_partial,
    infer_types,
    infer_values,
    item_of,
    result_count,
    run,
    strengthen,
    type_of,
)
from distir.ops.numeric import dense, dtype_of, numpy_dtype, to_array, to_dense
from distir.ops.resources import NO_WORK, Communication, Pattern, Work
from distir.ops.unify import Reject
from distir.ops.workload import work


def _standard_op(name: str) -> Op | None:
    from distir.ops.bridge.definition import standard_op  # most programs have none

    return standard_op(name)


OPS.standard = _standard_op

FAMILIES = (
    constant,
    elementwise,
    activation,
    dropout,
    attention,
    rotary,
    cache,
    linalg,
    float8,
    experts,
    reduce,
    norm,
    shape,
    select,
    tuples,
    loss,
    gradient,
    gradient_images,
    recurrent,
    quantized_recurrent,
    scan,
    optimizer,
    order,
    offload,
    scaling,
    communication,
    mesh,
    group,
    views,
)
"""The modules of the built-in ops, registered on import."""

__all__ = [
    "FAMILIES",
    "NO_WORK",
    "OPS",
    "REQUIRED",
    "Communication",
    "Op",
    "Ops",
    "Pattern",
    "Reject",
    "Value",
    "Work",
    "bind",
    "bridge",
    "canonical",
    "dense",
    "dtype_of",
    "infer_partial",
    "infer_types",
    "infer_values",
    "item_of",
    "numpy_dtype",
    "op",
    "result_count",
    "run",
    "strengthen",
    "to_array",
    "to_dense",
    "type_of",
    "work",
]
