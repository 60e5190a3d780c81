"""Calibration: microbenchmarks as programs, fits of their measured times, and the resulting profile.

`benchmarks` gives the programs, callers that may lower and start programs run them with `measuring`'s script, `fitting`
turns seconds into figures, `writing` makes them a profile. Knows no torch but as text, and starts nothing.
"""

from typing import TYPE_CHECKING

from distir.ir.late import late_names

if TYPE_CHECKING:
    from distir.cost.calibrate.benchmarks import Benchmark, communicating, computing
    from distir.cost.calibrate.by_shape import tables
    from distir.cost.calibrate.fitting import Calibration, Fit, fit
    from distir.cost.calibrate.measuring import Sample, plan, samples, script
    from distir.cost.calibrate.writing import MeasuredFigures, MeasuredMachine, as_extension, as_toml

_HOMES = {
    "distir.cost.calibrate.benchmarks": ("Benchmark", "communicating", "computing"),
    "distir.cost.calibrate.fitting": ("Calibration", "Fit", "fit"),
    "distir.cost.calibrate.measuring": ("Sample", "plan", "samples", "script"),
    "distir.cost.calibrate.by_shape": ("tables",),
    "distir.cost.calibrate.writing": ("MeasuredFigures", "MeasuredMachine", "as_extension", "as_toml"),
}
__getattr__ = late_names(__name__, {name: home for home, names in _HOMES.items() for name in names})

__all__ = [
    "Benchmark",
    "Calibration",
    "Fit",
    "MeasuredFigures",
    "MeasuredMachine",
    "Sample",
    "as_extension",
    "as_toml",
    "communicating",
    "computing",
    "fit",
    "plan",
    "samples",
    "script",
    "tables",
]
