"""Ops that become other ops if a certain letter is split: the writer for their rules `parted`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from distir.ir import DTYPES, UNKNOWN, Apply, Arg, Attributes, Constant, Literal, TensorType
from distir.ops import OPS, Value, bind, type_of
from distir.ops.layout import Blocks, Repeated
from distir.placement.along import PARTIAL, WHOLE, Split, State
from distir.placement.part_types import whole_block
from distir.placement.rule import Typing
from distir.transform.sharding.items import Collective, Each, Ranked
from distir.transform.sharding.reshard import Resharding
from distir.transform.steps import StepError


def in_parts(body: Resharding, statement: Apply, args: Sequence[Arg], ws: Sequence[Value], decision: Typing) -> None:
    """Append the ops that the op's rule writes."""
    op = OPS[statement.op]
    assert decision.letter is not None
    attrs = dict(bind(op, statement.attrs))
    if op.takes_count:
        attrs["count"] = len(statement.results)
    split = (state for state in (*decision.needed, *decision.given) if isinstance(state, Split))
    blocks = next((state.blocks for state in split), ())
    states = {arg: need for arg, need in zip(args, decision.needed, strict=True) if isinstance(arg, str)}
    found: list[Arg] = op.rules["parted"](Writer(body, decision.letter, states, blocks), *args, **attrs)
    names = {arg: name for arg, name in zip(found, statement.results, strict=True) if isinstance(arg, str)}
    for key in [key for key, value in body.by_parts.items() if value in names]:
        del body.by_parts[key]  # under another name from now on
    _rename_results(body, names)
    for name, w, state in zip(statement.results, ws, decision.given, strict=True):
        body.define(name, w, state)


class Writer:
    """The `Parts` of a body. Values that it defines have no state and are not visible to other statements.

    Common subexpressions are shared: a loss and its gradient use the same maximum and sum of exponentials.

    `states`: of the operands, along the axis, or along all axes that split the letter.
    """

    def __init__(self, body: Resharding, letter: str, states: Mapping[str, State], blocks: Blocks = ()) -> None:
        self._body = body
        self._states = states
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
        """The maximum over all devices, of a value with one element along `axis` on each."""
        every = self._collective("every", "MPIAllgather", x, axis=axis)
        return self("ReduceMax", every, Literal((axis,)))

    def gathered(self, x: Arg, axis: int, in_order: bool = True) -> Arg:
        """The parts of all devices, concatenated along `axis`. Raises StepError for an order that is not supported."""
        if in_order and self._blocks:
            reason = "attention with a mask cannot be split along a sequence that an all-to-all joins"
            raise StepError(f"{reason}; apply this `cp` before the one with `cp_kind=a2a`")
        every = self._collective("every", "MPIAllgather", x, axis=axis)
        return self._body.in_order(every, axis) if in_order else every

    def scattered(self, x: Arg, axis: int, in_order: bool = True) -> Arg:
        """The part of this device along `axis` of the sum over all devices."""
        whole = self._body.in_order_of_devices(x, axis) if in_order else x
        return self._collective("part", "MPIReduceScatter", whole, axis=axis)

    def whole(self, x: Arg, like: Arg) -> Arg:
        """The value of all devices, split as an operand is, in blocks or not."""
        return self._placed(x, self._states[str(like)], WHOLE, like)

    def part(self, x: Arg, like: Arg) -> Arg:
        """The part of this device, split as an operand is."""
        return self._placed(x, WHOLE, self._states[str(like)], like)

    def _placed(self, x: Arg, now: State, wanted: State, like: Arg) -> Arg:
        of = self.type(like)
        assert isinstance(x, str)
        self._body.define(x, TensorType(None, of.shape, of.device), now)
        return self._body.placed(x, wanted)

    def places(self, length: int) -> tuple[int, ...]:
        """The starts of all runs along an axis of `length`, in order of the devices."""
        if not self._body.order.zigzag and not self._blocks:
            return (0,)
        return tuple(place for rank in range(self.size) for place in self._starts(rank, length))

    def shifted(self, x: Arg) -> Arg:
        """The value of the previous device; on the first, that of the last."""
        return self._collective("shifted", "MPIShift", x)

    def own_places(self, length: int, behind: int = 0) -> Arg:
        """The starts of the runs of this device's part, or of the device that many places `behind` it."""
        first = self._body.fresh("places")
        own = tuple(self._starts((rank - behind) % self.size, length) for rank in range(self.size))
        self._body.items.append(Ranked(first, own))
        return first

    def _starts(self, rank: int, length: int) -> tuple[int, ...]:
        """The starts of a device's runs: its parts of each block of the axis."""
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
        """Positions along an axis of `length` relative to this device's part, run after run, and which are in it."""
        starts = [self._starts(rank, length) for rank in range(self.size)]
        run = length // (len(starts[0]) * self.size)
        if self.type(positions).dtype is not DTYPES["Int64"]:
            positions = self("Cast", positions, to=DTYPES["Int64"])
        whole = self("Mod", positions, Literal(length))  # the remainder: -1 is the last position
        found: Arg = Literal(0)
        every: list[Arg] = []
        for number, first in enumerate(zip(*starts, strict=True)):
            own = self("Sub", whole, self._once(("first", first), lambda first=first: self._first(first)))
            here = self("And", self("GreaterOrEqual", own, Literal(0)), self("Less", own, Literal(run)))
            found = self("Where", here, self("Add", own, Literal(number * run)) if number else own, found)
            every.append(here)
        return found, every[0] if len(every) == 1 else self("Or", *every)

    def type(self, x: Arg) -> TensorType:
        """The type of a value; unknown if it is no tensor."""
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

    def _first(self, starts: tuple[int, ...]) -> str:
        """The start of a run, by device."""
        name = self._body.fresh("first")
        self._body.items.append(Ranked(name, starts))
        return name

    def _once(self, key: Hashable, write: Callable[[], str]) -> str:
        """The value for a key, written on first use."""
        known = self._body.by_parts
        if key not in known:
            known[key] = write()
        return known[key]


def _rename_results(body: Resharding, names: dict[str, str]) -> None:
    """Rename results of new items to the statement's results."""
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
