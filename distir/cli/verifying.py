"""`--verify`: compares results with a reference.

`distir transform` compares two programs, `distir launch` what ran with the reference executor, by the same rules
(`transform/verification.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distir.cli import memory, output
from distir.cli.endings import Refused

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.ir import Function, Module

SHOWN = 20
"""How many results that are wrong are described."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One result: the largest error of an element, and whether it is within the tolerance.

    `rounding`: how far rounding may move an element, if this was tested. `difference`: where a wrong result differs,
    and by how much.
    """

    name: str
    error: float
    same: bool
    rounding: float | None = None
    difference: str | None = None


def tell(verdicts: Sequence[Verdict], agree: str, differ: str, more: str = "") -> None:
    """Say in a line that results agree, and `more`, or else which do not, where and by how much; the worst first."""
    wrong = sorted((v for v in verdicts if not v.same), key=lambda v: -v.error)
    if not wrong:
        worst = max(verdicts, key=lambda v: v.error, default=None)
        most = f"largest difference {worst.error:.1e} in %{worst.name}" if worst and worst.error else "no difference"
        if worst and worst.rounding is not None:
            most += f", where rounding may make {worst.rounding:.1e}"
        output.tell(f"verified: {agree} ({len(verdicts)}, {most}){more}")
        return
    lines = [f"  %{v.name}: {v.difference}" for v in wrong[:SHOWN]]
    lines += [f"  and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
    output.complain("error", "\n".join([f"{differ}: {len(wrong)} of {len(verdicts)}", *lines]))


def with_copies(count: int) -> str:
    """What to add of values that devices return besides those that are gathered."""
    return f", with {count} {'copies and parts' if count > 1 else 'copy'} that devices return" if count else ""


def warn_of(unclaimed: Sequence[str]) -> None:
    """Say which values of the distributed program are compared with nothing."""
    if unclaimed:
        listed = ", ".join(f"`{name}`" for name in unclaimed[:SHOWN])
        more = f" and {len(unclaimed) - SHOWN} more" if len(unclaimed) > SHOWN else ""
        output.complain("warning", f"not compared, as nothing relates them to a result: {listed}{more}")


def verified(
    original: Module, result: Module, seed: int, sizes: Mapping[str, int], most: int | None, behind: str = ""
) -> int:
    """Run a program, and what steps made of it, on random inputs; say whether they agree. Gives the exit code.

    `behind`: the step that gave the program, if it changed what that computes.

    Raises Refused where they cannot be compared.
    """
    from distir.analysis import InputError, TooLargeError
    from distir.diagnostics import ProgramError
    from distir.transform import VerifyError
    from distir.transform import verify as compare

    try:
        found = compare(original, result, seed, bind=sizes, max_bytes=most)
    except (VerifyError, InputError) as error:
        raise Refused(str(error), memory.HELP if isinstance(error, TooLargeError) else None) from None
    except ProgramError as error:  # of either program: its places may not be the text's
        first = error.diagnostics[0]
        raise Refused(f"cannot verify: {first.message} ({first.code.number})", first.help) from None
    found_out = [Verdict(c.name, c.max_abs_error, c.equal, difference=c.difference) for c in found.results]
    agree, differ = "both programs give the same results", "the programs give different results"
    tell(found_out, agree, differ, with_copies(found.copies) + (f": what follows `{behind}`" if behind else ""))
    warn_of(found.unclaimed)
    if found.not_widened is not None:
        output.complain("warning", f"not compared in Float64, so rounding may hide a difference: {found.not_widened}")
    return 0 if found.equal else 1


def verdicts(
    program: Program, entry: Function, values: Mapping[str, Any], measured: Mapping[str, Any], home: Path
) -> list[Verdict]:
    """A verdict for each result. `measured`: arrays by name, parts of tuples as `w.0`. Raises Refused."""
    from distir.transform.verification import CHANGES, cast_to, described, largest_difference, perturbed

    expected = _executed(program, entry, values, home)
    found: list[Verdict] = []
    wide: list[str] = []
    for name, array in expected.items():
        error, allowed = largest_difference(array, measured[name])
        same = error <= allowed
        difference = None if same else described(array, measured[name], allowed)
        found.append(Verdict(name, error, same, difference=difference))
        if error > allowed and array.shape == measured[name].shape and _is_float(array):
            wide.append(name)
    if not wide:
        return found
    changed = (perturbed(values, units, i, cast_to(program.module, entry)) for i, units in enumerate(CHANGES))
    others = [_executed(program, entry, inputs, home) for inputs in changed]
    exact = _meant(program, entry, values, home)
    again = {n: _with_rounding(n, expected[n], measured[n], [other[n] for other in others], exact.get(n)) for n in wide}
    return [again.get(verdict.name, verdict) for verdict in found]


def _with_rounding(name: str, expected: Any, found: Any, others: Sequence[Any], exact: Any) -> Verdict:
    """`others`: what changed inputs give; `exact`: what a program with narrow types gives in Float64."""
    from distir.ops.numeric import np
    from distir.transform.verification import (
        described,
        largest_difference,
        own_rounding,
        spread_of,
        too_sensitive,
        with_rounding,
    )

    error, allowed = largest_difference(expected, found)
    moved = spread_of(expected, others)
    if exact is not None:
        moved = np.maximum(moved, own_rounding(expected, exact))
    most = with_rounding(expected, found, allowed, moved)
    difference = described(expected, found, most) or None
    if difference is not None and (reason := too_sensitive(expected, found, others)):
        difference = f"{difference}; {reason}"
    return Verdict(name, error, difference is None, float(np.max(most - allowed, initial=0.0)), difference)


def _executed(program: Program, entry: Function, values: Mapping[str, Any], home: Path) -> dict[str, Any]:
    """The reference executor's results, by name."""
    from distir.analysis import InputError, execute
    from distir.analysis.outputs import flattened
    from distir.cli.tensors import loader

    try:
        results = execute(program.module, values, entry.name, loader(home), memory.available_bytes())
    except InputError as error:
        raise Refused(str(error)) from None
    return {n: array for r in results for n, _, array in flattened(r.name, r.type, r.value)}


def _meant(program: Program, entry: Function, values: Mapping[str, Any], home: Path) -> dict[str, Any]:
    """The results without the rounding of narrow types, by name; empty where that cannot be computed."""
    from distir.analysis.outputs import flattened
    from distir.cli.tensors import loader
    from distir.transform.verification import meant

    results = meant(program.module, entry.name, values, loader(home), memory.available_bytes())
    return {n: array for r in results or () for n, _, array in flattened(r.name, r.type, r.value)}


def _is_float(array: Any) -> bool:
    from distir.ops import dtype_of

    return dtype_of(array).kind == "float"
