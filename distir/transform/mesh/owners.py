"""Owners: which of the devices that would have the same of a parameter stores it whole, so that loads are balanced.

A weight, its optimizer state and its gradient have one owner, which updates it alone. So an update may need all of a
matrix, as Muon's and Adafactor's, without communication (Rajbhandari et al., *ZeRO*, 2020, partition by parameters).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from distir.ir import HOST, Apply, Function, TensorType, types
from distir.placement.along import OwnedBy, State
from distir.transform.mesh.wanted import is_update

PARTITIONS = ("split", "owner")
"""How replicas partition state: each parameter in parts, or each whole on one device."""


def owners(entry: Function, sources: Sequence[str], over: Sequence[Mapping[str, int]]) -> list[dict[str, State]]:
    """By parameter: the owner of the weight that it is of, or is, as a state along the axes over which it is stored.

    State of no weight, as the number of a step, the scale of a loss, or what scales are found of, has none.

    `sources`: of which parameter of the sequential program each is. `over`: these axes, with their sizes. The largest
    weights are given to the devices that have least.
    """
    of = _weights(entry)
    keys = [of.get(source, source) for source in sources]
    members: dict[str, list[int]] = {}
    for number, (key, param) in enumerate(zip(keys, entry.params, strict=True)):
        if key not in of.values() and "param" not in param.roles:
            continue
        members.setdefault(key, []).append(number)
    sizes = {key: _bytes(entry, numbers) for key, numbers in members.items()}
    loads: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    found: list[dict[str, State]] = [{} for _ in entry.params]
    for key in sorted(members, key=lambda key: -sizes[key]):
        axes = over[members[key][0]]
        device = types.device_of(entry.params[members[key][0]].type)
        held = loads.setdefault((device, *axes.items()), [(0, 0)] * math.prod(axes.values()))
        rank = min(range(len(held)), key=lambda r: held[r])
        held[rank] = held[rank][0] + sizes[key], held[rank][1] + 1
        for number in members[key]:
            found[number] = _at(rank, axes)
    return found


def _weights(entry: Function) -> dict[str, str]:
    """By parameter that an update takes: the first parameter that this replaces, a weight or what it is kept in.

    What updates of several weights take, as the number of a step, is of none.
    """
    given = {p.name for p in entry.params if types.device_of(p.type) != HOST}
    numbers = {p.name for p in entry.params if isinstance(p.type, TensorType) and not p.type.shape}
    found: dict[str, str] = {}
    made: dict[str, str] = {}
    shared: set[str] = set()
    for statement in entry.body:
        if not isinstance(statement, Apply) or not is_update(statement):
            continue
        replaced, by, *rest = (arg if isinstance(arg, str) else "" for arg in statement.args)
        weight = found.get(made.get(by, replaced), made.get(by, replaced))
        if weight in numbers:
            continue
        for arg in given.intersection((replaced, *rest)):
            if found.setdefault(arg, weight) != weight:
                shared.add(arg)
        made[statement.results[0]] = weight
    return {arg: weight for arg, weight in found.items() if arg not in shared}


def _bytes(entry: Function, numbers: Sequence[int]) -> int:
    """The bytes of a weight, or of what else is stored."""
    sizes = [(("param" in entry.params[n].roles), types.nbytes(entry.params[n].type)) for n in numbers]
    return max(((is_weight, size) for is_weight, size in sizes if isinstance(size, int)), default=(False, 0))[1]


def _at(rank: int, axes: Mapping[str, int]) -> dict[str, State]:
    """The owner of this rank, along each of the axes, of which the first is outermost."""
    found: dict[str, State] = {}
    for axis, size in reversed([*axes.items()]):
        rank, number = divmod(rank, size)
        found[axis] = OwnedBy(number + 1)
    return found
