"""Finds the state that a data-parallel program replicates: weights, their gradients, and optimizer state.

By data flow: a gradient is a sum over devices that only updates use, of weights that `@main.scatter` copies from one
value. Facts say which weight a sum is of, but not whether something else needs it whole, nor which copies are equal.
Independent of the partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import (
    Apply,
    Arg,
    Attributes,
    Call,
    Constant,
    Function,
    Literal,
    Module,
    Part,
    Return,
    Site,
    TensorType,
    Type,
    names,
    types,
)
from distir.ir.dataflow import uses
from distir.ops import OPS
from distir.ops.group import GROUPED
from distir.transform.entry import refused
from distir.transform.sharding.mesh import DEVICE_ATTRIBUTES

NORM = "SquaredNorm"
"""The op that computes the squared norm of a gradient; it also applies to parts."""

ASSIGN = "Assign"
"""The op that writes a value into a weight's memory: the cast master weight, or the weight that its owner sends."""

SUMS = ("MPIAllreduce", GROUPED["MPIAllreduce"].name)
"""The ops that sum gradients over devices, or over the devices that one represents."""

COPYING = frozenset({"MPIBroadcast", "Send"})
"""Ops that copy their operand to another device or tuple."""


@dataclass(frozen=True, slots=True)
class OptimizerState:
    """A tensor of a weight's optimizer state: parameters of the entry function and their new values, by replica."""

    params: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """Devices that hold the same values. `stride`: set if the program has only the first of `size` devices, for all.

    `devices`: those in the program.
    """

    devices: tuple[int, ...]
    size: int
    stride: int | None = None

    @classmethod
    def of(cls, devices: tuple[int, ...], reduce: Apply) -> ReplicaGroup:
        """The devices over which a statement sums, given those of its operands."""
        size, stride = reduce.attrs.get("size"), reduce.attrs.get("stride", 1)
        if reduce.op == SUMS[0] or not isinstance(size, int) or not isinstance(stride, int):
            return cls(devices, len(devices))
        return cls(devices, size, stride)

    def collective(self, op: str, results: Sequence[str], args: Sequence[str], **attrs: Constant) -> Apply:
        """A collective over them, of one value per device in the program."""
        if self.stride is not None:
            op, attrs = GROUPED[op].name, {**attrs, "size": self.size, "stride": self.stride}
        return Apply(tuple(results), op, tuple(args), Attributes(attrs))


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """One weight on all of its data-parallel devices; every tuple has one item per replica in the program."""

    type: Type
    """The type of the weight on the first device."""
    replicas: ReplicaGroup
    weights: tuple[str, ...]
    gradients: tuple[str, ...]
    """The gradient of each replica, for its part of the batch."""
    sums: tuple[str, ...]
    """The sum of the gradients, on each device."""
    reduce: int
    """The statement that sums them."""
    updates: tuple[int, ...]
    """The statements that use the gradients: they update the weights, or their master weights."""
    writes: tuple[int, ...]
    """The statements that define the updated weights: the updates, or casts of the master weights."""
    new: tuple[str, ...]
    """The updated weights."""
    kept: tuple[OptimizerState, ...]

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices of the replicas in the program."""
        return self.replicas.devices


def groups_of(module: Module, entry: Function, kind: str, shard: int = 0) -> list[WeightGroup]:
    """The weights that data-parallel devices replicate and that are to be partitioned, in the order of the parameters.

    `entry` is the module's entry function, or an equivalent one. If one device represents all replicas, its weights
    represent theirs. `kind` and `shard` are the step's `partition` and `shard`: with `split`, vectors without equal
    parts are replicated, being small, unless there is nothing else. Raises ProgramError if there are none,
    or if every device needs a whole gradient.
    """
    scatter = module.functions.get(f"{entry.name}.scatter")
    if any("replicas" in p.roles for p in entry.params):
        origins = {p.name: p.name for p in entry.params if types.devices(p.type)}
    elif scatter is not None:
        origins = _origins(entry, scatter)
        batches = [origins[p.name] for p in entry.params if "batch" in p.roles and p.name in origins]
        if not any(map(_is_scattered, batches)):
            raise _no_groups(entry)
    else:
        raise _no_groups(entry)
    returned = Counter(names(entry.returned))
    weights = {p.name: p.type for p in entry.params if p.name in origins and "buffer" not in p.roles}
    found: list[WeightGroup] = []
    for index, statement in enumerate(entry.body):
        if isinstance(statement, Apply) and statement.op in SUMS:
            group = _group(entry, returned, origins, weights, index, statement)
            found += [] if group is None else [group]
    if not found:
        raise _no_updates(entry) if weights else _no_groups(entry)
    if kind == "split":
        found = [group for group in found if not _is_indivisible_vector(group, shard)] or found
    order = {param.name: place for place, param in enumerate(entry.params)}
    return sorted(found, key=lambda group: order[group.weights[0]])


def _is_indivisible_vector(group: WeightGroup, shard: int) -> bool:
    shape = group.type.shape if isinstance(group.type, TensorType) else None
    if shape is None or len(shape) != 1:
        return False
    (size,) = shape
    return not isinstance(size, int) or size % (shard or group.replicas.size) != 0


def _group(
    entry: Function,
    returned: Mapping[str, int],
    origins: Mapping[str, Hashable],
    weights: Mapping[str, Type],
    index: int,
    reduce: Apply,
) -> WeightGroup | None:
    """The weight whose gradient a statement sums; None if it sums something else, or gradients of several weights."""
    gradients = tuple(arg for arg in reduce.args if isinstance(arg, str))
    users = [uses(entry).get(name, ()) for name in reduce.results]
    updates: list[int] = []
    for name, places in zip(reduce.results, users, strict=True):
        updating = [i for i in places if updated_by(entry, i, name) in weights]
        others = [i for i in places if i not in updating and not takes_norm(entry, i)]
        if updating and (others or len(updating) > 1):
            raise needed_whole(entry, (others or updating[1:])[0], name)
        updates += updating
    if len(updates) != len(users) or len(gradients) != len(users):
        return None
    masters = [entry.body[i] for i in updates]
    writes = [_assigned(entry, s, weights) for s in masters if isinstance(s, Apply)]
    has_masters = bool(writes) and all(i is not None for i in writes)
    written = [i for i in writes if i is not None] if has_masters else updates
    statements = [s for i in updates if isinstance(s := entry.body[i], Apply)]
    writing = [s for i in written if isinstance(s := entry.body[i], Apply)]
    copies = tuple(s.args[0] for s in writing if isinstance(s.args[0], str))
    devices = tuple(d for name in copies if (d := types.device_of(weights[name])) is not None)
    alike = len({(s.op, s.attrs) for s in statements}) == 1 and len({origins[name] for name in copies}) == 1
    if not alike or len(set(devices)) != len(users):
        return None
    new = tuple(s.results[0] for s in writing)
    kept = tuple(
        _kept(entry, origins, updates, operand, result, {*written} if result == 0 else set())
        for result, operand in in_place(statements[0].op).items()
        if result or has_masters
    )
    _check_returned(entry, returned, [new, *(k.results for k in kept)])
    return WeightGroup(
        weights[copies[0]],
        ReplicaGroup.of(devices, reduce),
        copies,
        gradients,
        reduce.results,
        index,
        tuple(updates),
        tuple(written),
        new,
        kept,
    )


def takes_norm(entry: Function, index: int) -> bool:
    """Whether a statement computes the squared norm of a gradient, which also applies to parts."""
    statement = entry.body[index]
    return isinstance(statement, Apply) and statement.op == NORM


def _assigned(entry: Function, update: Apply, weights: Mapping[str, Type]) -> int | None:
    """The statement that casts the updated master weight to the weight; None without a master weight."""
    for index in uses(entry).get(update.results[0], ()):
        statement = entry.body[index]
        if isinstance(statement, Apply) and statement.op == ASSIGN and statement.args[1] == update.results[0]:
            return index if statement.args[0] in weights else None
    return None


def in_place(op: str) -> Mapping[int, int]:
    """By result of an update op: the operand in whose memory it is written; empty for other ops."""
    inplace = OPS[op].inplace if op in OPS else None
    return inplace if inplace is not None and inplace != "each" and inplace.get(0) == 0 else {}


def updated_by(entry: Function, index: int, gradient: str) -> str:
    """The value that a statement updates with a gradient; empty if it is no update."""
    statement = entry.body[index]
    if not isinstance(statement, Apply) or not in_place(statement.op) or statement.args[1:2] != (gradient,):
        return ""
    return statement.args[0] if isinstance(statement.args[0], str) else ""


def _kept(
    entry: Function,
    origins: Mapping[str, Hashable],
    updates: Sequence[int],
    operand: int,
    result: int,
    users: Collection[int],
) -> OptimizerState:
    """`users`: the statements, besides the `return`, that may use the new value."""
    params: list[str] = []
    results: list[str] = []
    for index in updates:
        statement = entry.body[index]
        assert isinstance(statement, Apply)
        arg = statement.args[operand]
        if not isinstance(arg, str) or arg not in origins or len(uses(entry)[arg]) > 1:
            raise needed_whole(entry, index, arg if isinstance(arg, str) else statement.results[result])
        params.append(arg)
        results.append(statement.results[result])
        check_unused(entry, statement.results[result], users)
    if len({origins[name] for name in params}) > 1:
        raise needed_whole(entry, updates[0], params[0])
    return OptimizerState(tuple(params), tuple(results))


def _check_returned(entry: Function, returned: Mapping[str, int], results: Sequence[Sequence[str]]) -> None:
    """Every replica must return its copy, or none: the partition, which is chosen later, decides which one remains."""
    for copies in results:
        counts = {name: returned.get(name, 0) for name in copies}
        if len(set(counts.values())) > 1:
            raise needed_whole(entry, len(entry.body) - 1, max(counts, key=lambda name: counts[name]))


def check_unused(entry: Function, name: str, users: Collection[int] = ()) -> None:
    """Raise ProgramError where another statement than the `return`, or one of `users`, mentions a value."""
    others = [i for i in uses(entry).get(name, ()) if i != len(entry.body) - 1 and i not in users]
    if others:
        raise needed_whole(entry, others[0], name)


# What `@main.scatter` says of the parameters: equal origins are equal values.


def _origins(entry: Function, scatter: Function) -> dict[str, Hashable]:
    found: dict[str, Hashable] = {p.name: p.name for p in scatter.params}

    def origin(arg: Arg) -> Hashable:
        if isinstance(arg, str):
            return found[arg]
        return arg if isinstance(arg, Literal) else tuple(map(origin, arg))

    for statement in scatter.body:
        if not isinstance(statement, (Apply, Call)):
            continue
        given = tuple(map(origin, statement.args))
        if isinstance(statement, Apply) and statement.op in COPYING:
            found.update(dict.fromkeys(statement.results, given[0]))
            continue
        what: Hashable = statement.function if isinstance(statement, Call) else (statement.op, _lasting(statement))
        found.update({name: (what, place, given) for place, name in enumerate(statement.results)})
    pairs = zip(entry.params, scatter.returned, strict=True)
    return {p.name: origin(arg) for p, arg in pairs if types.devices(p.type)}


def _lasting(statement: Apply) -> Hashable:
    """The attributes without those that name devices."""
    return frozenset((name, str(value)) for name, value in statement.attrs.items() if name not in DEVICE_ATTRIBUTES)


def _is_scattered(origin: Hashable) -> bool:
    if not isinstance(origin, tuple):
        return False
    parts = cast("tuple[Hashable, ...]", origin)
    return parts[:1] == ("MPIScatter",) or any(map(_is_scattered, parts))


def _no_groups(entry: Function) -> ProgramError:
    message = f"`@{entry.name}` has no weights that data-parallel devices hold copies of and update"
    hint = "apply `dp=` to a training step first: `dp=4 zero=2`"
    return refused(entry, codes.NO_DATA_PARALLEL_GROUP, message, hint)


def _no_updates(entry: Function) -> ProgramError:
    """The error for a replicated program that returns results or gradients, but no new weights."""
    updates = "op of an optimizer (`SGD`, `Momentum`, `Adam`)"
    message = f"no {updates} updates a weight of `@{entry.name}`, so nothing can be partitioned"
    hint = "apply `grad` before `dp`, to the program that gives the loss: `grad optimizer=adam dp=4 zero=2`"
    return refused(entry, codes.NO_DATA_PARALLEL_GROUP, message, hint)


def unequal(entry: Function, weight: str, replicas: ReplicaGroup) -> ProgramError:
    """The error if one replica represents all although they hold unequal parts of a weight."""
    site = next(Site(entry.name, None, Part("param_type", i)) for i, p in enumerate(entry.params) if p.name == weight)
    message = f"{replicas.size} replicas would hold different parts of `%{weight}`, so none can represent all"
    hint = "`partition=split` makes parts equal where a dimension divides; or leave out `representative=true`"
    return ProgramError([Diagnostic(codes.NOT_PARTITIONABLE, site, message, (), hint)])


def needed_whole(entry: Function, index: int, name: str) -> ProgramError:
    """The error if a value to partition is needed whole, located at the statement that needs it."""
    statement = entry.body[index]
    where = "the result" if isinstance(statement, Return) else "this statement"
    message = f"{where} needs `%{name}` whole on its device, so it cannot be partitioned"
    return ProgramError([Diagnostic(codes.NOT_PARTITIONABLE, Site(entry.name, index), message)])
