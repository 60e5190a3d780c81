"""Machines of several nodes, wherever hardware is named."""

import json

import pytest
from distir_lsp.settings import client, settings_for

FAR = """func @main(%x: Tensor[Float32, (64, 64), 1]) {
  %y = Send[device = 30](%x)
  %z = Relu(%y)
  return %z
}
"""

MLP = """func @main(%x: Tensor[Float32, (64, 64), 1] {batch = 0}, %w: Tensor[Float32, (64, 64), 1] {param}) {
  %y = MatMul(%x, %w)
  return %y
}
"""


@pytest.mark.parametrize("words", [("--hardware", "dgx-h100", "--nodes", "4"), ("--hardware", "dgx-h100x4")])
def test_every_command_takes_them(distir, file, words):
    path = file("a.dir", FAR)
    named = "dgx-h100x4"
    found = json.loads(distir("simulate", path, *words, "--json").out)
    assert found["hardware"] == named
    assert distir("check", path, *words).code == 0
    assert distir("show", path, *words).code == 0
    assert f"On {named}" in distir("diff", path, path, *words).out
    assert json.loads(distir("diff", path, path, *words, "--json").out)["hardware"] == named
    name, *rest = words[1:]
    shown = json.loads(distir("hardware", name, *rest, "--json").out)
    assert (shown["name"], shown["devices"]) == (named, 32)
    rows = json.loads(distir("search", file("b.dir", MLP), *words, "--json").out)
    assert rows["hardware"] == named


def test_a_flag_and_the_settings(distir, file, monkeypatch):
    path = file("a.dir", FAR)
    file("distir.toml", 'hardware = "dgx-a100"\nnodes = 4\n')
    assert json.loads(distir("simulate", path, "--json").out)["hardware"] == "dgx-a100x4"
    assert json.loads(distir("simulate", path, "--json", "--nodes", "5").out)["hardware"] == "dgx-a100x5"
    assert json.loads(distir("simulate", path, "--json", "--hardware", "h200x4").out)["hardware"] == "h200x4"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "four"), "`--nodes`: expected a number of nodes, found `four`"),
        (("--nodes", "0"), "expected a number of nodes from 1 to 4096, found 0"),
        (("--nodes", "4097"), "expected a number of nodes from 1 to 4096, found 4097"),
        (("--hardware", "h200x0"), "expected a number of nodes from 1 to 4096, found 0"),
        (("--hardware", "h200x2", "--nodes", "2"), "says how many nodes there are"),
        (("--hardware", "laptop-cpu", "--nodes", "2"), "no level joins nodes, and there are 2"),
    ],
)
def test_numbers_that_cannot_be(distir, file, words, message):
    ended = distir("simulate", file("a.dir", FAR), *words)
    assert ended.code == 2
    assert ended.err.count("error") == 1
    assert message in ended.err


def test_the_editor_takes_them(file):
    path = str(file("a.dir", FAR))
    found = settings_for(path, client({"distir": {"hardware": "dgx-h100", "nodes": 4}}))
    assert (found.setup.hardware.name, found.machine, found.trouble) == ("dgx-h100x4", "dgx-h100x4", ())
    file("distir.toml", 'hardware = "h200"\nnodes = 3\n')
    assert settings_for(path, client({})).machine == "h200x3"
    assert settings_for(path, client({"nodes": 2})).machine == "h200x2"
    (trouble,) = settings_for(path, client({"nodes": 5000})).trouble
    assert trouble == "`distir.nodes`: expected a number of nodes from 1 to 4096, found 5000"
