"""Where the dimensions of a value come from: op by op back to a parameter, or to the op that made the dimension.

Which dimension of an operand is which of a result is told by the op's layout (`ops/splitting`).
"""

from __future__ import annotations

from dataclasses import dataclass

from distir.ide.instances import Facts
from distir.ir import Apply, Call, Dense, Dim, Function, Literal, Shape, TensorType, TupleType, Type, results
from distir.ops import OPS, Value, type_of
from distir.ops.splitting import layout
from distir.ops.unify import Reject
from distir.simulate.show import Occurrence

LONGEST_TRAIL = 200
"""After so many ops the search for a dimension's origin ends where it has come."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one dimension was fixed: dimension `axis` of a value of a function, or by the op that made that value.

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


class Definitions:
    """Which statement defines a value. Looked for near where it is used; further away by a table of the function."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, int]] = {}
        self._params: dict[int, frozenset[str]] = {}
        self._kept: list[Function] = []

    def __call__(self, function: Function, name: str, before: int | None = None) -> int | None:
        """The number of the statement; None for parameters. `before`: one that comes after it, or is it."""
        key = id(function)
        if key not in self._params:
            self._params[key] = frozenset(param.name for param in function.params)
            self._kept.append(function)  # so that its identity stays its own
        if name in self._params[key]:
            return None
        known = self._known.get(key)
        if known is None:
            if before is not None:
                for index in range(before, max(before - NEAR, -1), -1):
                    if name in results(function.body[index]):
                        return index
            known = self._known[key] = {n: index for index, s in enumerate(function.body) for n in results(s)}
        return known.get(name)


NEAR = 1000
"""So many statements are looked through before a table is made of all."""

_TRAILS: dict[object, tuple[int, int] | None] = {}
"""By op, attributes and operands: which operand's dimension a result's dimension is. Layers repeat theirs."""

MOST_TRAILS = 20_000


def origin(
    facts: Facts, definitions: Definitions, occurrence: Occurrence, name: str, axis: int, used: int | None = None
) -> Origin:
    """Where dimension `axis` of a tensor of an occurrence comes from. `used`: a statement that names the value."""
    size = _dim(occurrence.instance.state[name], axis)
    passed = 0
    callers: list[tuple[Occurrence, int]] = []
    inside: tuple[int, ...] = ()  # of the tuple that `name` is, if it is one: the item looked at, outermost first
    while True:
        function = occurrence.instance.function
        index = definitions(function, name, used)
        here = Origin(size, function, name, axis, index, passed, passed < LONGEST_TRAIL, inside[::-1])
        if passed >= LONGEST_TRAIL:
            return here
        if index is None:  # a parameter: go on at the call
            step = _argument(facts, occurrence, name, callers)
            if step is None:
                return here
            occurrence, name, used = step
            passed += 1
            continue
        statement = function.body[index]
        if isinstance(statement, Call):
            callee = facts.called(occurrence, index)
            if callee is None:
                return here
            returned = callee.instance.function.returned
            position = statement.results.index(name)
            inner = returned[position] if position < len(returned) else None
            if not isinstance(inner, str):
                return here
            callers.append((occurrence, index))
            occurrence, name, used = callee, inner, len(callee.instance.function.body) - 1
            passed += 1
            continue
        elif isinstance(statement, Apply) and statement.op == "UnpackTuple" and isinstance(statement.args[0], str):
            inside = (statement.results.index(name), *inside)
            name = statement.args[0]
        elif isinstance(statement, Apply) and statement.op == "MakeTuple" and inside:
            item = statement.args[inside[0]] if inside[0] < len(statement.args) else None
            if not isinstance(item, str):
                return here
            name, inside = item, inside[1:]
        elif isinstance(statement, Apply) and not inside:
            step = _operand(statement, occurrence, name, axis)
            if step is None:
                return here
            name, axis = step
        else:
            return here
        passed, used = passed + 1, index


def _argument(
    facts: Facts, occurrence: Occurrence, name: str, callers: list[tuple[Occurrence, int]]
) -> tuple[Occurrence, str, int] | None:
    """What a parameter is at the call that is shown: the caller, its value, and the number of the call."""
    if occurrence.caller is None:
        return None
    position = next(i for i, p in enumerate(occurrence.instance.function.params) if p.name == name)
    if callers:
        caller, index = callers.pop()
    else:
        function, index = occurrence.caller
        shown = facts.shown(function.name)
        if shown is None or shown.instance.function is not function:
            return None
        caller = shown
    call = caller.instance.function.body[index]
    assert isinstance(call, Call)
    arg = call.args[position] if position < len(call.args) else None
    return (caller, arg, index) if isinstance(arg, str) else None


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
