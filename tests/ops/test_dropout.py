"""Random numbers by counters, and dropout by positions: the same for a part as for the whole."""

import numpy as np
import pytest

import distir
from distir.ops import OPS, run
from distir.ops.philox import folded_in, philox, words

KNOWN = [
    ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, -1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        0x299F31D0A4093822,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""Known answers of Philox4x32-10, from the authors' library Random123."""


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_gives_the_published_numbers(counter, key, expected):
    assert philox(counter, key) == expected
    arrays = philox(tuple(np.array([word], np.int64) for word in counter), key)
    assert tuple(int(word[0]) for word in arrays) == expected


def dropped(x, ratio=0.25, key=7, rows=None, start=None, **attrs):
    operands = [x, np.float32(ratio), np.bool_(True), None if key is None else np.int64(key), rows, start]
    return run(OPS["Dropout"], operands, {"seed": 0, "axis": 0, **attrs}, 2)


@pytest.mark.parametrize("shape", [(), (5,), (4, 6), (4, 6, 5), (3, 4, 6, 5), (2, 3, 4, 6, 5), (1, 2, 1, 3, 2, 9)])
def test_a_part_drops_what_the_whole_drops_there(shape):
    x = np.ones(shape, np.float32)
    whole, mask = dropped(x)
    assert ((whole != 0) == mask).all()
    for axis, size in enumerate(shape):
        for first in range(size):
            cut = (slice(None),) * axis + (slice(first, None),)
            start = np.array([first if k == axis else 0 for k in range(len(shape))], np.int64)
            rows = np.arange(first, size)
            np.testing.assert_array_equal(dropped(x[cut], start=start)[0], whole[cut])
            np.testing.assert_array_equal(dropped(x[cut], rows=rows, axis=axis)[0], whole[cut])


def test_rows_may_stand_for_blocks():
    x = np.ones((12, 4), np.float32)
    whole, _ = dropped(x)
    some, _ = dropped(x[:6], rows=np.array([2, 0]))
    np.testing.assert_array_equal(some, np.concatenate([whole[6:9], whole[:3]]))


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_as_many_are_dropped_as_the_ratio_says_and_the_mean_stays(ratio):
    y, mask = dropped(np.ones((200, 500), np.float64), ratio)
    assert abs((~mask).mean() - ratio) < 0.005
    if ratio < 1:
        assert abs(y.mean() - 1) < 0.02


def test_keys_and_positions_give_unrelated_masks():
    x = np.ones((64, 64), np.float32)
    masks = [dropped(x, 0.5, key)[1] for key in (0, 1, -1, folded_in(0, 1), folded_in(1, 0), folded_in(0, 2**40))]
    masks += [masks[0][::-1], masks[0][:, ::-1], masks[0].T]
    for i, one in enumerate(masks):
        for other in masks[:i]:
            assert abs((one == other).mean() - 0.5) < 0.05


def test_coordinates_beyond_the_counter_are_distinct():
    few = [np.arange(2)] * 6
    found = words(3, few)
    assert len(np.unique(found)) == found.size


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("Dropout(%x, 1.5, true, 7)", "expected a ratio from 0 to 1, found 1.5"),
        ("Dropout(%x, 0.5, true, 7, _, [1])", "expected a start for each of 2 dimensions, found 1"),
        ("Dropout(%x, 0.5, true, 7, %rows)", "expected a number of rows that divides dimension 0 of size 4, found 3"),
        ("Dropout[axis = 2](%x, 0.5, true, 7, %rows)", "axis"),
    ],
)
def test_operands_that_do_not_fit_are_refused(statement, message):
    text = f"func @main(%x: Tensor[Float32, (4, 6), 1], %rows: Tensor[Int64, (3,), 1]) {{\n  %y = {statement}\n"
    (found,) = distir.check(distir.parse(f"{text}  return %y\n}}\n"))
    assert message in found.message
