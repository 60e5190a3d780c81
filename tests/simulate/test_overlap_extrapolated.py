"""More microbatches of a pipeline with streams: what its rounds' power gives is what the whole program does."""

import pytest
from simulate_samples import with_hosts

from distir import models
from distir.cost import load
from distir.cost.host import Host
from distir.simulate import arguments, simulate
from distir.simulate.extrapolation.pipeline import read
from distir.transform import transform
from distir.transform.pipeline import steady

MLP = models.mlp(8, 64, training=True)
PLAIN = load("2x-dgx-a100")
MACHINES = {
    "plain": PLAIN,
    "hosts": with_hosts(PLAIN, Host(3e-6), interference=0.2),
    "slow": with_hosts(PLAIN, Host(4e-5), interference=0.9),
}
ROWS = 4
"""Of a microbatch of one replica."""


def extrapolated(degrees, options, kinds, machine, few, more, microbatches):
    def distributed(count):
        made = transform(
            MLP, f"dtp={','.join(map(str, degrees))}", f"microbatches={count}", "ends=false", *options.split()
        )
        return transform(made, f"overlap={kinds}")

    each = degrees[0] * ROWS
    small, whole = distributed(few), distributed(microbatches)
    known = simulate(small, machine, bind={"B": few * each})
    pipeline = read(known, more)
    assert pipeline is not None
    assert not pipeline.determines(few - 1)
    given = arguments(small.entry(), {"B": microbatches * each})
    found = pipeline.figures(known, {"B": few * each}, given, microbatches, more)
    return found, simulate(whole, machine, bind={"B": microbatches * each})


@pytest.mark.each_once
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("microbatches", [24, 300])
@pytest.mark.parametrize(
    ("degrees", "options", "kinds"),
    [
        ((1, 1, 4), "schedule=1f1b", "transfers"),
        ((1, 1, 2), "schedule=gpipe", "transfers"),
        ((1, 2, 2), "schedule=1f1b scatter_gather=true", "transfers"),
        ((2, 1, 2), "schedule=1f1b", "transfers,gradients"),
        ((2, 2, 2), "schedule=1f1b scatter_gather=true representative=true", "transfers,gradients"),
        ((4, 1, 2), "schedule=gpipe", "gradients"),
    ],
)
def test_more_microbatches_are_a_power_of_the_round(degrees, options, kinds, microbatches, machine):
    schedule = options.split()[0].partition("=")[2]
    plan = steady(MLP, degrees[2], microbatches=microbatches, schedule=schedule)
    found, whole = extrapolated(
        degrees, options, kinds, MACHINES[machine], plan.microbatches, plan.more, microbatches
    )  # fmt: skip
    assert found is not None
    assert found.latency_s == whole.latency_s
    assert found.memory_uses == whole.memory_uses
