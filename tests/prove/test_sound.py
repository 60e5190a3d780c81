"""No program is called right of which any device returns something wrong: neither by a proof nor by verification.

Mistakes are made in what a single device does. What is right and wrong is found here without the claims of either: the
reference executor runs all devices, and each value that any of them returns is compared with that of the right program.
With DISTIR_TEST_ALL, 2,000 such programs that differ are tried.
"""

import re
from functools import cache
from random import Random

import numpy as np
import pytest
from program_mutations import OF_ONE_DEVICE, mutants
from thorough import ALL

from distir import models
from distir.analysis import check, execute, random_inputs
from distir.models.perceptron import mlp
from distir.models.transformer import gpt2
from distir.prove import ProveError, follow, reference
from distir.transform import transform, verify
from distir.transform.in_float64 import array_in_float64, in_float64

SIZES = {"layers": 1, "vocabulary": 8, "width": 4, "heads": 2, "kv_heads": 2, "head_size": 2}

STEPS = {
    "mlp": (mlp(2, 4, 8, "Float32"), "grad optimizer=adam"),
    "deep": (mlp(4, 4, 8, "Float32"), "grad optimizer=sgd"),
    "gpt2": (gpt2(1, 4, 2, 4, 4, vocabulary=8, dtype="Float32"), "grad loss=cross_entropy"),
    "llama": (
        models.named("llama3-8b", batch=4, sequence=4, dtype="Float32", ffn=8, **SIZES),
        "grad loss=cross_entropy optimizer=adam clip=1.0",
    ),
    "experts": (
        models.named("mixtral-8x7b", batch=4, sequence=4, dtype="Float32", experts=4, expert_ffn=8, **SIZES),
        "grad loss=cross_entropy",
    ),
}

STEPS["gradients"] = STEPS["experts"][0], "grad loss=cross_entropy optimizer=none"

STRATEGIES = {
    "mlp": (
        *("dp=2", "dp=4", "tp=2", "tp=2 dp=2", "dp=2 zero=1", "dp=2 zero=2", "dp=2 zero=3"),
        *("dp=2 zero=3 partition=split", "dtp=2,2,1 zero=1", "dtp=2,2,2 microbatches=2"),
    ),
    "deep": (
        *(
            "pp=2 microbatches=2 schedule=gpipe",
            "pp=2 microbatches=4 schedule=1f1b",
            "pp=2 microbatches=4 schedule=zb-h1",
        ),
        *("pp=2 microbatches=2 schedule=interleaved virtual=2", "dtp=2,1,2 microbatches=2 zero=2"),
        *("dtp=2,2,2 microbatches=2 schedule=1f1b", "dp=2 overlap=gradients"),
    ),
    "gpt2": ("dp=2", "tp=2", "dtp=2,2,1", "dp=2 zero=3", "dp=2 zero=3 partition=split"),
    "llama": (
        *("dp=2", "tp=2 sequence=true", "cp=2", "cp=2 cp_kind=ring", "cp=2 cp_kind=a2a", "tp=2 cp=2"),
        *("dp=2 zero=2", "dtp=2,2,1 sequence=true zero=1", "checkpoint=full dtp=2,1,1 zero=3"),
    ),
    "experts": ("ep=2", "ep=2 dp=2", "tp=2 ep=2", "tp=2 etp=1", "cp=2 ep=2", "dtp=2,2,1 experts=2"),
    "gradients": ("dp=2", "ep=2 dp=2", "tp=2 ep=2", "tp=2 dp=2"),
}

CASES = [(name, words) for name, strategies in STRATEGIES.items() for words in strategies]
COUNT, SOME = (2000, len(CASES)) if ALL else (40, 5)
"""How many programs of which a device returns something else, made of how many right ones."""

SEED = 3
"""Of the inputs: some tokens do not occur in others, and then nothing shows what a device does with them."""

EQUAL = 1e-10
"""What two sums in different order may differ by, in Float64, as a part of the greatest element."""


@cache
def sequential(name):
    module, words = STEPS[name]
    return transform(module, *words.split())


@cache
def distributed(name, words):
    return transform(sequential(name), *words.split())


@cache
def inputs(name):
    return [array_in_float64(value) for value in random_inputs(sequential(name), SEED, {}).values()]


def run(module, function, values):
    return [output.value for output in execute(module, values, function)]


@cache
def of_all_devices(name, words):
    """What each device returns of the right program."""
    return returned(distributed(name, words), name)


def returned(module, name):
    wide = in_float64(module)
    return run(wide, "main", run(wide, "main.scatter", inputs(name)))


def equal(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return a.shape == b.shape and np.all(np.abs(a - b) <= EQUAL * np.max(np.abs(a), initial=0.0))


def changed(module, name, words):
    """Whether a device returns something else; whatever cannot be run does."""
    try:
        found = returned(module, name)
    except Exception:  # the executor raises as numpy does, where a shape or an index is wrong
        return True
    return not all(map(equal, of_all_devices(name, words), found))


@cache
def references(name, words):
    return [reference(sequential(name), renames=renames) for renames in (True, False)]


def is_proved(module, name, words):
    """As `prove` finds, without interpreting the sequential program each time."""
    try:
        return any(follow(module, against).proof.proved for against in references(name, words))
    except ProveError:
        return False


@pytest.mark.by_turns
@pytest.mark.parametrize(("name", "words"), CASES)
def test_each_device_of_a_right_program_has_what_it_should(name, words):
    """By names: `%w_new_2` is what scatter would make of the sequential `%w_new`, for `%w_2`."""
    module = distributed(name, words)
    main, gather = module.functions["main"], module.functions["main.gather"]
    wide = in_float64(sequential(name))
    expected = dict(zip(wide.entry().returned, run(wide, "main", inputs(name)), strict=True))
    new = [expected.get(f"{p.name}_new", v) for p, v in zip(wide.entry().params, inputs(name), strict=True)]
    placed = dict(zip([p.name for p in main.params], run(in_float64(module), "main.scatter", new), strict=True))
    for param, found in zip(gather.params, of_all_devices(name, words), strict=True):
        stem = param.name.replace("_new", "").removesuffix("_part")
        if stem != param.name and stem in placed:
            assert equal(placed[stem], found), param.name
        else:
            whole = expected[next(n for n in expected if re.fullmatch(re.escape(n) + r"(_sum|_\d+)*", param.name))]
            assert any(equal(part, found) for part in parts(whole, np.shape(found))), param.name


def parts(whole, shape):
    """The parts of this shape that devices may have of a value."""
    found = [np.asarray(whole)]
    for axis, (m, n) in enumerate(zip(np.shape(whole), shape, strict=True)):
        found = [part for x in found for part in np.split(x, m // n, axis)]
    return found


def test_no_program_is_right_of_which_a_device_returns_something_wrong():
    random = Random(22)
    cases = CASES if ALL else random.sample(CASES, SOME)
    slipped, tried, refused = [], 0, 0
    while tried < COUNT:
        name, words = cases[tried % len(cases)]
        ((kind, mutant),) = mutants(distributed(name, words), random, 1, OF_ONE_DEVICE)
        if check(mutant).errors or not changed(mutant, name, words):
            continue
        tried += 1
        if is_proved(mutant, name, words):
            slipped.append(("proved", name, words, kind))
        try:
            if verify(sequential(name), mutant, SEED).equal:
                slipped.append(("verified", name, words, kind))
        except Exception:  # as above: it does not run
            refused += 1
    assert slipped == []
    assert refused < COUNT / 4
