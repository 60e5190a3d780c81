"""What is wrong in a program, by the first statement that shows it."""

import re

import pytest
from proof_samples import distributed, sequential

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
    assert message == (
        "not proved: `%y_1` is a partial sum over 2 shards, and `Relu` needs the sum: an all-reduce is missing"
    )
    assert statement.results == ("p_1",)


BIASED = """
func @main(
  %x: Tensor[Float32, (4, 8), 1] {batch = 0}, %v: Tensor[Float32, (8, 8), 1] {param},
  %w: Tensor[Float32, (8, 6), 1] {param}, %b: Tensor[Float32, (6,), 1] {param}
) {
  %h = MatMul(%x, %v)
  %r = Relu(%h)
  %y = Gemm(%r, %w, %b)
  %z = Relu(%y)
  return %z
}
"""
AGAIN = [
    (
        "MPIAllreduce(%y_sum_1, %y_sum_2)",
        "`Relu` is given 2 times `%y`",
        "`%y_again_1` is summed over 2 devices, 2 times",
    ),
    ("MPIAllreduce(%y_sum_1, %y_2)", "`%y_again_1` counts some addends of a sum more often than others", ""),
    ("MPIAllreduce(%y_1, %y_sum_2)", "`%y_again_1` counts some addends of a sum more often than others", ""),
]


@pytest.mark.parametrize(("again", "reason", "more"), AGAIN)
def test_a_product_with_its_share_of_a_bias_that_is_summed_again(again, reason, more):
    given = distir.parse(BIASED)
    shards = distir.format(distir.transform(given, "tp=2"))
    reduced = re.search(r".*= MPIAllreduce\(%y_1, %y_2\)\n", shards)[0]
    wrong = shards.replace(reduced, f"{reduced}  %y_again_1, %y_again_2 = {again}\n")
    wrong = wrong.replace("Relu(%y_sum_1)", "Relu(%y_again_1)").replace("Relu(%y_sum_2)", "Relu(%y_again_2)")
    message = prove(distir.parse(wrong), given).diagnostics(distir.parse(wrong))[0].message
    assert reason in message
    assert more in message
    assert "missing" not in message


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
    assert message == (
        "not proved: `Relu` is given 2 times `%y`, where the sequential program gives it `%y`; "
        "`%s_1` is summed over 2 devices, 2 times"
    )


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


STEP = """
func @main(
  %x: Tensor[Float32, (8, 4), 1] {batch = 0}, %t: Tensor[Float32, (8, 6), 1] {batch = 0},
  %w: Tensor[Float32, (4, 6), 1] {param}
) {
  %h = MatMul(%x, %w)
  %dh = MSELossGrad(1.0, %h, %t)
  %dw = Gemm[transA = true](%x, %dh)
  %w_new = SGD(%w, %dw)
  return %w_new
}
"""


def replicas(scaled):
    """A step on 4 devices whose losses are means over their own rows; `scaled`: what makes `%g` of the sum `%s`."""
    each = range(1, 5)
    params = ", ".join(
        f"%x_{i}: Tensor[Float32, (2, 4), {i}] {{batch = 0}}, %t_{i}: Tensor[Float32, (2, 6), {i}] {{batch = 0}}, "
        f"%w_{i}: Tensor[Float32, (4, 6), {i}]"
        for i in each
    )
    body = [
        f"%h_{i} = MatMul(%x_{i}, %w_{i})\n%dh_{i} = MSELossGrad(1.0, %h_{i}, %t_{i})\n"
        f"%dw_{i} = Gemm[transA = true](%x_{i}, %dh_{i})"
        for i in each
    ]
    body.append("%s_1, %s_2, %s_3, %s_4 = MPIAllreduce(%dw_1, %dw_2, %dw_3, %dw_4)")
    body += [f"%g_{i} = {scaled.replace('%s', f'%s_{i}')}\n%n_{i} = SGD(%w_{i}, %g_{i})" for i in each]
    body = "\n".join(body)
    return f"""
    func @main({params}) {{
      {body}
      return %n_1, %n_2, %n_3, %n_4
    }}

    func @main.scatter(
      %x: Tensor[Float32, (8, 4), 1], %t: Tensor[Float32, (8, 6), 1], %w: Tensor[Float32, (4, 6), 1]
    ) {{
      %x_1, %x_2, %x_3, %x_4 = MPIScatter[devices = [1, 2, 3, 4], axis = 0](%x)
      %t_1, %t_2, %t_3, %t_4 = MPIScatter[devices = [1, 2, 3, 4], axis = 0](%t)
      %w_1, %w_2, %w_3, %w_4 = MPIBroadcast[devices = [1, 2, 3, 4]](%w)
      return %x_1, %t_1, %w_1, %x_2, %t_2, %w_2, %x_3, %t_3, %w_3, %x_4, %t_4, %w_4
    }}

    func @main.gather(
      %n_1: Tensor[Float32, (4, 6), 1], %n_2: Tensor[Float32, (4, 6), 2],
      %n_3: Tensor[Float32, (4, 6), 3], %n_4: Tensor[Float32, (4, 6), 4]
    ) {{
      return %n_1
    }}
    """


def test_a_gradient_summed_over_4_replicas_and_divided_by_2():
    assert prove(distir.parse(replicas("Div(%s, 4.0)")), distir.parse(STEP)).proved
    for half in ("Div(%s, 2.0)", "Mul(%s, 0.5)"):
        message, statement = failed(text=replicas(half), sequential=STEP)
        assert message == (
            "not proved: `SGD` is given 2 times `%dw`, where the sequential program gives it `%dw`; "
            "`%g_1` is summed over 4 devices and divided by 2"
        )
        assert statement.results == ("n_1",)


def in_the_entry(text, change):
    """A program with each line of its entry function changed."""
    start, end = text.index("func @main("), text.index("func @main.scatter")
    return text[:start] + "\n".join(map(change, text[start:end].split("\n"))) + text[end:]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("mlp", "%x_2.2,", "%x_3.2,"), ("gpt2", "%kept_2_2,", "%kept_2_3,"), ("llama", "%kept_2_2,", "%kept_2_3,")],
)
def test_a_device_that_uses_another_microbatch(name, old, new):
    pipeline = distir.format(distributed(name, "pp=4 microbatches=4", training=True))
    wrong = in_the_entry(pipeline, lambda line: line.replace(old, new) if "_accumulate_backward(" in line else line)
    module = distir.parse(wrong)
    assert wrong != pipeline
    first, *_ = prove(module, sequential(name, training=True)).diagnostics(module)
    assert first.message == f"not proved: device 2 uses microbatch 3 where microbatch 2 is due: `{new[:-1]}`"
    assert new[1:-1] in module.functions["main"].body[first.site.index].args


@pytest.mark.parametrize("name", ["mlp", "gpt2", "llama"])
def test_a_microbatch_that_takes_the_place_of_another(name):
    stale = re.compile(r"%(x|target|input_ids)_3((?:\.\d)?)(?=[,)])")

    def change(line):
        results, equals, rest = line.partition(" = ")
        return line if "Split" in line or not equals else results + equals + stale.sub(r"%\1_2\2", rest)

    pipeline = distir.format(distributed(name, "pp=2 microbatches=4", training=True))
    module = distir.parse(in_the_entry(pipeline, change))
    found = [d.message for d in prove(module, sequential(name, training=True)).diagnostics(module)]
    assert all("microbatch 2 counts 2 times and microbatch 3 is missing" in message for message in found)


def test_a_microbatch_of_which_the_gradient_is_lost():
    pipeline = distir.format(distributed("mlp", "pp=2 microbatches=4", training=True))
    lost = re.sub(r"(%gradients_1_sum_1 = .*), %gradients_1_sum\)", r"\1, %gradients_1_1)", pipeline)
    assert lost != pipeline
    module = distir.parse(lost)
    found = [d.message for d in prove(module, sequential("mlp", training=True)).diagnostics(module)]
    assert found
    assert all("a sum over microbatches, of which microbatch 2 is missing" in message for message in found)


def test_a_result_that_was_not_divided():
    pipeline = distir.format(distributed("mlp", "pp=2 microbatches=4", training=True))
    mean = re.search(r"%mean_loss = Mul\(%\w+, (\S+)\)", pipeline)
    wrong = pipeline.replace(mean[0], mean[0].replace(mean[1], str(4 * float(mean[1]))))
    module = distir.parse(wrong)
    (found,) = prove(module, sequential("mlp", training=True)).diagnostics(module)
    assert found.message == "not proved: expected `%mean_loss`, found 4 times `%mean_loss`"
