"""The server in a browser's worker, where Python is WebAssembly. Knows no browser: messages come and go as JSON text.

`warm` runs when the site is built, before a snapshot of Python's memory is taken; `serve` runs in the page. Packages
of compiled code (numpy) are not in the snapshot, and fetched when they are first needed, from where the site has them;
what needs one that it lacks answers with an error.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterable

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


def serve(send: Callable[[str], object], fetch: Callable[[str], Awaitable[bool]]) -> Callable[[str], None]:
    """Start a server. `send` is called with its messages; the function that is returned takes those of the client.

    `fetch` puts a package, given by name, where Python finds it, and says whether there is one.
    """
    from distir.ir.registry import import_plugins
    from distir_lsp.server import DistirServer
    from distir_lsp.serving import on_messages

    server = DistirServer()
    tried: dict[str, asyncio.Future[bool]] = {}

    async def obtain(package: str) -> bool:
        found = tried.get(package)
        if found is None:
            found = tried[package] = asyncio.ensure_future(fetch(package))
        elif found.done():
            return False  # it was fetched, or there is none, and it is missing still
        there = await found
        importlib.invalidate_caches()
        return there

    server.obtain = obtain
    importlib.invalidate_caches()  # a snapshot remembers no files
    import_plugins()
    return on_messages(server, send)


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
