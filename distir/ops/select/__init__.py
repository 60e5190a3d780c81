"""Splitting, concatenating, slicing, gathering and scattering."""

from distir.ops.select.gathering import Gather, GatherElements, GatherND
from distir.ops.select.joining import Concat, Split
from distir.ops.select.scattering import ScatterElements, ScatterND
from distir.ops.select.slicing import Slice

__all__ = [
    "Concat",
    "Gather",
    "GatherElements",
    "GatherND",
    "ScatterElements",
    "ScatterND",
    "Slice",
    "Split",
]
