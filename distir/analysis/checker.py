"""The checker: the mixed domain, made to go on after a mistake and to say where each one is.

A function is checked for its own parameters' types. A call checks it again for the call's arguments; what is wrong
then, and only then, is reported at the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from distir.analysis.domains import MOST_PRECISE_FIRST, Instance, Types
from distir.analysis.interpreter import State
from distir.analysis.kernels import in_kernel
from distir.analysis.parameters import parameters
from distir.analysis.repairs import UNFIT, advised, argument_to_blame, reason
from distir.analysis.replicas import Replicas
from distir.analysis.revision_instances import Earlier, take_over
from distir.analysis.structure import Structure, structure, unused
from distir.diagnostics import Diagnostic, Note, ProgramError, Severity
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
from distir.ir.deep import Deep, finish
from distir.ops import OPS, Reject, Value

FINISHED = Types(Module())
"""What is left of the semantics in a final state: literals. The checker itself would be kept alive by what it found."""

MOST_ADVISED = 100
"""Of more diagnostics, what would mend the statement is looked for in the first ones."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What checking a module gives."""

    module: Module
    diagnostics: tuple[Diagnostic, ...]
    domain: Checker = field(compare=False)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors, not warnings."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)

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
        domain = Checker(module, rules=MOST_PRECISE_FIRST, structure=found, late=late)
        if earlier is not None:
            take_over(domain, earlier.domain)
        diagnostics = list(found.diagnostics)
        for function in module if not late else ():
            diagnostics += domain.own_problems(function.name)
            diagnostics += unused(function, found.names[function.name])
        diagnostics[:MOST_ADVISED] = [advised(domain, diagnostic) for diagnostic in diagnostics[:MOST_ADVISED]]
    order = {name: i for i, name in enumerate(module.functions)}
    diagnostics.sort(key=lambda d: _position(d, order))
    return Analysis(module, tuple(diagnostics), domain)


def check_entry(module: Module, function: str | None = None) -> tuple[Function, Analysis]:
    """The entry function (or `function`) of a module without errors, and the module's analysis.

    Raises LookupError if there is no such function, ProgramError if the module does not check.
    """
    entry = module.entry(function)
    if entry is None:
        raise LookupError("the module has no function" if function is None else f"there is no function `@{function}`")
    analysis = check(module)
    if analysis.errors:
        raise ProgramError(analysis.errors)
    return entry, analysis


def _position(diagnostic: Diagnostic, order: Mapping[str, int]) -> tuple[int, int]:
    assert isinstance(diagnostic.site, Site)
    index = diagnostic.site.index
    return order[diagnostic.site.function], -1 if index is None else index


@dataclass(slots=True)
class Report:
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
class Checker(Types):
    """The mixed domain with a memory for what is wrong."""

    structure: Structure = field(kw_only=True)
    late: bool = False
    """Whether functions are not checked for their own types: then all that is wrong is reported at the call."""
    own: dict[str, Instance] = field(default_factory=dict[str, Instance])
    problems: dict[tuple[str, tuple[Value, ...]], list[Diagnostic]] = field(
        default_factory=dict[tuple[str, tuple[Value, ...]], list[Diagnostic]]
    )
    """What is wrong in each instance."""
    report: Report = field(default_factory=Report)
    earlier: Earlier = field(default_factory=Earlier)
    """Instances of earlier versions of the module."""

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
        """The results of an op; a mistake is reported, and the annotations hold instead."""
        try:
            ws = self.answer(op, vs)
            return self.claimed(op, ws) if op.claims else ws
        except Reject as reject:
            self._report(op, reject)
            return self._claims_alone(op)

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
        known = self._known(name, vs)
        if known is not None:
            return known
        outer, report = self.report, Report(self.module.functions[name])
        self.report = report
        try:
            instance = (yield self.earlier.instance(self, name, vs)) or (yield super().interpreted(name, vs))
            instance.state.semantics = FINISHED
            if instance.function.kernel:
                report.found += [d for d in in_kernel(instance) if d not in report.found]
            if not report.found:
                self.replicas.add(name, vs, instance)
        finally:
            self.problems[name, vs] = report.found
            self.report = outer
        return instance

    def _known(self, name: str, vs: tuple[Value, ...]) -> Instance | None:
        """An instance that need not be interpreted: it has been, or one on other devices has."""
        known = self.instances.get((name, vs))
        if known is not None or (name, vs) in self.earlier.kept:
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
            message = f"`@{call.function}` {UNFIT}: {reason(new.message)}"
            argument = argument_to_blame(self.module.functions[call.function], new.site)
            part = Part("callee") if argument is None else Part("operand", argument)
            site = Site(report.function.name, report.index(call), part)
            report.found.append(Diagnostic(codes.BAD_CALL, site, message, notes, new.help))

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
    return Diagnostic(reject.code, place, reject.message, notes, reject.help)


def _part(name: str, statement: Apply | Call | None) -> Part | None:
    """The place of an operand or attribute that a rule names."""
    if not isinstance(statement, Apply) or statement.op not in OPS:
        return None
    op = OPS[statement.op]
    if name in op.attributes:
        return Part("attribute", name) if name in statement.attrs else Part("callee")
    index = next((i for i, o in enumerate(op.operands) if o.name == name), None)
    return Part("callee") if index is None or index >= len(statement.args) else Part("operand", index)
