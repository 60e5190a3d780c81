"""The rule for `sort`: all elements in order are the greatest, or the least, of so many."""

from __future__ import annotations

from collections.abc import Sequence

from distir.importers.stablehlo.text import MlirOperation, MlirWord, refuse
from distir.importers.stablehlo.translating import StableHlo, rule

GREATEST = {"GT": True, "GE": True, "LT": False, "LE": False}
"""Whether a comparison of two neighbours puts the greatest first."""


KEPT = frozenset(("select", "convert", "compare"))
"""Operations that comparisons are of: jax lets all zeros, and all numbers that are none, be equal."""


@rule("sort")
def _sort(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    """The operand that is compared in order, and the others with it."""
    axis = int(operation.attribute("dimension"))
    key, largest = _compared(operation, len(operands))
    count = into.shape(operands[key])[axis]
    values, places = into.several("TopK", 2, operands[key], into.ints([count]), axis=axis, largest=largest)
    others = (into.apply("GatherElements", x, places, axis=axis) for x in operands)
    return [values if number == key else other for number, other in enumerate(others)]


def _compared(operation: MlirOperation, count: int) -> tuple[int, bool]:
    """Which operand decides, and whether its greatest elements are first."""
    block = operation.regions[0]
    names = [name for name, _ in block.params]
    origin = {name: number for number, name in enumerate(names)}
    orders: dict[str, tuple[int, int, bool]] = {}
    for inner in block.operations:
        known = [origin[name] for name in inner.operands if name in origin]
        said = next((word.text for word in inner.words if isinstance(word, MlirWord)), "")
        if inner.name.endswith(".compare") and said in GREATEST and len(known) == len(inner.operands) == 2:
            orders[inner.results[0]] = known[0], known[1], GREATEST[said]
        elif len(set(known)) == 1 and inner.name.rpartition(".")[2] in KEPT:
            origin.update(dict.fromkeys(inner.results, known[0]))
    given = block.operations[-1].operands[0]
    first, second, largest = orders.get(given, (0, 0, False))
    if abs(first - second) != 1 or min(first, second) % 2 or len(names) != 2 * count:
        refuse("a sort by another comparison than of one operand", operation.place, "sort by one key, ascending or not")
    return first // 2, largest if first < second else not largest
