"""From the arguments of a launch to a program that is at its start. Settings come from `distir.toml` as ever."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from distir import config
from distir.analysis.program import Program, read
from distir.config import ConfigError
from distir.cost import HardwareError, load
from distir.diagnostics import Diagnostic, ProgramError, Severity
from distir.files import reading
from distir.files.reading import PROGRAM, why_not
from distir.ide.stepping.stepper import NothingToStepError, Stepper
from distir.ir import Constant, Function, Site
from distir.simulate.setup import SetupError, bindable, constants, entry, fitting
from distir.simulate.simulation import BindError, arguments, plan
from distir.syntax import decode
from distir_dap.connection import RequestError
from distir_dap.requested import text, whole

SHOWN = 3
"""The most errors of a program that are quoted."""


@dataclass(frozen=True, slots=True)
class LaunchedSession:
    """A program, simulated, and where it was read from."""

    path: str
    program: Program
    stepper: Stepper


def launch(given: Mapping[str, Any], read_text: Callable[[str], str]) -> LaunchedSession:
    """Read, check and simulate what a launch asks for: a file, or a document by its URI. Raises RequestError."""
    path = text(given, "program")
    path = path if _ADDRESS.match(path) else os.path.abspath(path)
    program = read(read_text(path), path)
    if program.errors:
        raise RequestError(_quoted(program, program.errors))
    try:
        settings = config.find(Path(os.path.abspath(path)).parent)
        nodes = whole(given, "nodes") if given.get("nodes") is not None else None
        hardware = text(given, "hardware", "")
        machine = load(hardware or settings.hardware, nodes or (None if hardware else settings.nodes))
        function = entry(program.module, path, text(given, "function", "") or None, settings)
        bind = constants(settings.bind, f"`[bind]` of `{settings.shown}`") | _bind(given, function)
        analysis = program.analysis
        values = arguments(function, fitting(bind, function))
        simulation = plan(program.module, analysis.domain, analysis.instance(function, values), machine)
        return LaunchedSession(path, program, Stepper(simulation))
    except ProgramError as error:
        raise RequestError(_quoted(program, program.located(error.diagnostics))) from None
    except ConfigError as error:
        first = error.report.diagnostics[0]
        raise RequestError(f"{error.report.source.path}: {first.message}") from None
    except SetupError as error:
        raise RequestError(f"{error.message}; {error.help}" if error.help else error.message) from None
    except HardwareError as error:
        fault = error.problems[0]
        raise RequestError(f"{fault.text}; {fault.help}" if fault.help else fault.text) from None
    except (BindError, NothingToStepError) as error:
        raise RequestError(str(error)) from None


_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:")  # a single letter is a drive


def read_program(path: str) -> str:
    """The text of a file. Raises RequestError."""
    try:
        found, problems = decode(reading.read_bytes(path, PROGRAM), path)
    except IsADirectoryError:
        raise RequestError(f"expected a program, found the folder `{path}`") from None
    except OSError as error:
        raise RequestError(f"cannot read `{path}`: {why_not(error)}") from None
    if found is None:
        raise RequestError(f"`{path}`: {problems[0].message}")
    return found


def _quoted(program: Program, diagnostics: Sequence[Diagnostic]) -> str:
    """The first errors with their lines."""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR]
    shown = [_line(program, diagnostic) for diagnostic in errors[:SHOWN]]
    if len(errors) > SHOWN:
        shown.append(f"and {len(errors) - SHOWN} more")
    return "; ".join(shown)


def _line(program: Program, diagnostic: Diagnostic) -> str:
    name = Path(program.source.path).name
    at = program.locate(diagnostic.site) if isinstance(diagnostic.site, Site) else diagnostic.site
    line = f"{name}:{program.source.position(at.start)[0]}: " if at is not None else f"{name}: "
    said = f"{diagnostic.message} [{diagnostic.code.number}]"
    return line + said + (f"; {diagnostic.help}" if diagnostic.help else "")


def _bind(given: Mapping[str, Any], function: Function) -> dict[str, Constant]:
    found = given.get("bind")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise RequestError('`bind`: expected sizes by name, as `{"B": 64}`')
    table = cast("dict[str, Any]", found)
    names = bindable(function)
    for name, value in table.items():
        if name not in names:
            known = ", ".join(f"`{each}`" for each in sorted(names)) or "none"
            raise RequestError(f"`bind`: `@{function.name}` has no dimension or host value `{name}`: it has {known}")
        if type(value) not in (int, str):
            raise RequestError(f"`bind`: `{name}` is expected to be a number, or a literal as text")
    return constants(table, "`bind`")
