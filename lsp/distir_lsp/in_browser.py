"""The server in a browser's worker, where Python is WebAssembly. Knows no browser: messages come and go as JSON text.

`rehearse` runs when the site is built, before a snapshot of Python's memory is taken; `serve` runs in the page, and
finds the modules imported, and the objects made, that the rehearsal needed. Packages of compiled code (numpy) are not
in the snapshot: they are fetched when they are first needed, from where the site has them; what needs one that the site
lacks answers with an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import json
import pkgutil
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

import attrs
from cattrs import StructureHandlerNotFoundError
from lsprotocol import types

from distir_lsp.protocol import Raw

if TYPE_CHECKING:
    from cattrs import Converter

    from distir_lsp.server import DistirServer

ROOMS = ("distir.ide", "distir.simulate", "distir.transform", "distir.models", "distir_lsp", "distir_dap")
"""The packages whose modules are imported beforehand, with all that they import in turn."""

_prepared: list[DistirServer] = []
"""A server that has had no session yet: to make one takes a browser a fifth of a second."""


async def rehearse(texts: Sequence[str]) -> list[str]:
    """Import what a session may need, have one with these programs, and prepare the server of the next one.

    Returns the modules that cannot be imported.
    """
    missing = [name for room in ROOMS for name in _modules(room) if not _imported(name)]
    _learn_to_read(types.InitializeRequest)
    await _session(texts)
    await _session(texts[:1])
    _prepared.append(_new_server())
    return missing


async def _session(texts: Sequence[str]) -> None:
    """One of each request.

    In a second session the converter makes nothing new: whenever it makes a function for another kind of sequence, it
    forgets which of its functions is for what.
    """
    answers: dict[object, asyncio.Future[Any]] = {}

    def hear(text: str) -> None:
        message = json.loads(text)
        if "method" not in message:
            answers[message["id"]].set_result(message)

    async def fetch(_: str) -> bool:
        return False

    take = serve(hear, fetch)

    def tell(method: str, params: object, **number: int) -> None:
        take(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **number}))

    async def ask(method: str, params: object) -> Any:
        number = len(answers)
        answer = answers[number] = asyncio.get_running_loop().create_future()
        tell(method, params, id=number)
        return await answer

    refreshed = {"refreshSupport": True}
    views = {"inlayHint": refreshed, "codeLens": refreshed, "semanticTokens": refreshed}
    await ask("initialize", {"capabilities": {"workspace": views}, "processId": None, "rootUri": None})
    tell("initialized", {})
    for number, text in enumerate(texts):
        uri = f"file:///rehearsal/{number}.dir"
        document: dict[str, object] = {"textDocument": {"uri": uri}}
        start = {"line": 0, "character": 0}
        shown = document | {"range": {"start": start, "end": {"line": text.count("\n"), "character": 0}}}
        opened = {"uri": uri, "languageId": "distir", "version": 1, "text": text}
        tell("textDocument/didOpen", {"textDocument": opened})
        await ask("distir/timeline", document | {"firstEvent": 0, "columns": True})
        for method in ("distir/status", "distir/memory", "distir/transform", "distir/hardware"):
            await ask(method, document | {"action": "list"})
        edit = {"range": {"start": start, "end": start}, "text": "// edited\n"}
        tell("textDocument/didChange", {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [edit]})
        await ask("distir/timeline", document | {"firstEvent": 0, "columns": True})
        await ask("textDocument/inlayHint", shown)
        for method in ("codeLens", "semanticTokens/full", "foldingRange", "documentLink", "documentSymbol"):
            await ask(f"textDocument/{method}", document)
        for method in ("hover", "completion"):
            await ask(f"textDocument/{method}", document | {"position": start})
        context: dict[str, object] = {"diagnostics": [], "triggerKind": 2}
        await ask("textDocument/codeAction", shown | {"context": context})
        tell("textDocument/didClose", document)
    tell("$/cancelRequest", {"id": 0})
    await ask("shutdown", None)


def serve(send: Callable[[str], object], fetch: Callable[[str], Awaitable[bool]]) -> Callable[[str], None]:
    """Start a server. `send` is called with its messages; the function that is returned takes those of the client.

    `fetch` puts a package, given by name, where Python finds it, and says whether there is one.
    """
    from distir.ir.registry import import_plugins
    from distir_lsp.serving import on_messages

    server = _prepared.pop() if _prepared else _new_server()
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


def _new_server() -> DistirServer:
    from distir_lsp.server import DistirServer

    server = DistirServer(_converter)
    server.has_threads = False
    _offer_stepping(server)
    return server


def _offer_stepping(server: DistirServer) -> None:
    """Offer debug sessions, which are processes elsewhere.

    `distir/stepping` hands over a message of the Debug Adapter Protocol, and is answered with those that the session
    sends. A launch names an open document by its address.
    """
    from distir_dap.adapter import Adapter
    from distir_dap.connection import DebugClient, Json, RequestError

    sessions: dict[str, tuple[DebugClient, Adapter]] = {}

    def read(uri: str) -> str:
        found = server.documents.get(uri)
        if found is None:
            raise RequestError(f"`{uri}` is not open: open the program first")
        return found.text

    @server.feature("distir/stepping")
    def stepping(params: Any) -> Raw:  # pyright: ignore[reportUnusedFunction]
        name, request = str(params["session"]), cast("Json", params["message"])
        if name not in sessions:
            client = DebugClient()
            sessions[name] = client, Adapter(client, read)
        client, adapter = sessions[name]
        client.put(request)
        adapter.serve()
        said, client.said = client.said, []
        if request["command"] == "disconnect":
            del sessions[name]
        return Raw(json.dumps({"messages": said}))


@functools.cache
def _converter() -> Converter:
    """What reads and writes the protocol's messages. One for all servers: it learns each kind when that first comes."""
    from pygls.protocol import default_converter

    return default_converter()


def _learn_to_read(message: type) -> None:
    """Make the functions that read a message, and all that may be in it.

    They are most of the time that a first message takes, and clients send different ones.
    """
    converter = _converter()  # first: it says what the names in the kinds' annotations mean
    kinds: list[Any] = [message]
    for kind in kinds:
        parts = [field.type for field in attrs.fields(kind)] if attrs.has(kind) else get_args(kind)
        kinds += (part for part in parts if part not in kinds)
    for kind in kinds:
        with contextlib.suppress(StructureHandlerNotFoundError):  # there is none for a literal
            converter.get_structure_hook(kind)


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
