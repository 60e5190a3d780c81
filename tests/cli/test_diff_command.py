import json

import pytest
from cli_samples import MACHINE, PIPELINE, SMALL

import distir as api

BOUND = ("--hardware", MACHINE, "--bind", "B=64")

LATE = PIPELINE.replace(
    """  %y_1: D2 = @layer(%w2, %b_1)
  %b_2 = Send[device = 2](%a_2)
""",
    """  %b_2 = Send[device = 2](%a_2)
  %y_1: D2 = @layer(%w2, %b_1)
""",
)
"""The pipeline with a message in the way."""

SEQUENTIAL = """\
func @main(
  %w1: Tensor[Float32, (40, 40), 1] {param},
  %w2: Tensor[Float32, (40, 40), 1] {param},
  %x: Tensor[Float32, (B, 40), 1] {batch = 0}
) {
  %h = MatMul(%x, %w1)
  %a = Relu(%h)
  %g = MatMul(%a, %w2)
  %y = Relu(%g)
  %size = Shape(%x)
  return %y, %size
}
"""


@pytest.fixture
def both(file, monkeypatch):
    """Two programs, as files in the current folder."""

    def write(first, second):
        monkeypatch.chdir(file("a.dir", first).parent)
        file("b.dir", second)
        return "a.dir", "b.dir"

    return write


@pytest.mark.parametrize(("flags", "name"), [((), "diff.txt"), (("--markdown",), "diff.md")])
def test_the_report(distir, both, golden, flags, name):
    ended = distir("diff", *both(SEQUENTIAL, PIPELINE), *BOUND, *flags)
    assert (ended.code, ended.err) == (0, "")
    golden(name, ended.out)


def test_json_says_what_simulate_says(distir, both):
    names = both(LATE, PIPELINE)
    found = json.loads(distir("diff", *names, *BOUND, "--json").out)
    for side, name in zip("ab", names, strict=True):
        alone = json.loads(distir("simulate", name, *BOUND, "--json").out)
        assert found[side]["file"] == name
        assert found[side]["latency_s"] == alone["latency_s"]
        assert found[side]["ops"] == alone["ops"] == sum(found[side]["op_counts"].values())
        for device, use in found[side]["devices"].items():
            assert use.items() <= alone["devices"][device].items()
    assert found["hardware"] == "machine"
    assert found["speedup"] == found["a"]["latency_s"] / found["b"]["latency_s"]


def test_the_paths_part_where_the_order_differs(distir, both):
    found = json.loads(distir("diff", *both(LATE, PIPELINE), *BOUND, "--json").out)["critical_paths"]
    for side, text in (("a", LATE), ("b", PIPELINE)):
        assert found[side]["op"] in text.split("\n")[found[side]["line"] - 1]
    shown = distir("diff", *both(LATE, PIPELINE), *BOUND).out
    assert f"share their first {found['shared']} ops" in shown


def test_a_program_does_not_differ_from_itself(distir, both):
    ended = distir("diff", *both(PIPELINE, PIPELINE), *BOUND)
    assert "as fast as A" in ended.out
    assert "they are the same" in ended.out
    assert "with different counts" not in ended.out
    found = json.loads(distir("diff", *both(PIPELINE, PIPELINE), *BOUND, "--json").out)
    assert found["critical_paths"]["a"] is found["critical_paths"]["b"] is None
    assert found["speedup"] == 1


def test_a_size_that_only_one_program_has_can_be_bound(distir, both):
    """But not one that neither has."""
    ended = distir("diff", *both(SMALL, PIPELINE), *BOUND)
    assert (ended.code, ended.err) == (0, "")
    ended = distir("diff", *both(SMALL, PIPELINE), *BOUND, "--bind", "N=3")
    assert ended.code == 2
    assert "N" in ended.err


def test_one_program_may_come_from_standard_input(distir, both):
    name, _ = both(PIPELINE, PIPELINE)
    ended = distir("diff", name, "-", *BOUND, stdin=LATE.encode())
    assert (ended.code, ended.err) == (0, "")


def test_a_program_that_takes_no_time_is_compared_all_the_same(distir, both):
    empty = "func @main(%x: Tensor[Float32, (2,), 1]) {\n  return %x\n}\n"
    assert distir("diff", *both(SMALL, empty), "--markdown").code == 0
    found = json.loads(distir("diff", *both(SMALL, empty), "--json").out)
    assert found["speedup"] is None
    assert found["b"]["latency_s"] == api.simulate(api.parse(empty)).latency_s == 0


def test_what_is_wrong_with_a_program_is_reported(distir, both):
    ended = distir("diff", *both(SMALL, SMALL.replace("(3, 2)", "(4, 2)")))
    assert (ended.code, ended.out) == (1, "")
    assert "b.dir" in ended.err


def test_two_forms_at_once_are_refused(distir, both):
    ended = distir("diff", *both(SMALL, SMALL), "--json", "--markdown")
    assert ended.code == 2
    assert "expected either `--json` or `--markdown`" in ended.err
