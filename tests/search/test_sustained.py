"""Training keeps devices at the limit of their power: searches of training, and who asks for it, simulate that."""

import json
from dataclasses import replace
from statistics import geometric_mean

import pytest

from distir import parse, simulate
from distir.cost import load
from distir.cost.sustained import sustained
from distir.models import named
from distir.ops.resources import MatrixProduct, Scores
from distir.search import Subject
from distir.search.economy import economy
from distir.search.evaluate import evaluate
from distir.transform import transform
from distir.transform.strategy import Strategy

PUBLISHED_S, LAYERS = 12.78, 32
"""A step of Llama 3.1 8B in bf16: NeMo on 8 H100, D 4, CP 2, batches of 128 x 8192 (examples/measured/dgxc.csv)."""


@pytest.fixture(scope="module")
def llama():
    return transform(named("llama3-8b", None, 8192), "grad", "optimizer=adamw", "precision=mixed")


def test_a_published_run_is_nearer_to_devices_that_are_hot(llama):
    plan = Strategy(4, 1, 1, 32, zero=1, context=2, kind="ring", fuse=True, overlap=True)
    cool = Subject("", llama, load("dgx-h100"))
    hot = Subject("", llama, load("dgx-h100").sustained())
    (alone,), (busy,) = (list(evaluate(it, plan, [128])) for it in (cool, hot))
    assert abs(busy.latency_s / PUBLISHED_S - 1) < 0.1 < abs(alone.latency_s / PUBLISHED_S - 1)
    assert economy(hot, busy).mfu < 0.67 < economy(cool, alone).mfu


def test_a_lower_limit_of_power_slows_products_of_a_training_step_alone():
    module = parse(
        "func @main(%x: Tensor[BFloat16, (8192, 8192), 0], %w: Tensor[BFloat16, (8192, 8192), 0]) {\n"
        "  %y = MatMul(%x, %w)\n  return %y\n}\n"
    )
    limited, usual = load("h100-96"), load("dgx-h100")
    clock = limited.kinds[0].sustained_clock
    assert clock < usual.kinds[0].sustained_clock == 1
    busy = simulate(module, limited.sustained()).latency_s
    assert busy > simulate(module, limited).latency_s
    assert simulate(module, usual.sustained()).latency_s / busy == pytest.approx(clock, rel=0.03)


def large(kind):
    """Seconds of large products, one after the other: their geometric mean."""
    figures = kind.products["BFloat16"]
    return geometric_mean(figures.spent(MatrixProduct(n, n, n), 2, 6 * n * n).seconds for n in (4096, 8192, 16_384))


@pytest.mark.parametrize(("rack", "limit"), [("gb200", 1200), ("gb300", 1400)])
def test_a_higher_limit_of_power_lifts_long_products_by_the_cube_root(rack, limit):
    """Of the same chip: B200 has 1,000 W. What their own table's devices fell to is another limit than theirs."""
    lower, higher = (load(name).sustained().kinds[0] for name in ("b200", rack))
    assert large(lower) / large(higher) == pytest.approx((limit / 1000) ** (1 / 3), rel=0.03)


@pytest.mark.parametrize("rack", ["gb200", "gb300", "h100-96"])
def test_no_device_is_faster_for_being_hot(rack):
    stated = load(rack).kinds[0]
    products = {name: replace(figures, throttle=0.0) for name, figures in stated.products.items()}
    heads = {name: tuple(replace(one, throttle=0.0) for one in sizes) for name, sizes in stated.attention.items()}
    cool = replace(stated, products=products, attention=heads)
    for clock in (stated.sustained_clock, 2.0):
        hot = sustained(replace(stated, sustained_clock=clock))
        assert large(hot) >= large(cool) * (1 - 1e-6)
        scores = Scores(heads=128, queries=8192, keys=8192, size=128, share=0.5)
        there, here = (one.attention["BFloat16"][-1].spent(scores, 0).seconds for one in (cool, hot))
        assert here >= there * (1 - 1e-5)


def test_a_profile_without_figures_by_shape_stays_as_it_is():
    machine = load("dgx2-v100")
    assert machine.sustained().kinds[0] == machine.kinds[0]


SMALL = ("--layers", "2", "--vocabulary", "512", "--width", "1024", "--heads", "4", "--kv-heads", "2", "--seq", "512")
WORDS = ("llama3-8b", *SMALL, "--hardware", "dgx-h100", "--devices", "2", "--jobs", "1", "--tp", "1", "--pp", "1")
FEW = ("--cp", "1", "--no-fuse", "--no-overlap", "--zero", "0", "--checkpoint", "off", "--budget", "2")


def test_searches_of_training_are_of_devices_that_are_busy(distir):
    def best(*more):
        found = distir("search", *WORDS, *FEW, "--json", "--no-explain", *more)
        assert found.code == 0, found.err
        return json.loads(found.out)["best"]["latency_s"]

    usual = best("--global-batch", "64")
    assert usual == best("--global-batch", "64", "--sustained") > best("--global-batch", "64", "--no-sustained")


def test_simulate_takes_the_same_words(distir, tmp_path):
    path = tmp_path / "a.dir"
    path.write_text(
        "func @main(%x: Tensor[BFloat16, (8192, 8192), 0], %w: Tensor[BFloat16, (8192, 8192), 0]) {\n"
        "  %y = MatMul(%x, %w)\n  return %y\n}\n"
    )
    alone, busy = (
        json.loads(distir("simulate", path, "--hardware", "dgx-h100", "--json", *more).out)["latency_s"]
        for more in ((), ("--sustained",))
    )
    assert busy > alone
