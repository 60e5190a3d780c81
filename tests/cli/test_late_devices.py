"""`distir simulate --spread` and `distir goodput`."""

import json

import pytest
from cli_samples import MACHINE, PIPELINE

import distir as api

BOUND = ("--hardware", MACHINE, "--bind", "B=64")
LATE = ("--spread", "devices=lognormal:0.1", "--spread", "links=slow:0.2:2")

TRAINING = """
func @main(%x: Tensor[Float32, (64, 256), 1] {batch = 0}, %w: Tensor[Float32, (256, 256), 1] {param},
    %m: Tensor[Float32, (256, 256), 1] {state}, %cache: Tensor[Float32, (64, 8), 1] {state, batch = 0}) {
  %y = MatMul(%x, %w)
  return %y, %m, %cache
}
"""


def test_quantiles_and_costs_are_those_of_the_api(distir, file):
    program = file("a.dir", PIPELINE)
    found = json.loads(distir("simulate", program, *BOUND, *LATE, "--draws", "50", "--seed", "7", "--json").out)
    expected = api.spread(api.simulate(api.parse(PIPELINE), MACHINE, bind={"B": 64}), LATE[1::2], draws=50, seed=7)
    spread = found["spread"]
    assert spread["plain_s"] == found["latency_s"] == expected.plain_s
    assert [spread[name] for name in ("p50_s", "p90_s", "p99_s")] == [expected.quantile(q) for q in (0.5, 0.9, 0.99)]
    assert (spread["draws"], spread["seed"], spread["lateness"]) == (50, 7, list(LATE[1::2]))
    assert [(c["source"], c["alone_s"], c["drawn_s"]) for c in spread["costs"]] == [
        (c.source, c.alone_s, c.drawn_s) for c in expected.costs[:10]
    ]
    assert "spread" not in json.loads(distir("simulate", program, *BOUND, "--json").out)


def test_the_text_states_draws_and_seed(distir, file):
    ended = distir("simulate", file("a.dir", PIPELINE), *BOUND, *LATE, "--draws", "20")
    assert (ended.code, ended.err) == (0, "")
    assert "20 draws with devices=lognormal:0.1, links=slow:0.2:2 (seed 0)" in ended.out
    assert all(f"\np{q} " in ended.out for q in (50, 90, 99))
    assert "\ndevice 1 " in ended.out.partition("whose lateness costs what")[2]


@pytest.mark.parametrize(("flags", "said"), [
    (("--draws", "5"), "`--draws` needs `--spread`"),
    (("--spread", "devics=lognormal:0.1"), "has no `devics` to be late"),
    (("--spread", "devices"), "expected what is late, and by how much"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(distir, file, flags, said):
    ended = distir("simulate", file("a.dir", PIPELINE), *BOUND, *flags)
    assert ended.code == 2
    assert said in ended.err


def test_goodput_of_a_program_is_of_what_it_saves(distir, file):
    flags = ("--mtbf", "2d", "--checkpoint-bandwidth", "1MB/s", "--restart", "10s", "--hardware", MACHINE)
    found = json.loads(distir("goodput", file("t.dir", TRAINING), *flags, "--json").out)
    assert found["checkpoint_bytes"] == 2 * 256 * 256 * 4  # no cache, no input
    assert found["save_s"] == pytest.approx(0.524288)
    assert found["restart_s"] == pytest.approx(10.524288)
    assert found["mtbf_s"] == 2 * 86400
    assert found["interval_s"] == pytest.approx(found["interval_steps"] * found["step_s"])
    assert found["goodput"] + found["saving"] + found["failing"] == pytest.approx(1)
    text = distir("goodput", file("t.dir", TRAINING), *flags).out
    assert f"{100 * found['goodput']:.3g}% goodput" in text


def test_goodput_without_a_program(distir):
    stated = ("--step", "8s", "--devices", "100", "--checkpoint-size", "1TB", "--tokens", "800")
    found = json.loads(distir("goodput", *stated, "--mtbf", "1y", "--checkpoint-bandwidth", "10GB/s", "--json").out)
    assert (found["save_s"], found["mtbf_s"]) == (100, 365.25 * 86400 / 100)
    assert found["tokens_per_s"] == pytest.approx(100 * found["goodput"])


@pytest.mark.parametrize(("flags", "said"), [
    (("--mtbf", "5y"), "`--checkpoint-bandwidth`: expected how fast is saved"),
    (("--mtbf", "0s"), "between failures of a device, more than none, found `0s`"),
    (("--checkpoint-bandwidth", "1GB/s"), "`--mtbf`: expected the mean time between failures"),
    (("--mtbf", "5y", "--checkpoint-bandwidth", "1GB/s"), "expected a program, or all of `--step`"),
    (("--mtbf", "5years", "--checkpoint-bandwidth", "1GB/s"), "unknown unit `years`"),
    (("--mtbf", "5y", "--checkpoint-bandwidth", "1GB"), "`--checkpoint-bandwidth`: expected a bandwidth"),
])  # fmt: skip
def test_what_goodput_lacks_is_said(distir, flags, said):
    ended = distir("goodput", *flags)
    assert ended.code == 2
    assert said in ended.err


def test_a_program_without_weights_saves_nothing(distir, file):
    program = file("a.dir", TRAINING.replace("{param}", "").replace("{state}", "{batch = 0}"))
    ended = distir("goodput", program, "--mtbf", "5y", "--checkpoint-bandwidth", "1GB/s")
    assert ended.code == 2
    assert "no weights and no optimizer state" in ended.err
