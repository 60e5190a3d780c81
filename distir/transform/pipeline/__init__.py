"""Pipelines: a sequential program cut into stages over several devices, its batch into microbatches, with a schedule.

`reading` understands the sequential program, `stages` cuts it, `schedules` and `order` say what runs when, `placement`
where things are, and `emission` writes the program.
"""

from distir.transform.pipeline.schedules import SCHEDULES, Schedule, ScheduleError
from distir.transform.pipeline.step import pp

__all__ = ["SCHEDULES", "Schedule", "ScheduleError", "pp"]
