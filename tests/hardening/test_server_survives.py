"""A server that is sent edits, requests and nonsense answers each request and is there at the end.

250 messages by default; `DISTIR_TEST_MESSAGES` for more.
"""

import os
import random
import sys
from pathlib import Path

from fuzz_seeds import seeds
from mutations import mutator

sys.path.insert(0, str(Path(__file__).parents[1] / "lsp"))
from server_session import Session

MESSAGES = int(os.environ.get("DISTIR_TEST_MESSAGES", "250"))
URI = "file:///program.dir"
OTHERS = ["file:///nowhere.dir", "untitled:Untitled-1", "not a uri", "", "file:///etc/passwd"]

AT_A_PLACE = [
    "hover",
    "definition",
    "typeDefinition",
    "references",
    "documentHighlight",
    "completion",
    "signatureHelp",
    "prepareRename",
    "prepareCallHierarchy",
]
OF_A_RANGE = ["codeAction", "inlayHint", "semanticTokens/range", "rangeFormatting"]
OF_A_TEXT = ["documentSymbol", "foldingRange", "documentLink", "semanticTokens/full", "codeLens", "formatting"]
OUR_OWN = ["status", "timeline", "memory", "rankProgram", "compare", "hardware", "transform", "calls"]

INTERNAL_ERROR, INVALID_REQUEST_TO, PARSE_ERROR = -32603, -32600, -32700


def place(dice):
    largest = dice.choice((3, 30, 300, 2**31 - 1))
    return {"line": dice.randint(0, largest), "character": dice.randint(0, largest)}


def request(dice):
    """A method, and parameters of the right kinds."""
    uri = URI if dice.random() < 0.9 else dice.choice(OTHERS)
    document = {"textDocument": {"uri": uri}}
    match dice.randrange(6):
        case 0 | 1:
            method = dice.choice(AT_A_PLACE)
            context = {"context": {"includeDeclaration": True}} if method == "references" else {}
            return f"textDocument/{method}", {**document, "position": place(dice), **context}
        case 2:
            options = {"options": {"tabSize": dice.choice((0, 2, 10**9)), "insertSpaces": True}}
            ends = {"start": place(dice), "end": place(dice)}
            more = {"context": {"diagnostics": []}} | options
            return f"textDocument/{dice.choice(OF_A_RANGE)}", {**document, "range": ends, **more}
        case 3:
            options = {"options": {"tabSize": 2, "insertSpaces": True}}
            return f"textDocument/{dice.choice(OF_A_TEXT)}", {**document, **options}
        case 4:
            extra = {"uri": uri, "rank": dice.choice((0, 1, -1, 10**18)), "other": dice.choice(OTHERS), "base": "x"}
            extra |= {"first": -1, "most": 10**18, "steps": ["grad", "nonsense"], "function": "main", "name": "%"}
            return f"distir/{dice.choice(OUR_OWN)}", dice.choice((extra, {"textDocument": {"uri": uri}}, {"uri": uri}))
        case _:
            return "workspace/symbol", {"query": dice.choice(("", "m", "😀", "%" * 1000))}


HOSTILE = [None, True, -1, 1.5, 2**31, 10**30, float("inf"), float("nan"), "", "x", "\0", "\ud800", "file://[", [], {}]
HOSTILE += [[[]], {"uri": "\0"}, "file:///\0", "%" * 500, list(range(50)), 10**400]


def spoiled(dice, value):
    """Parameters of which one is what it should not be, or is not there."""
    if not isinstance(value, (dict, list)) or not value or dice.random() < 0.2:
        return dice.choice(HOSTILE)
    copy = dict(value) if isinstance(value, dict) else list(value)
    key = dice.choice(list(copy)) if isinstance(copy, dict) else dice.randrange(len(copy))
    if isinstance(copy, dict) and dice.random() < 0.1:
        del copy[key]
    else:
        copy[key] = spoiled(dice, copy[key])
    return copy


def given_back(dice):
    """A request about something that the server gave before, as far as the client remembers it."""
    ends = {"start": place(dice), "end": place(dice)}
    uri = URI if dice.random() < 0.9 else dice.choice(OTHERS)
    item = {"name": "@main", "kind": 12, "uri": uri, "range": ends, "selectionRange": ends, "data": "main"}
    return dice.choice(
        [
            ("inlayHint/resolve", {"position": place(dice), "label": "x", "data": [uri, 1, "type", "main", 0, 0]}),
            ("codeLens/resolve", {"range": ends, "data": [uri, "main", "cost"]}),
            ("codeAction/resolve", {"title": "x", "data": [uri, "main", ["grad"]]}),
            ("completionItem/resolve", {"label": "x", "data": "Relu"}),
            ("callHierarchy/incomingCalls", {"item": item}),
            ("callHierarchy/outgoingCalls", {"item": item}),
            ("textDocument/selectionRange", {"textDocument": {"uri": uri}, "positions": [place(dice), place(dice)]}),
            ("textDocument/rename", {"textDocument": {"uri": uri}, "position": place(dice), "newName": "fresh"}),
            ("textDocument/semanticTokens/full/delta", {"textDocument": {"uri": uri}, "previousResultId": "1"}),
            ("textDocument/diagnostic", {"textDocument": {"uri": uri}, "previousResultId": "1"}),
            ("textDocument/onTypeFormatting", typed(dice, uri)),
            ("workspace/executeCommand", {"command": "distir.nextCall", "arguments": [uri, "main", 1]}),
            ("workspace/executeCommand", {"command": "distir.showCalls", "arguments": [uri, "main"]}),
            ("workspace/executeCommand", {"command": "distir.compare", "arguments": [uri]}),
        ]
    )


def typed(dice, uri):
    options = {"tabSize": 2, "insertSpaces": True}
    return {
        "textDocument": {"uri": uri},
        "position": place(dice),
        "ch": dice.choice(("\n", "}", "x")),
        "options": options,
    }


NOTIFIED = [
    (
        "textDocument/didOpen",
        {"textDocument": {"uri": "file:///b.dir", "languageId": "", "version": 1, "text": "func"}},
    ),
    ("textDocument/didClose", {"textDocument": {"uri": "file:///b.dir"}}),
    ("textDocument/didSave", {"textDocument": {"uri": URI}}),
    (
        "textDocument/didChange",
        {"textDocument": {"uri": "file:///b.dir", "version": 2}, "contentChanges": [{"text": "x"}]},
    ),
    (
        "workspace/didChangeConfiguration",
        {"settings": {"distir": {"hardware": "h100", "bind": {"x": 1}}}},
    ),
    (
        "workspace/didChangeWorkspaceFolders",
        {"event": {"added": [{"uri": "file:///nowhere", "name": ""}], "removed": []}},
    ),
    ("$/cancelRequest", {"id": 5}),
    ("$/setTrace", {"value": "verbose"}),
    ("window/workDoneProgress/cancel", {"token": "x"}),
]


def nonsense(dice):
    """A message that is none, or none that makes sense."""
    bodies = [
        b"{",
        b"[]",
        b"null",
        b'{"jsonrpc": "2.0"}',
        b'{"jsonrpc": "2.0", "method": "textDocument/hover", "params": null}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"textDocument": 3}}',
        b'{"jsonrpc": "2.0", "method": "nobody/knows", "params": {}}',
        b'{"jsonrpc": "2.0", "id": 999999999, "result": {}}',
        b"\xff\xfe" + dice.randbytes(20),
    ]
    return dice.choice(bodies)


def test_every_request_is_answered_whatever_is_sent():
    dice = random.Random(0)
    texts = [data.decode(errors="replace") for data in seeds("text")]
    mutate = mutator(seeds("text"))
    with Session() as session:
        session.open(URI, texts[0])
        asked = {}
        for _ in range(MESSAGES):
            chosen = dice.random()
            if chosen < 0.2:
                session.change(URI, mutate(dice.choice(seeds("text"))).decode(errors="replace"))
            elif chosen < 0.3:
                a, b = place(dice), place(dice)
                session.change(URI, (a["line"], a["character"], b["line"], b["character"], dice.choice(texts)[:40]))
            elif chosen < 0.35:
                session.write(nonsense(dice))
            elif chosen < 0.4:
                method, params = dice.choice(NOTIFIED)
                session.tell(method, spoiled(dice, params) if dice.random() < 0.8 else params)
            else:
                method, params = request(dice) if dice.random() < 0.7 else given_back(dice)
                if dice.random() < 0.4:
                    params = spoiled(dice, params)
                asked[session.request(method, params)] = method, params
        for number, what in asked.items():
            answer = session.answer(number)
            assert "error" not in answer or answer["error"]["code"] != INTERNAL_ERROR, (what, answer)
        session.change(URI, "func @main(%x) {\n  return %x\n}\n")
        symbols = session.ask("textDocument/documentSymbol", {"textDocument": {"uri": URI}})
        assert [symbol["name"] for symbol in symbols] == ["@main"]
