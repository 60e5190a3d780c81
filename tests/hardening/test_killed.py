"""Ended without warning (`kill -9`) at any moment, a command leaves the old file or the new one, never a half one.

20 times by default; `DISTIR_TEST_KILLS=200` for as many times as it is promised for.
"""

import csv
import os
import random
import time
from pathlib import Path

import psutil
import pytest
from fuzz_seeds import seeds

from distir.analysis.program import read
from distir.cli import main

ROOT = Path(__file__).parents[2]

KILLS = int(os.environ.get("DISTIR_TEST_KILLS", "20"))

UNTIDY = (
    "func @main(%x: Tensor[Float32,(4,),1]) {\n"
    + "".join(f"%v{i + 1}   =Relu( {'%x' if i == 0 else f'%v{i}'} )   // statement {i}\n" for i in range(400))
    + "return %v400\n}\n"
)

MODEL = """\
func @main(%w: Tensor[Float32, (64, 64), 1] {param}, %v: Tensor[Float32, (64, 64), 1] {param},
           %x: Tensor[Float32, (B, 64), 1] {batch = 0}) {
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  %y = MatMul(%a, %v)
  return %y
}
"""


@pytest.fixture
def killed(commands):
    """Starts a command and ends it so many seconds after; True if it was done before."""

    def call(words, folder, seconds, before=""):
        return not commands.run(*words, folder=folder, kill_after=seconds, before=before).was_killed

    return call


@pytest.fixture
def duration(commands):
    """Seconds that a command takes when nobody ends it."""

    def call(words, folder, before=""):
        ended = commands.run(*words, folder=folder, before=before)
        assert ended.code == 0, (words, ended.err)
        return ended.seconds

    return call


def visible(folder):
    """The files that a user sees. A killed process may leave a hidden one that it was still writing."""
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".") and path.is_file()
    }


@pytest.fixture
def replaced(tmp_path, killed, duration):
    """Runs and kills; every file is as it was before, or as a whole run leaves it. Gives how many runs were cut off."""

    def call(words, prepare, kills):
        whole = tmp_path / "whole"
        whole.mkdir()
        prepare(whole)
        before = visible(whole)
        seconds = duration(words, whole)
        after = visible(whole)
        assert before != after, "the command changes something"
        dice, cut = random.Random(0), 0
        for number in range(kills):
            folder = tmp_path / f"run{number}"
            folder.mkdir()
            prepare(folder)
            cut += not killed(words, folder, dice.uniform(0, 1.1 * seconds))
            found = visible(folder)
            assert before.keys() <= found.keys() <= before.keys() | after.keys()
            for name, data in found.items():
                assert data in (before.get(name), after.get(name)), f"`{name}` is half-written"
        return cut

    return call


def test_fmt(replaced):
    assert replaced(["fmt", "a.dir"], lambda folder: (folder / "a.dir").write_text(UNTIDY), share(4))


def test_transform(replaced):
    def prepare(folder):
        (folder / "a.dir").write_text(MODEL)
        (folder / "b.dir").write_text("// old\n")

    words = ["transform", "grad", "dp=2", "a.dir", "-o", "b.dir"]
    replaced(words, prepare, share(4))


def test_simulate(replaced):
    def prepare(folder):
        (folder / "a.dir").write_text(MODEL)
        (folder / "t.json").write_text("{}")

    words = ["simulate", "a.dir", "--bind", "B=64", "--trace", "t.json", "--html", "t.html"]
    replaced(words, prepare, share(3))


def test_lower(replaced):
    """Each file of the folder is whole. (It is run only after the command has ended well.)"""

    def prepare(folder):
        (folder / "a.dir").write_text(MODEL)

    words = ["lower", "a.dir", "-o", ".", "--bind", "B=64"]
    replaced(words, prepare, share(3))


def test_import(replaced):
    """Weights stand there before the program that needs them, each file whole."""

    def prepare(folder):
        (folder / "m.onnx").write_bytes(seeds("onnx")[0])

    replaced(["import", "onnx", "m.onnx", "-o", "a.dir"], prepare, share(2))


def test_run(tmp_path, killed, duration):
    def prepare(folder):
        (folder / "a.dir").write_text(MODEL)
        (folder / "out.npz").write_bytes(b"old")

    words = ["run", "a.dir", "--bind", "B=64", "-o", "out.npz"]
    whole = tmp_path / "once"
    whole.mkdir()
    prepare(whole)
    import numpy as np

    dice = random.Random(0)
    seconds = duration(words, whole)
    for _ in range(share(2)):
        prepare(whole)
        killed(words, whole, dice.uniform(0, 1.1 * seconds))
        data = (whole / "out.npz").read_bytes()
        if data != b"old":  # an archive holds the time of its making
            with np.load(whole / "out.npz") as archive:
                assert all(archive[name].size for name in archive.files)


CALIBRATE_LITTLE = """
import os
import tempfile
import distir.cost.calibrate as calibration
from distir.cli import calibrate

whole = calibration.computing
calibration.computing = lambda *words, **options: [b for b in whole(*words, **options) if b.op in ("Add", "MatMul")]
calibrate.QUICK_ELEMENTS = 1 << 12
os.environ["TMPDIR"] = os.path.abspath("scratch")
tempfile.tempdir = None  # so that it is asked for again
"""


def test_calibrate(tmp_path, killed, duration):
    """The profile is the old one or a whole new one, and the ranks that measured end by themselves."""
    pytest.importorskip("torch")
    from distir.cost import load

    (tmp_path / "scratch").mkdir()
    old = (ROOT / "distir" / "cost" / "profiles" / "laptop-cpu.toml").read_bytes()
    profile = tmp_path / "here.toml"
    profile.write_bytes(old)
    words = ["calibrate", "--quick", "--rounds", "2", "-o", "here.toml"]
    seconds = duration(words, tmp_path, CALIBRATE_LITTLE)
    assert profile.read_bytes() != old
    dice = random.Random(0)
    for _ in range(share(2)):
        profile.write_bytes(old)
        done = killed(words, tmp_path, dice.uniform(0, 1.1 * seconds), CALIBRATE_LITTLE)
        assert load(profile)
        assert not done or profile.read_bytes() != old
        assert ended(str(tmp_path / "scratch")), "a rank goes on"


def ended(folder, seconds=300):
    """Whether all processes that run something in a folder end in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(folder in " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])):
            return True
        time.sleep(0.1)
    return False


def test_search(tmp_path, commands, killed, duration):
    """Rows are whole lines but perhaps the last; `--resume` goes on from there and ends with what one run gives."""
    (tmp_path / "a.dir").write_text(MODEL)
    words = ["search", "a.dir", "--devices", "4", "--batch-size", "64,128", "--jobs", "1", "--csv"]
    whole = tmp_path / "whole.csv"
    seconds = duration([*words, "whole.csv"], tmp_path)
    expected = sorted(whole.read_text().splitlines())
    dice = random.Random(0)
    for number in range(share(2)):
        name = f"cut{number}.csv"
        killed([*words, name], tmp_path, dice.uniform(0, 1.1 * seconds))
        path = tmp_path / name
        if not path.exists():
            continue
        whole_lines = path.read_text().rpartition("\n")[0].splitlines()
        assert set(whole_lines) <= set(expected)
        assert len({len(row) for row in csv.reader(whole_lines)}) <= 1
        assert commands.run(*words, name, "--resume", folder=tmp_path).code == 0
        assert sorted(path.read_text().splitlines()) == expected


def test_a_line_cut_anywhere_is_mended(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.dir").write_text(MODEL)
    words = ["search", "a.dir", "--devices", "2", "--batch-size", "64", "--microbatches", "2,4", "--jobs", "1"]
    assert main([*words, "--csv", "whole.csv"]) == 0
    whole = (tmp_path / "whole.csv").read_bytes()
    for cut in sorted(random.Random(0).sample(range(len(whole)), 8)):
        (tmp_path / "cut.csv").write_bytes(whole[:cut])
        code = main([*words, "--csv", "cut.csv", "--resume"])
        err = capsys.readouterr().err
        if cut <= whole.index(b"\n"):  # the list of columns itself is cut off: that could be any file
            assert code == (2 if cut else 0), err
        else:
            assert code == 0, err
            assert sorted((tmp_path / "cut.csv").read_bytes().splitlines()) == sorted(whole.splitlines())


def share(parts):
    """Of all kills, so many in twenty."""
    return max(1, KILLS * parts // 20)


def test_the_program_is_sound():
    assert not read(MODEL, "a.dir").errors
    assert not read(UNTIDY, "a.dir").errors
