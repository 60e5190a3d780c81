"""Products and attention by shape: laws of the form, profiles with its figures, and how ops are charged by them."""

import copy
import math
import random
import re
from dataclasses import replace

import pytest
from cost_samples import small_profile, toml
from hypothesis import given
from hypothesis import strategies as st

import distir
from distir.cost import HardwareError, load, parse
from distir.ir import DTYPES
from distir.ops.resources import MatrixProduct, Scores, Work
from distir.simulate import effects as simulator

BF16 = DTYPES["BFloat16"]
PACE = {"launch": "2us", "step": "50ns", "split": "2us", "load": "1TB/s"}
PRODUCTS = {
    "processors": 100,
    "memory": "700GB/s",
    "cache": "5TB/s",
    "sums": "2TB/s",
    "overlap": 3.0,
    "throttle": 0.2,
    "heats_in": "500us",
    "usual": PACE,
    "thin": {**PACE, "launch": "1us"},
    "tiles": {
        "128x256": {"rate": "18TFLOP/s", "overhead": "1us", "tail": 0.25},
        "64x64": {"rate": "11TFLOP/s", "overhead": "200ns"},
    },
}
ATTENTION = {
    "rate": "15TFLOP/s",
    "processors": 100,
    "launch": "5us",
    "memory": "700GB/s",
    "rows": 128,
    "columns": 64,
    "overhead": "1us",
    "overlap": 3.0,
    "throttle": 0.1,
    "heats_in": "1ms",
}


def profile(**tables):
    found = small_profile()
    found["kinds"]["gpu"]["flops"]["BFloat16"] = {"like": "Float32"}
    found["kinds"]["gpu"] |= tables
    return found


SHAPED = parse(
    toml(
        profile(
            products={"BFloat16": PRODUCTS},
            attention={"BFloat16": {"64": {**ATTENTION, "rate": "10TFLOP/s"}, "128": ATTENTION}},
        )
    )
)
PLAIN = parse(toml(profile()))
GPU = SHAPED.kinds[0]
CORRECTION = {
    "short": [1, 64, 4096],
    "long": [64, 16_384],
    "terms": [64, 8192],
    "percent": [[[10, -20], [5, 0]], [[-10, 30], [0, 7]], [[1, 2], [3, 4]]],
}
CORRECTED = parse(toml(profile(products={"BFloat16": {**PRODUCTS, "correction": CORRECTION}})))
MACHINES = [SHAPED, CORRECTED, *(load(name) for name in ("a100-40", "dgx-a100", "dgx-h100", "b200", "gb200", "l40s"))]

sizes = st.integers(1, 20_000)


def product(m, n, k, batch=1, dtype=BF16):
    shape = MatrixProduct(m, n, k, batch)
    flops, nbytes = 2 * m * n * k * batch, dtype.bytes * batch * (m * k + k * n + m * n)
    return Work(flops, nbytes, dtype, contractions=((dtype, flops, shape),))


@given(st.sampled_from(MACHINES), sizes, sizes, sizes, st.integers(1, 64))
def test_a_product_is_never_faster_than_arithmetic_and_memory_at_their_peaks(hardware, m, n, k, batch):
    kind, work = hardware.kinds[0], product(m, n, k, batch)
    found = hardware.cost(work, (0,)).seconds
    assert found >= work.flops / kind.rates[BF16].peak * (1 - 1e-9)
    assert found >= work.bytes / kind.peak_bandwidth
    assert math.isfinite(found)


@given(st.sampled_from(MACHINES), sizes, sizes, sizes, st.integers(1, 64))
def test_a_transposed_product_takes_the_same_time(hardware, m, n, k, batch):
    there, back = (hardware.cost(product(*one, k, batch), (0,)).seconds for one in ((m, n), (n, m)))
    assert there == pytest.approx(back, rel=1e-12)


def split_alike(figures, less, more):
    """Whether the profile says of neither, or of both, that a library does not split its sums."""
    known = figures.splits_from
    return known is None or known.may(less) == known.may(more)


def in_order(name, dtype, pairs):
    """By what share products along a random side take less time than smaller ones, at most.

    Where a library splits the sums of the larger one alone, it may well take less time: it has more multiprocessors.
    """
    dice, hardware = random.Random(0), load(name)
    figures = hardware.kinds[0].products[dtype.name]
    worst = 0.0
    for _ in range(pairs):
        less = [int(2 ** dice.uniform(0, 14.3)) for _ in range(3)]
        more = list(less)
        more[dice.randrange(3)] += dice.randint(1, 20_000)
        if not split_alike(figures, MatrixProduct(*less), MatrixProduct(*more)):
            continue
        here, there = (hardware.cost(product(*sides, dtype=dtype), (0,)).seconds for sides in (less, more))
        worst = max(worst, 1 - there / here)
    return worst


def stated_error(name, dtype):
    """What nine of ten rows are off by at most, as the profile's note says."""
    note = next(one.note for one in load(name).figures if f"products {dtype.name} memory" in one.name)
    return float(re.findall(r"nine of ten by ([\d.]+)%", note)[0]) / 100


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "BFloat16") for name in ("dgx-a100", "dgx-h100", "h200", "b200", "gb200", "l40s"))]
    + [*((name, "Float8E4M3FN") for name in ("dgx-h100", "h200"))],
)
def test_a_larger_product_takes_no_less_time_by_more_than_the_error_of_the_fit(name, dtype):
    assert in_order(name, DTYPES[dtype], 1000) < stated_error(name, DTYPES[dtype])


FORMS = [
    replace(hardware.kinds[0].products["BFloat16"], correction=None, filling=None, streaming=None)
    for hardware in MACHINES
]


@given(st.sampled_from(FORMS), st.integers(17, 20_000), st.integers(17, 20_000), sizes, st.integers(0, 5000))
def test_by_the_form_more_rows_or_products_never_take_less_time(figures, m, n, k, more):
    def seconds(m, batch=1):
        return figures.spent(MatrixProduct(m, n, k, batch), 2, 2 * batch * (m * k + k * n + m * n)).seconds

    if split_alike(figures, MatrixProduct(m, n, k), MatrixProduct(m + more, n, k)):
        assert seconds(m + more) >= seconds(m) * (1 - 1e-12)
    assert seconds(m, 1 + more) >= seconds(m) * (1 - 1e-12)


@pytest.mark.parametrize(
    ("shape", "splits"),
    [((16, 64, 1024), False), ((16, 64, 2048), True), ((15, 64, 2048), False), ((2, 32, 10_240), True)],
)
def test_sums_are_split_from_so_many_multiplications_or_terms_on(shape, splits):
    """One multiprocessor goes through all terms of a sum that is not split."""
    known = {"multiplications": 16 * 64 * 2048, "terms": 10_240}
    stated = parse(toml(profile(products={"BFloat16": {**PRODUCTS, "splits_from": known}})))
    always, never = (stated_splits(many) for many in (1, 10**9))
    found = stated.kinds[0].products["BFloat16"].spent(MatrixProduct(*shape), 2, 0)
    assert found == (always if splits else never).spent(MatrixProduct(*shape), 2, 0)
    assert always.spent(MatrixProduct(*shape), 2, 0).seconds < never.spent(MatrixProduct(*shape), 2, 0).seconds


def stated_splits(many):
    """Figures by which all products of so many multiplications and terms are split."""
    known = {"multiplications": many, "terms": many}
    stated = parse(toml(profile(products={"BFloat16": {**PRODUCTS, "splits_from": known}})))
    return stated.kinds[0].products["BFloat16"]


@given(st.sampled_from(MACHINES), sizes, sizes, sizes, st.integers(1, 64))
def test_no_product_takes_less_than_the_bound_of_its_operations(hardware, m, n, k, batch):
    figures = hardware.kinds[0].products["BFloat16"]
    least = figures.at_least(2 * m * n * k * batch)
    assert figures.spent(MatrixProduct(m, n, k, batch), 2, 0).seconds >= least * (1 - 1e-12)


@pytest.mark.parametrize(
    ("shape", "factor"),
    [
        (MatrixProduct(1, 64, 64), 1.10),
        (MatrixProduct(64, 1, 8192), 0.80),  # the shorter side first, whichever it is
        (MatrixProduct(64, 64, 8192), 1.30),
        (MatrixProduct(4096, 16_384, 64), 1.03),
        (MatrixProduct(20_000, 20_000, 10), 1.03),  # beyond the table: as at its edge
        (MatrixProduct(4096, 4096, 8192, 4), 1.04),  # four products count as one whose longer side is 4 × 4096
        (MatrixProduct(8, 64, 64), 1.00),  # between 1 and 64, in the middle of the logarithms
    ],
)
def test_a_correction_is_what_the_table_states_and_between_that_a_line_in_logarithms(shape, factor):
    figures = CORRECTED.kinds[0].products["BFloat16"]
    corrected, form = (one.spent(shape, 2, 0).seconds for one in (figures, replace(figures, correction=None)))
    assert corrected == pytest.approx(form * factor)


def test_time_grows_with_whole_waves_of_whole_tiles():
    def seconds(m):
        # So many terms that no kernel splits the sum, and arithmetic alone counts; one tile is 128 × 256.
        return SHAPED.cost(product(m, 25_600, 4096), (0,)).seconds

    assert seconds(129) == pytest.approx(seconds(180), rel=0.02)  # the same tiles
    assert seconds(257) > 1.3 * seconds(256)  # a wave more


@pytest.mark.parametrize("steepness", [1.0, 4.0, 12.0])
def test_the_steeper_the_clock_falls_the_less_it_has_fallen_before(steepness):
    stated = {**PRODUCTS, "throttle": 1, "heats_in": "5ms", "steepness": steepness}
    figures = parse(toml(profile(products={"BFloat16": stated}))).kinds[0].products["BFloat16"]
    cold = replace(figures, throttle=0.0)

    def longer(share):
        """How much longer a product takes whose arithmetic takes this share of `heats_in`."""
        terms = round(share * figures.heats_in * figures.rate / (2 * 512 * 512))
        hot, alone = (one.spent(MatrixProduct(512, 512, terms), 2, 0).arithmetic for one in (figures, cold))
        return hot / alone - 1

    for share in (0.25, 0.5, 1, 2, 20):
        assert longer(share) == pytest.approx(1 / (1 + share**-steepness), rel=0.02, abs=1e-3)


def test_few_tiles_are_filled_by_splitting_the_sum():
    one, many = MatrixProduct(128, 128, 65_536), MatrixProduct(128, 128, 64)
    figures = GPU.products["BFloat16"]
    alone = 65_536 / 64 * 2 * 64 * 64 * 64 / (figures.tiles[1].rate / figures.processors)  # a tile, step by step
    assert figures.spent(many, 2, 0).seconds < figures.spent(one, 2, 0).seconds < alone / 10


@given(st.integers(1, 64), st.integers(128, 8192), st.integers(1, 8192), st.sampled_from([32, 64, 96, 128, 256]))
def test_attention_is_never_faster_than_its_arithmetic(heads, queries, keys, size):
    flops = 4 * heads * queries * keys * size
    work = Work(flops, 1000, BF16, contractions=((BF16, flops, Scores(heads, queries, keys, size)),))
    found = SHAPED.cost(work, (0,)).seconds
    assert found >= flops / GPU.rates[BF16].peak
    backward = Work(flops, 1000, BF16, contractions=((BF16, flops, Scores(heads, queries, keys, size, passes=2.5)),))
    assert SHAPED.cost(backward, (0,)).seconds > found


def test_the_backward_pass_takes_its_operations_at_its_own_share_of_the_rate():
    tables = ({**ATTENTION, **more} for more in ({}, {"backward": 0.5}))
    whole, half = (parse(toml(profile(attention={"BFloat16": {"128": table}}))) for table in tables)

    def seconds(hardware, passes, backward):
        one = Scores(64, 4096, 4096, 128, 0.5, passes, backward=backward)
        return hardware.kinds[0].attention["BFloat16"][0].spent(one, 0).seconds

    assert seconds(whole, 1.0, False) == seconds(half, 1.0, False)
    assert seconds(half, 2.5, True) == pytest.approx(2 * seconds(whole, 2.5, True), rel=0.02)
    assert seconds(half, 2.5, True) == pytest.approx(5 * seconds(half, 1.0, False), rel=0.02)


def test_dropout_and_masks_slow_attention_by_the_figures_of_the_profile():
    figures = {"causal": 0.5, "dropout": {"forward": 3.0, "backward": 1.5}}
    tables = (ATTENTION, {**ATTENTION, **figures})
    none, stated = (
        parse(toml(profile(attention={"BFloat16": {"128": table}}))).kinds[0].attention["BFloat16"][0]
        for table in tables
    )
    forward = Scores(64, 4096, 4096, 128, 1.0)
    backward = replace(forward, passes=2.5, backward=True)

    def ratio(figures, scores, than):
        return figures.spent(scores, 0).seconds / figures.spent(than, 0).seconds

    for one, factor in ((forward, 3.0), (backward, 1.5)):
        dropped = replace(one, random=0.1)
        assert none.spent(one, 0) == stated.spent(one, 0)
        assert ratio(stated, dropped, one) == pytest.approx(factor, rel=0.02)
        assert ratio(none, dropped, one) == pytest.approx(1 + 0.1 / one.passes, rel=0.02)
    masked = replace(backward, share=0.5)
    assert stated.spent(masked, 0).seconds == pytest.approx(2 * none.spent(masked, 0).seconds, rel=0.02)
    masked = replace(forward, share=0.5)
    assert stated.spent(masked, 0) == none.spent(masked, 0)


CUDNN = {(1, 24, 2048): (69, 137, 208, 248), (4, 32, 2048): (295, 537, 880, 1036), (1, 8, 8192): (293, 610, 784, 943)}
"""Microseconds of causal attention on an H200, heads of 128: forward, with dropout of 0.1, and backward likewise."""


@pytest.mark.parametrize(("batch", "heads", "tokens"), CUDNN)
def test_causal_attention_with_and_without_dropout_takes_what_was_measured(batch, heads, tokens):
    figures = next(each for each in load("dgx-h100").kinds[0].attention["BFloat16"] if each.size == 128)
    moved = 4 * 2 * batch * heads * tokens * 128
    for place, measured in enumerate(CUDNN[batch, heads, tokens]):
        passes, random = (2.5 if place > 1 else 1.0), (0.1 if place % 2 else 0.0)
        scores = Scores(batch * heads, tokens, tokens, 128, 0.5, passes, backward=place > 1, random=random)
        assert figures.spent(scores, moved * (1 + (place > 1))).seconds * 1e6 == pytest.approx(measured, rel=0.2)


def test_a_correction_of_attention_is_by_heads_queries_and_shared_keys():
    correction = {"heads": [1, 64], "queries": [128], "group": [1, 8], "percent": [[[10, 20]], [[30, 40]]]}
    tables = (ATTENTION, {**ATTENTION, "correction": correction})
    form, corrected = (
        parse(toml(profile(attention={"BFloat16": {"128": table}}))).kinds[0].attention["BFloat16"][0]
        for table in tables
    )
    for heads, group, factor in ((1, 1, 1.1), (64, 8, 1.4), (8, 1, 1.2), (1000, 64, 1.4)):
        one = Scores(heads, 2048, 2048, 128, 0.5, group=group)
        assert corrected.spent(one, 0).seconds == pytest.approx(factor * form.spent(one, 0).seconds)
        back = replace(one, backward=True)
        assert corrected.spent(back, 0) == form.spent(back, 0)  # of the forward pass alone


LAYER = distir.parse("""
func @main(
  %x: Tensor[BFloat16, (4, 100, 512), 0], %w: Tensor[BFloat16, (512, 768), 0], %y: Tensor[BFloat16, (4, 512, 60), 0],
  %q: Tensor[BFloat16, (2, 8, 256, 64), 0], %k: Tensor[BFloat16, (2, 2, 256, 64), 0],
  %experts: Tensor[BFloat16, (16, 512, 96), 0], %rows: Tensor[BFloat16, (400, 512), 0],
  %image: Tensor[BFloat16, (2, 6, 34, 34), 0], %filter: Tensor[BFloat16, (8, 3, 3, 3), 0]
) {
  %a = MatMul(%x, %w)
  %b = MatMul(%x, %y)
  %c = Gemm[transA = true, transB = true](%w, %rows)
  %d = Einsum[equation = "bik,bkj->bij"](%x, %y)
  %e = Attention[is_causal = true](%q, %k, %k)
  %f = RaggedMatMul(%rows, %experts)
  %g = Conv[group = 2](%image, %filter)
  %h = Relu(%x)
  return %a
}""")

EXPECTED = {
    "MatMul": {MatrixProduct(400, 768, 512), MatrixProduct(100, 60, 512, 4)},
    "Gemm": {MatrixProduct(768, 400, 512)},
    "Einsum": {MatrixProduct(100, 60, 512, 4)},
    "Attention": {Scores(16, 256, 256, 64, 0.5, group=4)},
    "RaggedMatMul": {MatrixProduct(25, 96, 512, 16, grouped=True)},
    "Conv": {MatrixProduct(2048, 4, 27, 2)},
    "Relu": set(),
}


def test_ops_state_their_shape():
    seen = {}
    real = simulator.Effects.cost
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            simulator.Effects,
            "cost",
            lambda self, work, devices, op: (
                seen.setdefault(op, set()).update(one for _, _, one in work.contractions)
                or real(self, work, devices, op)
            ),
        )
        distir.simulate(LAYER, SHAPED).latency_s  # noqa: B018
    assert {op: seen[op] for op in EXPECTED} == EXPECTED


def test_without_figures_by_shape_ops_take_the_roofline():
    flops = 2 * 100 * 200 * 300
    work = Work(flops, 10**6, BF16)
    shaped = Work(flops, 10**6, BF16, contractions=((BF16, flops, MatrixProduct(100, 200, 300)),))
    assert PLAIN.cost(shaped, (0,)) == PLAIN.cost(work, (0,)) == SHAPED.cost(work, (0,))
    assert SHAPED.cost(shaped, (0,)) != PLAIN.cost(shaped, (0,))


def test_a_kernel_pays_for_each_contraction_and_for_the_rest():
    one = product(512, 512, 512)
    two = Work(2 * one.flops, one.bytes, BF16, contractions=one.contractions * 2)
    more = Work(2 * one.flops + 10**9, one.bytes, BF16, contractions=one.contractions * 2)
    costs = [SHAPED.cost(work, (0,)).seconds for work in (one, two, more)]
    assert costs[0] < costs[1] < 2 * costs[0]
    assert costs[2] == pytest.approx(costs[1] + 1e9 / 18e12)


def test_experts_may_have_figures_of_their_own():
    slow = {**PRODUCTS, "tiles": {"64x64": {"rate": "2TFLOP/s"}}}
    hardware = parse(toml(profile(products={"BFloat16": PRODUCTS}, experts={"BFloat16": slow})))
    flops = 2 * 512**3
    dense, grouped = (
        hardware.cost(
            Work(flops, 0, BF16, contractions=((BF16, flops, MatrixProduct(512, 512, 512, 1, g)),)), (0,)
        ).seconds
        for g in (False, True)
    )
    assert grouped > 2 * dense


def test_another_element_type_may_be_like_one():
    hardware = parse(toml(profile(products={"BFloat16": PRODUCTS, "Float16": {"like": "BFloat16"}})))
    kind = hardware.kinds[0]
    assert kind.products["Float16"] == kind.products["BFloat16"]


FAULTS = {
    "a missing figure": (("memory",), None, "`kinds.gpu.products.BFloat16.memory` is missing"),
    "no unit": (("cache",), "5", "without a unit"),
    "another unit": (("sums",), "5us", "found the duration `5us`"),
    "a negative time": (("heats_in",), "-1us", "found the negative"),
    "a clock that rises": (("steepness",), 0.5, "expected a number from 1 to 1000"),
    "a share above 1": (("tiles", "64x64", "tail"), 1.5, "expected a number from 0 to 1, found `1.5`"),
    "a text for a number": (("overlap",), "3", "expected a number from 1 to 1000"),
    "no processors": (("processors",), 0, "expected a whole number from 1"),
    "no side of a tile": (("tiles", "64by64"), {"rate": "1TFLOP/s"}, "expected the sides of a tile"),
    "faster than the peak": (("tiles", "64x64", "rate"), "30TFLOP/s", "is above the `peak`"),
    "no tiles": (("tiles",), {}, "expected at least one tile"),
    "no pace": (("thin",), None, "`kinds.gpu.products.BFloat16.thin` is missing"),
    "no multiplications": (
        ("splits_from",),
        {"multiplications": 0, "terms": 64},
        "expected a whole number from 1",
    ),
    "half a threshold": (
        ("splits_from",),
        {"multiplications": 64},
        "`kinds.gpu.products.BFloat16.splits_from.terms` is missing",
    ),
    "an unknown key": (("thin", "lunch"), "1us", "unknown key `lunch`"),
    "sizes that do not ascend": (
        ("correction", "long"),
        [64, 64],
        "expected a list of whole numbers above zero in asc",
    ),
    "sizes that are no numbers": (
        ("correction", "terms"),
        ["64"],
        "expected a list of whole numbers above zero in asc",
    ),
    "no sizes": (("correction", "short"), None, "`kinds.gpu.products.BFloat16.correction.short` is missing"),
    "no numbers": (("correction", "percent"), None, "`kinds.gpu.products.BFloat16.correction.percent` is missing"),
    "a list too few": (
        ("correction", "percent"),
        [[[1, 2], [3, 4]]],
        "3 of 2 of 2, as `short`, `long`, `terms` have",
    ),
    "no time at all": (
        ("correction", "percent"),
        [[[-100, 0]] * 2] * 3,
        "expected lists of numbers above -95",
    ),
    "text among numbers": (("correction", "percent"), [[["1", 0]] * 2] * 3, "expected lists of numbers above"),
    "an unknown axis": (("correction", "width"), [1, 2], "unknown key `width`"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_its_line(fault):
    path, value, said = FAULTS[fault]
    table = changed = copy.deepcopy({**PRODUCTS, "correction": CORRECTION})
    for key in path[:-1]:
        table = table[key]
    if value is None:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    with pytest.raises(HardwareError) as caught:
        parse(toml(profile(products={"BFloat16": changed})))
    (problem,) = caught.value.problems
    assert said in problem.message
    assert problem.line is not None


def test_figures_of_no_element_type_are_refused():
    for table, said in (
        ({"BFloat61": PRODUCTS}, "unknown key `BFloat61`"),
        ({"Float16": {"like": "BFloat16"}}, "no figures are stated for `BFloat16`"),
    ):
        with pytest.raises(HardwareError) as caught:
            parse(toml(profile(products=table)))
        assert said in str(caught.value)


FLASH_ATTENTION_3 = {
    64: (272, 363, 422, 453, 472, 474),
    128: (316, 424, 501, 542, 559, 561),
}
"""TFLOP/s of H100 in the backward pass, 512 to 16,384 tokens: Shah et al., arXiv:2407.08608, figure 6."""


@pytest.mark.parametrize("size", FLASH_ATTENTION_3)
def test_the_backward_pass_of_attention_takes_what_was_published(size):
    """16,384 tokens in all, 2,048 numbers of each, without a mask, as there."""
    figures = next(each for each in load("dgx-h100").kinds[0].attention["BFloat16"] if each.size == size)
    off = []
    for power, rate in enumerate(FLASH_ATTENTION_3[size]):
        tokens = 512 << power
        heads = 2048 // size * (16_384 // tokens)
        scores = Scores(heads, tokens, tokens, size, passes=2.5, backward=True)
        found = figures.spent(scores, 2 * 8 * heads * tokens * size).seconds
        off.append(abs(found / (2.5 * 4 * heads * tokens**2 * size / (rate * 1e12)) - 1))
    assert max(off) < 0.12
    assert sorted(off)[3] < 0.03
