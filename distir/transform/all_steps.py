"""Imports every module that defines steps, which registers them. A new module of steps gets its line here."""

from distir.transform import (
    checkpoint,
    common_subexpressions,
    dead_code,
    dtp,
    float8,
    fold,
    fusion,
    inline,
    mesh,
    offload,
    outline,
    overlap,
    pipeline,
    rescheduling,
    seeding,
    sharding,
    training,
    unfusing,
    zero,
)
from distir.transform.steps import STEPS, parse_steps, transform

FAMILIES = (
    checkpoint,
    common_subexpressions,
    dead_code,
    dtp,
    float8,
    fold,
    fusion,
    inline,
    mesh,
    offload,
    outline,
    overlap,
    pipeline,
    rescheduling,
    seeding,
    sharding,
    training,
    unfusing,
    zero,
)
"""The modules that register the built-in steps."""

__all__ = ["FAMILIES", "STEPS", "parse_steps", "transform"]
