"""Kernels: the cost and the memory of a call of a function that runs as one kernel, with one launch.

Its FLOPs are those of its ops, each at the rate of its element type. Its traffic is its operands and results, each
once, since intermediate values stay on the chip; never more than its ops move one by one (some read little of an
operand). It allocates its results alone. A result that is an operand, or a view of one, shares its memory. A result may
be donated an operand's memory where ops of the body write in place, or where both have the same size and the operand is
read element by element or row by row in the loop's order: then an element has been read before it is overwritten, as in
the buffers that torch.compile reuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from distir.analysis import Checker, State, lookup
from distir.ir import Apply, Arg, DType, Function, Return, TensorType, Type, names, types
from distir.ops import Value, Work, type_of
from distir.ops.devices import devices_of
from distir.ops.loops import kind_of, place_by_place, rows_of
from distir.simulate.effects import Effect, Effects, to_ticks
from distir.simulate.leaves import NO_STORAGE, Leaves, leaves_of, name_results


@dataclass(frozen=True)
class Kernel:
    """A call of a kernel; `partition`: which leaves of its operands share memory (`leaves.canonical`)."""

    function: Function
    args: tuple[Arg, ...]
    partition: Leaves

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.name

    @property
    def same(self) -> object:
        """Equal for those that do the same to equal operands."""
        ops = [lookup(s.op) for s in self.function.body if isinstance(s, Apply)]  # a name may get another definition
        return self.function, self.partition, *ops

    def results_in(self, domain: Checker, vs: tuple[Value, ...]) -> list[Type]:
        """The types of the results."""
        return [type_of(w) for w in domain.instance(self.name, vs).returned]

    def found(self, effects: Effects, vs: Sequence[Value], ws: Sequence[Type]) -> Effect:
        """Its effect. Raises Reject if that cannot be determined."""
        chip = _Chip(self, effects, tuple(vs))
        sizes = tuple(effects.size(leaf) for w in ws for leaf in types.leaves(w))
        work = chip.work(ws)
        devices = devices_of((*vs, *ws)) if work.flops or work.bytes else ()
        shares = chip.shares
        cost = effects.cost(work, devices, f"@{self.name}")
        return Effect(
            f"@{self.name}",
            work,
            devices,
            cost,
            to_ticks(cost.seconds),
            sizes,
            tuple(map(types.width, ws)),
            shares if any(leaf is not None for leaf in shares) else (),
            chip.donations(),
            (),
            reuses=chip.reuses(ws),
            issue=effects.issue(work, devices),
        )


class _Chip:
    """The body of a kernel with its storages, as if it had some: the operands' come first."""

    def __init__(self, kernel: Kernel, effects: Effects, vs: tuple[Value, ...]) -> None:
        self.partition = kernel.partition
        self.given: dict[int, int] = {}
        """By storage of the operands: its first leaf."""
        for leaf, storage in enumerate(kernel.partition):
            if storage != NO_STORAGE:
                self.given.setdefault(storage, leaf)
        self.operands = [leaf for v in vs for leaf in types.leaves(type_of(v))]
        self.sizes = [effects.size(self.operands[leaf]) for leaf in self.given.values()]
        self.steps: list[tuple[Effect, Leaves, Leaves]] = []
        """Each op, the leaves of its operands, and of its results."""
        self.returned: Leaves = ()
        self.in_turn: list[int] = []
        """Leaves of the operands, tensors that are read in turn."""
        self._walk(kernel.function, effects, vs)

    def _walk(self, function: Function, effects: Effects, vs: tuple[Value, ...]) -> None:
        rho = effects.domain.instance(function.name, vs).state
        places: dict[str, Leaves] = {}
        start = 0
        for param, v in zip(function.params, vs, strict=True):
            width = types.width(type_of(v))
            places[param.name] = self.partition[start : start + width]
            start += width
        for statement in function.body:
            if isinstance(statement, Apply):
                effect, operands = effects.of(statement, rho), leaves_of(statement.args, places)
                made = self._make(effect, operands)
                name_results(statement.results, made, effect.widths, places)
                self.steps.append((effect, operands, made))
            elif isinstance(statement, Return):
                self.returned = leaves_of(statement.args, places)
        in_turn = read_in_turn(function, rho)
        leaf = 0
        for param, v in zip(function.params, vs, strict=True):
            self.in_turn += [leaf] if param.name in in_turn else []
            leaf += types.width(type_of(v))

    def _make(self, effect: Effect, operands: Leaves) -> Leaves:
        found: list[int] = []
        for leaf, size in enumerate(effect.sizes):
            shared = effect.shares[leaf] if effect.shares else None
            if shared is not None:
                found.append(operands[shared])
            elif size is None:
                found.append(NO_STORAGE)
            else:
                found.append(len(self.sizes))
                self.sizes.append(size)
        return tuple(found)

    @cached_property
    def shares(self) -> tuple[int | None, ...]:
        """By leaf of the results: the leaf of the operands that it is, or is a view of."""
        return tuple(self.given.get(storage) for storage in self.returned)

    def work(self, ws: Sequence[Type]) -> Work:
        """The FLOPs of all ops by element type, and the traffic of what is read and written outside."""
        flops: dict[DType | None, int] = {}
        for effect, _, _ in self.steps:
            for dtype, count in effect.work.arithmetic:
                if count:
                    flops[dtype] = flops.get(dtype, 0) + count
        read = {storage for _, operands, _ in self.steps for storage in operands}
        traffic = dict[int, int]()
        for leaf, storage in zip(self.operands, self.partition, strict=True):
            if storage in read:
                traffic[storage] = max(traffic.get(storage, 0), _nbytes(leaf))
        results = [leaf for w in ws for leaf in types.leaves(w)]
        written = sum(_nbytes(leaf) for leaf, shared in zip(results, self.shares, strict=True) if shared is None)
        alone = sum(effect.work.bytes for effect, _, _ in self.steps)
        first, *others = sorted(flops.items(), key=lambda item: -item[1]) or [(None, 0)]
        contractions = tuple(one for effect, _, _ in self.steps for one in effect.work.contractions)
        moved = min(alone, sum(traffic.values()) + written)
        return Work(first[1], moved, first[0], others=tuple(others), contractions=contractions)

    def donations(self) -> tuple[tuple[int, int], ...]:
        """Leaves of the results, and leaves of the operands that ops of the body, one after the other, overwrite."""
        last = {s: at for at, (_, operands, made) in enumerate(self.steps) for s in (*operands, *made)}
        moved: dict[int, int] = {}
        for at, (effect, operands, made) in enumerate(self.steps):
            for w, v in effect.donations:
                old, new = operands[v], made[w]
                free = NO_STORAGE not in (old, new) and last[old] == at and old not in self.returned
                if free and old not in moved.values() and self.sizes[old] == self.sizes[new]:
                    moved[new] = old
        found: list[tuple[int, int]] = []
        for leaf, storage in enumerate(self.returned):
            held = storage
            while held in moved:
                held = moved[held]
            if held != storage and held in self.given:
                found.append((leaf, self.given[held]))
        return tuple(found)

    def reuses(self, ws: Sequence[Type]) -> tuple[tuple[int, int], ...]:
        """Leaves of the results, and leaves of the operands in whose memory a loop may write them."""
        given, results = self.donations(), [leaf for w in ws for leaf in types.leaves(w)]
        found: list[tuple[int, int]] = []
        for v in self.in_turn:
            storage, before = self.partition[v], self.operands[v]
            if storage == NO_STORAGE or self.partition.count(storage) > 1 or storage in self.returned:
                continue
            for w, after in enumerate(results):
                if self.shares[w] is None and (w, v) not in given and _alike(before, after):
                    found.append((w, v))
        return tuple(found)


def read_in_turn(function: Function, rho: State) -> frozenset[str]:
    """The parameters of a kernel of which a loop needs each element where it has come to it, and nowhere else.

    What follows from sums over rows is known before the loop that writes: it needs no element of them any more.
    """
    from_parameters = {
        p.name: frozenset({p.name}) for p in function.params if isinstance(_tensor(rho, p.name), TensorType)
    }
    followed, spoiled = dict(from_parameters), set[str]()
    for statement in function.body:
        if not isinstance(statement, Apply):
            continue
        read = {name: followed[name] for name in names(statement.args) if name in followed}
        if not read:
            continue
        op, made = lookup(statement.op), _tensor(rho, statement.results[0])
        first = statement.args[rows_of(op)]
        of = _tensor(rho, first) if isinstance(first, str) else None
        for name, params in read.items():
            size = tensor.elements if (tensor := _tensor(rho, name)) is not None else None
            if made is None or not place_by_place(op, size, of, made):
                spoiled |= params
        if kind_of(op) != "reduction":
            params = frozenset[str]().union(*read.values())
            followed.update((name, params) for name in statement.results if name)
    return frozenset(from_parameters) - spoiled


def _tensor(rho: State, name: str) -> TensorType | None:
    found = type_of(rho[name]) if name else None
    return found if isinstance(found, TensorType) else None


def _alike(before: Type, after: Type) -> bool:
    if not isinstance(before, TensorType) or not isinstance(after, TensorType):
        return False
    return before.elements == after.elements and _nbytes(before) == _nbytes(after) and before.device == after.device


def _nbytes(leaf: Type) -> int:
    size = types.nbytes(leaf)
    return size if isinstance(size, int) else 0
