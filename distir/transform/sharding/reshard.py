"""Changes states of values: chooses the collective, and reuses its result."""

from __future__ import annotations

import math
from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import replace

from distir.ir import (
    DISCARD,
    UNKNOWN,
    Apply,
    Arg,
    Attributes,
    Call,
    Constant,
    Dim,
    Literal,
    Shape,
    TensorType,
    TupleType,
    Type,
    dims,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ops import Value, type_of
from distir.ops.layout import Shared
from distir.placement.along import (
    GREATEST,
    PARTIAL,
    WHOLE,
    Nested,
    Split,
    State,
    Unsplit,
    holds_partial,
    is_host,
    is_owned,
    is_partial,
    is_whole,
    is_zigzag,
    nested,
    state_along,
    whole_like,
)
from distir.placement.part_types import part_of_block, whole_block
from distir.transform.sharding.items import Collective, Each, Item, LocalSlice, Ranked
from distir.transform.sharding.mesh import IN_ORDER, Order


class NotAlong(Exception):  # noqa: N818 - a verdict on a value, not a failure of ours
    """There is no collective for this change of state along a factor of a mesh axis."""


class Resharding:
    """Items in progress, with the values and states of their names."""

    def __init__(
        self, size: int, names: FunctionBuilder, order: Order = IN_ORDER, factors: tuple[int, ...] = ()
    ) -> None:
        self.size = size
        self.names = names
        self.order = order
        self.factors = factors
        self.items: list[Item] = []
        self.single: set[str] = set()
        """Host values that are equal for all devices."""
        self._values: dict[str, Value] = {}
        self._states: dict[str, State] = {}
        self._one: dict[State, State] = {}
        """Interned states, for comparison by identity."""
        self.owns = False
        """Whether some devices do not have some value."""
        self._placed: dict[Arg, dict[State, Arg]] = {}
        """By argument: its names in other states."""
        self._lessened: dict[tuple[Arg, Split], str] = {}
        self._settled: dict[str, Arg] = {}
        """By partial sum: the state into which it was first brought."""
        self._exchanged: dict[str, Arg] = {}
        """By value whose split dimension changed: the state into which it was first brought."""
        self._by_parts: dict[tuple[tuple[int, ...], Order], dict[Hashable, str]] = {}
        self.by_parts: dict[Hashable, str] = {}
        """Values written by rules `parted`, by key."""

    @contextmanager
    def along(self, *factors: int, order: Order = IN_ORDER) -> Generator[None]:
        """Within it, items are of some factors of the mesh axis, outermost first, and so many devices in this order."""
        size, own, by_parts, first = self.size, self.order, self.by_parts, len(self.items)
        self.size, self.order = math.prod(self.factors[factor] for factor in factors), order
        self.by_parts = self._by_parts.setdefault((factors, order), {})
        yield
        for index, item in enumerate(self.items[first:], first):
            if isinstance(item, (Collective, LocalSlice, Ranked)):
                self.items[index] = replace(item, along=factors)
        self.size, self.order, self.by_parts = size, own, by_parts

    @contextmanager
    def holding(self, args: Sequence[Arg], values: Sequence[Value]) -> Generator[None]:
        """Within it, arguments are parts of their values: these."""
        names = [(arg, value) for arg, value in zip(args, values, strict=False) if isinstance(arg, str) and arg]
        before = {arg: self._values[arg] for arg, _ in names if arg in self._values}
        self._values.update(names)
        yield
        self._values.update(before)

    def define(self, name: str, value: Value, state: State) -> None:
        """Define a name: the value of the whole program that it represents, and its state."""
        if name == DISCARD:
            return
        self._values[name], self._states[name] = value, self._one.get(state) or self._new(state)
        if is_host(value) and is_whole(state):
            self.single.add(name)

    def _new(self, state: State) -> State:
        self.owns |= is_owned(state)
        self._one[state] = state
        return state

    def value(self, arg: Arg) -> Value:
        """The value of an argument in the whole program: its type, or its known value."""
        if isinstance(arg, str):
            return self._values.get(arg, UNKNOWN) if arg else None
        return arg if isinstance(arg, Literal) else tuple(map(self.value, arg))

    def state(self, arg: Arg) -> State:
        """The state of an argument."""
        if isinstance(arg, str):
            return self._states.get(arg, WHOLE)
        return WHOLE if isinstance(arg, Literal) else tuple(map(self.state, arg))

    def is_defined(self, name: str) -> bool:
        """Whether a name is defined so far."""
        return name in self._states

    def settled(self, arg: Arg) -> Arg:
        """The argument with partial sums completed, if a statement already needed that."""
        return self._settled.get(arg, arg) if isinstance(arg, str) else arg

    def kept(self, arg: Arg) -> Arg:
        """The argument as a function returns it: in the state that its last user needed, as will a backward pass."""
        found = self.settled(arg)
        return self._exchanged.get(found, found) if isinstance(found, str) else found

    def fresh(self, hint: str) -> str:
        """A free name."""
        return self.names.fresh(hint)

    def write(
        self, statement: Apply, ws: Sequence[Value], given: Sequence[State], args: Sequence[Arg] | None = None
    ) -> None:
        """Append a statement as it is, with other arguments; `ws` and `given`: the values and states of its results."""
        unchanged = args is None or tuple(args) == statement.args
        claims = self.claims(statement, given)
        if not (unchanged and claims == statement.claims):
            statement = replace(statement, args=tuple(args or statement.args), claims=claims)
        self.items.append(Each(statement))
        for name, w, state in zip(statement.results, ws, given, strict=True):
            self.define(name, w, state)

    def new(self, hint: str, op: str, args: Sequence[Arg], value: Value, state: State, **attrs: Constant) -> str:
        """Append an op with one result on every device, and give the result's name."""
        name = self.fresh(hint)
        self.items.append(Each(Apply((name,), op, tuple(args), Attributes(attrs))))
        self.define(name, value, state)
        return name

    def claims(self, statement: Apply | Call, given: Sequence[State]) -> tuple[Type | None, ...]:
        """The claims of a statement, for one device's parts of its results."""
        if not statement.claims or all(map(is_whole, given)):
            return statement.claims
        pairs = zip(statement.claims, given, strict=True)
        found = tuple(c if c is None or not _is_split(s) else _device_alone(c) for c, s in pairs)
        return found if any(c is not None for c in found) else ()

    def placed(self, arg: Arg, state: State) -> Arg:
        """The argument in another state."""
        now = self.state(arg)
        if now == state or (is_whole(now) and is_whole(state)) or arg == DISCARD or _same_parts(now, state):
            return arg
        known, there = self._placed.setdefault(arg, {}), _fixed(state)
        if there not in known:
            known[there] = self._place(arg, now, state)
            if (now is PARTIAL or (isinstance(now, Nested) and holds_partial(now))) and isinstance(arg, str):
                self._settled.setdefault(arg, known[there])
            if isinstance(now, Split) and isinstance(state, Split) and isinstance(arg, str):
                self._exchanged.setdefault(arg, known[there])
        return known[there]

    def _summed(self, arg: Arg, state: State) -> Arg | None:
        """A partial sum in another state; derived from its reduction, if there is one already."""
        known = self._placed.get(arg, {})
        whole = known.get(WHOLE)
        if isinstance(state, Split):
            return None if whole is None else self.placed(whole, state)
        parts = (to for s, to in known.items() if isinstance(s, Split) and not s.blocks)
        part = next(parts, None)
        return None if part is None or not is_whole(state) else self.placed(part, state)

    def _place(self, arg: Arg, now: State, state: State) -> Arg:
        value, hint = self.value(arg), arg if isinstance(arg, str) else "constant"
        if isinstance(value, TensorType) and value.offloaded:
            here = self.new(f"{hint}_here", "Fetch", (arg,), replace(value, offloaded=False), now)
            return self.new(f"{hint}_there", "Offload", (self.placed(here, state),), value, state)
        if any(isinstance(s, Nested) or is_zigzag(s) for s in (now, state)):
            return self._place_along(arg, hint, value, now, state)
        if now is PARTIAL and (found := self._summed(arg, state)) is not None:
            return found
        if isinstance(arg, str) and is_partial(now) and is_whole(state):
            return self._collective(f"{hint}_sum", "MPIAllreduce", arg, value, whole_like(type_of(value)))
        if now is GREATEST:
            return self.placed(self._greatest(arg, hint, value), state)
        if isinstance(now, tuple) or isinstance(state, tuple):
            return self._place_items(arg, state)
        if isinstance(now, Split):
            if isinstance(state, Split) and now.axis == state.axis and _sizes(now) == _sizes(state) != ():
                return self._by_block(arg, hint, value, now, state)
            if isinstance(state, Split) and not now.blocks and not state.blocks and not self.order.zigzag:
                along = {"split_axis": state.axis, "concat_axis": now.axis}
                return self._collective(f"{hint}_turned", "MPIAlltoall", arg, value, state, **along)
            whole = self._gathered(arg, hint, value, now)
            return self.placed(whole, state)
        assert isinstance(state, Split)
        if now is PARTIAL:
            if not state.blocks:
                arg = self.in_order_of_devices(arg, state.axis)
                return self._collective(f"{hint}_sum", "MPIReduceScatter", arg, value, state, axis=state.axis)
            arg = self.placed(arg, WHOLE)
        return self._cut(arg, hint, value, state)

    def _place_along(self, arg: Arg, hint: str, value: Value, now: State, state: State) -> Arg:
        """A value in another state along some factors of the mesh axis, one after the other."""
        states, wanted = ([_fixed(state_along(s, k)) for k in range(len(self.factors))] for s in (now, state))
        while states != wanted:
            factor, after = _next_change(states, wanted)
            before, states[factor] = states[factor], after
            there = nested(states, self.factors)
            if self.factors[factor] == 1:
                continue
            ordered = isinstance(now, Split) and after is WHOLE, isinstance(state, Split) and before is WHOLE
            if self.order.zigzag and any(ordered):
                raise NotAlong  # the parts along a factor are no contiguous ones of the whole
            with self.along(factor, order=Order(is_zigzag(before) or is_zigzag(after))):
                match before, after:
                    case Unsplit.PARTIAL, Unsplit.WHOLE:
                        arg = self._collective(f"{hint}_sum", "MPIAllreduce", arg, value, there)
                    case Unsplit.PARTIAL, Split(axis, ()):
                        arg = self._collective(f"{hint}_sum", "MPIReduceScatter", arg, value, there, axis=axis)
                    case Split(), Unsplit.WHOLE:
                        arg = self._gathered(arg, hint, value, before)
                    case Split(joined, ()), Split(cut, ()) if not self.order.zigzag:
                        axes = {"split_axis": cut, "concat_axis": joined}
                        arg = self._collective(f"{hint}_turned", "MPIAlltoall", arg, value, there, **axes)
                    case Unsplit.WHOLE, Split():
                        arg = self._cut(arg, hint, value, after)
                    case _:
                        raise NotAlong
                assert isinstance(arg, str)
                self.define(arg, value, there)
        return arg

    def _collective(self, hint: str, op: str, arg: Arg, value: Value, state: State, **attrs: Constant) -> str:
        assert isinstance(arg, str)
        name = self.fresh(hint)
        self.items.append(Collective(name, op, arg, Attributes(attrs)))
        self.define(name, value, state)
        return name

    def _greatest(self, arg: Arg, hint: str, value: Value) -> str:
        """A partial maximum as the maximum over all devices."""
        first = Literal((0,))
        one = self.new(f"{hint}_own", "Unsqueeze", (arg, first), UNKNOWN, GREATEST)
        every = self._collective(f"{hint}_every", "MPIAllgather", one, UNKNOWN, WHOLE, axis=0)
        return self.new(f"{hint}_greatest", "ReduceMax", (every, first), value, WHOLE, keepdims=False)

    def _place_items(self, arg: Arg, state: State) -> Arg:
        """A tuple whose items have different states: each by itself."""
        value = type_of(self.value(arg))
        assert isinstance(arg, str)
        assert isinstance(value, TupleType)
        names = tuple(self.fresh(f"{arg}_{k}") for k in range(len(value.items)))
        states = self.state(arg)
        self.items.append(Each(Apply(names, "UnpackTuple", (arg,))))
        for k, (name, item) in enumerate(zip(names, value.items, strict=True)):
            self.define(name, item, states[k] if isinstance(states, tuple) else states)
        wanted = state if isinstance(state, tuple) else (state,) * len(names)
        placed = [self.placed(name, want) for name, want in zip(names, wanted, strict=True)]
        return self.new(f"{arg}_placed", "MakeTuple", placed, value, wanted)

    def _gathered(self, arg: Arg, hint: str, value: Value, now: Split) -> Arg:
        if not now.blocks:
            every = self._collective(f"{hint}_whole", "MPIAllgather", arg, value, WHOLE, axis=now.axis)
            return self.in_order(every, now.axis)
        if now.is_repeated:
            apart = self._unfolded(arg, f"{hint}_apart", value, now, self.size)
            return self._folded(self.placed(apart, WHOLE), f"{hint}_whole", value, now.axis, WHOLE)
        return self._by_block(arg, f"{hint}_whole", value, now, WHOLE)

    def in_order(self, arg: Arg, axis: int) -> Arg:
        """Reorder parts gathered in order of the devices to the order of the whole."""
        if not self.order.zigzag:
            return arg
        parts = self.order.all(self.size)
        return self._reordered(arg, axis, sorted(range(len(parts)), key=parts.__getitem__))

    def in_order_of_devices(self, arg: Arg, axis: int) -> Arg:
        """Reorder the parts of a whole value to the order of the devices."""
        return self._reordered(arg, axis, self.order.all(self.size)) if self.order.zigzag else arg

    def _reordered(self, arg: Arg, axis: int, parts: Sequence[int]) -> Arg:
        """A value cut into as many parts along an axis, and joined of them in another order."""
        if [*parts] == [*range(len(parts))]:
            return arg
        hint = arg if isinstance(arg, str) else "constant"
        names = tuple(self.fresh(f"{hint}_run") for _ in parts)
        attrs = Attributes({"axis": axis, "num_outputs": len(names)})
        self.items.append(Each(Apply(names, "Split", (arg,), attrs)))
        for name in names:
            self.define(name, UNKNOWN, PARTIAL)
        joined = tuple(names[part] for part in parts)
        return self.new(f"{hint}_ordered", "Concat", joined, self.value(arg), self.state(arg), axis=axis)

    def _by_block(self, arg: Arg, hint: str, value: Value, now: Split, state: State) -> str:
        """A value with separately split blocks in another state: whole, or with other blocks split."""
        blocks = self._blocks(arg, hint, now, self.size)
        states = _of_blocks(state) if isinstance(state, Split) else [WHOLE] * len(blocks)
        parts = [self.placed(name, to) for name, to in zip(blocks, states, strict=True)]
        return self.new(hint, "Concat", parts, value, state, axis=now.axis)

    def _cut(self, arg: Arg, hint: str, value: Value, state: Split) -> Arg:
        if not state.blocks:
            name = self.fresh(f"{hint}_part")
            self.items.append(LocalSlice(name, arg, state.axis, self.order))
            self.define(name, value, state)
            return name
        if state.is_repeated:
            apart = self._unfolded(arg, f"{hint}_apart", value, state, 1)
            part = self.placed(apart, Split(state.axis + 1))
            return self._folded(part, f"{hint}_part", value, state.axis, state)
        blocks = self._blocks(arg, hint, state, 1)
        parts = [self.placed(name, to) for name, to in zip(blocks, _of_blocks(state), strict=True)]
        return self.new(f"{hint}_part", "Concat", parts, value, state, axis=state.axis)

    def lessened(self, arg: Arg, split: Split) -> str:
        """A value with its shared blocks divided by the number of devices, so that a sum over them is right."""
        key = (arg, split)
        if key not in self._lessened:
            hint = arg if isinstance(arg, str) else "constant"
            parts = [
                self.new(f"{name}_less", "Mul", (name, Literal(1 / self.size)), self.value(name), WHOLE)
                if isinstance(block, Shared)
                else name
                for name, block in zip(self._blocks(arg, hint, split, self.size), split.blocks, strict=True)
            ]
            self._lessened[key] = self.new(f"{hint}_less", "Concat", parts, self.value(arg), split, axis=split.axis)
        return self._lessened[key]

    def _blocks(self, arg: Arg, hint: str, split: Split, parts: int) -> list[str]:
        """The blocks of a value; of split blocks, each device has one of `parts` parts."""
        names = [self.fresh(f"{hint}_block") for _ in split.blocks]
        args, attrs = block_sizes(arg, split, parts)
        self.items.append(Each(Apply(tuple(names), "Split", args, attrs)))
        whole = type_of(self.value(arg))
        states = _of_blocks(split) if parts > 1 else [WHOLE] * len(names)
        for name, block, state in zip(names, split.blocks, states, strict=True):
            self.define(name, _with_dim(whole, split.axis, whole_block(block)), state)
        return names

    def _unfolded(self, arg: Arg, hint: str, value: Value, split: Split, parts: int) -> str:
        """A value with its repeated blocks as a separate dimension; each device has one of `parts` parts of each."""
        whole, axis = type_of(value), split.axis
        (block,) = split.blocks
        size = whole_block(block)
        assert isinstance(whole, TensorType)
        assert whole.shape is not None
        assert isinstance(size, int)
        shape = (*whole.shape[:axis], dims.divide(whole.shape[axis], size), size, *whole.shape[axis + 1 :])
        sizes = self._reshaped(arg, (-1, size // parts), axis, whole.shape[axis + 1 :], axis + 1)
        state = WHOLE if parts == 1 else Split(axis + 1)
        return self.new(hint, "Reshape", (arg, sizes), replace(whole, shape=shape), state)

    def _folded(self, arg: Arg, hint: str, value: Value, axis: int, state: State) -> str:
        """The inverse: blocks back in one dimension."""
        whole = type_of(value)
        assert isinstance(whole, TensorType)
        sizes = self._reshaped(arg, (-1,), axis, (whole.shape or ())[axis + 1 :], axis + 2)
        return self.new(hint, "Reshape", (arg, sizes), value, state)

    def _reshaped(self, arg: Arg, sizes: tuple[int, ...], axis: int, behind: Shape, first: int) -> Arg:
        """A `Reshape` that keeps the dimensions before `axis`, and those from `first` on."""
        before = (0,) * axis + sizes
        if all(isinstance(dim, int) for dim in behind):
            return Literal((*before, *(dim for dim in behind if isinstance(dim, int))))
        rest = self.new("sizes_behind", "Shape", (arg,), UNKNOWN, WHOLE, start=first)
        return self.new("sizes", "Concat", (Literal(before), rest), UNKNOWN, WHOLE, axis=0)


def block_sizes(arg: Arg, split: Split, parts: int) -> tuple[tuple[Arg, ...], Attributes]:
    """Operands and attributes of the `Split` that cuts a dimension into its blocks, those divided that are split."""
    if len(set(split.blocks)) == 1:
        return (arg,), Attributes({"axis": split.axis, "num_outputs": len(split.blocks)})
    sizes = (part_of_block(block, parts) for block in split.blocks)
    return (arg, Literal(tuple(size for size in sizes if isinstance(size, int)))), Attributes({"axis": split.axis})


def _of_blocks(split: Split) -> list[State]:
    """The state of each block."""
    return [WHOLE if isinstance(block, Shared) else Split(split.axis) for block in split.blocks]


def _sizes(split: Split) -> tuple[Dim, ...]:
    """The sizes of the blocks; none where there are none, or any number of them."""
    return () if split.is_repeated else tuple(map(whole_block, split.blocks))


def _with_dim(type: Type, axis: int, dim: Dim) -> Type:
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    shape = (*type.shape[:axis], dim, *type.shape[axis + 1 :])
    return replace(type, shape=shape)


def _next_change(states: Sequence[State], wanted: Sequence[State]) -> tuple[int, State]:
    """The factor of a mesh axis along which a value's state changes next, and to what: the outermost that is to change.

    A part along it is contiguous only while no inner factor splits the same dimension, so that is gathered before, from
    inside out, and cut again afterwards.
    """
    factor = next(k for k, state in enumerate(states) if state != wanted[k])
    axes = {state.axis for state in (states[factor], wanted[factor]) if isinstance(state, Split)}
    inner = enumerate(states[factor + 1 :], factor + 1)
    split = [k for k, state in inner if isinstance(state, Split) and state.axis in axes]
    return (split[-1], WHOLE) if split else (factor, wanted[factor])


def _fixed(state: State) -> State:
    """The state without looseness."""
    if isinstance(state, tuple):
        return tuple(map(_fixed, state))
    return replace(state, loose=False) if isinstance(state, Split) else state


def _same_parts(a: State, b: State) -> bool:
    """Whether two states differ at most in whether they are loose."""
    return isinstance(a, Split) and _fixed(a) == _fixed(b)


def _is_split(state: State) -> bool:
    return any(map(_is_split, state)) if isinstance(state, tuple) else isinstance(state, Split)


def _device_alone(type: Type) -> Type | None:
    """The device of a claim; None if it claims none."""
    device = types.device_of(type)
    return None if device is None else types.AnyType(device)
