"""What is said of operands that an op computes no parts of results of: bugs of parallel programs, one op each."""

import pytest

from distir.ops import OPS, canonical, infer_types
from distir.placement.along import GREATEST, PARTIAL, WHOLE, Split
from distir.placement.nearest import nearest
from distir.placement.typings import typings
from distir.syntax import parse_example


def asked(text, *placements, size=2):
    """The typings, and what is nearest, of a statement on operands so placed; later ones are whole."""
    params, apply = parse_example(text.replace("{", "Tensor[Float32, (").replace("}", "), 1]"), canonical)
    known = {p.name: p.type for p in params}
    args = [(known.get(a) if a != "_" else None) if isinstance(a, str) else a for a in apply.args]
    states = [*placements, *[WHOLE] * (len(args) - len(placements))]
    results = infer_types(OPS[apply.op], args, apply.attrs, len(apply.results))
    found = typings(OPS[apply.op], apply.attrs, args, states, results, size)
    return found, None if found else nearest(OPS[apply.op], apply.attrs, args, states, results, size)


ADD = "%y = Add(%x: {8, 16}, %z: {8, 16})"
PRODUCT = "%y = MatMul(%x: {64, 16}, %w: {16, 32})"
NORM = "%dx, %ds = RMSNormalizationGrad(%dy: {8, 16}, %x: {8, 16}, %s: {16,})"
UPDATE = "%w_new, %m_new, %v_new = Adam(%w: {8, 16}, %dw: {8, 16}, %m: {8, 16}, %v: {8, 16}, 1)"
ATTENTION = "%y = Attention[q_num_heads = 6, kv_num_heads = 6](%q: {2, 5, 48}, %k: {2, 5, 48}, %v: {2, 5, 48})"

BUGS = [
    pytest.param(
        ADD, (PARTIAL, WHOLE), [(0, "AllReduce", None)], "once for each device", id="no all-reduce of a product"
    ),
    pytest.param(
        "%y = Add(%x: {8, 16}, %b: {16,})",
        (PARTIAL,),
        [(0, "AllReduce", None)],
        "once for each device",
        id="bias before the sum",
    ),
    pytest.param(NORM, (PARTIAL,), [(0, "AllReduce", None)], "pending sum", id="no all-reduce of a product's gradient"),
    pytest.param(
        "%y = Relu(%x: {8, 16})", (PARTIAL,), [(0, "AllReduce", None)], "pending sum", id="activation of a pending sum"
    ),
    pytest.param(
        "%y = Cast[to = BFloat16](%x: {8, 16})",
        (PARTIAL,),
        [(0, "AllReduce", None)],
        "pending sum",
        id="pending sum in another type",
    ),
    pytest.param(
        UPDATE, (WHOLE, PARTIAL), [(1, "AllReduce", None)], "pending sum", id="update by a gradient of one replica"
    ),
    pytest.param(
        UPDATE,
        (Split(0), PARTIAL, Split(0), Split(0)),
        [(1, "ReduceScatter", 0)],
        "pending sum",
        id="the same, of a part",
    ),
    pytest.param(
        UPDATE,
        (Split(0), WHOLE, Split(0), Split(0)),
        [(1, "Slice", 0)],
        "parts of one dimension",
        id="whole gradient for a part",
    ),
    pytest.param(
        UPDATE, (WHOLE, Split(0)), [(1, "AllGather", 0)], "dimension 0", id="part of the gradient for a whole weight"
    ),
    pytest.param(PRODUCT, (Split(0), Split(0)), [(1, "AllGather", 0)], "dimension 0", id="part for a gathered weight"),
    pytest.param(
        "%y = Sub(%x: {8, 16}, %m: {8, 1})",
        (Split(1), GREATEST),
        [(1, "AllReduce max", None)],
        "maxima",
        id="own maximum of a softmax",
    ),
    pytest.param(
        "%y = Log(%x: {8, 1})", (PARTIAL,), [(0, "AllReduce", None)], "pending sum", id="own sum of exponentials"
    ),
    pytest.param(
        "%y = Sub(%log: {8, 1}, %picked: {8, 1})",
        (WHOLE, PARTIAL),
        [(1, "AllReduce", None)],
        "once for each device",
        id="logarithm not shared",
    ),
    pytest.param(
        "%y = Mul(%x: {8, 16}, %z: {8, 16})",
        (PARTIAL, Split(0)),
        [(0, "ReduceScatter", 0)],
        "pending sum",
        id="product of a sum and a part",
    ),
    pytest.param(
        "%y = Softmax(%x: {8, 16})",
        (Split(1),),
        [(0, "AllGather", 1)],
        "dimension 1",
        id="softmax over a split dimension",
    ),
    pytest.param(ADD, (Split(0), Split(1)), [(0, "AllToAll", 1)], "parts of one dimension", id="split otherwise"),
    pytest.param(
        ADD,
        (Split(0), Split(0, zigzag=True)),
        [(0, "AllGather", 0), (1, "AllGather", 0)],
        "other rows",
        id="rows in another order",
    ),
    pytest.param(
        "%y = Sum(%x: Tuple[{4,}, {4,}], %z: Tuple[{4,}, {4,}])",
        ((PARTIAL, WHOLE), (PARTIAL, PARTIAL)),
        [(1, "AllReduce", None)],
        "in item 1, a whole value",
        id="one item of a tuple",
    ),
]


@pytest.mark.parametrize(("text", "placements", "changes", "reason"), BUGS)
def test_the_nearest_typing_is_a_collective_away(text, placements, changes, reason):
    found, wrong = asked(text, *placements)
    assert not found
    assert [(change.operand, change.means, change.axis) for change in wrong.changes] == changes
    assert reason in wrong.reason


@pytest.mark.parametrize(("text", "placements", "given"), [
    (ADD, (PARTIAL, PARTIAL), PARTIAL),
    ("%y = Add(%x: {8, 16}, 2.0)", (Split(0),), Split(0)),
    ("%y = Add(%x: {2, 1}, [[1.0], [2.0]])", (Split(0),), Split(0)),
    (PRODUCT, (Split(1), Split(0)), PARTIAL),
    (PRODUCT, (PARTIAL, WHOLE), PARTIAL),
    ("%y = ReduceMax(%x: {8, 16}, [1])", (Split(1),), GREATEST),
    ("%y = ReduceMean(%x: {8, 16}, [1])", (Split(1),), PARTIAL),
    ("%y = Gather(%table: {8, 16}, [1, 2])", (Split(0),), PARTIAL),
    ("%y = Dropout(%x: {8, 16}, 0.5, true, 7)", (Split(0),), Split(0)),
    ("%y = MakeTuple(%x: {8, 16}, %z: {8, 16})", (Split(0), PARTIAL), (Split(0), PARTIAL)),
    ("%y = Shape(%x: {8, 16})", (Split(0),), WHOLE),
])  # fmt: skip
def test_what_is_right_is_typed(text, placements, given):
    found, _ = asked(text, *placements)
    assert [typing.given for typing in found] == [(given,)]


def test_items_of_a_tuple_have_placements_of_their_own():
    found, _ = asked("%a, %b = UnpackTuple(%t: Tuple[{4,}, {4,}])", (Split(0), PARTIAL))
    assert [typing.given for typing in found] == [(Split(0), PARTIAL)]


@pytest.mark.parametrize("text", [
    "%y = Dropout(%x: {8, 16}, 0.5, true)",
    "%y = Attention[dropout = 0.5](%q: {2, 4, 3, 8}, %k: {2, 2, 5, 8}, %v: {2, 2, 5, 6})",
    "%y = RandomNormalLike(%x: {8, 16})",
])  # fmt: skip
def test_random_numbers_that_each_device_would_draw_are_refused(text):
    """Though all operands are whole: only a key, or a seed, makes devices draw the same."""
    found, wrong = asked(text)
    assert not found
    assert wrong.typing is None
    assert "random numbers" in wrong.reason


@pytest.mark.parametrize("text", [
    "%y = Dropout(%x: {8, 16}, 0.5, true, 7)",
    "%y = Dropout(%x: {8, 16})",
    "%y = RandomNormalLike[seed = 1.0](%x: {8, 16})",
])  # fmt: skip
def test_random_numbers_of_a_key_are_the_same_everywhere(text):
    found, _ = asked(text)
    assert [typing.given for typing in found] == [(WHOLE,)]


def test_sizes_that_do_not_divide_are_named():
    split = (Split(2),) * 3
    assert asked(ATTENTION, *split, size=3)[0]
    found, wrong = asked(ATTENTION, *split, size=4)
    assert not found
    assert wrong.reason == "sizes do not divide by 4 devices"
    assert asked(ATTENTION, *split, size=None)[0], "a name, of which nothing is known"


def test_what_each_device_writes_follows_from_the_typing():
    (found,), _ = asked(ATTENTION, Split(2), Split(2), Split(2))
    assert found.divided == ("q_num_heads", "kv_num_heads")
    (found,), _ = asked("%y = Gather(%table: {8, 16}, [1, 2])", Split(0))
    assert found.parted
    (found,), _ = asked("%y = Dropout(%x: {8, 16}, 0.5, true, 7)", Split(0))
    assert found.located
    (found,), _ = asked("%y = ReduceMean(%x: {8, 16}, [1])", Split(1))
    assert found.averaged


def test_a_device_that_represents_others_has_no_place_on_a_mesh():
    for text in (
        "%y = GroupAllreduce[size = 2](%x: {8, 16})",
        "%y, _ = Split[num_outputs = 2, stride = 1](%x: {8, 16})",
    ):
        found, wrong = asked(text)
        assert not found
        assert "name the axis" in wrong.reason
