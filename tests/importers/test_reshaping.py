"""Sizes said relative to what is reshaped mean the same sizes, whatever the named dimensions are."""

import math

from hypothesis import given
from hypothesis import strategies as st

from distir.importers.core import Freed
from distir.importers.reshaping import relative_shape
from distir.ir import dims

SIZES = st.sampled_from([1, 2, 3, 4, 6])


def resolved(shape, said):
    """What `Reshape` makes of sizes."""
    sizes = [shape[i] if size == 0 else size for i, size in enumerate(said)]
    if -1 in sizes:
        sizes[sizes.index(-1)] = math.prod(shape) // -math.prod(sizes)
    return tuple(sizes)


@given(st.lists(SIZES, min_size=1, max_size=3), st.integers(1, 5), st.data())
def test_symbols_are_left_out_where_that_means_the_same(rest, size, data):
    batch = dims.named("B")
    shape = [batch, *rest]
    data.draw(st.randoms()).shuffle(shape)
    target = data.draw(st.permutations([batch, *rest]))
    said = relative_shape(tuple(shape), target, None)
    if said is None:
        return
    concrete = tuple(size if dim is batch else dim for dim in shape)
    assert resolved(concrete, said) == tuple(size if dim is batch else dim for dim in target)


@given(st.lists(SIZES, min_size=1, max_size=3), st.integers(1, 4), st.integers(1, 5), st.data())
def test_a_leading_batch_is_freed(rest, fixed, size, data):
    cut = data.draw(st.integers(0, len(rest)))
    merged = [fixed * math.prod(rest[:cut]), *rest[cut:]]
    shape = (dims.named("B"), *rest)
    said = relative_shape(shape, merged, Freed("B", fixed))
    assert said is not None
    assert resolved((size, *rest), said) == (size * math.prod(rest[:cut]), *rest[cut:])
    back = relative_shape(
        (dims.multiply(dims.named("B"), math.prod(rest[:cut])), *rest[cut:]), [fixed, *rest], Freed("B", fixed)
    )
    assert back is not None
    assert resolved((size * math.prod(rest[:cut]), *rest[cut:]), back) == (size, *rest)


def test_what_holds_no_symbol_stays():
    assert relative_shape((2, 3), [3, 2], None) is None
    assert relative_shape((2, 3), [3, 2], Freed("B", 2)) is None


def test_two_symbols_that_move_stay():
    b, s = dims.named("B"), dims.named("S")
    assert relative_shape((dims.multiply(b, s), 4), [b, s, 4], None) is None
    assert relative_shape((b, s, 4), [b, s, 2, 2], None) == (0, 0, 2, 2)
