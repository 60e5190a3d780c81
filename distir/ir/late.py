"""Names that a package offers without importing them: it is imported at every start, they are not."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def late_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` (PEP 562). `homes`: the module that each name is imported from when first asked for.

    What it gives raises AttributeError for other names, as Python wants it.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module `{package}` has no attribute `{name}`")
        return getattr(importlib.import_module(homes[name]), name)

    return get


def also_called(package: str, function: Callable[..., Any]) -> None:
    """Let a package be called, as `function`: `distir.simulate` is a room of this house, and what users do with it.

    `import distir.simulate.storage as storage` finds the package then, where a function in its place would hide it.
    """
    module = importlib.import_module(package)
    module.__class__ = _Called
    module.__dict__["__wrapped__"] = function  # the convention of `inspect` for wrappers
    module.__doc__ = f"{function.__doc__}\n\nThe package: {module.__doc__}"


class _Called(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.__dict__["__wrapped__"](*args, **options)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return importlib.import_module, (self.__name__,)  # so it may be handed to other processes, as a function may
