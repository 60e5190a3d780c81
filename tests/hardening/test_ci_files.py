"""The GitHub Action, the hooks and the example workflow: they are what they say, and their commands run."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
import yaml

from distir.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
CI = ROOT / "examples" / "ci"
WORKFLOWS = [CI / "distir.yml", *sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
COMMAND = f"""#!/bin/sh
exec "{sys.executable}" -c "import sys; from distir.cli import main; sys.exit(main())" "$@"
"""
GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

GOOD = "func @main(%x: Tensor[Float32, (64, 64), 1]) {\n  %y = MatMul(%x, %x)\n  return %y\n}\n"
WRONG = GOOD.replace("%x)\n", "%z)\n")
SLOWER = GOOD.replace("  return %y", "  %z = MatMul(%y, %y)\n  return %z")


@pytest.fixture
def runner(tmp_path):
    """Runs a step of the action as GitHub would: its script under bash, its inputs as variables."""
    installed = tmp_path / "temp" / "distir" / "bin"
    installed.mkdir(parents=True)
    for name, script in (("distir", COMMAND), ("python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')):
        command = installed / name
        command.write_text(script)
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
    work = tmp_path / "work"
    work.mkdir()
    output = tmp_path / "output"

    def run(**inputs):
        (step,) = (step for step in ACTION["runs"]["steps"] if step.get("id") == "check")
        given = {name: described.get("default", "") for name, described in ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        variables = {
            name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda m: given[m[1]], value)
            for name, value in step["env"].items()
        }
        output.write_text("")
        environment = {
            **os.environ,
            **GIT,
            **variables,
            "HERE": str(ROOT),
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(tmp_path / "temp"),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_WORKSPACE": str(work),
        }
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(shell, cwd=work, env=environment, capture_output=True, text=True, check=False)
        outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return done, outputs

    run.folder = work
    return run


def test_the_action_finds_nothing_wrong(runner):
    (runner.folder / "a.dir").write_text(GOOD)
    done, outputs = runner()
    assert (done.returncode, outputs["exit-code"]) == (0, "0"), done.stderr
    log = json.loads((runner.folder / outputs["sarif"]).read_text())
    assert log["runs"][0]["results"] == []


def test_the_action_annotates_what_is_wrong(runner):
    (runner.folder / "models").mkdir()
    (runner.folder / "models" / "a b.dir").write_text(WRONG)
    (runner.folder / "b.dir").write_text(GOOD)
    done, outputs = runner(paths="models\n\nb.dir\n")
    assert (done.returncode, outputs["exit-code"]) == (1, "1")
    assert re.search(r"^::error file=models/a b\.dir,line=2", done.stdout, re.MULTILINE)
    (result,) = json.loads((runner.folder / "distir.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "models/a%20b.dir"


@pytest.mark.parametrize(
    ("budget", "code"), [({"max_latency": "1h"}, 0), ({"max_latency": "1ns"}, 1), ({"max_memory": "1kB"}, 1)]
)
def test_the_action_holds_programs_to_a_budget(runner, budget, code):
    (runner.folder / "a.dir").write_text(GOOD)
    done, outputs = runner(hardware="dgx-a100", sarif="", **budget)
    assert done.returncode == code, done.stderr
    assert "sarif" not in outputs


@pytest.fixture
def changed(runner):
    """The action's folder as a repository in which a program takes longer than in its only commit."""

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        environment = {**os.environ, **GIT}
        subprocess.run(["git", *identity, *words], cwd=runner.folder, env=environment, check=True, capture_output=True)

    (runner.folder / "a.dir").write_text(GOOD)
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    (runner.folder / "a.dir").write_text(SLOWER)


@pytest.mark.usefixtures("changed")
@pytest.mark.parametrize(
    ("conditions", "code"),
    [
        ("", 0),
        ("latency>+900%\n\n  memory>+900%\n", 0),
        ("memory>+900%\nlatency>+5%\n", 1),
        ("$(touch owned)", 1),
    ],
)
def test_the_action_holds_changes_to_conditions(runner, conditions, code):
    done, outputs = runner(base="HEAD", fail_if=conditions, hardware="dgx-a100")
    assert (done.returncode, outputs["exit-code"]) == (code, str(code)), done.stderr
    said = Path(outputs["comparison"]).read_text()
    assert said in done.stdout
    assert ("| `latency>+5%` |" in said) == ("latency>+5%" in conditions)
    assert ("**fails**" in said) == ("latency>+5%" in conditions)
    assert not (runner.folder / "owned").exists()
    (picture,) = Path(outputs["pictures"]).iterdir() if "owned" not in conditions else [None]
    if picture is not None:
        assert picture.name == "a.dir.svg"
        assert fromstring(picture.read_text()).tag.endswith("svg")
        assert "\nA, " in said, "the timelines as characters, for the comment"


def test_conditions_without_a_commit_to_compare_with_are_passed_over_aloud(runner):
    (runner.folder / "a.dir").write_text(GOOD)
    done, outputs = runner(fail_if="latency>+5%")
    assert done.returncode == 0
    assert "::notice::there is no commit to compare with" in done.stdout
    assert "comparison" not in outputs


@pytest.mark.usefixtures("changed")
def test_a_commit_that_is_not_there_is_said(runner):
    done, outputs = runner(base="nowhere")
    assert (done.returncode, outputs["exit-code"]) == (2, "2")
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_action_says_what_cannot_be_done(runner):
    done, outputs = runner(paths="nowhere.dir")
    assert (done.returncode, outputs["exit-code"]) == (2, "2")
    assert "sarif" not in outputs


@pytest.mark.each_once
@pytest.mark.parametrize("name", ["paths", "hardware", "max_latency", "base"])
@pytest.mark.parametrize(
    "hostile", ["$(touch owned)", "`touch owned`", "'; touch owned; '", '"; touch owned #', "--fix"]
)
def test_inputs_of_the_action_are_no_code(runner, hostile, name):
    (runner.folder / "a.dir").write_text(GOOD)
    done, _ = runner(**{name: hostile})
    assert done.returncode == 2
    assert not (runner.folder / "owned").exists()


def test_no_script_has_inputs_written_into_it():
    """`${{ … }}` in a script would make code of what a pull request is called."""
    steps = list(ACTION["runs"]["steps"])
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            steps += job["steps"]
            assert "runs-on" in job
    assert sum("run" in step for step in steps) >= 6
    for step in steps:
        assert "${{" not in step.get("run", "")
        assert ("run" in step) != ("uses" in step)


def test_inputs_and_outputs_of_the_action_are_used():
    text = (ROOT / "action.yml").read_text()
    for name in ACTION["inputs"]:
        assert f"inputs.{name} " in text
    example = yaml.safe_load((CI / "distir.yml").read_text())
    (used,) = (s for s in example["jobs"]["check"]["steps"] if s.get("id") == "distir")
    assert used["with"].keys() <= ACTION["inputs"].keys()
    referred = set(re.findall(r"steps\.distir\.outputs\.([a-z-]+)", (CI / "distir.yml").read_text()))
    assert referred <= ACTION["outputs"].keys()


def test_hooks_name_commands_and_files():
    for hook in HOOKS:
        program, command = hook["entry"].split()
        assert program == "distir"
        assert command in COMMANDS
        assert hook["language"] == "python"
        assert re.search(hook["files"], "models/a.dir")
        assert not re.search(hook["files"], "models/a.direct")
    (repo,) = yaml.safe_load((CI / "pre-commit-config.yaml").read_text())["repos"]
    assert {hook["id"] for hook in repo["hooks"]} <= {hook["id"] for hook in HOOKS}


@pytest.fixture
def repository(tmp_path):
    """A repository with a commit of two programs."""
    folder = tmp_path / "repository"
    folder.mkdir()

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        environment = {**os.environ, **GIT}
        return subprocess.run(["git", *identity, *words], cwd=folder, env=environment, check=True, capture_output=True)

    (folder / "a.dir").write_text(GOOD)
    (folder / "gone.dir").write_text(GOOD)
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    return folder


def comparison(repository, *flags, code=0):
    """What `compare.py` says of the repository's working tree."""
    command = repository.parent / "distir"
    command.write_text(COMMAND)
    command.chmod(0o755)
    words = [sys.executable, str(CI / "compare.py"), "HEAD", "--distir", str(command), *flags]
    environment = {**os.environ, **GIT, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_a_pull_request_gets_a_summary_of_what_it_changes(repository):
    assert "Nothing." in comparison(repository)
    (repository / "a.dir").write_text(SLOWER)
    (repository / "gone.dir").unlink()
    said = comparison(repository)
    assert "A is `@main` of before/a.dir, B is `@main` of after/a.dir" in said
    assert "| latency |" in said
    assert "Gone: `gone.dir`" in said


def test_the_summary_fits_into_a_comment(repository):
    for number in range(80):
        (repository / f"program{number}.dir").write_text(GOOD)
    subprocess.run(["git", "add", "."], cwd=repository, check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(
        ["git", *identity, "commit", "--quiet", "-m", "b"], cwd=repository, check=True, env={**os.environ, **GIT}
    )
    for number in range(80):
        (repository / f"program{number}.dir").write_text(SLOWER)
    script = repository.parent / "distir-said"
    script.write_text("#!/bin/sh\nyes 'a line of what diff says' | head -c 2000\n")
    script.chmod(0o755)
    said = comparison(repository, "--distir", str(script))
    assert 50_000 < len(said) < 65_536
    assert "`program79.dir`" in said, "what does not fit is named"


def test_a_change_that_a_condition_rules_out_fails(repository):
    (repository / "a.dir").write_text(SLOWER)
    assert "**fails**" not in comparison(repository, "--fail-if", "latency>+900%")
    said = comparison(repository, "--fail-if", "latency>+900%", "--fail-if", "latency>+5%", code=1)
    assert said.count("**fails**") == 1
    (repository / "a.dir").write_text(WRONG)
    assert "cannot be compared" in comparison(repository, "--fail-if", "latency>+5%", code=1)


def test_a_program_that_is_renamed_does_not_escape_a_condition(repository):
    (repository / "gone.dir").rename(repository / "moved.dir")
    subprocess.run(["git", "add", "--intent-to-add", "."], cwd=repository, check=True)
    assert "B is `@main` of after/moved.dir" in comparison(repository, "--fail-if", "latency>+5%")
    (repository / "moved.dir").write_text(SLOWER)
    said = comparison(repository, "--fail-if", "latency>+5%", code=1)
    assert "A is `@main` of before/gone.dir, B is `@main` of after/moved.dir" in said


def test_a_commit_that_was_not_fetched_is_said_with_what_to_do(repository):
    words = [sys.executable, str(CI / "compare.py"), "0123456789"]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "git knows no commit `0123456789`" in done.stderr
    assert "fetch-depth: 0" in done.stderr


def test_a_comparison_outside_of_a_repository_is_said(tmp_path):
    words = [sys.executable, str(CI / "compare.py"), "HEAD"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: this folder is in no git repository\n")


def test_a_comparison_executes_nothing_that_a_repository_names(repository):
    """Its configuration names programs wherever git would run one; no program of DistIR's reads it."""
    script, ran = repository.parent / "hostile", repository.parent / "ran"
    script.write_text(f"#!/bin/sh\necho $0 >> {ran}\ncat\n")
    script.chmod(0o755)
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (hooks / name).write_text(script.read_text())
        (hooks / name).chmod(0o755)
    (repository.parent / "included").write_text(f"[diff]\n\texternal = {script}\n")
    settings = {
        "core.fsmonitor": script,
        "core.hooksPath": hooks,
        "core.pager": script,
        "core.editor": script,
        "core.sshCommand": script,
        "core.alternateRefsCommand": script,
        "pager.diff": script,
        "diff.external": script,
        "diff.h.command": script,
        "diff.h.textconv": script,
        "filter.h.clean": script,
        "filter.h.smudge": script,
        "filter.h.required": "true",
        "filter.p.process": script,
        "gpg.program": script,
        "log.showSignature": "true",
        "credential.helper": script,
        "include.path": repository.parent / "included",
        "alias.diff": f"!{script}",
        "remote.origin.url": f"ext::{script}",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
        "trailer.t.command": script,
        "merge.h.driver": script,
    }
    for name, value in settings.items():
        subprocess.run(["git", "config", name, str(value)], cwd=repository, check=True)
    (repository / ".gitattributes").write_text("*.dir filter=h diff=h merge=h\n*.toml filter=p\n")
    (repository / "a.dir").write_text(SLOWER)
    (repository / "distir.toml").write_text("")
    assert "B is `@main` of after/a.dir" in comparison(repository)
    assert not ran.exists(), ran.read_text()
    subprocess.run(["git", "status"], cwd=repository, check=False, capture_output=True)
    assert ran.exists(), "the repository is hostile to git itself"


def test_the_recipe_for_git_bisect_finds_the_commit(repository, monkeypatch):
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text()
    (recipe,) = re.findall(r"```sh\n(git show .*?)```", page, re.DOTALL)
    monkeypatch.chdir(repository)
    (repository.parent / "distir").write_text(COMMAND)
    (repository.parent / "distir").chmod(0o755)
    path = repository / "programs" / "step.dir"
    path.parent.mkdir()
    texts = {"good": GOOD, "typo": WRONG, "fixed": f"{GOOD}// fixed\n", "slow": SLOWER, "last": f"{SLOWER}// end\n"}
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **GIT, **identity, "PYTHONPATH": str(ROOT)}
    environment["PATH"] = f"{repository.parent}{os.pathsep}{environment['PATH']}"

    def shell(words):
        done = subprocess.run(["sh", "-ec", words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for subject, text in texts.items():
        path.write_text(text)
        shell(f"git add -A; git commit -qm {subject}; git tag {subject}")
    found = shell(recipe.replace("v1.0", "good").replace("/tmp/", f"{repository.parent}/"))
    assert f"{shell('git rev-parse slow').strip()} is the first bad commit" in found


def test_a_program_that_does_not_check_is_said_to_be_wrong(repository):
    (repository / "a.dir").write_text(WRONG)
    said = comparison(repository)
    assert "`a.dir` cannot be compared:" in said
    assert "    error[DIR" in said


def test_names_in_a_comparison_mean_nothing_in_markdown(tmp_path, capsys):
    from distir.cli import main

    folder = tmp_path / "[x](http:"
    folder.mkdir()
    names = [folder / "<img src=x>*a*|b_c.dir", folder / "@octocat.dir"]
    for path, text in zip(names, (GOOD, SLOWER), strict=True):
        path.write_text(text.replace("@main", "@octocat"))
    assert main(["diff", "--markdown", *map(str, names)]) == 0
    said = capsys.readouterr().out
    assert "<img" not in said.replace("\\<", "")
    assert "[x]" not in said.replace("\\[", "")
    assert re.search(r"(?<!`)@octocat", said) is None


@pytest.mark.skipif(shutil.which("bash") is None, reason="GitHub's runners have bash")
def test_scripts_of_workflows_are_shell():
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job["steps"]:
                if "run" in step:
                    done = subprocess.run(
                        ["bash", "-n"], input=step["run"], text=True, capture_output=True, check=False
                    )
                    assert done.returncode == 0, done.stderr


def test_the_settings_that_the_page_shows_are_settings(tmp_path):
    from distir import config

    (block,) = re.findall(r"```toml\n(.*?)```", (CI / "README.md").read_text(), re.DOTALL)
    (tmp_path / "distir.toml").write_text(block)
    found = config.load(tmp_path / "distir.toml")
    assert (found.hardware, found.budget.max_latency, found.budget.max_memory) == ("dgx-a100", "5ms", "32GB")
