"""The settings of a document: `distir.toml` beside or above it, overridden by the client's, as by flags.

Nothing is remembered but what the client said: a settings file that has changed is read again by itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from distir import config
from distir.config import Budget, Config, ConfigError, Hints
from distir.cost import Hardware, HardwareError, Problem, load, with_nodes
from distir.diagnostics import Diagnostic, Report, Source, Span
from distir.diagnostics.codes.settings import SETTING_VALUE
from distir.files.reading import PROFILE, read_text
from distir.ide.document import Setup
from distir.ide.placements import SHOWN, Shown
from distir.ide.proofs import SequentialFile, UnusableSequential, sequential
from distir.simulate.setup import SetupError, constants, limits

if TYPE_CHECKING:
    from distir_lsp.server import DistirServer

ADVICE = ("off", "lens", "problems")
"""How unrequested advice is shown: not at all, above the entry function, or also as information findings."""

SIMULATED_AT_MOST = 200_000
"""Statements of the longest program that is simulated without being asked to."""
READ_AT_MOST = 20_000_000
"""Characters of the longest text that is analysed."""


@dataclass(frozen=True, slots=True)
class Client:
    """The client's settings, from section `distir`. Unset and invalid ones are None."""

    hardware: str | None = None
    nodes: int | None = None
    entry: str | None = None
    bind: Mapping[str, int | str] = field(default_factory=dict[str, "int | str"])
    budget: Budget = field(default_factory=Budget)
    hints: Mapping[str, bool | int] = field(default_factory=dict[str, "bool | int"])
    advice: str = "lens"
    """One of `ADVICE`."""
    placements: Shown = "changes"
    """Of which values on a mesh hints say where their parts are."""
    simulated_at_most: int = SIMULATED_AT_MOST
    read_at_most: int = READ_AT_MOST
    trouble: tuple[str, ...] = ()
    """Why settings cannot be used."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one document. `hints`: which inlay hints are shown; `machine`: the hardware's name or path."""

    setup: Setup
    machine: str = config.DEFAULT_HARDWARE
    hints: Hints = field(default_factory=Hints)
    sequential: SequentialFile | None = None
    """The program that this one is proved against."""
    advice: str = "lens"
    placements: Shown = "changes"
    simulated_at_most: int = SIMULATED_AT_MOST
    read_at_most: int = READ_AT_MOST
    reports: tuple[Report, ...] = ()
    """The problems of the settings file."""
    trouble: tuple[str, ...] = ()
    """The problems of the client's settings."""


def client(given: Any) -> Client:
    """The client's settings, from JSON: whatever it is, with or without the outer `distir`."""
    table = _table(given)
    table = _table(table.get("distir")) or table
    trouble: list[str] = []
    simulation, budget = _table(table.get("simulation")), _table(table.get("budget"))
    return Client(
        hardware=_text(table, "hardware", trouble),
        nodes=_count(table, "nodes", 0, trouble) if table.get("nodes") is not None else None,
        entry=_text(table, "entry", trouble),
        bind=_bind(_table(table.get("bind")), trouble),
        budget=Budget(_text(budget, "max_latency", trouble), _text(budget, "max_memory", trouble)),
        hints=_hints(_table(table.get("hints")), trouble),
        advice=_word(table, "advice", ADVICE, trouble) or "lens",
        placements=_placements(table, trouble),
        simulated_at_most=_count(simulation, "limit", SIMULATED_AT_MOST, trouble),
        read_at_most=_count(table, "readLimit", READ_AT_MOST, trouble),
        trouble=tuple(trouble),
    )


def settings_for(path: str, given: Client | None = None) -> Settings:
    """The settings of a file; what cannot be used is left out, and said."""
    given = given or Client()
    reports: list[Report] = []
    trouble = list(given.trouble)
    try:
        found = config.find(Path(os.path.abspath(path)).parent)
    except ConfigError as error:
        found = Config()
        reports.append(error.report)
    hardware, machine = _hardware(found, given, reports, trouble)
    setup = Setup(hardware, given.entry or found.entry)
    try:
        setup = replace(setup, bind=constants(found.bind, "`[bind]`"))
    except SetupError as error:
        reports.append(_report(found, error.setting, error.message, error.help))
    try:
        setup = replace(setup, bind={**setup.bind, **constants(given.bind, "the client's `distir.bind`")})
    except SetupError as error:
        trouble.append(error.message)
    try:
        latency = given.budget.max_latency, "`distir.budget.max_latency`"
        memory = given.budget.max_memory, "`distir.budget.max_memory`"
        seconds, nbytes = limits(latency, memory, found)
        setup = replace(setup, max_latency_s=seconds, max_memory_bytes=nbytes)
    except SetupError as error:
        if getattr(given.budget, error.setting[-1]) is not None:
            trouble.append(error.message)
        else:
            reports.append(_report(found, error.setting, error.message, error.help))
    return Settings(
        setup=setup,
        machine=machine,
        hints=replace(found.hints, **given.hints),
        sequential=_sequential(path, found, reports),
        advice=given.advice,
        placements=given.placements,
        simulated_at_most=given.simulated_at_most,
        read_at_most=given.read_at_most,
        reports=tuple(reports),
        trouble=tuple(trouble),
    )


def register(server: DistirServer) -> None:
    """Take the client's settings when it starts and whenever they change; watch the settings files."""

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:  # pyright: ignore[reportUnusedFunction]
        server.client_settings = client(params.initialization_options)

    @server.feature(types.INITIALIZED)
    async def initialized(_: types.InitializedParams) -> None:  # pyright: ignore[reportUnusedFunction]
        _watch(server)
        await _ask(server)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def configured(  # pyright: ignore[reportUnusedFunction]
        params: types.DidChangeConfigurationParams,
    ) -> None:
        if not await _ask(server):
            server.client_settings = client(params.settings)
            server.settings_changed()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(_: types.DidChangeWatchedFilesParams) -> None:  # pyright: ignore[reportUnusedFunction]
        server.settings_changed()

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(_: types.DidSaveTextDocumentParams) -> None:  # pyright: ignore[reportUnusedFunction]
        server.settings_changed()


async def _ask(server: DistirServer) -> bool:
    """Ask the client for its settings; False if it cannot be asked."""
    workspace = server.client_capabilities.workspace
    if workspace is None or not workspace.configuration:
        return False
    item = types.ConfigurationItem(section="distir")
    try:
        answer = await server.workspace_configuration_async(types.ConfigurationParams([item]))
    except JsonRpcException:
        return False
    given: Any = answer[0] if answer else None
    if given is not None:
        server.client_settings = client(given)
    server.settings_changed()
    return True


def _watch(server: DistirServer) -> None:
    """Register for changes of settings files, of profiles, and of settings, if the client supports it."""
    workspace = server.client_capabilities.workspace
    if workspace is None:
        return
    wanted: list[types.Registration] = []
    files = workspace.did_change_watched_files
    if files is not None and files.dynamic_registration:
        watchers = [types.FileSystemWatcher(glob_pattern="**/*.toml")]  # settings, and the profiles that they name
        options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
        name = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        wanted.append(types.Registration(f"distir {name}", name, options))
    changes = workspace.did_change_configuration
    if changes is not None and changes.dynamic_registration:
        name = types.WORKSPACE_DID_CHANGE_CONFIGURATION
        wanted.append(types.Registration(f"distir {name}", name, {"section": "distir"}))
    if wanted:
        server.client_register_capability(types.RegistrationParams(wanted))


def _hardware(found: Config, given: Client, reports: list[Report], trouble: list[str]) -> tuple[Hardware, str]:
    """The client's, else that of the settings file, else the default; and its name or path."""
    if given.hardware is not None or given.nodes is not None:
        try:
            name = with_nodes(found.hardware if given.hardware is None else given.hardware, given.nodes)
            return load(name), name
        except HardwareError as error:
            setting = "hardware" if given.nodes is None else "nodes"
            trouble += (f"`distir.{setting}`: {problem.message}" for problem in error.problems)
    try:
        return load(found.machine), found.machine
    except HardwareError as error:
        for fault in error.problems:
            reports.append(_report(found, ("hardware",), fault.text, fault.help))
            if fault.path is not None and fault.line is not None:
                reports.append(_in_profile(fault.path, fault.line, fault))
    return load(config.DEFAULT_HARDWARE), config.DEFAULT_HARDWARE


def _in_profile(path: str, line: int, fault: Problem) -> Report:
    """A fault of a profile where it is, to the end of its line."""
    try:
        source = Source(path, read_text(path, PROFILE, "replace").removeprefix("\ufeff"))
    except OSError:
        source = Source(path, "")
    number, column = min(line, len(source.line_starts)), fault.column or 1
    start = source.line_starts[number - 1]
    span = Span(start + column - 1, max(start + column - 1, start + len(source.line(number))))
    return Report(source, (Diagnostic(SETTING_VALUE, span, fault.message, help=fault.help),))


def _sequential(path: str, found: Config, reports: list[Report]) -> SequentialFile | None:
    """The program that the settings file names; none for that program itself."""
    named = found.sequential
    if named is None or (os.path.exists(path) and os.path.exists(named) and os.path.samefile(path, named)):
        return None
    try:
        return sequential(named)
    except UnusableSequential as error:
        reports.append(_report(found, ("sequential",), str(error), error.help))
        return None


def _report(found: Config, key: tuple[str, ...], message: str, help: str | None) -> Report:
    """Something wrong with a setting, where it is in the settings file."""
    return config.problem(found, key, message, help).report


def _table(value: Any) -> Mapping[str, Any]:
    """A JSON object; of what is none, an empty one. The protocol's library gives named tuples for objects."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(table: Mapping[str, Any], name: str, trouble: list[str]) -> str | None:
    value = table.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    trouble.append(f"`distir` settings: expected a text as `{name}`, found `{value}`")
    return None


def _word(table: Mapping[str, Any], name: str, words: tuple[str, ...], trouble: list[str]) -> str | None:
    value = _text(table, name, trouble)
    if value is None or value in words:
        return value
    trouble.append(f"`distir` settings: expected one of {', '.join(words)} as `{name}`, found `{value}`")
    return None


def _placements(table: Mapping[str, Any], trouble: list[str]) -> Shown:
    word = _word(table, "placements", SHOWN, trouble)
    return SHOWN[SHOWN.index(word)] if word in SHOWN else SHOWN[0]


def _count(table: Mapping[str, Any], name: str, default: int, trouble: list[str]) -> int:
    value = table.get(name, default)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    trouble.append(f"`distir` settings: expected a number from 0 as `{name}`, found `{value}`")
    return default


def _hints(table: Mapping[str, Any], trouble: list[str]) -> dict[str, bool | int]:
    """The settings of hints that can be used: switches and lengths; what is null or unknown is left out."""
    found: dict[str, bool | int] = {}
    for setting in fields(Hints):
        value = table.get(setting.name)
        default: bool | int = getattr(Hints(), setting.name)
        if isinstance(default, bool):
            found |= {setting.name: value} if isinstance(value, bool) else {}
        elif value is not None:
            found[setting.name] = _count(table, setting.name, default, trouble)
    return found


def _bind(table: Mapping[str, Any], trouble: list[str]) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    for name, value in table.items():
        if isinstance(value, (int, str)) and not isinstance(value, bool):
            found[name.removeprefix("%")] = value
        else:
            trouble.append(f"`distir` settings: expected a size or a literal as `bind.{name}`, found `{value}`")
    return found
