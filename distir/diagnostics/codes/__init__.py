"""Every code of every room, one file per hundred. All are declared as soon as one is needed, so `CODES` is complete."""

from distir.diagnostics.codes import (
    devices,
    lints,
    lowering,
    names,
    placements,
    proofs,
    settings,
    simulation,
    syntax,
    transforms,
    types,
)

__all__ = [
    "devices",
    "lints",
    "lowering",
    "names",
    "placements",
    "proofs",
    "settings",
    "simulation",
    "syntax",
    "transforms",
    "types",
]
