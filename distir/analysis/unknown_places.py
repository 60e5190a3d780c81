"""Statements of a program on a mesh of whose results it is not known where their parts are.

Nothing that follows from such a value is checked, so a program with one does not mean its sequential program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from distir.analysis.domains import Instance
from distir.diagnostics import Diagnostic
from distir.diagnostics.codes import placements as codes
from distir.ir import DISCARD, HOST, AnyType, Apply, Call, Module, Part, Site, TensorType, types
from distir.ops import Value, type_of

if TYPE_CHECKING:
    from distir.analysis.checker import Checker


def unknown_places(module: Module, domain: Checker) -> Iterator[Diagnostic]:
    """A parameter of the entry function without a type, or the first such statement of each function that it reaches.

    The module is sound otherwise.
    """
    entry = module.entry()
    if not module.mesh or entry is None or entry.name not in domain.own:
        return
    for k, param in enumerate(entry.params):
        if _is_unknown(param.type):
            message = f"`%{param.name}` has no shape: where its parts are is not known"
            site = Site(entry.name, None, Part("param", k))
            hint = "state its type, as in `Tensor[Float32, (B@dp, 8), 1]`"
            yield Diagnostic(codes.UNKNOWN_PLACE, site, message, help=hint)
            return
    waiting, seen, reported = [domain.own[entry.name]], dict[int, Instance](), set[str]()
    while waiting:
        instance = waiting.pop()
        if id(instance) not in seen:
            seen[id(instance)] = instance
            found = next(_in_function(domain, instance), None)
            if found is not None and instance.function.name not in reported:
                reported.add(instance.function.name)
                yield found
            calls = (s for s in instance.function.body if isinstance(s, Call))
            waiting += [domain.instance(s.function, instance.state(s.args)) for s in calls]


def _in_function(domain: Checker, instance: Instance) -> Iterator[Diagnostic]:
    state = instance.state
    for index, statement in enumerate(instance.function.body):
        if not isinstance(statement, Apply):
            continue
        if statement.claims or DISCARD in statement.results:
            answer = domain.answer(statement, state(statement.args))  # whatever is claimed of them
        else:
            answer = state(statement.results)
        if any(map(_is_unknown, answer)):
            message = f"where the parts of what `{statement.op}` gives are is not known: a size of its operands is not"
            hint = "state sizes, by name where they vary, or gather the operands before it"
            yield Diagnostic(codes.UNKNOWN_PLACE, Site(instance.function.name, index), message, help=hint)


def _is_unknown(v: Value) -> bool:
    if isinstance(v, TensorType):
        return False
    return any(isinstance(leaf, AnyType) and leaf.device != HOST for leaf in types.leaves(type_of(v)))
