"""Reductions along axes, cumulative sums, and indices of the greatest and least elements.

Floating-point sums of elements narrower than Float32 are computed in Float32; integers wrap around.
"""

from distir.ops.reduce.places import ArgMax, ArgMin
from distir.ops.reduce.reductions import (
    ReduceL2,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
)
from distir.ops.reduce.running import CumSum
from distir.ops.reduce.top import TopK

__all__ = [
    "ArgMax",
    "ArgMin",
    "CumSum",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "TopK",
]
