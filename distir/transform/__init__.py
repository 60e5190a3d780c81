"""Transforms: functions Module -> Module, composable, that refuse with a diagnostic what they cannot do."""

from distir.transform.steps import STEPS, Application, Option, Step, StepError, parse_steps, step, transform

__all__ = ["STEPS", "Application", "Option", "Step", "StepError", "parse_steps", "step", "transform"]
