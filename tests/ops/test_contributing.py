"""An op as CONTRIBUTING.md adds one: one definition at the end of one file, and everything knows it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from thorough import also

import distir

ROOT = Path(__file__).parents[2]
DEFINITION = re.search(r"### An op\n.*?```py\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL).group(1)

COMMAND = ("-c", "import sys, distir_start; sys.exit(distir_start.distir())")

TESTS = {
    "tests/ops/test_all_ops.py": (
        "test_an_example_checks_runs_and_can_be_costed",
        "test_an_example_runs_with_the_other_element_types_that_the_op_takes",
        "test_a_definition_is_complete",
    ),
    "tests/transform/test_gradient_rules.py": ("test_a_rule_agrees_with_central_differences",),
    "tests/transform/test_sharding_ops.py": ("test_an_op_split_along_a_letter_gives_the_same",),
}
"""The tests over all ops, which no one edits for a new one."""

WITH_TORCH = {
    "tests/transform/test_gradients_torch.py": ("test_torch_finds_the_same_gradient",),
    "tests/lower/test_torch_forms.py": ("test_a_form_is_what_the_reference_says",),
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A copy of the package with the op in the file of its family, and how Python is started there."""
    folder = tmp_path_factory.mktemp("contributed")
    shutil.copytree(Path(distir.__file__).parent, folder / "distir", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "distir/ops/activation.py").open("a") as file:
        file.write(f"\n\n{DEFINITION}")

    def python(*args):
        env = {**os.environ, "PYTHONPATH": str(folder)}
        return subprocess.run([sys.executable, *args], cwd=folder, env=env, capture_output=True, text=True, check=False)

    return python


@pytest.mark.parametrize("files", [TESTS, *also(WITH_TORCH)], ids=["reference", "torch"])
def test_the_tests_over_all_ops_take_it_up(installed, files):
    if files is WITH_TORCH:
        pytest.importorskip("torch")
    options = ("-c", f"{ROOT}/pyproject.toml", "-p", "no:xdist", "-p", "no:cacheprovider", "-rp")
    ran = installed("-m", "pytest", *options, "-k", "Glu", *(str(ROOT / file) for file in files))
    assert ran.returncode == 0, ran.stdout
    passed = set(re.findall(r"^PASSED .*::(\w+)\[", ran.stdout, re.MULTILINE))
    assert passed >= {test for tests in files.values() for test in tests}


def test_it_is_in_the_reference(installed):
    shown = installed(*COMMAND, "ops", "Glu")
    assert "along axis, times the logistic function" in shown.stdout.replace("`", ""), shown.stderr
    script = f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r}); import generated; print(generated.ops())"
    page = installed("-c", script)
    assert "Glu[axis = 0]" in page.stdout, page.stderr


MODEL = """
func @main(%w: Tensor[Float64, (4, 6), 1] {param}, %x: Tensor[Float64, (B, 4), 1] {batch = 0}) {
  %h = MatMul(%x, %w)
  %y = Glu(%h)
  return %y
}
"""


@pytest.mark.parametrize(("steps", "said"), [
    ("grad", "nothing is compared"), ("grad dp=2", "verified"), ("tp=3", "verified"),
])  # fmt: skip
def test_transforms_know_it(installed, steps, said, tmp_path):
    program = tmp_path / "glu.dir"
    program.write_text(MODEL)
    done = installed(*COMMAND, "transform", *steps.split(), str(program), "--verify", "--bind", "B=4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
