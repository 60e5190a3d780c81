"""What kernels of attention cost: their rates over those of the profiles, and what dropout adds."""

from __future__ import annotations

from typing import Final

from distir.validate.causes import parameter

Rates = dict[str, tuple[float, float]]
"""By kernel of attention: forward and backward."""

ATTENTION_RATES: Final[Rates] = parameter(
    "rates of attention",
    {"flash1": (0.5, 0.5), "triton": (0.71, 0.5)},
    "Dao, arXiv:2307.08691, section 4.1 and figures 4 to 6: FlashAttention 2 is about twice as fast as the first "
    "version, and 1.3 to 1.5 times as fast as the one in Triton forward, twice as fast backward",
)
"""Rates of attention's kernels over those of the profiles, which are of the kernels that were written for a GPU."""

HOPPERS_RATES: Final[Rates] = parameter(
    "rates of attention since Hopper",
    {"flash1": (0.3, 0.3), "triton": (0.43, 0.3), "flash2": (0.6, 0.6)},
    "Shah et al., arXiv:2407.08608, figures 5 and 6: FlashAttention 2 has 0.55 to 0.65 of the rate of FlashAttention 3 "
    "and cuDNN, which the profiles are of; the others to it as before",
)
"""The same on Hopper and later."""

HOPPERS_DROPOUT: Final[Rates] = parameter(
    "dropout of attention since Hopper",
    {"flash1": (1.2, 1.14), "flash2": (1.2, 1.14)},
    "FlashAttention 2, as the profile `a100-80` has it, measured with torch 2.11; of the first version, the same (not "
    "measured)",
)
"""Of attention's kernels on Hopper and later: by what dropout multiplies their arithmetic, forward and backward."""
