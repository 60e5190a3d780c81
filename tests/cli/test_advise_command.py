import json
from pathlib import Path

from cli_samples import SMALL

SWAPPED = Path(__file__).parents[2] / "examples" / "mlp_pipeline_swapped.dir"


def test_advice_is_listed_best_first_and_applied_by_its_number(distir, tmp_path):
    listed = distir("advise", str(SWAPPED), "--within", "5min", "--json")
    found = json.loads(listed.out)
    speedups = [advice["speedup"] for advice in found["advice"] if advice["speedup"] > 1]
    assert speedups == sorted(speedups, reverse=True)
    assert found["untried"] == []
    number, move = next((n, a) for n, a in enumerate(found["advice"], 1) if a["kind"] == "move")
    assert (move["line"], move["assurance"]) == (41, "order")

    out = tmp_path / "faster.dir"
    applied = distir("advise", str(SWAPPED), "--within", "5min", "--apply", str(number), "-o", str(out))
    assert applied.code == 0
    assert json.loads(distir("simulate", str(out), "--json").out)["latency_s"] == move["latency_s"]


def test_what_cannot_be_done_is_refused_in_a_line(distir, file):
    program = file("small.dir", SMALL)
    for words, said in (
        (("--within", "3"), "expected a duration"),
        (("--apply", "99"), "pieces of advice"),
        (("--output", "x.dir"), "`--apply`"),
    ):
        ended = distir("advise", program, *words)
        assert ended.code == 2
        assert said in ended.err
        assert "Traceback" not in ended.err
