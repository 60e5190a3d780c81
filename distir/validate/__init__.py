"""How true the simulator is: measured training runs, predicted from what their rows say.

A run becomes the program that its framework would run, on the machine that it names. Names are imported when they are
first asked for.
"""

from typing import TYPE_CHECKING

from distir.ir.late import late_names

if TYPE_CHECKING:
    from distir.validate.causes import Cause, cause
    from distir.validate.figures import GroupFigures, Outcome, summaries
    from distir.validate.frameworks import FRAMEWORKS, Framework, framework
    from distir.validate.plans import plan_of
    from distir.validate.predictions import Prediction, predict, predict_all
    from distir.validate.runs import MeasuredRun, RunsError, UnsupportedError, read_runs

_HOMES = {
    "distir.validate.causes": ("Cause", "cause"),
    "distir.validate.figures": ("Outcome", "GroupFigures", "summaries"),
    "distir.validate.frameworks": ("FRAMEWORKS", "Framework", "framework"),
    "distir.validate.plans": ("plan_of",),
    "distir.validate.predictions": ("Prediction", "predict", "predict_all"),
    "distir.validate.runs": ("MeasuredRun", "RunsError", "UnsupportedError", "read_runs"),
}
__getattr__ = late_names(__name__, {name: home for home, names in _HOMES.items() for name in names})

__all__ = [
    "FRAMEWORKS",
    "Cause",
    "Framework",
    "GroupFigures",
    "MeasuredRun",
    "Outcome",
    "Prediction",
    "RunsError",
    "UnsupportedError",
    "cause",
    "framework",
    "plan_of",
    "predict",
    "predict_all",
    "read_runs",
    "summaries",
]
