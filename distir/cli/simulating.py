"""What a simulation is asked for: hardware, function, sizes and budgets, by flags or else by `distir.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from distir.cli.endings import Refused, judged

if TYPE_CHECKING:
    from collections.abc import Callable

    from distir.analysis.program import Program
    from distir.config import Config
    from distir.cost import Hardware
    from distir.diagnostics import Diagnostic
    from distir.ir import Constant, Function
    from distir.simulate import Simulation

LARGEST_SIZE = 2**63

Quantity = TypeVar("Quantity", int, float)


@dataclass(frozen=True, slots=True)
class Machine:
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
        return self.latency_s is not None or self.memory_bytes is not None


def machine(flag: str | None, config: Config) -> Machine:
    """The hardware named by the flag, else by the settings, else the default. Raises cost.HardwareError."""
    from distir.config import DEFAULT_HARDWARE
    from distir.cost import load

    if flag is not None:
        return Machine(load(flag), "named by --hardware")
    named = "the default" if config.hardware == DEFAULT_HARDWARE else "named in distir.toml"
    return Machine(load(config.hardware), named)


def entry(program: Program, flag: str | None, config: Config) -> Function:
    """The function named by the flag, else by the settings if the program has it, else the program's own entry.

    Raises Refused.
    """
    from distir.diagnostics import nearest

    module = program.module
    named = (flag or config.entry or "").removeprefix("@")
    if flag is None and named not in module.functions:
        found = module.entry()
    else:
        found = module.entry(named)
    if found is None and not module.functions:
        raise Refused(f"`{program.source.path}` has no function")
    if found is None:
        likely = nearest(named, module.functions)
        known = ", ".join(f"`@{name}`" for name in list(module.functions)[:20])
        hint = f"did you mean `@{likely}`?" if likely else f"there are {known}"
        raise Refused(f"there is no function `@{named}` in `{program.source.path}`", hint)
    return found


def binding(flags: Sequence[str], config: Config, function: Function) -> dict[str, Constant]:
    """Sizes and host values by name. Flags win over settings; a setting for another function is left out.

    Raises Refused.
    """
    from distir.ir import types
    from distir.syntax import print_literal

    sizes = frozenset[str]().union(*(types.dim_names(p.type) for p in function.params))
    names = bindable(function)
    bound = {
        name: _literal(value, f"`{name}` in `[bind]` of `{config.path}`") if isinstance(value, str) else value
        for name, value in config.bind.items()
        if name in names
    }
    for flag in flags:
        name, equals, value = flag.partition("=")
        name = name.strip().removeprefix("%")
        if not (equals and name):
            raise Refused(f"`--bind {flag}`: expected a name and a value", "write for example `--bind B=64`")
        if name not in names:
            known = ", ".join(f"`{n}`" for n in sorted(names)) or "nothing"
            raise Refused(f"`--bind {flag}`: `@{function.name}` has no `{name}`", f"what can be bound: {known}")
        bound[name] = _literal(value, f"`--bind {flag}`")
    for name in sizes & bound.keys():
        if type(size := bound[name]) is not int or not 0 <= size < LARGEST_SIZE:
            shown = print_literal(size)
            raise Refused(f"`{name}` is a dimension: expected an integer from 0, found `{shown}`")
    return bound


def bindable(function: Function) -> frozenset[str]:
    """What can be bound: named dimensions, and parameters that are host values."""
    from distir.ir import HOST, types

    sizes = frozenset[str]().union(*(types.dim_names(p.type) for p in function.params))
    return sizes | {p.name for p in function.params if types.device_of(p.type) == HOST}


def limits(max_latency: str | None, max_memory: str | None, config: Config) -> Limits:
    """The budget by flags, else by settings. Raises Refused for what is no time or size."""
    from distir.cost import parse_bytes, parse_seconds

    budget = config.budget
    toml = f"`[budget]` of `{config.path}`"
    latency = _quantity(parse_seconds, max_latency, "`--max-latency`", budget.max_latency, f"`max_latency` in {toml}")
    memory = _quantity(parse_bytes, max_memory, "`--max-memory`", budget.max_memory, f"`max_memory` in {toml}")
    return Limits(latency, memory)


def simulation(program: Program, machine: Machine, function: Function, bind: dict[str, Constant]) -> Simulation:
    """One program on one machine. Raises Wrong where it cannot be simulated, Refused for a bad `bind`."""
    from distir.simulate import BindError, arguments, plan

    analysis = program.analysis
    with judged(program):
        try:
            args = arguments(function, bind)
        except BindError as error:
            raise Refused(str(error)) from None
        return plan(program.module, analysis.domain, analysis.instance(function, args), machine.hardware)


def findings(program: Program, simulation: Simulation, limits: Limits) -> tuple[Diagnostic, ...]:
    """What is wrong with how a program runs, with places in the text."""
    return program.located(simulation.findings(limits.latency_s, limits.memory_bytes))


def _literal(text: str, where: str) -> Constant:
    from distir.syntax import SyntaxProblem, parse_literal

    try:
        return parse_literal(text)
    except SyntaxProblem as problem:
        raise Refused(f"{where}: {problem.message}", problem.help) from None


def _quantity(
    parse: Callable[[str], Quantity], flag: str | None, flag_name: str, setting: str | None, setting_name: str
) -> Quantity | None:
    from distir.cost import UnitError

    text, name = (setting, setting_name) if flag is None else (flag, flag_name)
    if text is None:
        return None
    try:
        return parse(text)
    except UnitError as error:
        raise Refused(f"{name}: {error}", error.help) from None
