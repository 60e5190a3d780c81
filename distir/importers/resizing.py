"""`Reshape` and `Expand` with sizes that no shape has to be computed for, where an export computes them."""

from __future__ import annotations

from distir.importers.reshaping import relative_shape, relative_target
from distir.importers.translation import Translation
from distir.ir import DTYPES, Apply, Attributes, Dense, Shape, TensorType
from distir.ops import Reject, type_of


def resized(into: Translation, statement: Apply, hint: str) -> Apply:
    """The statement with its sizes said relative to its operand, where they are symbolic. `hint`: its result's name."""
    if statement.op not in ("Reshape", "Expand") or len(statement.args) < 2:
        return statement
    first, second = map(str, statement.args)
    sizes, shape = into.values[second], _shape(into, first)
    attrs = statement.attrs
    if not isinstance(sizes, Dense):
        return statement
    if statement.op == "Expand":
        said = None if shape is None else relative_target(shape, sizes.values)
    elif attrs.get("allowzero", False) and 0 in sizes.values:
        return statement
    else:
        attrs = Attributes({name: value for name, value in attrs.items() if name != "allowzero"})
        said = None if shape is None else relative_shape(shape, sizes.values, into.batch)
    if said is None:
        return Apply(statement.results, statement.op, (first, second), attrs)
    given = into.builder.fresh(f"{hint}.shape")
    into.values[given] = Dense(DTYPES["Int64"], (len(said),), said)
    return Apply(statement.results, statement.op, (first, given), attrs)


def keeps_shape(into: Translation, statement: Apply) -> bool:
    """Whether a `Reshape` gives the shape that its operand has."""
    vs = tuple(into.values[str(arg)] for arg in statement.args)
    try:
        (found,) = into.functions.domain.answer(Apply(("_",), statement.op, statement.args, statement.attrs), vs)
    except Reject:
        return False
    before = _shape(into, str(statement.args[0]))
    return before is not None and None not in before and type_of(found) == type_of(vs[0])


def _shape(into: Translation, name: str) -> Shape | None:
    stated = type_of(into.values[name])
    return stated.shape if isinstance(stated, TensorType) else None
