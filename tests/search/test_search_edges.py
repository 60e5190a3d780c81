"""`distir search` where something is wrong: bad requests, full disks, interrupts; what was found is kept."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from search_samples import MLP
from thorough import also

import distir as api
from distir.cli.searching import _none_fits
from distir.cost import load
from distir.models import mlp
from distir.search.evaluate import evaluate
from distir.search.searching import Search
from distir.search.space import Space
from distir.search.subject import Subject
from distir.search.table import Table
from distir.transform import transform

HARDWARE = ("--hardware", "dgx2-v100")
TWO_LAYERS = """
func @main(%x: Tensor[Float32, (B, 64), 1] {batch = 0}, %w1: Tensor[Float32, (64, 64), 1] {param},
           %w2: Tensor[Float32, (64, 64), 1] {param}) {
  %a = MatMul(%x, %w1)
  %b = MatMul(%a, %w2)
  return %b
}
"""


@pytest.fixture
def search(distir, monkeypatch, tmp_path):
    """Runs `distir search` in this process and an empty folder with two programs in it."""
    monkeypatch.chdir(tmp_path)
    Path("two.dir").write_text(TWO_LAYERS)
    Path("mlp.dir").write_text(api.format(MLP))
    return lambda *words: distir("search", *words, "--jobs", "1")


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_devices_that_are_no_power_of_two(search):
    found = search("mlp.dir", "--devices", "12", "--batch-size", "48", *HARDWARE)
    assert found.code == 2
    assert "12 devices are no product of powers of two" in found.err
    assert "--all-divisors" in found.err
    allowed = search("mlp.dir", "--devices", "12", "--batch-size", "48", "--all-divisors", "--fix", "P=1", *HARDWARE)
    assert allowed.code == 0
    assert "3/4/1/1" in allowed.out


def test_more_devices_than_the_hardware_has(search):
    found = search("mlp.dir", "--devices", "64", "--batch-size", "64", *HARDWARE)
    assert found.code == 2
    assert "`dgx2-v100` has 16 devices, 64 are asked for" in found.err
    assert "larger hardware" in found.err


def test_without_a_number_all_devices_of_the_hardware_are_used(search):
    assert "on laptop-cpu, 4 devices" in search("mlp.dir", "--batch-size", "64", "--hardware", "laptop-cpu").out
    assert "on dgx-a100, 8 devices" in search("mlp.dir", "--batch-size", "64", "--fix", "P=1").out


def test_fewer_layers_than_stages(search):
    some = search("two.dir", "--devices", "4", "--batch-size", "64", "--microbatches", "2", *HARDWARE)
    assert some.code == 0
    assert "1 infeasible" in some.out
    assert "`@main` has 2 statements with weights, too few for 4 stages" in some.out
    none = search("two.dir", "--devices", "4", "--batch-size", "64", "--fix", "P=4", *HARDWARE)
    assert none.code == 1  # it ran, and there is nothing to find
    assert "none is feasible" in none.out
    assert "too few for 4 stages" in none.out


def test_nothing_that_fits_into_memory_ends_as_nothing_feasible(search):
    words = ("mlp.dir", "--devices", "2", "--batch-size", "64", "--max-memory", "1kB", *HARDWARE)
    found = search(*words)
    assert found.code == 1
    assert "none fits into memory" in found.out
    exported = search(*words, "--export", "megatron")
    assert (exported.code, exported.out) == (1, "")
    assert "no configuration fits into memory" in exported.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--pp 1 --microbatches 4", "`--microbatches` is for pipelines, and P is 1 in all plans"),
        ("--dp 4 --microbatches 4", "`--microbatches` is for pipelines"),
        ("--pp 2,4 --accumulate 4", "`--accumulate` is for plans without a pipeline, and P exceeds 1 in all"),
        ("--pp 1 --schedule zb-h1", "`--schedule` is for pipelines"),
        ("--pp 1 --balance cost", "`--balance` is for pipelines"),
        ("--pp 1 --sums stage", "`--sums stage` is for several microbatches, and K is 1 in all plans"),
        ("--dp 1 --zero 0,1", "`--zero` is for replicas, and D is 1 in all plans"),
        ("--shard 2", "`--shard` is for ZeRO, which no plan has"),
        ("--tp 1 --sequence-parallel", "`--sequence-parallel` is for tensor parallelism"),
        ("--cp-kind ring", "`--cp-kind` is for shared sequences, and CP is 1 in all plans"),
        ("--cp-experts", "`--cp-experts` is for experts and shared sequences"),
        ("--etp 1", "`--etp` is for experts over devices and tensor parallelism"),
        ("--skew 1.5", "`--skew` is for experts over devices"),
        ("--devices 1 --overlap", "`--overlap` is for communication, and all plans have one device"),
        ("--passes --no-overlap", "`--passes` excludes `--no-overlap`"),
        ("--tp 1 --passes", "`--passes` is for layers that communicate"),
        ("--cp 2", "`@main` has no attention that could be split along the sequence; leave out `--cp`"),
        (
            "--schedule seq1f1b --pp 2",
            "no attention that could be split along the sequence; leave out `--schedule seq1f1b`",
        ),
        ("--steps 5", "`--steps` is for annealing, and the method is `grid`"),
        ("--seed 1", "`--seed` is for annealing"),
        ("--method annneal", "did you mean `anneal`?"),
        ("--fix D=2 --fix D=4", "`--fix D=` is given twice"),
        ("--fix K=2 --microbatches 4", "`--microbatches` excludes `--fix K=`"),
        ("--row 3", "`--row 3` is for `--export`"),
        ("--pareto time,time", "`--pareto` expected two different measures"),
        ("--pareto cost,time", "no price of `dgx2-v100` is known"),
        ("--tokens 15T", "`--tokens` is for programs whose inputs are tokens"),
        ("--price 2USD/h", "`--price` is for programs whose inputs are tokens"),
        ("--max-memory 0GB", "`--max-memory` expected more than nothing"),
        ("--measure 1 --measure-timeout 0s", "`--measure-timeout` expected more than no time"),
        ("--measure-backend nccl", "`--measure-backend nccl` is for `--measure N`"),
    ],
)
def test_what_would_change_nothing_is_said_before_anything_runs(search, monkeypatch, words, said):
    def never(*_):
        raise AssertionError("a search began")

    monkeypatch.setattr("distir.search.Search.rows", never)
    given = words.split() if "--devices" in words else ["--devices", "4", *words.split()]
    found = search("mlp.dir", "--batch-size", "64", *given, *HARDWARE)
    assert (found.code, found.out) == (2, "")
    assert said in found.err.replace("\n  help: ", "; ")


def test_options_that_some_plans_use_are_no_mistakes(search):
    words = "--microbatches 2 --accumulate 2 --zero 0,1 --overlap --schedule 1f1b,zb-h1 --sums layer,stage"
    assert search("mlp.dir", "--devices", "2", "--batch-size", "64", *words.split(), *HARDWARE).code == 0


def test_gpus_that_are_not_there_are_missed_before_the_search(search, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("distir.lower.launching.gpus", lambda: 1)
    words = ("--devices", "2", "--batch-size", "64", "--measure", "1", "--measure-backend", "nccl", *HARDWARE)
    found = search("mlp.dir", *words)
    assert found.code == 2
    assert "`--measure-backend nccl` needs a GPU for each of 2 ranks, and torch finds 1 here" in found.err


def test_more_processes_than_a_machine_could_serve(distir, search):
    found = distir("search", "mlp.dir", "--devices", "2", "--batch-size", "64", "--jobs", "100000", *HARDWARE)
    assert found.code == 2
    assert "`--jobs` expected" in found.err
    assert "8 for each core, found 100000" in found.err


def test_sizes_of_a_model_are_not_bound(search):
    found = search("mlp-1b", "--devices", "2", "--batch-size", "64", "--bind", "B=3", *HARDWARE)
    assert found.code == 2
    assert "`--bind` is for a program, and `mlp-1b` is a model by its name" in found.err


def test_far_more_stages_than_layers_are_refused_at_once(search):
    """The order of 4000 stages was made first, which took minutes."""
    words = "--pp 4 --schedule interleaved --virtual 1000 --microbatches 8"
    found = search("mlp.dir", "--devices", "4", "--batch-size", "64", *words.split(), *HARDWARE)
    assert "too few for 4000 stages" in found.out


@pytest.mark.parametrize("method", ["grid", "bounded"])
def test_where_nothing_fits_it_is_said_how_much_would_do(search, method):
    words = ("mlp.dir", "--devices", "2", "--batch-size", "64", "--method", method, *HARDWARE)
    found = search(*words, "--max-memory", "1kB", "--json")
    assert found.code == 1
    least = json.loads(found.out)["least_memory"]
    assert 1000 < least["bound"] <= least["nbytes"]
    enough = search(*words, "--max-memory", f"{least['nbytes']}B", "--json")
    assert enough.code == 0
    assert json.loads(enough.out)["best"]["peak_memory_bytes"] <= least["nbytes"]
    assert search(*words, "--max-memory", f"{least['bound'] - 1}B").code == 1
    said = search(*words, "--max-memory", "1kB").out
    assert "none fits into memory: " in said
    assert " needs " in said
    assert "and none less than" in said


def test_a_batch_smaller_than_its_parts(search):
    found = search("mlp.dir", "--devices", "4", "--batch-size", "2", "--microbatches", "2,4", *HARDWARE)
    assert found.code == 0
    assert "4 configurations\n" in found.out
    assert "5 more are skipped: D·K does not divide the batch" in found.out
    none = search("mlp.dir", "--devices", "4", "--batch-size", "3", "--fix", "D=4", *HARDWARE)
    assert none.code == 2
    assert "no batch of 3 can be cut into D·K equal parts" in none.err


def test_a_file_of_an_earlier_version_is_said_to_be_one(search):
    words = ("mlp.dir", "--batch-size", "64", "--microbatches", "2", "--devices", "2", *HARDWARE, "--csv", "rows.csv")
    assert search(*words).code == 0
    lines = Path("rows.csv").read_text().splitlines()
    kept = len(lines[0].split(",")) - 2
    Path("rows.csv").write_text("".join(",".join(line.split(",")[:kept]) + "\n" for line in lines))
    before = Path("rows.csv").read_text()
    found = search(*words, "--resume")
    assert found.code == 2
    said = "was written by another version of DistIR, without the columns weights_share, framework"
    assert said in found.err
    assert "search anew without `--resume`, or name another file" in found.err
    assert Path("rows.csv").read_text() == before
    Path("rows.csv").write_text("a,b\n1,2\n")
    assert "`rows.csv` is not the CSV of a search" in search(*words, "--resume").err


def test_a_program_that_is_distributed_already(search):
    Path("pipeline.dir").write_text((Path(__file__).parents[2] / "examples" / "mlp_pipeline.dir").read_text())
    found = search("pipeline.dir", "--devices", "4", *HARDWARE)
    assert found.code == 2
    assert "`@mlpPP` is distributed already, over devices 1, 2" in found.err


def test_rows_for_other_devices_stay_in_the_file_and_are_not_listed(search):
    words = ("mlp.dir", "--batch-size", "64", "--microbatches", "2", *HARDWARE, "--csv", "rows.csv")
    assert search(*words, "--devices", "4").code == 0
    found = search(*words, "--devices", "2", "--resume", "--method", "bounded")
    assert found.code == 0
    assert "4/1/1/1" not in found.out
    assert found.out.splitlines()[3].split()[1] in ("2/1/1/1", "1/2/1/1", "1/1/2/2")
    assert {int(row["D"]) * int(row["T"]) * int(row["P"]) for row in rows("rows.csv")} == {2, 4}
    again = search(*words, "--devices", "4", "--resume")
    assert "6 configurations" in again.out
    assert len(rows("rows.csv")) == len({tuple(row.items()) for row in rows("rows.csv")})


def test_rows_of_other_hardware_are_refused(search):
    words = ("mlp.dir", "--batch-size", "64", "--devices", "2", "--microbatches", "2", "--csv", "rows.csv")
    search(*words, *HARDWARE)
    found = search(*words, "--hardware", "dgx-a100", "--resume")
    assert found.code == 2
    assert "is of another search" in found.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_file_that_cannot_be_begun_is_named(search):
    found = search("mlp.dir", "--batch-size", "64", "--devices", "2", *HARDWARE, "--csv", "/dev/full")
    assert found.code == 2
    assert found.err == "error: cannot write `/dev/full`: no space left on device\n"


def test_a_disk_that_fills_up_keeps_the_rows(search, tmp_path):
    """A limit on the size of files is what a process sees of a full disk, wherever the tests run."""
    resource = pytest.importorskip("resource")
    words = ["search", "mlp.dir", "--batch-size", "64,128", "--devices", "4", *HARDWARE, "--csv", "rows.csv"]
    text = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        f"from distir.cli import main\nsys.exit(main({[*words, '--jobs', '2']!r}))\n"
    )
    del resource
    unwritten = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}  # or it leaves modules cut off at that size
    done = subprocess.run(
        [sys.executable, "-c", text], env=unwritten, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 2
    kept = Path("rows.csv").read_text().count("\n") - 1
    assert kept >= 2
    assert f"error: cannot write `rows.csv`: file too large\n  help: its {kept} rows are saved" in done.stderr
    assert "Warning" not in done.stderr
    before = Path("rows.csv").read_text().splitlines()[: kept + 1]
    assert search(*words[1:], "--resume").code == 0
    assert Path("rows.csv").read_text().splitlines()[: kept + 1] == before


BACKENDS = [
    pytest.param(["--jobs", "2"], id="processes"),
    pytest.param(
        ["--backend", "dask"],
        id="dask",
        marks=[pytest.mark.skipif(find_spec("distributed") is None, reason="needs dask"), pytest.mark.thorough],
    ),
    pytest.param(
        ["--backend", "ray"], id="ray", marks=pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
    ),
]


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_ends_all_workers_and_keeps_the_rows(search, backend):
    """A terminal sends the interrupt to all processes of the command at once."""
    process = _started(*backend)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert b"Traceback" not in err, err.decode()
    kept = Path("rows.csv").read_text().count("\n") - 1
    assert kept >= 2
    assert f"interrupted: tried {kept} of ".encode() in err
    assert b"--csv rows.csv --resume" in err
    assert _members(process.pid) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, *also(signal.SIGINT)])
def test_a_signal_to_the_command_alone_ends_its_workers_too(search, number):
    process = _started("--jobs", "2")
    process.send_signal(number)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert b"Traceback" not in err, err.decode()
    assert Path("rows.csv").read_text().count("\n") > 2
    assert _members(process.pid) == []


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for the workers in /proc")
def test_ctrl_c_while_workers_start(search):
    """They load their modules then, and would each print where they were."""
    process = _begun("--jobs", "2")
    _wait_until(process, lambda: any(_loads(member) for member in _of_session(process.pid)))
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert re.fullmatch(r"interrupted: tried \d of \d+ configurations\n", err.decode()), err.decode()
    assert _members(process.pid) == []


def _started(*backend):
    """A search that has some rows and would go on for long."""
    process = _begun(*backend)
    path = Path("rows.csv")
    _wait_until(process, lambda: path.exists() and path.read_text().count("\n") >= 4)
    return process


def _wait_until(process, met):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not met():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)


def _begun(*backend):
    words = ["search", "mlp.dir", "--devices", "16", "--batch-size", "2048,4096,8192", "--microbatches"]
    words += [",".join(map(str, range(2, 129, 2))), "--schedule", "1f1b,gpipe", "--fix", "P=2,4", *HARDWARE, *backend]
    code = "import sys; from distir.cli import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", code, *words, "--csv", "rows.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _members(session):
    """The processes of a session that still run, given a moment to end."""
    deadline = time.monotonic() + 120
    while (found := _of_session(session)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _of_session(session):
    """The processes of a session, each as a folder of /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(entry)
    return found


def _loads(member):
    """Whether a process is a worker that has begun to load its modules."""
    try:
        return b"popen_loky" in (member / "cmdline").read_bytes() and b"multiarray" in (member / "maps").read_bytes()
    except OSError:
        return False


def test_a_ray_cluster_finds_the_same_rows():
    pytest.importorskip("ray")
    from distir.search import Space, Workers

    space = Space(4, (64,), (2,))
    here = api.search(MLP, hardware="dgx2-v100", space=space, workers=Workers(jobs=1))
    there = api.search(MLP, hardware="dgx2-v100", space=space, workers=Workers(backend="ray"))
    assert sorted(map(str, here)) == sorted(map(str, there))


def test_workers_of_a_ray_cluster_may_be_killed():
    """Ray starts others in their place, and their tasks again."""
    pytest.importorskip("ray")
    from dataclasses import replace

    from distir.cost import load
    from distir.search import Search, Space, Subject, Workers

    alone = Search(Subject("", MLP, load("dgx2-v100")), Space(4, (64, 128), (2, 4)), workers=Workers(jobs=1))
    found, killed = [], []
    for row in replace(alone, workers=Workers(backend="ray")).rows():
        if not found:
            agents = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")  # without them a node of Ray ends itself
            below = [(number, name) for number, name in _descendants(os.getpid()) if name.startswith("ray::")]
            killed = [number for number, name in below if not name.startswith(agents)]
            for number in killed:
                os.kill(number, signal.SIGKILL)
        found.append(row)
    assert killed
    assert sorted(map(str, found)) == sorted(map(str, alone.rows()))


def _descendants(ancestor):
    """The processes below one, with their commands."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
    found = []
    for number, command in commands.items():
        above = number
        while above in parents and above != ancestor:
            above = parents[above]
        if above == ancestor and number != ancestor:
            found.append((number, command))
    return found


@pytest.mark.parametrize(("backend", "package"), [("dask://127.0.0.1:1", "distributed"), ("ray", "ray")])
def test_a_cluster_that_cannot_be_reached_is_said(search, backend, package):
    if find_spec(package) is not None and package == "ray":
        pytest.skip("ray is there")
    found = search("mlp.dir", "--devices", "2", "--batch-size", "64", *HARDWARE, "--backend", backend)
    assert found.code == 2
    assert f"the backend `{backend}` needs the package" in found.err or f"cannot reach `{backend}`" in found.err


@pytest.mark.parametrize(
    ("throughput", "shown"),
    [(15912.3, "15,910/s"), (6.38e6, "6,380,000/s"), (999.96, "1,000/s"), (12.3456, "12.35/s"), (0.5, "0.5/s")],
)
def test_rates_are_written_as_people_write_them(throughput, shown):
    from distir.search.rows import show_rate

    assert show_rate(throughput) == shown


def test_a_plan_that_would_fit_and_was_not_tried_is_no_proof_that_none_fits():
    module, machine = transform(mlp(4, 64), "grad"), load("dgx-a100")
    space = Space(2, (64,), fixed={"D": (1, 2), "T": (1, 2), "P": (1,)})
    rows = [row for plan in space.plans() for row in evaluate(Subject("m", module, machine), plan, (64,))]
    *_, most = sorted(rows, key=lambda row: row.peak_memory_bytes)
    small = machine.with_memory(most.peak_memory_bytes - 1)
    chosen = Search(Subject("m", module, small), space)
    said = _none_fits(Table((replace(most, fits=False),)), chosen)
    assert said.startswith("none of those tried fits into memory: ")
    assert said.endswith("and was not tried; a larger `--budget` tries more")
