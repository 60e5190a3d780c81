"""All commands, exit codes, and error messages.

0: success. 1: the program has errors. 2: the command could not run; also a bug in DistIR. 130: interrupted. 141: the
reader closed the pipe.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any, TextIO

import typer

from distir import __version__
from distir.cli import output, streams
from distir.cli.arguments import Groups, UsageError, call, complaint
from distir.cli.endings import REFUSED, WRONG, Closed, Refused, Wrong, of_hardware
from distir.files.cache import cache_folder
from distir.files.reading import why_not
from distir.syntax import grammar

GROUPS: Groups = {
    "Plan a job": ("model", "import", "search", "simulate", "goodput", "export", "hardware"),
    "Write and check programs": ("check", "fmt", "show", "run", "prove", "explain", "ops"),
    "Change and compare programs": ("transform", "erase", "expand", "diff", "advise"),
    "Run programs, and measure": ("project", "lower", "launch", "compare", "calibrate", "validate"),
    "Editors and agents": ("lsp", "dap", "mcp"),
}
"""Commands by name, in the order of the help.

Each is a function of that name, in a module of that name (`HOMES`), which is imported when it is called; its docstring
is its help and shows an example.
"""

COMMANDS = tuple(name for group in GROUPS.values() for name in group)

HOMES = {"import": "importing", "export": "exporting", "erase": "meshes", "expand": "meshes"}
"""The modules of commands that are in one of another name."""


def command(name: str) -> Callable[..., int]:
    """A command by its name."""
    module = import_module(f"distir.cli.{HOMES.get(name, name)}")
    return getattr(module, f"{name}_" if iskeyword(name) else name)


INTERRUPTED = 130
UNREAD = 141
"""The exit code of a program that a closed pipe ends."""

TRACEBACK = "--traceback"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` without `arguments`) and give the exit code. Never raises."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    wants_traceback = TRACEBACK in given
    given = [word for word in given if word != TRACEBACK]
    try:
        streams.stand_in()
        return _run(given or ["--help"])
    except (Closed, BrokenPipeError):
        _abandon(sys.stdout)
        return UNREAD
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:  # show no traceback unless requested
        if _interrupted(error):
            return INTERRUPTED
        if wants_traceback:
            import traceback

            traceback.print_exc()
        try:
            return _explained(error)
        except OSError:  # standard error cannot be written, either
            _abandon(sys.stderr)
            return REFUSED


def _run(arguments: list[str]) -> int:
    grammar.folder_for_tables = partial(cache_folder, __version__)
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")  # escape what the terminal cannot encode
    with warnings.catch_warnings():
        warnings.showwarning = _warn(warnings.showwarning)
        code = call(arguments, GROUPS, command, _global)
    sys.stdout.flush()
    return code


def _warn(others: Callable[..., None]) -> Callable[..., None]:
    """Show plugin warnings in the format of DistIR's warnings, others as Python does; no control characters."""
    from distir.diagnostics.visible import visible_lines
    from distir.ir.registry import PluginWarning

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if issubclass(category, PluginWarning):
            output.complain("warning", str(message), "repair or uninstall the package")
        else:
            others(visible_lines(str(message)), category, *where)

    return show


def _show_version(wanted: bool) -> None:
    if wanted:
        output.write(f"distir {__version__}\n")
        raise typer.Exit


def _global(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
    traceback: Annotated[bool, typer.Option(TRACEBACK, help="Show a traceback with errors.")] = False,
) -> None:
    """A workbench for distributed neural-network programs.

    Exit codes: 0 success, 1 the program has errors, 2 the command could not run, 130 interrupted. Settings come from
    the nearest distir.toml beside or above the program; flags override it.

    For example:

        distir search llama3-8b --hardware dgx-h100

        distir check program.dir

        distir simulate program.dir --hardware dgx-a100
    """
    del version, traceback  # handled already


def _explained(error: Exception) -> int:
    """Report an error in a line or two, and return its exit code."""
    from distir.config import ConfigError
    from distir.cost import HardwareError
    from distir.diagnostics import terminal
    from distir.ir.registry import DefinitionError, place_in_plugins

    if isinstance(error, UsageError):
        output.complain("error", *complaint(error))
        return REFUSED
    match error:
        case Wrong():
            terminal.write(error.reports, sys.stderr)
            return WRONG
        case Refused():
            output.complain("error", error.message, error.help)
        case ConfigError():
            terminal.write([error.report], sys.stderr)
        case HardwareError():
            for message, hint in of_hardware(error):
                output.complain("error", message, hint)
        case OSError():
            name = f"`{os.fsdecode(error.filename)}`: " if isinstance(error.filename, (str, bytes)) else ""
            output.complain("error", f"{name}{why_not(error)}")
        case MemoryError():
            output.complain("error", "out of memory", "use smaller sizes, or a machine with more memory")
        case DefinitionError():
            output.complain("error", str(error), "the definition is at fault, not the program")
        case _:
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            if (place := place_in_plugins(error)) is not None:
                output.complain(
                    "error", f"{place}: {text}", f"the plugin is at fault; `{TRACEBACK}` shows the traceback"
                )
            else:
                output.complain("error", f"this is a bug in DistIR: {text}", _where_to_report())
    return REFUSED


def _interrupted(error: BaseException | None) -> bool:
    """Whether an interrupt caused an error: extensions in C may raise another one instead."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _where_to_report() -> str:
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        urls = metadata("distir").get_all("Project-URL") or []
    except PackageNotFoundError:
        urls = []
    pages = dict[str, str](url.split(", ", 1) for url in urls if ", " in url)  # pyright: ignore[reportArgumentType]
    page = pages.get("Issues")
    return f"please report it{f' at {page}' if page else ' to the maintainers'}; `{TRACEBACK}` shows the traceback"


def _abandon(stream: TextIO) -> None:
    """Discard buffered output, so that the interpreter does not fail again at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):  # no file of the system's, as in tests
        return
