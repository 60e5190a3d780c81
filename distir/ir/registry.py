"""Things by name: ours, and those of packages that register under the entry-point group `distir.plugins`.

Ops, steps, schedules, hardware profiles and frameworks are all found this way. An entry point names a module whose
import registers what it defines; all modules of the group are imported together, the first time that some name is not
found among ours, or that all names are listed. A program, its folder and its settings never name such a module: only
installed plugins are imported. Independent of what it holds.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import redirect_stdout
from types import MappingProxyType
from typing import TypeVar

from distir.ir.errors import DistirError

GROUP = "distir.plugins"

T = TypeVar("T")


class PluginWarning(UserWarning):
    """A package under `distir.plugins` could not be imported, or takes a name that there is."""


class DefinitionError(DistirError):
    """What a package defines does not do what its definition says. It is at fault, not the program."""


class Registry(MutableMapping[str, T]):
    """What is registered under each name. Looking for an unknown name, and listing all, imports the plugins.

    The module of one of ours may be imported only when the item is looked for, or all are listed (`expect`).
    """

    def __init__(self) -> None:
        self._held: dict[str, T] = {}
        self._homes: dict[str, str] = {}

    def expect(self, homes: Mapping[str, str]) -> None:
        """State by name which modules register ours."""
        self._homes.update(homes)

    def register(self, name: str, item: T, module: str) -> None:
        """Hold what `module` defines; a later definition takes the place of an earlier one.

        But a plugin cannot take a name that there is, for what the name means would depend on when plugins are
        imported. Raises ValueError there.
        """
        if _state.importing and (name in self._held or name in self._homes) and module.partition(".")[0] != "distir":
            raise ValueError(f"there is already something named `{name}`; choose another name")
        self[name] = item

    @property
    def held(self) -> Mapping[str, T]:
        """What is registered so far. It imports nothing, so it may be asked for while modules are being imported."""
        return MappingProxyType(self._held)

    def __getitem__(self, name: str) -> T:
        if name not in self._held and name in self._homes:
            importlib.import_module(self._homes[name])
        if name not in self._held:
            import_plugins()
        return self._held[name]

    def __setitem__(self, name: str, item: T) -> None:
        self._held[name] = item

    def __delitem__(self, name: str) -> None:
        del self._held[name]

    def __contains__(self, name: object) -> bool:
        if name in self._homes:
            return True
        if name not in self._held:
            import_plugins()
        return name in self._held

    def __iter__(self) -> Iterator[str]:
        for home in self._homes.values():
            importlib.import_module(home)
        import_plugins()
        return iter(self._held)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _State:
    """The plugins that this process has loaded. `packages`: the names of theirs, without what is in them."""

    begun = False
    importing = False
    packages: frozenset[str] = frozenset()


_state = _State()


def importing_plugins() -> bool:
    """Whether what is registered now is a plugin's."""
    return _state.importing


def import_plugins() -> None:
    """Import the modules under `distir.plugins`, once a process. What one does wrong is a PluginWarning.

    What they print goes to standard error: standard output is the answer of a command, or a protocol's.
    """
    if _state.begun:
        return
    _state.begun = _state.importing = True
    from importlib.metadata import entry_points

    for plugin in entry_points(group=GROUP):
        _state.packages |= {plugin.module.partition(".")[0]}
        try:
            with redirect_stdout(sys.stderr):
                plugin.load()
        except (Exception, SystemExit) as error:  # whatever a package does wrong, the others still work
            message = f"the plugin `{plugin.value}` could not be loaded: {_with_place(error)}"
            warnings.warn(message, PluginWarning, stacklevel=2)
    _state.importing = False


def place_in_plugins(error: BaseException) -> str | None:
    """The last line of a plugin's that led to an error, as `file:line`; None if none did."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] in _state.packages:
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _with_place(error: BaseException) -> str:
    """What a plugin raised while it was imported, in a line."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    place, text = place_in_plugins(error), " ".join(str(error).split())
    return f"{f'{place}: ' if place else ''}{type(error).__name__}{f': {text}' if text else ''}"
