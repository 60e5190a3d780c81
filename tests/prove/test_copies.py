"""Every copy that a device returns is claimed: by proofs and by verification, and what is not claimed is said."""

import pytest

import distir
from distir.analysis.copies import repeated
from distir.ir import Part
from distir.prove import prove
from distir.transform import verify

SEQUENTIAL = """
func @main(
  %x: Tensor[Float32, (8, 4), 1] {batch = 0}, %t: Tensor[Float32, (8, 6), 1] {batch = 0},
  %w: Tensor[Float32, (4, 6), 1] {param}
) {
  %h = MatMul(%x, %w)
  %loss = MSELoss(%h, %t)
  %dh = MSELossGrad(1.0, %h, %t)
  %dw = Gemm[transA = true](%x, %dh)
  %w_new = SGD(%w, %dw)
  return %loss, %w_new
}
"""

REPLICAS = """
func @main(
  %x_1: Tensor[Float32, (4, 4), 1], %x_2: Tensor[Float32, (4, 4), 2],
  %t_1: Tensor[Float32, (4, 6), 1], %t_2: Tensor[Float32, (4, 6), 2],
  %w_1: Tensor[Float32, (4, 6), 1], %w_2: Tensor[Float32, (4, 6), 2]
) {
  %h_1 = MatMul(%x_1, %w_1)
  %h_2 = MatMul(%x_2, %w_2)
  %own_1 = MSELoss(%h_1, %t_1)
  %own_2 = MSELoss(%h_2, %t_2)
  %sum_1, %sum_2 = MPIAllreduce(%own_1, %own_2)
  %loss_1 = Mul(%sum_1, 0.5)
  %loss_2 = Mul(%sum_2, 0.5)
  %dh_1 = MSELossGrad(1.0, %h_1, %t_1)
  %dh_2 = MSELossGrad(1.0, %h_2, %t_2)
  %dw_1 = Gemm[transA = true](%x_1, %dh_1)
  %dw_2 = Gemm[transA = true](%x_2, %dh_2)
  %both_1, %both_2 = MPIAllreduce(%dw_1, %dw_2)
  %g_1 = Mul(%both_1, 0.5)
  %g_2 = Mul(%both_2, 0.5)
  %w_new_1 = SGD(%w_1, %g_1)
  %w_new_2 = SGD(%w_2, %g_2)
  return %loss_1, %w_new_1, %loss_2, %w_new_2
}

func @main.scatter(
  %x: Tensor[Float32, (8, 4), 1], %t: Tensor[Float32, (8, 6), 1], %w: Tensor[Float32, (4, 6), 1]
) {
  %x_1, %x_2 = MPIScatter[devices = [1, 2], axis = 0](%x)
  %t_1, %t_2 = MPIScatter[devices = [1, 2], axis = 0](%t)
  %w_1, %w_2 = MPIBroadcast[devices = [1, 2]](%w)
  return %x_1, %x_2, %t_1, %t_2, %w_1, %w_2
}

func @main.gather(
  %loss_1: Float32[1], %w_new_1: Tensor[Float32, (4, 6), 1], %loss_2: Float32[2], %w_new_2: Tensor[Float32, (4, 6), 2]
) {
  return %loss_1, %w_new_1
}
"""


def found(*changes):
    """The proof and the verification of the replicas with lines changed."""
    text = REPLICAS
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    module, sequential = distir.parse(text), distir.parse(SEQUENTIAL)
    return module, prove(module, sequential), verify(sequential, module)


def test_copies_that_agree_are_counted():
    _, proof, verification = found()
    assert (proof.proved, proof.copies, proof.unclaimed) == (True, 3, ())
    assert (verification.equal, verification.copies, verification.unclaimed) == (True, 3, ())


DRIFTS = {
    "its own gradient": ("SGD(%w_2, %g_2)", "SGD(%w_2, %dw_2)", "w_new"),
    "no update": ("%loss_2, %w_new_2\n", "%loss_2, %w_2\n", "w_new"),
    "another rate": ("SGD(%w_2, %g_2)", "SGD[lr = 0.5](%w_2, %g_2)", "w_new"),
    "the loss of its own rows": ("Mul(%sum_2, 0.5)", "Mul(%own_2, 1.0)", "loss"),
    "a sum for a mean": ("%loss_2 = Mul(%sum_2, 0.5)", "%loss_2 = Identity(%sum_2)", "loss"),
}


@pytest.mark.parametrize(("old", "new", "result"), DRIFTS.values(), ids=DRIFTS)
def test_what_one_device_returns_wrong_is_found(old, new, result):
    module, proof, verification = found((old, new))
    assert [f.result for f in proof.failures] == [result]
    (diagnostic,) = proof.diagnostics(module)
    assert diagnostic.site.function == "main"
    assert [(row.name, row.difference.split(":")[0]) for row in verification.results if not row.equal] == [
        (result, f"its copy or part `%{new[:-1].split('%')[-1]}`" if "\n" in new else f"its copy or part `%{result}_2`")
    ]


def test_a_value_that_is_not_due_is_marked_where_it_is_returned():
    module, proof, _ = found(("%loss_2, %w_new_2\n", "%loss_2, %w_2\n"))
    (diagnostic,) = proof.diagnostics(module)
    assert diagnostic.message == "not proved: expected `%w_new`, found `%w`"
    assert diagnostic.site.part == Part("operand", 3)


def test_names_do_not_matter_where_an_update_tells():
    """`%b` updates `%w_2`, which scatter makes of `%w`."""
    renamed = ("%w_new_2", "%b")
    _, proof, verification = found(renamed)
    assert (proof.proved, proof.copies, verification.equal, verification.copies) == (True, 3, True, 3)
    _, proof, verification = found(renamed, ("%b = SGD(%w_2, %g_2)", "%b = SGD(%w_2, %dw_2)"))
    assert not proof.proved
    assert not verification.equal


def test_what_nothing_relates_is_said():
    """A device returns the loss of its own rows, by a name of its own."""
    _, proof, verification = found(
        ("return %loss_1, %w_new_1, %loss_2", "return %loss_1, %w_new_1, %own_2"),
        ("%loss_2: Float32[2]", "%own: Float32[2]"),
    )
    assert (proof.proved, proof.copies, proof.unclaimed) == (True, 2, ("%own_2",))
    assert (verification.equal, verification.unclaimed) == (True, ("%own_2",))


def test_a_copy_of_which_no_new_value_is_returned_is_said():
    _, proof, verification = found(
        ("%loss_2, %w_new_2\n", "%loss_2\n"), (", %w_new_2: Tensor[Float32, (4, 6), 2]\n", "\n")
    )
    assert (proof.proved, proof.unclaimed) == (True, ("the next %w_2",))
    assert (verification.equal, verification.unclaimed) == (True, ("the next %w_2",))


PARTS = [
    ([0], 4, [0, 0, 0, 0]),  # copies
    ([0, 1, 2, 3], 4, [0, 1, 2, 3]),  # parts
    ([0, 1], 4, [0, 1, 0, 1]),  # parts on adjacent devices, copies on those further apart
    ([0, 2], 4, [0, 0, 2, 2]),
    ([0, 1, 4, 5], 8, [0, 1, 0, 1, 4, 5, 4, 5]),
    ([0, 2, 4, 6], 8, [0, 0, 2, 2, 4, 4, 6, 6]),
    ([0, 3], 4, None),
    ([1], 2, None),
]


@pytest.mark.parametrize(("taken", "count", "expected"), PARTS)
def test_which_parts_devices_repeat(taken, count, expected):
    assert repeated(taken, count) == expected


def test_gradients_in_parts_have_copies_of_the_same_part():
    """Without an optimizer, no weight says where they are: devices have parts along one axis, and copies."""
    sequential = distir.transform(distir.models.mlp(2, 4, batch=8, dtype="Float32"), "grad", "optimizer=none")
    for words in (("tp=2", "dp=2"), ("dp=2", "tp=2")):
        module = distir.transform(sequential, *words)
        assert prove(module, sequential).proved
        gather = module.functions["main.gather"]
        number = next(i for i, p in enumerate(gather.params) if p.name.endswith("_2_2") and p.type.shape == (4, 2))
        returned = [*module.entry().returned]
        other = next(i for i, p in enumerate(gather.params) if p.name == gather.params[number].name[:-4] + "_1_1")
        sent = distir.ir.Apply(("wrong",), "Send", (returned[other],), distir.ir.Attributes({"device": 4}))
        main = module.entry()
        returned[number] = "wrong"
        body = (*main.body[:-1], sent, distir.ir.Return(tuple(returned)))
        wrong = distir.ir.Module([distir.ir.Function(f.name, f.params, body) if f is main else f for f in module])
        assert not prove(wrong, sequential).proved
        assert not verify(sequential, wrong).equal
