"""Hardware: profiles, topology, and the models that turn work into seconds. Knows no programs.

`load("dgx-a100").cost(work, positions)` is the whole of it; `units` parses and prints quantities.

Names are imported on first use, so that checking a program does not load the cost models.
"""

from typing import TYPE_CHECKING

from distir.ir.late import late_names

if TYPE_CHECKING:
    from distir.cost.catalogue import DEFAULT, add_profiles, gpus, load, parse, profiles, with_nodes
    from distir.cost.collectives import ALGORITHMS, Algorithm, CollectiveSeconds, algorithm
    from distir.cost.compute import DeviceKind, Rate
    from distir.cost.description import ProfileFigure, describe
    from distir.cost.errors import HardwareError, Problem
    from distir.cost.goodput import Goodput, best_goodput, best_interval
    from distir.cost.hardware import FREE, Bound, Cost, Figure, Hardware
    from distir.cost.price import Price, StepCost, step_cost
    from distir.cost.topology import Level, Link, Ranks, Tier
    from distir.cost.units import UnitError, parse_bytes, parse_seconds
    from distir.diagnostics.quantities import (
        TimeScale,
        show_bytes,
        show_seconds,
        show_seconds_apart,
        show_speedup,
        time_scale,
    )

_HOMES = {
    "distir.cost.catalogue": ("DEFAULT", "add_profiles", "gpus", "load", "parse", "profiles", "with_nodes"),
    "distir.cost.collectives": ("ALGORITHMS", "Algorithm", "CollectiveSeconds", "algorithm"),
    "distir.cost.compute": ("DeviceKind", "Rate"),
    "distir.cost.description": ("ProfileFigure", "describe"),
    "distir.cost.errors": ("HardwareError", "Problem"),
    "distir.cost.goodput": ("Goodput", "best_goodput", "best_interval"),
    "distir.cost.hardware": ("FREE", "Bound", "Cost", "Figure", "Hardware"),
    "distir.cost.price": ("Price", "StepCost", "step_cost"),
    "distir.cost.topology": ("Level", "Link", "Ranks", "Tier"),
    "distir.cost.units": ("UnitError", "parse_bytes", "parse_seconds"),
    "distir.diagnostics.quantities": (
        "TimeScale",
        "show_bytes",
        "show_seconds",
        "show_seconds_apart",
        "show_speedup",
        "time_scale",
    ),
}
__getattr__ = late_names(__name__, {name: home for home, names in _HOMES.items() for name in names})

__all__ = [
    "ALGORITHMS",
    "DEFAULT",
    "FREE",
    "Algorithm",
    "Bound",
    "CollectiveSeconds",
    "Cost",
    "DeviceKind",
    "Figure",
    "Goodput",
    "Hardware",
    "HardwareError",
    "Level",
    "Link",
    "Price",
    "Problem",
    "ProfileFigure",
    "Ranks",
    "Rate",
    "StepCost",
    "Tier",
    "TimeScale",
    "UnitError",
    "add_profiles",
    "algorithm",
    "best_goodput",
    "best_interval",
    "describe",
    "gpus",
    "load",
    "parse",
    "parse_bytes",
    "parse_seconds",
    "profiles",
    "show_bytes",
    "show_seconds",
    "show_seconds_apart",
    "show_speedup",
    "step_cost",
    "time_scale",
    "with_nodes",
]
