"""Possible causes of large differences between a simulation and a run, as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from distir.traces.alignment import IDLE, MEASURED, SIMULATED, Aligned, KindRow
from distir.traces.collectives import PATTERNS

HALF = 0.5
LARGE = 0.3
"""The rest of a step beside its ops is mentioned from this share of all differences on."""


def advice(rows: Sequence[KindRow], found: Sequence[Aligned], matched: tuple[float, float], on_gpu: bool) -> list[str]:
    """Sentences; none if no difference is large. `matched`: shares of the simulated and measured time aligned."""
    said: list[str] = []
    if matched[0] < HALF or matched[1] < HALF:
        said.append(
            "less than half of the ops' time lines up: compare the batch size, the strategy and the model of both "
            "(`n` and `n measured`)"
        )
    patterns = set(PATTERNS.values())
    alone = {side: sorted({r.kind for r in rows if r.side == side} & patterns) for side in (SIMULATED, MEASURED)}
    if alone[SIMULATED] and alone[MEASURED]:
        ours, theirs = (", ".join(f"`{kind}`" for kind in alone[side]) for side in (SIMULATED, MEASURED))
        said.append(
            f"the program communicates by {ours}, the run by {theirs}: are weights and gradients sharded alike?"
        )
    counts: dict[str, list[int]] = {}
    for bundle in (bundle for aligned in found for bundle in aligned.bundles):
        own = counts.setdefault(bundle.kind, [0, 0])
        own[0] += len(bundle.statements)
        own[1] += len(bundle.pieces)
    for kind, (ours, theirs) in counts.items():
        if kind in patterns - {"send"} and ours > theirs:
            said.append(
                f"the run joins messages: {theirs / len(found):g} `{kind}` per step, where the program has "
                f"{ours / len(found):g}; `overlap` joins them there, too, by `first_bucket_bytes` and `bucket_bytes`"
            )
    total = sum(abs(row.difference) for row in rows)
    idle = next((row for row in rows if row.kind == IDLE), None)
    if idle is not None and total and idle.difference > LARGE * total:
        if on_gpu:
            why = (
                "the host issues ops too late (state `issue`, as `--hardware NAME@eager` does), or other ranks are late"
            )
        else:
            why = "Python and autograd between ops, which a profile of a CPU does not count, or other ranks are late"
        said.append(f"a rank is idle or waits for {idle.difference / total:.0%} of all differences: {why}")
    return said
