"""Pipelines: a sequential program cut into stages over several devices, its batch into microbatches, with a schedule.

The way of a program through here: `reading` understands it, by `microbatches` and `batch`; `stages` cuts it, by
`costs` if asked; `splitting` makes two of a backward pass; `packing` and `outlining` make functions of stages;
`schedules` and `order` say what runs when, `placement` what is where; `emission` writes it down, which `prepared` puts
together. `step` does all that.
"""

from distir.transform.pipeline.schedules import SCHEDULES, Schedule, ScheduleError
from distir.transform.pipeline.stages import layer_count
from distir.transform.pipeline.step import Steady, pp, steady

__all__ = ["SCHEDULES", "Schedule", "ScheduleError", "Steady", "layer_count", "pp", "steady"]
