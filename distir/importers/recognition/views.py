"""Transpositions and reshapes of one another, as one or none: what other rules write may meet what was there."""

from __future__ import annotations

from distir.importers.recognition.rewriting import MatchedFunction, rule
from distir.ir import Apply


@rule("Transpose")
def transposed(program: MatchedFunction, root: Apply) -> str | None:
    """A transposition of a transposition."""
    made = program.maker(root.args[0])
    if made is None or made.op != "Transpose":
        return None
    first, second = made.attrs.get("perm"), root.attrs.get("perm")
    if not isinstance(first, tuple) or not isinstance(second, tuple):
        return None
    perm = tuple(int(first[int(i)]) for i in second)  # type: ignore[arg-type, call-overload]
    if perm == tuple(range(len(perm))):
        return str(made.args[0])
    return program.apply("Transpose", str(made.args[0]), perm=perm)


RULES = (transposed,)
