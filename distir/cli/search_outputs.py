"""What `distir search` is to print, write and run beside the search, from the words of its options.

Refuses what could not be done after a long search, before it begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distir.cli import searching
from distir.cli.endings import Refused
from distir.cli.files import refuse_unwritable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distir.cost.price import Price
    from distir.search import Subject

MOST_PER_CORE = 8
"""Processes for each core at most."""


def front(text: str | None) -> tuple[str, str] | None:
    """Two measures of rows. Raises Refused."""
    from distir.diagnostics import suggestion
    from distir.search.rows import MEASURES

    if text is None:
        return None
    first, comma, second = (part.strip() for part in text.partition(","))
    if first == second:
        raise Refused(f"`--pareto` expected two different measures, found `{text}`", "such as time,memory")
    for name in (first, second):
        if name not in MEASURES or not comma:
            known = f"two of {', '.join(MEASURES)}, such as time,memory"
            raise Refused(f"`--pareto` expected {known}, found `{text}`", suggestion(name, MEASURES))
    return first, second


def token_count(text: str | None) -> float | None:
    """A number such as 15T or 300B. Raises Refused."""
    if text is None:
        return None
    factors = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
    number, factor = (text[:-1], factors[text[-1].upper()]) if text[-1:].upper() in factors else (text, 1.0)
    try:
        found = float(number) * factor
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise Refused(f"`--tokens` expected a number of tokens, such as 15T or 300B, found `{text}`")
    return found


def price_of(text: str | None) -> Price | None:
    """A price such as 2.5USD/h. Raises Refused."""
    from distir.cost.units import UnitError, parse_price

    try:
        return None if text is None else parse_price(text)
    except UnitError as error:
        raise Refused(f"`--price`: {error}", "such as 2.5USD/h") from None


def check_outputs(plots: Sequence[str], export: str | None, row: int, progress: str) -> None:
    """Raises Refused, or PlotError, for what could not be written after a long search."""
    from distir.cli.configurations import written_format
    from distir.search.plot import check_suffix

    for path in plots:
        check_suffix(path)
    refuse_unwritable(*plots)
    if export is not None:
        written_format(export)
    elif row != 1:
        raise Refused(f"`--row {row}` is for `--export`, the row to write", "`--top` says how many are listed")
    if progress not in searching.PROGRESS:
        raise Refused(f"`--progress` expected {' or '.join(searching.PROGRESS)}, found `{progress}`")


def check_jobs(jobs: int, backend: str) -> None:
    """Raises Refused for more processes than this machine could serve."""
    import os

    most = MOST_PER_CORE * (os.cpu_count() or 1)
    if backend == "processes" and jobs > most:
        raise Refused(f"`--jobs` expected {most} processes at most, {MOST_PER_CORE} for each core, found {jobs}")


def check_figures(wanted: searching.Wanted, subject: Subject) -> None:
    """Raises Refused for figures that no row would have."""
    per_token = {"--tokens": wanted.tokens, "--price": wanted.price, "--power": wanted.power}
    if stated := [flag for flag, value in per_token.items() if value is not None]:
        sizes = (1, None)  # of any batch size, or that which the program fixes
        if all(subject.tokens(size) is None for size in sizes):
            raise Refused(
                f"`{stated[0]}` is for programs whose inputs are tokens, and those of `@{subject.entry.name}` are not",
                f"leave out `{stated[0]}`",
            )
    priced = any(kind.price is not None for kind in subject.hardware.kinds.distinct)
    if "cost" in (wanted.front or ()) and not priced:
        raise Refused(
            f"`--pareto`: no price of `{subject.hardware.name}` is known, to compare costs",
            "state `price` in a profile that extends it, or compare by time",
        )


def time_out(text: str, flag: str) -> float:
    """Seconds. Raises Refused."""
    from distir.cli.launch import seconds_of

    limit = seconds_of(text, flag)
    if not limit:
        raise Refused(f"`{flag}` expected more than no time, found `{text}`", "such as 10min")
    return limit
