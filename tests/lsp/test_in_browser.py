"""The server as a browser's worker runs it: messages by function calls, one thread, numpy only where it is fetched."""

import json
import subprocess
import sys

SESSION = """
import sys
sys.modules["numpy"] = sys.modules["ml_dtypes"] = None  # a browser has none

import asyncio, json
from distir_lsp.in_browser import rehearse, serve

URI, TEXT = "file:///playground/p.dir", {text!r}

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
    say("initialize", {{"capabilities": {{}}, "processId": None, "rootUri": None}}, id=1)
    await until(lambda m: m.get("id") == 1)
    say("initialized", {{}})
    say("textDocument/didOpen", {{"textDocument": {{"uri": URI, "languageId": "distir", "version": 1, "text": TEXT}}}})
    await until(lambda m: m.get("method") in ("textDocument/publishDiagnostics", "window/showMessage"))
    say("distir/status", {{"textDocument": {{"uri": URI}}}}, id=2)
    found = await until(lambda m: m.get("id") == 2)
    messages = [m["params"]["message"] for m in heard if m.get("method") == "window/showMessage"]
    say("distir/run", {{"textDocument": {{"uri": URI}}}}, id=3)
    ran = (await until(lambda m: m.get("id") == 3))["result"]
    print(json.dumps([found.get("result", {{}}).get("latency_s"), messages, asked, ran]))

missing = asyncio.run(rehearse([TEXT.replace("@f", "@g")]))
print(json.dumps(missing))
asyncio.run(main())
"""

PLAIN = "func @f(%x: Tensor[Float32, (8, 8), 1]) {\n  %y = MatMul(%x, %x)\n  return %y\n}\n"
HOST = "func @f(%x: Tensor[Float32, (8, 8), 1]) {\n  %s = Shape(%x)\n  %n = Gather(%s, [0])\n  return %x\n}\n"


def session(text, fetched=False):
    done = subprocess.run(
        [sys.executable, "-c", SESSION.format(text=text, fetched=fetched)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("[")]


def test_a_session_without_threads_and_without_numpy():
    missing, answer = map(json.loads, session(PLAIN))
    latency, messages, asked, ran = answer
    assert latency > 0
    assert messages == []
    assert asked == ["numpy"], "only a run needs it"
    assert "needs the Python package `numpy`" in ran["error"]
    assert not [name for name in missing if name.startswith(("distir.ide", "distir_lsp"))], "all of the editor is there"


def test_a_program_that_needs_numpy_is_said_to():
    _, answer = session(HOST)
    assert "needs the Python package `numpy`" in answer


def test_what_can_be_fetched_is_fetched_when_it_is_needed():
    _, answer = session(HOST, fetched=True)
    latency, messages, asked, ran = json.loads(answer)
    assert (latency is not None, messages, asked) == (True, [], ["numpy"])
    assert [(output["name"], output["shape"]) for output in ran["outputs"]] == [("x", [8, 4 * 2])]
