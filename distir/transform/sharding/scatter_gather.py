"""`@main.scatter` and `@main.gather` of a distributed module.

`.scatter` maps sequential parameters to distributed ones, `.gather` distributed results to sequential ones. If the
module was distributed already, they are composed with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Arg,
    Attributes,
    Call,
    Device,
    Function,
    Literal,
    Module,
    Return,
    Statement,
    TensorType,
    TupleType,
    Type,
    operands,
    results,
    types,
)
from distir.ir import names as names_of
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import substituted
from distir.ops import Value, type_of
from distir.ops.group import GROUPED
from distir.ops.layout import Shared
from distir.placement.along import WHOLE, Nested, OwnedBy, Split, State, is_host, is_whole, is_zigzag
from distir.placement.part_types import part_of
from distir.transform.sharding.items import at_rank, moved_attributes
from distir.transform.sharding.mesh import IN_ORDER, Mesh, Order
from distir.transform.sharding.reshard import block_sizes


def scatter(module: Module, entry: Function, states: Sequence[State], mesh: Mesh) -> Function:
    """The function that scatters the entry function's parameters, in these states."""
    before = module.functions.get(f"{entry.name}.scatter")
    f = FunctionBuilder(f"{entry.name}.scatter")
    names: Sequence[Arg] = [p.name for p in entry.params]
    if before is None:
        for param in entry.params:
            f.param(param.name, at_rank(param.type, mesh, 0), **param.roles)
    else:
        names = _copy(f, before, mesh)
    given: list[Arg] = []
    for param, name, state in zip(entry.params, names, states, strict=True):
        given += [name] if is_host(param.type) else _spread(f, param.name, name, param.type, state, mesh.of(param.type))
    return f.returns(*given)


def gather(
    module: Module, entry: Function, written: Function, values: Sequence[Value], states: Sequence[State], mesh: Mesh
) -> Function:
    """The function that gathers the results of the entry function `written`, in these states."""
    after = module.functions.get(f"{entry.name}.gather")
    f = FunctionBuilder(f"{entry.name}.gather")
    joined: list[Callable[[], Arg]] = []
    hints = _hints(entry)
    for hint, arg, value, state in zip(hints, entry.returned, values, states, strict=True):
        if isinstance(arg, Literal):
            f.param(hint, type_of(value))
            joined.append(lambda arg=arg: arg)
        elif is_host(value):
            name = f.param(hint, type_of(value))
            joined.append(lambda name=name: name)
        else:
            own = mesh.of(type_of(value))
            here = part_of(type_of(value), state, own.size)
            ranks = own.having(state)
            names = [hint] if mesh.representative else [f"{hint}_{rank + 1}" for rank in ranks]
            each = [at_rank(own.held(here, state, rank), mesh, rank) for rank in ranks]
            parts = [f.param(name, held) for name, held in zip(names, each, strict=True)]
            joined.append(
                lambda hint=hint, parts=parts, value=value, state=state, own=own: _join(
                    f, hint, parts, type_of(value), state, own
                )
            )
    found = [join() for join in joined]
    if after is None:
        return f.returns(*found)
    returned = _copy(f, after, mesh, found)
    f.body[:] = _used(f.body, returned)
    return f.returns(*returned)


def _used(body: Sequence[Statement], returned: Sequence[Arg]) -> list[Statement]:
    """The statements with used results: of copies, only one is gathered."""
    wanted = set(names_of(returned))
    kept: list[Statement] = []
    for statement in reversed(body):
        if wanted.intersection(results(statement)):
            wanted.update(names_of(operands(statement)))
            kept.append(statement)
    return kept[::-1]


def _spread(f: FunctionBuilder, hint: str, arg: Arg, type: Type, state: State, mesh: Mesh) -> list[Arg]:
    """Write one value for each device, from a value on the first one."""
    if isinstance(type, TensorType) and type.offloaded:
        (here,) = f.apply("Fetch", arg, results=(f"{hint}_here",))
        spread = _spread(f, hint, here, replace(type, offloaded=False), state, mesh)
        return [f.apply("Offload", part, results=(f"{part}_there",))[0] for part in spread]
    devices = mesh.group(_device(type, mesh))
    parts = (f"{hint}_1",) if mesh.representative else tuple(f"{hint}_{rank + 1}" for rank in range(mesh.size))
    if is_whole(state):
        return [arg] if mesh.representative else [*f.apply("MPIBroadcast", arg, results=parts, devices=devices)]
    if isinstance(state, tuple):
        assert isinstance(type, TupleType)
        items = f.apply("UnpackTuple", arg, results=tuple(f"{hint}_{k}" for k in range(len(state))))
        spread = [
            dict(zip(mesh.having(s), _spread(f, item, item, t, s, mesh), strict=True))
            for item, t, s in zip(items, type.items, state, strict=True)
        ]
        of_each = ([own[rank] for own in spread if rank in own] for rank in mesh.having(state))
        names = (parts[rank] for rank in mesh.having(state))
        return [f.apply("MakeTuple", *of, results=(part,))[0] for part, of in zip(names, of_each, strict=True)]
    if isinstance(state, Nested):
        return _spread_along(f, hint, arg, devices, state, mesh)
    assert isinstance(state, Split)
    if not state.blocks:
        return _scattered(f, hint, arg, parts, devices, state, mesh)
    blocks = _blocks(f, hint, arg, state, 1)
    spread = [
        _scattered(f, name, name, (f"{name}_part",) * mesh.ranks, devices, state, mesh)
        if not isinstance(block, Shared)
        else (name,)
        if mesh.representative
        else f.apply("MPIBroadcast", name, results=(f"{name}_copy",) * mesh.size, devices=devices)
        for name, block in zip(blocks, state.blocks, strict=True)
    ]
    rows = zip(*spread, strict=True)
    return [*(f.apply("Concat", *row, results=(p,), axis=state.axis)[0] for p, row in zip(parts, rows, strict=True))]


def _scattered(
    f: FunctionBuilder, hint: str, arg: Arg, parts: tuple[str, ...], devices: tuple[int, ...], state: Split, mesh: Mesh
) -> list[Arg]:
    """Write the parts of a value, one for each device in the program."""
    axis = state.axis
    whole = _ordered(f, hint, arg, axis, _order(state, mesh).all(mesh.size))
    if mesh.representative:
        own = (*parts, *(DISCARD,) * (mesh.size - 1))
        found = f.apply("Split", whole, results=own, axis=axis, num_outputs=mesh.size, stride=mesh.run)
        return [found[0]]
    return [*f.apply("MPIScatter", whole, results=parts, devices=devices, axis=axis)]


def _order(state: State, mesh: Mesh) -> Order:
    """Which parts a device has of a value in this state."""
    return Order(is_zigzag(state)) if mesh.order == IN_ORDER else mesh.order


def _join(f: FunctionBuilder, hint: str, parts: Sequence[str], type: Type, state: State, mesh: Mesh) -> Arg:
    """Write the value on the first device of which the devices hold parts or copies."""
    if is_whole(state):
        return parts[0]
    if isinstance(type, TensorType) and type.offloaded:
        here = [f.apply("Fetch", part, results=(f"{part}_here",))[0] for part in parts]
        whole = _join(f, hint, here, replace(type, offloaded=False), state, mesh)
        return f.apply("Offload", whole, results=(f"{hint}_there",))[0]
    root = mesh.device(_device(type, mesh), 0)
    if isinstance(state, tuple):
        assert isinstance(type, TupleType)
        items: list[list[str]] = [[] for _ in state]
        for rank, part in zip(mesh.having(state), parts, strict=True):
            held = [k for k, own in enumerate(state) if rank in mesh.having(own)]
            for k, item in zip(
                held, f.apply("UnpackTuple", part, results=tuple(f"{part}_{k}" for k in held)), strict=True
            ):
                items[k].append(item)
        rows = zip(items, type.items, state, strict=True)
        joined = [_join(f, f"{hint}_{k}", row, t, s, mesh) for k, (row, t, s) in enumerate(rows)]
        return f.apply("MakeTuple", *joined, results=(hint,))[0]
    if isinstance(state, Nested):
        return _join_along(f, hint, parts, mesh.group(_device(type, mesh)), state, mesh)
    assert isinstance(state, Split)
    if not state.blocks:
        return _gathered(f, hint, parts, root, state, mesh)
    columns = [_blocks(f, part, part, state, mesh.size) for part in parts]  # of each device in the program
    joined = [
        row[0] if isinstance(block, Shared) else _gathered(f, f"{hint}_block", row, root, state, mesh)
        for *row, block in zip(*columns, state.blocks, strict=True)
    ]
    return f.apply("Concat", *joined, results=(hint,), axis=state.axis)[0]


def _gathered(f: FunctionBuilder, hint: str, parts: Sequence[str], root: int, state: Split, mesh: Mesh) -> str:
    """Write the parts of all devices, in order, on the device `root`."""
    order, axis = _order(state, mesh), state.axis
    if mesh.representative:
        group = GROUPED["MPIAllgather"].name
        every = f.apply(group, *parts, results=(hint,), size=mesh.size, stride=mesh.run, axis=axis)[0]
    else:
        every = f.apply("MPIGather", *parts, results=(hint,), root=root, axis=axis)[0]
    return str(_in_order(f, hint, every, axis, order, mesh.size))


def _spread_along(
    f: FunctionBuilder, hint: str, arg: Arg, devices: Sequence[int], state: Nested, mesh: Mesh
) -> list[Arg]:
    """Write one value for each device, from a value on the first one: along one factor after the other."""
    held: dict[int, Arg] = {0: arg}
    for k, own, size in state.cuts:
        if isinstance(own, OwnedBy):
            held = {rank + (own.number - 1) * mesh.inner(k): part for rank, part in held.items()}
            for rank in held if own.number > 1 else ():
                held[rank] = f.apply("Send", held[rank], results=(f"{hint}_owned",), device=devices[rank])[0]
            continue
        ranks = {rank: _ranks_along(rank, k, 1 if mesh.representative else size, mesh) for rank in held}
        spread = {
            rank: _spread_of(f, hint, held[rank], own, size, [devices[to] for to in along], k, mesh)
            for rank, along in ranks.items()
        }
        held = {to: part for rank, along in ranks.items() for to, part in zip(along, spread[rank], strict=True)}
    return [held[rank] for rank in sorted(held)]


def _ranks_along(rank: int, factor: int, size: int, mesh: Mesh) -> range:
    """The ranks along a factor, from the first of them."""
    return range(rank, rank + size * mesh.inner(factor), mesh.inner(factor))


def _spread_of(
    f: FunctionBuilder, hint: str, arg: Arg, own: State, size: int, devices: Sequence[int], k: int, mesh: Mesh
) -> Sequence[Arg]:
    """Write a part or a copy of a value for each device along a factor, of which the first has the value."""
    if size == 1:
        return [arg]
    names = tuple(f"{hint}_part" for _ in devices)
    if not isinstance(own, Split):
        return [arg] if mesh.representative else f.apply("MPIBroadcast", arg, results=names, devices=tuple(devices))
    rows: list[Sequence[Arg]] = []
    for block, of in zip(_blocks(f, hint, arg, own, 1) if own.blocks else (arg,), own.blocks or (None,), strict=True):
        if isinstance(of, Shared):
            rows.append(_spread_of(f, hint, block, WHOLE, size, devices, k, mesh))
            continue
        whole = _ordered(f, hint, block, own.axis, Order(own.zigzag).all(size))
        if mesh.representative:
            cut = {"axis": own.axis, "num_outputs": size, "stride": mesh.run * mesh.inner(k)}
            rows.append(f.apply("Split", whole, results=(*names, *(DISCARD,) * (size - 1)), **cut)[:1])
        else:
            rows.append(f.apply("MPIScatter", whole, results=names, devices=tuple(devices), axis=own.axis))
    if len(rows) == 1:
        return rows[0]
    return [f.apply("Concat", *row, results=names[:1], axis=own.axis)[0] for row in zip(*rows, strict=True)]


def _join_along(
    f: FunctionBuilder, hint: str, parts: Sequence[str], devices: Sequence[int], state: Nested, mesh: Mesh
) -> Arg:
    """Write the value of which the devices hold parts, on the first of them: along one factor after the other."""
    held: dict[int, Arg] = dict(zip(mesh.having(state), parts, strict=True))
    for k, own, size in reversed(state.cuts):
        if isinstance(own, OwnedBy):
            held = {rank - (own.number - 1) * mesh.inner(k): part for rank, part in held.items()}
            for rank in held if own.number > 1 else ():
                held[rank] = f.apply("Send", held[rank], results=(f"{hint}_first",), device=devices[rank])[0]
            continue
        count = 1 if mesh.representative else size
        firsts = [rank for rank in held if mesh.coordinate(rank, (k,)) == 0]
        held = {
            rank: _joined(
                f, hint, [held[r] for r in _ranks_along(rank, k, count, mesh)], own, size, devices[rank], k, mesh
            )
            for rank in firsts
        }
    return held[0]


def _joined(
    f: FunctionBuilder, hint: str, parts: Sequence[Arg], own: State, size: int, root: int, k: int, mesh: Mesh
) -> Arg:
    """Write the value of which devices along a factor hold parts or copies, on the first of them."""
    if not isinstance(own, Split) or size == 1:
        return parts[0]
    columns = [_blocks(f, hint, part, own, size) if own.blocks else (part,) for part in parts]
    blocks: list[Arg] = []
    for *row, of in zip(*columns, own.blocks or (None,), strict=True):
        if isinstance(of, Shared):
            blocks.append(row[0])
            continue
        if mesh.representative:
            group = {"size": size, "stride": mesh.run * mesh.inner(k), "axis": own.axis}
            (every,) = f.apply(GROUPED["MPIAllgather"].name, *row, results=(f"{hint}_block",), **group)
        else:
            (every,) = f.apply("MPIGather", *row, results=(f"{hint}_block",), root=root, axis=own.axis)
        blocks.append(_in_order(f, hint, every, own.axis, Order(own.zigzag), size))
    return blocks[0] if len(blocks) == 1 else f.apply("Concat", *blocks, results=(f"{hint}_whole",), axis=own.axis)[0]


def _in_order(f: FunctionBuilder, hint: str, every: Arg, axis: int, order: Order, size: int) -> Arg:
    """Write what is gathered of devices in the order of the whole."""
    parts = order.all(size)
    return _ordered(f, hint, every, axis, [parts.index(part) for part in range(len(parts))])


def _ordered(f: FunctionBuilder, hint: str, arg: Arg, axis: int, parts: Sequence[int]) -> Arg:
    """Write a permutation of a value's parts along an axis."""
    if [*parts] == [*range(len(parts))]:
        return arg
    runs = f.apply("Split", arg, results=(f"{hint}_run",) * len(parts), axis=axis, num_outputs=len(parts))
    return f.apply("Concat", *(runs[part] for part in parts), results=(f"{hint}_ordered",), axis=axis)[0]


def _blocks(f: FunctionBuilder, hint: str, arg: Arg, state: Split, parts: int) -> tuple[str, ...]:
    args, attrs = block_sizes(arg, state, parts)
    names = tuple(f"{hint}_block" for _ in state.blocks)
    return f.apply("Split", *args, results=names, **attrs)


def _copy(f: FunctionBuilder, function: Function, mesh: Mesh, args: Sequence[Arg] | None = None) -> tuple[Arg, ...]:
    """Append the body of a function, on the first device of each group; returns its results.

    Without arguments, its parameters are added to `f`.
    """
    if args is None:
        args = [f.param(p.name, at_rank(p.type, mesh, 0), **p.roles) for p in function.params]
    names: dict[str, Arg] = {p.name: arg for p, arg in zip(function.params, args, strict=True)}
    moved: dict[tuple[str, Attributes], Attributes] = {}

    for statement in function.body:
        args = substituted(operands(statement), names)
        if isinstance(statement, Return):
            return args
        assert isinstance(statement, (Apply, Call))
        given = tuple([name and f.fresh(name) for name in statement.results])
        names.update(zip(statement.results, given, strict=True))
        if isinstance(statement, Call):
            f.body.append(Call(given, statement.function, args, stream=statement.stream))
            continue
        form = statement.op, statement.attrs
        attrs = moved.get(form)
        if attrs is None:
            attrs = moved[form] = moved_attributes(*form, mesh, 0)
        f.body.append(Apply(given, statement.op, args, attrs, stream=statement.stream))
    return ()


def _device(type: Type, mesh: Mesh) -> int:
    device: Device = types.device_of(type)
    return mesh.first if device is None or device == HOST else device


def _hints(entry: Function) -> list[str]:
    """A name for each result."""
    return [arg if isinstance(arg, str) else "result" for arg in entry.returned]


__all__ = ["WHOLE", "TensorType", "gather", "scatter"]
