"""Traces the dimensions of a value, op by op, back to a parameter or to the op that created the dimension.

An op's layout (`ops/splitting`) maps dimensions of operands to those of results.
"""

from __future__ import annotations

from dataclasses import dataclass

from distir.ide.instances import KnownInstances
from distir.ide.trail import Trail
from distir.ir import Apply, Call, Dense, Dim, Function, Literal, Shape, TensorType, TupleType, Type
from distir.ops import OPS, Value, type_of
from distir.ops.splitting import layout
from distir.ops.unify import Reject
from distir.simulate.show import Occurrence

LONGEST_TRAIL = 200
"""The search for a dimension's origin stops after this many ops, with the best answer so far."""


@dataclass(frozen=True, slots=True)
class DimensionOrigin:
    """The origin of a dimension: dimension `axis` of a value of a function, or the op that created that value.

    `passed`: through how many ops and calls it came from there; `is_end` is False where the search was given up.
    """

    size: Dim
    function: Function
    name: str
    axis: int
    index: int | None
    passed: int
    is_end: bool = True
    items: tuple[int, ...] = ()
    """Of a tuple: which item, from inside out."""


_TRAILS: dict[object, tuple[int, int] | None] = {}
"""By op, attributes and operands: which operand's dimension a result's dimension is. Layers repeat theirs."""

MOST_TRAILS = 20_000


def origin(facts: KnownInstances, occurrence: Occurrence, name: str, axis: int, before: int) -> DimensionOrigin:
    """The origin of dimension `axis` of a tensor of an occurrence. `before`: the statement that uses the value."""
    size = _dim(occurrence.instance.state[name], axis)
    trail = Trail(facts, occurrence, name, before)
    inside: tuple[int, ...] = ()  # of a value that is a tuple: the path to the item, outermost first
    while True:
        index, passed = trail.definition, trail.passed
        here = DimensionOrigin(
            size, trail.function, trail.name, axis, index, passed, passed < LONGEST_TRAIL, inside[::-1]
        )
        if passed >= LONGEST_TRAIL:
            return here
        if index is None:
            if not _at_the_call(trail):
                return here
            continue
        statement = trail.function.body[index]
        if isinstance(statement, Call):
            if not trail.enter(index):
                return here
        elif isinstance(statement, Apply) and statement.op == "UnpackTuple" and isinstance(statement.args[0], str):
            inside = (statement.results.index(trail.name), *inside)
            trail.up(index, statement.args[0])
        elif isinstance(statement, Apply) and statement.op == "MakeTuple" and inside:
            item = statement.args[inside[0]] if inside[0] < len(statement.args) else None
            if not isinstance(item, str):
                return here
            inside = inside[1:]
            trail.up(index, item)
        elif isinstance(statement, Apply) and not inside:
            step = _operand(statement, trail.occurrence, trail.name, axis)
            if step is None:
                return here
            operand, axis = step
            trail.up(index, operand)
        else:
            return here


def _at_the_call(trail: Trail) -> bool:
    """Continue from a parameter to its argument, at the call that was entered or the one shown; False if neither is."""
    position, caller = trail.parameter, trail.occurrence.caller
    if position is None or caller is None:
        return False
    if trail.entered:
        outer, index = trail.entered.pop()
    else:
        function, index = caller
        shown = trail.facts.shown(function.name)
        if shown is None or shown.instance.function is not function:
            return False
        outer = shown
    call = outer.instance.function.body[index]
    assert isinstance(call, Call)
    argument = call.args[position] if position < len(call.args) else None
    if not isinstance(argument, str):
        return False
    trail.leave(outer, index, argument)
    return True


def _operand(statement: Apply, occurrence: Occurrence, name: str, axis: int) -> tuple[str, int] | None:
    """The operand and the dimension of it that a result's dimension is; None where the op makes it."""
    state = occurrence.instance.state
    values = state(statement.args)
    position = statement.results.index(name)
    results_ = tuple(type_of(state[result]) for result in statement.results)
    key = (statement.op, statement.attrs, values, results_, position, axis)
    try:
        if key not in _TRAILS:
            if len(_TRAILS) >= MOST_TRAILS:
                _TRAILS.clear()
            _TRAILS[key] = _carried(statement, values, results_, position, axis)
        found = _TRAILS[key]
    except (Reject, LookupError, ValueError, TypeError):  # a statement that does not check, or a rule of a plug-in
        return None
    if found is None:
        return None
    arg = statement.args[found[0]]
    return (arg, found[1]) if isinstance(arg, str) else None


def _carried(
    statement: Apply, values: tuple[Value, ...], results_: tuple[Type, ...], position: int, axis: int
) -> tuple[int, int] | None:
    """The number of the operand, and its dimension, that dimension `axis` of a result is. Raises Reject."""
    shape = _shape(results_[position])
    if shape is None or any(isinstance(type_of(v), TupleType) for v in values):
        return None
    is_known = all(v is None or _shape(type_of(v)) is not None for v in values)
    found = layout(OPS[statement.op], values, results_, statement.attrs) if is_known else None
    letters = found.results[position] if found is not None else ()
    letter = letters[axis] if axis < len(letters) else None
    if found is not None and letter is not None:
        for i, others in enumerate(found.operands):
            if letter in others and _dim(values[i], others.index(letter)) == shape[axis]:
                return i, others.index(letter)
    # An op that cannot be split along a dimension may still carry it over: operands of that very shape have it.
    alike = (i for i, v in enumerate(values) if _shape(type_of(v)) == shape and not isinstance(v, (Dense, Literal)))
    return next(((i, axis) for i in alike), None)


def _shape(type: Type) -> Shape | None:
    return type.shape if isinstance(type, TensorType) else None


def _dim(value: Value, axis: int) -> Dim:
    shape = _shape(type_of(value))
    return shape[axis] if shape is not None and axis < len(shape) else None
