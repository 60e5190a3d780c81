"""Pipelines: a sequential program cut into stages over several devices, its batch into microbatches, with a schedule.

In the order in which a program passes through the files; `step` runs them all:

- Analysis of the sequential program. `batch` finds the batch, `microbatches` is the domain that derives each value of a
  microbatch, `reading` classifies statements: per microbatch, before all of them, or after all of them. `written_sizes`
  and `named_sizes` compute sizes of the batch from the inputs, where they are numbers or names.
- Stages. `costs` and `holding` estimate time and memory of statements, `balance` cuts a sequence of them evenly,
  `stages` cuts the program, `shares` reports what each stage has. `chunks` cuts sequences, for Seq1F1B.
- Passes as functions. `splitting` halves backward passes (input and weight gradients), `packing` packs values into
  tuples, `outlining` makes functions, `accumulation` adds gradients to their sums.
- The order of passes. `passes` defines passes and orders, `schedules` has the schedules (`best` searches for one),
  `validation` checks an order, `order` adds messages and lists together what devices do at a time, `filling` moves
  weight gradients into idle time, `repetition` finds the steady state; `prepared` combines these.
- The program. `placement` assigns values to devices, `frames` writes passes, messages, and the steady state as calls of
  a function `round`, `emission` writes the module, `alike` makes one function of passes that do the same.

`recovered` recovers the order of passes from such a program; `torch_csv` reads and writes orders in PyTorch's format.
"""

from distir.transform.pipeline.batch import count_of
from distir.transform.pipeline.schedules import SCHEDULES, Schedule
from distir.transform.pipeline.stages import layer_count
from distir.transform.pipeline.step import (
    OPTION_WORDS,
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
    "OPTION_WORDS",
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
