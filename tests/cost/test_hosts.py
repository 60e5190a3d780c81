"""What a profile says of hosts, and of what collectives take from what is computed beside them."""

from dataclasses import replace

import pytest
from cost_samples import small_profile, toml

from distir.cost import HardwareError, load, parse
from distir.cost.host import FRAMEWORKS, Host
from distir.ops.resources import MatrixProduct, Work

EAGER = {"eager": "20us", "graphs": "0us", "source": "ours", "basis": "measured"}


def profile(**more):
    found = small_profile()
    found["sources"] = {"ours": "measured here"}
    found["kinds"]["gpu"] |= more
    return found


def host(**more):
    return parse(toml(profile(**more))).kinds[0].host


def test_a_host_takes_no_time_unless_the_profile_says_so():
    assert host() == Host()
    assert load("dgx-a100").kinds[0].interference == 0


@pytest.mark.parametrize("stated", ["5us", {"value": "5us", "source": "ours", "basis": "estimated"}])
def test_one_figure_holds_under_every_framework(stated):
    assert host(issue=stated).issue == pytest.approx(5e-6)


def test_a_host_may_wait_for_each_op():
    assert host(issue="blocking").blocking


def test_a_framework_is_chosen_with_the_name_of_the_machine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(toml(profile(issue=EAGER)))
    assert load(path).kinds[0].host.issue == 0
    eager = load(f"{path}@eager")
    assert (eager.name, eager.kinds[0].host.issue) == ("mine@eager", pytest.approx(20e-6))
    assert load(f"{path}@eager") is eager
    assert load(f"{path}@graphs").kinds[0].host.issue == 0


def test_figures_are_listed_with_their_sources():
    figures = parse(toml(profile(issue=EAGER, interference=0.1))).figures
    assert {(f.name, f.value, f.unit, f.source) for f in figures if f.source} == {
        ("gpu issue eager", "20", "us", "ours"),
        ("gpu issue graphs", "0", "us", "ours"),
    }
    assert ("gpu interference", "0.1") in {(f.name, f.value) for f in figures}


@pytest.mark.parametrize(
    ("more", "key", "said"),
    [
        ({"issue": "-5us"}, "kinds.gpu.issue", "found the negative `-5us`"),
        ({"issue": 5}, "kinds.gpu.issue", "expected a duration such as"),
        ({"issue": {"eagre": "5us"}}, "eagre", "unknown key `eagre` in `kinds.gpu.issue`"),
        ({"issue": {"eager": "-1us"}}, "kinds.gpu.issue.eager", "found the negative `-1us`"),
        ({"issue": {}}, "kinds.gpu.issue", "expected a time for one of eager, compiled, graphs"),
        ({"begin": "-5us"}, "kinds.gpu.begin", "found the negative `-5us`"),
        ({"interference": -0.1}, "kinds.gpu.interference", "expected a share such as `0.05`, found `-0.1`"),
        ({"interference": 1.5}, "kinds.gpu.interference", "expected a share such as `0.05`, found `1.5`"),
        ({"interference": "a lot"}, "kinds.gpu.interference", "expected a share such as `0.05`, found `a lot`"),
        ({"sustained": {"clock": 2.5}}, "kinds.gpu.sustained.clock", "expected a share such as `0.05`, found `2.5`"),
        ({"sustained": {"clock": 0}}, "kinds.gpu.sustained.clock", "expected a share above 0"),
    ],
)
def test_faults_name_the_key_and_its_line(more, key, said):
    with pytest.raises(HardwareError) as caught:
        parse(toml(profile(**more)), "mine")
    (problem,) = caught.value.problems
    assert key in problem.message
    assert said in problem.message
    assert problem.line
    assert problem.column


@pytest.mark.parametrize(
    ("name", "said", "help"),
    [
        ("dgx-a100@eagre", "unknown framework `eagre`", "did you mean `dgx-a100@eager`?"),
        ("dgx-a100@", "unknown framework ``", "known: `dgx-a100@eager`"),
        ("dgx-a10@eager", "unknown hardware `dgx-a10`", "did you mean `dgx-a100`?"),
        (
            "laptop-cpu@eager",
            "`laptop-cpu` does not say how long `eager` takes to issue an op",
            'issue = { eager = "20us" }',
        ),
    ],
)
def test_what_is_wrong_with_the_name_of_a_framework(name, said, help):
    with pytest.raises(HardwareError) as caught:
        load(name)
    (problem,) = caught.value.problems
    assert said in problem.message
    assert help in (problem.help or "")


@pytest.mark.parametrize("name", ["dgx-a100", "a100-40", "dgx-h100", "h200", "b200", "gb200", "l40s", "dgx2-v100"])
def test_a_shipped_gpu_may_be_driven_by_each_framework(name):
    machine = load(name)
    assert not any(kind.host.issue or kind.host.blocking for kind in machine.kinds.distinct)
    eager, compiled, graphs = (load(f"{name}@{framework}").kinds[0].host.issue for framework in FRAMEWORKS)
    assert eager > compiled > graphs > 0
    stated = [figure for figure in machine.figures if " issue " in figure.name]
    assert {figure.basis for figure in stated} == {"estimated"}
    assert load(f"{name}x1@eager").name == f"{name}@eager"


def test_a_host_may_issue_a_product_of_each_expert_and_wait_for_how_many_rows_they_have():
    product = MatrixProduct(8, 4, 4, 16, grouped=True)
    experts = Work(contractions=((None, 1, product),))
    one = Work(contractions=((None, 1, replace(product, grouped=False)),))
    host = Host(5e-6, waits_for_counts=True, each_expert=2e-6)
    assert host.issuing(experts) == pytest.approx(16 * 2e-6)
    assert host.issuing(one) == host.issuing(Work()) == Host(5e-6).issuing(experts) == 5e-6
    assert [h.waits(Work(counts=True)) for h in (host, Host(5e-6))] == [True, False]
    assert not host.waits(experts)
