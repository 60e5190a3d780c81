import pytest
from cli_samples import MACHINE, PIPELINE, SMALL

from distir.analysis.program import read
from distir.ir import Apply, Call, Function, Module
from distir.ir.rolling import unrolled


def unannotated(module):
    """The module without annotations."""
    functions = []
    for function in module:
        body = [
            type(s)(**{f: getattr(s, f) for f in s.__dataclass_fields__ if f != "claims"})
            if isinstance(s, (Apply, Call))
            else s
            for s in function.body
        ]
        functions.append(Function(function.name, function.params, tuple(body)))
    return Module(functions)


def test_the_whole_program_with_types_values_and_times(distir, file, golden):
    ended = distir("show", file("a.dir", PIPELINE), "--hardware", MACHINE, "--bind", "B=64")
    assert ended.code == 0
    assert ended.err == ""
    golden("show.txt", ended.out)


@pytest.mark.parametrize("flags", [(), ("--bind", "B=64"), ("--function", "@layer")])
@pytest.mark.parametrize("text", [PIPELINE, SMALL])
def test_what_is_shown_is_the_same_program_with_annotations_and_checks(distir, file, text, flags):
    if "(B," not in text:
        flags = ()
    if "--function" in flags and "@layer" not in text:
        pytest.skip("has no such function")
    shown = read(distir("show", file("a.dir", text), *flags).out)
    assert not shown.diagnostics
    assert unannotated(shown.module) == unannotated(read(text).module)


SPREAD = """func @main(%x_{1..4}: Tensor[Float32, (4, 8), 1], %w_{1..4}: Tensor[Float32, (8, 8), 1] {param}) {
  repeat 4 times {
    [%y_{1..4}] = Send[device = 2..5]([%x_{1..4}])
    [%z_{1..4}] = Relu([%y_{1..4}])
  }
  repeat 4 times {
    %h = MatMul(%x_1 then %k, [%w_{1..4}])
    %k = Concat[axis = 0](%h, %h)
  }
  return %k, %z_{1..4}
}
"""


def test_counted_statements_are_annotated_with_what_holds_each_time(distir, file):
    shown = distir("show", file("a.dir", SPREAD), "--hardware", MACHINE).out
    assert "[%y_{1..4}]: Tensor[Float32, (4, 8)] = Send" in shown  # each on another device
    assert "%k = Concat" in shown  # each time twice as long
    again = read(shown)
    assert not again.diagnostics
    assert unannotated(unrolled(again.module)) == unannotated(unrolled(read(SPREAD).module))


def test_types_of_many_tensors_are_summed_up(distir, file):
    text = """func @main(%x: Tensor[Float32, (160, 10), 1]) {
  %x_{1..16} = Split[axis = 0, num_outputs = 16](%x)
  %all = MakeTuple(%x_{1..16})
  return %all
}
"""
    shown = distir("show", file("a.dir", text), "--hardware", MACHINE).out
    assert "(%x)  // 16 of Tensor[Float32, (10, 10), 1]; " in shown
    assert "%all = MakeTuple(%x_{1..16})" in shown
    assert "// 16 tensors, 6.40kB" in shown


def test_what_is_shown_once_is_shown_alike_again(distir, file):
    once = distir("show", file("a.dir", SMALL), "--hardware", MACHINE).out
    body = [line for line in once.split("\n") if not line.startswith("//")]
    again = distir("show", file("a.dir", "\n".join(line.split("//")[0] for line in body)), "--hardware", MACHINE).out
    assert again == once


def test_a_program_that_cannot_be_simulated_is_shown_without_times_and_says_why(distir, file):
    ended = distir("show", file("a.dir", PIPELINE))
    assert ended.code == 0
    assert "%a_1: Tensor[Float32, (B/2, 40), 1] = @layer" in ended.out
    assert "us" not in ended.out
    assert "shown without times: the dimension `B` has no size" in ended.err


def test_comments_are_kept(distir, file):
    shown = distir("show", file("a.dir", PIPELINE)).out
    assert shown.startswith("// Two stages on two devices, two microbatches.\n")
    assert "%y = Relu(%h) // activations" in shown


def test_a_wrong_program_is_not_shown(distir, file):
    ended = distir("show", file("a.dir", SMALL.replace("(3, 2)", "(4, 2)")))
    assert (ended.code, ended.out) == (1, "")
    assert "DIR301" in ended.err
