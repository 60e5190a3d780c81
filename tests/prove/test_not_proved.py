"""What is wrong in a program, by the first statement that shows it."""

import distir
from distir.prove import prove

SEQUENTIAL = """
func @main(
  %x: Tensor[Float32, (8, 4), 1], %w: Tensor[Float32, (4, 6), 1], %v: Tensor[Float32, (6, 2), 1]
) {
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  %y = MatMul(%a, %v)
  %p = Relu(%y)
  return %p
}
"""

SHARDS = """
func @main(
  %x_1: Tensor[Float32, (8, 4), 1], %x_2: Tensor[Float32, (8, 4), 2],
  %w_1: Tensor[Float32, (4, 3), 1], %w_2: Tensor[Float32, (4, 3), 2],
  %v_1: Tensor[Float32, (3, 2), 1], %v_2: Tensor[Float32, (3, 2), 2]
) {
  %h_1 = MatMul(%x_1, %w_1)
  %h_2 = MatMul(%x_2, %w_2)
  %a_1 = Relu(%h_1)
  %a_2 = Relu(%h_2)
  %y_1 = MatMul(%a_1, %v_1)
  %y_2 = MatMul(%a_2, %v_2)
  %s_1, %s_2 = MPIAllreduce(%y_1, %y_2)
  %p_1 = Relu(%s_1)
  %p_2 = Relu(%s_2)
  return %p_1, %p_2
}

func @main.scatter(
  %x: Tensor[Float32, (8, 4), 1], %w: Tensor[Float32, (4, 6), 1], %v: Tensor[Float32, (6, 2), 1]
) {
  %x_1, %x_2 = MPIBroadcast[devices = [1, 2]](%x)
  %w_1, %w_2 = MPIScatter[devices = [1, 2], axis = 1](%w)
  %v_1, %v_2 = MPIScatter[devices = [1, 2], axis = 0](%v)
  return %x_1, %x_2, %w_1, %w_2, %v_1, %v_2
}

func @main.gather(%p_1: Tensor[Float32, (8, 2), 1], %p_2: Tensor[Float32, (8, 2), 2]) {
  return %p_1
}
"""


def failed(*changes, text=SHARDS, sequential=SEQUENTIAL):
    """The only message about a program with lines changed, and the statement that it is about."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    module = distir.parse(text)
    assert distir.check(module) == [] or all(d.severity.name == "WARNING" for d in distir.check(module))
    (found,) = prove(module, distir.parse(sequential)).diagnostics(module)
    assert found.code.number == "DIR801"
    statement = None if found.site.index is None else module.functions[found.site.function].body[found.site.index]
    return found.message, statement


def test_it_is_right_as_it_is():
    assert prove(distir.parse(SHARDS), distir.parse(SEQUENTIAL)).proved


def test_a_missing_all_reduce():
    message, statement = failed(("%p_1 = Relu(%s_1)", "%p_1 = Relu(%y_1)"))
    assert message == "not proved: `%y_1` is a partial sum, and `Relu` needs the sum: an all-reduce is missing"
    assert statement.results == ("p_1",)


def test_parts_of_different_places():
    message, statement = failed(
        ("%v_1, %v_2 = MPIScatter[devices = [1, 2], axis = 0](%v)", "%v.1, %v.2 = Split[axis = 0](%v)\n"
         "%v_1 = Identity(%v.2)\n%v_2 = Send[device = 2](%v.1)"),
    )  # fmt: skip
    assert "`MatMul`: of dimension 0, one operand has the places 0–2 and another 3–5 of 6" in message
    assert statement.results == ("y_1",)


def test_a_sum_of_which_a_part_is_counted_twice():
    message, _ = failed(
        ("%s_1, %s_2 = MPIAllreduce(%y_1, %y_2)", "%s.1, %s.2 = MPIAllreduce(%y_1, %y_2)\n"
         "%s_1, %s_2 = MPIAllreduce(%s.1, %s.2)"),
    )  # fmt: skip
    assert message == "not proved: `Relu` is given 2 times `%y`, where the sequential program gives it `%y`"


def test_a_result_that_is_a_part():
    message, statement = failed(
        ("  return %p_1\n", "  %rows, _ = Split[axis = 0](%p_1)\n  return %rows\n"),
    )
    assert message == "not proved: expected `%p`, found rows 0–3 of `%p`"
    assert statement.args == ("rows",)


def test_a_value_from_before_the_step():
    step = """
    func @main(%w: Tensor[Float32, (4,), 1], %g: Tensor[Float32, (4,), 1]) {
      %w_new = SGD(%w, %g)
      return %w_new
    }
    """
    stale = step.replace("return %w_new", "return %w")
    message, _ = failed(text=stale, sequential=step)
    assert message == "not proved: expected `%w_new`, found `%w`"


def test_a_statement_is_reported_once_with_all_that_rests_on_it():
    step = """
    func @main(%x: Tensor[Float32, (4,), 1]) {
      %a = Relu(%x)
      %b = Exp(%a)
      %c = Sin(%a)
      return %b, %c
    }
    """
    module = distir.parse(step.replace("Relu", "Gelu"))
    (found,) = prove(module, distir.parse(step)).diagnostics(module)
    assert [note.message for note in found.notes] == ["of the sequential program, `%b`, `%c` rest on it"]
