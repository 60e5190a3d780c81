"""The server as a browser's worker runs it: messages by function calls, one thread, numpy only where it is fetched."""

import functools
import json
import subprocess
import sys

SESSION = """
import sys
sys.modules["numpy"] = sys.modules["ml_dtypes"] = None  # a browser has none

import asyncio, builtins, json
import distir_lsp.server
from distir_lsp.in_browser import rehearse, serve

URI, TEXT, START = "file:///playground/p.dir", {text!r}, {{"line": 1, "character": 0}}

async def main():
    heard, come = [], asyncio.Event()
    def send(text):
        heard.append(json.loads(text))
        come.set()
    asked = []
    async def fetch(name):
        asked.append(name)
        return {fetched} and sys.modules.pop(name, None) is None
    take = serve(send, fetch)
    def say(method, params, **id):
        take(json.dumps({{"jsonrpc": "2.0", "method": method, "params": params, **id}}))
    async def until(wanted):
        while not (found := [m for m in heard if wanted(m)]):
            come.clear()
            await asyncio.wait_for(come.wait(), 60)
        return found[-1]
    hover = {{"dynamicRegistration": True, "contentFormat": ["markdown"]}}
    capabilities = {{"workspace": {{"workspaceFolders": True}}, "textDocument": {{"hover": hover}}}}
    say("initialize", {{"capabilities": capabilities, "processId": None, "rootUri": None}}, id=1)
    await until(lambda m: m.get("id") == 1)
    say("initialized", {{}})
    say("textDocument/didOpen", {{"textDocument": {{"uri": URI, "languageId": "distir", "version": 1, "text": TEXT}}}})
    early = ("inlayHint", "semanticTokens/full", "codeLens", "documentSymbol")
    for number, kind in enumerate(early, 100):
        about = {{"textDocument": {{"uri": URI}}, "range": {{"start": START, "end": START}}}}
        say(f"textDocument/{{kind}}", about, id=number)
    await until(lambda m: m.get("method") in ("textDocument/publishDiagnostics", "window/showMessage"))
    answers = [await until(lambda m: m.get("id") == 100 + number) for number in range(len(early))]
    errors = [m["error"]["code"] for m in answers if "error" in m]
    logged = [m for m in heard if m.get("method") == "window/logMessage"]
    say("distir/status", {{"textDocument": {{"uri": URI}}}}, id=2)
    found = await until(lambda m: m.get("id") == 2)
    say("$/cancelRequest", {{"id": 2}})
    messages = [m["params"]["message"] for m in heard if m.get("method") == "window/showMessage"]
    say("distir/run", {{"textDocument": {{"uri": URI}}}}, id=3)
    ran = (await until(lambda m: m.get("id") == 3))["result"]
    async def step(number, command, **arguments):
        message = {{"seq": number, "type": "request", "command": command, "arguments": arguments}}
        say("distir/stepping", {{"session": "s", "message": message}}, id=number)
        return (await until(lambda m: m.get("id") == number))["result"]["messages"]
    stepped = await step(10, "initialize", linesStartAt1=True)
    stepped += await step(11, "launch", program=URI)
    stepped += await step(12, "setBreakpoints", source={{"path": URI}}, breakpoints=[{{"line": 2}}])
    stepped += await step(13, "configurationDone")
    stepped += await step(14, "stackTrace", threadId=1)
    stepped += await step(15, "disconnect")
    stepped += await step(16, "launch", program="vscode-vfs://other/q.dir")
    print(json.dumps([found.get("result", {{}}).get("latency_s"), messages, asked, ran, stepped]))
    print(json.dumps([errors, logged]))

missing = asyncio.run(rehearse([TEXT.replace("@f", "@g")]))
print(json.dumps(missing))
distir_lsp.server.DistirServer = None  # a server is prepared
compiled, compile = [], builtins.compile
builtins.compile = lambda source, name, *rest, **more: (compiled.append(name), compile(source, name, *rest, **more))[1]
asyncio.run(main())
print(json.dumps([name for name in compiled if "cattrs" in str(name)]))
"""

PLAIN = "func @f(%x: Tensor[Float32, (8, 8), 1]) {\n  %y = MatMul(%x, %x)\n  return %y\n}\n"
HOST = "func @f(%x: Tensor[Float32, (8, 8), 1]) {\n  %s = Shape(%x)\n  %n = Gather(%s, [0])\n  return %x\n}\n"


@functools.cache
def session(text, fetched=False):
    done = subprocess.run(
        [sys.executable, "-c", SESSION.format(text=text, fetched=fetched)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ancel" not in done.stderr, "what is cancelled after its answer is nothing to log"
    return [line for line in done.stdout.splitlines() if line.startswith("[")]


def test_a_session_without_threads_and_without_numpy():
    missing, answer, *_ = map(json.loads, session(PLAIN))
    latency, messages, asked, ran, _ = answer
    assert latency > 0
    assert messages == []
    assert asked == ["numpy"], "only a run needs it"
    assert "needs the Python package `numpy`" in ran["error"]
    assert not [name for name in missing if name.startswith(("distir.ide", "distir_lsp"))], "all of the editor is there"


def test_after_the_rehearsal_messages_make_nothing_new():
    *_, generated = map(json.loads, session(PLAIN))
    assert generated == [], "functions that read and write messages are made by the rehearsal"


def test_a_debug_session_takes_turns_with_the_editor():
    _, (*_, stepped), *_ = map(json.loads, session(PLAIN))
    by_name = {
        message.get("event") or message["command"]: message for message in stepped if message.get("success", True)
    }
    assert by_name["setBreakpoints"]["body"]["breakpoints"][0]["verified"]
    assert by_name["stopped"]["body"]["reason"] == "entry"
    frame = by_name["stackTrace"]["body"]["stackFrames"][0]
    assert (frame["line"], frame["source"]["path"]) == (2, "file:///playground/p.dir")
    assert by_name["disconnect"]["success"]
    assert stepped[-1]["message"] == "`vscode-vfs://other/q.dir` is not open: open the program first"


def test_a_program_that_needs_numpy_is_said_to():
    _, answer, early, _ = session(HOST)
    assert "needs the Python package `numpy`" in answer
    errors, logged = json.loads(early)
    assert set(errors) == {-32801}, "requests that come before that is known are to be asked again, and are no bugs"
    assert logged == []


def test_what_can_be_fetched_is_fetched_when_it_is_needed():
    _, answer, *_ = session(HOST, fetched=True)
    latency, messages, asked, ran, _ = json.loads(answer)
    assert (latency is not None, messages, asked) == (True, [], ["numpy"])
    assert [(output["name"], output["shape"]) for output in ran["outputs"]] == [("x", [8, 4 * 2])]
