"""Starting ranks and watching them: with scripts in the place of programs, for how they end is all that counts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lowering_samples import entry, load_runtime

from distir.lower import Launch, LaunchError, launch, lower
from distir.syntax import parse

SCRIPT = """
import argparse, json, os, signal, sys, time
from pathlib import Path

parser = argparse.ArgumentParser()
for name in ("backend", "timeout", "store", "errors", "report"):
    parser.add_argument(f"--{name}")
parser.add_argument("--supervised", action="store_true")
options = parser.parse_args()
rank = int(os.environ["RANK"])
(Path(__file__).parent / f"{rank}.pid").write_text(str(os.getpid()))


def fail(message, **more):
    told = {"message": message, "kind": "RuntimeError", "time": time.time(), **more}
    (Path(options.errors) / f"{rank}.json").write_text(json.dumps(told))
    sys.exit(1)

"""


def run(folder, body, ranks=2, timeout_s=300.0):
    (folder / "run.py").write_text(SCRIPT + body)
    return launch(Launch(folder, [5 + rank for rank in range(ranks)], timeout_s=timeout_s))


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def assert_nothing_is_left(folder, ranks=2):
    pids = [int((folder / f"{rank}.pid").read_text()) for rank in range(ranks) if (folder / f"{rank}.pid").exists()]
    assert pids
    assert not any(map(is_alive, pids))


def test_the_report_is_what_the_first_rank_writes(tmp_path):
    body = "if rank == 0:\n    Path(options.report).write_text(json.dumps({'world': os.environ['WORLD_SIZE']}))\n"
    assert run(tmp_path, body, ranks=3) == {"world": "3"}
    assert_nothing_is_left(tmp_path, 3)


def test_a_killed_rank_is_named_and_the_others_end(tmp_path):
    body = "if rank == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(3600)\n"
    with pytest.raises(LaunchError, match=r"rank 6 was killed by signal 9 \(SIGKILL\)"):
        run(tmp_path, body)
    assert_nothing_is_left(tmp_path)


def test_of_several_errors_the_first_is_reported_once(tmp_path):
    body = (
        "if rank == 2:\n    fail('no room', statement='%y = Relu(%x)', function='main')\n"
        "while not (Path(options.errors) / '2.json').exists():\n    time.sleep(0.02)\n"
        "fail('Connection reset by peer')\n"
    )
    with pytest.raises(LaunchError) as caught:
        run(tmp_path, body, ranks=3)
    assert str(caught.value) == "rank 7 failed in `%y = Relu(%x)` of `@main`: no room"


def test_running_out_of_memory_names_the_op_and_the_largest_values(tmp_path):
    body = "fail('x', statement='%y = Relu(%x)', function='f', live=[['x', 2000], ['w', 10]])\n".replace(
        '"kind": "RuntimeError"', ""
    )
    body = body.replace("fail('x',", "fail('x', kind='OutOfMemoryError',")
    with pytest.raises(LaunchError) as caught:
        run(tmp_path, body, ranks=1)
    assert str(caught.value) == "rank 5 ran out of memory in `%y = Relu(%x)` of `@f`"
    assert "`x` 2.00kB, `w` 10B" in caught.value.help


def test_a_rank_that_says_nothing_is_shown_with_its_last_words(tmp_path):
    with pytest.raises(LaunchError, match="rank 5 ended with code 3") as caught:
        run(tmp_path, "print('so it goes', file=sys.stderr)\nsys.exit(3)\n", ranks=1)
    assert caught.value.help == "so it goes"


def test_the_time_is_up(tmp_path):
    with pytest.raises(LaunchError, match=r"rank 6 did not end within 4 s"):
        run(tmp_path, "time.sleep(3600 if rank == 1 else 0)\n", timeout_s=4.0)
    assert_nothing_is_left(tmp_path)


STARTER = """
import sys
from pathlib import Path
from distir.lower import Launch, launch
launch(Launch(Path(sys.argv[1]), [1, 2], timeout_s=3600))
"""

WATCHING = """
import threading
def wait():
    while os.read(0, 1):
        pass
    os._exit(1)
threading.Thread(target=wait, daemon=True).start()
(Path(__file__).parent / f"{rank}.ready").touch()
time.sleep(3600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_ranks_end_with_the_process_that_started_them_and_leave_no_folder(tmp_path, how):
    (tmp_path / "run.py").write_text(SCRIPT + WATCHING)
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    words = [sys.executable, "-c", STARTER, str(tmp_path)]
    starter = subprocess.Popen(words, stderr=subprocess.DEVNULL, env=environment)
    try:
        wait_for(lambda: all((tmp_path / f"{rank}.ready").exists() for rank in range(2)))
    finally:
        starter.send_signal(how)
        starter.wait(120)
    pids = [int((tmp_path / f"{rank}.pid").read_text()) for rank in range(2)]
    wait_for(lambda: not any(map(is_alive, pids)))
    left = list((tmp_path / "tmp").iterdir())
    assert not left or how == signal.SIGKILL, "what a process leaves that is killed at once, the next launch removes"


def wait_for(condition, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("cores", "ranks", "threads", "own"),
    [(4, 2, 2, [2, 3]), (2, 2, 1, [1]), (4, 2, 1, None), (8, 2, 3, None), (1, 2, 1, None), (4, 1, 4, None)],
)
def test_ranks_whose_threads_fill_the_machine_have_cores_of_their_own(
    tmp_path, monkeypatch, cores, ranks, threads, own
):
    """Where cores are left over, gloo's threads may use them all."""
    lower([entry(parse("func @main(%x: Tensor[Float32, (4,), 1]) {\n  return %x\n}\n").module)]).write(tmp_path)
    runtime = load_runtime(tmp_path)
    pinned = []
    monkeypatch.setenv("LOCAL_RANK", "1" if ranks > 1 else "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
    monkeypatch.setattr(runtime.torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(runtime.os, "sched_getaffinity", lambda process: set(range(cores)), raising=False)
    monkeypatch.setattr(runtime.os, "sched_setaffinity", lambda process, which: pinned.append(which), raising=False)
    runtime.pin_to_own_cores()
    assert pinned == ([] if own is None else [own])
    assert runtime.threads_fill_cores() == (own is not None or cores <= ranks or threads >= cores)
