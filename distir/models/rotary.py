"""Rotary position embeddings: the cosines and sines of the angles by which queries and keys are rotated.

They are host values, computed once for all layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from distir.ir import DTYPES
from distir.models.block import ModelFunction


@dataclass(frozen=True, slots=True)
class Rotary:
    """Angles of positions: the position times `theta ** (-i / pairs)` for each pair `i` (Su et al., arXiv:2104.09864).

    With `factor`, a model was trained further on sequences that are `factor` times longer than the `context` it was
    trained on before: slow rotations, those below `low` turns in that context, are slowed down by the factor, and fast
    ones, above `high` turns, are not.
    """

    theta: float = 10000.0
    factor: float = 1.0
    context: int = 0
    low: float = 1.0
    high: float = 4.0
    by_pair: bool = False
    """Whether what lies between changes evenly with the pair (YaRN, arXiv:2309.00071), else with the frequency."""
    truncated: bool = True
    """Whether YaRN's first and last pair are rounded outwards to whole pairs."""
    scale: float = 1.0
    """What cosines and sines are multiplied with."""

    def kept(self, pairs: int) -> tuple[float, float]:
        """`a` and `b`: of a pair's frequency, or number if `by_pair`, `clip(a * x + b, 0, 1)` is left unscaled."""
        if not self.by_pair:
            return self.context / (2 * math.pi * (self.high - self.low)), -self.low / (self.high - self.low)
        first, last = (self._pair(turns, pairs) for turns in (self.high, self.low))
        if self.truncated:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * pairs - 1)
        return -1 / max(last - first, 0.001), last / max(last - first, 0.001)

    def _pair(self, turns: float, pairs: int) -> float:
        """The pair that makes so many turns in the context."""
        return pairs * math.log(self.context / (turns * 2 * math.pi)) / math.log(self.theta)


def cosines_and_sines(f: ModelFunction, rotary: Rotary, position: str, pairs: int) -> None:
    """Write `cos` and `sin`, (1, sequence, pairs), which `RotaryEmbedding` takes. `position`: Int64, on the host."""
    wide = DTYPES["Float32"]
    pair = f.op("Cast", f.op("Range", 0, pairs, 1, result="pairs"), to=wide, result="pair")
    exponent = f.op("Mul", pair, -1 / pairs, result="exponent")
    frequency = f.op("Pow", rotary.theta, exponent, result="frequency")
    if rotary.factor != 1:
        rate, start = rotary.kept(pairs)
        ramp = f.op("Mul", pair if rotary.by_pair else frequency, rate, result="slope")
        kept = f.op("Clip", f.op("Add", ramp, start, result="ramp"), 0.0, 1.0, result="kept")
        share = f.op("Mul", kept, 1 - 1 / rotary.factor, result="share")
        slowing = f.op("Add", share, 1 / rotary.factor, result="slowing")
        frequency = f.op("Mul", frequency, slowing, result="scaled_frequency")
    token = f.op("Cast", f.op("Unsqueeze", position, (0, 2), result="rows"), to=wide, result="token")
    angle = f.op("Mul", token, frequency, result="angle")
    for name, result in (("Cos", "cos"), ("Sin", "sin")):
        table = f.op(name, angle, result=f"{result}_angle")
        if rotary.scale != 1:
            table = f.op("Mul", table, rotary.scale, result=f"{result}_scaled")
        f.op("Cast", table, to=f.dtype, result=result)
