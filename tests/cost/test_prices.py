"""What a step costs, wherever it is shown; and figures of which no time comes."""

import contextlib
import json
import math
import re

import pytest
from cost_samples import small_profile, toml

import distir
from distir.cli import main
from distir.cost import HardwareError, Price, UnitError, load, parse, parse_seconds, step_cost
from distir.cost.units import parse_price
from distir.search import Space

PROGRAM = """\
func @main(%ids: Tensor[Int64, (B, 8), 1] {batch = 0}, %w: Tensor[Float32, (16, 4), 1] {param}) {
  %y = Gather(%w, %ids)
  return %y
}
"""


def priced(price="3.6USD/h", **more):
    profile = small_profile()
    profile["kinds"]["gpu"] |= {"price": price, **more}
    return profile


def two_kinds(first, second):
    profile = priced(first)
    profile["kinds"]["other"] = {**profile["kinds"]["gpu"], "price": second}
    profile["groups"] = [{"kind": "gpu", "count": 2}, {"kind": "other", "count": 2}]
    return profile


def test_a_step_costs_its_devices_for_as_long_as_it_takes():
    simulation = distir.simulate(distir.parse(PROGRAM), parse(toml(priced())), bind={"B": 4})
    cost = simulation.cost
    assert cost.step.amount == pytest.approx(3.6 / 3600 * simulation.latency_s)
    assert cost.step.currency == "USD"
    assert cost.tokens == 32
    assert cost.per_million_tokens.amount == pytest.approx(cost.step.amount / 32 * 1e6)


@pytest.mark.parametrize("steps", ["dp=2", "tp=2", "dp=2 tp=2"])
def test_all_devices_of_the_program_are_paid_for_and_tokens_count_once(steps):
    module = distir.transform(distir.parse(PROGRAM), *steps.split())
    simulation = distir.simulate(module, parse(toml(priced())), bind={"B": 4})
    devices = len(simulation.devices)
    assert devices > 1
    assert simulation.cost.step.amount == pytest.approx(devices * 3.6 / 3600 * simulation.latency_s)
    assert simulation.cost.tokens == 32


def test_without_what_spreads_the_batch_no_type_says_whether_devices_hold_parts_or_copies():
    module = distir.transform(distir.parse(PROGRAM), "dp=2")
    alone = distir.Module(function for function in module if function.name == "main")
    assert distir.simulate(alone, parse(toml(priced())), bind={"B": 4}).cost.tokens is None


def test_without_prices_there_is_no_cost():
    assert distir.simulate(distir.parse(PROGRAM), parse(toml(small_profile())), bind={"B": 4}).cost is None
    assert step_cost([], 1.0) is None
    assert step_cost([Price(1.0, "USD"), None], 1.0) is None


def test_dollars_and_yen_do_not_add_up(tmp_path):
    assert parse_price("300JPY/h") == Price(300, "JPY")
    with pytest.raises(ValueError, match="JPY cannot be added to USD"):
        Price(1, "USD") + Price(1, "JPY")
    path = tmp_path / "mixed.toml"
    path.write_text(toml(two_kinds("3.6USD/h", "300JPY/h")))
    line = next(n for n, line in enumerate(path.read_text().splitlines(), start=1) if line.startswith('"kinds"'))
    with pytest.raises(HardwareError) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert problem.line == line
    assert problem.message == "`kinds.other.price`: is in JPY, the price of `gpu` in USD"
    assert parse(toml(two_kinds("3.6USD/h", "7.2USD/h"))).kinds[2].price == Price(7.2, "USD")


def test_the_cost_is_shown_wherever_a_program_is_simulated(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.toml").write_text(toml(priced()))
    (tmp_path / "a.dir").write_text(PROGRAM)
    given = ["--hardware", "./m.toml", "--bind", "B=4"]
    cost = distir.simulate(distir.parse(PROGRAM), "./m.toml", bind={"B": 4}).cost
    assert main(["simulate", "a.dir", *given]) == 0
    assert str(cost) in capsys.readouterr().out
    assert main(["simulate", "a.dir", *given, "--json"]) == 0
    as_json = json.loads(capsys.readouterr().out)["cost"]
    assert as_json["per_step"] == cost.step.amount
    assert (as_json["currency"], as_json["tokens"]) == ("USD", 32)
    assert main(["diff", "a.dir", "a.dir", *given]) == 0
    shown = capsys.readouterr().out
    assert re.search(rf"cost per step +{cost.step} +{cost.step}\n", shown)
    assert re.search(rf"cost per million tokens +{cost.per_million_tokens} ", shown)
    assert main(["diff", "a.dir", "a.dir", *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["a"]["cost"] == as_json


def test_rows_of_a_search_say_what_they_cost(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.toml").write_text(toml(priced()))
    (tmp_path / "a.dir").write_text(PROGRAM)
    table = distir.search(distir.parse(PROGRAM), hardware="./m.toml", space=Space(2, (4, 8)))
    for row in (row for row in table if row.latency_s is not None):
        assert row.cost_per_step == pytest.approx(2 * 3.6 / 3600 * row.latency_s)
        assert row.cost_per_million_tokens == pytest.approx(row.cost_per_step / (8 * row.batch_size) * 1e6)
        assert row.currency == "USD"
    assert main(["search", "a.dir", "--devices", "2", "--batch-size", "4", "--hardware", "./m.toml"]) == 0
    assert "USD/step   USD/Mtoken" in capsys.readouterr().out


def test_an_editor_gets_prices():
    from distir.ide.document import Setup, open_document
    from distir.ide.status import status

    document = open_document(PROGRAM, "a.dir", Setup(parse(toml(priced())), bind={"B": 4}))
    assert status(document, document).cost == str(document.simulation.cost)


# Figures.

TINY = ["1e-320GB/s", "1e-400GB/s", "1e-30B/s"]


@pytest.mark.parametrize("bandwidth", TINY)
def test_a_bandwidth_of_which_no_time_comes_is_refused_with_its_line(bandwidth):
    profile = small_profile()
    profile["kinds"]["gpu"]["memory_bandwidth"] = {"peak": bandwidth, "achieved": bandwidth}
    with pytest.raises(HardwareError) as caught:
        parse(toml(profile))
    assert all(problem.line and "too small" in problem.message for problem in caught.value.problems)


@pytest.mark.parametrize("figure", ["gpu memory bandwidth achieved", "gpu launch", "inside send bandwidth"])
def test_no_change_of_a_figure_in_an_editor_breaks_it(tmp_path, figure):
    from distir.ide.hardware import changed

    path = tmp_path / "m.toml"
    path.write_text(toml(small_profile()))
    unit = "us" if "launch" in figure else "GB/s"
    for number in ("1e-320", "1e320", "1e-9", "0", "-1", "nan"):
        machine = None
        with contextlib.suppress(HardwareError):
            machine = changed(str(path), {figure: f"{number}{unit}"}, "changed")
        assert (machine is not None) == (number == "1e-9" or (number in ("0", "1e-320") and unit == "us"))
        if machine is not None:
            assert distir.simulate(distir.parse(PROGRAM), machine, bind={"B": 2**40}).latency_s > 0


@pytest.mark.parametrize("text", ["1e300s", "1e400ms", "1e13s"])
def test_no_limit_is_beyond_all_times(text):
    with pytest.raises(UnitError, match=r"too large"):
        parse_seconds(text)
    assert parse_seconds("0s") == parse_seconds("0.00e5s") == 0


@pytest.mark.parametrize("share", ["1e308", "101", "nan", "1" + "0" * 400])
def test_a_figure_that_may_be_off_by_any_share_is_refused(share):
    text = toml(small_profile()).replace('"launch"', f'"uncertainty" = {share}, "launch"')
    with pytest.raises(HardwareError, match="expected a share"):
        parse(text)


LARGEST = 2**62
PRODUCT = """\
func @main(%x: Tensor[Float32, (1, K), 1], %y: Tensor[Float32, (K, 1), 1]) {
  %z = MatMul(%x, %y)
  return %z
}
"""


def test_the_largest_sizes_on_the_slowest_machine_take_a_finite_time(tmp_path, capsys):
    profile = small_profile()
    profile["kinds"]["gpu"]["memory_bandwidth"] = {"peak": "1B/s", "achieved": "1B/s"}
    profile["kinds"]["gpu"]["flops"]["Float32"] = {"peak": "1FLOP/s", "achieved": "1FLOP/s"}
    (tmp_path / "m.toml").write_text(toml(profile))
    (tmp_path / "a.dir").write_text(PRODUCT)
    given = [str(tmp_path / "a.dir"), "--hardware", str(tmp_path / "m.toml"), "--bind", f"K={LARGEST}"]
    assert main(["simulate", *given, "--json"]) in (0, 1)
    assert 0 < json.loads(capsys.readouterr().out)["latency_s"] < math.inf
