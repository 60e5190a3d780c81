"""The equations of `Einsum` (Einstein's summation convention): labels, `...`, and an implicit result."""

from __future__ import annotations

import re
from typing import NamedTuple

_TERM = re.compile(r"[A-Za-z]|\.\.\.")


Labels = tuple[str, ...]


class Equation(NamedTuple):
    """The labels of the dimensions of each operand and of the result; `...` is any number of dimensions."""

    operands: tuple[Labels, ...]
    result: Labels

    def __str__(self) -> str:
        return ",".join(map("".join, self.operands)) + "->" + "".join(self.result)


def parse_equation(text: str) -> Equation:
    """Parse `ij,jk->ik`. Raises ValueError whose text is the error found."""
    left, arrow, right = "".join(text.split()).partition("->")
    operands = tuple(map(_labels, left.split(",")))
    used = [label for labels in operands for label in labels]
    if not arrow:
        once = sorted(label for label in set(used) if label != "..." and used.count(label) == 1)
        return Equation(operands, (*(["..."] if "..." in used else []), *once))
    result = _labels(right)
    for label in result:
        if result.count(label) > 1:
            raise ValueError(f"`{label}` twice in the result of `{text}`")
        if label not in used:
            raise ValueError(f"`{label}` in the result of `{text}`, but in no operand")
    if "..." in used and "..." not in result:
        raise ValueError(f"`{text}`, whose result lacks the `...` of its operands")
    return Equation(operands, result)


def _labels(term: str) -> Labels:
    labels = tuple(_TERM.findall(term))
    if "".join(labels) != term or labels.count("...") > 1:
        raise ValueError(f"`{term}`, which is not letters and at most one `...`")
    return labels
