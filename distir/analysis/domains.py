"""The domains: types; types and known values, mixed; devices. That of concrete values is in `values.py`.

Paper, section 3. The rules come from the ops; here is which rule is asked first, what a call means, and what an
annotation adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distir.analysis.interpreter import Domain, State, algorithm_1
from distir.analysis.known_ops import lookup
from distir.analysis.parameters import parameters
from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as type_codes
from distir.ir import (
    UNKNOWN,
    AnyType,
    Apply,
    Arg,
    Call,
    Dim,
    DimensionError,
    Function,
    Literal,
    Module,
    Part,
    TensorType,
    TupleType,
    Type,
    types,
)
from distir.ir.deep import Deep, finish
from distir.ops import Reject, Value, infer_partial, infer_types, infer_values, type_of
from distir.ops.devices import Renaming, answer


@dataclass(slots=True)
class Instance:
    """A function's body interpreted for certain arguments."""

    function: Function
    args: tuple[Value, ...]
    """With what the parameters' types add."""
    dims: Mapping[str, Dim]
    """The sizes of the function's named dimensions."""
    final: State | None
    """The final state; of a replica, once it was asked for."""
    replica: Replica | None = None
    """Where it is not interpreted: what it is to one that is."""

    @property
    def state(self) -> State:
        """The final state."""
        if self.final is None:
            assert self.replica is not None
            self.final = self.replica.state()
        return self.final

    @property
    def returned(self) -> tuple[Value, ...]:
        """What the function returns."""
        return self.state.returned if self.replica is None else self.replica.returned

    @property
    def size(self) -> int:
        """How many values the final state has."""
        return len(self.state) if self.replica is None else self.replica.origin.size


@dataclass(frozen=True, slots=True)
class Replica:
    """An instance as another one is that differs from it in its devices alone."""

    origin: Instance
    renaming: Renaming
    returned: tuple[Value, ...]

    @classmethod
    def of(cls, origin: Instance, renaming: Renaming) -> Instance:
        """The instance on the other devices; its state is computed when it is asked for."""
        args, returned = renaming(origin.args), renaming(origin.state.returned)
        return Instance(origin.function, args, origin.dims, None, cls(origin, renaming, returned))

    def state(self) -> State:
        """The final state, on these devices."""
        before = self.origin.state
        state = State((), (), before.semantics)
        state.update((name, self.renaming(v)) for name, v in before.items())
        state.returned = self.returned
        return state


@dataclass
class Types(Domain):
    """Types alone: the paper's abstract interpretation. Every rule's answer is kept, by op and operands."""

    module: Module
    rules: tuple[Any, ...] = (infer_types,)
    memo: dict[Any, tuple[Value, ...]] = field(default_factory=dict[Any, tuple[Value, ...]])
    instances: dict[tuple[str, tuple[Value, ...]], Instance] = field(
        default_factory=dict[tuple[str, tuple[Value, ...]], Instance]
    )
    unknown: Any = UNKNOWN
    dims: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    """The named dimensions of the function that is being interpreted."""

    def apply(self, op: Apply, vs: tuple[Value, ...]) -> Sequence[Value]:
        """The values of the op's results, narrowed by their annotations. Raises Reject."""
        ws = self.answer(op, vs)
        return self.claimed(op, ws) if op.claims else ws

    def answer(self, op: Apply, vs: tuple[Value, ...]) -> tuple[Value, ...]:
        """The results by the op's rules, whatever the statement claims of them."""
        key = (op.op, op.attrs, vs, len(op.results))
        ws = self.memo.get(key)
        if ws is None:
            ws = self.memo[key] = tuple(map(_one, self.most_precise(op, vs)))
        return ws

    def most_precise(self, op: Apply, vs: tuple[Value, ...]) -> tuple[Value, ...]:
        """The answer of the first rule that has one."""
        count = len(op.results)
        return _counted(op.op, answer(self.rules, lookup(op.op), vs, op.attrs, count), count)

    def called(self, call: Call, vs: tuple[Value, ...]) -> Deep[Sequence[Value]]:
        """What the function returns for these arguments, narrowed by the annotations. Raises Reject."""
        instance = yield self.interpreted(call.function, vs)
        ws = _counted(f"@{call.function}", instance.returned, len(call.results))
        return self.claimed(call, ws) if call.claims else ws

    def constant(self, arg: Arg) -> Value:
        """A literal is its own value."""
        assert isinstance(arg, Literal)
        return arg

    def instance(self, name: str, vs: tuple[Value, ...]) -> Instance:
        """The function's body interpreted for these arguments; once."""
        return finish(self.interpreted(name, vs))

    def interpreted(self, name: str, vs: tuple[Value, ...]) -> Deep[Instance]:
        """The same, for who waits for it."""
        known = self.instances.get((name, vs))
        if known is None:
            function = self.module.functions[name]
            args, dims = parameters(function, vs)
            outer, self.dims = self.dims, dims
            try:
                known = Instance(function, args, dims, (yield algorithm_1(function, args, self)))
                known.state.returned = self.claimed_results(function, known.state.returned)
            finally:
                self.dims = outer
            self.instances[name, vs] = known
        return known

    def claimed(self, op: Apply | Call, ws: tuple[Value, ...]) -> tuple[Value, ...]:
        """The results with what the statement claims of them. Raises Reject where a claim is refuted."""
        return tuple(
            w if claim is None else self.meet(claim, w, Part("claim", i))
            for i, (claim, w) in enumerate(zip(op.claims, ws, strict=True))
        )

    def claimed_results(self, function: Function, ws: tuple[Value, ...]) -> tuple[Value, ...]:
        """What the function returns, with what its head says of that."""
        if function.result_types is None:
            return ws
        ws = _counted(f"@{function.name}", ws, len(function.result_types))
        claims = enumerate(zip(function.result_types, ws, strict=True))
        return tuple(self.meet(claim, w, Part("result_type", i)) for i, (claim, w) in claims)

    def meet(self, claim: Type, w: Value, part: Part) -> Value:
        """A value with what is claimed of its type. Raises Reject if the claim is refuted."""
        try:
            claim = types.substitute(claim, self.dims)
        except DimensionError as error:
            raise Reject(type_codes.CLAIM_REFUTED, str(error), part) from None
        met = types.meet(claim, type_of(w))
        if met is None:
            raise Reject(type_codes.CLAIM_REFUTED, f"expected `{claim}`, found `{type_of(w)}`", part)
        return met if isinstance(w, (TensorType, TupleType, AnyType)) else w


def Mixed(module: Module, **fields: Any) -> Types:  # noqa: N802 - a domain, like the others
    """Types, and values where they can be known: the most precise rule first (section 3.3, figure 4)."""
    return Types(module, rules=MOST_PRECISE_FIRST, **fields)


MOST_PRECISE_FIRST = (infer_values, infer_partial, infer_types)
"""All operands known; some known; types alone."""


@dataclass
class Devices(Types):
    """Where values live, and nothing else of them: device placement."""

    def apply(self, op: Apply, vs: tuple[Value, ...]) -> Sequence[Value]:
        """The devices of the op's results. Raises Reject."""
        return tuple(_placed(type_of(w)) for w in super().apply(op, vs))

    def called(self, call: Call, vs: tuple[Value, ...]) -> Deep[Sequence[Value]]:
        """The devices of what the function returns. Raises Reject."""
        ws = yield super().called(call, vs)
        return tuple(_placed(type_of(w)) for w in ws)


def _counted(name: str, ws: tuple[Value, ...], count: int) -> tuple[Value, ...]:
    if len(ws) == count:
        return ws
    plural = "" if len(ws) == 1 else "s"
    message = f"`{name}` gives {len(ws)} result{plural}, found {count} name{'' if count == 1 else 's'}"
    part = Part("result", len(ws)) if count > len(ws) else Part("callee")
    raise Reject(name_codes.RESULT_COUNT, message, part, help="write `_` for a result that is not wanted")


def _one(v: Value) -> Value:
    """A value, by one object where equal ones are large."""
    return types.one(v) if isinstance(v, (TensorType, TupleType)) else v


def _placed(type: Type) -> Type:
    if isinstance(type, TupleType):
        return TupleType(tuple(map(_placed, type.items)))
    return AnyType(type.device)
