"""What the README and the walkthrough show is what happens."""

import re
import shlex
from pathlib import Path

import pytest

from distir.cli import main
from distir.cli.app import COMMANDS

ROOT = Path(__file__).parent.parent


def blocks(text):
    """The kinds and texts of what stands between fences."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


TEXT = (ROOT / "README.md").read_text()
BLOCKS = blocks(TEXT)
WALKTHROUGH = blocks((ROOT / "examples" / "walkthrough.md").read_text())


def block(beginning):
    return next(text for _, text in BLOCKS if text.startswith(beginning))


def test_the_simulation_that_it_opens_with(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    command, *shown = block("$ distir simulate").splitlines()
    assert main(shlex.split(command)[2:]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    missing = [line for line in shown if line != "…" and line not in printed]
    assert missing == []


def test_the_message_that_it_shows(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    head = "func @layer(%x: Tensor[Float32, (8, 4), 1], %w: Tensor[Float32, (4, 4), 2]) {"
    (tmp_path / "layer.dir").write_text(f"{head}\n  // h\n  %h = Gemm(%x, %w)\n  return %h\n}}\n")
    assert main(["check", "layer.dir"]) == 1
    assert block("error[DIR401]") in capsys.readouterr().err


def test_from_a_model_to_a_simulated_strategy(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for command in block("distir model gpt2").splitlines():
        assert main(shlex.split(command)[1:]) == 0, command
    assert "verified: both programs give the same results" in capsys.readouterr().err


def test_the_python(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    exec(block("import distir"), {})
    latency, peak = capsys.readouterr().out.split()
    assert float(latency) > 0
    assert int(peak) > 0


def test_the_settings(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "distir.toml").write_text(block("hardware ="))
    (tmp_path / "a.dir").write_text("func @main(%x: Tensor[Float32, (B, 8), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n")
    assert main(["check", "a.dir"]) == 0
    assert main(["simulate", "a.dir"]) == 0
    assert "dgx2-v100" in capsys.readouterr().out


@pytest.mark.parametrize("command", [c.__name__.rstrip("_") for c in COMMANDS])
def test_every_command_is_named(command):
    assert f"`distir {command}" in TEXT


# The walkthrough


def left_out(shown, printed):
    """The first of the passages shown, with `…` between them, that is not printed after those before it."""
    printed = "".join(line.rstrip() + "\n" for line in printed.splitlines())
    for passage in filter(None, re.split(r"^…\n", shown, flags=re.MULTILINE)):
        _, found, printed = printed.partition(passage)
        if not found:
            return passage
    return None


def test_the_walkthrough(capsys, monkeypatch, tmp_path):
    """Its commands are run in turn, and print what stands below them."""
    monkeypatch.chdir(tmp_path)
    text = "".join(text for kind, text in WALKTHROUGH if kind == "console")
    for command, shown in re.findall(r"^\$ distir (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        assert main(shlex.split(command)) == 0, command
        captured = capsys.readouterr()
        assert left_out(shown, captured.out + captured.err) is None, command
    assert {path.name for path in tmp_path.iterdir()} >= {"timeline.html", "trace.json"}


def test_the_program_in_the_walkthrough():
    (quoted,) = (text for kind, text in WALKTHROUGH if kind == "")
    assert quoted in (ROOT / "examples" / "strategies" / "mlp_pp_zb_h1.dir").read_text()
