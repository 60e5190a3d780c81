"""`distir validate`: what it prints, writes and refuses."""

import csv
import json
import re
from pathlib import Path

import pytest
from run_samples import HEADER, changed, row

from distir.validate import plan_of, read_runs
from distir.validate.frameworks import GENERIC
from distir.validate.machines import machine
from distir.validate.origin import inputs_digest

MEASURED = Path(__file__).parents[2] / "examples/measured"


def test_groups_and_what_cannot_be_expressed_are_listed(distir, runs_file):
    path = runs_file(row(id="a:1"), row(id="a:2", micro_batch=2), row(id="a:3", micro_batch=""))
    ended = distir("validate", path)
    assert ended.code == 0
    assert "runs/megatron" in ended.out
    assert "2/3" in ended.out
    assert "1 run cannot be expressed" in ended.out
    assert "the micro batch is not stated: a:3" in ended.out


def test_runs_of_unknown_machines_are_listed_beside_the_others(distir, runs_file):
    path = runs_file(row(id="a:1"), row(id="a:2", gpu="k80"), row(id="a:3", framework="megatrn"))
    ended = distir("validate", path)
    assert ended.code == 0
    assert "runs/megatron" in ended.out
    assert "2 runs cannot be expressed" in ended.out
    assert "there is no gpu `k80`; expected one of a100_40gb" in ended.out
    assert "there is no framework `megatrn`; did you mean `megatron`?" in ended.out


def test_runs_of_an_unknown_framework_are_predicted_as_generic(distir, runs_file):
    """Under their own name; what that means, and how sure it is, is said once."""
    path = runs_file(row(id="a:1", framework="nanotron"), row(id="a:2", framework="Nanotron"), row(id="a:3"))
    ended = distir("validate", path)
    assert ended.code == 0
    assert "runs/nanotron" in ended.out
    assert "cannot be expressed" not in ended.out
    assert ended.err.count("the framework `nanotron` is not known: its runs are predicted as `generic`") == 1
    low, high = GENERIC.band
    assert f"take {low:g} to {high:g} times as long as these predictions" in ended.err
    run = read_runs(str(path))[0]
    assert plan_of(run) == plan_of(changed(run, framework="generic"))


def test_a_run_of_which_the_prediction_fails_is_listed_beside_the_others(distir, runs_file, monkeypatch):
    from distir.validate import predictions

    plan_of = predictions.plan_of
    monkeypatch.setattr(predictions, "plan_of", lambda run: plan_of(run) if run.id == "a:1" else {}["num_outputs"])
    ended = distir("validate", runs_file(row(id="a:1"), row(id="a:2")), "--jobs", "1")
    assert ended.code == 0
    assert "1/2" in ended.out
    assert "DistIR failed with KeyError: 'num_outputs': a:2" in ended.out


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_run_of_which_the_prediction_fails_cannot_be_explained(distir, runs_file, monkeypatch, words):
    from distir.validate import explaining

    monkeypatch.setattr(explaining, "plan_of", lambda run: {}["num_outputs"])
    ended = distir("validate", runs_file(row(id="a:1")), "--explain", "a:1", *words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: `a:1` cannot be predicted: DistIR failed with KeyError: 'num_outputs'\n"


def test_a_run_whose_memory_alone_is_known_and_one_that_is_known_to_fit_are_compared(distir, runs_file):
    path = runs_file(row(id="a:1", step_time_s="", peak_memory_bytes=10**9), row(id="a:2", step_time_s="", seq=128))
    ended = distir("validate", path, "--json")
    (group,) = json.loads(ended.out)["groups"]
    assert (group["time"], group["memory"]["n"], group["memory"]["right"]) == (None, 2, 2)
    assert group["memory_error"]["n"] == 1
    found = json.loads(ended.out)["runs"][0]
    assert found["memory_error"] == pytest.approx(found["reported_memory_bytes"] / 10**9 - 1)


def test_a_line_says_how_far_it_is_where_there_is_no_terminal(distir, runs_file, monkeypatch):
    from distir.cli import counting

    monkeypatch.setattr(counting, "EVERY_S", 0)
    ended = distir("validate", runs_file(*(row(id=f"a:{k}") for k in range(3))), "--jobs", "1")
    assert ended.err.splitlines() == ["predicting: 1 of 3", "predicting: 2 of 3"]


FIGURES = ["id", "step_time_s", "peak_memory_bytes", "fits", "fit", "capacity_bytes", "reported_memory_bytes", "note"]


def held(path):
    """The rows of a CSV of predictions, by id."""
    with path.open() as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def marked(path, **changed):
    """Replace cells in all rows, as if something else had written them."""
    rows = [row | changed for row in held(path).values()]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def test_predictions_are_written_and_continued_from(distir, runs_file, tmp_path):
    path, out = runs_file(row(id="a:1"), row(id="a:2", micro_batch=2)), tmp_path / "out.csv"
    assert distir("validate", path, "--csv", out).code == 0
    assert list(held(out)["a:1"])[: len(FIGURES)] == FIGURES
    assert list(held(out)) == ["a:1", "a:2"]
    marked(out, step_time_s="123.0")
    out.write_text(out.read_text()[:-7])  # as if ended while it wrote the last row
    ended = distir("validate", path, "--csv", out)
    assert (ended.code, ended.err) == (0, "")
    assert held(out)["a:1"]["step_time_s"] == "123.0"
    assert float(held(out)["a:2"]["step_time_s"]) < 10


@pytest.mark.parametrize("digest", ["inputs", "code"])
def test_what_other_code_or_figures_predicted_is_predicted_anew_and_said(distir, runs_file, tmp_path, digest):
    path, out = runs_file(row(id="a:1"), row(id="a:2", micro_batch=2)), tmp_path / "out.csv"
    distir("validate", path, "--csv", out)
    before = out.read_text()
    marked(out, **{digest: "0" * 12, "step_time_s": "123.0"})
    ended = distir("validate", path, "--csv", out)
    assert ended.code == 0
    assert ended.err.splitlines() == [f"2 predictions in `{out}` of other code, figures or rows: predicted anew"]
    assert out.read_text() == before


def test_a_changed_row_is_predicted_anew_and_a_changed_measurement_is_not(distir, runs_file, tmp_path):
    out = tmp_path / "out.csv"
    distir("validate", runs_file(row(id="a:1"), row(id="a:2")), "--csv", out)
    before = held(out)
    ended = distir("validate", runs_file(row(id="a:1", step_time_s=0.2), row(id="a:2", seq=128)), "--csv", out)
    assert "1 prediction in" in ended.err
    after = held(out)
    assert after["a:1"] == before["a:1"]
    assert float(after["a:2"]["step_time_s"]) < float(before["a:2"]["step_time_s"])


def test_a_file_of_a_version_that_did_not_say_of_what_its_predictions_are(distir, runs_file, tmp_path):
    path, out = runs_file(row(id="a:1")), tmp_path / "out.csv"
    out.write_text("id,step_time_s,peak_memory_bytes,fits,note\na:1,123.0,1,true,\n")
    assert "1 prediction in" in distir("validate", path, "--csv", out).err
    assert held(out)["a:1"]["step_time_s"] != "123.0"


@pytest.mark.parametrize("digests", ["", ",inputs,code"])
def test_a_file_of_a_version_whose_peak_was_the_reported_one(distir, runs_file, tmp_path, digests):
    """What it holds of other runs stays, under the name of today."""
    out = tmp_path / "out.csv"
    head = "id,step_time_s,peak_memory_bytes,fits,note"
    out.write_text(f"{head}{digests}\nz:9,1.5,77,true,{digests.replace('inputs', 'aa').replace('code', 'bb')}\n")
    assert distir("validate", runs_file(row(id="a:1")), "--csv", out).code == 0
    earlier = held(out)["z:9"]
    assert list(earlier)[: len(FIGURES)] == FIGURES
    assert (earlier["reported_memory_bytes"], earlier["peak_memory_bytes"], earlier["fits"]) == ("77", "", "true")
    assert held(out)["a:1"]["peak_memory_bytes"] != ""


def test_whether_a_run_fits_has_the_band_that_its_machine_states_today(distir, runs_file, tmp_path):
    """The band is no input of a prediction: where it changes, nothing is predicted anew."""
    path, out, profile = runs_file(row(id="a:1")), tmp_path / "out.csv", tmp_path / "m.toml"
    for high, fit in (("1.1", "fits"), ("100", "may not fit")):
        text = 'title = "a node"\nextends = "dgx-a100"\n[sources]\nruns = "made up"\n[published]\nlow = 1\nhigh = 1\n'
        profile.write_text(f'{text}memory_low = 0.9\nmemory_high = {high}\nsource = "runs"\nbasis = "measured"\n')
        ended = distir("validate", path, "--hardware", profile, "--csv", out, "--json")
        assert (ended.code, "predicted anew" in ended.err) == (0, False)
        assert (held(out)["a:1"]["fits"], held(out)["a:1"]["fit"]) == ("true", fit)
        assert [each["fit"] for each in json.loads(ended.out)["runs"]] == [fit]
    head, line = out.read_text().splitlines()
    out.write_text(head.replace(",fit,", ",") + "\n" + line.replace(",may not fit,", ",") + "\n")
    assert distir("validate", path, "--hardware", profile, "--csv", out).err == ""
    assert held(out)["a:1"]["fit"] == "may not fit", "a file of a version that did not say it"


def test_predictions_of_other_runs_stay(distir, runs_file, tmp_path):
    out = tmp_path / "out.csv"
    distir("validate", runs_file(row(id="a:1")), "--csv", out)
    before = held(out)["a:1"]
    assert distir("validate", runs_file(row(id="a:2"), name="more.csv"), "--csv", out).err == ""
    assert list(held(out)) == ["a:1", "a:2"]
    assert held(out)["a:1"] == before


def test_as_json(distir, runs_file):
    ended = distir("validate", runs_file(row(step_time_s=0.01)), "--json")
    found = json.loads(ended.out)
    assert found["runs"][0]["time_error"] == pytest.approx(found["runs"][0]["step_time_s"] / 0.01 - 1)
    assert found["groups"][0]["runs"] == 1


def test_pictures_and_a_page(distir, runs_file, tmp_path):
    path = runs_file(row())
    ended = distir("validate", path, "--plot", tmp_path / "errors.svg", "--html", tmp_path / "page.html")
    assert ended.code == 0
    assert "<svg" in (tmp_path / "errors.svg").read_text()
    assert "r:1" in (tmp_path / "page.html").read_text()
    assert distir("validate", path, "--plot", tmp_path / "errors.gif").code == 2
    ended = distir("validate", path, "--html", tmp_path / "none" / "page.html")
    assert ended.code == 2
    assert "none/page.html" in ended.err
    assert ended.out == ""  # refused before runs are predicted


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_page_that_cannot_be_written_after_all_loses_nothing(distir, runs_file):
    ended = distir("validate", runs_file(row()), "--html", "/dev/full")
    assert ended.code == 2
    assert "no space left on device" in ended.err
    assert "runs/megatron" in ended.out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpu": "a100"}, "runs.csv:3:9: there is no gpu `a100`"),
        ({"framework": "megatrn"}, "runs.csv:3:17: there is no framework `megatrn`"),
        ({"layers": "x"}, "runs.csv:3:4: `layers` expected a whole number"),
    ],
)
def test_one_message_with_line_and_column(distir, runs_file, given, said):
    ended = distir("validate", runs_file(row(**given)))
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("error") == 1
    assert "Traceback" not in ended.err


def test_a_missing_file_is_refused(distir, tmp_path):
    ended = distir("validate", tmp_path / "none.csv")
    assert ended.code == 2
    assert "cannot read" in ended.err


def test_a_file_that_holds_no_predictions_is_left_alone(distir, runs_file, tmp_path):
    out = tmp_path / "notes.csv"
    out.write_text("my notes\nare here\n")
    ended = distir("validate", runs_file(row()), "--csv", out)
    assert ended.code == 2
    assert "holds no predictions" in ended.err
    assert out.read_text() == "my notes\nare here\n"


def test_same_predictions_on_several_processes(distir, runs_file):
    rows = [row(id=f"a:{i}", layers=2 + i) for i in range(9)]
    path = runs_file(*rows)
    alone, together = (json.loads(distir("validate", path, "--json", "--jobs", n).out) for n in (1, 2))
    assert alone == together


def test_what_ifs_of_a_run_are_ordered(distir, runs_file):
    path = runs_file(row(id="a:1", framework="vtrain"))
    ended = distir("validate", path, "--explain", "a:1", "--json")
    causes = json.loads(ended.out)["causes"]
    changes = [abs(cause["change"]) for cause in causes]
    assert changes == sorted(changes, reverse=True)
    assert {cause["name"] for cause in causes} == {"launch", "kernels", "overlap", "links", "memory", "products"}
    assert all(c["change"] <= 0 for c in causes if c["name"] in ("launch", "links", "memory"))
    shown = distir("validate", path, "--explain", "a:1")
    assert "a:1: predicted" in shown.out
    (line,) = (line for line in shown.out.splitlines() if line.startswith("launch"))
    (launch,) = (cause for cause in causes if cause["name"] == "launch")
    assert line.endswith(f"{100 * (launch['seconds'] / 0.1 - 1):+.1f} %")  # with each what-if, how far off it is
    assert "there is `a:1`" in distir("validate", path, "--explain", "a:2").err


def test_what_ifs_say_that_they_do_not_add_up(distir, runs_file):
    """What runs at the same time is hidden by what remains: taken away at once, causes may save more, or less."""
    path = runs_file(row(id="a:1", framework="vtrain"))
    found = json.loads(distir("validate", path, "--explain", "a:1", "--json").out)
    away = [cause["change"] for cause in found["causes"] if cause["name"] in ("launch", "links", "memory", "products")]
    assert found["one_by_one"] == pytest.approx(sum(away))
    assert -found["predicted_s"] < found["together"] < min(away)
    shares = [f"{100 * found[name] / found['predicted_s']:+.1f} %" for name in ("one_by_one", "together")]
    last = distir("validate", path, "--explain", "a:1").out.splitlines()[-1]
    assert last.startswith(f"all of launch, links, memory, products: {shares[0]} one by one, {shares[1]} all at once")


def test_a_what_if_that_cannot_be_simulated_is_listed_with_its_reason(distir, runs_file, monkeypatch):
    """One fails, as a machine without its links may; the others are shown, and nothing is said of all at once."""
    from distir.cost import HardwareError
    from distir.validate import explaining

    def fails(program):
        raise HardwareError(["it has no links"])

    changed = {**explaining.WHAT_IFS, "links": ("communication takes no time", fails)}
    monkeypatch.setattr(explaining, "WHAT_IFS", changed)
    path = runs_file(row(id="a:1", framework="vtrain"))
    found = json.loads(distir("validate", path, "--explain", "a:1", "--json").out)
    (links,) = (cause for cause in found["causes"] if cause["name"] == "links")
    assert (links["seconds"], links["change"], links["reason"]) == (None, None, "it has no links")
    assert found["together"] is None
    *_, last, one, all_at_once = distir("validate", path, "--explain", "a:1").out.splitlines()
    assert "one by one; what-ifs overlap" in last
    assert one == "`links` cannot be simulated: it has no links"
    assert all_at_once == "`all at once` cannot be simulated: it has no links"


@pytest.mark.parametrize("option", ["--csv", "--plot", "--html"])
def test_what_ifs_of_a_run_write_no_file_of_all_runs(distir, runs_file, tmp_path, option):
    out = tmp_path / "out.svg"
    ended = distir("validate", runs_file(row(id="a:1")), "--explain", "a:1", option, out)
    assert ended.code == 2
    assert f"`--explain` is of one run, and `{option}` of all" in ended.err
    assert not out.exists()


def test_a_picture_that_cannot_be_written_is_refused_before_runs_are_predicted(distir, runs_file, tmp_path):
    ended = distir("validate", runs_file(row(id="a:1")), "--plot", tmp_path / "errors.gif")
    assert (ended.code, ended.out) == (2, "")
    assert "expected a picture ending in .png, .svg, .pdf" in ended.err


def test_the_page_has_the_figures_of_the_table(distir, runs_file, tmp_path):
    rows = [row(id=f"r:{n}", layers=n, step_time_s=0.01 * n, peak_memory_bytes=10**9) for n in (2, 3, 4)]
    page = tmp_path / "page.html"
    shown = distir("validate", runs_file(*rows), "--html", page).out
    (head, group) = re.findall(r"<tr>(.*?)</tr>", page.read_text().split("<h2>Runs</h2>")[0])
    words = [word for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", head + group) for word in cell.split()]
    assert words == shown.split()


def test_a_machine_of_the_users_own(distir, runs_file, tmp_path):
    """Its nodes are in the place of what rows say; a profile that changes nothing predicts the same."""
    same, slow = tmp_path / "same.toml", tmp_path / "slow.toml"
    same.write_text('title = "ours"\nextends = "a100-80"\n')
    figures = 'startup = "1ms"\nlatency = "1ms"\nbandwidth = "1GB/s"\nsource = "ours"\nbasis = "estimated"\n'
    links = "".join(f"[levels.nvlink.{use}]\n{figures}" for use in ("send", "collective", "low_latency"))
    slow.write_text(f'title = "ours"\nextends = "a100-80"\n[sources]\nours = "us"\n{links}')
    times = {}
    for name, gpu, words in [
        ("plain", "a100_80gb", ()),
        ("same", "a100_80gb", ("--hardware", same)),
        ("slow", "a100_80gb", ("--hardware", slow)),
        ("other", "mi300x", ("--hardware", slow)),
    ]:
        ended = distir("validate", runs_file(row(gpu=gpu)), "--json", *words)
        times[name] = json.loads(ended.out)["runs"][0]["step_time_s"]
    assert times["plain"] == times["same"] < times["slow"] == times["other"]
    ended = distir("validate", runs_file(row()), "--hardware", "none.toml")
    assert (ended.code, ended.err.count("error")) == (2, 1)
    assert "none.toml" in ended.err


def test_a_mistyped_column_is_warned_about(distir, runs_file):
    ended = distir("validate", runs_file(row(), header=HEADER.replace("recompute", "recomputation")))
    assert ended.code == 0
    assert "did you mean `recompute`?" in ended.err


def test_a_prediction_is_of_its_profile_but_not_of_what_follows_from_predictions(runs_file, tmp_path):
    """A changed figure makes another digest; the band of published runs, and the text of a note, do not."""
    path = tmp_path / "ours.toml"
    (run,) = read_runs(runs_file(row() + f",{path}", header=HEADER + ",hardware"))

    def digest(more):
        path.write_text(f'title = "ours"\nextends = "a100-80"\n[sources]\nours = "us"\n{more}')
        machine.cache_clear()
        return inputs_digest(run)

    estimated = 'source = "ours"\nbasis = "estimated"\n'
    plain = digest("")
    assert digest(f"[published]\nlow = 0.5\nhigh = 2\napart = 1\n{estimated}") == plain
    assert digest('[kinds.a100]\nmemory = { value = "79GB", source = "ours", basis = "estimated" }\n') != plain
