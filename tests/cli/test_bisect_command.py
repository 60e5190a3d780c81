import json
import shutil
import subprocess
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PIPELINE, SWAPPED = ((EXAMPLES / f"{name}.dir").read_text() for name in ("mlp_pipeline", "mlp_pipeline_swapped"))
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A folder under git, and a way to commit texts of one file there."""

    def git(*words):
        named = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *named, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch=main")
    monkeypatch.chdir(tmp_path)

    def commit(subject, text, name="program.dir"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        git("add", "-A")
        git("commit", "-m", subject)

    commit.git = git
    return commit


def found(ended):
    document = json.loads(ended.out)
    by_commit = {version["commit"]: version for version in document["versions"]}
    return document, by_commit[document["first"]]["subject"] if document["first"] else None


def test_the_commit_that_made_the_step_slower_is_found_without_simulating_all(distir, repository):
    for number in range(6):
        repository(f"comment {number}", f"// {number}\n{PIPELINE}")
    repository("swap", SWAPPED)
    for number in range(6):
        repository(f"more {number}", f"// {number}\n{SWAPPED}")
    ended = distir("bisect", "HEAD~12..HEAD", "program.dir", "--fail-if", "latency>+5%", "--json")
    document, subject = found(ended)
    assert (ended.code, subject) == (1, "swap")
    assert document["commits"] == 13
    assert len(document["versions"]) < 8
    assert document["condition"]["b"] > 1.05 * document["condition"]["a"]


def test_versions_that_do_not_check_are_passed_over(distir, repository):
    repository("first", PIPELINE)
    repository("typo", PIPELINE.replace("Relu", "Rellu"))
    repository("swap", SWAPPED)
    repository("typo again", SWAPPED.replace("Relu", "Rellu"))
    repository("last", SWAPPED + "// end\n")
    _, subject = found(distir("bisect", "program.dir", "--fail-if", "latency>+5%", "--json"))
    assert subject == "swap"
    shown = distir("bisect", "program.dir").out
    assert "typo (" in shown
    assert shown.startswith("3 of 5 versions simulated")
    assert "+7.8%" in shown


def test_a_renamed_file_keeps_its_history(distir, repository):
    repository("first", PIPELINE)
    repository.git("mv", "program.dir", "größer.dir")
    repository("swap", SWAPPED, "größer.dir")
    document, subject = found(distir("bisect", "größer.dir", "--fail-if", "latency>+5%", "--json"))
    assert (document["commits"], subject) == (2, "swap")


def test_nothing_found_is_no_failure(distir, repository):
    repository("first", PIPELINE)
    repository("comment", f"// more\n{PIPELINE}")
    ended = distir("bisect", "program.dir", "--fail-if", "latency>+5%")
    assert ended.code == 0
    assert "meets none" in ended.out


def test_a_range_that_is_turned_round_is_no_success(distir, repository):
    repository("first", PIPELINE)
    repository("swap", SWAPPED)
    ended = distir("bisect", "HEAD..HEAD~1", "program.dir", "--fail-if", "latency>+5%")
    assert (ended.code, "write `HEAD~1..HEAD`" in ended.err) == (2, True)
    assert distir("bisect", "HEAD..HEAD", "program.dir", "--fail-if", "latency>+5%").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nosuch..HEAD", "program.dir"), "git knows no commit `nosuch`"),
        (("--", "--output=evil", "program.dir"), "git knows no commit `--output=evil`"),
        (("HEAD", "other.dir"), "no commit of `HEAD` changes `other.dir`"),
        (("a", "b", "program.dir"), "expected at most a range"),
        (("program.dir", "--fail-if", "speed>1"), "unknown metric"),
    ],
)
def test_what_git_does_not_know_is_refused_in_a_line(distir, repository, words, said):
    repository("first", PIPELINE)
    ended = distir("bisect", *words)
    assert ended.code == 2
    assert said in ended.err
    assert not Path("evil").exists()


def test_outside_of_git_it_says_so(distir, tmp_path):
    (tmp_path / "program.dir").write_text(PIPELINE)
    ended = distir("bisect", tmp_path / "program.dir")
    assert (ended.code, "not in a git repository" in ended.err) == (2, True)
