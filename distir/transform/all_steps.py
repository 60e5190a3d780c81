"""The module of each step, which is imported when the step is looked for. A new step gets its line here."""

from distir.transform.steps import STEPS, parse_steps, transform

HOMES = {
    "accumulate": "pipeline",
    "attention": "unfusing",
    "checkpoint": "checkpoint",
    "cp": "sharding",
    "cse": "common_subexpressions",
    "dce": "dead_code",
    "decompose": "unfusing",
    "dp": "sharding",
    "dtp": "dtp",
    "ep": "sharding",
    "fold": "fold",
    "fp8": "float8",
    "fuse": "fusion",
    "grad": "training",
    "inline": "inline",
    "mesh": "mesh",
    "offload": "offload",
    "outline": "outline",
    "overlap": "overlap",
    "pp": "pipeline",
    "reschedule": "rescheduling",
    "seeded": "seeding",
    "tp": "sharding",
    "zero": "zero",
}
"""By name of a step of ours: the module of `distir.transform` that registers it."""

STEPS.expect({name: f"distir.transform.{home}" for name, home in HOMES.items()})

__all__ = ["STEPS", "parse_steps", "transform"]
