"""Places that begin anywhere, and addends as cells: what operands have in common stays, and nothing else is told."""

import pytest

from distir import parse
from distir.prove import prove
from distir.prove.domain import Relations
from distir.prove.ranks import MeshAxis, rank
from distir.prove.ranks import at as at_ranks
from distir.prove.runs import shifted
from distir.prove.shifting import cells, depends_on_call, is_of_call, shifts
from distir.prove.terms import Unproved

REPLICAS = MeshAxis(1, 4)


def moved(found):
    """Places by size as they are moved, and what they are at the ranks of the call."""
    by, own = shifts(found)
    there = {n: [shifted(runs, by.get(n, 0)) for runs in sets] for n, sets in found.items()}
    return there, {n: [at_ranks(runs, own) for runs in sets] for n, sets in there.items()}


def test_rows_of_other_microbatches_are_the_same_places():
    first, back = moved({16: [((4, 8),)], 64: [((16, 32),)]})
    other, _ = moved({16: [((12, 16),)], 64: [((48, 64),)]})
    assert first == other
    assert back == {16: [((4, 8),)], 64: [((16, 32),)]}
    ((start, _),) = first[16][0]
    assert depends_on_call((start,))


def test_places_of_one_size_keep_their_distance():
    first, back = moved({16: [((4, 8),), ((8, 12),)]})
    assert first == moved({16: [((8, 12),), ((12, 16),)]})[0]
    assert first != moved({16: [((8, 12),), ((8, 12),)]})[0]
    assert back == {16: [((4, 8),), ((8, 12),)]}


def test_places_that_fill_a_dimension_stay():
    found = {8: [((0, 4),), ((4, 8),)]}
    assert shifts(found) == ({}, {})


def test_what_depends_on_the_device_of_a_mesh_still_does():
    own = rank(REPLICAS) * 8
    found = {64: [((own + 4, own + 8),)]}
    first, back = moved(found)
    ((start, _),) = first[64][0]
    assert {axis.size for axis, _ in start.steps if not is_of_call(axis)} == {4}
    assert back == found
    # For no rank are there places behind the last one.
    ((count, most),) = [(axis.size, step) for axis, step in start.steps if is_of_call(axis)]
    assert start.base + 3 * 8 + (count - 1) * most + 4 <= 64


def test_a_call_inside_of_a_call_begins_anew():
    by, own = shifts({16: [((4, 8),)]})
    inner = {16: [shifted(((4, 8),), by[16])]}
    there, back = moved(inner)
    assert there == moved({16: [((4, 8),)]})[0]
    assert [at_ranks(runs, own) for runs in back[16]] == [((4, 8),)]


def test_places_that_cannot_move_are_not_mixed_with_those_that_can():
    by, _ = shifts({16: [((4, 8),)]})
    (run,) = shifted(((4, 8),), by[16])
    with pytest.raises(Unproved):
        shifts({16: [(run,), ((0, 4),)]})


def test_addends_are_told_apart_by_who_has_them():
    one = cells(16, [((0, 4), (8, 12))])
    assert one.count == 2
    assert one.inside == {((0, 4), (8, 12)): ((0, 1),)}
    assert one.of(((0, 1),)) == ((0, 4), (8, 12))
    two = cells(16, [((0, 8),), ((4, 16),)])
    assert two.count == 3
    assert [two.inside[runs] for runs in (((0, 8),), ((4, 16),))] == [((0, 2),), ((1, 3),)]
    assert two.of(((0, 3),)) == ((0, 16),)


def test_addends_that_depend_on_the_device_are_no_cells():
    assert cells(64, [((rank(REPLICAS) * 16, rank(REPLICAS) * 16 + 4),)]) is None


SEQUENTIAL = """
func @main(%x: Tensor[Float32, (8, 4), 1] {batch = 0}, %w: Tensor[Float32, (8, 4), 1] {param}) {
  %y = Mul(%x, %w)
  return %y
}
"""

PARTS = """
func @part(%x: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (8, 4), 1]) {
  %u, %v = Split[axis = 0, num_outputs = 2](%w)
  %y = Mul(%x, %u)
  return %y
}

func @main(%x: Tensor[Float32, (8, 4), 1] {batch = 0}, %w: Tensor[Float32, (8, 4), 1] {param}) {
  %x_1, %x_2 = Split[axis = 0, num_outputs = 2](%x)
  %y_1 = @part(%x_1, %w)
  %y_2 = @part(%x_2, %w)
  %y = Concat[axis = 0](%y_1, %y_2)
  return %y
}
"""


def test_a_function_that_is_right_for_some_rows_alone_is_not_taken_to_be_for_others():
    """`@part` multiplies by the first rows of the weight: right for the first half of the batch."""
    found = prove(parse(PARTS), parse(SEQUENTIAL))
    assert not found.proved
    right = PARTS.replace(
        "%y_2 = @part(%x_2, %w)", "%u, %v = Split[axis = 0, num_outputs = 2](%w)\n  %y_2 = Mul(%x_2, %v)"
    )
    assert prove(parse(right), parse(SEQUENTIAL)).proved


def test_what_depends_on_where_places_begin_is_not_looked_for_anywhere_twice(monkeypatch):
    tried = []
    of_formals = Relations._of_formals
    monkeypatch.setattr(
        Relations,
        "_of_formals",
        lambda self, call, vs, shifts: tried.append(shifts) or of_formals(self, call, vs, shifts),
    )
    prove(parse(PARTS), parse(SEQUENTIAL))
    assert tried.count(True) == 1


SUMMED = """
func @main(%x: Tensor[Float32, (8, 4), 1], %d: Tensor[Float32, (8, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %t = Transpose[perm = [1, 0]](%x)
  %g = MatMul(%t, %d)
  %y = MatMul(%g, %w)
  return %y
}
"""

ADDENDS = """
func @times(%g: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %y = MatMul(%g, %w)
  return %y
}

func @main(%x: Tensor[Float32, (8, 4), 1], %d: Tensor[Float32, (8, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %x_1, %x_2, %x_3 = Split[axis = 0](%x, [A, B, C])
  %d_1, %d_2, %d_3 = Split[axis = 0](%d, [A, B, C])
  %t_1 = Transpose[perm = [1, 0]](%x_1)
  %t_2 = Transpose[perm = [1, 0]](%x_2)
  %t_3 = Transpose[perm = [1, 0]](%x_3)
  %g_1 = MatMul(%t_1, %d_1)
  %g_2 = MatMul(%t_2, %d_2)
  %g_3 = MatMul(%t_3, %d_3)
  %y_1 = @times(%g_1, %w)
  %y_2 = @times(%g_2, %w)
  %y_3 = @times(%g_3, %w)
  %y = Sum(OF)
  return %y
}
"""


@pytest.mark.parametrize("sizes", ["1, 1, 6", "2, 2, 4", "2, 1, 5", "1, 2, 5", "3, 3, 2", "4, 2, 2"])
@pytest.mark.parametrize("of", ["1", "2", "3", "1, 2", "2, 3", "1, 3", "1, 1, 2, 3", "1, 2, 3"])
def test_a_function_of_some_addends_gives_no_more_of_them(sizes, of):
    """Whatever a function is given, it counts cells; outside of it, addends are counted as they are."""
    names = ", ".join(f"%y_{k}" for k in of.split(", "))
    module = parse(ADDENDS.replace("A, B, C", sizes).replace("OF", names))
    assert prove(module, parse(SUMMED)).proved == (of == "1, 2, 3")
