"""Algorithm 1 and its domains; the checker; the reference executor."""

from distir.analysis.check import Analysis, Checker, check
from distir.analysis.domains import Devices, Instance, Mixed, Types, Values, lookup
from distir.analysis.interpret import Domain, State, interpret

__all__ = [
    "Analysis",
    "Checker",
    "Devices",
    "Domain",
    "Instance",
    "Mixed",
    "State",
    "Types",
    "Values",
    "check",
    "interpret",
    "lookup",
]
