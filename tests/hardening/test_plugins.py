"""`examples/plugin`, installed as users install it: each command knows what it registers. Nothing else is imported."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DISTIR = Path(sys.executable).with_name("distir")

PROGRAM = """\
func @main(%x: Tensor[Float32, (4, 8), 1] {batch = 0}, %w: Tensor[Float32, (8, 8), 1] {param}) {
  %h = MatMul(%x, %w)
  %y = SquaredRelu(%h)
  %l = ReduceMean[keepdims = 0](%y)
  return %l
}
"""

MODEL = ["model", "mlp", "--layers", "4", "--width", "8", "--batch", "8", "--dtype", "Float32", "-o", "model.dir"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder on the path with the example as an installer lays it out: its packages, and what its project states."""
    folder = tmp_path_factory.mktemp("installed")
    source = ROOT / "examples" / "plugin"
    project = tomllib.loads((source / "pyproject.toml").read_text())
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        shutil.copytree(source / package, folder / package)
    (points,) = project["project"]["entry-points"].items()
    describe(folder, project["project"]["name"], *points)
    return folder


def describe(folder, name, group, points):
    """The metadata that installing a package leaves behind."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{point} = {module}\n" for point, module in points.items()]
    (info / "entry_points.txt").write_text("".join([f"[{group}]\n", *lines]))


@pytest.fixture
def distir(tmp_path, installed):
    """Calls a command in a process of its own, with the package installed. Gives what it prints."""

    def call(*words, path=installed, code=0):
        env = {**os.environ, "PYTHONPATH": str(path), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([DISTIR, *words], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return call


def test_an_op_is_checked_simulated_and_differentiated(distir, tmp_path):
    (tmp_path / "a.dir").write_text(PROGRAM)
    assert distir("check", "a.dir") == ""
    assert json.loads(distir("simulate", "a.dir", "--json"))["ops"] == 3
    distir("transform", "grad", "a.dir", "-o", "b.dir")
    assert "%w_new = SGD(" in (tmp_path / "b.dir").read_text()
    assert "max(x, 0)²" in distir("ops", "SquaredRelu")


def test_an_op_is_written_in_torch(distir, tmp_path):
    (tmp_path / "a.dir").write_text(PROGRAM)
    distir("lower", "a.dir", "-o", "lowered")
    assert ").square()" in (tmp_path / "lowered" / "program.py").read_text()


def test_steps_and_schedules_are_found(distir, tmp_path):
    distir(*MODEL)
    assert "as `dtype`, and cast them back" in distir("transform", "--list")
    words = ["grad", "pp=2", "microbatches=4", "schedule=one-by-one", "compress", "model.dir", "-o", "out.dir"]
    distir("transform", *words)
    assert "Cast[to = Float16]" in (tmp_path / "out.dir").read_text()
    distir("search", "model.dir", "--devices", "2", "--schedule", "one-by-one", "--jobs", "1", "--top", "1")


def test_hardware_is_listed_and_used_by_its_name(distir, tmp_path):
    (tmp_path / "a.dir").write_text(PROGRAM)
    assert "my-lab" in distir("hardware")
    assert "our two DGX A100" in distir("simulate", "a.dir", "--hardware", "my-lab")


RUN = """\
id,hidden,layers,heads,ffn,vocab,seq,gpu,gpus,dp,tp,pp,micro_batch,global_batch,framework,step_time_s
1,256,4,4,1024,1000,256,a100_80gb,4,2,2,1,1,8,{},0.1
"""


def test_a_framework_of_measured_runs_is_predicted(distir, tmp_path):
    times = {}
    for name in ("megatron", "my-megatron"):
        (tmp_path / "runs.csv").write_text(RUN.format(name))
        (found,) = json.loads(distir("validate", "runs.csv", "--json"))["runs"]
        times[name] = found["step_time_s"]
    assert times["my-megatron"] < 0.5 * times["megatron"]  # its host issues faster
    assert "there is no framework `my-megatron`" in distir("validate", "runs.csv", path="", code=2)


def test_without_the_package_nothing_of_it_is_known(distir, tmp_path):
    (tmp_path / "a.dir").write_text(PROGRAM)
    (tmp_path / "b.dir").write_text(PROGRAM.replace("SquaredRelu", "Relu"))
    assert "DIR205" in distir("check", "a.dir", path="", code=1)
    assert "no step or option `compress`" in distir("transform", "compress", "b.dir", path="", code=2)
    assert "unknown hardware `my-lab`" in distir("simulate", "b.dir", "--hardware", "my-lab", path="", code=2)


def plugin(folder, module, text):
    """Install a package of one module."""
    (folder / f"{module}.py").write_text(text)
    describe(folder, module, "distir.plugins", {module: module})


def test_a_package_beside_a_program_is_not_imported(distir, tmp_path):
    """What lies in the folder of a program is not installed: opening it must run nothing."""
    (tmp_path / "a.dir").write_text(PROGRAM)
    plugin(tmp_path, "lurking", "open('was_here', 'w').close()")
    distir("check", "a.dir", path="", code=1)
    distir("transform", "--list", path="")
    assert not (tmp_path / "was_here").exists()


IMPOSTOR = (
    "from dataclasses import replace\nfrom distir.validate import FRAMEWORKS, framework\n"
    "framework(replace(FRAMEWORKS['nemo'], issue=1.0))\n"
)


def test_a_framework_of_a_package_takes_no_name_that_there_is(distir, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plugin(elsewhere, "odd", IMPOSTOR)
    (tmp_path / "runs.csv").write_text(RUN.format("nemo").replace("a100", "h100"))
    said = distir("validate", "runs.csv", path=str(elsewhere))
    assert "there is already something named `nemo`" in said


SETTLER = "from distir import op\n@op('Tensor[t, s, d] -> Tensor[t, s, d]')\ndef Relu(x):\n    return x\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [("raise RuntimeError('no such luck')", "no such luck"), (SETTLER, "there is already something named `Relu`")],
    ids=["broken", "settler"],
)
def test_what_is_wrong_with_a_package_is_one_warning(distir, tmp_path, installed, text, why):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plugin(elsewhere, "odd", text)
    (tmp_path / "a.dir").write_text(PROGRAM)
    said = distir("check", "a.dir", path=f"{elsewhere}{os.pathsep}{installed}")
    assert said.startswith("warning: the plugin `odd` could not be loaded: ")
    assert why in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("text", "words", "why"),
    [
        (
            "from distir import op\n@op('Tensor[t, s, d] -> Tensor[t, s, d]', flops=1)\ndef Odd(x):\n    return nope\n",
            ["run", "odd.dir"],
            "odd.py:4: NameError: name 'nope' is not defined",
        ),
        (
            "from distir.transform.overlap import kind\n@kind\ndef odd(module):\n    return module\n",
            ["transform", "overlap=odd", "a.dir"],
            "the kind of overlap `odd` gives Module, expected Overlapped",
        ),
        (
            "from distir.transform import step\n@step\ndef odd(module):\n    return 5\n",
            ["transform", "odd", "a.dir"],
            "the step `odd` gives int, expected Module",
        ),
        (
            "from distir.transform import schedule\n@schedule('odd')\ndef odd(devices, microbatches):\n    return ()\n",
            ["transform", "grad", "pp=2", "schedule=odd", "a.dir"],
            "the schedule `odd` must take devices, microbatches, stages per device",
        ),
    ],
    ids=["op", "kind", "step", "schedule"],
)
def test_what_goes_wrong_in_a_package_is_not_called_a_bug_of_ours(distir, tmp_path, text, words, why):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plugin(elsewhere, "odd", text)
    (tmp_path / "a.dir").write_text(PROGRAM.replace("SquaredRelu", "Relu"))
    (tmp_path / "odd.dir").write_text(PROGRAM.replace("SquaredRelu", "Odd"))
    said = distir(*words, path=elsewhere, code=2)
    assert why in said
    assert "bug" not in said
