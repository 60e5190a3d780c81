"""The whole product: every strategy, of every model, gives the sequential program's results to ten digits.

Models x (data, tensor, pipeline degrees) over at most eight devices x microbatches x schedules x ZeRO x checkpointing.
Ordinarily a sample of it; all of it with `DISTIR_TEST_ALL=1`. What cannot be combined is refused for one of the reasons
that `refusal` lists, and for no other.
"""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from random import Random

import numpy as np
import pytest
from dtp_samples import BATCH, MODELS
from product_samples import Runs, inputs, largest_difference, remembered_answers

import distir
from distir.analysis.executor import result_names
from distir.diagnostics import ProgramError
from distir.transform import transform
from distir.transform.pipeline import SCHEDULES

CLOSE = 1e-10
MOST = 8
"""How many devices there are at most."""

DEGREES = [d for d in product(range(1, MOST + 1), repeat=3) if d[0] * d[1] * d[2] <= MOST]
MICROBATCHES = (1, 2, 4, 8)

INDIVISIBLE, BAD_SCHEDULE, NO_GROUP = "DIR620", "DIR643", "DIR660"


@dataclass(frozen=True)
class Case:
    """One strategy for one model."""

    model: str
    degrees: tuple[int, int, int]
    microbatches: int
    schedule: str
    zero: int
    checkpoint: bool

    @property
    def layers(self):
        """As many as make two stages on each device of a pipeline possible, eight at most, and few, to be quick."""
        return {1: 3, 2: 4, 3: 6}.get(self.degrees[2], 8)

    @property
    def virtual(self):
        """Stages per device: two, where there is a layer for each."""
        return 2 if self.schedule == "interleaved" and 2 * self.degrees[2] <= self.layers else 1

    @property
    def pipeline(self):
        words = [f"microbatches={self.microbatches}", f"schedule={self.schedule}"]
        return [*words, f"virtual={self.virtual}"] if self.virtual > 1 else words

    @property
    def partitioned(self):
        """Both ways to partition have their turn."""
        way = "owner" if self.microbatches in (1, 4) else "split"
        return [f"zero={self.zero}", f"partition={way}"] if self.zero else []

    @property
    def words(self):
        """What one would write on the command line."""
        before = ["checkpoint=2"] if self.checkpoint else []
        return [*before, f"dtp={','.join(map(str, self.degrees))}", *self.pipeline, *self.partitioned]

    def __str__(self):
        return f"{self.model}: {' '.join(self.words)}"


def fitting(stages):
    """The schedules for which there are layers enough: `interleaved` may do with one stage per device."""
    return [name for name, s in SCHEDULES.items() if s.virtual or s.stages * stages <= 8]


def cases(name):
    """Every strategy for a model. There is one schedule alone without a backward pass, or with one stage."""
    training = name.endswith("training")
    return [
        Case(name, degrees, microbatches, schedule, zero, checkpoint)
        for checkpoint in ((False, True) if training else (False,))
        for degrees in DEGREES
        for microbatches in MICROBATCHES
        for schedule in (fitting(degrees[2]) if training and degrees[2] > 1 else ("1f1b",))
        for zero in (range(4) if training else (0,))
    ]


def refusal(case):
    """The code of the diagnostic that refuses a strategy, or None for one that there is."""
    d, t, p = case.degrees
    if case.schedule == "dualpipev" and case.microbatches < 2 * p:
        return BAD_SCHEDULE  # it has both directions at once
    if t not in (1, 2, 4, 8):
        return INDIVISIBLE  # neither eight heads nor the widths
    if BATCH // case.microbatches % d:
        return INDIVISIBLE  # the rows of a microbatch
    if case.zero and d == 1:
        return NO_GROUP  # nobody holds a copy
    return None


def attempt(case, make, runs):
    """What a strategy comes to: `run`, the code of what refuses it, or what is wrong."""
    try:
        module = make(case)
    except ProgramError as error:
        (found,) = {d.code.number for d in error.diagnostics}
        return found if found == refusal(case) else f"wrong: refused with {error}"
    if (expected := refusal(case)) is not None:
        return f"wrong: not refused with {expected}"
    original = MODELS[case.model](case.layers)
    try:
        difference = largest_difference(runs.results(original, original), runs.results(original, module))
    except Exception as error:  # thousands of others are still to be tried
        return f"wrong: {type(error).__name__}: {error}"
    return "run" if difference <= CLOSE else f"wrong: results differ by {difference:.1e}"


def by_steps(case):
    """The strategy made by `pp`, `tp` and `dp` in turn, which is what `dtp` does: so that cases in a row share them."""
    d, t, p = case.degrees
    steps = ["checkpoint=2"] if case.checkpoint else []
    steps += [" ".join([f"pp={p}", *case.pipeline])] if p > 1 or case.microbatches > 1 else []
    steps += [f"{axis}={size}" for axis, size in (("tp", t), ("dp", d)) if size > 1]
    steps += [" ".join(case.partitioned)] if case.zero else []
    return made(case.model, case.layers, *steps)


@lru_cache(maxsize=16)
def made(name, layers, *steps):
    *before, last = steps or [None]
    return MODELS[name](layers) if last is None else transform(made(name, layers, *before), *last.split())


def order(case):
    """Such that cases in a row begin with the same steps."""
    d, t, p = case.degrees
    return case.checkpoint, p, case.microbatches, case.schedule, t, d, case.zero


def survey(chosen):
    """How many strategies there are of each outcome, and what is wrong with which."""
    runs = Runs()
    with remembered_answers():
        outcomes = {case: attempt(case, by_steps, runs) for case in sorted(chosen, key=order)}
    wrong = [f"{case}\n    {outcome}" for case, outcome in outcomes.items() if outcome.startswith("wrong")]
    return Counter(outcome for outcome in outcomes.values() if not outcome.startswith("wrong")), wrong


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shards", range(1, MOST + 1))
def test_every_strategy_keeps_the_results(name, shards):
    _, wrong = survey([case for case in cases(name) if case.degrees[1] == shards])
    assert not wrong, "\n".join(wrong)


# A sample


def by_words(case):
    return transform(MODELS[case.model](case.layers), *case.words)


def sample(name):
    """Strategies in which all that can be chosen is chosen, at most once each time that is possible."""
    random = Random(name)
    possible = [case for case in cases(name) if refusal(case) is None]
    random.shuffle(possible)
    seen, found = Counter(), []
    for _ in range(3 if name.endswith("training") else 1):
        best = min(possible, key=lambda case: sum(seen[choice] for choice in choices(case)))
        seen.update(choices(best))
        found.append(best)
    return found


def choices(case):
    d, t, p = case.degrees
    return [
        f"d{d}", f"t{t}", f"p{p}", case.degrees, case.microbatches, case.schedule, case.zero, case.checkpoint
    ]  # fmt: skip


@pytest.fixture(scope="module")
def runs():
    return Runs()


@pytest.mark.parametrize("case", [case for name in MODELS for case in sample(name)], ids=str)
def test_a_strategy_keeps_the_results(case, runs):
    assert attempt(case, by_words, runs) == "run"


def refused():
    """For each reason, strategies that are refused for it."""
    found = {}
    for name in MODELS:
        for case in Random(name).sample(cases(name), len(cases(name))):
            found.setdefault((refusal(case), name), case)
    return [case for (code, _), case in found.items() if code is not None]


@pytest.mark.parametrize("case", refused(), ids=str)
def test_what_does_not_combine_is_refused(case, runs):
    assert attempt(case, by_words, runs) == refusal(case)


@pytest.mark.parametrize("name", [name for name in MODELS if name.endswith("training")])
def test_the_steps_of_training_are_long_enough_to_be_compared(name, runs):
    """A wrong gradient shows in ten digits of the new weights."""
    module = MODELS[name](8)
    values = dict(zip([p.name for p in module.entry().params], inputs(module), strict=True))
    new = dict(zip(result_names(module.entry()), runs.results(module, module), strict=True))
    for param in module.entry().params:
        if "param" in param.roles:
            assert np.max(np.abs(new[f"{param.name}_new"] - values[param.name])) > 1e-5, param.name


def test_the_steps_one_by_one_are_dtp():
    """So that the whole product, which shares them, is one of `dtp`."""
    case = Case("mlp training", (2, 2, 2), 4, "zb-h1", 2, checkpoint=True)
    words = [*case.words[:2], "layout=dpt", *case.words[2:]]
    assert by_steps(case) == transform(MODELS[case.model](case.layers), *words)
    assert distir.parse(distir.format(by_words(case))) == by_words(case)
