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
            else:
                method, params = request(dice)
                asked[session.request(method, params)] = method
        for number, method in asked.items():
            answer = session.answer(number)
            assert "error" not in answer or answer["error"]["code"] != INTERNAL_ERROR, (method, answer)
        session.change(URI, "func @main(%x) {\n  return %x\n}\n")
        symbols = session.ask("textDocument/documentSymbol", {"textDocument": {"uri": URI}})
        assert [symbol["name"] for symbol in symbols] == ["@main"]
