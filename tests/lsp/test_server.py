"""The server as a whole: documents, diagnostics, settings, and what must not end it."""

import json
import socket
import subprocess
import sys
import time

import pytest
from server_session import ENVIRONMENT, PATIENCE_S, PULLED, PUSHED, Session, codes, span
from thorough import also

SOUND = "func @main(%x: Tensor[Float32, (8, 8), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n"
WRONG = SOUND.replace("Relu(%x)", "MatMul(%x, %nope)")
SIZED = "func @main(%x: Tensor[Float32, (B, 8), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n"
URI = "file:///nowhere/a.dir"
COMMAND_LINE = ("-c", "from distir.cli import main; raise SystemExit(main())")


def unused(count):
    """A program whose simulation takes a while, for its size."""
    lines = "".join(f"  %a{i} = Relu(%a{i - 1})\n" for i in range(1, count))
    return f"func @main(%a0: Tensor[Float32, (8, 8), 1]) {{\n{lines}  return %a{count - 1}\n}}\n"


@pytest.fixture
def session(tmp_path):
    with Session(cache=tmp_path / "cache") as opened:
        yield opened


def test_what_check_says_is_sent(session, tmp_path):
    session.open(URI, WRONG)
    (found,) = session.diagnostics(URI)
    assert (found["code"], found["severity"], found["source"]) == ("DIR201", 1, "distir")
    assert found["range"] == span(1, 18, 1, 23)
    link = found["codeDescription"]["href"]
    assert link == (tmp_path / "cache" / "distir").joinpath("0.1.0", "DIR201.md").as_uri()
    assert next((tmp_path / "cache").rglob("DIR201.md")).read_text().startswith("# DIR201")
    path = tmp_path / "a.dir"
    path.write_text(WRONG)
    done = subprocess.run(
        [sys.executable, *COMMAND_LINE, "check", str(path), "--format", "json"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    (said,) = json.loads(done.stdout)["diagnostics"]
    assert found["message"].split("\n")[0] == said["message"]
    assert (said["code"], said["line"], said["column"]) == ("DIR201", 2, 19)


def test_related_places_and_faded_text(session):
    session.open(URI, SOUND.replace("  return", "  %y = Exp(%x)\n  %z = Exp(%x)\n  return"))
    twice, faded = session.diagnostics(URI)
    (related,) = twice["relatedInformation"]
    assert related["location"] == {"uri": URI, "range": span(1, 2, 1, 4)}
    assert (faded["code"], faded["tags"]) == ("DIR901", [1])


def test_without_support_notes_stand_in_the_message():
    with Session(capabilities={}) as session:
        session.open(URI, SOUND.replace("  return", "  %y = Exp(%x)\n  return"))
        (twice,) = session.diagnostics(URI)
        assert "note: it is defined here" in twice["message"]
        assert not {"relatedInformation", "codeDescription", "tags"} & twice.keys()


def test_several_edits_in_one_notification_follow_each_other(session):
    session.open(URI, SOUND)
    assert session.diagnostics(URI) == []
    session.change(URI, (0, 0, 0, 0, "// one\n"), (2, 7, 2, 11, "Nope"), (0, 0, 1, 0, ""))
    (found,) = session.diagnostics(URI)
    assert found["range"] == span(1, 7, 1, 11)
    session.change(URI, WRONG, (1, 7, 1, 24, "Relu(%x)"))
    assert session.diagnostics(URI) == []
    session.change(URI, SOUND)
    assert session.diagnostics(URI) == []


@pytest.mark.parametrize(
    ("encodings", "columns"), [(["utf-16"], 2), (["utf-8"], 4), (["utf-32", "utf-16"], 1), (None, 2)]
)
def test_columns_count_what_the_client_counts(encodings, columns):
    general = {"general": {"positionEncodings": encodings}} if encodings else {}
    with Session(capabilities={**PUSHED, **general}) as session:
        assert session.capabilities["positionEncoding"] == (encodings or ["utf-16"])[0]
        session.open(URI, SOUND.replace("  %y", "/*😀*/%y"))
        assert session.diagnostics(URI) == []
        start = len("/**/%y = ") + columns
        session.change(URI, (1, start, 1, start + 4, "Nope"))
        (found,) = session.diagnostics(URI)
        assert found["range"] == span(1, start, 1, start + 4)


def test_a_client_that_asks_is_sent_nothing(tmp_path):
    with Session(capabilities=PULLED) as session:
        assert session.capabilities["diagnosticProvider"]["identifier"] == "distir"
        session.open(URI, WRONG)
        asked = {"textDocument": {"uri": URI}}
        first = session.ask("textDocument/diagnostic", asked)
        assert (first["kind"], codes(first["items"])) == ("full", ["DIR201"])
        again = session.ask("textDocument/diagnostic", {**asked, "previousResultId": first["resultId"]})
        assert again["kind"] == "unchanged"
        session.change(URI, SOUND)
        assert session.ask("textDocument/diagnostic", {**asked, "previousResultId": first["resultId"]})["items"] == []
        session.wait(lambda m: m.get("method") == "workspace/diagnostic/refresh")
        assert not [m for m in session.kept if m.get("method") == "textDocument/publishDiagnostics"]


def test_a_client_without_refresh_is_sent_them():
    with Session(capabilities={"textDocument": {"diagnostic": {}}}) as session:
        assert "diagnosticProvider" not in session.capabilities
        session.open(URI, WRONG)
        assert codes(session.diagnostics(URI)) == ["DIR201"]


def test_two_files_at_once_and_closing_one(session):
    other = "file:///nowhere/b.dir"
    session.open(URI, WRONG)
    session.open(other, SOUND)
    assert codes(session.diagnostics(URI)) == ["DIR201"]
    assert session.diagnostics(other) == []
    session.tell("textDocument/didClose", {"textDocument": {"uri": URI}})
    assert session.diagnostics(URI) == []
    session.change(other, WRONG)
    assert codes(session.diagnostics(other)) == ["DIR201"]


def test_all_independent_errors_and_features_beside_them(session):
    text = (
        "func @main(%x: Tensor[Float32, (8, 8), 1]) {\n  %a = Relu(%x\n  %b = Exp(%x)\n  %c = = Exp(%b)\n"
        "  %d = Tanh(%b)\n  %e = Relu[(%d)\n  return %d\n}\n"
    )
    session.open(URI, text)
    found = session.diagnostics(URI)
    assert [d["range"]["start"]["line"] for d in found if d["severity"] == 1] == [1, 3, 5]
    said = session.ask("textDocument/hover", {"textDocument": {"uri": URI}, "position": {"line": 4, "character": 3}})
    assert "Float32" in json.dumps(said)


def test_settings_come_from_the_file_and_change_without_a_restart(session, tmp_path):
    uri = (tmp_path / "a.dir").as_uri()
    session.open(uri, SIZED)
    assert [(d["code"], d["severity"]) for d in session.diagnostics(uri)] == [("DIR508", 3)]
    settings = tmp_path / "distir.toml"
    settings.write_text('[bind]\nB = 64\n[budget]\nmax_latency = "1ns"\n')
    session.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": settings.as_uri(), "type": 1}]})
    assert codes(session.diagnostics(uri)) == ["DIR506"]
    settings.write_text('[bind]\nB = 64\n[budget]\nmax_latency = "1 potato"\n')
    session.tell("textDocument/didSave", {"textDocument": {"uri": uri}})
    (said,) = session.diagnostics(settings.as_uri())
    assert (said["range"]["start"]["line"], "potato" in said["message"]) == (3, True)
    settings.write_text("[bind]\nB = 64\n")
    session.tell("textDocument/didSave", {"textDocument": {"uri": uri}})
    assert session.diagnostics(settings.as_uri()) == []


def test_faults_of_a_profile_are_shown_in_the_profile_until_they_are_mended(session, tmp_path):
    uri, settings, profile = ((tmp_path / name).as_uri() for name in ("a.dir", "distir.toml", "ours.toml"))
    (tmp_path / "distir.toml").write_text('hardware = "ours.toml"\n')
    (tmp_path / "ours.toml").write_text('extends = "dgx-h100"\n[kinds.h100]\nlaunch = "7 potatoes"\n')
    session.open(uri, SIZED)
    (found,) = session.diagnostics(profile, bool)
    assert found["range"] == {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 21}}
    assert "potatoes" in found["message"]
    (named,) = session.diagnostics(settings, bool)
    assert "ours.toml:3:1: " in named["message"]
    (tmp_path / "ours.toml").write_text('extends = "dgx-h100"\n')
    session.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": profile, "type": 2}]})
    assert session.diagnostics(profile) == session.diagnostics(settings) == []


def test_the_clients_settings_win(tmp_path):
    uri = (tmp_path / "a.dir").as_uri()
    (tmp_path / "distir.toml").write_text('[bind]\nB = 64\n[budget]\nmax_latency = "1ns"\n')
    with Session(options={"budget": {"max_latency": "1s"}}) as session:
        session.open(uri, SIZED)
        assert session.diagnostics(uri) == []
        session.tell("workspace/didChangeConfiguration", {"settings": {"distir": {"budget": {"max_latency": "2ns"}}}})
        (found,) = session.diagnostics(uri)
        assert "2.00ns" in found["message"]
        session.tell("workspace/didChangeConfiguration", {"settings": {"distir": {"hardware": "no-such-machine"}}})
        said = session.wait(lambda m: m.get("method") == "window/showMessage")
        assert "no-such-machine" in said["params"]["message"]
        assert codes(session.diagnostics(uri)) == ["DIR506"]


def test_the_client_is_asked_for_its_settings_and_to_watch_files(tmp_path):
    workspace = {"configuration": True, "didChangeWatchedFiles": {"dynamicRegistration": True}}
    with Session({**PUSHED, "workspace": workspace}, settings={"bind": {"B": 4}}) as session:
        registered = session.wait(lambda m: m.get("method") == "client/registerCapability")
        (wanted,) = registered["params"]["registrations"]
        assert wanted["registerOptions"]["watchers"] == [{"globPattern": "**/*.toml"}]
        session.wait(lambda m: m.get("method") == "workspace/configuration")
        session.open(URI, SIZED)
        assert session.diagnostics(URI, lambda found: found == []) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"jsonrpc": "2.0"}',
        b'{"method": "textDocument/hover"}',
        b'{"jsonrpc": "2.0", "method": "no/such/thing", "params": []}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {}}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": null}',
        b'{"jsonrpc": "2.0", "id": 99, "result": 1}',
        b'{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 77}}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"textDocument": {"uri": "file:///x", '
        b'"version": 1}, "contentChanges": [{"text": "x"}]}}',
        b"[" * 100_000,
    ],
    ids=lambda body: repr(body[:60]),
)
def test_what_is_no_message_ends_nothing(malformed, body):
    malformed.write(body)
    malformed.change(URI, SOUND)
    assert malformed.diagnostics(URI) == []


@pytest.fixture(scope="module")
def malformed():
    with Session() as opened:
        opened.open(URI, SOUND)
        assert opened.diagnostics(URI) == []
        yield opened


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("textDocument/hover", {}),
        ("textDocument/hover", {"textDocument": {"uri": URI}, "position": {"line": "x"}}),
        ("textDocument/diagnostic", []),
        ("textDocument/hover", 5),
    ],
)
def test_a_malformed_request_is_answered_with_an_error(malformed, method, params):
    assert "error" in malformed.answer(malformed.request(method, params))


@pytest.mark.parametrize(("line", "column"), [(10**6, 0), (0, 10**6), (2**31 - 1, 2**31 - 1), (1, 0)])
def test_positions_beyond_the_text(malformed, line, column):
    asked = {"textDocument": {"uri": URI}, "position": {"line": line, "character": column}}
    assert "error" not in malformed.answer(malformed.request("textDocument/hover", asked))
    malformed.change(URI, (line, column, line, column, ""))
    assert malformed.diagnostics(URI) == []


def test_unknown_documents_are_no_errors(malformed):
    asked = {"textDocument": {"uri": "file:///other.dir"}}
    assert malformed.ask("textDocument/diagnostic", asked)["items"] == []
    assert "error" not in malformed.answer(
        malformed.request("textDocument/hover", {**asked, "position": {"line": 0, "character": 0}})
    )


def test_quick_edits_are_looked_at_together(session):
    text = unused(2_000)
    session.open(URI, text)
    session.diagnostics(URI)
    for number in range(20):
        session.change(URI, (0, 0, 0, 0, f"// {number}\n"))
    assert session.diagnostics(URI) == []
    sent = [m for m in session.kept if m.get("method") == "textDocument/publishDiagnostics"]
    assert len(sent) <= 5


def test_a_program_above_the_limit_is_simulated_on_demand():
    with Session(options={"simulation": {"limit": 10}, "budget": {"max_latency": "1ns"}}) as session:
        session.open(URI, unused(50))
        assert session.diagnostics(URI) == []
        said = session.wait(lambda m: m.get("method") == "window/showMessage")
        assert "distir.simulation.limit" in said["params"]["message"]
        session.change(URI, (0, 0, 0, 0, "\n"))
        assert session.diagnostics(URI) == []
        assert not [m for m in session.kept if m.get("method") == "window/showMessage"]
        about = {"textDocument": {"uri": URI}}
        assert session.ask("distir/status", about)["state"] == "on_demand"
        assert "run the command `distir.simulate`" in session.ask("distir/timeline", about)["error"]
        session.ask("workspace/executeCommand", {"command": "distir.simulate", "arguments": [URI]})
        assert codes(session.diagnostics(URI, bool)) == ["DIR506"]
        assert session.ask("distir/status", about)["state"] == "simulated"


def test_long_simulations_show_progress_and_typing_ends_them():
    with Session({**PUSHED, "window": {"workDoneProgress": True}}) as session:
        session.open(URI, unused(200_000))
        session.diagnostics(URI)
        begun = session.wait(lambda m: m.get("method") == "$/progress" and m["params"]["value"]["kind"] == "begin")
        session.change(URI, SOUND)
        ended = session.wait(lambda m: m.get("method") == "$/progress" and m["params"]["value"]["kind"] == "end")
        assert begun["params"]["token"] == ended["params"]["token"]
        assert session.diagnostics(URI) == []


def test_who_types_all_the_time_sees_times_all_the_same():
    """Typing puts the first simulation off, but not for ever; what follows goes on from it."""
    with Session() as session:
        session.open(URI, unused(25_000))

        def typed():
            session.change(URI, (0, 0, 0, 0, "// more\n"))

        some = session.until(URI, lambda status: status["simulated_version"] is not None, typed)
        assert some["latency_s"] > 0
        session.diagnostics(URI)
        last = session.until(URI, lambda status: status["state"] == "simulated")
        assert last["simulated_version"] == session.versions[URI]


def test_a_text_of_50_mb_is_left_alone_and_said_once(session):
    session.open(URI, "// much\n" * 6_500_000)
    said = session.wait(lambda m: m.get("method") == "window/showMessage")
    assert "distir.readLimit" in said["params"]["message"]
    asked = {"textDocument": {"uri": URI}, "position": {"line": 5, "character": 0}}
    assert session.ask("textDocument/hover", asked) is None
    session.change(URI, (5, 0, 5, 2, "##"))
    session.change(URI, SOUND)
    assert session.diagnostics(URI) == []


@pytest.mark.parametrize("command", [("-m", "distir_lsp"), (*COMMAND_LINE, "lsp")], ids=["distir-lsp", "distir lsp"])
def test_the_end(command):
    with Session(command=command) as session:
        session.ask("shutdown", None)
        session.tell("exit", None)
        assert session.process.wait(timeout=PATIENCE_S) == 0


def test_a_client_that_goes_away_ends_the_server(session):
    session.open(URI, unused(30_000))
    session.process.stdin.close()
    session.process.wait(timeout=PATIENCE_S)
    session.process.stdin = open("/dev/null", "wb")  # noqa: SIM115 - for the fixture to close


@pytest.mark.parametrize("content", [b"", None, *also(b"no tables")])
def test_kept_tables_that_are_broken_are_made_again(tmp_path, content):
    for _ in range(2):
        with Session(command=("-m", "distir_lsp"), cache=tmp_path) as session:
            session.open(URI, WRONG)
            assert codes(session.diagnostics(URI)) == ["DIR201"]
        (kept,) = tmp_path.rglob("grammar.tables")
        kept.write_bytes(kept.read_bytes()[:1000] if content is None else content)


def test_the_command_line_starts_it_too():
    with Session(command=(*COMMAND_LINE, "lsp", "--stdio")) as session:
        session.open(URI, WRONG)
        assert codes(session.diagnostics(URI)) == ["DIR201"]


def test_over_tcp_on_loopback():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "distir_lsp", "--tcp", str(port)], env=ENVIRONMENT)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                client = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        with client:  # closed with the rest of the answer unread, as when an editor is killed
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}})
            client.sendall(f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
            assert client.recv(16).startswith(b"Content-Length: ")
        server.wait(timeout=PATIENCE_S)
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("command", [("-m", "distir_lsp"), (*COMMAND_LINE, "lsp")], ids=["distir-lsp", "distir lsp"])
def test_a_port_that_is_taken(command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, *command, "--tcp", port], capture_output=True, text=True, env=ENVIRONMENT, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: cannot listen on port {port}: ")


GONE = """
import io, sys
from distir_lsp.server import DistirServer
from distir_lsp.serving import ProtocolOutput

class Broken(io.BytesIO):
    def write(self, data):
        raise OSError("no such device")

server = DistirServer()
stream = Broken() if sys.argv[1] == "broken" else io.BytesIO()
server.protocol.set_writer(ProtocolOutput(stream))
if sys.argv[1] == "closed":
    stream.close()
server.report_server_error(LookupError("late"), None)
"""


@pytest.mark.parametrize(("how", "lines"), [("closed", 0), ("broken", 40)])
def test_a_client_that_is_gone_gets_no_error_that_follows_from_another(how, lines):
    run = subprocess.run(
        [sys.executable, "-c", GONE, how],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=True,
        timeout=PATIENCE_S,
    )
    assert len(run.stderr.splitlines()) <= lines, run.stderr[:2000]
