"""Causal attention by the first keys alone: sequences in chunks, one after the other in a pipeline (`seq1f1b`)."""

import re
from functools import cache
from random import Random

import pytest
from program_mutations import KINDS, mutants
from proof_samples import SIZES, is_proved
from thorough import ALL

import distir
from distir import models
from distir.analysis import check
from distir.prove import prove
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.moving import cut
from distir.prove.pieces import TermPiece
from distir.prove.terms import Terms
from distir.transform import transform, verify


@cache
def step(*training):
    return transform(models.named("llama3-8b", **SIZES, batch=4, sequence=8, dtype="Float32"), *training)


@cache
def chunked(words, *training):
    return transform(step(*training), *words.split())


CHUNKS = [
    ("pp=2 microbatches=2 schedule=seq1f1b chunks=2", ("grad",)),
    ("pp=2 microbatches=2 schedule=seq1f1b chunks=4", ("grad",)),
    ("pp=2 microbatches=2 schedule=seq1f1b chunks=2", ()),
    ("dtp=2,2,2 microbatches=2 schedule=seq1f1b chunks=2 representative=true", ("grad",)),
    ("cp=4 cp_kind=ring zigzag=false", ("grad",)),
]


@pytest.mark.by_turns
@pytest.mark.parametrize(("words", "training"), CHUNKS)
def test_what_a_transform_makes_is_proved(words, training):
    assert prove(chunked(words, *training), step(*training)).proved


def test_queries_need_all_keys_before_them():
    """The second chunk with its own keys alone."""
    text = distir.format(chunked(CHUNKS[2][0]))
    keys = re.search(r"%\S+ = Concat\[axis = 1\]\((%\S+), (%\S+)\)", text)
    wrong = distir.parse(text.replace(keys[0], keys[0].replace(keys[1], keys[2])))
    assert not check(wrong).errors
    assert not prove(wrong, step()).proved


def test_no_wrong_program_is_proved():
    random, tried, refused, slipped = Random(22), 0, 0, []
    while tried < (500 if ALL else 8):
        ((kind, mutant),) = mutants(chunked(CHUNKS[0][0], "grad"), random, 1, KINDS)
        if check(mutant).errors:
            continue
        tried += 1
        if not is_proved(mutant, step("grad")):
            refused += 1
        elif not verify(step("grad"), mutant).equal:
            slipped.append(kind)
    assert slipped == []
    assert refused > tried / 2


def addends(at, queries, none_before=0):
    """The places `at` of a gradient by keys, of some queries."""
    algebra = Algebra(Terms(), sequential=False)
    atom = algebra.terms.atom("AttentionGrad", (8,), details=1)
    whole = TermPiece(None, (8,), (places.full(8),), ((atom, 1.0, ()),))
    return algebra, cut(algebra, None, algebra.some(whole, "queries", queries, 8, none_before), 0, *at)


def test_queries_before_keys_have_no_part_in_their_gradient():
    _, later = addends((4, 8), ((4, 8),))
    assert not later.is_partial
    _, earlier = addends((0, 4), ((4, 8),))
    assert earlier.is_partial
    _, none = addends((4, 8), ((0, 4),))
    assert none.terms == ()


def test_of_other_sums_all_count():
    assert addends((4, 8), ((4, 8),), None)[1].is_partial


def test_parts_of_the_rest_are_added_up():
    algebra, first = addends((2, 4), ((0, 4),))
    (atom, _, _), *_ = first.terms
    whole = TermPiece(None, (8,), (places.full(8),), ((atom, 1.0, ()),))
    second = cut(algebra, None, algebra.some(whole, "queries", ((4, 8),), 8, 0), 0, 2, 4)
    assert algebra.totalled([*first.terms, *second.terms]) == ((atom, 1.0, ()),)
    assert algebra.totalled([*first.terms, *first.terms]) != ((atom, 1.0, ()),)
