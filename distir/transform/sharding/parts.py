"""Ops that become other ops where a certain letter of theirs is split: the writer for their rules `parted`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from distir.ir import DTYPES, UNKNOWN, Apply, Arg, Attributes, Constant, Literal, TensorType
from distir.ops import OPS, Value, bind, type_of
from distir.ops.layout import Blocks, Repeated
from distir.transform.sharding.decide import Decision
from distir.transform.sharding.items import Collective, Each, Ranked
from distir.transform.sharding.reshard import Resharding
from distir.transform.sharding.state import PARTIAL, Split, whole_block
from distir.transform.steps import StepError


def in_parts(body: Resharding, statement: Apply, args: Sequence[Arg], ws: Sequence[Value], decision: Decision) -> None:
    """Append what the op's rule says it is."""
    op = OPS[statement.op]
    assert decision.letter is not None
    attrs = dict(bind(op, statement.attrs))
    if op.takes_count:
        attrs["count"] = len(statement.results)
    own = decision.needed[0]
    blocks = own.blocks if isinstance(own, Split) else ()
    found: list[Arg] = op.rules["parted"](Writer(body, decision.letter, blocks), *args, **attrs)
    names = {arg: name for arg, name in zip(found, statement.results, strict=True) if isinstance(arg, str)}
    body.by_parts = {key: value for key, value in body.by_parts.items() if value not in names}
    _rename_results(body, names)
    for name, w, state in zip(statement.results, ws, decision.given, strict=True):
        body.define(name, w, state)


class Writer:
    """The `Parts` of a body. What it names along the way lies in no state that others know, and none sees it.

    What is there already is not written again: a loss and its gradient have the maximum and the sum of exponentials in
    common.
    """

    def __init__(self, body: Resharding, letter: str, blocks: Blocks = ()) -> None:
        self._body = body
        self._blocks = blocks
        self.size = body.size
        self.letter = letter

    def __call__(self, op: str, *args: Arg, **attrs: Constant) -> Arg:
        """Write an op on this device's parts, and give its result."""
        return self._once(
            (op, args, Attributes(attrs)), lambda: self._body.new(op.lower(), op, args, UNKNOWN, PARTIAL, **attrs)
        )

    def several(self, op: str, count: int, *args: Arg, **attrs: Constant) -> tuple[Arg, ...]:
        """Write an op with several results on this device's parts, and give them."""
        names = tuple(self._body.fresh(op.lower()) for _ in range(count))
        self._body.items.append(Each(Apply(names, op, args, Attributes(attrs))))
        for name in names:
            self._body.define(name, UNKNOWN, PARTIAL)
        return names

    def sum(self, x: Arg) -> Arg:
        """The sum over all devices."""
        return self._collective("sum", "MPIAllreduce", x)

    def greatest(self, x: Arg, axis: int) -> Arg:
        """The greatest over all devices, of what has one element along `axis` on each."""
        every = self._collective("every", "MPIAllgather", x, axis=axis)
        return self("ReduceMax", every, Literal((axis,)))

    def gathered(self, x: Arg, axis: int, in_order: bool = True) -> Arg:
        """The parts of all devices, along `axis`. Raises StepError for an order that its blocks are not in."""
        if in_order and self._blocks:
            reason = "attention with a mask cannot be split along a sequence that an all-to-all joins"
            raise StepError(f"{reason}; apply this `cp` before the one with `cp_kind=a2a`")
        every = self._collective("every", "MPIAllgather", x, axis=axis)
        return self._body.in_order(every, axis) if in_order else every

    def scattered(self, x: Arg, axis: int, in_order: bool = True) -> Arg:
        """The part of this device along `axis` of the sum over all devices."""
        whole = self._body.in_order_of_devices(x, axis) if in_order else x
        return self._collective("part", "MPIReduceScatter", whole, axis=axis)

    def places(self, length: int) -> tuple[int, ...]:
        """Where the runs begin along an axis of `length` that is in order of the devices."""
        if not self._body.order.zigzag and not self._blocks:
            return (0,)
        return tuple(place for rank in range(self.size) for place in self._starts(rank, length))

    def shifted(self, x: Arg) -> Arg:
        """What the device before this one has; the last one's on the first."""
        return self._collective("shifted", "MPIShift", x)

    def own_places(self, length: int, behind: int = 0) -> Arg:
        """Where the runs of this device's part begin, or of the part of the one so many `behind` it."""
        first = self._body.fresh("places")
        own = tuple(self._starts((rank - behind) % self.size, length) for rank in range(self.size))
        self._body.items.append(Ranked(first, own))
        return first

    def _starts(self, rank: int, length: int) -> tuple[int, ...]:
        """Where a device's runs begin: its parts of each block of the axis."""
        order = self._body.order
        sizes = [size for block in self._blocks if isinstance(size := whole_block(block), int)] or [length]
        if self._blocks and isinstance(self._blocks[0], Repeated):
            sizes *= length // sizes[0]
        offsets = accumulate(sizes[:-1], initial=0)
        return tuple(
            offset + part * (size // order.parts(self.size))
            for offset, size in zip(offsets, sizes, strict=True)
            for part in order.of(rank, self.size)
        )

    def own(self, positions: Arg, length: int) -> tuple[Arg, Arg]:
        """Positions along an axis of `length` counted in this device's part, run after run, and which lie in it."""
        order = self._body.order
        run = length // order.parts(self.size)
        if self.type(positions).dtype is not DTYPES["Int64"]:
            positions = self("Cast", positions, to=DTYPES["Int64"])
        whole = self("Mod", positions, Literal(length))  # the remainder: -1 is the last position
        found: Arg = Literal(0)
        every: list[Arg] = []
        for number in range(len(order.of(0, self.size))):
            own = self("Sub", whole, self._once(("first", number, run), lambda n=number: self._first(n, run)))
            here = self("And", self("GreaterOrEqual", own, Literal(0)), self("Less", own, Literal(run)))
            found = self("Where", here, self("Add", own, Literal(number * run)) if number else own, found)
            every.append(here)
        return found, every[0] if len(every) == 1 else self("Or", *every)

    def type(self, x: Arg) -> TensorType:
        """The type of a value; unknown of what is no tensor."""
        found = type_of(self._body.value(x))
        return found if isinstance(found, TensorType) else TensorType(None, None)

    def _collective(self, hint: str, op: str, x: Arg, **attrs: int) -> Arg:
        return self._once((op, x, Attributes(attrs)), lambda: self._communicated(hint, op, x, attrs))

    def _communicated(self, hint: str, op: str, x: Arg, attrs: Mapping[str, int]) -> str:
        assert isinstance(x, str)
        name = self._body.fresh(hint)
        self._body.items.append(Collective(name, op, x, Attributes(attrs)))
        self._body.define(name, UNKNOWN, PARTIAL)
        return name

    def _first(self, number: int, run: int) -> str:
        """Where the run of this number begins that each device has."""
        name = self._body.fresh("first")
        ranks = range(self.size)
        self._body.items.append(
            Ranked(name, tuple(self._body.order.of(rank, self.size)[number] * run for rank in ranks))
        )
        return name

    def _once(self, key: Hashable, write: Callable[[], str]) -> str:
        """The value of that key, written unless it is there."""
        known = self._body.by_parts
        if key not in known:
            known[key] = write()
        return known[key]


def _rename_results(body: Resharding, names: dict[str, str]) -> None:
    """Give results of items just written the names that the statement has for them."""
    left = len(names)
    for index in range(len(body.items) - 1, -1, -1):
        item = body.items[index]
        if isinstance(item, Each) and (own := names.keys() & set(item.statement.results)):
            results = tuple(names.get(name, name) for name in item.statement.results)
            body.items[index] = Each(replace(item.statement, results=results))
            left -= len(own)
        elif isinstance(item, Collective) and item.result in names:
            body.items[index] = replace(item, result=names[item.result])
            left -= 1
        if not left:
            return
