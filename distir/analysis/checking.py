"""Checking a module: its diagnostics, types and instances, from scratch or from those of an earlier version."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from distir.analysis.checker import Checker
from distir.analysis.domains import MOST_PRECISE_FIRST, Instance
from distir.analysis.ends import ends_that_disagree
from distir.analysis.idle_streams import idle_streams
from distir.analysis.interpreter import State
from distir.analysis.placed_results import misplaced_results
from distir.analysis.repairs import advised
from distir.analysis.revision_instances import Revised
from distir.analysis.structure import structure, unused
from distir.analysis.unknown_places import unknown_places
from distir.diagnostics import Diagnostic, Note, ProgramError, Severity
from distir.diagnostics.codes import transforms
from distir.ir import Call, Function, Module, Part, Site
from distir.ir.collection import paused_collection
from distir.ir.counted import passed_on
from distir.ir.per_thread import kept_per_thread
from distir.ops import Value

MOST_ADVISED = 100
"""Repairs are looked for in this many diagnostics, the first ones."""


@dataclass(frozen=True)
class Analysis:
    """What checking a module gives."""

    module: Module
    problems: tuple[Diagnostic, ...]
    """The diagnostics without lints, in the order of the text."""
    domain: Checker = field(compare=False)
    late: bool = False

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors, not warnings."""
        return tuple(d for d in self.problems if d.severity is Severity.ERROR)

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics, in the order of the text. Lints are looked for here: steps ask for errors alone."""
        return _in_order(self.module, [*self.problems, *self._lints()])

    def _lints(self) -> Iterator[Diagnostic]:
        known, own = self.domain.structure.names, self.domain.own
        for function in self.module if not self.late else ():
            yield from unused(function, known[function.name], partial(self._is_passed_on, function))
            if known[function.name].streams:
                yield from idle_streams(function, own[function.name].state if function.name in own else {})

    def _is_passed_on(self, function: Function, index: int, result: int) -> bool:
        """Whether a statement's result is one of a counted call that a later one of its calls uses."""
        statement = function.body[index]
        callee = self.module.functions.get(statement.function) if isinstance(statement, Call) else None
        return callee is not None and result in passed_on(callee)

    @property
    def states(self) -> Mapping[str, State]:
        """The values of each function for its own parameters' types, by name."""
        return {name: own.state for name, own in self.domain.own.items()}

    def instance(self, function: Function, args: Sequence[Value]) -> Instance:
        """The function for certain arguments. Raises ProgramError if it does not check for them."""
        return self.domain.entered(function, tuple(args))


def check(module: Module, earlier: Analysis | None = None, *, late: bool = False) -> Analysis:
    """Check a module: names, single assignment, arity, attributes, types, devices.

    `earlier`, of another version of the module, makes no difference but in time: what did not change is taken from it.
    `late`: what an instance runs is checked when that is asked for, the rest never, and no lint is looked for.
    """
    with paused_collection():
        found = structure(module, earlier.domain.structure if earlier is not None else None)
        if earlier is None:
            domain = Checker(module, rules=MOST_PRECISE_FIRST, structure=found, late=late)
        else:
            domain = Revised(module, rules=MOST_PRECISE_FIRST, structure=found, late=late, before=earlier.domain)
        problems = list(found.diagnostics)
        for function in module if not late else ():
            problems += domain.own_problems(function.name)
        problems += ends_that_disagree(module, domain.own) if not late else ()
        problems += misplaced_results(module, domain.own, sound=not problems) if not late else ()
        problems += unknown_places(module, domain) if not late and not problems else ()
        problems = _each_cause_once(_in_order(module, problems))
        problems[:MOST_ADVISED] = [advised(domain, problem) for problem in problems[:MOST_ADVISED]]
    return Analysis(module, _in_order(module, problems), domain, late)


class _Latest(threading.local):
    """What `analysed` found last in a thread."""

    analysis: Analysis | None = None


_latest = _Latest()


@kept_per_thread(4)
def analysed(module: Module) -> Analysis:
    """The analysis of a module, found once: a search asks again and again, and so does a chain of steps.

    A step leaves most of a program as it was: what the module shares with the one before it is taken from that.
    """
    before = _latest.analysis
    if before is not None and before.module is module:
        return before
    shares = before is not None and any(before.module.functions.get(own.name) is own for own in module)
    found = check(module, before if shares else None)
    _latest.analysis = None
    return known(found)


def known(analysis: Analysis) -> Analysis:
    """The analysis, as the one that `analysed` has found last, where it has no errors."""
    if not analysis.errors:
        _latest.analysis = analysis
    return analysis


def check_entry(module: Module, function: str | None = None) -> tuple[Function, Analysis]:
    """The entry function (or `function`) of a module without errors, and the module's analysis.

    What is found for certain arguments is in this analysis alone, and gone with it; what is found without is kept.
    Raises LookupError if there is no such function, ProgramError if the module does not check.
    """
    entry = module.entry(function)
    if entry is None:
        raise LookupError("the module has no function" if function is None else f"there is no function `@{function}`")
    refuse_mesh(module)
    known = analysed(module)
    if known.errors:
        raise ProgramError(known.errors)
    return entry, check(module, known)


def refuse_mesh(module: Module, remedy: str = "") -> None:
    """For what takes programs of single devices: raises ProgramError for one whose devices represent a mesh each.

    `remedy`: another than to give it the program without a mesh.
    """
    stating = next((function for function in module if function.mesh), None)
    if stating is not None:
        message = f"each device of this program represents a mesh of several: `{module.meshes}`"
        hint = "`distir expand` gives the program of every device, `distir erase` the sequential one"
        hint = f"{remedy}; {hint}" if remedy else hint
        site = Site(stating.name, None, Part("name"))
        raise ProgramError([Diagnostic(transforms.ON_A_MESH, site, message, help=hint)])


def _each_cause_once(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics, those with one cause as the first of them, which says how many more there are."""
    causes = Counter(found.cause for found in diagnostics if found.cause)
    kept = list[Diagnostic]()
    for found in diagnostics:
        count = causes.pop(found.cause, 0)
        if count > 1:
            note = Note(f"{count - 1} more of this cause" if count > 2 else "another one of this cause")
            kept.append(replace(found, notes=(*found.notes, note)))
        elif count or not found.cause:
            kept.append(found)
    return kept


def _in_order(module: Module, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    order = {name: i for i, name in enumerate(module.functions)}
    return tuple(sorted(diagnostics, key=lambda d: _position(d, order)))


def _position(diagnostic: Diagnostic, order: Mapping[str, int]) -> tuple[int, int]:
    assert isinstance(diagnostic.site, Site)
    index = diagnostic.site.index
    return order[diagnostic.site.function], -1 if index is None else index
