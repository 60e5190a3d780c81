"""The output of `distir simulate --spread`: the distribution of step times if devices and links are randomly slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distir.cli.endings import Refused, judged
from distir.cli.output import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distir.analysis.program import Program
    from distir.simulate import Simulation
    from distir.simulate.spread.steps import Spread

QUANTILES = (0.5, 0.9, 0.99)
"""Those that are shown."""


def drawn(
    program: Program, simulation: Simulation, lateness: Sequence[str] | None, draws: int | None, seed: int | None
) -> Spread | None:
    """The draws that are asked for; None where none are. Raises Refused, and Wrong for a program of representatives."""
    if not lateness:
        if draws is not None or seed is not None:
            raise Refused(f"`{'--seed' if draws is None else '--draws'}` needs `--spread`, what is late by chance")
        return None
    from distir.simulate.spread.lateness import DRAWS, SpreadError
    from distir.simulate.spread.steps import spread

    try:
        with judged(program):
            return spread(simulation, lateness, DRAWS if draws is None else draws, seed or 0)
    except SpreadError as error:
        raise Refused(f"`--spread`: {error.message}", error.help) from None


def as_document(found: Spread, top: int) -> dict[str, Any]:
    """The draws as JSON, in seconds."""
    return {
        "lateness": [str(one) for one in found.lateness],
        "draws": found.draws,
        "seed": found.seed,
        "plain_s": found.plain_s,
        "mean_s": found.mean_s,
        **{f"p{100 * share:g}_s": found.quantile(share) for share in QUANTILES},
        "costs": [{"source": c.source, "alone_s": c.alone_s, "drawn_s": c.drawn_s} for c in found.costs[:top]],
    }


def as_text(found: Spread, top: int) -> list[Any]:
    """The draws for people."""
    from rich.text import Text

    from distir.cost import show_seconds

    def over(seconds: float) -> str:
        return f"{100 * seconds / found.plain_s:+.1f}%" if found.plain_s else ""

    said = f"{found.draws:,} draws with {', '.join(map(str, found.lateness))} (seed {found.seed})"
    steps = table("step", "time", "over plain", right="12")
    steps.add_row("plain", show_seconds(found.plain_s), "")
    steps.add_row("mean", show_seconds(found.mean_s), over(found.mean_s - found.plain_s))
    for share in QUANTILES:
        seconds = found.quantile(share)
        steps.add_row(f"p{100 * share:g}", show_seconds(seconds), over(seconds - found.plain_s))
    costs = table("late", "alone by 10%", "in the draws", right="12")
    for cost in found.costs[:top]:
        mean = "" if cost.drawn_s is None else f"{show_seconds(cost.drawn_s)} ({over(cost.drawn_s)})"
        costs.add_row(Text(cost.source), f"{show_seconds(cost.alone_s)} ({over(cost.alone_s)})", mean)
    parts: list[Any] = ["", Text("late devices and links", style="bold underline"), Text(said), steps]
    if costs.row_count:
        parts += ["", Text("whose lateness costs what", style="bold underline"), costs]
    return parts
