"""Ops from outside the package: one definition, and everything works."""

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from lowering_samples import entry

import distir
from distir.analysis.kinds import in_place, updates
from distir.ir import ops_in
from distir.ir.registry import DefinitionError
from distir.lower import lower
from distir.ops import OPS
from distir.ops.definition import check_definition
from distir.ops.optimizer import OPTIMIZERS
from distir.ops.purpose import is_update

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


OPTIMIZER = '''
from distir import op
from distir.ops.optimizer import optimizer

@op("Tensor[t:float, s, d], Tensor[u:float, s, d] -> Tensor[t, s, d]",
    flops=2, inplace={0: 0}, non_differentiable="it updates weights")
def TenSteps(w, dw, *, lr: float = 0.1):
    """Descent.

    %y = TenSteps(%w: Tensor[Float32, (2, 3), 1], %g: Tensor[Float32, (2, 3), 1])
    """
    return w - lr * dw

optimizer("ten-steps", TenSteps)
'''


def test_an_optimizer_is_one_to_every_pass_wherever_it_is_defined():
    exec(OPTIMIZER, {"__name__": "my_ops"})
    try:
        entry = distir.transform(distir.models.mlp(2, 8, batch=4), "grad", "optimizer=ten-steps").entry()
        found = [*ops_in(entry, "TenSteps")]
        assert found
        assert all(is_update(s) and updates(s) and in_place(s) == {0: 0} for s in found)
        assert not any(is_update(s) for s in entry.body if s not in found)
    finally:
        del OPS["TenSteps"], OPTIMIZERS["ten-steps"]


@pytest.fixture
def ten_lines():
    namespace = {"__name__": "my_ops"}
    exec(DEFINITION, namespace)
    yield namespace["TenLines"]
    del OPS["TenLines"]


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
    assert (
        f"`broken_ops` could not be loaded: {tmp_path / 'broken_ops.py'}:1: RuntimeError: no such luck" in result.stderr
    )


def test_a_package_that_ends_the_process_and_prints_does_no_harm(tmp_path):
    install(tmp_path, "my_ops", DEFINITION)
    install(tmp_path, "loud_ops", "import sys\nprint('here I am')\nsys.exit(3)")
    result = check_elsewhere(tmp_path)
    assert result.stdout.strip() == "[]"
    assert "here I am" in result.stderr
    assert "loud_ops.py:3: SystemExit: 3" in result.stderr


def one(x):
    return x


def two(x, y=None):
    return x


def many(*xs):
    return xs[0]


@pytest.mark.parametrize(
    ("signature", "body", "why"),
    [
        ("Tensor[t, s, d -> Tensor[t, s, d]", one, "malformed signature: closing parenthesis"),
        ("Tensor[t, s, d], Tensor[t, s, d] -> Tensor[t, s, d]", one, "has 2 operands, and the body's positional"),
        ("Tensor[t, s, d] -> Tensor[t, q, d]", one, "no operand and no attribute says what `q` is"),
        ("Tensor[t, s, d] -> Tensor[u, s, d]", one, "no operand and no attribute says what `u` is"),
        ("Tensor[t, s, d], Tensor[t, s, d] -> Tensor[t, s, d]", two, "`y` needs both `Optional"),
        ("Tensor[t, s, d] -> Tensor[t, s, d]", many, "`xs` is starred in one"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused_where_it_is_written(signature, body, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        distir.op(signature, name="Odd", flops=1)(body)
    assert "Odd" not in OPS


def test_signatures_of_built_in_ops_fit():
    for name in OPS:
        check_definition(OPS[name])


@pytest.fixture
def odd():
    def define(body, **meanings):
        return distir.op("Tensor[t, s, d] -> Tensor[t, s, d]", name="Odd", **{"flops": 1, **meanings})(body)

    yield define
    del OPS["Odd"]


ODD = distir.parse("func @main(%x: Tensor[Float32, (2, 3), 1]) {\n  %y = Odd(%x)\n  return %y\n}\n")
X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("body", [lambda x: x[0], lambda x: x.astype(np.float64)], ids=["shape", "dtype"])
def test_a_body_that_gives_what_its_signature_does_not_say_is_refused(odd, body):
    odd(body)
    with pytest.raises(DefinitionError, match=r"the body of the op `Odd` gives .* where its signature says .*\(2, 3\)"):
        distir.run(ODD, {"x": X})


@pytest.mark.parametrize("flops", [-1, lambda **_: float("nan"), lambda **_: "many"])
def test_work_that_is_no_amount_is_refused(odd, flops):
    odd(one, flops=flops)
    with pytest.raises(DefinitionError, match="`flops` of the op `Odd` is"):
        distir.simulate(ODD)


def test_a_torch_form_that_names_what_there_is_not_is_refused(odd):
    odd(one).torch("{x} + {y.wide}")
    with pytest.raises(DefinitionError, match="it has 'y', which is no operand or attribute"):
        lower([entry(ODD)])


def test_a_gradient_for_more_operands_than_there_are_is_refused(odd):
    odd(one).grad(lambda g: [None, g.dy])
    with pytest.raises(DefinitionError, match="gives 2 gradients, for 1 operand"):
        distir.transform(ODD, "grad")


IMPORTING = """
import importlib, pkgutil, distir
from distir.ir import registry

def begun():
    raise AssertionError("packages are imported while ours are")

registry.import_plugins = begun
for module in pkgutil.walk_packages(distir.__path__, "distir."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as lacking:
        assert not lacking.name.startswith("distir")
"""


def test_packages_are_not_imported_while_ours_are(tmp_path):
    """One that is would meet half of what it imports."""
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
