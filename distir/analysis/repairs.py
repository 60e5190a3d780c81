"""Repairs of statements whose operands are on different devices or of different element types: `Send`, `Cast`.

A repair is offered only if the statement checks with it. The help of a diagnostic and the editor's quick fixes both
come from here, so they agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distir.analysis.blame import UNFIT
from distir.analysis.checker import Checker
from distir.analysis.parameters import parameters
from distir.diagnostics import Diagnostic, Note
from distir.diagnostics.codes import devices as device_codes
from distir.diagnostics.codes import types as type_codes
from distir.ir import (
    DTYPES,
    HOST,
    UNKNOWN,
    AnyType,
    Apply,
    Arg,
    Call,
    Dense,
    DType,
    Function,
    Part,
    Site,
    TensorType,
    TupleType,
    Type,
    names,
    types,
)
from distir.ops import OPS, Reject, Value, type_of

MISPLACED = (device_codes.DEVICE_MISMATCH, type_codes.BAD_CALL, type_codes.BAD_ARGUMENT)
MISTYPED = (type_codes.DTYPE_MISMATCH, type_codes.BAD_CALL, type_codes.BAD_ARGUMENT)


@dataclass(frozen=True, slots=True)
class Sending:
    """Values that a statement needs on a device, by name."""

    names: tuple[str, ...]
    device: int


@dataclass(frozen=True, slots=True)
class Casting:
    """A value that a statement needs with another element type."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Mistake:
    """A statement with an error, as it is in an instance of a function, for its argument types."""

    domain: Checker
    diagnostic: Diagnostic
    function: Function
    statement: Apply | Call
    state: Mapping[str, Value]


def mistake_of(domain: Checker, diagnostic: Diagnostic) -> Mistake | None:
    """The statement that a diagnostic is about; None where that is none with operands."""
    site = diagnostic.site
    if not isinstance(site, Site) or site.index is None or site.function not in domain.own:
        return None
    function = domain.module.functions[site.function]
    statement = function.body[site.index]
    if not isinstance(statement, (Apply, Call)):
        return None
    return Mistake(domain, diagnostic, function, statement, domain.own[site.function].state)


def advised(domain: Checker, diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic with the first repair as its help, placed at the operand that the repair changes."""
    if diagnostic.code not in (*MISPLACED, *MISTYPED) or (found := mistake_of(domain, diagnostic)) is None:
        return diagnostic
    sending = next(iter(sendings(found)), None)
    casting = next(castings(found), None) if sending is None else None
    if sending is not None:
        return _to_send(found, sending)
    if casting is not None:
        return _to_cast(found, casting)
    if (diagnostic.help or "").startswith("insert "):
        return replace(diagnostic, help=None)  # that alone mends nothing here: it is about a callee, or there is more
    return diagnostic


def sendings(found: Mistake) -> list[Sending]:
    """The ways to bring all operands to one of the devices that they live on, so that the statement checks.

    First those that move what is blamed, for a call before that those that leave its caller's parameters, such as
    weights, where they are.
    """
    if found.diagnostic.code not in MISPLACED:
        return []
    used = names(found.statement.args)
    devices = {n: types.device_of(type_of(found.state[n])) for n in used if n}
    ways: list[Sending] = []
    for target in sorted({d for d in devices.values() if d is not None and d != HOST}):
        moved = tuple(n for n, d in devices.items() if d is not None and d not in (target, HOST))
        if moved and _accepted(found, {n: moved_to(found.state[n], target) for n in moved}):
            ways.append(Sending(moved, target))
    given = {param.name for param in found.function.params} if isinstance(found.statement, Call) else set[str]()
    blamed = _blamed(found)
    return sorted(ways, key=lambda way: (not given.isdisjoint(way.names), not set(way.names) & blamed))


def castings(found: Mistake) -> Iterator[Casting]:
    """The ways to bring one operand to the element type of another one, or that the help names; blamed ones first."""
    if found.diagnostic.code not in MISTYPED:
        return
    used = [n for n in names(found.statement.args) if n and not isinstance(found.state[n], Dense)]
    dtypes = {n: _dtype(type_of(found.state[n])) for n in used}
    leaves = (leaf for n in used for leaf in types.leaves(type_of(found.state[n])))
    wanted = dict.fromkeys(d for d in map(_dtype, leaves) if d is not None)
    wanted |= dict.fromkeys(DTYPES[w] for w in re.findall(r"\w+", found.diagnostic.help or "") if w in DTYPES)
    blamed = _blamed(found)
    for name, own in sorted(dtypes.items(), key=lambda entry: entry[0] not in blamed):
        for target in wanted:
            if own not in (None, target) and _accepted(found, {name: _as(found.state[name], target)}):
                yield Casting(name, target)


def moved_to(value: Value, device: int) -> Type:
    """The type of a value after it was sent to a device."""
    match type_of(value):
        case TupleType(items):
            return TupleType(tuple(moved_to(item, device) for item in items))
        case TensorType(dtype, shape, _, offloaded, places):
            return TensorType(dtype, shape, device, offloaded, places)
        case _:
            return AnyType(device)


def _to_send(found: Mistake, way: Sending) -> Diagnostic:
    """The diagnostic of values on the wrong device, in terms of what is to be sent."""
    listed = ", ".join(f"`%{name}`" for name in way.names)
    said = f"insert `Send[device = {way.device}]` for {listed}"
    diagnostic, there = found.diagnostic, types.device_of(type_of(found.state[way.names[0]]))
    at = _at(found, way.names)
    if isinstance(found.statement, Call) and diagnostic.code is type_codes.BAD_CALL:
        message = f"`@{found.statement.function}` {UNFIT}: expected {listed} on device {way.device}, found {there}"
        return replace(diagnostic, site=at, message=message, help=said)
    if diagnostic.code is device_codes.DEVICE_MISMATCH and at != diagnostic.site and isinstance(found.statement, Apply):
        message = f"`{found.statement.op}` operands live on different devices: expected {way.device}, found {there}"
        others = [n for n in names(found.statement.args) if n and n not in way.names]
        stays = next((n for n in others if types.device_of(type_of(found.state[n])) == way.device), None)
        notes = () if stays is None else (Note(f"on device {way.device}", _at(found, [stays])),)
        return replace(diagnostic, site=at, message=message, notes=notes, help=said)
    return replace(diagnostic, help=said)


def _to_cast(found: Mistake, way: Casting) -> Diagnostic:
    """The diagnostic of a value of the wrong element type, in terms of what is to be cast."""
    diagnostic = found.diagnostic
    said = f"insert `Cast[to = {way.dtype}]` for `%{way.name}`"
    if isinstance(found.statement, Call) and diagnostic.code is type_codes.BAD_CALL:
        expected = f"expected {way.dtype} elements in `%{way.name}`, found {_dtype(type_of(found.state[way.name]))}"
        message = f"`@{found.statement.function}` {UNFIT}: {expected}"
        return replace(diagnostic, site=_at(found, [way.name]), message=message, help=said)
    return replace(diagnostic, help=said)


def _at(found: Mistake, wanted: Iterable[str]) -> Site:
    """Where the first operand stands that has one of these names, unless one is blamed already."""
    site, sought = found.diagnostic.site, set(wanted)
    assert isinstance(site, Site)
    if sought & _blamed(found):
        return site
    keys = (key for key, arg in enumerate(found.statement.args) if sought & set(names((arg,))))
    key = next(keys, None)
    return site if key is None else Site(site.function, site.index, Part("operand", key))


def _blamed(found: Mistake) -> set[str]:
    """The operands that the diagnostic is about."""
    part = found.diagnostic.site.part if isinstance(found.diagnostic.site, Site) else None
    if part is None or part.kind != "operand" or not isinstance(part.key, int):
        return set()
    return set(names(found.statement.args[part.key : part.key + 1]))


def _accepted(found: Mistake, instead: Mapping[str, Value]) -> bool:
    """Whether a statement's error is gone with other values for some names.

    Something else may be wrong with it still.
    """
    domain, statement = found.domain, found.statement
    values = {**found.state, **instead}

    def value(arg: Arg) -> Value:
        if isinstance(arg, tuple):
            return tuple(map(value, arg))
        return values.get(arg, UNKNOWN) if isinstance(arg, str) else domain.constant(arg)

    vs = tuple(map(value, statement.args))
    try:
        if isinstance(statement, Apply):
            if statement.op not in OPS:
                return False
            answer = domain.answer(statement, vs)
            if statement.claims:
                domain.claimed(statement, answer)
            return True
        return _is_called_well(domain, statement, vs)
    except Reject as reject:
        one_kind = (device_codes.DEVICE_MISMATCH, type_codes.DTYPE_MISMATCH)
        code = found.diagnostic.code
        return code in one_kind and reject.code in one_kind and reject.code != code


def _is_called_well(domain: Checker, call: Call, vs: Sequence[Value]) -> bool:
    """Whether a call checks for some arguments, but for what is wrong in the function itself. Raises Reject."""
    if call.function not in domain.module.functions or call.function in domain.structure.recursive:
        return False
    args = tuple(vs)
    parameters(domain.module.functions[call.function], args)
    returned = domain.instance(call.function, args).state.returned
    if call.claims and len(returned) == len(call.claims):
        domain.claimed(call, returned)
    known = {problem.site for problem in domain.own_problems(call.function)}
    return all(problem.site in known for problem in domain.problems[call.function, args])


def _as(value: Value, dtype: DType) -> Type:
    """The type of a value after it was cast."""
    found = type_of(value)
    return replace(found, dtype=dtype) if isinstance(found, TensorType) else found


def _dtype(type: Type) -> DType | None:
    return type.dtype if isinstance(type, TensorType) else None
