"""Checks of divisibility, and their errors."""

from __future__ import annotations

import math

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Dim, Site


def check_divides(dim: Dim, size: int, named: str, site: Site, more: str = "") -> None:
    """Raises ProgramError with DIR620, and possible numbers of devices and `more`, if `size` does not divide `dim`."""
    if isinstance(dim, int) and dim % size:
        message = f"{named} is {dim}, which does not split over {size} devices"
        raise ProgramError([Diagnostic(codes.INDIVISIBLE_SPLIT, site, message, (), f"{divisors(dim)} would do{more}")])


def divisors(dim: int) -> str:
    """Formats the divisors of a dimension above 1, at most eight of them."""
    small = [n for n in range(1, math.isqrt(dim) + 1) if dim % n == 0] if dim > 0 else []
    every = sorted({*small, *(dim // n for n in small)} - {1})
    shown = ", ".join(map(str, every[:8]))
    return (shown + (", …" if len(every) > 8 else "")) or "no number of devices"
