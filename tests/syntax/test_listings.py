"""The listings of the paper are read as they are printed there."""

import pytest

from distir.ir import Apply, Call, Literal
from distir.syntax import format, parse  # noqa: A004

FIGURE_2 = """\
func @dense(%w, %x) {
  %A, %b = UnpackTuple(%w)
  %h = Gemm(%x, %A, %b)
  %a = Relu(%h)
  return %a
}

func @mlpPP(%w1: D1, %w2: D2, %x: D1, %y: D2) {
  // Split into microbatches 1 and 2
  %x_1: D1, %x_2: D1 = Split(%x, dim=0, num_splits=2)
  %y_1: D2, %y_2: D2 = Split(%y, dim=0, num_splits=2)
  // Pipeline
  %as_1: D1 = @dense(%w1, %x_1)
  %ar_1: D2 = Send(%as_1, 2)
  %as_2: D1 = @dense(%w1, %x_2)
  %p_1: D2 = @dense(%w2, %ar_1)
  %ar_2: D2 = Send(%as_2, 2)
  %dp_1: D2 = @lossGrad(%p_1, %y_1)
  %dw2_1, %das_1: D2 = @denseGrad(%w2, %ar_1, %dp_1)
  %dar_1: D1 = Send(%das_1, 1)
  %dw1_1: D1, _ = @denseGrad(%w1, %x_1, %dar_1)
  // Weight update (WU)
  %w1_new: D1 = Optimizer(%w1, %dw1_1)
  return %w1_new
}
"""

ZERO = """\
func @mlpDP_ZeRO(
    %w1: D1,
    %w2: D2,
    %x_1: D1,
    %x_2: D2) {
  %as_1: D1 = @dense(%w1, %x_1)
  // %w1 is managed exclusively by device 1
  %w1_2_f: D2 = Send(%w1, 2)
  %dw1_1, _: D1 = @denseGrad(%w1, %x_1, %as_1)
  %dw1: D1 = MPIReduce([%dw1_1, %dw1_2], 1)
  return %w1, %w2
 }
}
"""

MIXED = """\
func @main(%211, %3114) {
  // %3114 is an input
  %218 = Shape(%211)
  %219 = Constant[value = 2]()
  %220 = Gather[axis = 0](%218, %219)
  %223 = Unsqueeze[axes = [0]](%220)
  %224 = Concat[axis = 0](%3114, %223)
  %225 = Reshape(%211, %224)
  return %225
}
"""


@pytest.mark.parametrize(("text", "codes"), [(FIGURE_2, []), (ZERO, ["DIR107"]), (MIXED, [])])
def test_the_listings_are_read(text, codes):
    syntax = parse(text)
    assert [d.code.number for d in syntax.diagnostics] == codes
    again = parse(format(syntax))
    assert again.module == syntax.module
    assert again.diagnostics == ()


def test_keywords_are_attributes_and_claims_belong_to_one_name():
    body = parse(FIGURE_2).module.functions["mlpPP"].body
    split = body[0]
    assert isinstance(split, Apply)
    assert (split.args, dict(split.attrs)) == (("x",), {"dim": 0, "num_splits": 2})
    send = body[3]
    assert isinstance(send, Apply)
    assert send.args == ("as_1", Literal(2))
    grad = body[8]
    assert isinstance(grad, Call)
    assert [claim and str(claim) for claim in grad.claims] == [None, "D2"]


def test_elided_bodies_are_distinct_from_mistakes():
    syntax = parse("func @denseGrad(%wb, %x, %da) { ... }\n\nfunc @lossGrad(%p, %y) { ... }\n")
    assert [d.code.number for d in syntax.diagnostics] == ["DIR106", "DIR106"]
    assert [len(f.params) for f in syntax.module] == [3, 2]
