"""Folders for a while: none is left, however the process ends that made them."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from distir.files.scratch import LOCK, SETTLED_S, scratch_folder

HOLDER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background commands ignore it
from distir.files.scratch import scratch_folder
with scratch_folder("test") as folder:
    (folder / "inside").mkdir()
    (folder / "inside" / "file").write_text("x")
    print(folder, flush=True)
    time.sleep(3600)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def folders(path):
    return [found.name for found in path.iterdir()]


def holder():
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE
    )
    assert process.stdout.readline().strip()
    return process


def end(process, how):
    process.send_signal(how)
    process.communicate(timeout=60)


def age(path):
    before = time.time() - 2 * SETTLED_S
    for lock in path.glob(f"*/{LOCK}"):
        os.utime(lock, (before, before))


def test_a_folder_is_gone_after_its_block_and_after_an_error_in_it(temporary):
    with scratch_folder("test") as folder:
        (folder / "file").write_text("x")
        assert folder.parent == temporary
    with pytest.raises(KeyError), scratch_folder("test"):
        raise KeyError("x")
    assert folders(temporary) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_ended_leaves_none(temporary, how):
    end(holder(), how)
    assert folders(temporary) == []


def test_what_a_killed_process_left_goes_with_the_next_folder_and_what_is_in_use_stays(temporary):
    end(holder(), signal.SIGKILL)
    (killed,) = folders(temporary)
    other = holder()
    try:
        (used,) = {*folders(temporary)} - {killed}
        (temporary / "distir-of-somebody").mkdir()
        age(temporary)
        with scratch_folder("test"):
            pass
        assert {*folders(temporary)} == {used, "distir-of-somebody"}
    finally:
        end(other, signal.SIGTERM)
