"""Names that a package offers without importing them: it is imported at every start, they are not."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
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
