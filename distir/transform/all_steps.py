"""Every step there is: importing this module registers them. A new module of steps gets its line here."""

from distir.transform import common_subexpressions, dead_code, dtp, fold, inline, outline, pipeline, sharding, training
from distir.transform.steps import STEPS, parse_steps, transform

FAMILIES = (
    common_subexpressions,
    dead_code,
    dtp,
    fold,
    inline,
    outline,
    pipeline,
    sharding,
    training,
)
"""The modules whose import registers our steps."""

__all__ = ["FAMILIES", "STEPS", "parse_steps", "transform"]
