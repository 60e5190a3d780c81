"""One version of one text in the editor, with its analyses, each computed once on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from distir.analysis import Checker, Instance, analysed
from distir.analysis.program import Program
from distir.cost import Hardware
from distir.diagnostics import Diagnostic, ProgramError
from distir.ir import Constant, Function, Param
from distir.ops import Value, canonical
from distir.simulate.revision import RevisionPlan, go_on, replan
from distir.simulate.setup import SetupError, fitting, preferred
from distir.simulate.show import Occurrence, occurrences
from distir.simulate.simulation import BindError, Simulation, arguments
from distir.syntax import parse

if TYPE_CHECKING:
    from distir.transform.mesh.on_machine import OnMachine


@dataclass(frozen=True, slots=True)
class Setup:
    """The setup of a simulation: a machine, an entry function, sizes and host values, budgets in seconds and bytes.

    `picked`: by function, which of its call sites is shown (as a number, first to last); the first if it is not there.
    """

    hardware: Hardware
    entry: str | None = None
    bind: Mapping[str, Constant] = field(default_factory=dict[str, Constant], hash=False)
    max_latency_s: float | None = None
    max_memory_bytes: int | None = None
    picked: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """The entry function's arguments under a binding; unchanged from version to version while the head is."""

    params: tuple[Param, ...]
    bind: Mapping[str, Constant]
    values: tuple[Value, ...]


@dataclass(eq=False)
class Document:
    """One version of one text. An edit gives another document, which shares what did not change.

    `earlier`, the simulation of another version, makes no difference but in time.
    """

    program: Program
    setup: Setup
    version: int = 0
    earlier: RevisionPlan | None = None
    _outcome: RevisionPlan | Exception | None = field(default=None, init=False)
    _arguments: Arguments | None = field(default=None, init=False)
    _other: Document | None = field(default=None, init=False)
    """The last result of `seen_from` for a function that shares its name with an earlier one."""

    @property
    def text(self) -> str:
        """The text as it stands."""
        return self.program.source.text

    @cached_property
    def entry(self) -> Function | None:
        """The function that is simulated; None where there is none."""
        return preferred(self.program.module, self.setup.entry)

    @property
    def arguments(self) -> tuple[Value, ...]:
        """The entry function's arguments. Raises BindError, SetupError, ProgramError, LookupError."""
        if self.entry is None:
            raise LookupError("the text holds no function")
        known = self._arguments
        if known is None or known.params is not self.entry.params or known.bind != self.setup.bind:
            found = arguments(self.entry, fitting(self.setup.bind, self.entry))
            known = self._arguments = Arguments(self.entry.params, self.setup.bind, found)
        return known.values

    def simulate(self, pause: Callable[[], None] = go_on) -> None:
        """Simulate the entry function, once. `pause` is called now and then, and may raise to give up."""
        if self._outcome is None:
            self._outcome = self._simulated(pause)

    @property
    def is_simulated(self) -> bool:
        """Whether simulating has been tried: then all below costs nothing."""
        return self._outcome is not None

    @property
    def simulation(self) -> Simulation | None:
        """The simulated entry function; None if it cannot be simulated, see `unsimulated`."""
        self.simulate()
        return self._outcome.simulation if isinstance(self._outcome, RevisionPlan) else None

    @property
    def unsimulated(self) -> Exception | None:
        """Why there is no simulation."""
        self.simulate()
        return self._outcome if isinstance(self._outcome, Exception) else None

    @cached_property
    def unlocated(self) -> tuple[Diagnostic, ...]:
        """The problems found by simulation, by sites of the program."""
        if self.simulation is not None:
            return self.simulation.findings(self.setup.max_latency_s, self.setup.max_memory_bytes)
        return self.unsimulated.diagnostics if isinstance(self.unsimulated, ProgramError) else ()

    @cached_property
    def findings(self) -> tuple[Diagnostic, ...]:
        """The problems found by simulation, located in the text."""
        return self.program.located(self.unlocated)

    @cached_property
    def shown(self) -> Mapping[str, Occurrence]:
        """By function, the call of it that types, values and times are shown for."""
        if self.simulation is None:
            return {}
        instance = self.simulation.instance
        if (
            self.program.module.mesh and self.entry is not None
        ):  # what is simulated has a statement for each of these, on parts
            instance = self.program.analysis.instance(self.entry, self.arguments)
        return occurrences(self.program.analysis.domain, instance, self.simulation.body)

    def edited(self, text: str, version: int) -> Document:
        """The document after an edit."""
        return self._followed_by(self.program.edited(text), self.setup, version)

    def go_on_from(self, other: Document) -> None:
        """Use another version's simulation as the base of an incremental one, unless there is one already."""
        if self._outcome is None and self.earlier is None:
            self.earlier = other._last_plan()

    def under(self, setup: Setup) -> Document:
        """The same text under another setup."""
        return self._followed_by(self.program, setup, self.version)

    def seen_from(self, offset: int) -> Document:
        """The document for questions about a place in it: the function there counts, not an earlier one of its name."""
        syntax = self.program.syntax
        written = syntax.function_at(offset)
        if written is None or syntax.by_name.get(written.function.name) is written:
            return self
        if self._other is None or self._other.program.syntax.preferred is not written:
            analysis = self.program.analysis
            self._other = Document(Program(syntax.preferring(written), analysis), self.setup, self.version)
        return self._other

    def _followed_by(self, program: Program, setup: Setup, version: int) -> Document:
        following = Document(program, setup, version, self._last_plan())
        following._arguments = self._arguments
        return following

    def _last_plan(self) -> RevisionPlan | None:
        """The last simulation of this version or an earlier one."""
        return self._outcome if isinstance(self._outcome, RevisionPlan) else self.earlier

    def _devices(self) -> tuple[OnMachine | None, Checker, Instance]:
        """What is simulated of a program on a mesh, and the instance that is. Raises as `arguments`."""
        analysis, args = self.program.analysis, self.arguments
        assert self.entry is not None
        if not self.program.module.mesh:
            return None, analysis.domain, analysis.instance(self.entry, args)
        from distir.transform.mesh import sized
        from distir.transform.mesh.on_machine import one_for_all

        match one_for_all(sized(self.program.module, self.setup.bind), self.setup.hardware):
            case str(reason):
                raise LookupError(f"{reason}; `distir simulate` simulates each")
            case found:
                analysis, entry = analysed(found.module), found.module.functions[self.entry.name]
        instance = analysis.instance(entry, arguments(entry, fitting(self.setup.bind, entry)))
        return found, analysis.domain, instance

    def _simulated(self, pause: Callable[[], None]) -> RevisionPlan | Exception:
        if self.program.errors:
            return LookupError("the program has errors")
        try:
            found, domain, instance = self._devices()
            plan = replan(domain.module, domain, instance, self.setup.hardware, self.earlier, pause)
            if found is not None:
                plan.simulation.standing_for(found.copies, found.sooner, found.of)
            plan.simulation.timeline()
        except (ProgramError, BindError, SetupError, LookupError) as error:
            return error
        self.earlier = None  # nothing keeps old versions alive
        return plan


def open_document(text: str, path: str, setup: Setup, version: int = 0) -> Document:
    """The first version of a text; never raises, whatever the text."""
    return Document(Program(parse(text, path, canonical)), setup, version)
