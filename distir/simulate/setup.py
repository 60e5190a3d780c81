"""The options of a simulation, from flags, an editor, or `distir.toml`: one rule for all of them.

What a caller gives overrides the settings. Messages name an option as its caller does (`--bind B=64`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from distir.diagnostics import suggestion
from distir.ir import HOST, Constant, Function, Module, types
from distir.ir.errors import DistirError

if TYPE_CHECKING:
    from distir.config import Config

LARGEST_SIZE = 2**63

Quantity = TypeVar("Quantity", int, float)


class SetupError(DistirError, ValueError):
    """An option that the program does not admit. `help`: what to write instead; `setting`: the key of `distir.toml`."""

    def __init__(self, message: str, help: str | None = None, setting: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message, self.help, self.setting = message, help, setting


def entry(module: Module, path: str, given: str | None, config: Config) -> Function:
    """The function that is given, else the one of the settings if the module has it, else the module's own entry.

    Raises SetupError.
    """
    named = (given or config.entry or "").removeprefix("@")
    found = preferred(module, named) if given is None else module.entry(named)
    if found is None and not module.functions:
        raise SetupError(f"`{path}` has no function")
    if found is None:
        raise SetupError(f"there is no function `@{named}` in `{path}`", suggestion(named, module.functions, "@"))
    return found


def preferred(module: Module, name: str | None) -> Function | None:
    """The function of that name if the module has it, else the module's own entry; None if it has no function."""
    return module.functions.get((name or "").removeprefix("@")) or module.entry()


def bindable(function: Function) -> frozenset[str]:
    """The names that can be bound: named dimensions, and parameters with host values."""
    return sizes(function) | {p.name for p in function.params if types.device_of(p.type) == HOST}


def sizes(function: Function) -> frozenset[str]:
    """The named dimensions of a function's parameters."""
    return frozenset[str]().union(*(types.dim_names(p.type) for p in function.params))


def constants(bind: Mapping[str, int | str], where: str) -> dict[str, Constant]:
    """Bindings of the settings; texts are literals of the language. Raises SetupError."""
    found: dict[str, Constant] = {}
    for name, value in bind.items():
        found[name] = literal(value, f"`{name}` in {where}", ("bind", name)) if isinstance(value, str) else value
    return found


def fitting(bound: Mapping[str, Constant], function: Function) -> dict[str, Constant]:
    """The bindings that are for this function: settings may serve several programs. Raises SetupError."""
    names = bindable(function)
    found = {name: value for name, value in bound.items() if name in names}
    for name in sizes(function) & found.keys():
        size = found[name]
        if type(size) is not int or not 0 <= size < LARGEST_SIZE:
            from distir.syntax import print_literal

            shown = print_literal(size)
            message = f"`{name}` is a dimension: expected an integer from 0, found `{shown}`"
            raise SetupError(message, setting=("bind", name))
    return found


def literal(text: str, where: str, setting: tuple[str, ...] = ()) -> Constant:
    """A literal of the language. Raises SetupError."""
    from distir.syntax import SyntaxProblem, parse_literal

    try:
        return parse_literal(text)
    except SyntaxProblem as problem:
        raise SetupError(f"{where}: {problem.message}", problem.help, setting) from None


def quantity(parse: Callable[[str], Quantity], text: str | None, where: str, setting: str) -> Quantity | None:
    """A number with a unit, read by `parse`; None for none. Raises SetupError."""
    from distir.cost import UnitError

    if text is None:
        return None
    try:
        return parse(text)
    except UnitError as error:
        raise SetupError(f"{where}: {error}", error.help, ("budget", setting)) from None


def limits(
    latency: tuple[str | None, str], memory: tuple[str | None, str], config: Config
) -> tuple[float | None, int | None]:
    """The most seconds and bytes: those that are given, each with the words for it, else those of the settings.

    None where there is no limit. Raises SetupError for what is no time or size.
    """
    from distir.cost import parse_bytes, parse_seconds

    toml = f"`[budget]` of `{config.shown}`"
    budget = config.budget
    seconds = latency if latency[0] is not None else (budget.max_latency, f"`max_latency` in {toml}")
    nbytes = memory if memory[0] is not None else (budget.max_memory, f"`max_memory` in {toml}")
    return quantity(parse_seconds, *seconds, "max_latency"), quantity(parse_bytes, *nbytes, "max_memory")
