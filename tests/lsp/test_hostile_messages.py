"""What no editor should send: it is answered with what is wrong with it, or ignored, and the server goes on."""

import json

import pytest
from server_session import Session, span
from thorough import ALL

URI = "file:///program.dir"
SOUND = "func @main(%x: Tensor[Float32, (2, 3), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n"
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, NOT_INITIALIZED, METHOD_NOT_FOUND = -32700, -32600, -32602, -32002, -32601
HOSTILE_ADDRESSES = [
    "file:///a\0b.dir",
    "file://[",
    "file:///\ud800.dir",
    "\ud800",
    "file:////",
    f"file:///{'a' * 5000}.dir",
]


@pytest.fixture(scope="module")
def session():
    with Session() as opened:
        opened.open(URI, SOUND)
        assert opened.diagnostics(URI) == []
        yield opened


def answered(session, body):
    """The answer to a message that names no request."""
    session.write(body)
    return session.wait(lambda m: m.get("id", 0) is None)["error"]["code"]


def goes_on(session):
    symbols = session.ask("textDocument/documentSymbol", {"textDocument": {"uri": URI}})
    return [symbol["name"] for symbol in symbols] == ["@main", "%y"]


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999", "9" * 5000])
def test_numbers_that_are_none(session, number):
    place = f'{{"line": {number}, "character": 0}}'
    document = f'"textDocument": {{"uri": "{URI}"}}'
    body = '{"jsonrpc": "2.0", "id": %d, "method": "%s", "params": {%s}}'
    session.write((body % (10_001, "textDocument/hover", f'{document}, "position": {place}')).encode())
    assert session.answer(10_001)["error"]["code"] == INVALID_PARAMS
    for method, name in (("distir/timeline", "limit"), ("distir/rankProgram", "rank"), ("distir/calls", "pick")):
        session.write((body % (10_002, method, f'{document}, "{name}": {number}, "function": "main"')).encode())
        assert session.answer(10_002)["result"]["error"] == f"expected an integer as `{name}`, found `null`"
    change = f'{{"range": {{"start": {place}, "end": {place}}}, "text": "x"}}'
    edit = f'"textDocument": {{"uri": "{URI}", "version": 2}}, "contentChanges": [{change}]'
    session.write(f'{{"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {{{edit}}}}}'.encode())
    assert goes_on(session)


@pytest.mark.parametrize("uri", HOSTILE_ADDRESSES, ids=lambda uri: ascii(uri)[:30])
def test_addresses_of_no_file(session, uri):
    for own in ("status", "timeline", "memory", "rankProgram", "compare", "hardware", "transform", "calls"):
        asked = {"textDocument": {"uri": uri}, "action": "choose", "other": {"uri": uri}}
        assert session.ask(f"distir/{own}", asked)["error"]
    refused = session.ask("distir/compare", {"textDocument": {"uri": URI}, "other": {"uri": uri}})["error"]
    assert "is no file's address" in refused or "cannot read" in refused
    session.open(uri, SOUND)
    assert session.diagnostics(uri) == []  # it is looked at as a text without a file is
    place = {"textDocument": {"uri": uri}, "position": {"line": 1, "character": 3}}
    assert "Relu" in session.ask("textDocument/hover", place)["contents"]["value"]
    assert session.ask("textDocument/definition", place)[0]["uri"] == uri
    for command in ("distir.compare", "distir.simulate"):
        assert "error" not in session.answer(
            session.request("workspace/executeCommand", {"command": command, "arguments": [uri]})
        )
    session.tell("textDocument/didClose", {"textDocument": {"uri": uri}})


def test_folders_and_roots_of_no_file():
    for uri in HOSTILE_ADDRESSES if ALL else HOSTILE_ADDRESSES[::3]:
        options = {"hardware": "\0.toml", "bind": {"x": "\ud800"}}
        with Session(options=options) as session:
            folder = {"uri": uri, "name": "hostile"}
            session.tell("workspace/didChangeWorkspaceFolders", {"event": {"added": [folder], "removed": []}})
            session.open(URI, SOUND)
            assert session.ask("workspace/symbol", {"query": "main"})
    with Session() as session:
        parameters = {"processId": None, "rootUri": "file://[", "rootPath": "//", "capabilities": {}}
        error = session.answer(session.request("initialize", parameters))["error"]
        assert error["code"] == INVALID_REQUEST  # once is enough


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", PARSE_ERROR),
        (b"", PARSE_ERROR),
        (b"\xff\xfe{}", PARSE_ERROR),
        (b"[" * 100_000, PARSE_ERROR),
        (b"[]", INVALID_REQUEST),
        (b"null", INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": [], "method": "textDocument/hover"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": NaN, "method": "textDocument/hover"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": true, "method": "textDocument/hover"}', INVALID_REQUEST),
    ],
    ids=lambda value: repr(value[:50]) if isinstance(value, bytes) else str(value),
)
def test_what_is_no_message(session, body, code):
    assert answered(session, body) == code
    assert goes_on(session)


NO_NUMBER = '{"command": "distir.nextCall", "arguments": ["x", "y", "z"]}'
DEEP = '{"a":' * 500 + "0" + "}" * 500


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ('"method": 5', INVALID_REQUEST),
        ('"method": ["textDocument/hover"]', INVALID_REQUEST),
        ('"nothing": 1', INVALID_REQUEST),
        ('"method": "textDocument/hover", "params": 5', INVALID_PARAMS),
        ('"method": "textDocument/hover"', INVALID_PARAMS),
        ('"method": "inlayHint/resolve", "params": ' + DEEP, INVALID_PARAMS),
        ('"method": "textDocument/didClose", "params": {"textDocument": {"uri": "x"}}', INVALID_REQUEST),
        ('"method": "no/such/thing", "params": {}', METHOD_NOT_FOUND),
        ('"method": "distir/nothing", "params": {}', METHOD_NOT_FOUND),
        ('"method": "workspace/executeCommand", "params": {"command": "distir.nextCall"}', INVALID_PARAMS),
        ('"method": "workspace/executeCommand", "params": ' + NO_NUMBER, INVALID_PARAMS),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else str(value),
)
def test_requests_that_are_malformed(session, said, code):
    session.number += 1
    session.write(f'{{"jsonrpc": "2.0", "id": {session.number}, {said}}}'.encode())
    assert session.answer(session.number)["error"]["code"] == code
    assert goes_on(session)


@pytest.mark.parametrize(
    "data",
    [
        None,
        5,
        "x",
        [],
        [1, 2, 3],
        [[], {}, None],
        {"a": 1, "b": 2, "c": 3},
        [URI, 1, "type", "main", "0", 0],
        [URI, 1, "type", "main", -7, -7],
        [URI, "main", "nothing"],
        [URI, "main", [[]]],
        [URI, 1, "nothing", "main", 0, 0],
    ],
    ids=repr,
)
def test_what_a_client_gives_back_changed(session, data):
    place = span(1, 3, 1, 4)
    item = {"name": "@main", "kind": 12, "uri": URI, "range": place, "selectionRange": place, "data": data}
    for method, params in (
        ("inlayHint/resolve", {"position": place["start"], "label": "x", "data": data}),
        ("codeLens/resolve", {"range": place, "data": data}),
        ("codeAction/resolve", {"title": "x", "data": data}),
        ("completionItem/resolve", {"label": "x", "data": data}),
        ("callHierarchy/incomingCalls", {"item": item}),
        ("callHierarchy/outgoingCalls", {"item": item}),
    ):
        assert "error" not in session.answer(session.request(method, params)), method


@pytest.mark.parametrize("stated", [b"9" * 5000, b"99999999999", b"-5", b"x"])
def test_heads_that_state_no_length(session, stated):
    """What follows is skipped up to the next head, of which nothing else tells where it begins."""
    session.process.stdin.write(b"Content-Length: " + stated + b'\r\n\r\n{"jsonrpc": "2.0"}')
    session.process.stdin.flush()
    assert session.wait(lambda m: m.get("id", 0) is None)["error"]["code"] == PARSE_ERROR
    assert goes_on(session)


def test_before_the_beginning_and_after_the_end():
    with Session() as session:
        session.ask("shutdown", None)
        refused = session.answer(session.request("textDocument/hover", {}))
        assert refused["error"]["code"] == INVALID_REQUEST
        session.tell("exit", None)
        assert session.process.wait() == 0


class Uninitialized(Session):
    """A session whose client does not begin as it should."""

    def ask(self, method, params):
        if method == "initialize":
            self.early = self.answer(self.request("textDocument/hover", {}))
            self.tell("textDocument/didOpen", {"textDocument": {}})
            params = {
                **params,
                "rootUri": "file://[",
                "rootPath": "//",
                "workspaceFolders": [{"uri": "file://[", "name": ""}],
            }
        return super().ask(method, params)


def test_what_comes_before_initialize():
    with Uninitialized() as session:
        assert session.early["error"]["code"] == NOT_INITIALIZED
        session.open(URI, SOUND)
        assert goes_on(session)


def test_texts_with_half_a_character(session):
    uri = "file:///half.dir"
    session.open(uri, json.loads(r'"func @main(%x) {\n  // \ud83d\n  %y = Relu(%x) \udc00\n}\n"'))
    document = {"textDocument": {"uri": uri}}
    for method in ("documentSymbol", "foldingRange", "semanticTokens/full", "codeLens", "documentLink"):
        assert "error" not in session.answer(session.request(f"textDocument/{method}", document)), method
    options = {**document, "options": {"tabSize": 2, "insertSpaces": True}}
    assert "error" not in session.answer(session.request("textDocument/formatting", options))
