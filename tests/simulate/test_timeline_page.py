"""The page holds the whole simulation, nothing that loads anything, and no name that could break out of it."""

import base64
import hashlib
import json
import random
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulate_samples import machine, random_module, with_hosts
from thorough import most_examples

from distir.analysis import check
from distir.analysis.program import read
from distir.cost.host import Host
from distir.diagnostics import Source
from distir.ir import Apply, Function, Module, Param, Return, TensorType
from distir.ir.dtypes import DTYPES
from distir.simulate import simulate
from distir.simulate.page import Shown, timeline_page
from distir.syntax import print_statement

MACHINE = machine()
quick = settings(
    max_examples=most_examples(25), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)

TEXT = """// Two devices.
func @half(%x) {
  %y = Relu(%x)
  return %y
}

func @main(%x: Tensor[Float32, (8, 8), 1]) {
  %a = @half(%x)
  %b = Send[device = 2](%a)   // over
  %c = @half(%b)
  return %c
}
"""


class Page(HTMLParser):
    """What a browser sees: tags with their attributes, and the data."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.texts = [], [], {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(dict(attrs).get("id") or tag)

    def handle_endtag(self, tag):
        self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + data

    @property
    def data(self):
        return json.loads(self.texts["data"])


def shape(page):
    return [(tag, sorted(attrs)) for tag, attrs in page.tags]


PLAIN = Page(timeline_page(simulate(read(TEXT).module, MACHINE)))


def test_nothing_is_loaded():
    for tag, attrs in PLAIN.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form", "a"}
        assert not {"src", "href", "srcset", "data", "action"} & attrs.keys()
        assert not any(name.startswith("on") for name in attrs)
    (policy,) = [a["content"] for t, a in PLAIN.tags if t == "meta" and a.get("http-equiv")]
    assert policy.startswith("default-src 'none'")
    script = PLAIN.texts["script"]
    for word in ("fetch(", "XMLHttpRequest", "import(", "WebSocket", "innerHTML", "eval(", "http://", "https://"):
        assert word not in script
    assert "url(" not in PLAIN.texts["style"]
    assert "@import" not in PLAIN.texts["style"]


def bars(data):
    """Bar by bar what the table of the one piece says."""
    (piece,) = data["timeline"]
    table = piece["table"]
    assert piece["bars"] == []
    columns = (table[name] for name in ("event", "origin", "call", "kind", "work", "start_s", "slack_s"))
    return [
        {
            "event": event,
            **table["origins"][origin],
            "calls": table["calls"][call],
            "callers": [table["places"][place] for place in table["callers"][call]],
            **table["kinds"][kind],
            **table["works"][work],
        }
        | {"start_s": start, "slack_s": slack}
        for event, origin, call, kind, work, start, slack in zip(*columns, strict=True)
    ]


@quick
@given(st.integers(0, 2**32))
def test_the_data_are_the_simulation(seed):
    module = random_module(random.Random(seed))
    assume(not check(module).errors)
    simulation = simulate(module, MACHINE)
    data = Page(timeline_page(simulation)).data
    timeline = simulation.timeline()
    (piece,) = data["timeline"]
    assert piece["latency_s"] == simulation.latency_s
    assert piece["critical_path"] == timeline.critical_path()
    assert piece["next_event"] is None
    assert [d["device"] for d in piece["devices"]] == list(simulation.devices)
    for device, use in simulation.devices.items():
        (memory,) = [m for m in data["memory"]["memories"] if device in m["devices"]]
        assert (memory["peak_bytes"], memory["capacity_bytes"]) == (use.peak_memory_bytes, use.capacity_bytes)
        assert max((nbytes for _, nbytes in memory["points"]), default=0) == use.peak_memory_bytes
        times = [time for time, _ in memory["points"]]
        assert times == sorted(times)
    assert piece["events"] == len(timeline)
    for event, bar in zip(timeline.events(), bars(data), strict=True):
        assert bar["start_s"] == event.start
        assert bar["start_s"] + bar["duration_s"] == pytest.approx(event.end)
        assert (bar["op"], bar["label"], bar["event"]) == (event.statement.op, event.label, event.index)
        assert (bar["devices"], bar["stream"]) == (list(event.effect.devices), event.statement.stream)
        assert (bar["communication"] is not None) == (event.effect.work.communication is not None)
        assert bar["slack_s"] == timeline.slack[event.index]
        assert len(bar["calls"]) == len(event.path)
        assert [(call["function"], call["statement"]) for call in bar["callers"]] == [
            (function.name, index) for function, index in event.path[:-1]
        ]
        written = data["statements"][bar["function"]][str(bar["statement"])]
        assert written == print_statement(event.statement)
    assert len(piece["waits"]) == len(timeline.waits)
    assert (piece["bubble"], piece["exposed_communication"]) == (simulation.bubble, simulation.exposed_communication)
    for memory in data["memory"]["memories"]:
        assert sum(part["nbytes"] for part in memory["parts"]) == memory["peak_bytes"]


def placed(text, path="two.dir"):
    program = read(text, path)
    return Page(timeline_page(simulate(program.module, MACHINE), program.source, program.syntax.source_map))


def test_statements_are_shown_as_written():
    page = placed(TEXT)
    lines = page.data["source"].split("\n")
    assert [lines[b["range"]["start"]["line"]][: b["range"]["end"]["character"]] for b in bars(page.data)] == [
        "  %y = Relu(%x)",
        "  %b = Send[device = 2](%a)",
        "  %y = Relu(%x)",
    ]
    assert page.data["statements"] == {}
    assert page.texts["title"].startswith("two.dir @main on ")


def test_columns_count_as_scripts_do():
    """In units of UTF-16, and lines end where the language says."""
    text = "func @main(%x: Tensor[Float32, (8, 8), 1]) {\r\n  /* \U0001d54f é */ %y = Relu(%x)\r\n  return %y\r\n}\r\n"
    (bar,) = bars(placed(text).data)
    assert bar["range"]["start"]["line"] == 1
    line = text.split("\r\n")[1].encode("utf-16-le")
    start, end = (2 * bar["range"][side]["character"] for side in ("start", "end"))
    assert line[start:end].decode("utf-16-le") == "%y = Relu(%x)"


def test_the_page_holds_what_an_editor_gets():
    from distir_lsp.answers import as_json
    from distir_lsp.positions import Positions

    from distir.ide.document import Setup, open_document
    from distir.ide.memory import memory_view
    from distir.ide.timeline import timeline_view

    document, data = open_document(TEXT, "two.dir", Setup(MACHINE)), placed(TEXT).data
    views = timeline_view(document, columns=True), memory_view(document)
    told = [as_json(view, Positions(TEXT)) for view in views]
    assert json.loads(json.dumps(told)) == [data["timeline"][0], data["memory"]]
    rows = json.loads(json.dumps(as_json(timeline_view(document), Positions(TEXT))))["bars"]
    assert rows == bars(data), "as rows and as columns"


STREAMS = """func @main(
  %a: Tensor[Float32, (64, 64), 1], %b: Tensor[Float32, (64, 64), 2]
) {
  %s, %t = MPIAllreduce(%a, %b) on reduce
  %x = MatMul(%a, %a)
  %y = Relu(%x)
  %z = Add(%y, %s)
  return %z, %t
}
"""


def test_bars_and_waits_say_their_stream():
    module = read(STREAMS).module
    (piece,) = Page(timeline_page(simulate(module, MACHINE))).data["timeline"]
    streams = [piece["table"]["kinds"][kind]["stream"] for kind in piece["table"]["kind"]]
    assert streams == ["reduce", "", "", ""]
    assert piece["host_bound"] == 0
    simulation = simulate(module, with_hosts(MACHINE, Host(3e-5), Host(3e-5)))
    (piece,) = Page(timeline_page(simulation)).data["timeline"]
    assert piece["host_bound"] == simulation.host_bound > 0
    assert {wait["stream"] for wait in piece["waits"] if wait["blocker"] == -1} == {"", "reduce"}


def test_the_same_op_on_several_streams_has_several_kinds():
    """Ops that cost the same share what they do, whichever stream they are on."""
    text = STREAMS.replace("%y = Relu(%x)", "%y = Relu(%x)\n  %u = Relu(%a) on side\n  %v = Relu(%a) on reduce")
    data = Page(timeline_page(simulate(read(text).module, MACHINE))).data
    found = [bar["stream"] for bar in bars(data) if bar["op"] == "Relu"]
    assert found == ["", "side", "reduce"]


def test_another_program_is_shown_beneath():
    program, other = read(TEXT, "two.dir"), read(TEXT.replace("Relu", "Tanh"), "three.dir")
    shown = Shown(simulate(other.module, MACHINE), other.source, other.syntax.source_map)
    text = timeline_page(simulate(program.module, MACHINE), program.source, program.syntax.source_map, shown)
    data = Page(text).data
    assert data["other"]["document"]["name"] == "three.dir"
    assert [bar["op"] for bar in bars(data["other"])] == ["Tanh", "Send", "Tanh"]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("/home/me/two.dir", "/home/me/three.dir"), ("two.dir", "three.dir")),
        (("/home/me/a/step.dir", "/home/me/b/step.dir"), ("a/step.dir", "b/step.dir")),
        (("/home/me/step.dir", "/home/me/step.dir"), ("step.dir", "step.dir")),
    ],
)
def test_programs_have_the_names_of_their_files(paths, names):
    program = read(TEXT, "two.dir")
    simulation = simulate(program.module, MACHINE)
    other = Shown(simulation, Source(paths[1], TEXT), program.syntax.source_map)
    text = timeline_page(simulation, Source(paths[0], TEXT), program.syntax.source_map, other)
    page = Page(text)
    assert (page.data["document"]["name"], page.data["other"]["document"]["name"]) == names
    assert "/home" not in text


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\u2028\u2029",
    "&lt;/script&gt;",
    "]]>",
    '"\\',
    "@DATA@",
    "@SCRIPT@",
    "${alert(1)}",
    "\ud800",
    "</title><img src=x onerror=alert(1)>",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_out(name):
    x = TensorType(DTYPES["Float32"], (8, 8), 1)
    body = (Apply((name,), "Relu", ("x",)), Return((name,)))
    simulation = simulate(Module([Function(name, (Param("x", x),), body)]), MACHINE)
    text = timeline_page(simulation, Source(name, name))
    assert text.isascii() or name.encode("utf-8", "replace").decode() in text or "&" in text
    text.encode("utf-8")
    page = Page(text)
    assert shape(page) == shape(PLAIN), "the same elements as for a harmless program"
    assert page.texts["script"] == PLAIN.texts["script"]
    (bar,) = bars(page.data)
    assert (bar["function"], bar["label"]) == (name, f"%{name}")
    assert "<" not in page.texts["data"]
    assert "\u2028" not in page.texts["data"]


def test_the_policy_allows_these_scripts_and_styles_alone():
    (policy,) = [a["content"] for t, a in PLAIN.tags if t == "meta" and a.get("http-equiv")]
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(PLAIN.texts[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_runs_the_page(tmp_path):
    """The policy lets the script run, which understands the data and lays the chart out while the page loads.

    What it does then: vscode-extension/timeline/test.
    """
    program = read(TEXT, "two.dir")
    page = timeline_page(simulate(program.module, MACHINE), program.source, program.syntax.source_map)
    (tmp_path / "page.html").write_text(page, "utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    place = [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "page.html").as_uri()]
    done = subprocess.run([CHROMIUM, *flags, *place], capture_output=True, text=True, timeout=300, check=True)
    seen = Page(done.stdout)
    assert seen.texts["h1"] == "two.dir @main"
    assert "3 ops" in seen.texts["summary"]
    assert dict(seen.tags)["canvas"]["width"] != "300", "it has been laid out"
