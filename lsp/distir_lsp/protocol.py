"""The wire: what pygls does, with documents kept by us, answers that are JSON already, and no pull where it goes stale.

pygls's own workspace walks every line at each edit; ours (`workspace`) is told of documents instead. Knows no programs.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.protocol.json_rpc import JsonRPCNotification

if TYPE_CHECKING:
    from distir_lsp.server import DistirServer

Steps = Generator[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer that is written as it is: `json` is the text of one JSON value."""

    json: str


@dataclass(frozen=True, slots=True)
class Own:
    """A request of our own: its parameters stay as the JSON has them, whatever their names."""

    jsonrpc: str
    method: str
    id: str | int | None = None
    params: Any = None


class Protocol(LanguageServerProtocol):
    """pygls's protocol; the server is told of documents before its handlers are."""

    _server: DistirServer  # pyright: ignore[reportIncompatibleVariableOverride]

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Steps:
        """Offer to be asked for diagnostics only to clients that can be told to ask again; others are sent them."""
        result: types.InitializeResult = yield from super().lsp_initialize(params)
        if not self._server.is_asked_for_diagnostics:
            result.capabilities.diagnostic_provider = None
        return result

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Steps:
        """Keep the document before anybody is told."""
        self._server.opened(params.text_document)
        yield from self._handlers(types.TEXT_DOCUMENT_DID_OPEN, params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Steps:
        """Forget the document before anybody is told."""
        self._server.closed(params.text_document.uri)
        yield from self._handlers(types.TEXT_DOCUMENT_DID_CLOSE, params)

    def get_message_type(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, method: str
    ) -> type[Any] | None:
        """What a message is read as."""
        return Own if method.startswith("distir/") else super().get_message_type(method)

    def structure_message(self, data: dict[str, Any]) -> Any:
        """A message from its JSON. A request that is malformed is answered with an error, so that nobody waits."""
        try:
            return _edit(data) or super().structure_message(data)
        except JsonRpcException as error:
            if "method" in data and isinstance(data.get("id"), (str, int)):
                self._send_response(data["id"], error=error.to_response_error())
            return JsonRPCNotification(method="$/malformed", jsonrpc="2.0", params=None)

    def handle_body(self, body: bytes) -> None:
        """Take one message as it came in; what goes wrong is told in the client's log."""
        try:
            self.handle_message(json.loads(body, object_hook=self.structure_message))
        except Exception as error:  # the next message is another one
            self._server.report_server_error(error, JsonRpcException)

    def handle_message(self, message: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """An edit only changes a text, and many come at once: it takes none of the steps that other messages take."""
        if type(message) is types.DidChangeTextDocumentNotification and not self._shutdown:
            self._server.changed(message.params.text_document, message.params.content_changes)
        else:
            super().handle_message(cast("Any", message))

    def _handlers(self, method: str, params: Any) -> Steps:
        features = cast("dict[str, Any]", self.fm.features)  # pyright: ignore[reportUnknownMemberType]
        handler = features.get(method)
        if handler is not None:
            yield handler, (params,), None

    def _handle_response(self, msg_id: str | int, result: Any = None, error: types.ResponseError | None = None) -> None:
        """An answer of the client; nobody waits any more for that to a request that was given up."""
        waiting = self._request_futures.get(msg_id)
        if waiting is not None and waiting.done():
            self._request_futures.pop(msg_id, None)
        else:
            super()._handle_response(msg_id, result, error)

    def _send_response(self, msg_id: str | int, result: Any = None, error: types.ResponseError | None = None) -> None:
        if error is None and isinstance(result, Raw):
            self._result_types.pop(msg_id, None)
            self.write(f'{{"jsonrpc":"2.0","id":{json.dumps(msg_id)},"result":{result.json}}}')
        else:
            super()._send_response(msg_id, result, error)

    def notify_raw(self, method: str, params: str) -> None:
        """Send a notification whose parameters are JSON already."""
        self.write(f'{{"jsonrpc":"2.0","method":{json.dumps(method)},"params":{params}}}')

    def write(self, body: str) -> None:
        """Send one message that is JSON already."""
        if self.writer is None:
            return
        data = body.encode("utf-8", "backslashreplace")
        self.writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))  # pyright: ignore[reportUnusedCoroutine]


def _edit(data: dict[str, Any]) -> types.DidChangeTextDocumentNotification | None:
    """The notification of an edit as most are, read without pygls's converters; None for all other messages."""
    if data.get("method") != types.TEXT_DOCUMENT_DID_CHANGE or data.get("jsonrpc") != "2.0" or "id" in data:
        return None
    try:
        document, changes = data["params"]["textDocument"], data["params"]["contentChanges"]
        if not isinstance(document["uri"], str):
            return None
        identifier = types.VersionedTextDocumentIdentifier(document["version"], document["uri"])
        partial = [
            types.TextDocumentContentChangePartial(
                types.Range(types.Position(**change["range"]["start"]), types.Position(**change["range"]["end"])),
                change["text"],
            )
            for change in changes
        ]
    except (KeyError, TypeError, ValueError):
        return None
    return types.DidChangeTextDocumentNotification(types.DidChangeTextDocumentParams(identifier, partial))
