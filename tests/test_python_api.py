"""The Python API, as it is imported: verbs that are rooms too, and defaults that fit together."""

import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
import types

import pytest

import distir

VERBS = ("search", "simulate", "transform")
MLP = """\
func @main(%x: Tensor[Float32, (64, 8), 1] {batch = 0}, %w: Tensor[Float32, (8, 8), 1] {param}) {
  %y = MatMul(%x, %w)
  return %y
}
"""


@pytest.mark.parametrize("verb", VERBS)
def test_modules_of_a_verb_are_imported_by_name(verb):
    package = importlib.import_module(f"distir.{verb}")
    for found in pkgutil.iter_modules(package.__path__):
        scope = {}
        exec(f"import distir.{verb}.{found.name} as found", scope)
        assert isinstance(scope["found"], types.ModuleType)
        assert scope["found"].__name__ == f"distir.{verb}.{found.name}"


@pytest.mark.parametrize(
    "first", ["import distir", "import distir.simulate.storage as s", "from distir import simulate"]
)
def test_a_verb_is_called_whatever_is_imported_first(first):
    code = f"{first}\nimport distir\nprint(distir.simulate(distir.parse({MLP!r})).latency_s > 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_shows_what_it_takes_and_goes_to_other_processes(verb):
    function = getattr(importlib.import_module("distir.api"), verb)
    called = getattr(distir, verb)
    assert inspect.signature(called) == inspect.signature(function)
    assert called.__doc__.startswith(function.__doc__)
    assert pickle.loads(pickle.dumps(called)) is called


def test_no_room_is_hidden_by_a_name_of_the_api():
    for room in pkgutil.iter_modules(distir.__path__):
        imported = importlib.import_module(f"distir.{room.name}")
        assert isinstance(imported, types.ModuleType)
        assert getattr(distir, room.name) is imported


def test_a_search_tries_as_many_devices_as_the_machine_has():
    module = distir.parse(MLP)
    for hardware, devices in (("dgx-a100", 8), ("dgx2-v100", 16)):
        table = distir.search(module, hardware=hardware)
        assert {row.plan.devices for row in table} == {devices}
    assert {row.plan.devices for row in distir.search(module)} == {8}


def test_a_program_is_a_module_or_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = distir.models.mlp(2, 8, batch=4)
    path = tmp_path / "mlp.dir"
    path.write_text(distir.format(module))
    for given in (path, str(path), "mlp.dir"):
        assert distir.check(given) == []
        assert distir.transform(given, "grad") == distir.transform(module, "grad")
        assert distir.erase(given) == distir.expand(given) == module
        assert distir.simulate(given).latency_s == distir.simulate(module).latency_s
        assert distir.search(given, devices=2, batch_sizes=4).best == distir.search(module, 2, batch_sizes=4).best
    with pytest.raises(TypeError, match="found a text"):
        distir.check(distir.format(module))
    with pytest.raises(OSError, match="absent"):
        distir.simulate(tmp_path / "absent.dir")


def test_what_is_shown_is_public():
    assert {name for name in dir(distir) if not name.startswith("__")} == {*distir.__all__}


def test_every_error_is_one_of_distir():
    with pytest.raises(distir.DistirError):
        distir.parse("func @main(%x {")
    with pytest.raises(distir.DistirError):
        distir.transform(distir.models.mlp(2, 8), "gard")
    with pytest.raises(distir.DistirError):
        distir.simulate(distir.models.mlp(2, 8), "no-machine")
    with pytest.raises(distir.DistirError):
        distir.models.named("no-model")
