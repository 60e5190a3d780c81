"""One plan, transformed and simulated for each batch size. A failure becomes a row that gives the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from distir.cost import step_cost
from distir.cost.hardware import worst_fit
from distir.diagnostics import ProgramError
from distir.ops import Reject
from distir.search.distributed import carried_out, extrapolated
from distir.search.rows import Row
from distir.search.subject import Subject, fixed_batch
from distir.simulate.extrapolation.pipeline import ExtrapolatedFigures
from distir.simulate.simulation import BindError, Simulation
from distir.transform.sharding import tensor_shares
from distir.transform.steps import StepError
from distir.transform.strategy import Strategy


def evaluate(
    subject: Subject, plan: Strategy, batch_sizes: Sequence[int | None], *, extrapolates: bool = True
) -> Iterator[Row]:
    """A row for each batch size. Never raises for an infeasible configuration: its row says why.

    `extrapolates`: whether figures may be derived from another number of microbatches, where nothing else is asked of
    the plan's own program. They are the same.
    """
    blank = Row(subject.model, None, plan, None, None, None, False, hardware=subject.hardware.name)
    blank = _with_shares(blank, subject)
    try:
        other = extrapolated(subject, plan) if extrapolates else None
        whole = carried_out(subject, plan) if other is None and not plan.sized else None
    except (ProgramError, StepError, Reject) as error:
        yield from (replace(blank, batch_size=size, reason=_reason(error)) for size in batch_sizes)
        return
    for size in batch_sizes:
        try:
            figures = other.figures(size) if other is not None and size is not None else None
            if figures is None:
                whole = carried_out(subject, plan, size) if plan.sized else whole or carried_out(subject, plan)
                figures = whole.simulation(size, alone=len(batch_sizes) == 1)
            examples = size or fixed_batch(subject.entry)
            paid = costs(subject, figures.latency_s, examples, plan.devices)
            yield replace(blank, batch_size=size, **_figures(figures, examples), **paid)
        except (ProgramError, BindError, Reject, StepError) as error:
            yield replace(blank, batch_size=size, reason=_reason(error))


def _with_shares(row: Row, subject: Subject) -> Row:
    """The row with each shard's share of the sequential program's FLOPs and weights."""
    if row.plan.tensor == 1:
        return row
    try:
        shares = tensor_shares(subject.module, row.plan.tensor)
    except ProgramError:
        return row  # tensor parallelism alone is infeasible
    return replace(row, flops_share=shares.flops, weights_share=shares.weights)


def _figures(figures: Simulation | ExtrapolatedFigures, batch_size: int | None) -> dict[str, Any]:
    """The columns of what is simulated."""
    latency = figures.latency_s
    devices = figures.memory_uses.values()
    return {
        "latency_s": latency,
        "throughput": batch_size / latency if batch_size and latency else None,
        "peak_memory_bytes": max((use.peak_memory_bytes for use in devices), default=0),
        "fits": all(use.fits for use in devices),
        "fit": worst_fit(use.fit for use in devices),
    }


def costs(subject: Subject, latency: float, batch_size: int | None, devices: int) -> dict[str, Any]:
    """The columns of what a step costs on the machine's first `devices` devices; none where that is not known."""
    prices = [kind.price for kind in subject.hardware.kinds[:devices]]
    cost = None if None in prices else step_cost(prices, latency, subject.tokens(batch_size))
    if cost is None:
        return {}
    per_tokens = cost.per_million_tokens
    return {
        "cost_per_step": cost.step.amount,
        "cost_per_million_tokens": None if per_tokens is None else per_tokens.amount,
        "currency": cost.step.currency,
    }


def _reason(error: Exception) -> str:
    """The first message, with why and what to do where a call only says that it fails; on one line."""
    if not isinstance(error, ProgramError) or not error.diagnostics:
        return " ".join(str(error).split())
    found = error.diagnostics[0]
    said = [found.message, *(note.message for note in found.notes[:1] if note.site is None)]
    return " ".join(": ".join(said).split()) + (f"; {found.help}" if found.help and len(said) > 1 else "")
