"""The program as a value. Other rooms import from here, or the modules `dims` and `types` whole."""

from distir.ir.calls import ops_in
from distir.ir.core import (
    COMPUTE,
    DISCARD,
    Apply,
    Arg,
    Broken,
    Call,
    Claims,
    Function,
    Literal,
    Module,
    Param,
    Return,
    Statement,
    names,
    operands,
    results,
)
from distir.ir.dims import Dim, DimensionError, Shape, SymbolicDim
from distir.ir.dtypes import DTYPES, INTEGER_RANGES, DType
from distir.ir.facts import NO_FACTS, Facts
from distir.ir.literals import NO_ATTRIBUTES, Attributes, Constant, Dense, External, Scalar, identity
from distir.ir.places import Mesh, Meshes, PendingAlong, Places, SplitAlong
from distir.ir.sites import Part, Site
from distir.ir.types import HOST, OFFLOADED, UNKNOWN, AnyType, Device, TensorType, TupleType, Type

__all__ = [
    "COMPUTE",
    "DISCARD",
    "DTYPES",
    "HOST",
    "INTEGER_RANGES",
    "NO_ATTRIBUTES",
    "NO_FACTS",
    "OFFLOADED",
    "UNKNOWN",
    "AnyType",
    "Apply",
    "Arg",
    "Attributes",
    "Broken",
    "Call",
    "Claims",
    "Constant",
    "DType",
    "Dense",
    "Device",
    "Dim",
    "DimensionError",
    "External",
    "Facts",
    "Function",
    "Literal",
    "Mesh",
    "Meshes",
    "Module",
    "Param",
    "Part",
    "PendingAlong",
    "Places",
    "Return",
    "Scalar",
    "Shape",
    "Site",
    "SplitAlong",
    "Statement",
    "SymbolicDim",
    "TensorType",
    "TupleType",
    "Type",
    "identity",
    "names",
    "operands",
    "ops_in",
    "results",
]
