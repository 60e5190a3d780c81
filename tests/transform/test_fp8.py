"""Products in 8-bit floats: what they give, what they cost, and the same in distributed programs."""

import ml_dtypes
import numpy as np
import pytest
from sharding_samples import statements

import distir
from distir.analysis import execute, random_inputs
from distir.diagnostics import ProgramError
from distir.ir import DTYPES
from distir.models import gpt2
from distir.ops import OPS, run
from distir.simulate import simulate
from distir.transform import transform, verify
from distir.transform.steps import StepError

E4M3, E5M2, FLOAT32 = (DTYPES[name] for name in ("Float8E4M3FN", "Float8E5M2", "Float32"))


def gpt(**sizes):
    given = {"batch": 8, "vocabulary": 32, "dtype": "Float32", "positions": 8}
    return gpt2(2, 16, 4, 8, **{**given, **sizes})


def quantised(x, block, to=E4M3):
    return run(OPS["QuantizeFloat8"], [x], {"to": to, "block": block}, 2)


@pytest.mark.parametrize(("to", "largest"), [(E4M3, 448.0), (E5M2, 57344.0)])
@pytest.mark.parametrize("block", [(), (1, 4), (4, 1), (3, 5), (128, 128)])
def test_a_scale_is_the_greatest_of_its_block_by_the_largest_number(to, largest, block):
    x = np.random.default_rng(0).normal(size=(2, 7, 10)).astype(np.float32)
    x[0, :, :5] = 0
    q, scale = quantised(x, block, to)
    rows, columns = block or x.shape[-2:]
    for k in range(2):
        for i in range(0, 7, rows):
            for j in range(0, 10, columns):
                part = x[k, i : i + rows, j : j + columns] if block else x
                own = scale[k, i // rows, j // columns] if block else scale
                greatest = np.abs(part).max()
                assert own == (np.float32(greatest) / np.float32(largest) if greatest else 1)
    back = run(OPS["DequantizeFloat8"], [q, scale], {"to": FLOAT32, "block": block}, 1)[0]
    bits = 4 if to is E4M3 else 3
    smallest = (np.abs(x).max() / largest) * float(ml_dtypes.finfo(q.dtype).smallest_subnormal)
    assert (np.abs(back - x) <= np.abs(x) * 2.0**-bits + smallest).all()


def test_a_product_sums_in_float32():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(5, 8)).astype(np.float32), rng.normal(size=(8, 6)).astype(np.float32)
    (qa, sa), (qb, sb) = quantised(a, (1, 4)), quantised(b, (4, 4))
    given = {"to": FLOAT32, "transA": False, "transB": False, "block_a": (1, 4), "block_b": (4, 4)}
    (found,) = run(OPS["ScaledMatMul"], [qa, qb, sa, sb], given, 1)
    wide_a, wide_b = (
        run(OPS["DequantizeFloat8"], [q, s], {"to": FLOAT32, "block": block}, 1)[0]
        for q, s, block in ((qa, sa, (1, 4)), (qb, sb, (4, 4)))
    )
    np.testing.assert_allclose(found, wide_a @ wide_b, rtol=1e-6)
    assert np.abs(found - a @ b).max() < 0.05 * np.abs(a @ b).max()


CHAINS = {
    "fp8 block=4": [
        "dp=2",
        "tp=2",
        "tp=2 sequence=true",
        "pp=2 microbatches=2",
        "accumulate=2 dp=2 zero=1",
        "dtp=2,2,2 microbatches=2",
        "checkpoint dp=2",
    ],
    "fp8=tensor": ["dp=2", "tp=2", "tp=2 dp=2 zero=3"],
}


@pytest.mark.parametrize(("scaling", "chain"), [(s, c) for s, chains in CHAINS.items() for c in chains])
def test_distributed_programs_give_the_same(scaling, chain):
    step = transform(gpt(), *scaling.split(), "grad")
    assert verify(step, transform(step, *chain.split())).equal


def test_one_scale_per_tensor_is_no_scale_per_microbatch():
    step = transform(gpt(), "fp8=tensor", "grad")
    with pytest.raises(ProgramError) as caught:
        transform(step, "pp=2", "microbatches=2")
    assert "`QuantizeFloat8` cannot be computed by microbatches" in str(caught.value.diagnostics[0].notes)


def test_layers_are_changed_and_the_head_stays():
    module = transform(gpt(), "fp8")
    assert len(statements(module, "ScaledMatMul", "layer")) == 4
    assert statements(module, "Gemm", "main")
    assert not statements(module, "ScaledMatMul", "main")
    step = transform(module, "grad")
    forms = {(s.attrs.get("to"), s.attrs["block"]) for s in statements(step, "QuantizeFloat8", "layerGrad")}
    assert forms == {(E5M2, (1, 128)), (E5M2, (128, 1)), (E4M3, (128, 1))}


def test_a_step_with_it_is_near_to_one_without():
    plain, changed = transform(gpt(), "grad"), transform(gpt(), "fp8", "block=8", "grad")
    inputs = random_inputs(plain, 0, {})
    for a, b in zip(execute(plain, inputs), execute(changed, inputs), strict=True):
        change = np.abs(a.value - b.value).max()
        assert change <= 0.02 * max(1.0, np.abs(a.value).max())


def test_products_of_a_large_model_are_faster_where_the_machine_has_them():
    model = gpt2(2, 4096, 32, 2048, batch=1, dtype="BFloat16")
    times = {
        steps: {h: simulate(transform(model, *steps), hardware=h).latency_s for h in ("dgx-h100", "dgx-a100")}
        for steps in ((), ("fp8",))
    }
    assert times["fp8",]["dgx-h100"] < times[()]["dgx-h100"]
    assert times["fp8",]["dgx-a100"] >= times[()]["dgx-a100"]


FLAT = """
func @main(%x: Tensor[Float32, (8, 4), 1] {batch = 0}, %w: Tensor[Float32, (4, 4), 1] {param}) {
  %a = MatMul(%x, %w)
  %b = Gemm(%a, %w, %w)
  %c = Gemm[transB = true](%b, %w)
  %d = MatMul(%c, %c2)
  return %d
}
"""


def test_without_layers_the_first_and_the_last_product_stay():
    text = FLAT.replace("%c, %c2", "%c, %w").replace("%a, %w, %w", "%a, %w")
    module = transform(distir.parse(text), "fp8=block", "block=2")
    assert len(statements(module, "ScaledMatMul")) == 2
    assert verify(distir.parse(text), module, tolerance=0.2).equal
    assert verify(transform(module, "grad", "loss=mse"), transform(module, "grad", "loss=mse", "dp=2")).equal


def test_what_it_cannot_do_is_said():
    with pytest.raises(StepError, match="`fp8` expected one of tensor, block, found `row`"):
        transform(gpt(), "fp8=row")
    with pytest.raises(StepError, match="`block` expected 1 or more, found 0"):
        transform(gpt(), "fp8", "block=0")
    short = "func @main(%x: Tensor[Float32, (8, 4), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n"
    with pytest.raises(ProgramError) as caught:
        transform(distir.parse(short), "fp8")
    assert caught.value.diagnostics[0].code.number == "DIR610"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("%q, %s = QuantizeFloat8[to = Float16](%x)", "expected `Float8E4M3FN` or `Float8E5M2`, found `Float16`"),
        ("%q, %s = QuantizeFloat8[block = [2]](%x)", "expected a block of rows and columns"),
        ("%q = DequantizeFloat8[block = []](%x, 1.0)", "expected `Float8E4M3FN` or `Float8E5M2`, found `Float32`"),
    ],
)
def test_operands_that_do_not_fit_are_refused(statement, message):
    text = f"func @main(%x: Tensor[Float32, (8, 4), 1]) {{\n  {statement}\n  return %q\n}}\n"
    assert any(message in found.message for found in distir.check(distir.parse(text)))


@pytest.mark.parametrize(
    ("dtype", "hardware", "said"),
    [
        ("BFloat16", "dgx-h100", []),
        ("BFloat16", "dgx-a100", ["no arithmetic in Float8E4M3FN on `NVIDIA A100-SXM-80GB`: it runs as Float16"]),
        (
            "BFloat16",
            "dgx2-v100",
            [
                "no arithmetic in BFloat16 on `NVIDIA V100-SXM3-32GB`: it runs as Float32",
                "no arithmetic in Float8E4M3FN on `NVIDIA V100-SXM3-32GB`: it runs as Float16",
            ],
        ),
        (
            "Float32",
            "laptop-cpu",
            ["no arithmetic in Float8E4M3FN on `2 CPU cores with a quarter of the memory`: it runs as Float32"],
        ),
    ],
)
def test_a_precision_that_the_machine_lacks_is_said(dtype, hardware, said):
    found = simulate(transform(gpt(dtype=dtype), "fp8"), hardware=hardware).notices()
    assert [notice.message for notice in found] == said
    assert all(notice.code.number == "DIR512" for notice in found)
    assert not simulate(gpt(dtype="Float16"), hardware=hardware).notices()
