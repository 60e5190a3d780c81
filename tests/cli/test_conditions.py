"""`distir diff --fail-if`: what can be said, when it holds, and what is answered to what cannot be said."""

import json
import re
from pathlib import Path

import pytest
from cli_samples import MACHINE, PIPELINE, SMALL
from hypothesis import given
from hypothesis import strategies as st

from distir.cli.conditions import METRICS, parsed
from distir.cli.endings import Refused

BOUND = ("--bind", "B=64", "--hardware", MACHINE)
TWICE = SMALL.replace("  return %y", "  %z = MatMul(%x, %w)\n  return %z")


@pytest.fixture
def both(file):
    return lambda first, second: (file("a.dir", first), file("b.dir", second))


def holds(text, a, b):
    (condition,) = parsed([text])
    return condition.judged(a, b).holds


@pytest.mark.parametrize(
    ("text", "a", "b", "expected"),
    [
        ("latency>+5%", 1.0, 1.0501, True),
        ("latency>+5%", 1.0, 1.0499, False),
        ("latency > +5 %", 1.0, 1.0501, True),
        ("latency>-10%", 1.0, 0.95, True),
        ("latency>-10%", 1.0, 0.89, False),
        ("latency<-50%", 1.0, 0.4, True),
        ("latency>+1ms", 1.0, 1.0011, True),
        ("latency>+1ms", 1.0, 1.0009, False),
        ("latency>20ms", 1.0, 0.021, True),
        ("latency>20ms", 1.0, 0.019, False),
        ("latency<20ms", 1.0, 0.019, True),
        ("memory>+2%", 100, 103, True),
        ("memory>1GB", 0, 10**9, False),
        ("memory>1GB", 0, 10**9 + 1, True),
        ("communication>+0%", 0, 1, True),
        ("communication>+0%", 0, 0, False),
        ("bubble>30%", 0.1, 0.31, True),
        ("bubble>+2%", 0.1, 0.121, True),
        ("bubble>+2%", 0.1, 0.119, False),
        ("exposed-communication<-1%", 0.1, 0.08, True),
        ("ops>1000", 0, 1001, True),
        ("ops>+10", 5, 16, True),
        ("cost>+5%", 1.0, 1.051, True),
        ("cost>0.05", 1.0, 0.051, True),
        ("cost<.05", 1.0, 0.051, False),
    ],
)
def test_when_a_condition_holds(text, a, b, expected):
    assert holds(text, a, b) is expected


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 500).map(lambda x: round(x, 3)))
def test_above_and_below_are_never_both_true(a, b, amount):
    for form in ("+{}%", "-{}%", "+{}s", "-{}s", "{}s"):
        said = form.format(f"{amount:f}")
        assert not (holds(f"latency>{said}", a, b) and holds(f"latency<{said}", a, b))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("latency", "expected a metric, `>` or `<`, and an amount"),
        ("latency>", "expected a metric, `>` or `<`, and an amount"),
        ("latency>=5ms", "expected a metric, `>` or `<`, and an amount"),
        (">5%", "expected a metric, `>` or `<`, and an amount"),
        ("", "expected a metric, `>` or `<`, and an amount"),
        ("latancy>+5%", "unknown metric `latancy`"),
        ("latency>5", "without a unit"),
        ("latency>5%", "`5%` of what?"),
        ("latency>5GB", "found the memory size `5GB`"),
        ("memory>+5parsec", "unknown unit `parsec`"),
        ("bubble>3", "expected a share such as `30%`"),
        ("ops>1.5", "expected a whole number"),
        ("cost>5USD", "in the currency of the profile's prices"),
    ],
)
def test_what_cannot_be_said_is_met_with_what_can(text, said):
    with pytest.raises(Refused) as caught:
        parsed([text])
    assert said in caught.value.message
    assert f"'{text}'" in caught.value.message
    if said.startswith(("expected a metric", "unknown metric")):
        assert all(f"`{name}`" in caught.value.help for name in METRICS)
    assert "did you mean `latency`" in (caught.value.help or "") or text != "latancy>+5%"


def test_a_condition_that_holds_ends_with_1_and_is_named(distir, both):
    flags = ("--fail-if", "latency>+5%", "--fail-if", "memory>+200%", "--fail-if", "ops>+1")
    ended = distir("diff", *both(SMALL, TWICE), *flags)
    assert ended.code == 1
    assert "in all" in ended.out, "the comparison is shown all the same"
    (error,) = [line for line in ended.err.splitlines() if line.startswith("error")]
    assert error.startswith("error: latency ")
    assert error.endswith("%), which `--fail-if 'latency>+5%'` rules out")
    assert distir("diff", *both(SMALL, TWICE), "--fail-if", "latency>+900%").code == 0
    assert distir("diff", *both(SMALL, SMALL), "--fail-if", "latency>+0%", "--fail-if", "latency<-0%").code == 0


@pytest.fixture
def priced(file):
    """The machine of these tests, whose devices have a price."""
    return file("priced.toml", re.sub(r"(\[kinds\.\w+\]\n)", r'\1price = "3.6USD/h"\n', Path(MACHINE).read_text()))


def test_a_cost_is_known_where_devices_have_prices(distir, both, priced):
    files = both(SMALL, TWICE)
    assert distir("diff", *files, "--hardware", priced, "--fail-if", "cost>+5%").code == 1
    assert distir("diff", *files, "--hardware", priced, "--fail-if", "cost>1000").code == 0
    ended = distir("diff", *files, "--hardware", MACHINE, "--fail-if", "cost>+5%")
    assert ended.code == 2
    assert "the cost is unknown" in ended.err
    assert "price = " in ended.err


def test_every_metric_is_that_of_the_simulation(distir, both, priced):
    flags = [
        flag
        for name in METRICS
        for flag in ("--fail-if", f"{name}<0{METRICS[name].unit.example.lstrip('0123456789.')}")
    ]
    files = both(SMALL, PIPELINE)
    bound = ("--bind", "B=64", "--hardware", priced)
    found = json.loads(distir("diff", *files, *bound, *flags, "--json").out)
    said = {one["metric"]: one["b"] for one in found["conditions"]}
    alone = json.loads(distir("simulate", files[1], *bound, "--json").out)
    assert said.keys() == METRICS.keys()
    for name in ("latency_s", "bubble", "exposed_communication", "ops"):
        assert said[name.removesuffix("_s").replace("_", "-")] == alone[name]
    assert said["memory"] == max(use["peak_memory_bytes"] for use in alone["devices"].values())
    assert said["cost"] == alone["cost"]["per_step"]
    assert not any(one["holds"] for one in found["conditions"])


def test_conditions_are_part_of_the_markdown(distir, both):
    ended = distir("diff", *both(SMALL, TWICE), "--markdown", "--fail-if", "latency>+5%", "--fail-if", "memory>1TB")
    assert ended.code == 1
    assert "| `latency>+5%` | " in ended.out
    assert "| **fails** |" in ended.out
    assert "| `memory>1TB` | " in ended.out


def test_a_malformed_condition_is_refused_before_anything_is_simulated(distir, tmp_path):
    ended = distir("diff", tmp_path / "none.dir", tmp_path / "none.dir", "--fail-if", "speed>3")
    assert ended.code == 2
    assert "unknown metric `speed`" in ended.err


def test_traces_have_latencies(distir, both, tmp_path):
    program, _ = both(PIPELINE, SMALL)
    trace = tmp_path / "trace.json"
    distir("simulate", program, *BOUND, "--trace", trace)
    assert distir("diff", program, trace, *BOUND, "--fail-if", "latency>+1%").code == 0
    assert distir("diff", program, trace, *BOUND, "--fail-if", "latency>1ns").code == 1
    ended = distir("diff", program, trace, *BOUND, "--fail-if", "memory>1GB")
    assert ended.code == 2
    assert "a trace has no `memory`" in ended.err
