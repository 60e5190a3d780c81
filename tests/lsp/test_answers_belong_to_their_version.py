"""An answer belongs to the version of the text that was there when the request came, or is `ContentModified`.

A request and an edit are written at once, so that the server has both before it does anything.
"""

import json
import time
from pathlib import Path

import pytest
from server_session import PULLED, PUSHED, Session

CONTENT_MODIFIED = -32801
URI = "file:///edited.dir"
TEXT = (Path(__file__).parents[2] / "examples" / "mlp_pipeline.dir").read_text()
LINE = next(n for n, line in enumerate(TEXT.splitlines()) if "MatMul(" in line or "Gemm(" in line)
COLUMN = TEXT.splitlines()[LINE].index("%") + 1

DOCUMENT = {"textDocument": {"uri": URI}}
PLACE = {**DOCUMENT, "position": {"line": LINE, "character": COLUMN}}
RANGE = {"start": {"line": 0, "character": 0}, "end": {"line": LINE, "character": COLUMN}}
OPTIONS = {"options": {"tabSize": 2, "insertSpaces": True}}
REQUESTS = {
    "textDocument/semanticTokens/full": DOCUMENT,
    "textDocument/semanticTokens/full/delta": {**DOCUMENT, "previousResultId": "none"},
    "textDocument/semanticTokens/range": {**DOCUMENT, "range": RANGE},
    "textDocument/foldingRange": DOCUMENT,
    "textDocument/documentSymbol": DOCUMENT,
    "textDocument/inlayHint": {**DOCUMENT, "range": RANGE},
    "textDocument/codeAction": {**DOCUMENT, "range": RANGE, "context": {"diagnostics": []}},
    "textDocument/codeLens": DOCUMENT,
    "textDocument/documentLink": DOCUMENT,
    "textDocument/hover": PLACE,
    "textDocument/completion": PLACE,
    "textDocument/signatureHelp": PLACE,
    "textDocument/definition": PLACE,
    "textDocument/references": {**PLACE, "context": {"includeDeclaration": True}},
    "textDocument/documentHighlight": PLACE,
    "textDocument/prepareRename": PLACE,
    "textDocument/rename": {**PLACE, "newName": "%renamed"},
    "textDocument/prepareCallHierarchy": PLACE,
    "textDocument/selectionRange": {**DOCUMENT, "positions": [PLACE["position"]]},
    "textDocument/formatting": {**DOCUMENT, **OPTIONS},
    "textDocument/rangeFormatting": {**DOCUMENT, **OPTIONS, "range": RANGE},
    "textDocument/diagnostic": DOCUMENT,
    "workspace/symbol": {"query": ""},
    "distir/goTo": {**PLACE, "to": "nextCritical"},
    "distir/calls": {**DOCUMENT, "path": []},
}
VERSIONED = {
    "distir/status": DOCUMENT,
    "distir/timeline": DOCUMENT,
    "distir/memory": DOCUMENT,
    "distir/lineTimes": DOCUMENT,
    "distir/rankProgram": {**DOCUMENT, "rank": 1},
    "distir/run": DOCUMENT,
    "distir/transform": {**DOCUMENT, "steps": ["dce"]},
    "distir/hardware": {**DOCUMENT, "action": "whatIf", "changes": {"host memory capacity": "1TB"}},
}
EDITS = {
    "two lines before all": ((0, 0, 0, 0, "// first\n// second\n"),),
    "no lines before that": ((0, 0, LINE, 0, ""),),
    "a word within": ((LINE, COLUMN, LINE, COLUMN, "x"), (LINE, 0, LINE, 0, "\n")),
    "all": ("",),
}


@pytest.fixture(scope="module", params=[PUSHED, PULLED], ids=["pushed", "pulled"])
def session(request):
    with Session(request.param) as session:
        session.open(URI, TEXT)
        yield session


def restored(session):
    if session.versions[URI] > 1:
        session.change(URI, TEXT)
    wanted = session.versions[URI]
    session.until(URI, lambda status: status["state"] == "simulated" and status["version"] == wanted)


def asked_with_an_edit(session, method, params, edits, later_s=0.0):
    """The whole answer to a request that comes together with an edit, or shortly before it."""
    if later_s:
        number = session.request(method, params)
        time.sleep(later_s)
        session.change(URI, *edits)
        return session.answer(number)
    written, session.write = [], lambda body: written.append(body)
    try:
        number = session.request(method, params)
        session.change(URI, *edits)
    finally:
        del session.write
    together = b"".join(b"Content-Length: %d\r\n\r\n" % len(body) + body for body in written)
    session.process.stdin.write(together)
    session.process.stdin.flush()
    return session.answer(number)


def plain(result):
    """A result without the numbers that count answers and versions, and without what only simulations say."""
    dropped = {"resultId", "version", "stale"}
    text = json.dumps(result, sort_keys=True)
    found = json.loads(text, object_hook=lambda table: {k: v for k, v in table.items() if k not in dropped})
    if isinstance(found, list):  # hints carry their version
        for item in found:
            if isinstance(item, dict):
                item.pop("data", None)
    return found


def ranges(answer):
    """All places in the text that an answer has, in order."""
    if isinstance(answer, dict):
        own = [value for key, value in answer.items() if key == "range" or key.endswith("_range")]
        return own + [place for value in answer.values() for place in ranges(value)]
    return [place for item in answer for place in ranges(item)] if isinstance(answer, list) else []


@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
def test_an_answer_is_of_the_text_that_was_asked_about(session, edits):
    late = []
    for method, params in REQUESTS.items():
        restored(session)
        before = session.answer(session.request(method, params))
        answer = asked_with_an_edit(session, method, params, edits)
        if answer.get("error", {}).get("code") == CONTENT_MODIFIED:
            late.append(method)
        else:
            assert plain(answer.get("result")) == plain(before.get("result")), method
    assert "textDocument/foldingRange" in late  # the two did come at once


@pytest.mark.parametrize("later_s", [0, 0.002, 0.02])
@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
def test_our_own_answers_say_of_which_version_they_are(session, edits, later_s):
    for method, params in VERSIONED.items():
        restored(session)
        asked = session.versions[URI]
        before = session.ask(method, params)
        answer = asked_with_an_edit(session, method, params, edits, later_s)["result"]
        if "error" in answer:
            continue
        assert answer["version"] in (asked, session.versions[URI]), method
        same = before if answer["version"] == asked else session.ask(method, params)
        if same["version"] == answer["version"]:
            assert ranges(answer) == ranges(same), method
