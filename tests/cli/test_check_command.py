import json
import os
from pathlib import Path

import pytest
from cli_samples import MACHINE, PIPELINE, SMALL, UNUSED, WRONG
from command_line import Ended

from distir.cli.check import FORMAT_NAMES
from distir.diagnostics.formats import FORMATS

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_right_program_says_nothing_to_a_script(distir, file):
    ended = distir("check", file("a.dir", SMALL))
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_a_wrong_program_ends_with_1_and_diagnostics_on_standard_error(distir, file):
    ended = distir("check", file("a.dir", WRONG))
    assert ended.code == 1
    assert ended.out == ""
    assert "error[DIR301]" in ended.err
    assert "a.dir:2:" in ended.err
    assert "1 error in 1 file" in ended.err


def test_warnings_alone_are_shown_and_end_with_0(distir, file):
    ended = distir("check", file("a.dir", UNUSED))
    assert ended.code == 0
    assert "warning[" in ended.err


def test_a_folder_means_the_programs_in_it_and_below(distir, file, tmp_path):
    file("a.dir", SMALL)
    file("deep/er/b.dir", WRONG)
    file("deep/notes.txt", "no program")
    file(".hidden/c.dir", "broken")
    found = json.loads(distir("check", tmp_path, "--format", "json").out)
    assert [os.path.relpath(path, tmp_path) for path in found["files"]] == [
        "a.dir",
        os.path.join("deep", "er", "b.dir"),
    ]
    assert {d["file"] for d in found["diagnostics"]} == {str(tmp_path / "deep" / "er" / "b.dir")}


def test_a_folder_without_programs_is_refused(distir, tmp_path):
    ended = distir("check", tmp_path)
    assert ended.code == 2
    assert ended.err.startswith("error: there is no `.dir` file in")
    assert "help:" in ended.err


def test_a_file_is_checked_once_however_often_it_is_named(distir, file, tmp_path):
    path = file("a.dir", WRONG)
    assert json.loads(distir("check", path, tmp_path, path, "--format", "json").out)["files"] == [str(path)]


def test_standard_input(distir):
    ended = distir("check", "-", stdin=WRONG.encode())
    assert ended.code == 1
    assert "<stdin>:2:" in ended.err


def test_json_has_the_keys_that_others_read(distir, file):
    ended = distir("check", file("a.dir", WRONG), "--format", "json")
    assert ended.code == 1
    assert ended.err == ""
    document = json.loads(ended.out)
    assert document.keys() >= {"files", "diagnostics"}
    (found,) = document["diagnostics"]
    places = {"line", "column", "end_line", "end_column"}
    assert found.keys() >= {"code", "name", "severity", "message", "file", "notes", "help"} | places
    assert (found["code"], found["severity"], found["line"]) == ("DIR301", "error", 2)


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_every_format_reports_the_same_and_ends_alike(distir, file, name):
    ended = distir("check", file("a.dir", WRONG), "--format", name)
    assert ended.code == 1
    assert "DIR301" in (ended.err if name == "text" else ended.out)


def test_the_formats_offered_are_those_that_exist():
    assert set(FORMAT_NAMES) == FORMATS.keys()


def test_an_unknown_format_is_refused_with_the_nearest(distir, file):
    ended = distir("check", file("a.dir", SMALL), "--format", "jsn")
    assert ended.code == 2
    assert "did you mean `json`?" in ended.err


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--max-latency", "1us"), "DIR506"),
        (("--max-memory", "10B"), "DIR507"),
        (("--hardware", MACHINE, "--max-latency", "1s", "--max-memory", "1GB"), None),
    ],
)
def test_budgets_by_flags(distir, file, flags, code):
    found = json.loads(distir("check", file("a.dir", SMALL), "--format", "json", *flags).out)["diagnostics"]
    assert {d["code"] for d in found} == ({code} if code else set())


def test_hardware_alone_asks_for_memory_only(distir, file):
    huge = SMALL.replace("(2, 3)", "(2, 300000)").replace("(3, 2)", "(300000, 2)")
    ended = distir("check", file("a.dir", huge), "--hardware", MACHINE)
    assert ended.code == 1
    assert "DIR505" in ended.err


def test_a_budget_in_the_settings_makes_simulation_part_of_the_check(distir, file):
    path = file("a.dir", SMALL)
    file("distir.toml", '[budget]\nmax_latency = "1us"\n')
    ended = distir("check", path)
    assert ended.code == 1
    assert "DIR506" in ended.err
    assert distir("check", path, "--max-latency", "1s").code == 0


def test_open_sizes_are_said_where_a_budget_is_asked_for_and_only_there(distir, file):
    path = file("a.dir", PIPELINE)
    assert distir("check", path).code == 0
    ended = distir("check", path, "--max-latency", "5ms")
    assert ended.code == 1
    assert "DIR508" in ended.err
    file("distir.toml", "[bind]\nB = 8\nunused = 3\n")
    assert distir("check", path, "--max-latency", "5ms").code == 0


@pytest.mark.parametrize("budget", ["5", "5parsec", "-5ms", "5GB"])
def test_a_budget_that_is_no_time_is_refused(distir, file, budget):
    ended = distir("check", file("a.dir", SMALL), "--max-latency", budget)
    assert ended.code == 2
    assert "`--max-latency`: expected a duration" in ended.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--max-latency", "5"), "`--max-latency`: expected a duration"),
        (("--max-memory", "5ms"), "`--max-memory`: expected a memory size"),
        (("--hardware", "dgx-h10"), "did you mean `dgx-h100`?"),
    ],
)
def test_a_flag_that_is_wrong_is_said_once_however_many_files_there_are(distir, file, tmp_path, flags, said):
    for name in ("a.dir", "b.dir", "c.dir"):
        file(name, WRONG)
    file("d.dir", SMALL)
    ended = distir("check", tmp_path, *flags)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("error") == 1
    assert said in ended.err


@pytest.mark.parametrize(
    "setting", ['hardware = "dgx-h10"\n[budget]\nmax_latency = "5s"', '[budget]\nmax_latency = "5GB"']
)
def test_a_setting_that_nothing_can_be_simulated_with_is_said_once_beside_what_else_is_found(
    distir, file, tmp_path, setting
):
    file("distir.toml", setting)
    for name in ("a.dir", "b.dir"):
        file(name, SMALL)
    file("c.dir", WRONG)
    ended = distir("check", tmp_path)
    assert ended.code == 2
    assert ended.err.count("unknown hardware") + ended.err.count("`max_latency` in") == 1
    assert "DIR301" in ended.err


def test_broken_settings_are_reported_once_beside_what_else_is_found(distir, file, tmp_path):
    file("a.dir", WRONG)
    file("b.dir", SMALL)
    file("c.dir", SMALL)
    file("distir.toml", "hardwear = 'x'\n")
    ended = distir("check", tmp_path)
    assert ended.code == 1
    assert ended.err.count("DIR153") == 1
    assert "DIR301" in ended.err


def test_an_unreadable_file_does_not_hide_what_is_found_in_others(distir, file, tmp_path):
    ended = distir("check", file("a.dir", WRONG), tmp_path / "missing.dir")
    assert ended.code == 2
    assert "DIR301" in ended.err
    assert "missing.dir`: no such file or directory" in ended.err


@pytest.mark.parametrize("words", [("check",), ("fmt", "--check")])
def test_nothing_is_said_of_the_examples(distir, words):
    """What `make demo` begins with."""
    assert distir(*words, EXAMPLES) == Ended(0, "", "")
