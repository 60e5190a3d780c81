"""Algorithm 1 and its domains; the checker; the reference executor."""

from distir.analysis.checker import Checker
from distir.analysis.checking import Analysis, analysed, check, check_entry, refuse_mesh
from distir.analysis.domains import Devices, Instance, Mixed, Replica, Types
from distir.analysis.executor import (
    InputError,
    Inputs,
    Load,
    Output,
    TooLargeError,
    execute,
    random_inputs,
    result_names,
)
from distir.analysis.indices import Bounds, Leaf, index_bounds
from distir.analysis.interpreter import Domain, State, algorithm_1, interpret
from distir.analysis.known_ops import lookup
from distir.analysis.values import Values

__all__ = [
    "Analysis",
    "Bounds",
    "Checker",
    "Devices",
    "Domain",
    "InputError",
    "Inputs",
    "Instance",
    "Leaf",
    "Load",
    "Mixed",
    "Output",
    "Replica",
    "State",
    "TooLargeError",
    "Types",
    "Values",
    "algorithm_1",
    "analysed",
    "check",
    "check_entry",
    "execute",
    "index_bounds",
    "interpret",
    "lookup",
    "random_inputs",
    "refuse_mesh",
    "result_names",
]
