"""`distir validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import options, output
from distir.cli.counting import Counting
from distir.cli.endings import REFUSED, Refused
from distir.cli.files import refuse_unwritable
from distir.files.reading import why_not

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from distir.validate.explaining import Explanation
    from distir.validate.figures import GroupFigures, Outcome
    from distir.validate.predictions import Prediction
    from distir.validate.runs import MeasuredRun


def validate(
    runs: Annotated[list[str], typer.Argument(metavar="RUNS.csv…", help="Files of measured runs.")],
    csv: Annotated[
        str | None, typer.Option(metavar="OUT.csv", help="Write each prediction here; a second call continues.")
    ] = None,
    plot: Annotated[
        list[str] | None, typer.Option(metavar="OUT", help="Plot predicted over measured times: .png, .svg or .pdf.")
    ] = None,
    html: Annotated[str | None, typer.Option(metavar="OUT.html", help="Write a page of the same.")] = None,
    nodes: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only runs on this many nodes.")] = None,
    explain: Annotated[
        str | None, typer.Option(metavar="ID", help="What a run's time is made of: what-ifs, the largest first.")
    ] = None,
    hardware: Annotated[
        str | None, typer.Option(metavar="PROFILE", help="A node of all runs' machines. [default: that of their GPU]")
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=0, help="The number of processes; 0: one per core.")] = 0,
    as_json: options.AsJson = False,
) -> int:
    """Predict measured training runs, and say how far off that is.

    A row is a run: a model, GPUs, degrees of parallelism, a framework, and the step time and memory that were measured.
    It becomes the program that this framework would run, which is simulated on the machine that the row names. Columns
    are those of the files in `examples/measured`. Rows that cannot be expressed, or fail, are listed with the reason.
    Runs of which only the peak of memory is known are compared, and those that are only known to fit, or not to.

    For example:

        distir validate examples/measured/dgxc.csv

        distir validate runs.csv --csv predicted.csv --plot errors.png
    """
    from distir.validate.figures import Outcome, summaries
    from distir.validate.log import PredictionsError
    from distir.validate.plot import PictureError
    from distir.validate.runs import RunsError

    try:
        _check_outputs(explain, csv, plot or (), html)
        found = read_all(runs, nodes, hardware)
        if explain is not None:
            return _explained(found, explain, as_json)
        known = _predicted(found, csv, jobs)
    except (RunsError, PredictionsError, PictureError) as error:
        message, _, hint = str(error).partition("; ")
        raise Refused(message, hint or None) from None
    outcomes = [Outcome(run, known[run.id]) for run in found]
    groups = summaries(outcomes)
    if as_json:
        output.write_json(_document(outcomes, groups))
    else:
        _show(outcomes, groups)
    _pictures(outcomes, groups, plot or (), html)
    return 0 if any(outcome.predicted.step_time_s is not None for outcome in outcomes) else REFUSED


def _check_outputs(explain: str | None, csv: str | None, plots: Sequence[str], html: str | None) -> None:
    """Before hours of simulation: raises Refused and PictureError for what could not be written after them."""
    if explain is not None:
        given = {"--csv": csv, "--plot": plots, "--html": html}
        for option in (option for option, value in given.items() if value):
            raise Refused(f"`--explain` is of one run, and `{option}` of all", "give one of them")
    if plots or html is not None:
        from distir.validate.plot import check_pictures

        check_pictures(plots)
        refuse_unwritable(*plots, *([] if html is None else [html]))


def read_all(paths: Sequence[str], nodes: int | None = None, hardware: str | None = None) -> list[MeasuredRun]:
    """The runs of all files. `hardware`: the profile of a node of their machines, in the place of what rows say.

    Raises RunsError; HardwareError; Refused for a file that cannot be read, and for no runs.
    """
    from dataclasses import replace

    from distir.cost import load
    from distir.validate.frameworks import framework_names
    from distir.validate.machines import GPUS
    from distir.validate.runs import RunsError, read_runs

    known = {"framework": framework_names()} | ({"gpu": {name: name for name in GPUS}} if hardware is None else {})
    found: dict[str, MeasuredRun] = {}
    for path in paths:
        try:
            some = read_runs(path, known, lambda message: output.complain("warning", message))
        except OSError as error:
            raise Refused(f"cannot read `{path}`: {why_not(error)}") from None
        for run in some:
            if run.id in found:
                raise RunsError(f"{path}: `{run.id}` is in another file, too")
            found[run.id] = run
    _warn_of_unknown(run.framework for run in found.values() if not run.fault)
    chosen = [run for run in found.values() if nodes is None or -(-run.gpus // (run.gpus_per_node or 8)) == nodes]
    if not chosen:
        raise Refused(f"no run is on {nodes} node{'' if nodes == 1 else 's'}")
    if hardware is None:
        return chosen
    load(hardware)
    return [replace(run, hardware=hardware) for run in chosen]


def _warn_of_unknown(frameworks: Iterable[str]) -> None:
    """Say of frameworks without a definition what their runs are predicted as."""
    from distir.validate.frameworks import FRAMEWORKS, GENERIC

    for name in dict.fromkeys(frameworks):
        if name not in FRAMEWORKS:
            low, high = GENERIC.band
            said = f"8 of 10 runs of known frameworks take {low:g} to {high:g} times as long as these predictions"
            output.complain(
                "warning", f"the framework `{name}` is not known: its runs are predicted as `generic`; {said}"
            )


def _explained(runs: Sequence[MeasuredRun], name: str, as_json: bool) -> int:
    """The what-ifs of a run. Raises Refused for an unknown run, or one that cannot be predicted."""
    from dataclasses import asdict

    from rich.text import Text

    from distir.cost import show_seconds
    from distir.diagnostics import suggestion
    from distir.validate.explaining import TAKEN_AWAY, explain
    from distir.validate.predictions import reason

    run = next((run for run in runs if run.id == name), None)
    if run is None:
        raise Refused(f"there is no run `{name}`", suggestion(name, [run.id for run in runs]))
    try:
        found = explain(run)
    except Exception as error:  # as in a table of runs
        raise Refused(f"`{name}` cannot be predicted: {reason(error)}") from None
    if as_json:
        causes = [asdict(cause) for cause in found.causes]
        output.write_json({
            "id": name, "measured_s": run.step_time_s, "predicted_s": found.predicted, "causes": causes,
            "one_by_one": found.one_by_one, "together": found.together.change,
        })  # fmt: skip
        return 0
    measured = run.step_time_s
    made = output.table("what if", "", "step", "change", *(["error"] if measured else []), right="234")
    for cause in found.causes:
        if cause.seconds is not None and cause.change is not None:
            change = _change(cause.change, found)
            error = [_off(cause.seconds, measured)] if measured else []
            made.add_row(cause.name, cause.assumed, show_seconds(cause.seconds), change, *error)
    head = f"{name}: predicted {show_seconds(found.predicted)}"
    if measured:
        head += f", measured {show_seconds(measured)} ({_off(found.predicted, measured)})"
    lines = [f"\nall of {', '.join(TAKEN_AWAY)}: {_change(found.one_by_one, found)} one by one"]
    if found.together.change is not None:
        lines += [f", {_change(found.together.change, found)} all at once"]
    lines += ["; what-ifs overlap, and do not add up"]
    lines += [f"\n`{what_if.name}` cannot be simulated: {what_if.reason}" for what_if in found.left_out]
    output.lay_out(Text(head + "\n"), made, Text("".join(lines)))
    return 0


def _change(seconds: float, of: Explanation) -> str:
    return f"{100 * seconds / of.predicted:+.1f} %"


def _off(predicted: float, measured: float) -> str:
    return f"{100 * (predicted / measured - 1):+.1f} %"


def _predicted(runs: Sequence[MeasuredRun], csv: str | None, jobs: int) -> dict[str, Prediction]:
    """The predictions by run, those of an earlier call first. Raises PredictionsError."""
    from contextlib import nullcontext

    from distir.files.locking import InUseError
    from distir.validate.log import PredictionsLog
    from distir.validate.predictions import predict_all

    try:
        with PredictionsLog(csv, runs) if csv is not None else nullcontext() as log:
            known: dict[str, Prediction] = {}
            if log is not None:
                resumed = log.resume()
                known.update(resumed.known)
                _tell_outdated(csv, len(resumed.outdated))
            left = [run for run in runs if run.id not in known]
            with Counting("predicting", len(runs), len(known)) as counting:
                for prediction in predict_all(left, jobs):
                    known[prediction.id] = prediction
                    if log is not None:
                        log.add(prediction)
                    counting.advance()
    except InUseError as error:
        raise Refused(str(error)) from None
    except OSError as error:
        raise Refused(f"cannot write `{csv}`: {why_not(error)}") from None
    return known


def _tell_outdated(csv: str | None, count: int) -> None:
    """Say which predictions of an earlier call are of something else."""
    if count:
        of = f"{count} prediction{'s' * (count != 1)} in `{csv}`"
        output.tell(f"{of} of other code, figures or rows: predicted anew")


def _pictures(
    outcomes: Sequence[Outcome], groups: Sequence[GroupFigures], plots: Sequence[str], html: str | None
) -> None:
    from distir.validate.plot import PictureError, page, plot

    try:
        for path in plots:
            plot(outcomes, path)
        if html is not None:
            page(outcomes, groups, html)
    except PictureError as error:
        message, _, hint = str(error).partition("; ")
        raise Refused(message, hint or None) from None
    except OSError as error:
        raise Refused(f"cannot write `{error.filename or 'the picture'}`: {why_not(error)}") from None


def _show(outcomes: Sequence[Outcome], groups: Sequence[GroupFigures]) -> None:
    from rich.text import Text

    from distir.validate.figures import GROUP_COLUMNS, group_cells

    made = output.table(*GROUP_COLUMNS, right="".join(map(str, range(1, 10))))
    for group in groups:
        made.add_row(*group_cells(group))
    reasons: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.predicted.step_time_s is None:
            reasons.setdefault(outcome.predicted.note, []).append(outcome.run.id)
    left_out = [Text(f"\n{reason}: {', '.join(ids)}") for reason, ids in reasons.items()]
    count = sum(map(len, reasons.values()))
    heading = [Text(f"\n{count} run{'' if count == 1 else 's'} cannot be expressed")] if reasons else []
    output.lay_out(made, *heading, *left_out)


def _document(outcomes: Sequence[Outcome], groups: Sequence[GroupFigures]) -> dict[str, Any]:
    """All of it as JSON; errors are shares."""
    from dataclasses import asdict

    return {
        "groups": [asdict(group) for group in groups],
        "runs": [
            {
                **asdict(outcome.predicted),
                "status": outcome.run.status,
                "measured_step_time_s": outcome.run.step_time_s,
                "measured_peak_memory_bytes": outcome.run.peak_memory_bytes,
                "time_error": outcome.time_error,
                "memory_error": outcome.memory_error,
            }
            for outcome in outcomes
        ],
    }
