"""Reduces accumulated gradients over replicas in each microbatch, so that only parts are accumulated.

As `Reduce(a + b) = Reduce(a) + Reduce(b)`, a reduction moves up through sums, and through the tuples and functions that
carry them from one microbatch to the next, to the statement that computes the gradient.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from distir.ir import (
    NO_FACTS,
    Apply,
    Arg,
    Attributes,
    Call,
    Facts,
    Function,
    Module,
    Return,
    Shape,
    Statement,
    TensorType,
    names,
    operands,
    results,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.dataflow import maker
from distir.ir.errors import DistirError
from distir.ir.rewrite import Rewriter, with_operands
from distir.ops.group import GROUPED
from distir.transform.steps import tell
from distir.transform.zero.groups import WeightGroup
from distir.transform.zero.partition import Owner, Partition, parameter_of
from distir.transform.zero.slots import Held, Partitioned, Slot, renumbered

ADDING = ("Sum", "Add")
"""The ops that add gradients of one shape."""


REDUCING = ("MPIReduce", "MPIReduceScatter", GROUPED["MPIReduceScatter"].name)
"""The ops that reduce gradients to parts."""


class UnmovableError(DistirError):
    """A value is used in parts and whole, in one tuple."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A rewritten function: which parameters take parts, and the weights in the order of its results."""

    function: Function
    params: tuple[Held | None, ...]
    order: tuple[int, ...]


def reducing(
    group: WeightGroup, partition: Partition, summed: Sequence[str], gradients: Sequence[str], stream: str = ""
) -> Apply:
    """The statement that reduces gradients: a part of the sum to each replica, or all of it to the owner."""
    facts = Facts(of=parameter_of(group, partition))
    if isinstance(partition, Owner):
        attrs = Attributes({"root": group.devices[partition.rank]})
        return Apply((summed[partition.rank],), "MPIReduce", tuple(gradients), attrs, stream=stream, facts=facts)
    scattered = group.replicas.collective("MPIReduceScatter", summed, gradients, axis=partition.axis)
    return replace(scattered, stream=stream, facts=facts)


@dataclass(slots=True)
class ReducePerMicrobatch:
    """Rewrites an entry function that reduces accumulated gradients once, and the functions that accumulate them."""

    module: Module
    partitioned: Partitioned
    shapes: Mapping[str, Mapping[str, Shape | None]]
    """By function and value: the shape; absent for values that are no tensors, or whose shape depends on the call."""
    names: FunctionBuilder
    """Of functions."""
    made: dict[tuple[str, Hashable], Rewritten] = field(default_factory=dict[tuple[str, Hashable], Rewritten])
    """By function, and by which of its results are to be parts."""

    def entry(self, entry: Function) -> Function:
        """The rewritten entry function; unchanged, with a note, if a sum is also used whole."""
        pairs = zip(self.partitioned.groups, self.partitioned.partitions, strict=True)
        numbers = {parameter_of(group, partition): number for number, (group, partition) in enumerate(pairs)}
        wanted = {
            index: numbers[s.facts.of]
            for index, s in enumerate(entry.body)
            if isinstance(s, Apply) and s.op in REDUCING and s.facts.of in numbers
            if all(self._summed(entry, name) for name in names(s.args))
        }
        if not wanted:
            return entry
        try:
            return _Body(self, entry, wanted).rewritten(())
        except UnmovableError:
            self.made.clear()
            tell("gradients of microbatches are summed whole on each device and reduced once: sums are used whole, too")
            return entry

    def _summed(self, entry: Function, name: str) -> bool:
        """Whether a gradient is unpacked from a tuple, as sums over microbatches are, or is a sum of such."""
        statement = maker(entry, name)
        if isinstance(statement, Apply) and statement.op in ADDING:
            return any(self._summed(entry, arg) for arg in names(statement.args))
        return isinstance(statement, Apply) and statement.op == "UnpackTuple"

    def returning(self, name: str, helds: Sequence[Held | None]) -> Rewritten:
        """The rewritten function whose results are these parts. Raises UnmovableError."""
        key, order = self.partitioned.key(helds)
        if (name, key) not in self.made:
            function = self.module.functions[name]
            body = _Body(self, function, {})
            written = body.rewritten(helds)
            given = tuple(body.wanted.get(p.name) for p in function.params)
            params = [
                replace(p, type=self.partitioned.type(p.type, of))
                for p, of in zip(function.params, given, strict=True)
                if self.partitioned.remains(of)
            ]
            written = replace(written, name=self.names.fresh(name), params=tuple(params))
            self.made[name, key] = Rewritten(written, given, order)
        return self.made[name, key]

    def accumulates(self, function: Function, place: int) -> bool:
        """Whether a function adds to a parameter and returns the sum."""
        params = {p.name for p in function.params}
        arg = function.returned[place]
        while isinstance(arg, str) and arg not in params:
            statement = maker(function, arg)
            if isinstance(statement, Call):
                return self.accumulates(self.module.functions[statement.function], statement.results.index(arg))
            if not isinstance(statement, Apply) or statement.op not in ADDING:
                return False
            arg = statement.args[0]
        return isinstance(arg, str)


class _Body:
    """Rewrites the body of one function. `reduces`: by statement that reduces a weight's gradients, the weight."""

    def __init__(self, owner: ReducePerMicrobatch, function: Function, reduces: dict[int, int]) -> None:
        self.owner, self.function, self.reduces = owner, function, reduces
        self.partitioned = owner.partitioned
        self.edit = Rewriter(function)
        self.wanted: dict[str, Held] = {}
        """The values that are to be parts."""
        self.whole: set[str] = set()
        """The values that are used whole."""
        self.parts: dict[str, str] = {}
        """By value: the name of its part."""
        self.made: dict[tuple[int, int], list[tuple[int, str]]] = {}
        """By weight and rank: the gradients computed here, with their statements."""
        self.callees: dict[int, Rewritten] = {}

    def rewritten(self, helds: Sequence[Held | None]) -> Function:
        """The function, with its old parameters; `helds`: which results are to be parts. Raises UnmovableError."""
        passing = self._passing(helds)
        for weight in dict.fromkeys(weight for weight, _ in self.made):
            self._reduce(weight)
        for index, statement in enumerate(self.function.body):
            self.edit.replace(index, *self._written(index, statement, index in passing))
        return self.edit.done(result_types=None)

    # Backwards: which values are to be parts, and where they are computed.

    def _passing(self, helds: Sequence[Held | None]) -> set[int]:
        """The statements that take parts and return parts."""
        found: set[int] = set()
        for index in range(len(self.function.body) - 1, -1, -1):
            statement = self.function.body[index]
            if isinstance(statement, Return):
                for place, arg in enumerate(statement.args):
                    self._want(arg, helds[place] if helds else None)
                found.add(index)
            elif index in self.reduces:
                for rank, arg in enumerate(operands(statement)):
                    self._want(arg, Slot(self.reduces[index], rank))
            elif self._passes(index, statement):
                found.add(index)
            else:
                for name in results(statement):
                    self._make(index, name)
                self.whole.update(names(operands(statement)))
        for param in self.function.params:
            held = self.wanted.get(param.name)
            if held is not None and param.name in self.whole:
                raise UnmovableError
            self.parts[param.name] = param.name
        return found

    def _want(self, arg: Arg, held: Held | None) -> None:
        if isinstance(arg, str) and held is not None:
            if self.wanted.setdefault(arg, held) != held or (isinstance(held, tuple) and arg in self.whole):
                raise UnmovableError
            if isinstance(held, Slot) and not self._alike(arg, held):
                raise UnmovableError
        else:
            self.whole.update(names((arg,)))

    def _make(self, index: int, name: str) -> None:
        """Note a value that is computed here, if it is to be a part."""
        held = self.wanted.get(name)
        if isinstance(held, tuple):
            raise UnmovableError
        if held is not None:
            self.made.setdefault((held.weight, held.rank), []).append((index, name))

    def _passes(self, index: int, statement: Statement) -> bool:
        """Mark the operands of a statement as parts, if its results then are parts."""
        wanted = {name: held for name in results(statement) if (held := self.wanted.get(name)) is not None}
        if not wanted:
            return False
        match statement:
            case Apply(op="MakeTuple"):
                held = wanted[statement.results[0]]
                assert isinstance(held, tuple)
                if statement.results[0] in self.whole:
                    raise UnmovableError
                for arg, of in zip(statement.args, held, strict=True):
                    self._want(arg, of)
                return True
            case Apply(op="UnpackTuple"):
                if not self.whole.isdisjoint(wanted):
                    raise UnmovableError
                self._want(statement.args[0], tuple(wanted.get(name) for name in statement.results))
                return True
            case Apply(op=op) if op in ADDING and self.whole.isdisjoint(wanted):
                held = wanted[statement.results[0]]
                if not all(isinstance(arg, str) and self._alike(arg, held) for arg in statement.args):
                    return False
                for arg in statement.args:
                    self._want(arg, held)
                return True
            case Call() if self.whole.isdisjoint(wanted) and self._sums(statement, wanted):
                found = self.owner.returning(statement.function, [wanted.get(name) for name in statement.results])
                order = self.partitioned.key([wanted.get(name) for name in statement.results])[1]
                self.callees[index] = found
                ours = dict(zip(found.order, order, strict=True))
                for arg, of in zip(statement.args, found.params, strict=True):
                    self._want(arg, renumbered(of, ours))
                return True
            case _:
                return False

    def _alike(self, arg: str, held: Held) -> bool:
        """Whether a value may have the weight's shape: a smaller one is broadcast, and its parts differ.

        Tuples of gradients (`sums=stage`) are added item by item.
        """
        if not isinstance(held, Slot):
            return True
        shape = self.owner.shapes.get(self.function.name, {}).get(arg)
        weight = self.partitioned.groups[held.weight].type
        return shape is None or not isinstance(weight, TensorType) or shape == weight.shape

    def _sums(self, call: Call, wanted: dict[str, Held]) -> bool:
        """Whether a function returns sums: in tuples, or by adding to a parameter."""
        callee = self.owner.module.functions[call.function]
        if callee.kernel:
            return False
        return any(
            isinstance(wanted[name], tuple) or self.owner.accumulates(callee, place)
            for place, name in enumerate(call.results)
            if name in wanted
        )

    # Forwards: the statements.

    def _reduce(self, weight: int) -> None:
        group, partition = self.partitioned.groups[weight], self.partitioned.partitions[weight]
        ranks = [self.made.get((weight, rank), []) for rank in range(len(group.devices))]
        for together in zip_longest(*ranks):
            if None in together:
                raise UnmovableError
            gradients = [name for _, name in together]
            own = [self.edit.fresh(f"{name}_part") for name in gradients]
            self.parts |= dict(zip(gradients, own, strict=True))
            reduce, at = reducing(group, partition, own, gradients), max(index for index, _ in together)
            self.edit.behind(at, reduce if self.reduces else replace(reduce, facts=NO_FACTS))

    def _written(self, index: int, statement: Statement, passes: bool) -> list[Statement]:
        if index in self.reduces:
            group = self.partitioned.groups[self.reduces[index]]
            for rank, (name, gradient) in enumerate(zip(group.sums, group.gradients, strict=True)):
                if self.partitioned.remains(Slot(self.reduces[index], rank)):
                    self.parts[name] = self.parts[gradient]
            return []
        renamed = {name: self.parts[name] for name in names(operands(statement)) if self._in_parts(name, passes)}
        if not passes:
            return [with_operands(statement, renamed)]
        kept = tuple(name for name in results(statement) if self.partitioned.remains(self.wanted.get(name)))
        if results(statement) and not kept:
            return []
        self.parts |= {name: name for name in kept if name in self.wanted}
        args = tuple(arg for arg in operands(statement) if self._left(arg))
        if isinstance(statement, Return):
            return [with_operands(replace(statement, args=args), renamed)]
        assert isinstance(statement, (Apply, Call))
        written = replace(statement, results=kept, args=args, claims=())
        if isinstance(written, Call):
            written = replace(written, function=self.callees[index].function.name)
        return [with_operands(written, renamed)]

    def _in_parts(self, name: str, passes: bool) -> bool:
        """Whether a statement takes a value's part: if it passes parts on, or the value is a sum of parts."""
        return name in self.parts and (passes if name in self.wanted else True)

    def _left(self, arg: Arg) -> bool:
        return not isinstance(arg, str) or self.partitioned.remains(self.wanted.get(arg))
