"""How the updates of a training step want gradients to be placed: as the weights and the state that they update.

A gradient that is a pending sum over replicas is so reduced to the part of it that each device updates, and not to the
whole of which each takes its part. What only scales or casts a gradient wants it as its result is wanted. Functions
that add up gradients of microbatches, which hand them on in tuples, do so in parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Union

from distir.analysis import Analysis, Instance
from distir.analysis.kinds import in_place
from distir.ir import Apply, Arg, Call, Function, OwnedAlong, Places, SplitAlong, TensorType, TupleType, Type
from distir.ir.places import places, without
from distir.ops import OPS, Value, type_of
from distir.ops.layout import Layout, Letters
from distir.ops.splitting import layout
from distir.ops.tuples import TUPLING
from distir.placement.along import PARTIAL, WHOLE
from distir.placement.rule import kept


@dataclass(frozen=True, slots=True)
class Gradient:
    """The placement in which a gradient is wanted, and the weight that it is of."""

    wanted: Places
    of: str
    last: bool = True
    """Whether its sum over devices cannot wait: what is computed of it is no sum, as of a cast to another type."""


Wanted = Union[Gradient, "tuple[Wanted | None, ...]"]
"""How a gradient is wanted, or the items of a tuple; None for those that are none."""


def gradients(
    function: Function, analysis: Analysis, params: Mapping[str, Type], *, per_microbatch: bool
) -> dict[str, Wanted]:
    """By value of an entry function: the gradient that it is. `params`: its parameters, placed.

    `per_microbatch`: also of those that are added up in other functions, which are reduced before that.
    """
    found: dict[str, Wanted] = {}
    instance = analysis.domain.instance(function.name, tuple(p.type for p in function.params))
    params = dict(params)
    for statement in function.body:
        if isinstance(statement, Apply) and statement.op == "UnpackTuple":
            whole = params.get(str(statement.args[0]))
            params |= zip(statement.results, whole.items, strict=True) if isinstance(whole, TupleType) else ()
        if not isinstance(statement, Apply) or not is_update(statement):
            continue
        replaced, gradient, *_ = statement.args
        if replaced in params and isinstance(gradient, str):
            of = statement.facts.of or str(replaced)
            found.setdefault(gradient, Gradient(_by_update(statement, instance, params), of))
    return _before_all(function, analysis, instance, found, per_microbatch)


def gradients_returned(
    function: Function, analysis: Analysis, args: Sequence[Value], wanted: Sequence[Wanted | None]
) -> dict[str, Wanted]:
    """By value of a function that is called: the gradient that it is, where the results are wanted so."""
    pairs = zip(function.returned, wanted, strict=True)
    found = {arg: want for arg, want in pairs if isinstance(arg, str) and want is not None}
    return _before_all(function, analysis, analysis.domain.instance(function.name, tuple(args)), found, True)


def _before_all(
    function: Function, analysis: Analysis, instance: Instance, found: dict[str, Wanted], per_microbatch: bool
) -> dict[str, Wanted]:
    """Add the gradients that those found are computed of, by linear ops, and in tuples."""
    given = _given(function)
    for statement in reversed(function.body):
        before: Sequence[tuple[Arg, Wanted | None]] = ()
        if isinstance(statement, Call):
            before = _before_call(statement, analysis, instance, found) if per_microbatch else ()
        elif isinstance(statement, Apply) and statement.op in TUPLING:
            before = _in_tuples(statement, found) if per_microbatch else ()
        elif isinstance(statement, Apply) and len(statement.results) == 1:
            after = found.get(statement.results[0])
            if isinstance(after, Gradient):
                adds = statement.op == "Sum" and not given.isdisjoint(a for a in statement.args if isinstance(a, str))
                rows = _before(statement, instance, after.wanted)
                before = [(arg, Gradient(wanted, after.of, last or adds)) for arg, wanted, last in rows]
        for arg, want in before:
            if isinstance(arg, str) and want is not None:
                found.setdefault(arg, want)
    return found


def _given(function: Function) -> set[str]:
    """What a function is given: parameters, and their items."""
    found = {p.name for p in function.params}
    for statement in function.body:
        if isinstance(statement, Apply) and statement.op == "UnpackTuple" and statement.args[0] in found:
            found.update(statement.results)
    return found


def _in_tuples(statement: Apply, found: Mapping[str, Wanted]) -> Sequence[tuple[Arg, Wanted | None]]:
    """The operands of what makes or unpacks a tuple, and how they are wanted."""
    if statement.op == "UnpackTuple":
        items = tuple(found.get(name) for name in statement.results)
        return [(statement.args[0], items)] if any(items) else ()
    whole = found.get(statement.results[0])
    return [*zip(statement.args, whole, strict=True)] if isinstance(whole, tuple) else ()


def wanted_of_call(call: Call, found: Mapping[str, Wanted]) -> tuple[Wanted | None, ...]:
    """How the results of a call are wanted that are tuples of gradients, as of a microbatch; empty if none is."""
    wanted = [found.get(name) for name in call.results]
    return (
        tuple(w if isinstance(w, tuple) else None for w in wanted) if any(isinstance(w, tuple) for w in wanted) else ()
    )


def _before_call(
    call: Call, analysis: Analysis, instance: Instance, found: Mapping[str, Wanted]
) -> Sequence[tuple[Arg, Wanted | None]]:
    """The arguments of a call that its function adds to, and how they are wanted."""
    wanted = wanted_of_call(call, found)
    if not wanted:
        return ()
    function = analysis.module.functions[call.function]
    inside = gradients_returned(function, analysis, instance.state(call.args), wanted)
    return [(arg, inside.get(p.name)) for arg, p in zip(call.args, function.params, strict=True)]


def is_update(statement: Apply) -> bool:
    """Whether an op replaces its first operand, a weight or what it is kept in, by means of the second, a gradient."""
    return in_place(statement).get(0) == 0 and len(statement.args) > 1


def _by_update(statement: Apply, instance: Instance, params: Mapping[str, Type]) -> Places:
    """How the update of a part wants its gradient: as that is split of its weight and state which is split most.

    A dimension that the update needs whole is not split.
    """
    found = layout_of(statement, instance)
    if found is None:
        each = (params.get(arg) for arg in statement.args if isinstance(arg, str))
        return next(filter(None, (owned_in(t.places) for t in each if isinstance(t, TensorType))), ())
    stored = (params.get(arg) if isinstance(arg, str) else None for arg in statement.args)
    return _split_most(found.operands, tuple([t.places if isinstance(t, TensorType) else () for t in stored]))


@lru_cache(maxsize=1 << 8)  # layers have equal weights
def _split_most(operands: tuple[Letters, ...], stored: tuple[Places, ...]) -> Places:
    """The placement, of those in which an update's operands are stored, that splits most of the gradient."""
    own = operands[1]

    def along_own(placed: Places, its: Letters) -> Places:
        pairs = ((cut, its[cut.dim]) for cut in placed if isinstance(cut, SplitAlong))
        cuts = (replace(cut, dim=own.index(letter)) for cut, letter in pairs if letter and letter in own)
        return places((*cuts, *owned_in(placed)))

    return max(map(along_own, stored, operands), key=len)


def owned_in(stored: Places) -> Places:
    """Where a parameter that is placed so is on one device alone."""
    return tuple(place for place in stored if isinstance(place, OwnedAlong))


def layout_of(update: Apply, instance: Instance) -> Layout | None:
    """What an update's rule says of the dimensions of its operands; None where there is none, or they are tuples."""
    results = [type_of(v) for v in instance.state(update.results)]
    if any(isinstance(result, TupleType) for result in results):
        return None
    return layout(OPS[update.op], instance.state(update.args), results, update.attrs)


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
    cuts = (SplitAlong(letters.index(made[p.dim]), p.axis) for p in wanted if isinstance(p, SplitAlong))
    return places((*cuts, *(p for p in wanted if isinstance(p, OwnedAlong))))
