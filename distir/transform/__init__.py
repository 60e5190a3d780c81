"""Transforms: functions Module -> Module, composable, that refuse with a diagnostic what they cannot do.

A step is a transform registered by name (`steps`); `all_steps` says where each is, `transform` applies some in turn.
Read in the order in which a program passes through them:

- One device. `training` derives the training step of a forward program, by `gradient` (reverse mode, with `residuals`);
  before it, `float8`, `seeding`, `unfusing` and `batch_statistics` rewrite ops; after it, `checkpoint` recomputes
  activations.
- Distribution. `pipeline` cuts a program into stages and microbatches; `sharding` partitions it over a mesh axis (steps
  `dp`, `tp`, `cp`, `ep`); `dtp` combines both; `zero` partitions the state that replicas share; with weights in parts
  `quantise_at_use` makes their copies in 8 bits where these are gathered.
- All of this as one value: `strategy` has the record of how a program is distributed and run, and applies it.
- Schedule and kernels. `overlap` moves communication onto streams, `rescheduling` reorders statements, `fusion` forms
  kernels.
- Clean-up. `inline`, `outline`, `fold`, `dead_code`, `common_subexpressions`.

`verification` compares results with those of the original program, `comparison` the costs of two programs.

Names are imported on first use: programs that only check need not load the transforms.
"""

from typing import TYPE_CHECKING

from distir.ir.late import late_names

if TYPE_CHECKING:
    from distir.transform.all_steps import STEPS, parse_steps, transform
    from distir.transform.comparison import Difference, Side, difference
    from distir.transform.pipeline.passes import Pass, Task
    from distir.transform.pipeline.schedules import schedule
    from distir.transform.pipeline.shares import StageShares
    from distir.transform.pipeline.step import stage_shares
    from distir.transform.sharding.shares import Shares
    from distir.transform.sharding.steps import tensor_shares
    from distir.transform.steps import Application, Option, Step, StepError, always, doubling, listening, step
    from distir.transform.strategy import Strategy
    from distir.transform.strategy.steps import apply, strategy_of, words_of
    from distir.transform.verification import Compared, Verification, VerifyError, reference, verify

_HOMES = {
    "distir.transform.all_steps": ("STEPS", "parse_steps", "transform"),
    "distir.transform.comparison": ("Difference", "Side", "difference"),
    "distir.transform.pipeline.passes": ("Pass", "Task"),
    "distir.transform.pipeline.schedules": ("schedule",),
    "distir.transform.pipeline.shares": ("StageShares",),
    "distir.transform.pipeline.step": ("stage_shares",),
    "distir.transform.sharding.shares": ("Shares",),
    "distir.transform.sharding.steps": ("tensor_shares",),
    "distir.transform.steps": (
        "Application",
        "Option",
        "Step",
        "StepError",
        "always",
        "doubling",
        "listening",
        "step",
    ),
    "distir.transform.strategy": ("Strategy",),
    "distir.transform.strategy.steps": ("apply", "strategy_of", "words_of"),
    "distir.transform.verification": ("Compared", "Verification", "VerifyError", "reference", "verify"),
}
__getattr__ = late_names(__name__, {name: home for home, names in _HOMES.items() for name in names})

__all__ = [
    "STEPS",
    "Application",
    "Compared",
    "Difference",
    "Option",
    "Pass",
    "Shares",
    "Side",
    "StageShares",
    "Step",
    "StepError",
    "Strategy",
    "Task",
    "Verification",
    "VerifyError",
    "always",
    "apply",
    "difference",
    "doubling",
    "listening",
    "parse_steps",
    "reference",
    "schedule",
    "stage_shares",
    "step",
    "strategy_of",
    "tensor_shares",
    "transform",
    "verify",
    "words_of",
]
