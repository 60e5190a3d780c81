"""Sessions as an editor has them, over the protocol: every message of the adapter is valid by the protocol's schema."""

import socket
import subprocess
import sys

import pytest
from dap_session import ROOT, DebugClient, Refused

PIPELINE = ROOT / "examples" / "mlp_pipeline.dir"
LINES = PIPELINE.read_text().splitlines()


def line_of(text):
    return next(number for number, line in enumerate(LINES, 1) if text in line)


GEMM = line_of("%h = Gemm(%x, %A, %b)")


@pytest.fixture
def client():
    found = DebugClient()
    yield found
    found.left()


def test_a_session_steps_along_one_device_and_back(client):
    assert client.start(PIPELINE)["description"] == "The program starts: device 1 starts `Split` at 0s"
    assert client.ask("threads")["threads"] == [{"id": 1, "name": "device 1"}, {"id": 2, "name": "device 2"}]
    assert client.move("next")["description"] == "Device 1 starts `Gemm` at 86.0us, in a call of `@dense`"
    assert [frame["name"] for frame in client.frames(1)] == ["@dense in @mlpPP"]
    client.move("stepIn")
    assert [(f["name"], f["line"]) for f in client.frames(1)] == [
        ("Gemm in @dense", GEMM),
        ("@mlpPP", line_of("%as_1: D1 = @dense")),
    ]
    assert client.move("next")["description"].startswith("Device 1 starts `Relu`")
    assert client.move("stepBack")["description"].startswith("Device 1 starts `Gemm`")
    assert client.move("stepBack")["description"].endswith("in a call of `@dense`")
    client.move("stepIn")
    assert client.move("stepOut")["description"].startswith("Device 1 starts `Send`")
    assert client.move("stepIn", granularity="instruction")["description"].startswith("Device 1 starts `Gemm`")


def test_another_device_is_shown_and_stepped_at_the_same_time(client):
    client.start(PIPELINE)
    client.move("next")
    remark, following = client.frames(2)[:2]
    assert remark["name"] == "idles until 1.09ms: waits for device 1 (`Relu`)"
    assert remark["presentationHint"] == "label"
    assert (following["name"], following["presentationHint"]) == ("Send in @mlpPP", "subtle")
    stop = client.move("next", thread=2)
    assert stop["threadId"] == 2
    assert "waited 1.01ms for device 1 (`Relu`)" in stop["description"]


def test_a_breakpoint_stops_at_each_run_of_its_statement_and_backwards(client):
    client.start(PIPELINE, [GEMM])
    (placed,) = client.placed
    assert placed["verified"]
    assert placed["line"] == GEMM
    stops = []
    while (stop := client.move("continue"))["reason"] == "breakpoint":
        assert stop["hitBreakpointIds"] == [placed["id"]]
        stops.append(stop["description"])
    assert len(stops) == 4
    assert stop["description"] == "The program ends after 12.9ms"
    assert [client.move("reverseContinue")["description"] for _ in stops] == stops[::-1]
    assert client.move("reverseContinue")["description"].startswith("The program starts")


def test_conditions_hit_counts_and_log_points(client):
    first = {"line": GEMM, "condition": "device == 2 and duration > 100us"}
    client.start(PIPELINE, [first, {"line": GEMM, "hitCondition": "3"}, {"line": GEMM, "logMessage": "{op} at {time}"}])
    stops = []
    while (stop := client.move("continue"))["reason"] == "breakpoint":
        stops += [(stop["threadId"], number) for number in stop["hitBreakpointIds"]]
    one, two, _ = (placed["id"] for placed in client.placed)
    assert [thread for thread, number in stops if number == one] == [2, 2]
    assert [number for _, number in stops].count(two) == 1
    assert client.said().count("Gemm at ") == 4


def test_it_stops_where_a_device_waits_and_where_memory_is_fullest(client):
    client.start(PIPELINE, filters=[("waits", "wait > 2ms and device == 1"), ("peak", "device == 2")])
    stop = client.move("continue")
    assert stop["reason"] == "exception"
    info = client.ask("exceptionInfo", threadId=stop["threadId"])
    assert info["exceptionId"] == "peak"
    scopes = client.scopes(client.frames(2)[0])
    memory = scopes["Memory of device 2"]
    assert memory["in use"]["value"].partition(",")[0] == memory["peak"]["value"]
    stop = client.move("continue")
    assert stop["description"] == "Device 1 starts `Send` at 5.50ms; waited 3.04ms for device 2 (`Gemm`)"
    assert client.ask("exceptionInfo", threadId=1)["exceptionId"] == "waits"


def test_values_show_types_bytes_and_lifetimes(client):
    client.start(PIPELINE, [GEMM])
    client.move("continue")
    frame = client.frames(1)[0]
    scopes = client.scopes(frame)
    assert [*scopes] == ["Op", "Values", "Memory of device 1", "Devices"]
    assert scopes["Op"]["takes"]["value"] == "961us"
    assert scopes["Values"]["%x"]["value"] == "Tensor[Float32, (8192, 1024), 1] · 33.6MB"
    inside = client.variables(scopes["Values"]["%x"]["variablesReference"])
    assert inside["made"]["value"] == "by `Split` at 86.0us"
    assert inside["freed"]["value"].startswith("after `Gemm` at ")
    assert scopes["Devices"]["device 2"]["value"].startswith("idles until 1.09ms")
    hover = client.ask("evaluate", expression="%h", context="hover", frameId=frame["id"])
    assert hover["type"] == "Tensor[Float32, (8192, 1024), 1]"
    with pytest.raises(Refused, match="has no value `%nothing`"):
        client.ask("evaluate", expression="%nothing", context="hover", frameId=frame["id"])


def test_the_console_goes_to_times_and_places(client):
    client.start(PIPELINE)

    def typed(text):
        return client.ask("evaluate", expression=text, context="repl")["result"]

    assert typed("5ms") == "at 5.00ms: device 1 idles"
    assert client.wait_for("stopped")["reason"] == "goto"
    assert typed("peak 2").startswith("device 2 starts")
    assert typed("memory").endswith("MB")
    assert typed("start").startswith("the program starts")
    assert typed("wait 2ms") == "device 1 starts `Send` at 5.50ms; waited 3.04ms for device 2 (`Gemm`)"
    assert "device 2 starts `Relu`" in typed('until op == "Relu" and device == 2')
    assert typed("end") == "the program ends after 12.9ms"
    assert "go to a simulated time" in typed("help")
    for text, said in {
        "wiat > 1ms": "there is no `wiat`; did you mean `wait`?",
        "peek": "did you mean `peak`?",
        "peak 7": "expected a device of the program",
        "until wait > 1": "`wait` is compared with a time such as `1ms`, found `1`",
        "until __import__('os')": "expected comparisons",
    }.items():
        with pytest.raises(Refused) as refused:
            typed(text)
        assert said in str(refused.value)


def test_jumping_to_a_line_leads_to_its_next_run(client):
    client.start(PIPELINE)
    targets = client.ask("gotoTargets", source={"path": str(PIPELINE)}, line=GEMM)["targets"]
    assert targets[0]["label"] == "next: device 1 starts `Gemm` at 86.0us"
    client.ask("goto", threadId=1, targetId=targets[0]["id"])
    assert client.wait_for("stopped")["reason"] == "goto"
    lines = client.ask("breakpointLocations", source={"path": str(PIPELINE)}, line=1, endLine=GEMM + 1)["breakpoints"]
    assert [each["line"] for each in lines] == [GEMM, GEMM + 1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"line": 1}, "expected a statement of a function"),
        ({"line": 9999}, "there is no such line"),
        ({"line": GEMM + 2}, "nothing takes time on a device"),
        ({"line": GEMM, "condition": "device = 3"}, "expected a condition such as `wait > 1ms`"),
        ({"line": GEMM, "condition": "memory > 1ms"}, "`memory` is compared with a size such as `80GB`"),
        ({"line": GEMM, "hitCondition": "often"}, "expected a hit count such as `5`"),
        ({"line": GEMM, "logMessage": "{when}"}, "there is no `when`"),
    ],
)
def test_a_breakpoint_that_cannot_be_had_says_why(client, asked, said):
    client.start(PIPELINE, [asked])
    (placed,) = client.placed
    assert not placed["verified"]
    assert said in placed["message"]


def test_function_breakpoints_and_unknown_filters(client):
    client.start(PIPELINE, functions=["lossGrad", "@lossGard", "mlpPP"], filters=[("nothing", "")])
    assert [placed["verified"] for placed in client.placed] == [True, False, False, False]
    assert "did you mean" in client.placed[1]["message"]
    stop = client.move("continue")
    assert stop["reason"] == "function breakpoint"
    assert client.frames(stop["threadId"])[0]["name"] == "@lossGrad in @mlpPP"


BROKEN = "func @main(%x: Tensor[Float32, (2, 3), 1]) {\n  %y = MatMul(%x, %x)\n  return %y\n}\n"


@pytest.mark.parametrize(
    ("text", "launch", "said"),
    [
        (BROKEN, {}, "program.dir:2: "),
        ("func @main(", {}, "program.dir:1: "),
        ("func @main(%x: Tensor[Float32, (2,), 1]) {\n  return %x\n}\n", {}, "has no op that takes time on a device"),
        (PIPELINE.read_text(), {"hardware": "dgx-z9"}, "dgx-z9"),
        (PIPELINE.read_text(), {"hardware": 5}, "expected a text as `hardware`"),
        (PIPELINE.read_text(), {"function": "@none"}, "there is no function `@none`"),
        (PIPELINE.read_text(), {"bind": {"B": 4}}, "has no dimension or host value `B`"),
        ("func @main(%x: Tensor[Float32, (B,), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n", {}, "`B` has no size"),
    ],
)
def test_a_program_that_cannot_be_stepped_through_is_refused_with_the_reason(client, tmp_path, text, launch, said):
    path = tmp_path / "program.dir"
    path.write_text(text)
    with pytest.raises(Refused) as refused:
        client.start(path, **launch)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_an_earlier_stop_showed_is_no_other_value_and_no_message(client):
    """With fast keys an editor asks for variables of a stop after the next step."""
    client.start(PIPELINE)
    client.move("next")
    frame = client.frames(1)[0]
    before = client.ask("scopes", frameId=frame["id"])["scopes"][0]["variablesReference"]
    client.move("next")
    now = client.frames(1)[0]
    assert now["id"] != frame["id"]
    assert before not in [scope["variablesReference"] for scope in client.ask("scopes", frameId=now["id"])["scopes"]]
    for command, asked in (("scopes", {"frameId": frame["id"]}), ("variables", {"variablesReference": before})):
        failure = client.failure(client.send(command, **asked))
        assert "earlier stop" in failure["message"]
        assert not failure["body"]["error"]["showUser"]


def test_requests_that_are_cancelled_are_not_answered(client):
    """An editor shows a failed stack trace in words among the frames of the next stop; an empty one it drops."""
    client.start(PIPELINE)
    number = client.send("stackTrace", threadId=1)
    for count, (command, arguments) in enumerate({"stackTrace": {"threadId": 1}, "threads": {}}.items()):
        client.send("cancel", requestId=client.sent + 2)  # of the next one, which is not read yet
        cancelled = client.send(command, **arguments)
        if not count:
            assert client.answer(number)["stackFrames"]
        assert not any(client.answer(cancelled).values())
    client.send("cancel", requestId=client.sent + 2)
    failure = client.failure(client.send("evaluate", expression="1", context="repl"))
    assert (failure["message"], failure["body"]["error"]["showUser"]) == ("cancelled", False)
    assert client.move("next")["reason"] == "step"


def test_requests_that_make_no_sense_are_refused_and_the_session_goes_on(client):
    client.ask("initialize", adapterID="distir")
    for command in ("threads", "next", "stackTrace"):
        with pytest.raises(Refused):
            client.ask(command, threadId=1)
    client.start(PIPELINE)
    for command, arguments in {
        "stackTrace": {"threadId": 99},
        "variables": {"variablesReference": 77},
        "scopes": {"frameId": "x"},
        "goto": {"threadId": 1, "targetId": 3},
        "readMemory": {},
        "serve": {},
    }.items():
        with pytest.raises(Refused):
            client.ask(command, **arguments)
    client.output.write(b"Content-Length: 5\r\n\r\nnone!")
    client.move("next")


def test_a_process_of_its_own_ends_with_its_client():
    for end in (DebugClient.close, DebugClient.left):
        client = DebugClient(process=True)
        client.start(PIPELINE)
        client.move("next")
        end(client)


def test_a_program_that_ends_can_be_left(client):
    client.start(PIPELINE)
    assert client.move("continue")["description"].startswith("The program ends")
    client.ask("continue", threadId=1)
    client.wait_for("terminated")
    client.ask("disconnect")


def test_one_client_is_served_on_a_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    client = DebugClient(port=port)
    client.start(PIPELINE)
    client.move("next")
    client.ask("disconnect")
    client.left()


def test_a_port_that_is_taken_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        taken = subprocess.run(
            [sys.executable, "-m", "distir_dap", "--port", str(port)], capture_output=True, text=True, check=False
        )
    assert taken.returncode == 2
    assert taken.stderr.startswith(f"error: cannot listen on port {port}: ")
    assert len(taken.stderr.splitlines()) == 1


COUNTED = """func @layer(%x: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %s = MatMul(%x, %w)
  %y = Relu(%s)
  return %y
}

func @main(%x: Tensor[Float32, (4, 4), 1], %w_{1..4}: Tensor[Float32, (4, 4), 1]) {
  %y = @layer(%x then %y, [%w_{1..4}]) 4 times
  return %y
}
"""


def test_a_counted_call_is_stepped_call_by_call(client, tmp_path):
    path = tmp_path / "counted.dir"
    path.write_text(COUNTED)
    client.start(path, [3])
    for _ in range(4):
        assert client.move("continue")["description"].startswith("Device 1 starts `Relu`")
        frames = [(frame["name"], frame["line"]) for frame in client.frames(1)]
        assert frames == [("Relu in @layer", 3), ("@layer 4 times", 8), ("@main", 8)]
    assert client.move("reverseContinue")["description"].startswith("Device 1 starts `Relu`")
    assert client.move("stepOut")["description"].endswith("in a call of `@layer`")
