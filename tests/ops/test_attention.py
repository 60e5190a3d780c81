import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_samples import FLOATS, apply, close, random_array, rejects, seeds

import distir.ops.attention
import distir.ops.rotary  # noqa: F401 - registers the ops
from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Attributes, TensorType, dims
from distir.ops import OPS, infer_types, work

B = dims.named("B")
sizes = st.integers(1, 3)


def tensor(*shape, dtype="Float32"):
    return TensorType(DTYPES[dtype], shape, 1)


def one_query(q, keys, values, masked, added, scale, cap):
    """The published formula for one query of one head, key by key."""
    scores = []
    for key in keys:
        score = float(np.dot(q, key)) * scale
        scores.append(cap * math.tanh(score / cap) if cap else score)
    weights = [0 if m else math.exp(s + a) for s, a, m in zip(scores, added, masked, strict=True)]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def reference(q, k, v, mask=None, causal=False, scale=None, cap=0.0):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    result = np.zeros((*q.shape[:3], v.shape[-1]))
    whole = np.zeros(k.shape[2]) if mask is None else mask
    whole = np.broadcast_to(whole, (*q.shape[:3], k.shape[2]))
    for b, h, i in np.ndindex(q.shape[:3]):
        g = h // (q.shape[1] // k.shape[1])
        row = whole[b, h, i]
        masked = ~row if row.dtype == bool else row == -np.inf
        masked = masked | (np.arange(k.shape[2]) > i) if causal else masked
        added = np.zeros(len(row)) if row.dtype == bool else row.astype(np.float64)
        result[b, h, i] = one_query(q[b, h, i], k[b, g], v[b, g], masked, added, scale, cap)
    return result


@st.composite
def projections(draw):
    """Queries, keys and values by head; fewer heads of keys and values in some."""
    b, g, group, q, k, e, v = (draw(sizes) for _ in range(7))
    dtype, seed = draw(st.sampled_from(FLOATS)), draw(seeds)
    shapes = ((b, g * group, q, e), (b, g, k, e), (b, g, k, v))
    return [random_array(dtype, shape, seed + i, -1, 1) for i, shape in enumerate(shapes)]


def joined(x):
    b, h, s, e = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, s, h * e)


@given(projections(), st.booleans(), st.sampled_from([None, 0.3]), st.sampled_from([0.0, 1.5]))
def test_attention_is_the_published_formula(operands, causal, scale, cap):
    attrs = {"is_causal": causal, "softcap": cap} | ({} if scale is None else {"scale": scale})
    expected = reference(*operands, causal=causal, scale=scale, cap=cap)
    result = apply("Attention", *operands, **attrs)
    close(result, expected)
    heads = {"q_num_heads": operands[0].shape[1], "kv_num_heads": operands[1].shape[1]}
    close(apply("Attention", *map(joined, operands), **attrs, **heads), joined(result))


@given(projections(), st.integers(0, 4), st.booleans(), st.booleans(), seeds)
def test_masks_broadcast_to_the_scores(operands, rank, boolean, causal, seed):
    q, k, v = operands
    shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])[4 - rank :]
    mask = random_array("Bool" if boolean else "Float64", shape, seed).astype(bool if boolean else q.dtype)
    if boolean and rank:
        mask[..., 0] = True  # a query that sees nothing has no answer
    elif boolean:
        mask = np.array(True)
    close(apply("Attention", q, k, v, mask, is_causal=causal), reference(q, k, v, mask, causal))


def test_attention_of_named_sizes():
    q, kv = tensor(B, 12, 8, 64), tensor(B, 4, None, 64)
    assert infer_types(OPS["Attention"], [q, kv, kv], Attributes(), 1) == (tensor(B, 12, 8, 64),)
    x = tensor(B, 8, 768)
    heads = Attributes({"q_num_heads": 12, "kv_num_heads": 12})
    assert infer_types(OPS["Attention"], [x, x, x], heads, 1) == (x,)
    unknown = TensorType(DTYPES["Float32"], None, 1)
    assert infer_types(OPS["Attention"], [unknown] * 3, Attributes(), 1) == (unknown,)


def forward_work(q, k, v, *others, lse=False, **attrs):
    op, attributes = OPS["Attention"], Attributes(attrs)
    operands = [q, k, v, *others]
    return work(op, operands, infer_types(op, operands, attributes, 1 + lse), attributes)


def backward_work(q, k, v, **attrs):
    op, attributes = OPS["AttentionGrad"], Attributes(attrs)
    y, lse = infer_types(OPS["Attention"], [q, k, v], attributes, 2)
    operands = [y, q, k, v, y, lse]
    return work(op, operands, infer_types(op, operands, attributes, 3), attributes), sum(o.nbytes for o in operands)


def test_attention_costs_what_flash_kernels_cost():
    b, h, s, e = 2, 12, 4096, 64
    x = tensor(b, h, s, e, dtype="Float16")
    done = forward_work(x, x, x)
    assert (done.flops, done.bytes, done.temporary) == (4 * b * h * s * s * e, 4 * x.nbytes, 0)
    assert forward_work(x, x, x, is_causal=True).flops == done.flops // 2
    assert forward_work(x, x, x, lse=True).bytes == done.bytes + 4 * b * h * s
    mask = tensor(s, s, dtype="Bool")
    assert forward_work(x, x, x, mask).bytes == done.bytes + s * s
    flat = tensor(b, s, h * e, dtype="Float16")
    heads = {"q_num_heads": h, "kv_num_heads": h}
    assert forward_work(flat, flat, flat, **heads) == done
    for causal in (False, True):
        back, read = backward_work(x, x, x, is_causal=causal)
        assert back.flops == 2.5 * forward_work(x, x, x, is_causal=causal).flops
        assert back.bytes == read + 3 * x.nbytes
        assert back.temporary < 3 * x.nbytes
        assert backward_work(flat, flat, flat, is_causal=causal, **heads) == (back, read)


def test_the_work_counts_shared_heads_widths_and_windows():
    b, h, g, q, k, e, v = 2, 12, 3, 256, 512, 64, 32
    operands = tensor(b, h, q, e), tensor(b, g, k, e), tensor(b, g, k, v)
    done = forward_work(*operands)
    assert done.flops == 2 * b * h * q * k * (e + v)
    assert done.bytes == 4 * b * (h * q * e + g * k * (e + v) + h * q * v)
    back, _ = backward_work(*operands)
    assert back.flops == 2.5 * done.flops
    x = tensor(1, 1, 4096, 8)
    inside = sum(min(i + 1, 128) for i in range(4096))
    assert forward_work(x, x, x, is_causal=True, window=128).flops == pytest.approx(4 * 8 * inside, rel=1e-3)
    assert forward_work(x, x, x, is_causal=True, window=9999) == forward_work(x, x, x, is_causal=True)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 50) | st.none())
def test_the_scores_counted_are_those_that_a_causal_mask_leaves(q, k, window):
    """But for half of the diagonal."""
    left = sum(j <= i and (window is None or j > i - window) for i in range(q) for j in range(k))
    attrs = {} if window is None else {"window": window}
    counted = forward_work(tensor(1, 1, q, 1), *[tensor(1, 1, k, 1)] * 2, is_causal=True, **attrs).flops / 4
    assert left - min(q, k, window or k) / 2 <= counted <= left


def test_attention_rejections():
    x, flat = random_array("Float32", (2, 4, 3, 8)), random_array("Float32", (2, 3, 32))

    def y(*shape):
        return random_array("Float32", shape)

    assert rejects("Attention", flat, flat, flat)[0] is name_codes.MISSING_ATTRIBUTE
    assert rejects("Attention", flat, flat, flat, q_num_heads=4, kv_num_heads=5)[0] is codes.INDIVISIBLE
    assert rejects("Attention", flat, flat, flat, q_num_heads=0, kv_num_heads=4)[0] is codes.BAD_VALUE
    assert rejects("Attention", flat, flat, flat, q_num_heads=4, kv_num_heads=2)[0] is codes.SHAPE_MISMATCH
    assert rejects("Attention", x, x, x, q_num_heads=2)[0] is codes.SHAPE_MISMATCH
    assert rejects("Attention", x, y(2, 3, 3, 8), y(2, 3, 3, 8))[0] is codes.INDIVISIBLE
    assert rejects("Attention", x, x, y(2, 4, 5, 8))[0] is codes.SHAPE_MISMATCH
    assert rejects("Attention", x, y(2, 4, 3, 7), x)[0] is codes.SHAPE_MISMATCH
    assert rejects("Attention", x, x, x, y(3, 4))[0] is codes.SHAPE_MISMATCH
    assert rejects("Attention", x, x, x, random_array("Int64", (3, 3)))[0] is codes.DTYPE_MISMATCH
    assert rejects("Attention", x, flat, flat)[0] is codes.RANK_MISMATCH


def test_a_window_needs_a_causal_mask():
    x = random_array("Float32", (2, 4, 3, 8))
    code, message = rejects("Attention", x, x, x, window=2)
    assert code is codes.BAD_VALUE
    assert "`is_causal`" in message
    assert rejects("Attention", x, x, x, window=0, is_causal=True)[0] is codes.BAD_VALUE
    assert rejects("Attention", x, x, x, count=3)[0] is name_codes.RESULT_COUNT


def test_gradient_rejections():
    x, lse = random_array("Float32", (2, 4, 3, 8)), random_array("Float32", (2, 4, 3))
    operands = [x, x, x, x, x, lse]

    def rejected(at, other, count=3, **attrs):
        return rejects("AttentionGrad", *operands[:at], other, *operands[at + 1 :], count=count, **attrs)

    assert rejected(5, lse.astype(np.float16)) == (
        codes.DTYPE_MISMATCH,
        "`AttentionGrad` of Float32 expected a log-sum-exp of Float32 elements, found Float16",
    )
    assert rejected(5, lse[:, :, :2])[0] is codes.SHAPE_MISMATCH
    assert rejected(0, x[..., :7])[0] is codes.SHAPE_MISMATCH
    assert rejected(2, x[:, :3])[0] is codes.SHAPE_MISMATCH
    assert rejected(5, lse, count=4)[0] is name_codes.RESULT_COUNT
    assert rejected(5, lse, window=2)[0] is codes.BAD_VALUE
    flat = random_array("Float32", (2, 3, 32))
    assert rejects("AttentionGrad", *[flat] * 5, lse, count=3)[0] is name_codes.MISSING_ATTRIBUTE
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    assert rejects("AttentionGrad", *[flat] * 5, lse, count=3, **heads)[0] is codes.SHAPE_MISMATCH
    heads = {"q_num_heads": 4, "kv_num_heads": 3}
    assert rejects("AttentionGrad", *[flat] * 5, lse, count=3, **heads)[0] is codes.INDIVISIBLE


@given(projections(), st.booleans())
def test_the_log_sum_exp_is_that_of_the_scores(operands, causal):
    q, k, v = operands
    y, lse = apply("Attention", q, k, v, is_causal=causal, count=2)
    close(y, apply("Attention", q, k, v, is_causal=causal))
    assert lse.dtype == (np.float64 if q.dtype == np.float64 else np.float32)
    spread = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    scores = np.matmul(q.astype(np.float64), spread.astype(np.float64).swapaxes(-1, -2)) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.arange(k.shape[2]) > np.arange(q.shape[2])[:, None], -np.inf, scores)
    np.testing.assert_allclose(lse, np.log(np.exp(scores).sum(-1)), rtol=1e-2, atol=1e-2)


@st.composite
def rotations(draw):
    """Heads, caches of angles, positions, how many elements turn, whether neighbours are pairs."""
    b, h, s, pairs, rest, rows = (draw(sizes) for _ in range(6))
    seed, dtype = draw(seeds), draw(st.sampled_from(FLOATS))
    x = random_array(dtype, (b, h, s, 2 * pairs + rest), seed, -1, 1)
    angles = np.random.default_rng(seed).uniform(-3, 3, (rows, pairs))
    positions = random_array("Int64", (b, s), seed, 0, rows - 1)
    return x, angles, positions, 2 * pairs, draw(st.booleans())


@given(rotations())
def test_rotary_embedding_turns_pairs_by_their_angle(operands):
    x, angles, positions, turning, interleaved = operands
    cos, sin = (f(angles).astype(x.dtype) for f in (np.cos, np.sin))
    attrs = {"rotary_embedding_dim": turning, "interleaved": interleaved}
    result = apply("RotaryEmbedding", x, cos, sin, positions, **attrs)

    half = turning // 2
    even = np.arange(0, turning, 2) if interleaved else np.arange(half)
    odd = even + (1 if interleaved else half)
    wide = x.astype(np.float64)
    expected = wide.copy()
    for b, h, s in np.ndindex(x.shape[:3]):
        turned = (wide[b, h, s, even] + 1j * wide[b, h, s, odd]) * np.exp(1j * angles[positions[b, s]])
        expected[b, h, s, even], expected[b, h, s, odd] = turned.real, turned.imag
    close(result, expected)

    close(apply("RotaryEmbedding", x, cos[positions], sin[positions], **attrs), result)
    flat = apply("RotaryEmbedding", joined(x), cos, sin, positions, num_heads=x.shape[1], **attrs)
    close(flat, joined(result))


def test_rotary_embedding_turns_whole_heads_unless_asked():
    x, angles = random_array("Float64", (1, 2, 3, 8)), random_array("Float64", (1, 3, 4))
    result = apply("RotaryEmbedding", x, np.cos(angles), np.sin(angles))
    np.testing.assert_allclose(np.linalg.norm(result, axis=-1), np.linalg.norm(x, axis=-1))
    back = apply("RotaryEmbedding", result, np.cos(angles), np.sin(-angles))
    np.testing.assert_allclose(back, x)


def test_rotary_embedding_of_named_sizes_and_rejections():
    x, cache = tensor(B, 4, 3, 8), tensor(9, 4)
    ids = tensor(B, 3, dtype="Int64")
    assert infer_types(OPS["RotaryEmbedding"], [x, cache, cache, ids], Attributes(), 1) == (x,)
    x, flat, ids = (
        random_array("Float32", (2, 4, 3, 8)),
        random_array("Float32", (2, 3, 32)),
        random_array("Int64", (2, 3)),
    )
    table, rows = random_array("Float32", (9, 4)), random_array("Float32", (2, 3, 4))
    short = random_array("Float32", (9, 3))
    assert rejects("RotaryEmbedding", x, table, table)[0] is codes.RANK_MISMATCH
    assert rejects("RotaryEmbedding", x, rows, rows, ids)[0] is codes.RANK_MISMATCH
    assert rejects("RotaryEmbedding", x, short, short, ids)[0] is codes.SHAPE_MISMATCH
    assert rejects("RotaryEmbedding", x, table, short, ids)[0] is codes.SHAPE_MISMATCH
    assert rejects("RotaryEmbedding", flat, table, table, ids)[0] is name_codes.MISSING_ATTRIBUTE
    assert rejects("RotaryEmbedding", flat, table, table, ids, num_heads=5)[0] is codes.INDIVISIBLE
    for turning in (3, 10, -2):
        assert rejects("RotaryEmbedding", x, table, table, ids, rotary_embedding_dim=turning)[0] is codes.BAD_VALUE


@st.composite
def contractions(draw):
    """An equation and operands for it, and what its labels stand for."""
    labels = {label: draw(st.integers(0, 3)) for label in "abC"}
    terms = draw(st.lists(st.text("abC", max_size=3), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    result = "".join(draw(st.permutations(used)))[: draw(st.integers(0, len(used)))]
    seed = draw(seeds)
    operands = [
        random_array("Float64", tuple(labels[label] for label in term), seed + i) for i, term in enumerate(terms)
    ]
    return ",".join(terms) + "->" + result, operands, {label: labels[label] for label in used}


def by_loops(equation, operands, labels):
    """The sum over the whole index space, written out."""
    left, result = equation.split("->")
    total = np.zeros([labels[label] for label in result])
    for point in np.ndindex(*labels.values()):
        at = dict(zip(labels, point, strict=True))
        product = 1.0
        for term, operand in zip(left.split(","), operands, strict=True):
            product *= operand[tuple(at[label] for label in term)]
        total[tuple(at[label] for label in result)] += product
    return total


@given(contractions())
def test_einsum_sums_products(contraction):
    equation, operands, labels = contraction
    close(apply("Einsum", *operands, equation=equation), by_loops(equation, operands, labels), 1e-7)


@given(contractions())
def test_einsum_counts_the_whole_index_space(contraction):
    equation, operands, labels = contraction
    args = [tensor(*x.shape, dtype="Float64") for x in operands]
    result = infer_types(OPS["Einsum"], args, Attributes({"equation": equation}), 1)
    done = work(OPS["Einsum"], args, result, Attributes({"equation": equation}))
    summed = len(labels) > len(equation.split("->")[1])
    assert done.flops == (len(operands) - 1 + summed) * math.prod(labels.values())


@pytest.mark.parametrize(
    ("equation", "shapes", "same"),
    [
        ("bij, bjk -> bik", [(5, 2, 3), (5, 3, 4)], np.matmul),
        ("...ij,...jk", [(5, 1, 2, 3), (6, 3, 4)], np.matmul),
        ("ba", [(2, 3)], np.transpose),
        ("ii", [(3, 3)], np.trace),
        ("...->...", [(2, 3)], np.copy),
        ("a...->...a", [(2, 3, 4)], lambda x: np.moveaxis(x, 0, -1)),
        ("i,i->i", [(1,), (3,)], np.multiply),
    ],
)
@pytest.mark.parametrize("dtype", ["Float16", "BFloat16", "Int32"])
def test_einsum_of_well_known_equations(equation, shapes, same, dtype):
    operands = [random_array(dtype, shape, i) for i, shape in enumerate(shapes)]
    close(apply("Einsum", *operands, equation=equation), same(*(x.astype(np.float64) for x in operands)))


def test_einsum_of_named_sizes():
    def shape(equation, *operands):
        return infer_types(OPS["Einsum"], operands, Attributes({"equation": equation}), 1)[0].shape

    assert shape("bij,bjk->bki", tensor(B, 2, 3), tensor(B, None, 4)) == (B, 4, 2)
    unknown = TensorType(DTYPES["Float32"], None, 1)
    assert shape("ij,jk->ik", unknown, tensor(3, 4)) == (None, 4)
    assert shape("ij,jk->ik", unknown, tensor(3, B)) == (None, B)
    assert shape("...j,jk->...k", unknown, tensor(3, 4)) is None


@pytest.mark.parametrize(
    ("equation", "code"),
    [
        ("ij->ij->i", codes.BAD_VALUE),
        ("i1->i", codes.BAD_VALUE),
        ("ij->ii", codes.BAD_VALUE),
        ("ij->k", codes.BAD_VALUE),
        ("......->", codes.BAD_VALUE),
        ("...i->i", codes.BAD_VALUE),
        ("ij,jk->ik", name_codes.OPERAND_COUNT),
        ("ijk->i", codes.RANK_MISMATCH),
        ("ijk...->i...", codes.RANK_MISMATCH),
        ("ii->i", codes.SHAPE_MISMATCH),
    ],
)
def test_einsum_rejections(equation, code):
    assert rejects("Einsum", random_array("Float32", (2, 3)), equation=equation)[0] is code


def test_einsum_operands_must_agree():
    x, y = random_array("Float32", (2, 3)), random_array("Float32", (4, 5))
    code, message = rejects("Einsum", x, y, equation="ij,jk->ik")
    assert code is codes.SHAPE_MISMATCH
    assert "`j`" in message
