"""Two searches that are given one CSV file: one of them writes it, the other one says who does."""

import contextlib
import subprocess
import sys
import threading

import pytest

from distir.cli import main
from distir.files.locking import InUseError, open_alone

pytest.importorskip("fcntl")

WORDS = ["mlp-1b", "--hardware", "dgx2-v100", "--devices", "2", "--microbatches", "2", "--jobs", "1"]
COMMAND = "import sys; from distir.cli import main; sys.exit(main())"
HOLDER = """\
import sys
from distir.search import Log
with Log("rows.csv", resume=False):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", HOLDER], **pipes)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.communicate()


def test_a_file_that_another_search_writes_is_left_to_it(holder, capsys):
    assert main(["search", *WORDS, "--batch-size", "64", "--csv", "rows.csv"]) == 2
    assert f"another search (process {holder.pid}) writes `rows.csv`" in capsys.readouterr().err
    holder.communicate()
    assert main(["search", *WORDS, "--batch-size", "64", "--csv", "rows.csv"]) == 0


def test_a_killed_search_leaves_no_lock(holder, capsys):
    holder.kill()
    holder.wait()
    assert main(["search", *WORDS, "--batch-size", "64", "--csv", "rows.csv"]) == 0


def test_searches_that_start_together_leave_the_rows_of_those_that_succeed(tmp_path):
    command = [sys.executable, "-c", COMMAND, "search", *WORDS, "--csv", "rows.csv", "--resume", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    sizes = ("64", "128", "256")
    started = [subprocess.Popen([*command, "--batch-size", size], cwd=tmp_path, **pipes) for size in sizes]
    ended = [(process.communicate(), process.returncode, size) for process, size in zip(started, sizes, strict=True)]
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert len({line.count(",") for line in lines}) == 1
    for (_, err), code, size in ended:
        assert (code == 0) == any(line.startswith(f"mlp-1b,{size},") for line in lines)
        assert code == 0 or b"another search" in err


def test_a_file_put_in_the_place_of_a_locked_one_is_another(tmp_path):
    path = str(tmp_path / "a")
    with open_alone(path), pytest.raises(InUseError):
        open_alone(path)
    with open_alone(path):
        (tmp_path / "b").write_text("new")
        (tmp_path / "b").rename(path)
        with open_alone(path) as other:
            assert other.read() == b"new"


def test_a_search_that_never_begins_leaves_no_file(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    assert main(["search", "mlp-1b", "--batch-size", "3", "--fix", "D=4", "--csv", str(path)]) == 2
    assert not path.exists()
    path.write_text("mine\n")
    assert main(["search", "mlp-1b", "--batch-size", "3", "--fix", "D=4", "--csv", str(path)]) == 2
    assert path.read_text() == "mine\n"


def test_one_of_many_threads_gets_a_file(tmp_path):
    got, barrier = [], threading.Barrier(8)

    def take():
        barrier.wait()
        with contextlib.suppress(InUseError):
            got.append(open_alone(str(tmp_path / "a")))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    got[0].close()
