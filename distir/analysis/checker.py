"""The checker: the mixed domain, which continues after an error and reports where each one is.

A function is checked for its own parameters' types. A call checks it again for the call's arguments; what is wrong
then, and only then, is reported at the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from distir.analysis.blame import UNFIT, argument_to_blame, reason
from distir.analysis.domains import Instance, Types
from distir.analysis.kernels import in_kernel
from distir.analysis.parameters import parameters
from distir.analysis.placing import PlacedTypes
from distir.analysis.replicas import Replicas
from distir.analysis.structure import Structure
from distir.diagnostics import Diagnostic, Note, ProgramError
from distir.diagnostics.codes import types as codes
from distir.ir import (
    UNKNOWN,
    Apply,
    Call,
    DimensionError,
    Function,
    Module,
    Part,
    Site,
    Statement,
    Type,
    types,
)
from distir.ir.collection import paused_collection
from distir.ir.counted import called
from distir.ir.deep import Deep, finish
from distir.ops import OPS, Reject, Value

FINISHED = Types(Module())
"""What is left of the semantics in a final state: literals. The checker itself would be kept alive by what it found."""


@dataclass(slots=True)
class FunctionReport:
    """What is wrong in the function that is being interpreted."""

    function: Function | None = None
    found: list[Diagnostic] = field(default_factory=list[Diagnostic])
    here: int | None = None
    """Where the statement that is being interpreted stands, if that is known."""
    _places: dict[int, int] = field(default_factory=dict[int, int])

    def index(self, statement: Statement) -> int:
        """Where a statement stands. Searched by identity, and only when something is wrong."""
        if self.here is not None:
            return self.here
        if not self._places:
            assert self.function is not None
            self._places = {id(s): i for i, s in reversed(list(enumerate(self.function.body)))}
        return self._places[id(statement)]


@dataclass
class Checker(PlacedTypes):
    """The mixed domain, and that of placements, with a memory for what is wrong."""

    structure: Structure = field(kw_only=True)
    late: bool = False
    """Whether functions are not checked for their own types: then all that is wrong is reported at the call."""
    own: dict[str, Instance] = field(default_factory=dict[str, Instance])
    problems: dict[tuple[str, tuple[Value, ...]], list[Diagnostic]] = field(
        default_factory=dict[tuple[str, tuple[Value, ...]], list[Diagnostic]]
    )
    """What is wrong in each instance."""
    report: FunctionReport = field(default_factory=FunctionReport)

    @cached_property
    def replicas(self) -> Replicas:
        """Instances without a mistake, which others on other devices follow from."""
        return Replicas(self.module)

    def own_problems(self, name: str) -> list[Diagnostic]:
        """What is wrong in a function for its own parameters' types."""
        return finish(self._own_problems(name))

    def _own_problems(self, name: str) -> Deep[list[Diagnostic]]:
        function = self.module.functions[name]
        args = tuple([types.one(p.type) for p in function.params])
        if name not in self.own:
            self.own[name] = yield self.interpreted(name, args)
        return self.problems[name, args]

    def entered(self, function: Function, args: tuple[Value, ...]) -> Instance:
        """The function as the entry of a program. Raises ProgramError."""
        try:
            parameters(function, args)
        except Reject as reject:
            part = reject.part
            place = Part("param_type", part.key) if isinstance(part, Part) and part.kind == "operand" else None
            raise ProgramError([_diagnostic(reject, Site(function.name, None, place))]) from None
        with paused_collection():
            instance = self.instance(function.name, args)
        if problems := self.problems[function.name, args]:
            raise ProgramError(problems)
        return instance

    def apply(self, op: Apply, vs: tuple[Value, ...]) -> Sequence[Value]:
        """The results of an op; a mistake is reported, and the annotations hold instead.

        On a mesh they do not: of a value that is placed otherwise than it says, what follows is written for one or the
        other, and how it is placed decides.
        """
        ws: tuple[Value, ...] | None = None
        try:
            ws = self.answer(op, vs)
            return self.claimed(op, ws) if op.claims else ws
        except Reject as reject:
            self._report(op, reject)
            return ws if ws is not None and self.meshes else self._claims_alone(op)

    def called(self, call: Call, vs: tuple[Value, ...]) -> Deep[Sequence[Value]]:
        """The results of a call; a mistake is reported, and the annotations hold instead."""
        if call.function not in self.module.functions or call.function in self.structure.recursive:
            return self._claims_alone(call)
        try:
            ws = yield super().called(call, vs)
        except Reject as reject:
            self._report(call, reject)
            ws = self._claims_alone(call)
        if problems := self.problems.get((call.function, vs)):
            known = list[Diagnostic]()
            if not self.late:
                known = yield self._own_problems(call.function)
            self._report_instance(call, problems, known)
        return ws

    def interpreted(self, name: str, vs: tuple[Value, ...]) -> Deep[Instance]:
        """A function analysed for these arguments; its diagnostics are kept with it."""
        known = self.known(name, vs)
        if known is not None:
            return known
        outer, report = self.report, FunctionReport(self.module.functions[name])
        self.report = report
        try:
            instance = yield self.made(name, vs)
            instance.state.semantics = FINISHED
            if instance.function.kernel:
                report.found += [d for d in in_kernel(instance) if d not in report.found]
            if not report.found:
                self.replicas.add(name, vs, instance)
        finally:
            self.problems[name, vs] = report.found
            self.report = outer
        return instance

    def made(self, name: str, vs: tuple[Value, ...]) -> Deep[Instance]:
        """An instance that is not known; the report gets what is wrong in it."""
        return super().interpreted(name, vs)

    def forget(self) -> None:
        """Let go of what is known of earlier versions of the module."""

    def known(self, name: str, vs: tuple[Value, ...]) -> Instance | None:
        """An instance that need not be interpreted: it has been, or one on other devices has."""
        known = self.instances.get((name, vs))
        if known is not None:
            return known
        known = self.replicas.following(name, vs)
        if known is not None:
            self.instances[name, vs] = known
            self.problems[name, vs] = []
        return known

    def claimed_results(self, function: Function, ws: tuple[Value, ...]) -> tuple[Value, ...]:
        """The results as the function's signature states them; where both differ it is reported."""
        try:
            return super().claimed_results(function, ws)
        except Reject as reject:
            part = reject.part if isinstance(reject.part, Part) and reject.part.kind == "result_type" else Part("name")
            self.report.found.append(_diagnostic(reject, Site(function.name, None, part)))
            return function.result_types or ws

    def _report_instance(self, call: Call, problems: Sequence[Diagnostic], known: Sequence[Diagnostic]) -> None:
        """Report at the call what is wrong in the callee for these arguments and not for its own types."""
        sites = {d.site for d in known}
        new = next((d for d in problems if d.site not in sites), None)
        report = self.report
        if new is not None and report.function is not None:
            notes = (Note(new.message, new.site), *new.notes)
            callee = self.module.functions[call.function]
            message = f"{called(callee)} {UNFIT}: {reason(new.message)}"
            argument = argument_to_blame(callee, new.site)
            part = Part("callee") if argument is None else Part("operand", argument)
            site = Site(report.function.name, report.index(call), part)
            report.found.append(Diagnostic(codes.BAD_CALL, site, message, notes, new.help, new.cause))

    def _report(self, statement: Apply | Call, reject: Reject) -> None:
        report = self.report
        if report.function is None:
            raise reject
        site = Site(report.function.name, report.index(statement))
        report.found.append(_diagnostic(reject, site, statement))

    def _claims_alone(self, op: Apply | Call) -> tuple[Value, ...]:
        """What is known of the results of a statement that is wrong: what it claims."""
        return tuple(map(self._stated, op.claims or (None,) * len(op.results)))

    def _stated(self, claim: Type | None) -> Value:
        try:
            return UNKNOWN if claim is None else types.substitute(claim, self.dims)
        except DimensionError:
            return UNKNOWN


def _diagnostic(reject: Reject, site: Site, statement: Apply | Call | None = None) -> Diagnostic:
    """A rejection with the places it speaks of."""
    part = _part(reject.part, statement) if isinstance(reject.part, str) else reject.part
    place = site if part is None or site.part is not None else Site(site.function, site.index, part)
    notes = tuple(Note(text, Site(site.function, site.index, p)) for p, text in reject.notes)
    return Diagnostic(reject.code, place, reject.message, notes, reject.help, reject.cause)


def _part(name: str, statement: Apply | Call | None) -> Part | None:
    """The place of an operand or attribute that a rule names."""
    if not isinstance(statement, Apply) or statement.op not in OPS:
        return None
    op = OPS[statement.op]
    if name in op.attributes:
        return Part("attribute", name) if name in statement.attrs else Part("callee")
    index = next((i for i, o in enumerate(op.operands) if o.name == name), None)
    return Part("callee") if index is None or index >= len(statement.args) else Part("operand", index)
