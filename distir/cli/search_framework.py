"""`distir search --framework`: which strategies a framework runs, and what is refused beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from distir.cli.configurations import written_format
from distir.cli.endings import Refused
from distir.cli.search_space import QUESTIONS, Tries
from distir.transform.strategy import DEGREES, FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distir.configurations.searched import Lacking, RunBy
    from distir.search import Space, Subject

LISTED = 6
"""So many values that a framework has are listed at most."""


def check_framework(name: str, model: str, given: Mapping[str, Any]) -> None:
    """Raises Refused for a framework that is not known, or of which something else is asked. `given`: by option."""
    from distir.configurations.models import published_decoder

    written_format(name, "framework")
    if published_decoder(model) is None:
        hint = "name one: `distir model --list` has them"
        raise Refused(f"`--framework` is for decoders by their names, and `{model}` is none", hint)
    for flag, value in given.items():
        if value:
            raise Refused(f"`--framework` excludes `{flag}`", WHY[flag])


WHY = {
    "--batch-size": "a framework trains: `--global-batch` says the batch of a step",
    "--apply": "the framework says what a training step is",
    "--no-sustained": "runs of frameworks last, with devices at the limit of their power",
    "--explain": "what binds a row is known of ideal programs alone",
    "--prove": "what is proved are the steps of `distir transform`",
    "--measure": "what is measured are the steps of `distir transform`",
    "--method bounded": "bounds are of ideal programs: `--method grid` tries all, `anneal` the best",
}
"""By option that a framework excludes: why, and what would do."""


def check_scaling(name: str, scaling: str) -> None:
    """Raises Refused for 8-bit products that are scaled otherwise than the framework scales them."""
    from distir.configurations.formats import FORMATS
    from distir.validate.frameworks import FRAMEWORKS

    own = FRAMEWORKS[FORMATS[name].framework].fp8
    if scaling not in (own, "mx"):
        raise Refused(f"`--fp8 {scaling}`: {name} scales 8-bit products otherwise", f"`--fp8 {own}`, or `--fp8 mx`")


def run_by(name: str, tries: Tries, space: Space, subject: Subject, limited: bool) -> tuple[RunBy, Space, list[str]]:
    """A framework, what of a space it runs, and what it lacks, in words. Raises Refused where that is asked for."""
    from distir.configurations.answers import gpu_of_machine
    from distir.configurations.formats import FORMATS
    from distir.configurations.searched import RunBy
    from distir.cost import HardwareError
    from distir.validate.frameworks import FRAMEWORKS

    try:
        gpu_of_machine(subject.hardware.name)
    except HardwareError as error:
        raise Refused(f"`--framework`: {error}", "`distir hardware` lists the profiles") from None
    chosen = RunBy(name, subject.hardware.capacity(0) if limited else None)
    if lost := chosen.of_model(subject):
        raise Refused(
            f"`--framework`: {name} does not run this model: {'; '.join(lost)}", "another model, or framework"
        )
    if "skew" not in tries.asked:
        space = replace(space, skew=FRAMEWORKS[FORMATS[name].framework].skew)
    asked = {*tries.asked, *(["recompute"] if "checkpoint" in tries.asked else [])}
    asked |= {name for name in DEGREES if FIELDS[name].column in tries.fixed}
    space, lacking = chosen.narrowed(space, subject, asked)
    flags = {field: question.flag for field, question in QUESTIONS.values()}
    for field, found in lacking.items():
        if field in asked or found.all:
            raise Refused(f"`--{flags.get(field, 'checkpoint')}`: {name} has no {_said(field, found)}", _has(found))
    return chosen, space, [_said(field, found) for field, found in lacking.items()]


def _said(field: str, found: Lacking) -> str:
    from distir.configurations.carried import listed

    return f"{FIELDS[field].column} {listed(found.lacks)}"


def _has(found: Lacking) -> str:
    from distir.configurations.carried import listed

    more = f" and {len(found.has) - LISTED} more" if len(found.has) > LISTED else ""
    return f"it has {listed(found.has[:LISTED])}{more}"
