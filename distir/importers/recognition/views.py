"""Transpositions and reshapes of one another, as one or none: what other rules write may meet what was there."""

from __future__ import annotations

from collections.abc import Sequence

from distir.importers.recognition.rewriting import MatchedFunction, rule
from distir.ir import Apply, Shape


@rule("Transpose")
def transposed(program: MatchedFunction, root: Apply) -> str | None:
    """A transposition of a transposition."""
    made = program.maker(root.args[0])
    if made is None or made.op != "Transpose":
        return None
    first, second = made.attrs.ints("perm"), root.attrs.ints("perm")
    if first is None or second is None:
        return None
    perm = tuple(first[i] for i in second)
    if perm == tuple(range(len(perm))):
        return str(made.args[0])
    return program.apply("Transpose", str(made.args[0]), perm=perm)


@rule("Reshape")
def regrouped(program: MatchedFunction, root: Apply) -> str | None:
    """A dimension parted in two, others moved around both, and a reshape: the dimension is moved as it was."""
    moved = program.maker(root.args[0])
    parted = program.maker(moved.args[0]) if moved is not None and moved.op == "Transpose" else None
    perm = moved.attrs.ints("perm") if moved is not None else None
    if parted is None or parted.op != "Reshape" or perm is None:
        return None
    source = str(parted.args[0])
    at = parting(program.shape(source), program.shape(parted.results[0]))
    if at is None or (place := perm.index(at)) + 1 == len(perm) or perm[place + 1] != at + 1:
        return None
    order = [axis - (axis > at) for axis in perm if axis != at + 1]
    whole = program.apply("Transpose", source, perm=tuple(order))
    if program.shape(whole) == program.shape(root.results[0]):
        return whole
    return program.apply("Reshape", whole, *map(str, root.args[1:]), like=root.results[0], **root.attrs)


def parting(before: Shape | None, after: Shape | None) -> int | None:
    """Which dimension is two after a reshape, while the others are as before; None where there is no such one."""
    if before is None or after is None or len(after) != len(before) + 1:
        return None
    at = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before) - 1)
    return at if before[at + 1 :] == after[at + 2 :] and before[:at] == after[:at] else None


def reshaped(program: MatchedFunction, name: str, sizes: Sequence[int]) -> str:
    """A tensor in another shape, of which one size may be -1: what it was before, where that has it already."""
    made = program.maker(name)
    if made is not None and made.op == "Reshape":  # what it was before, where that has the shape already
        before = program.shape(made.args[0]) or ()
        if [size if isinstance(size, int) else -1 for size in before] == list(sizes):
            return str(made.args[0])
    return program.apply("Reshape", name, program.sizes(sizes, name))


RULES = (transposed, regrouped)
