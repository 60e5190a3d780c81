"""What once failed under a fuzzer does not fail again, nor do a few thousand other inputs. `make fuzz` tries more."""

import signal

import pytest
from fuzz_seeds import kept, seeds
from fuzz_targets import LONGEST, TARGETS, text_of
from mutations import mutator

INPUTS = {"text": 400, "editor": 150, "settings": 250, "onnx": 1200, "tensors": 3000}
"""How many are tried: as many as a second or three of CPU time are enough for."""

FAILED = [(target, name) for target in TARGETS for name in kept(target)]

HANGS_S = 20.0
"""CPU seconds after which an input is given up; `make fuzz` is stricter, this must hold on a slow machine, too."""


class Hang(BaseException):
    """No Exception, so that nothing on the way takes it for a refusal."""


def tried(target, data):
    """Call a target on an input that must be done with soon."""

    def ring(number, frame):
        raise Hang(f"{target} takes longer than {HANGS_S} s for {data!r}")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANGS_S)
    try:
        TARGETS[target](data)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize(("target", "name"), FAILED, ids=str)
def test_what_failed_once(target, name):
    tried(target, kept(target)[name])


@pytest.mark.filterwarnings("ignore")  # numpy warns of what it reads
@pytest.mark.parametrize("target", TARGETS)
def test_inputs_that_almost_mean_something(target):
    others = seeds(target)
    mutate = mutator(others)
    for number in range(INPUTS[target]):
        data = mutate(others[number % len(others)])
        assert len(data) <= LONGEST
        try:
            tried(target, data)
        except BaseException as error:
            error.add_note(f"the input, for tests/hardening/corpus/{target}: {data!r}")
            raise


def test_seeds_mean_something():
    """A fuzzer that starts from nothing finds nothing: most programs check."""
    from distir.analysis.program import read

    programs = [read(text_of(data), "seed.dir") for data in seeds("text")]
    assert sum(not program.errors for program in programs) > 100
