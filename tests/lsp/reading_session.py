"""A session with the server over standard input and output, as an editor has one: for tests of what is read."""

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path

from lsprotocol import types
from pytest_lsp import ClientServerConfig, client_capabilities, make_test_lsp_client
from server_session import PATIENCE_S
from warm_servers import COMMAND, warm

NEOVIM = "neovim@v0.11.0"


def vs_code():
    """What VS Code declares of the features tested here."""
    text = types.TextDocumentClientCapabilities(
        hover=types.HoverClientCapabilities(content_format=[types.MarkupKind.Markdown]),
        inlay_hint=types.InlayHintClientCapabilities(
            resolve_support=types.ClientInlayHintResolveOptions(properties=["tooltip", "textEdits"])
        ),
        code_lens=types.CodeLensClientCapabilities(
            resolve_support=types.ClientCodeLensResolveOptions(properties=["command"])
        ),
        semantic_tokens=types.SemanticTokensClientCapabilities(
            requests=types.ClientSemanticTokensRequestOptions(
                range=True, full=types.ClientSemanticTokensRequestFullDelta(delta=True)
            ),
            token_types=[],
            token_modifiers=[],
            formats=[types.TokenFormat.Relative],
        ),
    )
    workspace = types.WorkspaceClientCapabilities(
        inlay_hint=types.InlayHintWorkspaceClientCapabilities(refresh_support=True),
        code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True),
        semantic_tokens=types.SemanticTokensWorkspaceClientCapabilities(refresh_support=True),
    )
    window = types.WindowClientCapabilities(show_document=types.ShowDocumentClientCapabilities(support=True))
    general = types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf16])
    return types.ClientCapabilities(text_document=text, workspace=workspace, window=window, general=general)


@asynccontextmanager
async def session(capabilities=None, options=None):
    """A client with a server of its own. `options`: the client's settings."""
    warm()
    config = ClientServerConfig(server_command=COMMAND, client_factory=make_test_lsp_client)
    client = await config.start()
    for method in (
        types.WORKSPACE_INLAY_HINT_REFRESH,
        types.WORKSPACE_CODE_LENS_REFRESH,
        types.WORKSPACE_SEMANTIC_TOKENS_REFRESH,
    ):
        client.feature(method)(lambda *_: None)
    try:
        declared = vs_code() if capabilities is None else client_capabilities(capabilities)
        params = types.InitializeParams(capabilities=declared, root_uri=None, initialization_options=options)
        found = await client.initialize_session(params)
        client.encoding = found.capabilities.position_encoding or "utf-16"
        yield client
    finally:
        try:
            await end(client)
        finally:
            await client.stop()


async def end(client):
    """Ask the server to end, and see to it that it does: `stop` would wait for it for ever."""
    try:
        await asyncio.wait_for(client.shutdown_session(), PATIENCE_S)
    except BaseException:
        client._server.kill()
        raise


def open_text(client, path: Path, text: str, version=1):
    path.write_text(text, "utf-8")
    uri = path.as_uri()
    item = types.TextDocumentItem(uri, "dir", version, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    return uri


def position_of(text, word, encoding="utf-16"):
    """The position of the first such word."""
    offset = text.index(word)
    line_start = text.rfind("\n", 0, offset) + 1
    return types.Position(text.count("\n", 0, offset), columns(text[line_start:offset], encoding))


def columns(text, encoding):
    """How many columns a text takes in the client's encoding."""
    return len(text.encode("utf-16-le")) // 2 if encoding == "utf-16" else len(text.encode("utf-8"))


async def ask(client, method, **params):
    """A request of our own; its answer as a mapping."""
    found = await asyncio.wait_for(client.protocol.send_request_async(method, params), PATIENCE_S)
    return as_plain(found)


def as_plain(value):
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    return value


async def simulated(client, uri):
    """Wait until the latest version is simulated, or cannot be."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = await ask(client, "distir/status", textDocument={"uri": uri})
        if found["state"] in ("simulated", "failed"):
            return found
        assert time.monotonic() < deadline, "it is never simulated"
        await asyncio.sleep(0.02)
