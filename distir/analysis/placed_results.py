"""What a program on a mesh is given and returns: values, no pending sums, and what the next step takes in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from distir.analysis.domains import Instance
from distir.analysis.mending import bringing, ending, named, shown
from distir.analysis.stated_places import complaint
from distir.analysis.updates import ParameterUpdates
from distir.diagnostics import Diagnostic
from distir.diagnostics.codes import placements as codes
from distir.ir import (
    Apply,
    Attributes,
    Function,
    Module,
    Part,
    PendingAlong,
    Places,
    Return,
    Site,
    TensorType,
    Type,
    types,
)
from distir.ir.places import NOUNS, show_axes
from distir.ir.roles import is_held
from distir.ops import type_of

NEW = "_new"
"""What the name of a result ends in that is the new value of the parameter whose name stands before it."""


def misplaced_results(module: Module, own: Mapping[str, Instance], *, sound: bool) -> Iterator[Diagnostic]:
    """Results of the entry function that are no values, or are placed otherwise than what they replace.

    `own`: functions for their parameters' types. `sound`: nothing is wrong with the module otherwise, so that data flow
    can be followed.
    """
    entry = module.entry()
    if not module.mesh or entry is None or entry.name not in own:
        return
    if not entry.body or not isinstance(entry.body[-1], Return):
        return
    meshes = module.meshes
    for k, param in enumerate(entry.params):
        pending = _pending(param.type)
        pending = None if pending is None or complaint(param.type, meshes) else pending
        if pending is not None:
            site = Site(entry.name, None, Part("param_type", k))
            message = f"`%{param.name}` is stated as {pending}"
            share = Apply((), "Share", (), Attributes({"axis": named(pending.axes)}))
            hint = f"state its whole value; `{shown(share)}` makes a pending sum of it"
            yield Diagnostic(codes.PENDING_END, site, message, help=hint)
    given = [type_of(v) for v in own[entry.name].returned]
    replaced = replaced_by(module, entry, sound)
    for k, found in enumerate(given):
        pending, number = _pending(found), replaced.get(k)
        drifts = number is not None and _differ(found, entry.params[number].type)
        if pending is None and not drifts:
            continue
        site = Site(entry.name, len(entry.body) - 1, Part("operand", k))
        arg = entry.returned[k]
        what = f"`%{arg}`" if isinstance(arg, str) else "a result"
        if number is not None and drifts:
            param = entry.params[number]
            message = f"{what} replaces `%{param.name}`, of type `{param.type}`, and is `{found}`: copies would differ"
            hint = bringing(found, param.type) or "bring it to where the parameter is"
            if pending is not None:
                hint = f"sum the gradient along {show_axes(pending.axes)} before the update"
            yield Diagnostic(codes.DRIFTING, site, message, help=hint)
        elif pending is not None:
            message = f"{what} is {pending}: `{found}`"
            ended = shown(ending(pending.axes, pending.how))
            yield Diagnostic(codes.PENDING_END, site, message, help=f"insert `{ended}` for {what}")


def replaced_by(module: Module, entry: Function, sound: bool = True) -> dict[int, int]:
    """By number of a result: the parameter whose new value it is, by its name, or by the ops that update it.

    `sound`: whether data flow can be followed.
    """
    numbers = {p.name: i for i, p in enumerate(entry.params) if is_held(p)}
    found: dict[int, int] = {}
    if sound:
        found = {k: i for i, k in ParameterUpdates(module).replaced(entry).items()}
    for k, arg in enumerate(entry.returned):
        name = arg.removesuffix(NEW) if isinstance(arg, str) and arg.endswith(NEW) else ""
        if name in numbers:
            found[k] = numbers[name]
    return found


@dataclass(frozen=True, slots=True)
class _Pending:
    """What is pending in a value, and along which axes."""

    how: str
    axes: tuple[str, ...]

    def __str__(self) -> str:
        return f"a pending {NOUNS[self.how]} along {show_axes(self.axes)}"


@lru_cache(maxsize=1 << 10)  # results of one type are many
def _pending(type: Type) -> _Pending | None:
    """What is pending in a value: in its first tensor that is not complete."""
    each = ([p for p in placed or () if isinstance(p, PendingAlong)] for placed in _placement(type))
    return next((_Pending(found[0].how, tuple(p.axis for p in found)) for found in each if found), None)


@lru_cache(maxsize=1 << 10)
def _differ(one: Type, other: Type) -> bool:
    """Whether placements, as far as they are known, differ."""
    pairs = zip(_placement(one), _placement(other), strict=False)
    return any(a != b for a, b in pairs if a is not None and b is not None)


def _placement(type: Type) -> list[Places | None]:
    """The placement of each leaf; None where it is not known."""
    return [leaf.places if isinstance(leaf, TensorType) else None for leaf in types.leaves(type)]
