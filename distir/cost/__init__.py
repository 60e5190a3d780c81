"""Hardware: profiles, topology, and the models that turn work into seconds. Knows no programs.

`load("dgx-a100").cost(work, positions)` is the whole of it; `units` parses and prints quantities.
"""

from distir.cost.catalogue import DEFAULT, load, parse, profiles
from distir.cost.collectives import ALGORITHMS, Algorithm, Spent, algorithm
from distir.cost.compute import Kind, Rate
from distir.cost.describe import Row, describe
from distir.cost.errors import HardwareError, Problem
from distir.cost.hardware import FREE, Bound, Cost, Figure, Hardware
from distir.cost.topology import Level, Link, Ranks, Tier
from distir.cost.units import UnitError, parse_bytes, parse_seconds, show_bytes, show_seconds

__all__ = [
    "ALGORITHMS",
    "DEFAULT",
    "FREE",
    "Algorithm",
    "Bound",
    "Cost",
    "Figure",
    "Hardware",
    "HardwareError",
    "Kind",
    "Level",
    "Link",
    "Problem",
    "Ranks",
    "Rate",
    "Row",
    "Spent",
    "Tier",
    "UnitError",
    "algorithm",
    "describe",
    "load",
    "parse",
    "parse_bytes",
    "parse_seconds",
    "profiles",
    "show_bytes",
    "show_seconds",
]
