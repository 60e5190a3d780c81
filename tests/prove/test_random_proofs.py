"""What random chains of transforms make of random models is proved: the rules are complete enough for all of them.

`DISTIR_TEST_PROGRAMS` is how many; a few dozen ordinarily.
"""

from chain_samples import SIZES, chains, models
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from thorough import most_programs

from distir.diagnostics import ProgramError
from distir.prove import prove
from distir.transform import reference, transform

PROGRAMS = most_programs(30)


def taken(module, steps):
    """The program after the steps that apply to it, and those."""
    found = []
    for step in steps:
        try:
            module = transform(module, *step.split())
        except ProgramError:
            continue
        found.append(step)
    return module, found


@settings(
    max_examples=PROGRAMS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
@given(data=st.data(), model=models())
def test_what_random_chains_make_is_proved(data, model):
    found, steps = taken(model.module, data.draw(chains(model)))
    note(f"taken: {steps}")
    words = [word for step in steps for word in step.split()]
    assert prove(found, reference(model.module, words), SIZES).failures == ()
