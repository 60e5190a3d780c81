"""Values brought from one state into another: which collective does it, written once and used again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    TensorType,
    TupleType,
    Type,
    types,
)
from distir.ops import Value, type_of
from distir.transform.sharding.items import Collective, Cut, Each, Item
from distir.transform.sharding.state import (
    PARTIAL,
    WHOLE,
    Split,
    State,
    is_host,
    is_partial,
    is_whole,
    whole_like,
)


class Resharding:
    """Items under way, the values and states of their names."""

    def __init__(self, size: int, taken: Iterable[str]) -> None:
        self.size = size
        self.items: list[Item] = []
        self.single: set[str] = set()
        """Host values that are the same for all devices."""
        self._values: dict[str, Value] = {}
        self._states: dict[str, State] = {}
        self._taken = {*taken}
        self._placed: dict[tuple[Arg, State], Arg] = {}
        self._settled: dict[str, Arg] = {}
        """By partial sum: what it was first brought into."""

    def define(self, name: str, value: Value, state: State) -> None:
        """A new name, the value in the whole program that it stands for, and its state."""
        if name == DISCARD:
            return
        self._values[name], self._states[name] = value, state
        if is_host(value) and is_whole(state):
            self.single.add(name)

    def value(self, arg: Arg) -> Value:
        """The value of an argument in the whole program: its type, or what is known of it."""
        if isinstance(arg, str):
            return self._values.get(arg, UNKNOWN) if arg else None
        return arg if isinstance(arg, Literal) else tuple(map(self.value, arg))

    def state(self, arg: Arg) -> State:
        """How an argument lies on the devices."""
        if isinstance(arg, str):
            return self._states.get(arg, WHOLE)
        return WHOLE if isinstance(arg, Literal) else tuple(map(self.state, arg))

    def names(self) -> set[str]:
        """All names that are taken."""
        return self._taken

    def fresh(self, hint: str) -> str:
        """A name that nothing has yet."""
        name, number = hint, 0
        while name in self._taken:
            number += 1
            name = f"{hint}_{number}"
        self._taken.add(name)
        return name

    def new(self, hint: str, op: str, args: Sequence[Arg], value: Value, state: State, **attrs: Constant) -> str:
        """Append an op with one result on every device, and give the result's name."""
        name = self.fresh(hint)
        self.items.append(Each(Apply((name,), op, tuple(args), Attributes(attrs))))
        self.define(name, value, state)
        return name

    def claims(self, statement: Apply | Call, given: Sequence[State]) -> tuple[Type | None, ...]:
        """What a statement says of its results' types, for what one device has of them."""
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
        key = (arg, _fixed(state))
        if key not in self._placed:
            self._placed[key] = self._place(arg, now, state)
            if now is PARTIAL and isinstance(arg, str):
                self._settled.setdefault(arg, self._placed[key])
        return self._placed[key]

    def _summed(self, arg: Arg, state: State) -> Arg | None:
        """A partial sum in another state, made of the sum where it was taken before: in parts, or whole."""
        whole = self._placed.get((arg, WHOLE))
        if isinstance(state, Split):
            return None if whole is None else self.placed(whole, state)
        parts = (to for (of, s), to in self._placed.items() if of == arg and isinstance(s, Split) and not s.blocks)
        part = next(parts, None)
        return None if part is None or not is_whole(state) else self.placed(part, state)

    def _place(self, arg: Arg, now: State, state: State) -> Arg:
        value, hint = self.value(arg), arg if isinstance(arg, str) else "constant"
        if now is PARTIAL and (found := self._summed(arg, state)) is not None:
            return found
        if isinstance(arg, str) and is_partial(now) and is_whole(state):
            return self._collective(f"{hint}_sum", "MPIAllreduce", arg, value, whole_like(type_of(value)))
        if isinstance(now, tuple) or isinstance(state, tuple):
            return self._place_items(arg, state)
        if isinstance(now, Split):
            if isinstance(state, Split) and not now.blocks and not state.blocks:
                along = {"split_axis": state.axis, "concat_axis": now.axis}
                return self._collective(f"{hint}_turned", "MPIAlltoall", arg, value, state, **along)
            whole = self._gathered(arg, hint, value, now)
            return self.placed(whole, state)
        assert isinstance(state, Split)
        if now is PARTIAL:
            if not state.blocks:
                return self._collective(f"{hint}_sum", "MPIReduceScatter", arg, value, state, axis=state.axis)
            arg = self.placed(arg, WHOLE)
        return self._cut(arg, hint, value, state)

    def _collective(self, hint: str, op: str, arg: Arg, value: Value, state: State, **attrs: int) -> str:
        assert isinstance(arg, str)
        name = self.fresh(hint)
        self.items.append(Collective(name, op, arg, Attributes(attrs)))
        self.define(name, value, state)
        return name

    def _place_items(self, arg: Arg, state: State) -> Arg:
        """A tuple whose items lie differently: each by itself."""
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
            return self._collective(f"{hint}_whole", "MPIAllgather", arg, value, WHOLE, axis=now.axis)
        blocks = self._blocks(arg, hint, now, [Split(now.axis)] * len(now.blocks), self.size)
        parts = [self.placed(name, WHOLE) for name in blocks]
        return self.new(f"{hint}_whole", "Concat", parts, value, WHOLE, axis=now.axis)

    def _cut(self, arg: Arg, hint: str, value: Value, state: Split) -> Arg:
        if not state.blocks:
            name = self.fresh(f"{hint}_part")
            self.items.append(Cut(name, arg, state.axis))
            self.define(name, value, state)
            return name
        blocks = self._blocks(arg, hint, state, [WHOLE] * len(state.blocks), 1)
        parts = [self.placed(name, Split(state.axis)) for name in blocks]
        return self.new(f"{hint}_part", "Concat", parts, value, state, axis=state.axis)

    def _blocks(self, arg: Arg, hint: str, split: Split, states: Sequence[State], parts: int) -> list[str]:
        """The blocks of a value one by one; of each, one of `parts` parts is here."""
        names = [self.fresh(f"{hint}_block") for _ in split.blocks]
        args, attrs = block_sizes(arg, split, parts)
        self.items.append(Each(Apply(tuple(names), "Split", args, attrs)))
        whole = type_of(self.value(arg))
        for name, block, state in zip(names, split.blocks, states, strict=True):
            self.define(name, _with_dim(whole, split.axis, block), state)
        return names


def block_sizes(arg: Arg, split: Split, parts: int) -> tuple[tuple[Arg, ...], Attributes]:
    """Operands and attributes of the `Split` that cuts a dimension into its blocks, each divided by `parts`."""
    if len(set(split.blocks)) == 1:
        return (arg,), Attributes({"axis": split.axis, "num_outputs": len(split.blocks)})
    sizes = tuple(block // parts for block in split.blocks if isinstance(block, int))
    return (arg, Literal(sizes)), Attributes({"axis": split.axis})


def _with_dim(type: Type, axis: int, dim: Dim) -> Type:
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    shape = (*type.shape[:axis], dim, *type.shape[axis + 1 :])
    return TensorType(type.dtype, shape, type.device)


def _fixed(state: State) -> State:
    """The state without saying what is loose."""
    if isinstance(state, tuple):
        return tuple(map(_fixed, state))
    return Split(state.axis, state.blocks) if isinstance(state, Split) else state


def _same_parts(a: State, b: State) -> bool:
    """Whether two states differ at most in whether they are loose."""
    return isinstance(a, Split) and _fixed(a) == _fixed(b)


def _is_split(state: State) -> bool:
    return any(map(_is_split, state)) if isinstance(state, tuple) else isinstance(state, Split)


def _device_alone(type: Type) -> Type | None:
    """What a claim says of the device; nothing if it says nothing."""
    device = types.device_of(type)
    return None if device is None else types.AnyType(device)
