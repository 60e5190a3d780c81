"""Bugs as they were reported of training frameworks, planted on a mesh: `check` finds each at its line.

Sequence parallelism, a split vocabulary written out, experts, clipping, dropout; `test_mesh_bugs` has those of plain
data and tensor parallelism.
"""

import pytest
from mesh_programs import TRAINING

from distir.analysis.program import read
from distir.diagnostics import Severity
from distir.transform.mesh import erase, expand
from distir.transform.verification import verify

SEQUENCE = """\
func @main(
  %x: Tensor[Float32, (4@dp, 8@tp, 16), 1] {batch = 0},
  %dy: Tensor[Float32, (4@dp, 8@tp, 16), 1] {batch = 0},
  %g: Tensor[Float32, (16,), 1] {param},
  %w1: Tensor[Float32, (16, 32@tp), 1] {param},
  %w2: Tensor[Float32, (32@tp, 16), 1] {param}
) mesh (dp = 2, tp = 2) {
  %n = RMSNormalization(%x, %g)
  %n_all = AllGather[axis = "tp", dim = 1](%n)
  %h = MatMul(%n_all, %w1)
  %a = Relu(%h)
  %p = MatMul(%a, %w2)
  %own = ReduceScatter[axis = "tp", dim = 1](%p)
  %y = Add(%x, %own)
  %dy_all = AllGather[axis = "tp", dim = 1](%dy)
  %w2t = Transpose[perm = [1, 0]](%w2)
  %da = MatMul(%dy_all, %w2t)
  %dh = ReluGrad(%da, %h)
  %w1t = Transpose[perm = [1, 0]](%w1)
  %dn_own = MatMul(%dh, %w1t)
  %dn = ReduceScatter[axis = "tp", dim = 1](%dn_own)
  %dx, %dg_own = RMSNormalizationGrad(%dn, %x, %g)
  %dg_dp = AllReduce[axis = "dp"](%dg_own)
  %dg = AllReduce[axis = "tp"](%dg_dp)
  %g_new = SGD(%g, %dg)
  return %y, %dx, %g_new
}
"""

VOCABULARY = """\
func @main(
  %logits: Tensor[Float32, (8@dp, 32@tp), 1] {batch = 0},
  %chosen: Tensor[Float32, (8@dp, 32@tp), 1] {batch = 0}
) mesh (dp = 2, tp = 2) {
  %m_own = ReduceMax(%logits, [1])
  %m = AllReduce[axis = "tp", op = "max"](%m_own)
  %s = Sub(%logits, %m)
  %e = Exp(%s)
  %t_own = ReduceSum(%e, [1])
  %t = AllReduce[axis = "tp"](%t_own)
  %log = Log(%t)
  %picked = Mul(%s, %chosen)
  %l_own = ReduceSum(%picked, [1])
  %l = AllReduce[axis = "tp"](%l_own)
  %losses = Sub(%log, %l)
  %loss_own = ReduceMean[keepdims = 0](%losses, [0, 1])
  %loss = AllReduce[axis = "dp"](%loss_own)
  return %loss
}
"""

EXPERTS = """\
func @main(
  %x: Tensor[Float32, (4, 8@ep, 16), 1] {batch = 1},
  %w: Tensor[Float32, (4@ep, 16, 16), 1] {param}
) mesh (ep = 2) {
  %there = AllToAll[axis = "ep", split = 0, join = 1](%x)
  %made = MatMul(%there, %w)
  %back = AllToAll[axis = "ep", split = 1, join = 0](%made)
  %y = Add(%x, %back)
  return %y
}
"""

CLIPPED = TRAINING.replace(
    "  %w1_new, %m1_new",
    """\
  %squares1 = Mul(%dw1, %dw1)
  %norm_own = ReduceSum[keepdims = 0](%squares1, [0, 1])
  %norm_all = AllReduce[axis = "tp"](%norm_own)
  %norm = Sqrt(%norm_all)
  %w1_new, %m1_new""",
).replace("return %loss", "return %norm, %loss")

BUGS = [
    ("a norm's gradient is of a shard's own places", SEQUENCE, ("SGD(%g, %dg)", "SGD(%g, %dg_dp)"), "DIR423", "%g_new"),
    ("a norm's gradient is of its own examples", SEQUENCE, ('"tp"](%dg_dp)', '"tp"](%dg_own)'), "DIR423", "%g_new"),
    (
        "a norm's gradient is summed over shards twice",
        SEQUENCE,
        ('[axis = "dp"](%dg_own)', '[axis = "tp"](%dg_own)'),
        "DIR424",
        "%dg =",
    ),
    ("the sequence is not gathered", SEQUENCE, ("MatMul(%n_all, %w1)", "MatMul(%n, %w1)"), "DIR423", "%h ="),
    (
        "a gradient by places is not gathered",
        SEQUENCE,
        ("MatMul(%dy_all, %w2t)", "MatMul(%dy, %w2t)"),
        "DIR423",
        "%da =",
    ),
    ("the input's gradient is a shard's own", SEQUENCE, ("Grad(%dn, %x", "Grad(%dn_own, %x"), "DIR423", "%dx, %dg_own"),
    ("scattered along the batch", SEQUENCE, ("dim = 1](%dn_own)", "dim = 0](%dn_own)"), "DIR423", "%dx, %dg_own"),
    ("a residual beside all of the sequence", SEQUENCE, ("Add(%x, %own)", "Add(%n_all, %own)"), "DIR423", "%y ="),
    ("a residual is added before it is scattered", SEQUENCE, ("Add(%x, %own)", "Add(%x, %p)"), "DIR423", "%y ="),
    ("the gradient is gathered twice", SEQUENCE, ("MatMul(%dy_all, %w2t)", "MatMul(%twice, %w2t)"), "DIR424", "%twice"),
    ("a shard's own maximum", VOCABULARY, ("Sub(%logits, %m)", "Sub(%logits, %m_own)"), "DIR423", "%s ="),
    ("a shard's own sum of exponentials", VOCABULARY, ("Log(%t)", "Log(%t_own)"), "DIR423", "%log ="),
    ("a shard's own label", VOCABULARY, ("Sub(%log, %l)", "Sub(%log, %l_own)"), "DIR423", "%losses ="),
    ("maxima are added up", VOCABULARY, (', op = "max"](%m_own)', "](%m_own)"), "DIR424", "%m ="),
    ("the greatest of sums", VOCABULARY, ('"tp"](%t_own)', '"tp", op = "max"](%t_own)'), "DIR424", "%t ="),
    ("sums over examples in place of classes", VOCABULARY, ('"tp"](%l_own)', '"dp"](%l_own)'), "DIR424", "%l ="),
    ("one replica's loss", VOCABULARY, ("return %loss", "return %loss_own"), "DIR426", "return"),
    ("tokens are not sent to their experts", EXPERTS, ("MatMul(%there", "MatMul(%x"), "DIR423", "%made ="),
    ("tokens are sent the other way", EXPERTS, ("split = 0, join = 1", "split = 1, join = 0"), "DIR424", "%there ="),
    ("tokens are not sent back", EXPERTS, ("Add(%x, %back)", "Add(%x, %made)"), "DIR423", "%y ="),
    ("clipped by the norm of a shard", CLIPPED, ("Sqrt(%norm_all)", "Sqrt(%norm_own)"), "DIR423", "%norm ="),
    (
        "the norm of a part is summed over replicas",
        CLIPPED,
        ('"tp"](%norm_own)', '"dp"](%norm_own)'),
        "DIR424",
        "%norm_all",
    ),
    (
        "dropout by chance of each device",
        TRAINING,
        ("%p = MatMul(%a,", "%r = Dropout(%a, 0.5, true)\n  %p = MatMul(%r,"),
        "DIR423",
        "%r =",
    ),
]

TWICE = ("%da = ", '%twice = AllGather[axis = "tp", dim = 1](%dy_all)\n  %da = ')


@pytest.mark.parametrize(("base", "edit", "code", "line"), [bug[1:] for bug in BUGS], ids=[bug[0] for bug in BUGS])
def test_check_finds_a_reported_bug_at_its_line(base, edit, code, line):
    before, after = edit
    assert base.count(before) == 1
    text = base.replace(before, after)
    program = read(text.replace(*TWICE) if "%twice" in after else text)
    errors = [d for d in program.diagnostics if d.severity is Severity.ERROR]
    number, _ = program.source.position(errors[0].site.start)
    assert errors[0].code.number == code, errors[0]
    assert line in program.source.line(number), errors[0]
    assert {d.code.number for d in errors} == {code}, "one mistake, one kind of error"


@pytest.mark.parametrize(
    "text", [SEQUENCE, VOCABULARY, EXPERTS, CLIPPED], ids=["sequence", "vocabulary", "experts", "clipped"]
)
def test_the_programs_are_right_without_them(text):
    program = read(text)
    assert not program.errors, program.errors[0]
    found = verify(erase(program.module), expand(program.module))
    assert not [row for row in found.results if not row.max_abs_error <= row.tolerance]
