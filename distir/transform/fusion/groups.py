"""Groups statements of a function into kernels: greedily, along data flow, by the elements over which they loop.

A group has a place in the order of statements, after all its operands and before all its uses. So there are no cycles
among groups, and the order stays a schedule. Nothing is computed twice: a value with other uses is a result.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from distir.analysis import Checker, State
from distir.analysis.placement_states import held
from distir.analysis.placing import is_written_out
from distir.ir import DISCARD, Apply, Call, Dim, Function, Statement, TensorType, names, operands, results, types
from distir.ir.dataflow import definitions, uses
from distir.ops import type_of
from distir.ops.mesh import COLLECTIVES
from distir.ops.purpose import is_gradient
from distir.transform.fusion.accumulation import TOTALS, accumulation_of, makes_a_weight_gradient
from distir.transform.fusion.parts import KernelPart, part_of

MOST_MEMBERS = 64
"""The most statements in a kernel, as in torch.compile (`max_fusion_size`)."""

LONGEST_ROW = 1 << 18
"""The longest row, in elements, that a kernel reads again after reducing it: logits over a vocabulary, for instance."""

FARTHEST = 64
"""How many statements apart independent statements may be that are fused to read an operand once."""


@dataclass(eq=False)
class KernelGroup:
    """The statements of one kernel, by number. `place`: its position."""

    members: list[int]
    place: int
    device: int
    stream: str
    elements: Dim
    rows: tuple[Dim, bool] | None
    """For reductions: the number of rows, and whether their elements are contiguous."""
    closed: bool = False
    """Whether it is complete, as a product that accumulates is."""


Place = tuple[int, int, int]
"""A position: a statement's number, before or after it, and the order among groups there."""


@dataclass
class Grouping:
    """The grouping of one function's statements in progress."""

    function: Function
    domain: Checker
    state: State
    epilogues: bool
    """Whether elementwise ops on results of matrix products are fused as epilogues."""
    apart: frozenset[str] = frozenset()
    """Ops that read their operands from memory: their producers are in other kernels."""
    around: frozenset[str] | None = None
    """If set, only kernels of these ops are formed, with adjacent casts."""
    parts: dict[int, tuple[KernelPart, int]] = field(default_factory=dict[int, tuple[KernelPart, int]])
    """By statement that may be fused: its loops, and its device."""
    owner: dict[int, KernelGroup] = field(default_factory=dict[int, KernelGroup])
    """The group of a statement that is in one."""
    moved: dict[int, Place] = field(default_factory=dict[int, "Place"])
    """The positions of statements that left a group."""
    on_device: dict[int, list[int]] = field(default_factory=dict[int, "list[int]"])
    """By device: the statements with results on it."""
    late: set[str] = field(default_factory=set[str])
    """Values that are complete only after all rows, such as gradients of scales."""

    def __post_init__(self) -> None:
        self.body: Sequence[Statement] = self.function.body
        self.maker, self.users = definitions(self.function), uses(self.function)
        wanted = range(len(self.body)) if self.around is None else self._next_to(self.around)
        for index, statement in enumerate(self.body):
            found = self._part(statement) if index in wanted else None
            if found is not None:
                part, device = found
                self.parts[index] = found
                rows = None if part.rows is None else (part.rows, part.inner)
                self.owner[index] = KernelGroup([index], index, device, _stream(statement), part.elements, rows)
            for device in self._devices(statement):
                self.on_device.setdefault(device, []).append(index)
        self._accumulate()
        while self._vertically() or self._horizontally():
            pass
        self._trim()
        self._write_out()

    def _write_out(self) -> None:
        """Let each op of which devices of a mesh run several instead, on its parts, be a kernel: these are fused."""
        for index, statement in enumerate(self.body if self.domain.meshes and self.around is None else ()):
            if index in self.owner or not isinstance(statement, Apply) or len(self._devices(statement)) != 1:
                continue
            if not statement.stream and self._is_written_out(statement):  # a stream is that of what they communicate
                (device,) = self._devices(statement)
                self.owner[index] = KernelGroup([index], index, device, statement.stream, None, None, closed=True)

    def _is_written_out(self, statement: Apply) -> bool:
        vs, ws = self.state(statement.args), self.state(statement.results)
        return is_written_out(self.domain.meshes, statement, vs, ws)

    def _next_to(self, ops: frozenset[str]) -> frozenset[int]:
        """The statements of these ops, and casts before or after them, through views."""
        found = {i for i, s in enumerate(self.body) if isinstance(s, Apply) and s.op in ops}
        for behind in (False, True):
            waiting = list(found)
            while waiting:
                statement = self.body[waiting.pop()]
                if behind:
                    near = {i for name in results(statement) for i in self.users.get(name, [])}
                else:
                    near = {self.maker[name] for name in names(operands(statement)) if name in self.maker}
                views = {i for i in near - found if self._is_view(self.body[i])}
                casts = {i for i in near - found if isinstance(s := self.body[i], Apply) and s.op == "Cast"}
                found |= views | casts  # a cast reads memory
                waiting += views
        return frozenset(found)

    def _is_view(self, statement: Statement) -> bool:
        part = placed_part(statement, self.domain, self.state)
        return part is not None and part[0].kind == "view"

    def _accumulate(self) -> None:
        """Group weight gradients with the sums, in another element type, to which they are added."""
        for index, statement in enumerate(self.body):
            if not makes_a_weight_gradient(statement):
                continue
            product = placed_part(statement, self.domain, self.state)
            found = accumulation_of(results(statement)[0], _stream(statement), self.body, self.users)
            if product is None or found is None or not all(i in self.parts for i in found.chain):
                continue
            members = [index, *found.chain]
            parts = [product[0], *(self.parts[i][0] for i in found.chain)]
            place = self._between(members, members)
            if place is not None and all(part.elements == product[0].elements for part in parts):
                self.parts[index] = product
                group = KernelGroup(
                    members, place, product[1], _stream(statement), product[0].elements, None, closed=True
                )
                self.owner.update((i, group) for i in members)

    @property
    def groups(self) -> list[KernelGroup]:
        """The kernels, in order."""
        return sorted({id(g): g for g in self.owner.values()}.values(), key=lambda group: group.place)

    def order(self) -> list[int | KernelGroup]:
        """The remaining statements and the groups, in their new order."""
        alone: list[tuple[Place, int | KernelGroup]] = [
            (self.moved.get(i, (i, 0, i)), i) for i in range(len(self.body)) if i not in self.owner
        ]
        return [what for _, what in sorted([*alone, *(((g.place, 0, 0), g) for g in self.groups)], key=_first)]

    def at(self, index: int) -> int:
        """The current position of a statement."""
        group = self.owner.get(index)
        return group.place if group is not None else index

    def outside(self, members: Iterable[int]) -> tuple[list[str], list[str]]:
        """The operands of some statements from outside, and their results used outside, in order."""
        inside = set(members)
        order = sorted(inside)
        taken = (n for i in order for n in names(operands(self.body[i])) if self.maker.get(n, -1) not in inside)
        given = (n for i in order for n in results(self.body[i]) if not inside.issuperset(self.users.get(n, ())))
        return list(dict.fromkeys(taken)), [name for name in dict.fromkeys(given) if name != DISCARD]

    def _part(self, statement: Statement) -> tuple[KernelPart, int] | None:
        found = placed_part(statement, self.domain, self.state)
        if found is None or not isinstance(statement, Apply) or (found[0].kind == "product" and not self.epilogues):
            return None
        if statement.stream and self.domain.meshes and (statement.op in COLLECTIVES or self._is_written_out(statement)):
            return None  # on devices this is no kernel, and only the call of one has a stream
        if found[0].kind == "rows" and is_gradient(statement):
            self.late.update(statement.results[1:])
        return found

    def _devices(self, statement: Statement) -> frozenset[int]:
        given = (type_of(self.state[name]) for name in results(statement) if name != DISCARD)
        return frozenset[int]().union(*map(types.devices, given))

    def _between_on(self, device: int, first: int, last: int) -> Sequence[int]:
        """The statements on a device between two positions."""
        order = self.on_device[device]
        return order[bisect_left(order, first) : bisect_left(order, last)]

    def _elements(self, name: str) -> Dim:
        found = held(type_of(self.state[name]), self.domain.meshes)
        return found.elements if isinstance(found, TensorType) else None

    def _vertically(self) -> bool:
        """Fuse producers with consumers. Returns whether any were fused."""
        found = False
        for index in range(len(self.body)):
            is_fed = index in self.parts and self.parts[index][0].kind != "product"
            for name in names(operands(self.body[index])) if is_fed else ():
                maker = self.maker.get(name)
                if maker is None or maker not in self.owner or self._goes_on(maker, index):
                    continue
                if self.owner[maker] is not self.owner[index]:
                    found |= self._merge(self.owner[maker], self.owner[index])
        return found

    def _goes_on(self, maker: int, index: int) -> bool:
        """Whether a sum continues after a call, as one over microbatches does, whose terms are added one by one."""
        total, device = self.body[maker], self.parts[maker][1]
        is_total = isinstance(total, Apply) and total.op in TOTALS
        return is_total and any(isinstance(self.body[i], Call) for i in self._between_on(device, maker, index))

    def _horizontally(self) -> bool:
        """Fuse statements that read the same value over the same elements. Returns whether any were fused."""
        found = False
        for name, users in self.users.items():
            reading = [i for i in users if i in self.owner and self.parts[i][0].kind not in ("view", "move", "product")]
            for first, second in pairwise(reading):
                a, b = sorted([self.owner[first], self.owner[second]], key=lambda group: group.place)
                near = a.device == b.device and len(self._between_on(a.device, a.place, b.place)) <= FARTHEST
                if a is not b and near and a.elements == b.elements == self._elements(name):
                    found |= self._merge(a, b)
        return found

    def _merge(self, a: KernelGroup, b: KernelGroup) -> bool:
        """Merge two groups, of which the second is later, if one kernel can compute both."""
        apart = a.closed or b.closed or (a.device, a.stream) != (b.device, b.stream) or self._reads_from_memory(a, b)
        if apart or len(a.members) + len(b.members) > MOST_MEMBERS or not self._fits(a, b):
            return False
        members = sorted([*a.members, *b.members])
        place = self._between(members, (b.place, a.place))
        if place is None:
            return False
        whole = a if a.rows is not None or a.elements == b.elements else b
        merged = KernelGroup(members, place, a.device, a.stream, whole.elements, a.rows or b.rows)
        self.owner.update((index, merged) for index in members)
        return True

    def _fits(self, a: KernelGroup, b: KernelGroup) -> bool:
        """Whether loops over the same elements or rows compute both, a producer and its consumer."""
        given, inside = self.outside(a.members)[1], set(b.members)
        passed = [name for name in given if not inside.isdisjoint(self.users.get(name, ()))]
        alone = given == passed and all(inside.issuperset(self.users[name]) for name in given)
        if self._product(a):  # the consumer's result is written instead
            return alone and not self._product(b) and b.rows is None and a.elements == b.elements
        if self._product(b):
            return a.rows is None and a.elements == b.elements
        if a.rows is not None and b.rows is not None and a.rows != b.rows:
            return False
        if not self.late.isdisjoint(passed):
            return False
        sums = [name for name in passed if self._follows_a_sum(a, name)]
        if a.elements == b.elements:
            return not sums or self._rereads(a)
        if a.rows is not None:  # elementwise on the row sums
            return b.rows is None and all(name in sums and self._elements(name) == b.elements for name in passed)
        return alone  # recomputed at its use

    def _reads_from_memory(self, a: KernelGroup, b: KernelGroup) -> bool:
        """Whether the second has an op in `apart` that uses a result of the first."""
        readers = [self.body[i] for i in b.members if self._is_apart(self.body[i])] if self.apart else []
        return any(self.maker.get(name) in a.members for s in readers for name in names(operands(s)))

    def _is_apart(self, statement: Statement) -> bool:
        return isinstance(statement, Apply) and statement.op in self.apart

    def _product(self, group: KernelGroup) -> bool:
        return self.epilogues and any(self.parts[i][0].kind == "product" for i in group.members)

    def _rereads(self, group: KernelGroup) -> bool:
        """Whether a row can be read again after its reduction: if it is contiguous and not too long."""
        if group.rows is None:
            return True
        rows, inner = group.rows
        if not isinstance(rows, int) or not isinstance(group.elements, int):
            return inner
        return inner and group.elements <= rows * LONGEST_ROW

    def _follows_a_sum(self, group: KernelGroup, value: str) -> bool:
        """Whether a value depends on a reduction in the group."""
        waiting, seen, inside = [value], set[int](), set(group.members)
        while waiting:
            maker = self.maker.get(waiting.pop(), -1)
            if maker in inside and maker not in seen:
                seen.add(maker)
                if self.parts[maker][0].rows is not None:
                    return True
                waiting += names(operands(self.body[maker]))
        return False

    def _between(self, members: Sequence[int], places: Iterable[int]) -> int | None:
        """The first of these positions after all operands of the statements and before all uses of their results."""
        taken, given = self.outside(members)
        inside = set(members)
        after = max((self.at(self.maker[name]) for name in taken if name in self.maker), default=-1)
        users = (i for name in given for i in self.users.get(name, ()) if i not in inside)
        before = min(map(self.at, users), default=len(self.body))
        return next((place for place in places if after < place < before), None)

    def _trim(self) -> None:
        """Remove views at the edges of groups, where they cost nothing, and single ops."""
        for group in self.groups:
            while (end := self._view_at_an_end(group)) is not None:
                index, side = end
                self._leave(group, index, side)
            kinds = [self.parts[i][0].kind for i in group.members]
            if len(kinds) - kinds.count("view") < 2 or {*kinds} <= {"view", "move"}:
                for index in list(group.members):
                    self._leave(group, index, 0)

    def _leave(self, group: KernelGroup, index: int, side: int) -> None:
        group.members.remove(index)
        del self.owner[index]
        self.moved[index] = (group.place, side, index)

    def _view_at_an_end(self, group: KernelGroup) -> tuple[int, int] | None:
        inside = set(group.members)
        for index in group.members:
            if self.parts[index][0].kind == "view":
                if all(self.maker.get(name, -1) not in inside for name in names(operands(self.body[index]))):
                    return index, -1
                if all(inside.isdisjoint(self.users.get(name, ())) for name in results(self.body[index])):
                    return index, 1
        return None


def placed_part(statement: Statement, domain: Checker, state: State) -> tuple[KernelPart, int] | None:
    """The loops of a statement, and its device; None if it cannot be fused or is not on one device."""
    if not isinstance(statement, Apply):
        return None
    values = state(statement.args)
    ws = [held(type_of(w), domain.meshes) for w in domain.answer(statement, values)]
    vs = [None if v is None else held(type_of(v), domain.meshes) for v in values]
    part = part_of(statement, vs, ws)
    devices = frozenset[int]().union(*(types.devices(t) for t in (*ws, *(v for v in vs if v is not None))))
    return None if part is None or len(devices) != 1 else (part, next(iter(devices)))


def _stream(statement: Statement) -> str:
    return statement.stream if isinstance(statement, Apply) else ""


def _first(pair: tuple[Place, object]) -> Place:
    return pair[0]
