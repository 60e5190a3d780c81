"""Quantities with units, read and shown."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distir.cost import UnitError, parse_bytes, parse_seconds, show_bytes, show_seconds, show_seconds_apart
from distir.cost.units import BANDWIDTH, FLOP_RATE, FLOPS, PRICE, QUANTITIES, parse


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5ms", 5e-3),
        ("7us", 7e-6),
        ("7µs", 7e-6),
        (" 1.5 s ", 1.5),
        ("2e3ns", 2e-6),
        (".5h", 1800),
        ("1_000ns", 1e-6),
        ("0s", 0),
    ],
)
def test_durations(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "nbytes"), [("32GB", 32 * 10**9), ("80GiB", 80 * 2**30), ("512B", 512), ("1.5kB", 1500), ("2KB", 2000)]
)
def test_sizes(text, nbytes):
    assert parse_bytes(text) == nbytes
    assert isinstance(parse_bytes(text), int)


@pytest.mark.parametrize(
    ("text", "quantity", "value"),
    [
        ("25Gbit/s", BANDWIDTH, 3.125e9),
        ("2039GB/s", BANDWIDTH, 2.039e12),
        ("312TFLOP/s", FLOP_RATE, 3.12e14),
        ("312TFLOPS", FLOP_RATE, 3.12e14),
        ("2GFLOP", FLOPS, 2e9),
        ("2.5USD/h", PRICE, 2.5),
    ],
)
def test_other_quantities(text, quantity, value):
    assert parse(text, quantity) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "found ``"),
        ("fast", "found `fast`"),
        ("5", "`5` without a unit"),
        ("-5ms", "negative `-5ms`"),
        ("5GB", "found the memory size `5GB`"),
        ("5 mss", "unknown unit `mss`"),
        ("5 ms ms", "unknown unit `ms ms`"),
        ("nan s", "found `nan s`"),
        ("inf", "found `inf`"),
        ("1e999s", "too large"),
        ("5,3ms", "found `5,3ms`"),
        ("1__e5s" * 1000, "unknown unit"),
    ],
)
def test_what_is_no_duration_says_so(text, said):
    with pytest.raises(UnitError, match="expected a duration such as `7us`") as caught:
        parse_seconds(text)
    assert said in str(caught.value) or "found" in str(caught.value)
    assert said.split("`")[0] in str(caught.value)


def test_units_nearly_right_are_corrected():
    with pytest.raises(UnitError) as caught:
        parse("25Gb/s", BANDWIDTH)
    assert caught.value.help == "write `25Gbit/s`"
    with pytest.raises(UnitError) as caught:
        parse_bytes("32gb")
    assert caught.value.help == "write `32GB`"


@given(st.text())
def test_any_text_is_a_quantity_or_an_error(text):
    for quantity in QUANTITIES:
        try:
            value = parse(text, quantity)
        except UnitError:
            continue
        assert math.isfinite(value)
        assert value >= 0


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (12.4e-6, "12.4us"),
        (318e-6, "318us"),
        (1.2e-3, "1.20ms"),
        (999.7e-6, "1.00ms"),
        (99.96e-6, "100us"),
        (4210, "4210s"),
        (3e-10, "0.30ns"),
        (-0.0125, "-12.5ms"),
        (math.inf, "infs"),
    ],
)
def test_durations_are_shown_with_three_digits(seconds, shown):
    assert show_seconds(seconds) == shown


@given(st.floats(0, 1e5), st.lists(st.floats(0, 1e5), max_size=3))
def test_different_times_are_shown_apart_in_as_few_digits_as_it_takes(seconds, others):
    shown = show_seconds_apart(seconds, others)
    assert parse_seconds(shown) == pytest.approx(seconds, rel=0.006, abs=0.006e-9)  # as few as two digits below 1 ns
    if all(show_seconds(other) != show_seconds(seconds) for other in others):
        assert shown == show_seconds(seconds)
    for other in others:
        if other != seconds:
            assert shown != show_seconds_apart(other, [seconds])


def test_late_starts_are_distinct():
    starts = [397.012e-3, 397.019e-3, 397.22e-3, 397.22e-3]
    shown = [show_seconds_apart(start, starts) for start in starts]
    assert shown == ["397.01ms", "397.02ms", "397.2ms", "397.2ms"]


@pytest.mark.parametrize(
    ("nbytes", "shown"), [(0, "0B"), (512, "512B"), (1000, "1.00kB"), (31.2e9, "31.2GB"), (2**30, "1.07GB")]
)
def test_sizes_are_shown_with_three_digits(nbytes, shown):
    assert show_bytes(nbytes) == shown


@given(st.floats(1e-9, 1e5))
def test_what_is_shown_reads_back(seconds):
    assert parse_seconds(show_seconds(seconds)) == pytest.approx(seconds, rel=0.006)


@given(st.integers(0, 10**17))
def test_sizes_shown_read_back(nbytes):
    assert parse_bytes(show_bytes(nbytes)) == pytest.approx(nbytes, rel=0.006)
