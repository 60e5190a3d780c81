"""Pipelines: a sequential program cut into stages over several devices, its batch into microbatches, with a schedule.

The way of a program through here: `reading` understands it, by `microbatches` and `batch`; `stages` cuts it, by `costs`
and what is held (`holding`), where `balance` says, and `shares` says what came of that; `splitting` makes two of a
backward pass; `packing` and `outlining` make functions of stages; `schedules` say which device runs which `passes` and
when, which `validation` checks; `order` adds the messages, and `filling` moves weight gradients; `placement` says what
is where; `emission` writes it down, which `prepared` puts together. `step` does all that. `played` reads the order off
such a program again, and `torch_csv` reads and writes orders as PyTorch does.
"""

from distir.transform.pipeline.batch import count_of
from distir.transform.pipeline.schedules import SCHEDULES, Schedule
from distir.transform.pipeline.stages import layer_count
from distir.transform.pipeline.step import (
    SUMS,
    Steady,
    accumulate,
    per_device,
    pipeline_of,
    pp,
    schedule_count,
    stage_shares,
    steady,
)
from distir.transform.pipeline.validation import ScheduleError

__all__ = [
    "SCHEDULES",
    "SUMS",
    "Schedule",
    "ScheduleError",
    "Steady",
    "accumulate",
    "count_of",
    "layer_count",
    "per_device",
    "pipeline_of",
    "pp",
    "schedule_count",
    "stage_shares",
    "steady",
]
