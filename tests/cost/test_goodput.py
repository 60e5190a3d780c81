"""How often to save: the formula is what runs that fail do, and its interval the best."""

import math

import numpy as np
import pytest

from distir.cost import Goodput, best_goodput, best_interval


def simulated(run: Goodput, segments: int, seed: int) -> float:
    """The goodput of a run, followed failure by failure."""
    generator = np.random.default_rng(seed)
    clock, next_failure = 0.0, generator.exponential(run.mtbf_s)
    for _ in range(segments):
        need = run.interval_s + run.save_s
        while clock + need > next_failure:  # thrown back to what was saved last, after a restart that may fail too
            clock = next_failure
            next_failure = clock + generator.exponential(run.mtbf_s)
            while clock + run.restart_s > next_failure:
                clock = next_failure
                next_failure = clock + generator.exponential(run.mtbf_s)
            clock += run.restart_s
        clock += need
    return segments * run.interval_s / clock


@pytest.mark.parametrize("run", [
    Goodput(step_s=8, steps=40, save_s=6, restart_s=300, mtbf_s=1e4),
    Goodput(step_s=1, steps=500, save_s=100, restart_s=50, mtbf_s=400),
    Goodput(step_s=2, steps=50, save_s=0, restart_s=600, mtbf_s=500),
])  # fmt: skip
def test_the_goodput_is_what_runs_that_fail_have(run):
    found = np.array([simulated(run, 20_000, seed) for seed in range(3)])
    assert run.goodput == pytest.approx(found.mean(), rel=0.02)
    assert run.goodput + run.saving + run.failing == pytest.approx(1)


@pytest.mark.parametrize("step", [0.5, 8, 700])
@pytest.mark.parametrize("save", [0.0, 0.01, 6, 900, 1e6])
@pytest.mark.parametrize("mtbf", [30, 1e4, 1e8])
def test_no_other_interval_loses_less(step, save, mtbf):
    best = best_goodput(step, save, 60, mtbf)
    near = range(max(1, best.steps - 50), best.steps + 50)
    others = {*near, 1, *(max(1, round(best.steps * factor)) for factor in (0.1, 0.5, 2, 10))}
    assert best.goodput >= (1 - 1e-12) * max(Goodput(step, steps, save, 60, mtbf).goodput for steps in others)


def test_short_saves_have_youngs_interval_and_daly_s_beyond():
    assert best_interval(1e-3, 1e6) == pytest.approx(math.sqrt(2 * 1e-3 * 1e6), rel=1e-3)
    save, mtbf = 300.0, 3600.0
    daly = math.sqrt(2 * save * mtbf) * (1 + math.sqrt(save / 2 / mtbf) / 3 + save / 2 / mtbf / 9) - save
    assert best_interval(save, mtbf) == pytest.approx(daly, rel=2e-3)  # his equation 37
    assert best_interval(0.0, mtbf) == 0


def test_a_machine_that_fails_before_it_saves_does_nothing():
    assert best_goodput(1.0, 1e6, 1e6, 100.0).goodput == 0
    with pytest.raises(ValueError, match="a step above 0"):
        best_goodput(0.0, 1, 1, 1)
    with pytest.raises(ValueError, match="between failures above 0"):
        best_goodput(1.0, 1, 1, 0)
