"""Bugs of parallel programs, planted one at a time: `check` finds each, at the statement where it stands or is met."""

import pytest
from mesh_programs import ATTENTION, MLP, STATE_IN_PARTS, TRAINING

from distir.analysis.program import read
from distir.diagnostics import Severity

BUGS = [
    ("no sum after the row-parallel product", TRAINING, ("Add(%s, %b2)", "Add(%p, %b2)"), "DIR423", "%y = Add"),
    ("no sum before a nonlinearity", MLP, ("return %y", "%z = Relu(%p)\n  return %z"), "DIR423", "%z = Relu"),
    ("summed twice", MLP, ("return %y", '%z = AllReduce[axis = "tp"](%y)\n  return %z'), "DIR424", "%z ="),
    ("summed over another axis", MLP, ('AllReduce[axis = "tp"]', 'AllReduce[axis = "dp"]'), "DIR424", "%y ="),
    (
        "gathered in place of summed",
        MLP,
        ('AllReduce[axis = "tp"](%p)', 'AllGather[axis = "tp"](%p)'),
        "DIR424",
        "%y =",
    ),
    ("greatest in place of sum", MLP, ('[axis = "tp"](%p)', '[axis = "tp", op = "max"](%p)'), "DIR424", "%y ="),
    ("gradient not summed over replicas", TRAINING, ("Adam(%w1, %dw1,", "Adam(%w1, %dw1_own,"), "DIR423", "= Adam"),
    ("gradient of a bias not summed", TRAINING, ("SGD(%b2, %db2)", "SGD(%b2, %db2_own)"), "DIR423", "%b2_new ="),
    (
        "gradient summed over shards",
        TRAINING,
        ('%dw1 = AllReduce[axis = "dp"]', '%dw1 = AllReduce[axis = "tp"]'),
        "DIR424",
        "%dw1 =",
    ),
    (
        "gradient of what shards share summed over them too",
        TRAINING,
        ("SGD(%b2, %db2)", "SGD(%b2, %twice)"),
        "DIR424",
        "%twice =",
    ),
    (
        "whole gradient for a part of a weight",
        TRAINING,
        ('ReduceScatter[axis = "dp", dim = 1]', 'AllReduce[axis = "dp"]'),
        "DIR423",
        "%w2_new =",
    ),
    ("gradient not scattered", TRAINING, ("SGD(%w2, %dw2)", "SGD(%w2, %dw2_own)"), "DIR423", "%w2_new ="),
    (
        "scattered along another dimension",
        TRAINING,
        ('[axis = "dp", dim = 1](%dw2_own)', '[axis = "dp", dim = 0](%dw2_own)'),
        "DIR423",
        "%w2_new =",
    ),
    ("part of a weight in place of all of it", TRAINING, ("MatMul(%a, %w2_all)", "MatMul(%a, %w2)"), "DIR423", "%p ="),
    ("gathered along another dimension", TRAINING, ("dim = 1](%w2)", "dim = 0](%w2)"), "DIR424", "%w2_all ="),
    ("gathered over another axis", TRAINING, ('AllGather[axis = "dp"', 'AllGather[axis = "tp"'), "DIR424", "%w2_all ="),
    ("gathered weight returned", TRAINING, ("SGD(%w2, %dw2)", "SGD(%w2_all, %dw2_all)"), "DIR425", "return"),
    ("updated part of a weight returned", STATE_IN_PARTS, ("return %gathered", "return %updated"), "DIR425", "return"),
    ("state of all replicas returned", STATE_IN_PARTS, ("(%updated)", "(%m_next)"), "DIR425", "return"),
    ("loss of one replica returned", TRAINING, ("return %loss", "return %own"), "DIR426", "return"),
    (
        "labels of all replicas",
        TRAINING,
        ("%t: Tensor[Float32, (8@dp, 16)", "%t: Tensor[Float32, (8, 16)"),
        "DIR423",
        "%d = Sub",
    ),
    (
        "bias split otherwise than its layer",
        TRAINING,
        ("%b1: Tensor[Float32, (32@tp,)", "%b1: Tensor[Float32, (32@dp,)"),
        "DIR423",
        "%h = Add",
    ),
    (
        "rows joined in another order",
        ATTENTION,
        ('%wt = AllGather[axis = "dp"', '%wt = AllGather[axis = "tp"'),
        "DIR424",
        "%wt =",
    ),
    ("embedding of own rows", ATTENTION, ("RMSNormalization(%x", "RMSNormalization(%e"), "DIR423", "%n ="),
    (
        "norm of a part of the features",
        ATTENTION,
        ("%n = RMSNormalization(%x", '%xp = Shard[axis = "tp", dim = 2](%x)\n  %n = RMSNormalization(%xp'),
        "DIR423",
        "%n =",
    ),
    ("fused weight cut without its blocks", ATTENTION, ("48@tp[16, 16, 16]", "48@tp"), "DIR423", "= Split"),
    (
        "softmax of own classes",
        ATTENTION,
        ("%classes = Transpose[perm = [0, 2, 1]](%logits)", "%classes = Softmax(%logits)"),
        "DIR423",
        "%classes =",
    ),
    (
        "loss of own classes",
        ATTENTION,
        ('AllReduce[axis = "dp"](%of_batch)', 'AllReduce[axis = "dp"](%own)'),
        "DIR426",
        "return",
    ),
    ("residual added before the sum", ATTENTION, ("Add(%s, %bo)", "Add(%p, %bo)"), "DIR423", "%b = Add"),
    ("degree that does not divide", MLP, ("tp = 2", "tp = 5"), "DIR422", "%w1:"),
    ("axis that is not there", MLP, ("24@tp)", "24@pt)"), "DIR421", "%w1:"),
    (
        "exchanged along the dimension that is split",
        MLP,
        ("%p = MatMul(%a,", '%b = AllToAll[axis = "tp", split = 1, join = 1](%a)\n  %p = MatMul(%b,'),
        "DIR306",
        "%b =",
    ),
    ("type that contradicts", MLP, ("%p = MatMul", "%p: Tensor[Float32, (B@dp, 12), 1] = MatMul"), "DIR303", "%p:"),
]


INSERTED = {
    "%twice": ("%b2_new = SGD", '%twice = AllReduce[axis = "tp"](%db2)\n  %b2_new = SGD'),
    "%dw2_all": ("%w2_new = SGD", '%dw2_all = AllReduce[axis = "dp"](%dw2_own)\n  %w2_new = SGD'),
}
"""By value that an edit uses: the edit that makes it."""


@pytest.mark.parametrize(("base", "edit", "code", "line"), [bug[1:] for bug in BUGS], ids=[bug[0] for bug in BUGS])
def test_check_finds_a_planted_bug_at_its_line(base, edit, code, line):
    before, after = edit
    assert base.count(before) == 1
    text = base.replace(before, after)
    for name, made in INSERTED.items():
        text = text.replace(*made) if name in after else text
    program = read(text)
    errors = [d for d in program.diagnostics if d.severity is Severity.ERROR]
    number, _ = program.source.position(errors[0].site.start)
    assert errors[0].code.number == code, errors[0]
    assert line in program.source.line(number), errors[0]
    assert {d.code.number for d in errors} == {code}, "one mistake, one kind of error"


def test_heads_divide_by_all_axes_that_split_their_dimension():
    """Each of the axes alone would do: 8 heads go to 4 devices, and not to 4 x 4."""
    text = """func @main(%q: Tensor[Float32, (2, 16, 64@(tp, cp)), 1]) mesh (tp = 4, cp = 4) {
  %y = Attention[q_num_heads = HEADS, kv_num_heads = HEADS](%q, %q, %q)
  return %y
}
"""
    assert [d.code.number for d in read(text.replace("HEADS", "8")).errors] == ["DIR423"]
    assert not read(text.replace("HEADS", "16")).errors
