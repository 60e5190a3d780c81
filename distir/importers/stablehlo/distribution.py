"""The program for all devices of the mesh, as a file's annotations say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distir.importers.stablehlo.shardings import DeviceMesh, Sharding
from distir.ir import HOST, Apply, Call, Module, types
from distir.transform.sharding import WHOLE, Split, State, split_as_stated

SHOWN = 5
"""How many lines of a file a note lists."""


def distributed(
    module: Module,
    mesh: DeviceMesh,
    params: Sequence[Sharding | None],
    results: Sequence[Sharding | None],
    constraints: Mapping[str, Sharding],
) -> tuple[Module, list[str]]:
    """The program for the mesh's devices, numbered as in the mesh, and what is to be said of it.

    `constraints`: of values of the entry function. An axis after the other becomes devices, from the outermost: so the
    devices of the last one are neighbours.
    """
    entry = module.entry()
    assert entry is not None
    made = {name for s in entry.body if isinstance(s, (Apply, Call)) for name in s.results}
    made |= {p.name for p in entry.params}
    left = sorted({s.place.line for name, s in constraints.items() if name not in made})
    current = {name: (s, (name,)) for name, s in constraints.items() if name in made}
    given, wanted = [*params], [*results]
    for axis, size in mesh.axes.items():
        if size == 1:
            continue
        entry = module.entry()
        assert entry is not None
        single = [types.device_of(p.type) == HOST for p in entry.params]
        values = {name: _state(s, axis) for s, names in current.values() for name in names}
        states = [_state(s, axis) for s in given]
        module, called = split_as_stated(
            module, size, states, [None if s is None else _state(s, axis) for s in wanted], values
        )
        given = [s for s, one in zip(given, single, strict=True) for _ in range(1 if one else size)]
        wanted = [s for s in wanted for _ in range(size)]
        current = {
            name: (s, tuple(new for old in names for new in called.get(old, ())))
            for name, (s, names) in current.items()
        }
    notes: list[str] = []
    if left:
        notes.append(f"constraints on values inside what became one op are left out: {_lines(left)}")
    free = [
        p.name for p, s in zip(module.functions[f"{_name(module)}.scatter"].params, params, strict=True) if s is None
    ]
    if free:
        more = f" and {len(free) - SHOWN} more" if len(free) > SHOWN else ""
        listed = ", ".join(f"`%{name}`" for name in free[:SHOWN])
        notes.append(f"{listed}{more} have no sharding: each device has all of it; annotate them to split them")
    return module, notes


def _name(module: Module) -> str:
    entry = module.entry()
    assert entry is not None
    return entry.name


def _lines(numbers: Sequence[int]) -> str:
    listed = ", ".join(str(number) for number in numbers[:SHOWN])
    return f"line{'s' if len(numbers) > 1 else ''} {listed}" + (
        f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    )


def _state(sharding: Sharding | None, axis: str) -> State:
    dim = None if sharding is None else sharding.along(axis)
    return WHOLE if dim is None else Split(dim)
