import json
import re

import pytest
from cli_samples import MACHINE, PIPELINE, SMALL

import distir as api
from distir.cost import load

BOUND = ("--hardware", MACHINE, "--bind", "B=64")


def test_the_report(distir, file, golden):
    ended = distir("simulate", file("a.dir", PIPELINE), *BOUND)
    assert (ended.code, ended.err) == (0, "")
    golden("simulate.txt", ended.out)


def test_a_long_critical_path_is_cut_in_the_middle(distir, file, golden):
    ended = distir("simulate", file("a.dir", PIPELINE), *BOUND, "--top", "3")
    golden("simulate_top.txt", ended.out)


def test_json_has_the_keys_that_others_read(distir, file):
    ended = distir("simulate", file("a.dir", PIPELINE), *BOUND, "--json")
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert found.keys() >= {"latency_s", "ops", "devices", "critical_path", "hardware"}
    assert found["hardware"] == "machine"
    assert found["devices"].keys() == {"1", "2"}
    for use in found["devices"].values():
        assert use.keys() >= {"busy_s", "idle_s", "peak_memory_bytes", "comm_s"}
        assert use["busy_s"] + use["idle_s"] == pytest.approx(found["latency_s"])
    for step in found["critical_path"]:
        assert step.keys() >= {"op", "function", "line", "start_s", "duration_s", "devices"}
    assert sum(step["duration_s"] for step in found["critical_path"]) == pytest.approx(found["latency_s"])


def test_json_says_what_the_api_says(distir, file):
    found = json.loads(distir("simulate", file("a.dir", PIPELINE), *BOUND, "--json").out)
    result = api.simulate(api.parse(PIPELINE), MACHINE, bind={"B": 64})
    assert found["latency_s"] == result.latency_s
    assert found["ops"] == result.ops
    assert {int(d): use["peak_memory_bytes"] for d, use in found["devices"].items()} == {
        device: use.peak_memory_bytes for device, use in result.devices.items()
    }


def test_the_band_of_published_runs_is_said_where_the_profile_has_one(distir, file):
    program = file("a.dir", PIPELINE)
    flags = ("--hardware", "dgx-a100", "--bind", "B=64")
    assert re.search(r"^\d+\S+ to \d+\S+ in 80% of published runs$", distir("simulate", program, *flags).out, re.M)
    found = json.loads(distir("simulate", program, *flags, "--json").out)
    low, high = found["published_band_s"]
    errors = load("dgx-a100").published
    assert (low, high) == (errors.low * found["latency_s"], errors.high * found["latency_s"])
    assert "published" not in distir("simulate", program, *BOUND).out
    assert json.loads(distir("simulate", program, *BOUND, "--json").out)["published_band_s"] is None


def test_bubble_and_exposed_communication_are_said(distir, file):
    path = file("a.dir", PIPELINE)
    found = json.loads(distir("simulate", path, *BOUND, "--json").out)
    whole = found["latency_s"] * len(found["devices"])
    assert found["bubble"] == pytest.approx(sum(use["idle_s"] for use in found["devices"].values()) / whole)
    alone = sum(use["comm_s"] for use in found["devices"].values()) / whole
    assert found["exposed_communication"] == pytest.approx(alone), "each device has one stream"
    text = distir("simulate", path, *BOUND).out
    bubble, exposed = (f"{100 * found[name]:.1f}%" for name in ("bubble", "exposed_communication"))
    assert f", {bubble} bubble, {exposed} exposed communication" in text


def test_what_peaks_are_made_of_adds_up(distir, file):
    path = file("a.dir", PIPELINE)
    found = json.loads(distir("simulate", path, *BOUND, "--json").out)
    for use in found["devices"].values():
        assert sum(use["peak_memory_of"].values()) == use["peak_memory_bytes"]
    lines = distir("simulate", path, *BOUND).out.splitlines()
    _, *kinds = re.split(r" {2,}", lines[lines.index("peak memory") + 1])
    assert {kind for use in found["devices"].values() for kind in use["peak_memory_of"]} == set(kinds)


def test_costs_by_op_add_up_to_the_busy_time(distir, file):
    found = json.loads(distir("simulate", file("a.dir", PIPELINE), *BOUND, "--json", "--top", "100").out)
    assert sum(entry["share"] for entry in found["costliest"]) == pytest.approx(1)
    relu = next(entry for entry in found["costliest"] if entry["op"] == "Relu")
    assert (relu["function"], relu["count"]) == ("layer", 4)


def test_lines_are_those_of_the_text(distir, file):
    found = json.loads(distir("simulate", file("a.dir", PIPELINE), *BOUND, "--json").out)
    lines = PIPELINE.split("\n")
    for step in found["critical_path"]:
        assert f"{step['op']}" in lines[step["line"] - 1]


@pytest.mark.parametrize(
    ("settings", "flags", "named"),
    [
        (None, (), "dgx-a100 (the default)"),
        ('entry = "main"', (), "dgx-a100 (the default)"),
        ('hardware = "h200"', (), "h200 (named in distir.toml)"),
        ('hardware = "dgx-a100"', (), "dgx-a100 (named in distir.toml)"),
        ('hardware = "h200"', ("--hardware", "dgx-a100"), "dgx-a100 (named by --hardware)"),
    ],
)
def test_the_hardware_used_is_said_with_where_it_was_named(distir, file, settings, flags, named, monkeypatch):
    path = file("a.dir", SMALL)
    monkeypatch.chdir(path.parent)
    if settings:
        file("distir.toml", settings)
    assert named in distir("simulate", path, *flags).out.split("\n")[0]


def test_hardware_that_settings_elsewhere_name_is_said_with_their_path(distir, file, monkeypatch):
    path, elsewhere = file("models/a.dir", SMALL), file("elsewhere/none.txt", "").parent
    settings = file("models/distir.toml", 'hardware = "h200"')
    monkeypatch.chdir(elsewhere)
    assert f"h200 (named in {settings})" in distir("simulate", path).out.split("\n")[0]
    monkeypatch.chdir(path.parent.parent)
    assert "h200 (named in models/distir.toml)" in distir("simulate", path).out.split("\n")[0]


def test_settings_name_function_and_sizes(distir, file):
    two = SMALL + SMALL.replace("@main", "@other").replace("(2, 3)", "(B, 3)")
    path = file("a.dir", two)
    file("distir.toml", 'entry = "other"\n[bind]\nB = 5\n')
    assert "@other on" in distir("simulate", path).out
    assert "@main on" in distir("simulate", path, "--function", "@main").out


def test_without_budget_memory_that_overflows_is_in_the_report(distir, file):
    """It was behind the report, on stderr, where a pipe or a notebook loses it."""
    huge = file("a.dir", SMALL.replace("(2, 3)", "(2, 300000)").replace("(3, 2)", "(300000, 2)"))
    ended = distir("simulate", huge, "--hardware", MACHINE)
    assert ended.code == 0
    assert "out of memory" not in ended.err
    said = ended.out.split("\n")
    assert "latency" in said[1]
    assert said[2].startswith("out of memory: device 1 has ")
    found = json.loads(distir("simulate", huge, "--hardware", MACHINE, "--json").out)
    assert [each[:12] for each in found["out_of_memory"]] == ["device 1 has"]
    assert found["devices"]["1"]["fits"] is False
    assert "out of memory: device 1" in api.simulate(api.parse(huge.read_text()), load(MACHINE))._repr_html_()
    ended = distir("simulate", huge, "--hardware", MACHINE, "--max-latency", "1h")
    assert ended.code == 1
    assert "DIR505" in ended.err


def test_a_size_that_there_is_not_is_met_with_what_there_is(distir, file):
    none = distir("simulate", file("a.dir", SMALL), "--bind", "N=3")
    assert none.code == 2
    assert "it has no named dimensions" in none.err
    some = distir("simulate", file("b.dir", PIPELINE), "--bind", "Q=3")
    assert "there is `B`" in some.err


def test_sizes_left_open_are_an_error_with_a_place(distir, file):
    ended = distir("simulate", file("a.dir", PIPELINE))
    assert (ended.code, ended.out) == (1, "")
    assert "DIR508" in ended.err
    assert "--bind B=64" in ended.err


def test_a_trace_is_written(distir, file, tmp_path):
    trace = tmp_path / "trace.json"
    assert distir("simulate", file("a.dir", PIPELINE), *BOUND, "--trace", trace).code == 0
    assert json.loads(trace.read_text())["traceEvents"]


def test_a_page_is_written(distir, file, tmp_path):
    pytest.importorskip("distir.simulate.page", exc_type=ImportError)
    page = tmp_path / "page.html"
    assert distir("simulate", file("a.dir", PIPELINE), *BOUND, "--html", page).code == 0
    assert "<html" in page.read_text()


def test_a_file_that_cannot_be_written_is_refused(distir, file, tmp_path):
    ended = distir("simulate", file("a.dir", SMALL), "--trace", tmp_path / "none" / "trace.json")
    assert ended.code == 2
    assert "cannot write" in ended.err


def test_a_stream_that_is_free_before_it_is_needed_is_no_idle_device(distir, file):
    """The sum waits for the products, on a stream of its own, and devices compute meanwhile; then they wait for it."""
    program = """\
func @main(%x: Tensor[Float32, (512, 512), 0], %y: Tensor[Float32, (512, 512), 1]) {
  %a = MatMul(%x, %x)
  %b = MatMul(%y, %y)
  %c, %d = MPIAllreduce(%a, %b) on reduce
  %e = Relu(%c)
  return %d, %e
}
"""
    found = json.loads(distir("simulate", file("a.dir", program), "--hardware", "dgx-h100", "--json").out)
    assert [(wait["device"], wait["before"]["op"]) for wait in found["waits"]] == [(0, "Relu")]
