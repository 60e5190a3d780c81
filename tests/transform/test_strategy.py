"""Laws of strategies: as words and back, as steps, as a program. They are drawn from what their fields declare."""

import random
from dataclasses import replace

import pytest

import distir
from distir.models import mlp, named
from distir.ops.attention import CONTEXTS
from distir.transform import StepError, Strategy, apply, parse_steps, strategy_of, transform, words_of
from distir.transform.pipeline import SCHEDULES, SUMS
from distir.transform.strategy import AXES, BALANCES, DEGREES, FIELDS, RECOMPUTED, SEARCHED, Choices
from distir.transform.strategy.steps import ORDER, At, steps_of

WIDE = Choices(
    16,
    (32,),
    microbatches=(2, 4, 6),
    schedule=("1f1b", *sorted({*SCHEDULES} - {"1f1b"})),
    zero=(0, 1, 2, 3),
    checkpoint=(False, True),
    sums=SUMS,
    fuse=None,
    accumulate=(1, 2, 4),
    overlap=(False, True),
    experts=(1, 2),
    skew=1.25,
    kind=CONTEXTS,
    virtual=(2, 3, 4),
    shard=(2,),
    sequence=(False, True),
    balance=BALANCES,
    etp=(0, 1, 2),
    passes=(False, True),
    cp_experts=(False, True),
    recompute=("", *RECOMPUTED[1:], "full:1", "selective:2"),
)


def drawn(draw):
    """A strategy that goes through all axes."""
    found = Strategy(**{name: draw.choice((1, 2, 4)) for name in DEGREES})
    for axis in AXES:
        found = replace(found, **{axis.name: draw.choice(tuple(axis.tried(WIDE, found)))})
    return found


DRAWN = [drawn(random.Random(seed)) for seed in range(400)]
AT = At((("B", 64), ("S", 16)), "dgx-h100")


def test_every_field_is_drawn():
    of_few = {name for name in SEARCHED if len({getattr(s, name) for s in DRAWN}) < 2}
    assert of_few == {"stages"}  # those that annealing finds


@pytest.mark.parametrize("stages", [(), (1, 3)], ids=["equal", "unequal"])
def test_words_of_a_strategy_are_read_as_it(stages):
    for strategy in DRAWN:
        if stages:
            strategy = replace(strategy, pipeline=2, schedule="1f1b", virtual=0, chunks=0, balance="uniform")
            strategy = replace(strategy, stages=stages)
        assert strategy_of(words_of(strategy)) == strategy
        assert strategy_of(words_of(strategy, AT)) == strategy  # where and for which sizes is not part of it


ALL_BESIDE = Strategy(
    4,
    2,
    2,
    8,
    zero=1,
    checkpoint=True,
    recompute="selective",
    modules="core_attn",
    overlap=True,
    kinds=("gradients", "weights"),
    behind_sums=True,
    optimizer="adamw",
    precision="mixed",
    gradients="bf16",
    master="only",
    clip=1.0,
    seeded=True,
    scaling="mx",
    scaled_experts=True,
    merged=True,
    offloaded=2,
    state_on_host=True,
    layout="tdp",
    expert_parallel=2,
    skew=1.2,
    dispatcher="deepep",
    scatter_gather=False,
    whole=("SoftmaxCrossEntropyLoss",),
    wide_sums=True,
    decomposed=("SoftmaxCrossEntropyLoss",),
    fuse=True,
    kernels="eager",
    apart=("Mul",),
    around=("Add", "Mul"),
)
"""A strategy with all that no search tries."""


def test_what_no_search_tries_is_read_from_words_too():
    same = [
        name for name, field in FIELDS.items() if name not in SEARCHED and getattr(ALL_BESIDE, name) == field.default
    ]
    assert same == []
    assert strategy_of(words_of(ALL_BESIDE)) == ALL_BESIDE
    assert [(a.value, a.options) for a in parse_steps(words_of(ALL_BESIDE))] == [
        (a.value, a.options) for a in steps_of(ALL_BESIDE)
    ]


def test_steps_of_a_strategy_are_those_of_its_words():
    for strategy in DRAWN:
        for at in (None, AT):
            read, made = parse_steps(words_of(strategy, at)), steps_of(strategy, at)
            assert [(a.step, a.value, a.options) for a in made] == [(a.step, a.value, a.options) for a in read]
            assert [a.step.name for a in made] == [name for name in ORDER if name in {a.step.name for a in made}]


MLP = transform(mlp(4, 64), "grad", "loss=mse", "optimizer=adamw")
SIZES = {"layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocabulary": 96}
LLAMA = transform(named("llama3-8b", None, 16, **SIZES), "grad", "loss=cross_entropy")


@pytest.mark.parametrize(
    ("module", "strategy"),
    [
        (MLP, Strategy(2, 1, 2, 4, "zb-h1", zero=1, sums="stage", fuse=True)),
        (LLAMA, Strategy(2, 2, 1, 2, zero=3, overlap=True, checkpoint=True, recompute="full:1")),
        (MLP, Strategy(1, 1, 2, 2, stages=(1, 3))),
        (LLAMA, Strategy(2, 2, 1, sequence=True, context=2, kind="ring")),
    ],
    ids=["pipeline", "zero", "stages", "sequences"],
)
def test_a_strategy_is_applied_as_its_words_are(module, strategy):
    assert distir.format(apply(module, strategy)) == distir.format(transform(module, *words_of(strategy)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dtp=2,1,1 in_flight=2", "`in_flight=2` of the step `dtp`"),
        ("dtp=2,1,1 zero=1", "`partition=owner` of the step `zero`"),
        ("checkpoint=16GB hardware=dgx-h100 fuse", "with `dtp`"),
        ("fuse dtp=2,1,1", "in this order"),
        ("tp=2", "some of the steps `fp8`, `seeded`, `grad`"),
        ("grad lr=0.1 dtp=2,1,1", "`lr=0.1` of the step `grad`"),
        ("offload dtp=2,1,1", "in this order"),
        ("dtp=2,1,1 skew=1.5", "`skew=1.5`"),
        ("dtp=1,2,1 fuse epilogues=true", "`epilogues=true` of the step `fuse`"),
    ],
)
def test_what_no_strategy_says_is_refused(words, said):
    with pytest.raises(StepError) as refused:
        strategy_of(words.split())
    assert said in str(refused.value)


def test_defaults_of_steps_are_read_as_what_they_mean():
    assert strategy_of(["dtp=1,1,2", "microbatches=4"]) == Strategy(1, 1, 2, 4, balance="cost")
    assert strategy_of(["dtp=1,1,2", "microbatches=4", "schedule=interleaved"]).virtual == 0
    assert strategy_of(["checkpoint=full", "dtp=2,1,1", "bind=B=8"]) == Strategy(2, checkpoint=True)


def test_a_column_is_of_one_field():
    columns = [field.column for field in FIELDS.values()]
    assert len({*columns}) == len(columns)
    flags = [field.asked.flag for field in FIELDS.values() if field.asked is not None]
    assert len({*flags}) == len(flags)


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        (Strategy(2, schedule="zb-h1"), "`schedule=zb-h1` has no effect: it is for pipelines: `--pp 2`"),
        (Strategy(1, 1, 2, 4, virtual=4), "`virtual=4` has no effect: it is for schedules that have any number of"),
        (Strategy(4, shard=2), "`shard=2` has no effect: it is for ZeRO: `--zero 1,2,3` tries it"),
        (Strategy(2, recompute="products"), "it is of the step `checkpoint`, which the field `checkpoint` says"),
        (Strategy(2, kernels="blocks", clip=1.0), "`clip=1` has no effect: it is of the step `grad`"),
        (Strategy(2, kernels="blocks", clip=1.0), "`kernels=blocks` has no effect: it is of the step `fuse`"),
    ],
)
def test_fields_that_others_contradict_are_refused_with_what_would_do(strategy, said):
    with pytest.raises(StepError) as refused:
        apply(mlp(4, 8, 2), strategy)
    assert said in str(refused.value)
