"""What the README shows is what happens."""

import re
import shlex
from pathlib import Path

import pytest

from distir.cli import main
from distir.cli.app import COMMANDS

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


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
