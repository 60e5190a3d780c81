"""What a program on a mesh is given and returns: values, no pending sums, and what the next step takes in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distir.analysis.domains import Instance
from distir.analysis.updates import ParameterUpdates
from distir.diagnostics import Diagnostic
from distir.diagnostics.codes import placements as codes
from distir.ir import Function, Module, Part, PendingAlong, Places, Return, Site, TensorType, Type, types
from distir.ir.places import NOUNS
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
    if not module.mesh or entry is None or entry.name not in own or not isinstance(entry.body[-1], Return):
        return
    for k, param in enumerate(entry.params):
        if (pending := _pending(param.type)) is not None:
            site = Site(entry.name, None, Part("param_type", k))
            message = f"`%{param.name}` is stated as a pending {NOUNS[pending.how]} along `{pending.axis}`"
            hint = f'state its whole value; `Share[axis = "{pending.axis}"]` makes a pending sum of it'
            yield Diagnostic(codes.PENDING_END, site, message, help=hint)
    given = [type_of(v) for v in own[entry.name].returned]
    replaced = _replaced(module, entry, sound)
    for k, found in enumerate(given):
        site = Site(entry.name, len(entry.body) - 1, Part("operand", k))
        pending = _pending(found)
        arg = entry.returned[k]
        shown = f"`%{arg}`" if isinstance(arg, str) else "a result"
        number = replaced.get(k)
        if number is not None and _differ(_placement(found), _placement(entry.params[number].type)):
            param = entry.params[number]
            message = f"{shown} replaces `%{param.name}`, of type `{param.type}`, and is `{found}`: copies would differ"
            hint = "bring it to where the parameter is" if pending is None else _SUM.format(pending.axis)
            yield Diagnostic(codes.DRIFTING, site, message, help=hint)
        elif pending is not None:
            op = f'AllReduce[axis = "{pending.axis}"' + ("]" if pending.how == "sum" else ', op = "max"]')
            message = f"{shown} is a pending {NOUNS[pending.how]} along `{pending.axis}`: `{found}`"
            yield Diagnostic(codes.PENDING_END, site, message, help=f"insert `{op}` for {shown}")


_SUM = "sum the gradient along `{}` before the update"


def _replaced(module: Module, entry: Function, sound: bool) -> dict[int, int]:
    """By number of a result: the parameter whose new value it is, by its name, or by the ops that update it."""
    numbers = {p.name: i for i, p in enumerate(entry.params) if is_held(p)}
    found: dict[int, int] = {}
    if sound:
        found = {k: i for i, k in ParameterUpdates(module).replaced(entry).items()}
    for k, arg in enumerate(entry.returned):
        name = arg.removesuffix(NEW) if isinstance(arg, str) and arg.endswith(NEW) else ""
        if name in numbers:
            found[k] = numbers[name]
    return found


def _pending(type: Type) -> PendingAlong | None:
    """The first sum or maximum that is pending in a value."""
    return next((p for placed in _placement(type) for p in placed or () if isinstance(p, PendingAlong)), None)


def _differ(one: list[Places | None], other: list[Places | None]) -> bool:
    """Whether placements, as far as they are known, differ."""
    return any(a != b for a, b in zip(one, other, strict=False) if a is not None and b is not None)


def _placement(type: Type) -> list[Places | None]:
    """The placement of each leaf; None where it is not known."""
    return [leaf.places if isinstance(leaf, TensorType) else None for leaf in types.leaves(type)]
