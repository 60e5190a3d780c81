"""The arguments of a simulation: hardware, function, sizes and budgets, from flags or else from `distir.toml`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distir.cli.endings import Refused, judged
from distir.cli.programs import of_mesh

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.config import Config
    from distir.cost import Hardware
    from distir.diagnostics import Diagnostic
    from distir.ir import Constant, Function
    from distir.simulate import Simulation


@dataclass(frozen=True, slots=True)
class ChosenHardware:
    """The hardware that is used, and where it was named, in words."""

    hardware: Hardware
    named: str

    def __str__(self) -> str:
        return f"{self.hardware.name} ({self.named})"


@dataclass(frozen=True, slots=True)
class Limits:
    """The budget: seconds and bytes; None where there is no limit."""

    latency_s: float | None
    memory_bytes: int | None

    @property
    def given(self) -> bool:
        """Whether there is any limit."""
        return self.latency_s is not None or self.memory_bytes is not None


def machine(flag: str | None, config: Config, nodes: str | None = None) -> ChosenHardware:
    """The hardware named by the flag, else by the settings, else the default; `nodes` of it.

    Raises HardwareError, and Refused for a number of nodes that is no number.
    """
    from distir.cost import load

    count = number_of_nodes(nodes)
    if flag is not None:
        return ChosenHardware(load(flag, count), "named by --hardware")
    named = f"named in {config.shown}" if config.names_hardware else "the default"
    return ChosenHardware(load(config.hardware, config.nodes if count is None else count), named)


def number_of_nodes(flag: str | None) -> int | None:
    """The value of `--nodes`. Raises Refused."""
    try:
        return None if flag is None else int(flag)
    except ValueError:
        raise Refused(f"`--nodes`: expected a number of nodes, found `{flag}`") from None


def entry(program: Program, flag: str | None, config: Config) -> Function:
    """The function named by the flag, else by the settings if the program has it, else the program's own entry.

    Raises Refused.
    """
    from distir.simulate import setup

    with _asked():
        return setup.entry(program.module, program.source.path, flag, config)


def binding(flags: Sequence[str], config: Config, function: Function) -> dict[str, Constant]:
    """Sizes and host values by name. Flags override settings; settings for other functions are ignored.

    Raises Refused.
    """
    from distir.diagnostics import suggestion
    from distir.simulate import setup

    names = bindable(function)
    with _asked():
        wanted = {name: value for name, value in config.bind.items() if name in names}
        bound = setup.constants(wanted, f"`[bind]` of `{config.shown}`")
        for flag in flags:
            name, equals, value = flag.partition("=")
            name = name.strip().removeprefix("%")
            if not (equals and name):
                raise Refused(f"`--bind {flag}`: expected a name and a value", "write for example `--bind B=64`")
            if name not in names:
                hint = suggestion(name, sorted(names)) or "it has no named dimensions and no host parameters"
                raise Refused(f"`--bind {flag}`: `@{function.name}` has no dimension or host value `{name}`", hint)
            bound[name] = setup.literal(value, f"`--bind {flag}`")
        return setup.fitting(bound, function)


def bindable(function: Function) -> frozenset[str]:
    """The names that can be bound: named dimensions, and parameters with host values."""
    from distir.simulate import setup

    return setup.bindable(function)


def limits(max_latency: str | None, max_memory: str | None, config: Config) -> Limits:
    """The budget from flags, else from settings. Raises Refused for invalid times or sizes."""
    from distir.simulate import setup

    with _asked():
        latency, memory = (max_latency, "`--max-latency`"), (max_memory, "`--max-memory`")
        return Limits(*setup.limits(latency, memory, config))


def of_devices(program: Program, machine: ChosenHardware, *, every: bool = False) -> Program:
    """What is simulated of a program: where devices of a mesh are not alike, and if `every`, that of every device.

    Raises Wrong.
    """
    if not program.module.mesh:
        return program
    from distir.transform.mesh.on_machine import on_machine

    with judged(program):
        found = on_machine(program.module, machine.hardware, every=every)
    return program if found.in_lines else of_mesh(program, found.module, "expanded")


def simulation(program: Program, machine: ChosenHardware, function: Function, bind: dict[str, Constant]) -> Simulation:
    """One program on one machine. Raises Wrong where it cannot be simulated, Refused for a bad `bind`.

    Of a program on a mesh, one device of each stage is simulated, with a statement for each of the program's.
    """
    from distir.simulate import BindError, arguments, plan

    module, analysis = program.module, program.analysis
    with judged(program):
        try:
            if module.mesh:
                from distir.transform.mesh.on_machine import alike_on

                return alike_on(module, machine.hardware).simulated(machine.hardware, function.name, bind)
            instance = analysis.instance(function, arguments(function, bind))
        except BindError as error:
            raise Refused(str(error)) from None
        return plan(module, analysis.domain, instance, machine.hardware)


def findings(program: Program, simulation: Simulation, limits: Limits) -> tuple[Diagnostic, ...]:
    """Problems in how a program runs, located in the text."""
    return program.located(simulation.findings(limits.latency_s, limits.memory_bytes))


def notices(program: Program, simulation: Simulation) -> tuple[Diagnostic, ...]:
    """Observations about how a program runs, located in the text; they are no errors."""
    return program.located(simulation.notices())


@contextmanager
def _asked() -> Generator[None]:
    """An error about the request as a refusal."""
    from distir.simulate.setup import SetupError

    try:
        yield
    except SetupError as error:
        raise Refused(error.message, error.help) from None
