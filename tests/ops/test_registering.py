"""Ops from outside the package: one definition, and everything works."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import distir
from distir.ops import OPS

PROGRAM = """
func @f(%x: Tensor[Float32, (2, 3), 1]) {
  %y = TenLines[scale = 3.0](%x)
  return %y
}
"""

DEFINITION = '''
from distir import op

@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=2)
def TenLines(x, *, scale: float = 2.0):
    """`scale * x`, element by element.

    %y = TenLines(%x: Tensor[Float32, (2, 3), 1])
    """
    return (scale * x).astype(x.dtype)
'''


@pytest.fixture
def ten_lines():
    namespace = {"__name__": "my_ops"}
    exec(DEFINITION, namespace)
    yield namespace["TenLines"]
    OPS.remove("TenLines")


def test_an_op_registered_in_ten_lines_is_checked(ten_lines):
    assert len(DEFINITION.strip().splitlines()) <= 10
    assert distir.check_text(PROGRAM) == []
    (wrong,) = distir.check_text(PROGRAM.replace("scale", "scael"))
    assert wrong.code.number == "DIR208"
    assert wrong.help == "did you mean `scale`?"
    assert [d.code.number for d in distir.check_text(PROGRAM.replace("Float32", "Int64"))] == ["DIR302"]


def test_it_is_run_and_simulated(ten_lines):
    module = distir.parse(PROGRAM)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(distir.run(module, {"x": x})["y"], 3 * x)
    assert distir.simulate(module).latency_s > 0


def test_it_is_documented(ten_lines):
    assert ten_lines.documentation.startswith("`scale * x`")
    assert ten_lines.examples == ("%y = TenLines(%x: Tensor[Float32, (2, 3), 1])",)
    assert [a.default for a in ten_lines.attributes.values()] == [2.0]


def test_without_a_registration_the_op_is_unknown():
    assert [d.code.number for d in distir.check_text(PROGRAM)] == ["DIR205"]


def install(folder, module, text):
    """What installing a package with an entry point leaves behind."""
    (folder / f"{module}.py").write_text(textwrap.dedent(text))
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[distir.plugins]\n{module} = {module}\n")


def check_elsewhere(folder):
    """The codes that a fresh interpreter reports, with the folder's packages installed."""
    script = f"import distir; print([d.code.number for d in distir.check_text({PROGRAM!r})])"
    env = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)


def test_installed_packages_register_their_ops_by_an_entry_point(tmp_path):
    install(tmp_path, "my_ops", DEFINITION)
    assert check_elsewhere(tmp_path).stdout.strip() == "[]"


def test_a_broken_package_is_named_and_does_no_harm(tmp_path):
    install(tmp_path, "my_ops", DEFINITION)
    install(tmp_path, "broken_ops", "raise RuntimeError('no such luck')")
    result = check_elsewhere(tmp_path)
    assert result.stdout.strip() == "[]"
    assert "`broken_ops` could not be loaded: RuntimeError('no such luck')" in result.stderr
