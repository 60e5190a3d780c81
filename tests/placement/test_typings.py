"""The rule of each op, in numbers: run on parts of operands, it gives those parts of its results that a typing says.

Operands are those of every op's examples, and larger ones, placed along one axis of two or three devices in any way:
whole, split by its letters or not, in zig-zag, in blocks, as pending sums and maxima. Where there is no typing, the op
run as it is on each device gives no parts of its results: but for `LACKS`.
"""

import itertools
import random
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from placed_values import joined_as, parts, run_on_parts, together

sys.path.append(str(Path(__file__).parents[1] / "ops"))

from op_samples import random_value
from test_drawn_operands import BRIDGED, of_bridge

from distir.ir import Attributes, Literal, TensorType, TupleType
from distir.ops import OPS, Reject, bind, canonical, infer_types, run, strengthen, to_array
from distir.ops.layout import Shared
from distir.ops.splitting import layout
from distir.placement.along import GREATEST, PARTIAL, WHOLE, Split, is_host
from distir.placement.typings import typings
from distir.syntax import parse_example
from distir.transform.sharding.decide import Exchanged, NoRule, NotExchanged, decide

NOT_ON_A_MESH = ("group", "communication", "mesh")
"""Families of ops that name devices: on a mesh their place is taken by collectives along an axis."""

OURS = {
    name: op for name, op in OPS.items() if op.body.__module__.startswith("distir.") and op.family not in NOT_ON_A_MESH
}

LACKS = {
    "Adafactor": "one factor of the state without the other; a coincidence of the first step",
    "Assign": "the old weight is not read, but its memory taken",
    "Attention": "columns of values, where the log-sum-exp is given too",
    "Col2Im": "channels: the bridge knows no letters of this op",
    "ConvTranspose": "both channels",
    "ConvWeightGrad": "windows that do not overlap",
    "DeformConv": "channels out",
    "DepthToSpace": "rows, whose blocks stay together",
    "GatedLinearAttention": "columns of values",
    "GatedLinearAttentionGrad": "columns of values",
    "GlobalMaxPool": "places of the image, as a pending maximum",
    "GridSample": "places of the grid",
    "Hardmax": "the batch",
    "LRN": "the channels of one window",
    "LpNormalization": "the batch",
    "MatMulInteger": "columns, with a zero point for each row",
    "MaxPoolGrad": "windows that do not overlap",
    "MeanVarianceNormalization": "channels",
    "NegativeLogLikelihoodLossGrad": "log-probabilities that are not read, but for their shape",
    "Offload": "the old copy is not read, but its memory taken",
    "RaggedMatMul": "rows with their experts, where each has as many",
    "ReduceL1": "a sum over a split dimension",
    "ReverseSequence": "features",
    "ScaledMatMul": "columns of a block that has one scale",
    "ScaledRaggedMatMul": "columns of a block that has one scale",
    "ScaledRaggedMatMulGrad": "columns of a block that has one scale",
    "SpaceToDepth": "rows, whose blocks stay together",
    "Squeeze": "dimensions that are not stated: a part of size 1 would be dropped",
    "Unpermute": "the experts of a token, over which it adds up",
    "UnpermuteGrad": "weights that are not read, but for their shape",
}
"""Ops that could be computed on some parts, of which their rule knows nothing: refused, though right."""

COMPARED = Counter()
"""What was compared, by kind."""


def of_example(text):
    """The operands (types, literals, None), and the statement."""
    params, apply = parse_example(text, canonical)
    known = {p.name: p.type for p in params}
    return [(known.get(a) if a != "_" else None) if isinstance(a, str) else a for a in apply.args], apply


def grown(args):
    """Operands of twice the size in each dimension, so that they split into several blocks."""
    return [
        replace(a, shape=tuple(n * 2 if n > 1 else n for n in a.shape)) if isinstance(a, TensorType) else a
        for a in args
    ]


def cases():
    """Ops with operands, attributes and types of results: of examples, in double precision where they take that."""
    for name, op in OURS.items():
        for k, text in enumerate(op.examples):
            precise, apply = of_example(text.replace("Float32", "Float64"))
            found = [case_of(op, args, apply.attrs, len(apply.results)) for args in (precise, grown(precise))]
            if found[0] is None:
                found[0] = case_of(op, of_example(text)[0], apply.attrs, len(apply.results))
            for case, sizes, label in zip(found, ((2, 3), (2,)), ("", " grown"), strict=True):
                if case is not None:
                    yield pytest.param(*case, sizes, id=f"{name} {k}{label}")
    for k, (name, shapes, given) in enumerate(BRIDGED):
        args, attrs, count = of_bridge(name, shapes, {**given})
        if (case := case_of(OPS[name], args, attrs, count)) is not None:
            yield pytest.param(*case, (2,), id=f"{name} bridged {k}")


def case_of(op, args, attrs, count):
    """What is known of an op's results for these operands; None if it does not take them, or they are tuples."""
    try:
        types = infer_types(op, args, attrs, count)
    except Reject:
        return None
    return None if any(isinstance(a, TupleType) for a in args) else (op, args, attrs, types)


def options(v, size):
    """All ways in which an operand may be placed."""
    if not isinstance(v, TensorType) or is_host(v):
        return [WHOLE]
    split = [Split(k) for k, n in enumerate(v.shape) if n and n % size == 0]
    return [WHOLE, *split, *([] if v.dtype.kind == "bool" else [PARTIAL, GREATEST])]


def plans(op, args, attrs, types, size, rng):
    """Placements of operands: split along each letter of the op, one by itself otherwise, and some drawn."""
    each = [options(a, size) for a in args]
    found = dict.fromkeys(tuple(map(rng.choice, each)) for _ in range(5))
    for i, own in enumerate(each):
        found |= dict.fromkeys(tuple(s if k == i else WHOLE for k in range(len(args))) for s in own)
    found[tuple(PARTIAL if PARTIAL in own else WHOLE for own in each)] = None
    main = layout(op, args, types, attrs)
    for one in () if main is None else (main, *main.others):
        for letter in {x for own in one.operands for x in own if x is not None}:
            at = [own.index(letter) if letter in own else None for own in one.operands]
            plan = [WHOLE if k is None else Split(k) for k in at]
            found[tuple(s if s in own else WHOLE for s, own in zip(plan, each, strict=True))] = None
            blocks = [one.operand_blocks.get((i, k)) for i, k in enumerate(at)]
            plan = [WHOLE if k is None else Split(k, b or ()) for k, b in zip(at, blocks, strict=True)]
            if any(blocks) and all(Split(s.axis) in own for s, own in zip(plan, each, strict=True) if s is not WHOLE):
                found[tuple(plan)] = None
    return found


def variants(plan, args, size):
    """A plan, and the same in zig-zag, in two blocks, and with one of two blocks replicated."""
    yield plan
    sizes = {v.shape[s.axis] for v, s in zip(args, plan, strict=True) if isinstance(s, Split)}
    if sizes and all(n % (2 * size) == 0 for n in sizes):
        for change in (
            lambda s, n: replace(s, zigzag=True),
            lambda s, n: replace(s, blocks=(n // 2, n // 2)),
            lambda s, n: replace(s, blocks=(Shared(n // 2), n // 2)),
        ):
            yield tuple(
                change(s, v.shape[s.axis]) if isinstance(s, Split) else s for v, s in zip(args, plan, strict=True)
            )


def values_of(op, args, attrs, seed=0, low=0, high=1):
    """Arrays of the operands: numbers from `low` to `high`, indices 0 or 1."""
    strong = strengthen(op, args, attrs)
    return [
        to_array(s)
        if isinstance(a, Literal)
        else a and random_value(a, i + 100 * seed, low=low if a.dtype.kind == "float" else 0, high=high)
        for i, (a, s) in enumerate(zip(args, strong, strict=True))
    ]


CASES = [*cases()]


@pytest.mark.parametrize(("op", "args", "attrs", "types", "sizes"), CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_op_gives_the_parts_that_its_typings_say(op, args, attrs, types, sizes):
    COMPARED["cases"] += 1
    values = values_of(op, args, attrs)
    try:
        wholes = run(op, values, bind(op, attrs), len(types))
    except Reject:
        return
    rng = random.Random(op.name)
    for size in sizes:
        for plan in plans(op, args, attrs, types, size, rng):
            for placed in variants(plan, args, size):
                found = typings(op, attrs, args, placed, types, size)
                assert len({typing.given for typing in found}) < 2, "never ambiguous"
                for typing in found:
                    held = run_on_parts(op, attrs, args, values, types, typing, size)
                    for own, whole, state in zip(held, wholes, typing.given, strict=True):
                        assert joined_as(own, whole, state, size), (placed, typing)
                    count(typing)
            if not typings(op, attrs, args, plan, types, size):
                assert op.name in LACKS or not would_do(op, args, attrs, plan, types, size), plan


def count(typing):
    """Count what was compared."""
    COMPARED["parted"] += typing.parted
    COMPARED["located"] += typing.located
    COMPARED["averaged"] += typing.averaged
    COMPARED["lessened"] += typing.lessened is not None
    COMPARED["zigzag"] += any(isinstance(s, Split) and s.zigzag for s in typing.needed)
    COMPARED["blocks"] += any(isinstance(s, Split) and bool(s.blocks) for s in typing.needed)
    COMPARED.update(str(s) for s in typing.given if not isinstance(s, Split))


ALONG_ONE = [case for case in CASES if len(case.values[-1]) == 1]
"""The larger operands, and those of bridged ops."""


@pytest.mark.parametrize(("op", "args", "attrs", "types", "sizes"), ALONG_ONE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_holds_along_each_of_two_axes_holds_along_both(op, args, attrs, types, sizes):
    """Parts of parts, as a mesh of two axes has them, of ops that are written as they are."""
    values, bound = values_of(op, args, attrs), bind(op, attrs)
    try:
        wholes = run(op, values, bound, len(types))
    except Reject:
        return
    rng = random.Random(op.name)
    every = [t for plan in plans(op, args, attrs, types, 2, rng) for t in typings(op, attrs, args, plan, types, 2)]
    pairs = [*itertools.product([t for t in every if is_plain(t) and not all(map(is_host, types))], repeat=2)]
    for outer, inner in rng.sample(pairs, min(len(pairs), 30)):
        names = Counter((*outer.divided, *inner.divided))
        own = {n: bound[n] / 2**k if isinstance(bound[n], float) else bound[n] // 2**k for n, k in names.items()}
        if any(bound[n] % 2**k for n, k in names.items()) or not divide_by_both(values, outer, inner):
            continue
        held = [v if v is None else parts(v, s, 2, 1) for v, s in zip(values, outer.needed, strict=True)]
        found = []
        for rank in range(2):
            mine = [v if v is None else parts(v[rank], s, 2, 2) for v, s in zip(held, inner.needed, strict=True)]
            made = [
                run(op, [v if v is None else v[k] for v in mine], Attributes({**bound, **own}), len(types))
                for k in range(2)
            ]
            found.append([together([each[j] for each in made], s) for j, s in enumerate(inner.given)])
        for j, (whole, state) in enumerate(zip(wholes, outer.given, strict=True)):
            assert joined_as([own[j] for own in found], whole, state, 2), (outer, inner)


def is_plain(typing):
    """Whether devices run the op itself, on parts, with no more than attributes divided."""
    other = typing.parted or typing.located or typing.averaged or typing.lessened is not None or typing.divided_operands
    layout = typing.layout
    stated = layout is not None and (layout.stated is not None or layout.apart == typing.letter)
    states = (*typing.needed, *typing.given)
    blocks = any(isinstance(s, Split) and s != Split(s.axis) for s in states)
    return not (other or stated or blocks or any(isinstance(s, tuple) for s in states))


def divide_by_both(values, outer, inner):
    """Whether dimensions that both split divide by both."""
    pairs = zip(values, outer.needed, inner.needed, strict=True)
    both = [(v, a) for v, a, b in pairs if isinstance(a, Split) and isinstance(b, Split) and a.axis == b.axis]
    return all(v.shape[a.axis] % 4 == 0 for v, a in both)


def would_do(op, args, attrs, plan, types, size):
    """Whether the op, as it is, on parts so placed gives parts of its results, for several draws of the operands."""
    if op.draws is not None or {PARTIAL, GREATEST} & {*plan} or not any(isinstance(s, Split) for s in plan):
        return False
    possible = None
    for seed in range(1, 6):
        values = values_of(op, args, attrs, seed, -3, 3)
        held = [parts(v, s, size, seed) if v is not None else [None] * size for v, s in zip(values, plan, strict=True)]
        try:
            wholes = run(op, values, bind(op, attrs), len(types))
            found = [run(op, [own[rank] for own in held], bind(op, attrs), len(types)) for rank in range(size)]
        except (Reject, ValueError, IndexError, AssertionError, TypeError):
            return False
        if not all(np.isfinite(np.asarray(w, np.float64)).all() and len(np.unique(w)) > 1 for w in wholes):
            return False  # nothing can be told of such a result
        here = [
            {s for s in placements(w, size) if joined_as([own[j] for own in found], w, s, size)}
            for j, w in enumerate(wholes)
        ]
        possible = here if possible is None else [a & b for a, b in zip(possible, here, strict=True)]
        if not all(possible):
            return False
    return True


def placements(array, size):
    """The ways in which a result may be placed."""
    split = [Split(k) for k, n in enumerate(array.shape) if n and n % size == 0]
    return [WHOLE, *split, *([] if array.dtype.kind == "b" else [PARTIAL, GREATEST])]


def test_everything_was_compared():
    if COMPARED["cases"] == len(CASES):  # else another process has the others
        kinds = ("parted", "located", "lessened", "zigzag", "blocks", str(WHOLE), str(PARTIAL), str(GREATEST))
        assert all(COMPARED[kind] > 5 for kind in kinds), COMPARED


@pytest.mark.parametrize(("op", "args", "attrs", "types", "sizes"), CASES)
def test_what_the_partitioner_decides_is_a_typing(op, args, attrs, types, sizes):
    """So that what it writes checks: it only moves operands to where the rule needs them."""
    if op.draws is not None and op.draws(*args, **bind(op, attrs)):
        return
    rng = random.Random(op.name)
    size = sizes[-1]
    for plan in plans(op, args, attrs, types, size, rng):
        if all(map(is_host, types)) or not any(isinstance(s, Split) for s in plan):
            continue
        try:
            made = decide(op, attrs, args, plan, types, size)
        except (NoRule, NotExchanged):
            continue
        if not isinstance(made, Exchanged):
            assert made.given in [t.given for t in typings(op, attrs, args, made.needed, types, size)], plan
