"""Whatever a request does, the server goes on answering, and it ends when its client is gone.

Requests that never end are made by hand: in the place of a query stands a loop. Limits are short, so that tests are.
"""

import json
import socket
import subprocess
import sys
import time

import pytest
from server_session import ENVIRONMENT, PATIENCE_S, Session

URI, OTHER = "file:///looping.dir", "file:///other.dir"
SOUND = "func @main(%x: Tensor[Float32, (2, 3), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n"
PLACE = {"line": 1, "character": 3}

LOOPING = """
import re, sys, threading, time
from distir_lsp import server, watch
watch.STUCK_CPU_S = 1.0
watch.ASKED_EVERY_S, watch.NAP_S, watch.LEFT_S = 0.05, 0.02, {left}
server.LONGEST_TURN_S = {patience}

def loop(*_):
    while True:
        pass

def stubborn(*_):
    while True:
        try:
            loop()
        except Exception:
            pass

def stuck(*_):
    re.match("(a+)+b", 60 * "a")  # in which no other thread gets its turn

def asleep(*_):
    time.sleep(1e6)

def aside(*_):
    threading.Thread(target=loop).start()
    return []

def looping_in(uri):
    from distir.ide import document
    simulate = document.Document.simulate
    def looping(self, *args):
        return loop() if uri in self.program.source.path else simulate(self, *args)
    document.Document.simulate = looping

def set_up():
    {set_up}

set_up()
from distir_lsp.__main__ import main
main([])
"""
NEVER = 1e6


def looping(how, patience=NEVER, left=0.5):
    """A server whose type definitions never come."""
    set_up = f"from distir.ide import navigation; navigation.type_definition = {how}"
    return ("-c", LOOPING.format(patience=patience, left=left, set_up=set_up))


def asked(uri):
    return {"textDocument": {"uri": uri}, "position": PLACE}


@pytest.mark.parametrize("how", ["loop", "asleep"])
def test_a_request_that_never_ends_is_given_up_and_others_are_answered(how):
    with Session(command=looping(how, patience=0.5, left=NEVER)) as session:
        session.open(URI, SOUND)
        session.diagnostics(URI)
        never = [session.request("textDocument/typeDefinition", asked(URI)) for _ in range(2)]
        other = session.request("textDocument/hover", asked(URI))
        for number in never:
            error = session.answer(number)["error"]
            assert error == {"code": -32803, "message": "this took too long and was given up"}
        assert session.answer(other)["result"]["contents"]["value"]
        session.change(URI, SOUND.replace("Relu", "Relo"))
        assert session.diagnostics(URI)


def test_a_text_that_cannot_be_looked_at_in_time_is_left_alone_until_it_is_edited():
    command = ("-c", LOOPING.format(patience=0.5, left=NEVER, set_up="looping_in('looping')"))
    with Session(command=command) as session:
        session.open(OTHER, SOUND)
        session.open(URI, SOUND)
        said = session.wait(lambda m: m.get("method") == "window/showMessage")
        assert "took too long" in said["params"]["message"]
        assert session.ask("textDocument/hover", asked(URI)) is None
        assert session.ask("textDocument/hover", asked(OTHER))
        session.change(URI, SOUND.replace("Relu", "Relo"))  # which is not simulated
        assert session.diagnostics(URI, bool)


@pytest.mark.parametrize("how", ["loop", "stubborn", "stuck", "asleep", "aside"])
def test_a_server_whose_client_is_gone_ends_though_a_request_does_not(how):
    with Session(command=looping(how)) as session:
        session.open(URI, SOUND)
        session.diagnostics(URI)
        session.request("textDocument/typeDefinition", asked(URI))
        time.sleep(0.2)
        session.process.stdin.close()
        assert session.process.wait(timeout=PATIENCE_S) is not None
        session.process.stdin = open("/dev/null", "wb")  # noqa: SIM115 - for the session to close


def test_so_does_one_that_was_asked_to_end():
    with Session(command=looping("aside")) as session:
        session.open(URI, SOUND)
        session.ask("textDocument/typeDefinition", asked(URI))
        session.ask("shutdown", None)
        session.tell("exit", None)
        session.process.wait(timeout=PATIENCE_S)


def test_so_does_one_on_a_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = looping("loop")[1].replace("main([])", f"main(['--tcp', '{port}'])")
    server = subprocess.Popen([sys.executable, "-c", program], env=ENVIRONMENT)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                client = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        document = {"uri": URI, "languageId": "distir", "version": 1, "text": SOUND}
        with client:
            for message in (
                {"id": 1, "method": "initialize", "params": {"capabilities": {}}},
                {"method": "textDocument/didOpen", "params": {"textDocument": document}},
                {"id": 2, "method": "textDocument/typeDefinition", "params": asked(URI)},
            ):
                body = json.dumps({"jsonrpc": "2.0", **message}).encode()
                client.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            assert client.recv(16).startswith(b"Content-Length: ")
            time.sleep(0.2)
        assert server.wait(timeout=PATIENCE_S) is not None
    finally:
        server.kill()
        server.wait()
