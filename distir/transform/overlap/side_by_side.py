"""Lines up what several devices do: statements at one place in the order of each of their devices stand together.

So whatever goes through a function statement by statement treats devices that do the same alike, as it treats the one
device that represents them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distir.ir import DISCARD, HOST, Apply, Device, Return, Statement, names, operands, results, types
from distir.ops import Value, type_of


def lined_up(values: Mapping[str, Value], body: Sequence[Statement]) -> list[Statement]:
    """The statements, each device's in their order. `values`: by name."""
    return [statement for row in rows(values, body) for statement in row]


def rows(values: Mapping[str, Value], body: Sequence[Statement]) -> list[list[Statement]]:
    """The statements by their place in the order of each of their devices. `values`: by name."""
    reached: dict[Device, int] = {}
    made: dict[str, int] = {}
    places: list[int] = []
    for statement in body:
        used = {*names(operands(statement))}
        defined = [name for name in results(statement) if name != DISCARD]
        on = {device for name in (*used, *defined) for device in _devices(values[name])}
        place = max((reached.get(device, 0) for device in on), default=0)
        place = max([place, *(made.get(name, 0) for name in used)])
        made.update(dict.fromkeys(defined, place))
        reached.update(dict.fromkeys(on, place + 1))
        places.append(len(body) if isinstance(statement, Return) else place)
    found: dict[int, list[Statement]] = {}
    for place, statement in zip(places, body, strict=True):
        found.setdefault(place, []).append(statement)
    return [found[place] for place in sorted(found)]


def side_by_side(
    values: Mapping[str, Value], body: Sequence[Statement], stream: str, *, apart: bool
) -> Iterator[list[Statement]]:
    """The statements; adjacent ones on the stream with one op are together; if `apart`, those on different devices."""
    together: list[Apply] = []
    taken: set[Device] = set()
    for statement in body:
        if not isinstance(statement, Apply) or statement.stream != stream:
            if together:
                yield [*together]
            together, taken = [], set()
            yield [statement]
            continue
        on = {device for name in names(statement.args) for device in _devices(values[name])}
        alike = together and (together[0].op, together[0].attrs) == (statement.op, statement.attrs)
        if together and not (alike and (not apart or taken.isdisjoint(on))):
            yield [*together]
            together, taken = [], set()
        together.append(statement)
        taken |= on
    if together:
        yield [*together]


def _devices(value: Value) -> set[Device]:
    """The devices of a value; None, the only one of a function that names none, is one of them."""
    return {leaf.device for leaf in types.leaves(type_of(value)) if leaf.device != HOST}
