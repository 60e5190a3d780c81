"""The output of `distir search`: progress, and results as text or JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from distir.cli import output
from distir.cli.counting import Counting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from distir.cost.price import Price
    from distir.search import Row, Search, Table
    from distir.search.bounded import Certificate
    from distir.search.economy import Economy
    from distir.search.proving import ProofOfRow
    from distir.search.rows import Binding
    from distir.transform.strategy import Strategy


WORTH_SAYING = 0.05
"""A share of the time that is said of each row."""

REASONS = 3
"""So many reasons for infeasible rows are said."""


class ProgressBar:
    """A progress bar with the best so far, for a person at a terminal; else nothing."""

    def __init__(self, model: str, total: int, known: list[Row]) -> None:
        self.model, self.total, self.known = model, total, known
        self.best = max((r for r in known if r.fits), key=lambda r: r.throughput or 0.0, default=None)
        self.bar: Counting | None = None

    def __enter__(self) -> Callable[[Row], None]:
        self.bar = Counting(self._described(), self.total, len(self.known), lines=False).__enter__()
        return self._tick

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.__exit__(*error)

    def _tick(self, row: Row) -> None:
        if row.fits and (self.best is None or (row.throughput or 0.0) > (self.best.throughput or 0.0)):
            self.best = row
        if self.bar is not None:
            self.bar.advance(self._described())

    def _described(self) -> str:
        from rich.markup import escape

        from distir.diagnostics.visible import visible
        from distir.search.rows import show_rate

        best = f", best {self.best.plan}: {show_rate(self.best.throughput)}" if self.best else ""
        return escape(visible(f"searching {self.model}{best}"))


class ProgressLines(ProgressBar):
    """A line of JSON on standard error for each configuration, for programs that show progress themselves.

    `done`: the number of rows, including earlier ones; `of`: the size of the grid, of which `bounded` may skip some and
    which `anneal` exceeds; `best`: the plan with the highest throughput (examples/s) so far, or null.
    """

    def __enter__(self) -> Callable[[Row], None]:
        self.done = len(self.known)
        self._say()
        return self._tick

    def _tick(self, row: Row) -> None:
        super()._tick(row)
        self.done += 1
        self._say()

    def _say(self) -> None:
        import json
        import sys

        best = {"plan": str(self.best.plan), "throughput": self.best.throughput} if self.best else None
        print(json.dumps({"done": self.done, "of": self.total, "best": best}), file=sys.stderr, flush=True)


PROGRESS: dict[str, type[ProgressBar]] = {"text": ProgressBar, "json": ProgressLines}


def interrupted(rows: list[Row], total: int, csv: str | None) -> str:
    """The message for an interrupted search."""
    from distir.search.rows import show_rate
    from distir.search.table import Table

    text = f"interrupted: tried {len(rows)} of {total} configurations"
    best = Table(tuple(rows)).best
    text += f", the best is {best.plan}, {show_rate(best.throughput)}" if best else ""
    return text + (f"; `--csv {csv} --resume` continues from there" if csv is not None and rows else "")


class Wanted(NamedTuple):
    """The output requested: a number of rows, or a Pareto front; figures for a budget of tokens, at a price.

    `power`: watts of a device. `explain`: what binds the best row, and what would change it. `training`: tokens per
    second and MFU are columns. `proofs`: of the rows that are listed, if they were asked for.
    """

    top: int
    front: tuple[str, str] | None = None
    tokens: float | None = None
    price: Price | None = None
    power: float | None = None
    explain: bool = False
    training: bool = False
    proofs: tuple[ProofOfRow, ...] | None = None

    def rows(self, table: Table) -> list[Row]:
        """The rows of the front, else all that fit, the fastest first."""
        return table.ranked if self.front is None else table.pareto(*self.front)


def document(table: Table, chosen: Search, wanted: Wanted) -> dict[str, Any]:
    """The table as JSON: what was searched, and the rows that are chosen, times in seconds and memory in bytes."""
    from distir.search.distributed import words_for
    from distir.search.rows import rank_correlation

    def row(one: Row) -> dict[str, Any]:
        return one.columns | {
            "micro_batch": one.micro_batch,
            "steps": words_for(chosen.subject, one.plan, one.batch_size),
            **_figures(one, chosen, wanted),
            **({"bound_by": asdict(found)} if (found := bound.get(one.key)) is not None else {}),
            **_proved(one, wanted),
        }

    rows = wanted.rows(table)
    best = table.best
    bound = _bound(rows, chosen, wanted)
    least = chosen.least_memory(table.rows) if best is None else None
    return {
        "model": chosen.subject.model,
        "hardware": chosen.subject.hardware.name,
        "devices": chosen.space.devices,
        "framework": None if chosen.framework is None else chosen.framework.name,
        "configurations": len(table),
        "best": None if best is None else row(best),
        "alike": _alike(table.ranked, chosen),
        "rank_correlation": rank_correlation(rows),
        "rows": [row(one) for one in rows],
        "left_out": [row(one) for one in table if not one.fits],
        "skipped": dict(chosen.refused),
        "notes": chosen.notes,
        **({} if best is not None or least is None else {"least_memory": asdict(least)}),
        "certificates": [asdict(found) | {"proven": found.proven} for found in _certificates(chosen, table)],
        **({"explained": list(_explained(table, chosen, bound))} if wanted.explain else {}),
    }


def _figures(row: Row, chosen: Search, wanted: Wanted) -> dict[str, Any]:
    """Of a row: tokens per second, MFU, and what is asked for."""
    from distir.search.economy import economy

    found = economy(chosen.subject, row, wanted.tokens, wanted.price, wanted.power)
    figures = {"tokens_per_s": found.tokens_per_s, "mfu": found.mfu}
    figures |= {"kwh_per_million_tokens": found.kwh} if wanted.power is not None else {}
    figures |= {"days": found.days} if wanted.tokens is not None else {}
    if wanted.price is not None and found.cost is not None:
        figures |= {"cost_per_million_tokens": found.cost.amount, "currency": found.cost.currency}
    return figures


def _proved(row: Row, wanted: Wanted) -> dict[str, Any]:
    """Of a row that was to be proved: whether it is, and why not; else nothing."""
    found = next((proof for proof in wanted.proofs or () if proof.row is row), None)
    return {} if found is None else {"proved": found.reason is None, "not_proved": found.reason}


def _said_of_proofs(wanted: Wanted) -> Iterator[str]:
    """The proofs of the rows listed, and why others failed."""
    if not wanted.proofs:
        return
    proved = [proof for proof in wanted.proofs if proof.reason is None]
    for proof in wanted.proofs:
        if proof.reason is not None:
            yield f"{proof.row.plan} not proved: {proof.reason}"
    if proved:
        laws = "; ".join(dict.fromkeys(law for proof in proved for law in proof.laws))
        up_to = f", up to rounding, as these laws of real numbers were used: {laws}" if laws else ""
        yield f"{len(proved)} proved, for all values, at these sizes{up_to}"


def _certificates(chosen: Search, table: Table) -> list[Certificate]:
    return chosen.certificates(table.rows) if chosen.is_bounded else []


def _bound(rows: Sequence[Row], chosen: Search, wanted: Wanted) -> dict[Any, Binding | None]:
    """The binding resource of each row listed, if requested."""
    from distir.search.binding import bindings

    return bindings(chosen.subject, rows[: wanted.top], chosen.settled) if wanted.explain else {}


def _explained(table: Table, chosen: Search, bound: Mapping[Any, Binding | None]) -> Iterator[str]:
    """The steps of the best row, what binds it, and what would make another one the best."""
    from distir.search.binding import changes, other_machines
    from distir.search.distributed import words_for

    best = table.best
    if best is None:
        return
    of = f", of the program with a batch of {best.batch_size}" if best.plan.chunks else ""
    yield f"its steps{of}: {' '.join(words_for(chosen.subject, best.plan, best.batch_size))}"
    if (found := bound.get(best.key)) is not None:
        yield f"the best is bound by: {found}"
    others = list(changes(chosen.subject, table.rows, chosen.settled))
    yield from map(str, others)
    if not others:
        tried = ", ".join(what for what, _ in other_machines(chosen.subject.hardware))
        yield f"the best stays the best of those that were simulated: {tried}, with more memory"


def _shares(row: Row) -> str:
    """How much of FLOPs and weights each shard has, as in `51% FLOPs, 50% weights`."""
    named = {"FLOPs": row.flops_share, "weights": row.weights_share}
    return ", ".join(f"{100 * share:.3g}% {name}" for name, share in named.items() if share is not None)


def show(table: Table, chosen: Search, wanted: Wanted) -> None:
    """Print the best rows, or those of the Pareto front, as a table."""
    from rich.text import Text

    rows, front = wanted.rows(table), wanted.front is not None
    bound = _bound(rows, chosen, wanted)
    nothing = "none is feasible" if len(table) and len(table.failed) == len(table) else _none_fits(table, chosen)
    parts: list[Any] = [Text(_summary(table, chosen, wanted) + "\n")]
    parts.append(_listed(table, rows, chosen, wanted, bound) if rows else Text(nothing))
    parts += [Text(f"\n{line}") for line in (*_reasons(table, rows), *_correlation(rows), *_said_of_proofs(wanted))]
    parts += [Text(f"\n{line}") for line in _in_doubt(rows, chosen)]
    alike = 0 if front else _alike(rows, chosen)
    if alike > 1:
        apart = chosen.subject.hardware.published.apart if chosen.subject.hardware.published else 0.0
        text = f"rows 1 to {alike} cannot be distinguished: in published runs, ratios of times are off by {apart:.0%}"
        parts.append(Text("\n" + text))
    if wanted.explain and rows:
        parts.append(Text("\n" + "\n".join(_explained(table, chosen, bound))))
    output.lay_out(*parts)


def _in_doubt(rows: Sequence[Row], chosen: Search) -> Iterator[str]:
    """Which of the rows may not fit, as far as simulated memory is known to be right."""
    from distir.cost.hardware import MAY_NOT

    found = [str(number) for number, row in enumerate(rows, 1) if row.fit == MAY_NOT]
    if found:
        which = f"row{'s' * (len(found) > 1)} {', '.join(found)}" if len(found) < len(rows) else "all rows"
        yield f"{which}: {MAY_NOT}; {chosen.subject.hardware.memory_errors}"


def _none_fits(table: Table, chosen: Search) -> str:
    """How much memory would do, and for which plan."""
    from distir.cost import show_bytes

    least = None if table.best is not None else chosen.least_memory(table.rows)
    if least is None:
        return "none fits into memory"
    at = "" if least.batch_size is None else f" with a batch of {least.batch_size}"
    needs = f"{least.plan}{at} needs {show_bytes(least.nbytes)}"
    needs += " as an ideal program" if chosen.framework is not None else ""
    if least.nbytes <= chosen.subject.hardware.capacity(0):
        return f"none of those tried fits into memory: {needs}, and was not tried; a larger `--budget` tries more"
    return f"none fits into memory: {needs}" + (
        f", and none less than {show_bytes(least.bound)}" if least.bound else ""
    )


def _summary(table: Table, chosen: Search, wanted: Wanted) -> str:
    """How many configurations there are, and what became of those that are not ranked."""
    failed, over = len(table.failed), sum(not row.fits for row in table) - len(table.failed)
    machine = chosen.subject.hardware.name
    text = f"{chosen.subject.model} on {machine}, {_counted(chosen.space.devices, 'device')}: "
    text += _counted(len(table), "configuration")
    text += f", {over} need more memory than there is" if over else ""
    text += f", {failed} infeasible" if failed else ""
    text += "".join(f"\n{count:,} more {_are(count)} skipped: {why}" for why, count in chosen.refused.most_common())
    if chosen.framework is not None:
        text += f"\nas {chosen.framework.name} runs them"
    elif wanted.training:
        text += "\nideal: no framework's costs; `--framework torchtitan`, or another one, has them"
    return text + "".join(f"\n{line}" for line in (*chosen.notes, *_certified(chosen, table)))


def _listed(
    table: Table, rows: Sequence[Row], chosen: Search, wanted: Wanted, bound: Mapping[Any, Binding | None]
) -> Any:
    """The first rows, with a column for each figure that some row has."""
    from dataclasses import replace

    from distir.cost import show_bytes, show_seconds
    from distir.search.economy import economy
    from distir.search.rows import show_rate

    economies = [economy(chosen.subject, row, wanted.tokens, wanted.price, wanted.power) for row in rows[: wanted.top]]
    timed = any(row.measured_latency_s is not None for row in rows)
    priced = [row.currency for row in rows if row.currency][:1]
    figures = _figure_columns(economies, wanted)
    shared = any(row.weights_share is not None for row in rows)
    shares = any(row.plan.experts > 1 for row in table)
    columns = ["batch", "D/T/P/K", *(["EP"] if shares else []), "micro-batch", "latency", "throughput", "memory"]
    columns += [f"{currency}/step" for currency in priced]
    columns += figures
    columns += ["measured", "measured memory"] if timed else []
    columns += ["bound by"] if bound else []
    columns += ["proved"] if wanted.proofs is not None else []
    numbers = "".join(str(i) for i, name in enumerate(columns) if name not in ("D/T/P/K", "bound by", "proved"))
    made = output.table(*columns, *(["per shard"] if shared else []), right=numbers)
    for row, found in zip(rows, economies, strict=False):
        memory, latency = show_bytes(row.peak_memory_bytes or 0), show_seconds(row.latency_s or 0.0)
        batch = "" if row.batch_size is None else str(row.batch_size)
        micro_batch = "" if row.micro_batch is None else str(row.micro_batch)
        plan = [str(replace(row.plan, experts=1)), str(row.plan.experts)] if shares else [str(row.plan)]
        cells = [batch, *plan, micro_batch, latency, show_rate(row.throughput), memory]
        cells += [_amount(row.cost_per_step)] if priced else []
        cells += [_figure(found, name) for name in figures]
        if timed:
            cells.append("" if row.measured_latency_s is None else show_seconds(row.measured_latency_s))
            cells.append("" if row.measured_memory_bytes is None else show_bytes(row.measured_memory_bytes))
        if bound:
            by = bound.get(row.key)
            cells.append("" if by is None else by.shown(WORTH_SAYING))
        cells += [] if wanted.proofs is None else ["yes" if _proved(row, wanted).get("proved") else "no"]
        made.add_row(*cells, *([_shares(row)] if shared else []))
    return made


def _figure_columns(economies: Sequence[Economy], wanted: Wanted) -> list[str]:
    """The figures of training that have a column, since they are asked for or known of some row."""
    currencies = [found.cost.currency for found in economies if found.cost is not None][:1]
    known = {
        **{f"{currency}/Mtoken": True for currency in currencies},
        "tokens/s": wanted.training and any(found.tokens_per_s for found in economies),
        "MFU": wanted.training and any(found.mfu for found in economies),
        "kWh/Mtoken": any(found.kwh is not None for found in economies),
        "days": wanted.tokens is not None,
    }
    return [name for name, is_known in known.items() if is_known]


def _reasons(table: Table, rows: Sequence[Row]) -> Iterator[str]:
    """Why rows are infeasible, the first reasons, and why some could not be measured."""
    from distir.search.rows import NOT_MEASURED

    reasons: dict[str, list[Strategy]] = {}
    for row in table.failed:
        reasons.setdefault(row.reason, []).append(row.plan)
    for reason, plans in list(reasons.items())[:REASONS]:
        yield f"{len(plans)} of them, as {plans[0]}: {reason}"
    yield from (f"{row.plan}: {row.reason}" for row in rows if row.reason.startswith(NOT_MEASURED))


def _correlation(rows: Sequence[Row]) -> Iterator[str]:
    """How well simulated times order the measured ones."""
    from distir.search.rows import rank_correlation

    order = rank_correlation(rows)
    if order is not None:
        count = sum(row.measured_latency_s is not None for row in rows)
        yield f"the orders of simulated and of measured times of {count} rows correlate by {order:.2f}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _certified(chosen: Search, table: Table) -> Iterator[str]:
    """If not all configurations were simulated: what is proved about the others."""
    for found in _certificates(chosen, table):
        others = {
            "no faster, by their lower bounds": found.slower,
            "too large: weights and optimizer state alone do not fit": found.over,
            "infeasible: one stage alone is": found.refused,
            "not known": found.left,
        }
        said = ", ".join(f"{count:,} are {why}" for why, count in others.items() if count)
        if not said:
            continue
        how = "best-first"
        bests = [best for best in table.best_by_batch if best.batch_size == found.batch_size]
        if bests and chosen.continues(bests[0]):
            steps = _counted(chosen.annealing_from(bests[0]).steps, "step")
            how += f", then {steps} of annealing from the best (seed {chosen.annealing.seed})"
        simulated = f"{found.simulated} simulated"
        simulated += f" ({found.beyond} with other options or stages)" if found.beyond else ""
        text = f"exhaustive: {said}" if found.proven else f"{how}: {simulated}, {said}"
        if found.gap is not None and not found.proven:
            text += f"; none can take less than {1 - found.gap:.0%} of the best's time"
        several = len(chosen.batch_sizes) > 1 and found.batch_size is not None
        yield f"batch {found.batch_size}: {text}" if several else text


def _alike(rows: Sequence[Row], chosen: Search) -> int:
    """How many of the first rows take about as long for an example as the first, so that any may be the fastest."""
    errors = chosen.subject.hardware.published
    if errors is None or not rows:
        return 0
    rates = [row.throughput or 0.0 for row in rows]
    return next((i for i, rate in enumerate(rates) if not rate or not errors.alike(rates[0], rate)), len(rates))


def _figure(found: Economy, name: str) -> str:
    """A cell of a column of figures."""
    match name:
        case "tokens/s":
            return "" if found.tokens_per_s is None else f"{found.tokens_per_s:,.0f}"
        case "MFU":
            return "" if found.mfu is None else f"{found.mfu:.1%}"
        case "kWh/Mtoken":
            return _amount(found.kwh)
        case "days":
            return "" if found.days is None else f"{found.days:,.1f}"
        case _:
            return _amount(None if found.cost is None else found.cost.amount)


def _amount(amount: float | None) -> str:
    return "" if amount is None else f"{amount:.3g}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
