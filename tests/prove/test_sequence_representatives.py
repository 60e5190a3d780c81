"""Programs of one representative device with sequences in parts: in order, in zig-zag, around rings, by heads."""

from functools import cache
from random import Random

import pytest
from program_mutations import OF_REPRESENTATIVES, _pick, _with, mutants
from proof_samples import SIZES, SPARSE, is_proved
from represented import written_out
from thorough import ALL

import distir
from distir import models
from distir.analysis import check
from distir.ir import Apply, Attributes
from distir.prove import prove, shares
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.pieces import TermPiece
from distir.prove.ranks import MeshAxis, bounds, fitted, rank, ranks
from distir.prove.terms import Terms, Unproved
from distir.transform import transform, verify

RING = MeshAxis(1, 4)
OTHER = MeshAxis(4, 3)


@cache
def step(name):
    sizes = {"batch": 2, "sequence": 16, "dtype": "Float32"}
    made = {
        "llama": lambda: models.named("llama3-8b", **{**SIZES, "layers": 1}, **sizes),
        "gpt": lambda: models.named("gpt3-125m", layers=1, width=8, heads=4, vocabulary=16, **sizes),
        "experts": lambda: models.named("mixtral-8x7b", **{**SPARSE, "layers": 1}, **sizes),
        "sinks": lambda: models.named("gpt-oss-20b", **{**SPARSE, "layers": 1}, **sizes),
    }
    return transform(made[name](), "grad", "loss=cross_entropy")


@cache
def in_parts(name, words):
    return transform(step(name), *words.split(), "representative=true")


CASES = [
    ("llama", "cp=4"),
    ("llama", "cp=4 cp_kind=ring"),
    ("llama", "cp=4 cp_kind=ring zigzag=false"),
    ("llama", "cp=2 cp_kind=a2a"),
    ("llama", "dtp=2,2,1 context=2"),
    ("llama", "dtp=1,1,1 context=4 cp_kind=ring"),
    ("gpt", "cp=2 cp_kind=ring"),
    ("experts", "cp=2"),
    ("sinks", "cp=2 cp_kind=ring"),
]


@pytest.mark.by_turns
@pytest.mark.parametrize(("name", "words"), CASES)
def test_what_a_transform_makes_is_proved(name, words):
    module = in_parts(name, words)
    assert prove(module, step(name)).proved
    assert distir.parse(distir.format(module)) == module


@pytest.mark.parametrize(("name", "words"), [CASES[1], CASES[4], CASES[6]])
def test_so_is_what_it_means(name, words):
    for device in (0, -1):
        whole = written_out(in_parts(name, words), device)
        assert not check(whole).errors
        assert verify(step(name), whole).equal
    assert prove(whole, step(name)).proved


def of_device(op):
    return lambda s: isinstance(s, Apply) and s.op == op


def places_changed(function, random, module):
    """Devices are told that they have other places: those of another device, or others."""
    index = _pick(function, random, of_device("GroupConstant"), (Apply,))
    if index is None:
        return None
    old = function.body[index]
    values = list(old.attrs["values"])
    match random.randrange(3):
        case 0:
            i, j = random.sample(range(len(values)), 2)
            values[i], values[j] = values[j], values[i]
        case 1:
            values = values[1:] + values[:1]
        case _:
            i = random.randrange(len(values))
            values[i] = tuple(n + 1 for n in values[i]) if isinstance(values[i], tuple) else values[i] + 1
    return _with(function, index, Apply(old.results, old.op, (), Attributes({**old.attrs, "values": tuple(values)})))


def parts_changed(function, random, module):
    """Devices take parts of each other, or in another order."""
    index = _pick(function, random, of_device("GroupParts"), (Apply,))
    if index is None:
        return None
    old = function.body[index]
    parts = list(old.attrs["parts"])
    i, j = random.sample(range(len(parts)), 2)
    match random.randrange(3):
        case 0:
            parts[i], parts[j] = parts[j], parts[i]
        case 1:
            parts[i] = parts[i][::-1]
        case _:
            parts[i], parts[j] = (parts[i][0], parts[j][1]), (parts[j][0], parts[i][1])
    return _with(
        function, index, Apply(old.results, old.op, old.args, Attributes({**old.attrs, "parts": tuple(parts)}))
    )


def shift_changed(function, random, module):
    """A step around the ring is as long as others, or the other way round."""
    index = _pick(function, random, of_device("GroupShift"), (Apply,))
    if index is None:
        return None
    old = function.body[index]
    by = random.choice([n for n in (-1, 0, 2) if n != old.attrs.get("by", 1)])
    return _with(function, index, Apply(old.results, old.op, old.args, Attributes({**old.attrs, "by": by})))


def part_of_the_first(function, random, module):
    """All devices take the parts of the first."""
    index = _pick(function, random, of_device("GroupParts"), (Apply,))
    if index is None:
        return None
    old = function.body[index]
    parts = old.attrs["parts"]
    count = sum(map(len, parts))
    results = tuple(old.results[parts[0].index(k)] if k in parts[0] else "_" for k in range(count))
    attrs = Attributes({"axis": old.attrs.get("axis", 0), "num_outputs": count})
    return _with(function, index, Apply(results, "Split", old.args, attrs))


MISTAKES = (*OF_REPRESENTATIVES, *(places_changed, parts_changed, shift_changed, part_of_the_first) * 5)
WRONG = [("llama", "cp=4 cp_kind=ring"), ("llama", "cp=2"), ("gpt", "cp=2 cp_kind=ring"), ("llama", "cp=2 cp_kind=a2a")]
COUNT = 1000 if ALL else 12


def test_no_wrong_program_is_proved():
    random, tried, refused, slipped = Random(22), 0, 0, []
    while tried < COUNT:
        name, words = random.choice(WRONG)
        ((kind, mutant),) = mutants(in_parts(name, words), random, 1, MISTAKES)
        if check(mutant).errors:
            continue
        tried += 1
        if not is_proved(mutant, step(name)):
            refused += 1
        elif not all(is_right(written_out(mutant, device), step(name)) for device in (0, -1)):
            slipped.append((name, words, kind))
    assert slipped == []
    assert refused > COUNT / 2


def is_right(module, original):
    return not check(module).errors and verify(original, module).equal


def test_a_part_that_all_devices_cut_of_a_constant_is_not_that_of_each():
    """What is known of a constant in parts is so of the first device alone."""
    whole = """\
func @main(%x: Tensor[Float32, (2,), 1]) {
  %c = Constant[value = [1.0, 2.0, 3.0, 4.0]]()
  %a, %b = Split[axis = 0, num_outputs = 2](%c)
  %y = Mul(%x, %a)
  return %y
}
"""
    first = whole.replace("num_outputs = 2", "num_outputs = 2, stride = 1")
    assert prove(distir.parse(whole), distir.parse(whole)).proved
    assert not prove(distir.parse(first), distir.parse(whole)).proved


def before(by):
    """The rank of the device before, around the ring."""
    return fitted([(rank - by) % RING.size for rank in range(RING.size)], [RING])


@pytest.mark.parametrize("by", range(4))
def test_places_around_a_ring(by):
    number = 8 * before(by) + 3
    assert bounds(number) == (3, 27)
    assert number // 8 == before(by)
    assert number % 8 == 3
    assert before(by) - before(by) == 0
    assert before(1) + rank(OTHER) - rank(OTHER) == before(1)


def test_what_is_before_for_some_and_behind_for_others_is_unknown():
    with pytest.raises(Unproved):
        before(1) < rank(RING)  # noqa: B015 - it is the comparison that is refused


def at(runs, axes):
    return [{k for start, stop in places.of_device(runs, own) for k in range(start, stop)} for own in ranks(axes)]


def zigzag(by):
    n = RING.size
    return places.fitted(
        [places.joined([((r, r + 1),), ((2 * n - 1 - r, 2 * n - r),)]) for r in ((k - by) % n for k in range(n))],
        [RING],
    )


@pytest.mark.parametrize("sets", [(0, 1), (0, 2), (1, 3), (0, 1, 2), (0, 1, 2, 3)])
def test_the_union_is_that_of_each_device(sets):
    parts = [zigzag(by) for by in sets]
    met = places.union(parts)
    expected = [set().union(*each) for each in zip(*[at(runs, [RING]) for runs in parts], strict=True)]
    assert at(met, [RING]) == expected
    assert (met == places.full(2 * RING.size)) == (len(sets) == RING.size)


def test_a_union_in_another_order_is_the_same():
    assert places.union([zigzag(0), zigzag(1), zigzag(2)]) == places.union([zigzag(2), zigzag(0), zigzag(1)])
    assert places.union([zigzag(0), zigzag(0)]) is None


def test_neighbours_on_one_device_alone_are_two_runs():
    runs = zigzag(0)
    assert len(runs) == 2
    assert places.of_device(runs, {RING: 3}) == ((3, 5),)
    assert [places.length(places.of_device(runs, own)) for own in ranks([RING])] == [2] * RING.size


def test_parts_of_what_nothing_is_known_of_are_not_merged():
    algebra = Algebra(Terms())
    atom = algebra.terms.atom("unknown", (4,), details=("Attention", 0), reason="nothing is known of it")
    x = TermPiece(None, (4,), (places.full(4),), ((atom, 1.0, ()),))
    first, second = (shares.share(algebra, x, at, 4, None) for at in (((0, 2),), ((2, 4),)))
    assert shares.merged(algebra, ((first,), (second,))) is None
