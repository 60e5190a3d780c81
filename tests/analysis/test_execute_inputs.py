"""What the reference executor takes and refuses: inputs, functions by name, programs that are wrong."""

import numpy as np
import pytest

import distir
from distir import InputError, ProgramError
from distir.analysis import execute, random_inputs

TEXT = """
func @main(%x: Tensor[Float32, (B, 3), 1], %y: Tensor[Float32, (B, 3), 1], %w: Tuple[Float32[1], Int64[1]]) {
  %a, %b = UnpackTuple(%w)
  %s = Add(%x, %y)
  %t = Mul(%s, %a)
  return %t, %b
}
"""
MODULE = distir.parse(TEXT)
X = np.ones((2, 3), np.float32)
W = (np.float32(2), np.int64(1))


def test_inputs_by_name_and_in_order_give_the_same():
    named = distir.run(MODULE, {"x": X, "y": X, "w": W})
    assert list(named) == ["t", "b"]
    np.testing.assert_array_equal(named["t"], np.full((2, 3), 4, np.float32))
    ordered = distir.run(MODULE, [X, X, W])
    np.testing.assert_array_equal(named["t"], ordered["t"])
    signed = distir.run(MODULE, {"%x": X, "%y": X, "%w": W})
    np.testing.assert_array_equal(named["t"], signed["t"])


def test_plain_numbers_and_lists_take_the_element_type_that_is_stated():
    found = distir.run(MODULE, {"x": [[1, 2, 3]], "y": [[0, 0, 0]], "w": (2, 1)})
    assert found["t"].dtype == np.float32
    assert found["t"].tolist() == [[2, 4, 6]]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"x": X, "y": X}, "`w` is missing"),
        ({"x": X, "y": X, "w": W, "z": X}, "there is no `z`"),
        ([X, X], "expected 3 inputs, found 2"),
        ([X, X, W, W], "expected 3 inputs, found 4"),
        ({"x": X.astype(np.float64), "y": X, "w": W}, r"`%x` expected `Tensor\[Float32, \(B, 3\), 1\]`, found"),
        ({"x": X[0], "y": X, "w": W}, "`%x` expected"),
        ({"x": np.ones((2, 4), np.float32), "y": X, "w": W}, "`%x` expected"),
        ({"x": X, "y": X, "w": W[0]}, "`%w` expected a tuple of 2"),
        ({"x": X, "y": X, "w": (*W, *W)}, "`%w` expected a tuple of 2"),
        ({"x": np.array(["a", "b"]), "y": X, "w": W}, "`%x` expected .*, found an array of"),
        ({"x": np.ones((2, 3), complex), "y": X, "w": W}, "found an array of complex128"),
    ],
)
def test_inputs_that_do_not_fit(inputs, words):
    with pytest.raises(InputError, match=words):
        distir.run(MODULE, inputs)


def test_a_named_dimension_that_is_bound_twice_differently():
    with pytest.raises(ProgramError) as error:
        distir.run(MODULE, {"x": X, "y": np.ones((5, 3), np.float32), "w": W})
    (found,) = error.value.diagnostics
    assert found.code.number == "DIR311"
    assert "`Tensor[Float32, (2, 3), 1]` for `%y`, found `Tensor[Float32, (5, 3)]`" in found.message
    assert found.site.part.key == 1


def test_a_program_that_is_wrong_is_not_run():
    module = distir.parse(TEXT.replace("Add(%x, %y)", "MatMul(%x, %y, %y)"))
    with pytest.raises(ProgramError) as error:
        distir.run(module, [X, X, W])
    assert [d.code.number for d in error.value.diagnostics] == ["DIR206"]


def test_functions_by_name():
    module = distir.parse(TEXT + "func @other(%x: Float32[1]) {\n  %y = Neg(%x)\n  return %y\n}\n")
    assert distir.run(module, [np.float32(2)], function="other")["y"] == -2
    assert distir.run(module, [np.float32(2)], function="@other")["y"] == -2
    with pytest.raises(LookupError, match="there is no function `@another`"):
        distir.run(module, [], function="another")
    with pytest.raises(LookupError, match="the module has no function"):
        distir.run(distir.parse(""), [])


def test_results_have_names_of_their_own():
    module = distir.parse("func @f(%x: Float32[1]) {\n  return %x, %x, 3, %x, 4\n}\n")
    assert list(distir.run(module, [np.float32(1)])) == ["x", "x_1", "result", "x_2", "result_1"]


def test_host_inputs_are_known_before_the_program_runs():
    module = distir.parse(
        "func @f(%x: Tensor[Float32, (2, 6), 1], %s: Tensor[Int64, (2,), host]) {\n"
        "  %y = Reshape(%x, %s)\n  return %y\n}\n"
    )
    (output,) = execute(module, {"x": np.zeros((2, 6), np.float32), "s": [3, 4]})
    assert str(output.type) == "Tensor[Float32, (3, 4), 1]"
    with pytest.raises(ProgramError):
        execute(module, {"x": np.zeros((2, 6), np.float32), "s": [5, 4]})


def test_random_inputs_are_the_same_for_the_same_seed_and_fit():
    first, again, other = (random_inputs(MODULE, seed, {"B": 4}) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first["x"], again["x"])
    assert not np.array_equal(first["x"], other["x"])
    assert distir.run(MODULE, first)["t"].shape == (4, 3)


@pytest.mark.parametrize(
    ("type", "words"),
    [
        ("D1", "needs a type to be given random values"),
        ("Tensor[Float32, ??, 1]", "needs a type"),
        ("Tensor[?, (2,), 1]", "needs a type"),
        ("Tensor[Float32, (?,), 1]", "needs a size for each dimension"),
        ("Tensor[Float32, (N,), 1]", "bind the named ones"),
    ],
)
def test_random_inputs_need_types(type, words):
    module = distir.parse(f"func @f(%x: {type}) {{\n  return %x\n}}\n")
    with pytest.raises(InputError, match=words):
        random_inputs(module, 0, {"B": 4})


def test_an_input_is_not_changed_by_a_run():
    module = distir.parse(
        "func @f(%w: Tensor[Float32, (2,), 1], %g: Tensor[Float32, (2,), 1]) {\n"
        "  %v = Optimizer(%w, %g)\n  return %v\n}\n"
    )
    w, g = np.ones(2, np.float32), np.ones(2, np.float32)
    distir.run(module, [w, g])
    assert w.tolist() == g.tolist() == [1, 1]
