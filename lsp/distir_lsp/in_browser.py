"""The server in a browser's worker, where Python is WebAssembly. Knows no browser: messages come and go as JSON text.

`warm` runs when the site is built, before a snapshot of Python's memory is taken; `serve` runs in the page. Packages
that the browser lacks (numpy) are missing there: what needs them answers with an error.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable

ROOMS = ("distir.ide", "distir.simulate", "distir.transform", "distir.models", "distir_lsp")
"""The packages whose modules are imported beforehand, with all that they import in turn."""

PROFILE = "dgx-a100"


def warm(texts: Iterable[str]) -> list[str]:
    """Import what a session may need, and simulate these programs. Returns the modules that could not be imported."""
    from distir.cost import load
    from distir.ide.document import Setup, open_document

    missing = [name for room in ROOMS for name in _modules(room) if not _imported(name)]
    for text in texts:
        open_document(text, "warm.dir", Setup(load(PROFILE))).simulate()
    return missing


def serve(send: Callable[[str], object]) -> Callable[[str], None]:
    """Start a server. `send` is called with its messages; the function that is returned takes those of the client."""
    from distir.ir.registry import import_plugins
    from distir_lsp.server import DistirServer
    from distir_lsp.serving import on_messages

    importlib.invalidate_caches()  # a snapshot remembers no files
    import_plugins()
    return on_messages(DistirServer(), send)


def _modules(package: str) -> list[str]:
    """The names of all modules in a package, its own first."""
    found = importlib.import_module(package)
    inner = pkgutil.walk_packages(found.__path__, f"{package}.")
    return [package, *(module.name for module in inner if not module.name.endswith("__main__"))]


def _imported(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
