"""The page holds the whole simulation, nothing that loads anything, and no name that could break out of it."""

import json
import random
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulate_samples import machine, random_module

from distir.analysis import check
from distir.analysis.program import read
from distir.diagnostics import Source
from distir.ir import Apply, Function, Module, Param, Return, TensorType
from distir.ir.dtypes import DTYPES
from distir.simulate import simulate
from distir.simulate.page import timeline_page

MACHINE = machine()
quick = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

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


@quick
@given(st.integers(0, 2**32))
def test_the_data_are_the_simulation(seed):
    module = random_module(random.Random(seed))
    assume(not check(module).errors)
    simulation = simulate(module, MACHINE)
    data = Page(timeline_page(simulation)).data
    timeline = simulation.timeline()
    assert data["latency"] == round(simulation.latency_s * 1e9)
    assert data["critical"] == timeline.critical_path()
    assert [d["id"] for d in data["devices"]] == list(simulation.devices)
    for device, use in zip(data["devices"], simulation.devices.values(), strict=True):
        memory = data["memories"][device["memory"]]
        assert (memory["peak"], memory["capacity"]) == (use.peak_memory_bytes, use.capacity_bytes)
        assert max(memory["values"], default=0) == use.peak_memory_bytes
        assert memory["times"] == sorted(memory["times"])
    columns = data["events"]
    assert all(len(column) == len(timeline) for column in columns.values())
    for event in timeline.events():
        i = event.index
        assert columns["start"][i] == round(event.start * 1e9)
        assert columns["start"][i] + columns["duration"][i] == round(event.end * 1e9)
        assert data["ops"][columns["op"][i]]["name"] == event.statement.op
        assert data["groups"][columns["group"][i]]["devices"] == list(event.effect.devices)
        assert data["statements"][columns["statement"][i]]["label"] == event.label
        assert bool(data["paths"][columns["path"][i]]) == (len(event.path) > 1)
    assert len(data["waits"]) == len(timeline.waits)


def test_statements_are_shown_as_written():
    program = read(TEXT, "two.dir")
    page = Page(timeline_page(simulate(program.module, MACHINE), program.source, program.syntax.source_map))
    assert [(s["text"], s["line"]) for s in page.data["statements"]] == [
        ("%y = Relu(%x)", 3),
        ("%b = Send[device = 2](%a)", 9),
    ]
    assert page.texts["h1"].startswith("two.dir @main on ")


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
    statement = page.data["statements"][0]
    assert (statement["function"], statement["label"]) == (name, f"%{name}")
    assert "<" not in page.texts["data"]
    assert "\u2028" not in page.texts["data"]


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def browsed(text, script, folder):
    """The page of a program after a script has run in a browser."""
    program = read(text, "two.dir")
    page = timeline_page(simulate(program.module, MACHINE), program.source, program.syntax.source_map)
    probe = f'<script>addEventListener("load", () => {{ {script} }});</script></body>'
    (folder / "page.html").write_text(page.replace("</body>", probe), "utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    place = [f"--user-data-dir={folder / 'profile'}", "--dump-dom", (folder / "page.html").as_uri()]
    done = subprocess.run([CHROMIUM, *flags, *place], capture_output=True, text=True, timeout=60, check=True)
    return Page(done.stdout)


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_runs_the_page(tmp_path):
    """No error; the summary is filled in, keys select ops, and what was selected is shown."""
    script = """
      for (const key of ["n", "n", "+", "-", "c", "ArrowLeft", "ArrowDown", "0"]) {
        canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
      }
      draw();
      document.title = "ran";
    """
    seen = browsed(TEXT, script, tmp_path)
    assert seen.texts["title"] == "ran"
    assert "3 ops" in seen.texts["summary"]
    assert seen.texts["code"] == "%b = Send[device = 2](%a)"


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_long_ops_are_drawn_beside_short_ones(tmp_path):
    """A bar that begins within the pixel of a bar too short to see."""
    short, long = "%s{0} = Relu(%s)", "%l{0} = MatMul(%l, %l)"
    body = "\n".join(line.format(i) for i in range(5) for line in (short, short.replace("{0}", "_{0}"), long))
    types = "%s: Float32[1], %l: Tensor[Float32, (300, 300), 1]"
    script = """
      let painted = 0;
      pen.fillRect = (left, top, wide, high) => { if (high === LANE) painted += wide; };
      drawBars(lanes[0]);
      document.title = String(painted / width());
    """
    seen = browsed(f"func @main({types}) {{\n{body}\nreturn %l\n}}", script, tmp_path)
    assert 0.97 < float(seen.texts["title"]) < 1.03
