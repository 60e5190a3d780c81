"""Things by name: ours, and those of packages that register under the entry-point group `distir.plugins`.

Ops, steps, schedules, hardware profiles and frameworks are all found this way. An entry point names a module whose
import registers what it defines; all modules of the group are imported together, the first time that some name is not
found among ours, or that all names are listed. A program, its folder and its settings never name such a module: only
installed plugins are imported. Independent of what it holds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, MutableMapping
from typing import TypeVar

GROUP = "distir.plugins"

T = TypeVar("T")


class PluginWarning(UserWarning):
    """A package under `distir.plugins` could not be imported, or takes a name that there is."""


class Registry(MutableMapping[str, T]):
    """What is registered under each name. Looking for an unknown name, and listing all, imports the plugins."""

    def __init__(self) -> None:
        self._held: dict[str, T] = {}

    def register(self, name: str, item: T, module: str) -> None:
        """Hold what `module` defines; a later definition takes the place of an earlier one.

        But a plugin cannot take a name that there is, for what the name means would depend on when plugins are
        imported. Raises ValueError there.
        """
        if _state.importing and name in self._held and module.partition(".")[0] != "distir":
            raise ValueError(f"there is already something named `{name}`; choose another name")
        self[name] = item

    def __getitem__(self, name: str) -> T:
        if name not in self._held:
            import_plugins()
        return self._held[name]

    def __setitem__(self, name: str, item: T) -> None:
        self._held[name] = item

    def __delitem__(self, name: str) -> None:
        del self._held[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._held:
            import_plugins()
        return name in self._held

    def __iter__(self) -> Iterator[str]:
        import_plugins()
        return iter(self._held)

    def __len__(self) -> int:
        import_plugins()
        return len(self._held)


class _State:
    """The plugins that this process has loaded."""

    begun = False
    importing = False


_state = _State()


def importing_plugins() -> bool:
    """Whether what is registered now is a plugin's."""
    return _state.importing


def import_plugins() -> None:
    """Import the modules under `distir.plugins`, once a process. What one does wrong is a PluginWarning."""
    if _state.begun:
        return
    _state.begun = _state.importing = True
    from importlib.metadata import entry_points

    for plugin in entry_points(group=GROUP):
        try:
            plugin.load()
        except Exception as error:  # whatever a package does wrong, the others still work
            message = f"the plugin `{plugin.value}` could not be loaded: {error!r}"
            warnings.warn(message, PluginWarning, stacklevel=2)
    _state.importing = False
