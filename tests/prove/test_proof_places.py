"""Arithmetic on places is that on arrays: what is said of a part of a reshaped array is so."""

import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from distir.prove import runs as places
from distir.prove.moving import regrouped


def runs_of(chosen):
    return places.joined([((k, k + 1),) for k in chosen])


def elements(runs):
    return [k for start, stop in runs for k in range(start, stop)]


subsets = st.integers(1, 12).flatmap(
    lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1).map(sorted))
)


@given(subsets, st.integers(0, 12), st.integers(0, 12))
def test_taken(subset, start, stop):
    _, chosen = subset
    assert elements(places.taken(runs_of(chosen), start, stop)) == chosen[start:stop]


@given(st.lists(st.sets(st.integers(0, 9)), max_size=4))
def test_a_union_is_of_sets_that_share_nothing(sets):
    found = places.union([runs_of(sorted(own)) for own in sets])
    together = [k for own in sets for k in own]
    assert found == (None if len(together) > len(set(together)) else runs_of(sorted(together)))


@given(subsets, subsets)
def test_merged_and_parted_again(outer, inner):
    (n, rows), (m, columns) = outer, inner
    size, found = places.merged((n, runs_of(rows)), (m, runs_of(columns)))
    assert size == n * m
    assert elements(found) == [i * m + j for i in rows for j in columns]
    assert places.parted(found, size, m, len(columns)) == (runs_of(rows), runs_of(columns))


@given(st.data())
def test_regrouped_is_what_reshaping_does(data):
    sizes = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)
    whole = tuple(data.draw(sizes))
    assume(math.prod(whole) <= 64)
    target = (
        tuple(data.draw(sizes.filter(lambda t: math.prod(t) == math.prod(whole)))) if math.prod(whole) < 4 else None
    )
    if target is None:
        factors = data.draw(st.permutations([f for n in whole for f in {4: (2, 2), 6: (2, 3)}.get(n, (n,))]))
        target = tuple(factors)
    chosen = [sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))) for n in whole]
    array = np.arange(math.prod(whole)).reshape(whole)
    part = array[np.ix_(*chosen)].reshape(-1)
    for shape in candidates(part.size, len(target)):
        found = regrouped(whole, tuple(map(runs_of, chosen)), target, shape)
        if found is not None:
            again = array.reshape(target)[np.ix_(*map(elements, found))]
            assert again.shape == shape
            assert again.reshape(-1).tolist() == part.tolist()


def candidates(count, rank):
    """Shapes of so many elements."""
    if rank == 1:
        yield (count,)
        return
    for n in range(1, count + 1):
        if count % n == 0:
            for rest in candidates(count // n, rank - 1):
                yield (n, *rest)
