"""How the updates of a training step want gradients to be placed: as the weights and the state that they update.

A gradient that is a pending sum over replicas is so reduced to the part of it that each device updates, and not to the
whole of which each takes its part. What only scales or casts a gradient wants it as its result is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.analysis import Checker, Instance
from distir.ir import Apply, Call, Function, Places, SplitAlong, TensorType, Type
from distir.ir.places import places, without
from distir.ops import OPS, type_of
from distir.ops.splitting import layout
from distir.placement.along import PARTIAL, WHOLE
from distir.placement.rule import kept


@dataclass(frozen=True, slots=True)
class Gradient:
    """The placement in which a gradient is wanted, and the weight that it is of."""

    wanted: Places
    of: str
    last: bool = True
    """Whether its sum over devices cannot wait: what is computed of it is no sum, as of a cast to another type."""


Wanted = Gradient | tuple["Wanted | None", ...]
"""A gradient, or of a tuple each item that is one."""


@dataclass(eq=False)
class PerMicrobatch:
    """How the passes of microbatches want gradients that they add up, where each is reduced before it is added."""

    domain: Checker
    _known: dict[tuple[str, tuple[Wanted | None, ...]], dict[str, Wanted]] = field(
        default_factory=dict[tuple[str, tuple[Wanted | None, ...]], dict[str, Wanted]]
    )

    def within(self, name: str, instance: Instance, results: tuple[Wanted | None, ...]) -> dict[str, Wanted]:
        """By value of a function: the gradient that it is, if the function returns these."""
        known = self._known.get((name, results))
        if known is None:
            function = self.domain.module.functions[name]
            pairs = zip(function.returned, results, strict=True)
            given = {arg: wanted for arg, wanted in pairs if isinstance(arg, str) and wanted is not None}
            known = self._known[name, results] = gradients(function, instance, {}, self, given)
        return known

    def before(self, statement: Apply | Call, instance: Instance, found: dict[str, Wanted]) -> None:
        """Add what a call takes that is wanted, or what tuples consist of."""
        wanted = tuple(map(found.get, statement.results))
        given: Sequence[Wanted | None] = ()
        if isinstance(statement, Call):
            if any(isinstance(one, tuple) for one in wanted):
                callee = self.domain.module.functions[statement.function]
                own = self.domain.instance(statement.function, instance.state(statement.args))
                inner = self.within(statement.function, own, tuple(map(anonymous, wanted)))
                given = [inner.get(param.name) for param in callee.params]
        elif statement.op == "UnpackTuple" and any(wanted):
            given = (wanted,)
        elif isinstance(wanted[0], tuple):
            is_sum = statement.op == "Sum"
            given = wanted * len(statement.args) if is_sum else tuple(map(_last, wanted[0]))
        for arg, one in zip(statement.args, given, strict=False):
            if isinstance(arg, str) and one is not None:
                found.setdefault(arg, one)


def anonymous(wanted: Wanted | None) -> Wanted | None:
    """The same in a function that does not know of which weights gradients are."""
    if isinstance(wanted, tuple):
        return tuple(map(anonymous, wanted))
    return None if wanted is None else replace(wanted, of="")


def _last(wanted: Wanted | None) -> Wanted | None:
    return replace(wanted, last=True) if isinstance(wanted, Gradient) else wanted


def gradients(
    function: Function,
    instance: Instance,
    params: Mapping[str, Type],
    each: PerMicrobatch | None = None,
    returned: Mapping[str, Wanted] | None = None,
) -> dict[str, Wanted]:
    """By value of a function: the gradient that it is. `params`: parameters of an entry function, placed.

    `each`: where gradients of each microbatch are reduced. `returned`: what the function returns that is wanted.
    """
    found = dict(returned or {})
    for statement in reversed(function.body):
        if each is not None and isinstance(statement, (Apply, Call)):
            each.before(statement, instance, found)
        if not isinstance(statement, Apply):
            continue
        if is_update(statement):
            gradient = statement.args[1]
            placed = [t for a in statement.args if isinstance(t := params.get(str(a)), TensorType)]
            if isinstance(gradient, str) and placed:
                of = statement.facts.of or str(statement.args[0])
                found.setdefault(gradient, Gradient(_joined(placed), of))
        elif len(statement.results) == 1 and isinstance(after := found.get(statement.results[0]), Gradient):
            for arg, wanted, last in _before(statement, instance, after.wanted):
                found.setdefault(arg, Gradient(wanted, after.of, last))
    return found


def is_update(statement: Apply) -> bool:
    """Whether an op replaces its first operand, a weight or what it is kept in, by means of the second, a gradient."""
    op = OPS[statement.op]
    if op.name == "Sum":  # adds to its first operand, which is another gradient
        return False
    return op.inplace != "each" and op.inplace.get(0) == 0 and op.communication is None and len(statement.args) > 1


def _joined(placed: Sequence[TensorType]) -> Places:
    """The placement of what is split most: state may be split where its weight is not."""
    return max((t.places for t in placed if len(t.shape or ()) == len(placed[0].shape or ())), key=len)


def _before(statement: Apply, instance: Instance, wanted: Places) -> list[tuple[str, Places, bool]]:
    """The operands with the dimensions of a statement's result, how they are wanted, and whether they must be sums."""
    vs = instance.state(statement.args)
    (w,) = (type_of(v) for v in instance.state(statement.results))
    if not isinstance(w, TensorType) or not all(isinstance(type_of(v), TensorType) for v in vs):
        return []
    found = layout(OPS[statement.op], vs, [w], statement.attrs)
    if found is None:
        return []
    made = found.results[0]
    alike = [None not in made and sorted(map(str, letters)) == sorted(map(str, made)) for letters in found.operands]
    pending = tuple(PARTIAL if is_alike else WHOLE for is_alike in alike)
    last = kept(OPS[statement.op], vs, pending, [w]) is None
    rows = zip(statement.args, found.operands, alike, strict=True)
    return [(a, _along(wanted, made, own), last) for a, own, is_alike in rows if is_alike and isinstance(a, str)]


def _along(wanted: Places, made: Sequence[str | None], letters: Sequence[str | None]) -> Places:
    """The placement of an operand by that of a result, dimension by dimension."""
    for place in wanted:
        if isinstance(place, SplitAlong) and place.blocks:
            wanted = without(wanted, place.axis)
    return places(SplitAlong(letters.index(made[p.dim]), p.axis) for p in wanted if isinstance(p, SplitAlong))
