"""Updates of parts that need something of all parts, as Muon the momentum: each replica gathers it.

The op's rule `parted` says what is computed of parts, and what is gathered; this writes it for all replicas at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.ir import Apply, Arg, Attributes, Constant, Statement, TensorType, Type
from distir.ir.builder import FunctionBuilder
from distir.ops import OPS
from distir.ops.attributes import bind
from distir.transform.zero.groups import WeightGroup
from distir.transform.zero.partition import Along


def in_parts(
    updates: Sequence[Apply],
    group: WeightGroup,
    along: Along,
    part: Callable[[str, str, int], Apply],
    types: Mapping[str, Type],
    namer: FunctionBuilder,
) -> list[Statement]:
    """The statements of updates of parts, one of each replica.

    `part`: writes a replica's part of a whole value, of its name and that value's; `types`: of the operands.
    """
    first = updates[0]
    names = {arg: tuple(str(u.args[i]) for u in updates) for i, arg in enumerate(first.args) if isinstance(arg, str)}
    writer = _Writer(group, along, part, types, namer, names)
    found: Sequence[Arg] = OPS[first.op].rules["parted"](writer, *first.args, **bind(OPS[first.op], first.attrs))
    wanted = {
        writer.names[str(own)][rank]: update.results[i]
        for rank, update in enumerate(updates)
        for i, own in enumerate(found)
    }
    return [replace(s, results=tuple(wanted.get(name, name) for name in s.results)) for s in writer.body]


@dataclass(slots=True)
class _Writer:
    """The `WholeParts` of replicas: a value is named as on the first, and `names` has its name on each."""

    group: WeightGroup
    along: Along
    of_replica: Callable[[str, str, int], Apply]
    types: Mapping[str, Type]
    namer: FunctionBuilder
    names: dict[str, tuple[str, ...]]
    body: list[Apply] = field(default_factory=list[Apply])

    def __call__(self, op: str, *args: Arg, **attrs: Constant) -> Arg:
        """Write an op for each replica."""
        made = self._fresh(op.lower())
        for rank, name in enumerate(made):
            own = tuple(self.names[arg][rank] if isinstance(arg, str) and arg in self.names else arg for arg in args)
            self.body.append(Apply((name,), op, own, Attributes(attrs)))
        return made[0]

    def whole(self, x: Arg, like: Arg) -> Arg:
        """The parts of all replicas, on each."""
        made = self._fresh("every")
        gathered = self.group.replicas.collective("MPIAllgather", made, self.names[str(x)], axis=self.along.axis)
        self.body.append(gathered)
        return made[0]

    def part(self, x: Arg, like: Arg) -> Arg:
        """The part of each replica."""
        made = self._fresh("part")
        self.body += [self.of_replica(name, self.names[str(x)][rank], rank) for rank, name in enumerate(made)]
        return made[0]

    def type(self, x: Arg) -> TensorType:
        """The type of an operand; unknown if it is none."""
        found = self.types.get(str(x))
        return found if isinstance(found, TensorType) else TensorType(None, None)

    def _fresh(self, hint: str) -> tuple[str, ...]:
        made = tuple(self.namer.fresh(hint) for _ in self.group.weights)
        self.names[made[0]] = made
        return made
