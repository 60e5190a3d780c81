"""Caches of keys and values: a step of a decoder appends in place and attends to what is filled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_samples import apply, close, random_array, rejects, seeds

import distir
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, HOST, Attributes, TensorType
from distir.ops import OPS, dense, work
from distir.transform import verify
from distir.transform.entry import entry_of

DECODE = """
func @main(
  %x: Tensor[Float32, (4, 1, 32), 1] {{batch = 0}},
  %past_keys: Tensor[Float32, (4, 2, {capacity}, 16), 1] {{batch = 0, state}},
  %past_values: Tensor[Float32, (4, 2, {capacity}, 16), 1] {{batch = 0, state}},
  %wq: Tensor[Float32, (32, 128), 1] {{param}},
  %wk: Tensor[Float32, (32, 32), 1] {{param}},
  %wv: Tensor[Float32, (32, 32), 1] {{param}},
  %wo: Tensor[Float32, (128, 32), 1] {{param}}
) {{
  %q, %k, %v = @projections(%x, %wq, %wk, %wv)
  %keys = TensorScatter(%past_keys, %k, {position})
  %values = TensorScatter(%past_values, %v, {position})
  %mixed = Attention[is_causal = true](%q, %keys, %values, _, _, {length})
  %rows = Transpose[perm = [0, 2, 1, 3]](%mixed)
  %flat = Reshape(%rows, [0, 0, -1])
  %y = MatMul(%flat, %wo)
  return %y, %keys, %values
}}

func @projections(%x, %wq, %wk, %wv) {{
  %q = @heads(%x, %wq, 8)
  %k = @heads(%x, %wk, 2)
  %v = @heads(%x, %wv, 2)
  return %q, %k, %v
}}

func @heads(%x, %w, %count) {{
  %flat = MatMul(%x, %w)
  %heads = Unsqueeze(%count, [0])
  %shape = Concat[axis = 0]([0, 0], %heads, [16])
  %rows = Reshape(%flat, %shape)
  %y = Transpose[perm = [0, 2, 1, 3]](%rows)
  return %y
}}
"""


def decode(position, capacity=64):
    return distir.parse(DECODE.format(position=position, length=position + 1, capacity=capacity))


@given(st.integers(1, 3), st.integers(1, 6), st.integers(0, 6), seeds, st.sampled_from([None, 3]))
def test_tokens_one_by_one_give_what_all_at_once_give(prompt, steps, spare, seed, window):
    total = prompt + steps
    q, k, v = (random_array("Float64", (2, h, total, 4), seed + i, -1, 1) for i, h in enumerate((4, 2, 2)))
    attrs = {"is_causal": True} | ({} if window is None else {"window": window})
    whole = apply("Attention", q, k, v, **attrs)
    keys, values = (np.full((2, 2, total + spare, 4), np.nan) for _ in range(2))
    start = 0
    for end in (prompt, *range(prompt + 1, total + 1)):
        keys = apply("TensorScatter", keys, k[:, :, start:end], start)
        values = apply("TensorScatter", values, v[:, :, start:end], start)
        filled = [np.where(np.isnan(x), 1e3, x) for x in (keys, values)]
        close(apply("Attention", q[:, :, start:end], *filled, None, None, end, **attrs), whole[:, :, start:end])
        start = end


@given(seeds, st.sampled_from(["Int32", "Int64"]))
def test_each_sequence_has_its_own_place(seed, dtype):
    places = np.array([0, 3, 5], np.dtype(dtype.lower()))
    cache, update = random_array("Float32", (3, 6, 4), seed), random_array("Float32", (3, 1, 4), seed + 1)
    expected = cache.copy()
    for row, place in enumerate(places):
        expected[row, place] = update[row, 0]
    np.testing.assert_array_equal(apply("TensorScatter", cache, update, places, axis=1), expected)
    q, k = random_array("Float32", (3, 2, 1, 4), seed), random_array("Float32", (3, 2, 6, 4), seed + 2)
    together = apply("Attention", q, k, k, None, None, places + 1)
    for row, place in enumerate(places):
        alone = k[row : row + 1, :, : place + 1]
        close(together[row : row + 1], apply("Attention", q[row : row + 1], alone, alone))


def test_a_circular_cache_begins_again():
    cache, update = np.zeros((1, 4, 1), np.float32), np.arange(1, 4, dtype=np.float32).reshape(1, 3, 1)
    found = apply("TensorScatter", cache, update, 6, axis=1, mode="circular")
    np.testing.assert_array_equal(found.ravel(), [3, 0, 1, 2])


def test_there_is_no_second_cache_and_the_filled_part_alone_is_read():
    capacity, cache = 1024, 2 * 4 * 2 * 1024 * 16 * 4
    simulation = distir.simulate(decode(99, capacity), "dgx-h100")
    assert cache < simulation.devices[1].peak_memory_bytes < 1.1 * cache
    q, kv = (TensorType(DTYPES["Float32"], shape, 1) for shape in ((4, 8, 1, 16), (4, 2, capacity, 16)))
    causal = Attributes({"is_causal": True})

    def done(length):
        return work(OPS["Attention"], [q, kv, kv, None, None, length], [q], causal)

    read = 2 * 4 * 2 * 16 * 4  # bytes of a place, of keys and values
    assert done(dense(100)).bytes == 100 * read + 2 * q.nbytes
    assert done(dense(100)).flops == 4 * 4 * 8 * 100 * 16
    assert done(dense((100, 200, 300, 400))).flops == 4 * 8 * 1000 * 16
    for unknown in (TensorType(DTYPES["Int64"], (), HOST), TensorType(DTYPES["Int64"], (4,), 1)):
        assert done(unknown).flops == 4 * 4 * 8 * capacity * 16
        assert done(unknown).bytes == capacity * read + 2 * q.nbytes + (0 if unknown.device == HOST else unknown.nbytes)
    windowed = Attributes({"is_causal": True, "window": 10})
    slid = work(OPS["Attention"], [q, kv, kv, None, None, dense(100)], [q], windowed)
    assert slid.bytes == 10 * read + 2 * q.nbytes
    token = TensorType(DTYPES["Float32"], (4, 2, 1, 16), 1)
    assert work(OPS["TensorScatter"], [kv, token, dense(99)], [kv], Attributes()).bytes == 2 * token.nbytes


@pytest.mark.parametrize("steps", [("dp=2",), ("tp=2",), ("dp=2", "tp=2")])
def test_a_step_with_a_cache_is_sharded_by_sequences_and_heads(steps):
    module = decode(5, 16)
    made = distir.transform(module, *steps)
    assert verify(module, made).equal
    caches = [p.type.shape for p in entry_of(made).params if "past_keys" in p.name]
    assert len(caches) == 2 ** len(steps)
    assert np.prod(caches[0]) * len(caches) == 4 * 2 * 16 * 16


def test_bad_caches_are_one_message_each():
    cache, update, two = (random_array("Float32", shape) for shape in ((2, 2, 6, 4), (2, 2, 1, 4), (2, 2, 2, 4)))
    assert rejects("TensorScatter", cache, two, 5) == (
        codes.BAD_VALUE,
        "`TensorScatter` expected a cache of at least 7 places, found 6: 2 are written from 5 on",
    )
    assert rejects("TensorScatter", update, cache)[0] is codes.BAD_VALUE
    assert rejects("TensorScatter", cache, update, -1)[0] is codes.BAD_VALUE
    assert rejects("TensorScatter", cache, update, [0, 1, 2])[0] is codes.SHAPE_MISMATCH
    assert rejects("TensorScatter", cache, cache, axis=0)[0] is codes.BAD_VALUE
    assert rejects("TensorScatter", cache, update, mode="round")[0] is codes.BAD_VALUE
    assert rejects("TensorScatter", cache, update.astype(np.float64))[0] is codes.DTYPE_MISMATCH
    assert rejects("Attention", update, cache, cache, None, None, 7) == (
        codes.BAD_VALUE,
        "`Attention` expected a length from 1 to the 6 places of the cache, found 7",
    )
    assert rejects("Attention", update, cache, cache, None, None, 0)[0] is codes.BAD_VALUE
    assert rejects("Attention", two, cache, cache, None, None, 1, is_causal=True)[0] is codes.BAD_VALUE
    assert rejects("Attention", update, cache, cache, None, None, [1, 2, 3])[0] is codes.SHAPE_MISMATCH


def test_a_place_that_only_the_run_knows_is_checked_there():
    text = """
    func @main(%c: Tensor[Float32, (2, 6, 4), 1], %u: Tensor[Float32, (2, 1, 4), 1], %p: Tensor[Int64, (), 1]) {
      %y = TensorScatter(%c, %u, %p)
      return %y
    }
    """
    module = distir.parse(text)
    with pytest.raises(distir.ProgramError, match="6 places"):
        distir.run(module, {"c": np.zeros((2, 6, 4), "f4"), "u": np.zeros((2, 1, 4), "f4"), "p": np.array(6)})


def test_a_cache_is_not_trained():
    text = """
    func @main(%c: Tensor[Float32, (2, 6, 4), 1], %u: Tensor[Float32, (2, 1, 4), 1] {param}) {
      %y = TensorScatter(%c, %u, 0)
      return %y
    }
    """
    with pytest.raises(distir.ProgramError, match="in place"):
        distir.transform(distir.parse(text), "grad", loss="mse")
