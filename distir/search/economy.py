"""The economy of a training run by a row: tokens per second, MFU, money and energy per million tokens, days.

Model FLOPs are those of the published formula (Chowdhery et al., "PaLM", arXiv:2204.02311, appendix B): of products,
6 for each weight and token, and of attention 12·L·H·Q·T for each token, as if no score were left out; nothing that is
recomputed counts. Both are summed up in the sequential program. MFU is these, over what all devices could do at peak.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from distir.cost import step_cost
from distir.cost.price import Price
from distir.ir import DType
from distir.ops.resources import MatrixProduct
from distir.search.rows import Row
from distir.search.sequential import simulated
from distir.search.subject import Subject
from distir.simulate.body import runs
from distir.simulate.effects import Effect

DAY_S = 86_400.0
JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Economy:
    """Figures of a row; None where the program's tokens, prices or powers are not known.

    `mfu`: from 0 to 1. `cost` and `kwh`: per million tokens. `days`: for the budget of tokens.
    """

    tokens_per_s: float | None
    mfu: float | None
    cost: Price | None
    kwh: float | None
    days: float | None


def economy(
    subject: Subject, row: Row, budget: float | None = None, price: Price | None = None, watts: float | None = None
) -> Economy:
    """The economy of a row. `price` per device and hour, instead of the profile's; `watts` of a device."""
    if not row.latency_s:
        return Economy(None, None, None, None, None)
    tokens, devices = subject.tokens(row.batch_size), row.plan.devices
    kinds = subject.hardware.kinds[:devices]
    dtype, flops = model_flops(subject, row.batch_size)
    peak = sum(kind.rates[dtype].peak for kind in kinds) if dtype is not None else 0.0
    mfu = flops / row.latency_s / peak if peak else None
    if not tokens:
        return Economy(None, mfu, None, None, None)
    prices = [price or kind.price for kind in kinds]
    cost = step_cost(prices, row.latency_s, tokens)
    kwh = None if watts is None else watts * devices * row.latency_s / tokens * 1e6 / JOULES_PER_KWH
    rate = tokens / row.latency_s
    days = None if budget is None else budget / rate / DAY_S
    return Economy(rate, mfu, None if cost is None else cost.per_million_tokens, kwh, days)


@lru_cache(maxsize=64)
def model_flops(subject: Subject, batch_size: int | None) -> tuple[DType | None, float]:
    """The model FLOPs of a step, and the element type of most of them."""
    found: dict[DType | None, float] = {}
    passes = 3 if subject.trains else 1
    for body, times in runs(simulated(subject, batch_size).body):
        for effect in body.timed:
            for dtype, flops, what in effect.work.contractions if isinstance(effect, Effect) else ():
                if isinstance(what, MatrixProduct):
                    found[dtype] = found.get(dtype, 0.0) + times * flops
                elif not what.backward:
                    whole = 4.0 * what.heads * what.queries * what.keys * what.size
                    found[dtype] = found.get(dtype, 0.0) + times * passes * whole
    most = max(found, key=lambda dtype: found[dtype], default=None)
    return most, sum(found.values())
