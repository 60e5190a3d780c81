"""How true the simulator is: predicts all runs of this folder, and writes `docs/explanation/truth.md`.

python examples/measured/report.py [FILE.csv…]

Predictions are kept in `docs/explanation/truth/predictions.csv`; runs that are there are not predicted again, unless
`--anew` is given.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from distir.validate.figures import Errors, GroupFigures, Outcome, summaries
from distir.validate.frameworks import FRAMEWORKS
from distir.validate.log import PredictionsLog
from distir.validate.plot import plot
from distir.validate.predictions import predict_all
from distir.validate.runs import MeasuredRun, read_runs

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "explanation" / "truth.md"
PREDICTIONS = PAGE.parent / "truth" / "predictions.csv"
PICTURE = PAGE.parent / "truth" / "errors.svg"

HEAD = """# How true the simulator is

Published measurements of training runs, and what DistIR predicts of them from what their rows say: the model, the GPUs,
the degrees of parallelism, the framework. `make truth` writes this page; [the
files](../../examples/measured/README.md) name their sources, and `distir validate` does the same with runs of yours.
Costs come from tables of measured ops and from data sheets. Sources differ by 2 to 4 % between releases of the same
configuration, so that an error below 3 % means nothing.

Errors are of step times, predicted over measured less 1: the mean of their sizes (MAPE), the median, the 9th decile,
and the mean with signs (bias). ρ is Spearman's, of all step times, and within groups of the same work on equally many
GPUs. Regret is how much longer the layout takes that predictions choose than the best one measured.
"""

CAUSES = """## What does not fit, and why

- **LLaMA 13B with FlashAttention 2 and two stages.** Measured steps grow with the micro batch as if a pipeline of two
  stages had a bubble of five to seven microbatches; with the other kernels of the same table the bubble is that of
  1F1B. No cause in the source explains it, and we predict 1F1B.
- **MPT-13B on 8 GPUs** is measured a sixth slower than predicted, and than the same model on 16. The micro batch of
  that row suggests that it ran at the limit of memory, with Float32 master weights; the source says it had none.
- **Kernels that are not fused** (LLaMA 13B, `unfused`, `fused`): steps take 9 to 24 % longer than predicted, and runs
  need more memory. A likely cause, not verified, is Float32 copies of the scores, which our written-out attention
  has not. With micro batches of 8 all such runs ended out of memory, with a half of it taken as we count.
- **Memory of Megatron's tests with a fused cross entropy** (megatron_golden:342 to 344) is a third more than predicted:
  no column says so. That of context parallelism with a tied embedding is too high, since logits of the whole sequence
  are computed on each device.
- **torchtitan** reserves more than tensors take, by 14 % in the mean of rows 1 to 7, which its definition states. Its
  GPUs have 500 W; by how much that slows products is estimated.
- **Megatron's small models wait for the host.** What an op of a fused program takes there is 42 µs, a figure that is
  fitted to three rows. It includes several launches, and dropout, which the programs of runs do not have.
- **8-bit floats in pipelines, and with context parallelism**, and experts that are spread over tensor or context
  parallel ranks, cannot be expressed. The rows are listed below.
"""


def main(words: Sequence[str]) -> None:
    """Predict, and write the page."""
    files = [Path(word) for word in words if not word.startswith("-")] or sorted(HERE.glob("*.csv"))
    runs = [run for file in files for run in read_runs(str(file))]
    PREDICTIONS.parent.mkdir(exist_ok=True)
    with PredictionsLog(str(PREDICTIONS)) as log:
        known = {} if "--anew" in words else {p.id: p for p in log.known()}
        log.write(known.values())
        for prediction in predict_all([run for run in runs if run.id not in known]):
            known[prediction.id] = prediction
            log.add(prediction)
        log.write(known[run.id] for run in runs)
    outcomes = [Outcome(run, known[run.id]) for run in runs]
    plot(outcomes, str(PICTURE))
    PAGE.write_text(page(outcomes), encoding="utf-8")


def page(outcomes: Sequence[Outcome], later: Sequence[MeasuredRun] = ()) -> str:
    """The text of the page. `later`: runs that are not predicted yet."""
    groups = summaries(outcomes)
    parts = [HEAD, "## Errors\n", *_table(groups), "", "![Predicted over measured step times](truth/errors.svg)", ""]
    parts += ["## Memory\n", *_memory(groups), "", CAUSES, *_frameworks({o.run.framework for o in outcomes}), ""]
    parts += _left_out(outcomes)
    if later:
        listed = ", ".join(run.id for run in later)
        parts += ["## Runs that are not predicted yet", "", f"`make truth` continues with them: {listed}.", ""]
    return "\n".join(parts)


def _table(groups: Sequence[GroupFigures]) -> list[str]:
    lines = ["| file/framework | runs | MAPE | median | p90 | bias | ρ | ρ within | regret |", "|---|" + "---:|" * 8]
    for g in groups:
        cells = [g.name, f"{g.expressed} of {g.runs}", *_errors(g.time), _number(g.rank), _number(g.rank_within)]
        cells.append("" if g.regret is None else f"{100 * g.regret:.1f} %")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _memory(groups: Sequence[GroupFigures]) -> list[str]:
    text = "Whether a run fits, and its peak: `missed` ran out of memory and was predicted to fit.\n"
    lines = [text, "| file/framework | fits: right | missed | false alarms | peak: MAPE | median | p90 | bias |"]
    lines.append("|---|" + "---:|" * 7)
    for g in groups:
        if g.memory.n:
            counts = [f"{g.memory.right} of {g.memory.n}", str(g.memory.missed), str(g.memory.false_alarms)]
            lines.append(f"| {' | '.join([g.name, *counts, *_errors(g.memory_error)])} |")
    return lines


def _frameworks(names: set[str]) -> list[str]:
    lines = ["## What frameworks are taken to do", ""]
    for name in sorted(names):
        found = FRAMEWORKS[name]
        lines += [f"`{name}`: {found.title}.", "", *(f"- {source}" for source in found.sources), ""]
    return lines


def _left_out(outcomes: Sequence[Outcome]) -> list[str]:
    reasons: dict[str, list[MeasuredRun]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.predicted.step_time_s is None:
            reasons[outcome.predicted.note].append(outcome.run)
    lines = ["## Runs that cannot be expressed", ""]
    for reason, runs in sorted(reasons.items(), key=lambda item: -len(item[1])):
        files: dict[str, list[str]] = defaultdict(list)
        for run in runs:
            files[run.source].append(run.id.partition(":")[2])
        listed = "; ".join(f"{file}: {', '.join(ids)}" for file, ids in files.items())
        lines.append(f"- {reason} ({listed})")
    return [*lines, ""]


def _errors(of: Errors | None) -> list[str]:
    if of is None:
        return [""] * 4
    return [*(f"{100 * x:.1f} %" for x in (of.mean, of.median, of.p90)), f"{100 * of.bias:+.1f} %"]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    main(sys.argv[1:])
