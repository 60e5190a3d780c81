"""The wire: what pygls does, with documents kept by us, answers that are JSON already, and no pull where it goes stale.

pygls's own workspace walks every line at each edit; ours (`workspace`) handles documents instead. Knows no programs.

Edits are applied at once, but a handler that awaits begins at a later turn of the loop. So a request that is under way
when its document is edited ends with `ContentModified`: it is never answered from a text that came after it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from cattrs import ClassValidationError, transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, lsp_method

from distir_lsp.messages import OWN, MessageReader, Unreadable

if TYPE_CHECKING:
    from cattrs import Converter

    from distir_lsp.server import DistirServer

Steps = Generator[Any, Any, Any]

EVERY = ""
"""In the place of a document's address: a request that reads all open documents."""


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
    """pygls's protocol; the workspace is updated before handlers run."""

    _server: DistirServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, server: DistirServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self._reader = MessageReader()
        self._reads: dict[str | int, tuple[str, asyncio.Task[Any]]] = {}
        """By request under way: the document whose text its answer is about, and who answers."""
        self._overtaken: set[str | int] = set()
        """The requests under way whose document has been edited since."""

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Steps:
        """Offer pull diagnostics only to clients that support refresh requests; others get them pushed."""
        params.root_uri = params.root_path = None  # unused; pygls fails if they are not URIs
        result: types.InitializeResult = yield from super().lsp_initialize(params)
        if not self._server.is_asked_for_diagnostics:
            result.capabilities.diagnostic_provider = None
        return result

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Steps:
        """Add the document before handlers run."""
        self._server.opened(params.text_document)
        yield from self._handlers(types.TEXT_DOCUMENT_DID_OPEN, params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Steps:
        """Remove the document before handlers run."""
        self._server.closed(params.text_document.uri)
        yield from self._handlers(types.TEXT_DOCUMENT_DID_CLOSE, params)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    def lsp_workspace__execute_command(self, params: types.ExecuteCommandParams) -> Steps:
        """Run a command; one that is given no arguments is refused as one with too few is."""
        params.arguments = params.arguments or []
        return (yield from super().lsp_workspace__execute_command(params))

    def get_message_type(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, method: str
    ) -> type[Any] | None:
        """The type by which a message is decoded."""
        return Own if method.startswith(OWN) else super().get_message_type(method)

    def handle_body(self, body: bytes) -> None:
        """Take one message as it came in. What is no message is answered with why, a notification ignored."""
        try:
            data = self._reader.read(body)
            self._check_order(data)
        except Unreadable as unreadable:
            self._refuse(unreadable.error, unreadable.id, unreadable.is_answered)
            return
        try:
            message = _edit(data) or self.structure_message(data)
        except Exception as error:
            self._refuse(_told(error), data.get("id"), "method" in data and "id" in data)
            return
        if "id" in data and not hasattr(message, "id"):
            error = JsonRpcInvalidRequest(f"Invalid Request: `{data['method']}` is a notification")
            self._refuse(error, data["id"], is_answered=True)
            return
        try:
            self.handle_message(message)
        except Exception as error:  # the next message is another one
            self._server.report_server_error(error, JsonRpcException)

    def _check_order(self, data: dict[str, Any]) -> None:
        """Whether a message may come now: `initialize` before all others, and after `shutdown` only `exit`."""
        method = data.get("method")
        if method is None or method == types.EXIT:
            return
        error: JsonRpcException | None = None
        if self._shutdown:
            error = JsonRpcInvalidRequest("Invalid Request: the server is shutting down")
        elif method == types.INITIALIZE and self._workspace is not None:
            error = JsonRpcInvalidRequest("Invalid Request: `initialize` has come before")
        elif method != types.INITIALIZE and self._workspace is None:
            error = JsonRpcServerNotInitialized("`initialize` comes first")
        if error is not None:
            raise Unreadable(error, data.get("id"), is_answered="id" in data)

    def _refuse(self, error: JsonRpcException, id: str | int | None, is_answered: bool) -> None:
        if is_answered:
            response = {"jsonrpc": "2.0", "id": id, "error": {"code": error.code, "message": error.message}}
            self.write(json.dumps(response))
        self._server.report_server_error(error, JsonRpcException)

    def handle_message(self, message: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """An edit only changes a text, and many come at once: it takes none of the steps that other messages take."""
        if type(message) is types.DidChangeTextDocumentNotification and not self._shutdown:
            self._server.changed(message.params.text_document, message.params.content_changes)
        else:
            super().handle_message(cast("Any", message))

    def overtake(self, uri: str) -> None:
        """End the requests under way about a document that is edited or closed."""
        for request, (read, task) in [*self._reads.items()]:
            if read in (uri, EVERY):
                self._overtaken.add(request)
                task.cancel()
                del self._reads[request]

    def _handle_request(self, msg_id: str | int, method_name: str, params: Any) -> None:
        super()._handle_request(msg_id, method_name, params)
        read, task = _document_read(method_name, params), self._request_futures.get(msg_id)
        if read is not None and isinstance(task, asyncio.Task):
            self._reads[msg_id] = read, task

    def _send_handler_result(self, future: Any, *, msg_id: str | int) -> None:
        self._reads.pop(msg_id, None)
        missing = None if future.cancelled() else future.exception()
        if msg_id in self._overtaken:
            self._overtaken.remove(msg_id)
            self._ask_again(msg_id, "the text has changed: ask again")
        elif isinstance(missing, ModuleNotFoundError):  # who analyses the document fetches it, or says that it lacks
            self._ask_again(msg_id, f"the Python package `{missing.name}` is not there yet: ask again")
        else:
            super()._send_handler_result(future, msg_id=msg_id)

    def _ask_again(self, msg_id: str | int, why: str) -> None:
        self._request_futures.pop(msg_id, None)
        self._send_response(msg_id, error=types.ResponseError(types.LSPErrorCodes.ContentModified, why))

    def _handle_cancel_notification(self, msg_id: str | int) -> None:
        if msg_id in self._request_futures:  # else it has been answered meanwhile, which is nothing to log
            super()._handle_cancel_notification(msg_id)

    def _handlers(self, method: str, params: Any) -> Steps:
        features = cast("dict[str, Any]", self.fm.features)  # pyright: ignore[reportUnknownMemberType]
        handler = features.get(method)
        if handler is not None:
            yield handler, (params,), None

    def _handle_response(self, msg_id: str | int, result: Any = None, error: types.ResponseError | None = None) -> None:
        """A response of the client; one to a cancelled request is dropped."""
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
    if data.get("method") != types.TEXT_DOCUMENT_DID_CHANGE or "id" in data:
        return None
    try:
        document, changes = data["params"]["textDocument"], data["params"]["contentChanges"]
        partial = [
            types.TextDocumentContentChangePartial(
                types.Range(types.Position(**change["range"]["start"]), types.Position(**change["range"]["end"])),
                change["text"],
            )
            for change in changes
        ]
        texts = [document["uri"], *(change.text for change in partial)]
        numbers = [document["version"]]
        for change in partial:
            start, end = change.range.start, change.range.end
            numbers += start.line, start.character, end.line, end.character
        if not all(isinstance(t, str) for t in texts) or any(type(n) is not int for n in numbers):
            return None
        identifier = types.VersionedTextDocumentIdentifier(document["version"], document["uri"])
    except (KeyError, TypeError, ValueError):
        return None
    return types.DidChangeTextDocumentNotification(types.DidChangeTextDocumentParams(identifier, partial))


def _document_read(method: str, params: Any) -> str | None:
    """The address of the document with whose text an answer has to agree; None if it does not matter, or is said.

    Answers to our own requests say of which version they are. A question that names a place is about the client's.
    """
    if method == types.WORKSPACE_SYMBOL:
        return EVERY
    if not isinstance(params, dict):
        return getattr(getattr(params, "text_document", None), "uri", None)
    asked = cast("dict[str, Any]", params)
    named = asked.get("textDocument")
    has_place = "position" in asked or isinstance(asked.get("path"), list)
    return cast("dict[str, Any]", named).get("uri") if has_place and isinstance(named, dict) else None


def _told(error: Exception) -> JsonRpcException:
    """The error of a message whose parameters do not fit its method."""
    cause = error.__cause__ if isinstance(error, JsonRpcException) else error
    first = next(iter(transform_error(cause, path="message")), "") if isinstance(cause, ClassValidationError) else ""
    return JsonRpcInvalidParams(f"Invalid Params: {first}"[:500].removesuffix(": "))
