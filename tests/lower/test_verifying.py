"""Verification of launched programs: what rounding decides is allowed, what is wrong is not."""

from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

from distir.analysis.program import read
from distir.cli.verifying import Verdict, tell, verdicts
from distir.transform.verification import perturbed

STEP = """\
func @main(
  %x: Tensor[Float32, (64, 32), 1],
  %w: Tensor[Float32, (32, 16), 1],
  %dy: Tensor[Float32, (64, 16), 1]
) {
  %h = MatMul(%x, %w)
  %dh = ReluGrad(%dy, %h)
  %dw = Gemm[transA = true](%x, %dh)
  return %dw
}
"""


@pytest.fixture
def step():
    """A step in which one sum is so near to zero that rounding decides its sign, and that sum's place."""
    program = read(STEP, "step.dir")
    draw = np.random.default_rng(3)
    values = {
        n: draw.normal(size=s).astype(np.float32) for n, s in (("x", (64, 32)), ("w", (32, 16)), ("dy", (64, 16)))
    }
    x, w = values["x"].astype(np.float64), values["w"].astype(np.float64)
    rest = x[7, :-1] @ w[:-1, 5]
    values["x"][7, -1] = -rest / w[-1, 5]
    return program, program.module.functions["main"], values


def results(values, flipped=False):
    x, w, dy = (values[n].astype(np.float64) for n in ("x", "w", "dy"))
    open_ = x @ w > 0
    if flipped:
        open_[7, 5] = not (values["x"] @ values["w"])[7, 5] > 0
    return (x.T @ (dy * open_)).astype(np.float32)


def verdict(step, found):
    program, entry, values = step
    (only,) = verdicts(program, entry, values, {"dw": found}, Path())
    return only


def test_what_rounding_decides_is_allowed(step):
    verdict_of = {flipped: verdict(step, results(step[2], flipped)) for flipped in (False, True)}
    assert all(v.same for v in verdict_of.values())
    assert max(v.error for v in verdict_of.values()) > 1e-2


@pytest.mark.parametrize(
    "wrong",
    [
        lambda dw: dw * np.float32(1.001),
        lambda dw: np.concatenate((dw[16:], dw[:16])),
        lambda dw: dw[:, ::-1],
        lambda dw: dw + np.float32(0.01),
        lambda dw: np.where(np.arange(16) == 4, 0, dw).astype(np.float32),
        lambda dw: np.full_like(dw, np.nan),
        lambda dw: dw[:16],
    ],
    ids=["scale", "swapped shards", "order", "offset", "a column is missing", "nan", "shape"],
)
def test_what_is_wrong_is_not_allowed(step, wrong):
    found = verdict(step, wrong(results(step[2])))
    assert not found.same
    assert "elements differ by up to" in found.difference or "expected the shape" in found.difference
    assert not verdict(step, wrong(results(step[2], flipped=True))).same


NARROW = """\
func @main(%x: Tensor[BFloat16, (64, 256), 1], %dy: Tensor[BFloat16, (64, 256), 1]) {
  %dw = Gemm[transA = true](%x, %dy)
  %g = Cast[to = Float32](%dw)
  return %g
}
"""


def test_a_wide_result_of_narrow_values_is_as_exact_as_these():
    """Of many elements a few change less with the inputs than by rounding."""
    program, draw = read(NARROW, "narrow.dir"), np.random.default_rng(5)
    values = {n: draw.normal(size=s).astype(bfloat16) for n, s in (("x", (64, 256)), ("dy", (64, 256)))}
    exact = values["x"].astype(np.float64).T @ values["dy"].astype(np.float64)
    rounded = exact.astype(bfloat16)
    steps = draw.choice((-1, 1), exact.shape)
    found = (rounded.view(np.int16) + steps.astype(np.int16)).view(bfloat16).astype(np.float32)
    for given, same in ((found, True), (np.roll(found, 1, 0), False), (found * np.float32(1.05), False)):
        (only,) = verdicts(program, program.module.functions["main"], values, {"g": given}, Path())
        assert only.same == same, only.difference


def test_results_that_agree_are_one_line_and_others_are_said_each(capsys):
    fine = [Verdict(f"r{i}", i * 1e-9, same=True) for i in range(52)]
    tell(fine, "the same", "not the same")
    assert capsys.readouterr().err == "verified: the same (52, largest difference 5.1e-08 in %r51)\n"
    tell([*fine, Verdict("w", 2.0, same=False, difference="3 of 4 elements differ")], "the same", "not the same")
    assert capsys.readouterr().err == "error: not the same: 1 of 53\n  %w: 3 of 4 elements differ\n"
    tell([Verdict(n, 1e-2, same=True, rounding=2e-2) for n in ("w", "v")], "the same", "not the same")
    most = "largest difference 1.0e-02 in %w, where rounding may make 2.0e-02"
    assert capsys.readouterr().err == f"verified: the same (2, {most})\n"


def test_inputs_change_in_their_last_digits_only():
    values = {"x": np.linspace(-3, 3, 7, dtype=np.float32), "i": np.arange(3), "t": (np.ones(4, np.float16),)}
    found = perturbed(values, 4, 0)
    assert (found["i"] == values["i"]).all()
    np.testing.assert_allclose(found["x"], values["x"], rtol=4 * 1.2e-7)
    assert (found["x"] != values["x"]).any()
    np.testing.assert_allclose(found["t"][0], 1, rtol=4 * 1e-3)
