"""Random models through random chains of transforms: they still check, read back as printed, and keep their results.

And small models of each kind through chains drawn from what steps declare: each step gives a program or is refused for
a reason. `DISTIR_TEST_PROGRAMS` is how many; a few dozen ordinarily. `DISTIR_TEST_SEED` draws other chains.
"""

import os

import numpy as np
import pytest
from chain_samples import SIZES, chains, models
from declared_chains import NUMBERS, outcome
from declared_chains import chains as declared_chains
from hypothesis import HealthCheck, Phase, assume, event, given, note, settings
from hypothesis import strategies as st
from thorough import ALL, most_programs

import distir
from distir.analysis import random_inputs
from distir.diagnostics import ProgramError, Severity
from distir.transform import STEPS, reference, transform, verify

PROGRAMS = most_programs(30)

REFUSALS = {
    "grad": {"DIR603", "DIR605"},  # no weights; behind a step that it comes before
    "checkpoint": {"DIR605", "DIR680"},  # behind a step that it comes before; nothing to recompute
    "dp": {"DIR620"},  # does not divide
    "tp": {"DIR620", "DIR623"},  # does not divide; nothing to split
    "pp": {"DIR605", "DIR640", "DIR642", "DIR643", "DIR644"},  # order, batch, layers, schedule
    "zero": {"DIR660"},  # no data-parallel copies
    "overlap": {"DIR684"},  # nothing that communicates, or not that kind of it
}
REFUSALS["dtp"] = REFUSALS["dp"] | REFUSALS["tp"] | REFUSALS["pp"]
"""What a step may refuse a program for. Those that tidy up may not refuse any."""


def applied(module, steps):
    """The program after the steps, without those that are refused for a reason that there may be; and those taken."""
    taken = []
    for step in steps:
        name = step.split("=")[0].split()[0]
        found, codes = attempt(module, step)
        assert codes <= REFUSALS.get(name, set()), f"{step} after {taken}: {codes}"
        if found is None:
            event(f"{name} refused: {', '.join(codes)}")
            continue
        event(f"{name} taken")
        taken.append(step)
        problems = [d for d in distir.check(found) if d.severity is Severity.ERROR]
        assert not problems, f"after {taken}: {problems[0]}"
        assert distir.parse(distir.format(found)) == found, f"after {taken}"
        module = found
    return module, taken


def attempt(module, step):
    """The program after a step, or None and the codes of the diagnostics that refuse it."""
    try:
        return transform(module, *step.split()), set()
    except ProgramError as error:
        return None, {d.code.number for d in error.diagnostics}


DECLARED = int(os.environ.get("DISTIR_TEST_PROGRAMS", 500 if ALL else 50))
SEED = int(os.environ.get("DISTIR_TEST_SEED", 0))
PARTS = 10
"""Into which the declared chains are divided, so that processes share them."""
RUN = 5
"""Of so many of them one is run and simulated."""


@pytest.mark.parametrize("part", range(PARTS))
def test_every_step_of_a_chain_gives_a_program_or_a_reason(part):
    chosen = [(number, chain) for number, chain in enumerate(declared_chains(SEED, DECLARED)) if number % PARTS == part]
    found = [outcome(chain, run=number // PARTS % RUN == 0) for number, chain in chosen]
    assert not [each.fault for each in found if each.fault]


@pytest.mark.parametrize("name", sorted(STEPS))
def test_options_declare_words_that_can_be_drawn(name):
    step = STEPS[name]
    options = [*([step.value] if step.value else []), *step.options.values()]
    of_the_program = {"bind", "functions", "shard", "split", "hardware"}
    silent = {o.name for o in options if not (o.examples or o.choices or o.kind.removesuffix(" | None") in NUMBERS)}
    assert silent <= of_the_program, "give its `choices` or `examples` to `@step`"


LAW = settings(
    max_examples=PROGRAMS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],  # not why a chain fails, which takes long
)


@LAW
@given(data=st.data(), model=models(), seed=st.integers(0, 9))
def test_results_are_kept(data, model, seed):
    steps = data.draw(chains(model))
    found, taken = applied(model.module, steps)
    note(f"taken: {taken}")
    words = [word for step in taken for word in step.split()]
    outcome = verify(reference(model.module, words), found, seed=seed, bind=SIZES)
    assert outcome.equal, f"{[r for r in outcome.results if not r.equal]}\n{distir.format(found)}"


@LAW
@given(model=models(), loss=st.sampled_from(["mse", "cross_entropy"]), seed=st.integers(0, 9))
def test_gradients_are_slopes(model, loss, seed):
    """What chains are compared with, from `grad` on: the gradients are the loss's, by differences along a direction."""
    assume(any("param" in param.roles for param in model.module.entry().params))
    module = transform(model.module, "grad", "optimizer=none", f"loss={loss}")
    inputs = random_inputs(module, seed, SIZES)
    weights = [param.name for param in module.entry().params if "param" in param.roles]
    random = np.random.default_rng(seed)
    direction = {name: random.normal(size=inputs[name].shape) for name in weights}

    def outputs(step):
        moved = {name: inputs[name] + step * direction[name] for name in weights}
        return list(distir.run(module, inputs | moved).values())

    gradients = outputs(0)[1:]
    step = 1e-7  # so short that it does not reach over the kink of a ReLU, so long that rounding is 1e-9 of the slope
    slope = (outputs(step)[0] - outputs(-step)[0]) / (2 * step)
    expected = sum(np.sum(direction[name] * g) for name, g in zip(weights, gradients, strict=True))
    assert np.abs(slope - expected) <= 1e-6 * max(1.0, np.abs(expected))
